"""Files as people have them: every one is read rightly, or asked about precisely."""

from __future__ import annotations

import bz2
import gzip
import json
import lzma
import os
import resource
import subprocess
import sys
import time
import zipfile

import numpy as np
import pandas as pd
import pytest

from outcode import datasets
from outcode.datasets import DataError, Limits

pa = pytest.importorskip("pyarrow")


def write(folder, name, content):
    path = folder / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def said(data):
    return " ".join((*data.about, *map(str, data.findings)))


def column(data, name):
    return data.table.columns[data.table.names.index(name)]


def frame(n=60):
    return pd.DataFrame(
        {
            "x": np.round(np.arange(n) * 0.37 % 1, 3),
            "k": [["red", "dark blue", "grün"][i * i % 3] for i in range(n)],
            "class": [["a", "b c", "d"][i % 3] for i in range(n)],
        }
    )


CSV = frame().to_csv(index=False)


# --- encodings

WORDS = {
    "latin-1": ["Zürich", "Köln", "Málaga", "Besançon"],
    "cp1252": ["it’s", "5 €", "a – b", "naïve…"],
    "mac-roman": ["Zürich", "Orléans", "Cádiz", "Malmö"],
    "cp1250": ["Łódź", "Gdańsk", "Wrocław", "Poznań"],
    "cp1251": ["Москва", "Казань", "Самара", "Пермь"],
    "gb18030": ["北京", "上海", "广州", "成都"],
    "utf-16": ["Zürich", "北京", "Łódź", "a"],
    "utf-16-le": ["Zürich", "Köln", "Málaga", "a"],
}


@pytest.mark.parametrize("encoding", WORDS)
def test_the_encoding_is_detected_and_said(tmp_path, encoding):
    words = WORDS[encoding]
    rows = "".join(f"{i * 0.37 % 1:.3f};{words[i % 4]};{'ab'[i % 2]}\n" for i in range(40))
    path = write(tmp_path, "d.csv", f"x;city;class\n{rows}".encode(encoding))
    data = datasets.read(path)
    assert column(data, "city").tolist() == [words[i % 4] for i in range(40)]
    assert ("The text is not UTF-8: read as" in said(data)) == (not encoding.startswith("utf"))
    assert datasets.read(path, encoding=encoding).hash == data.hash


def test_one_letter_tells_the_encoding(tmp_path):
    for encoding in ("latin-1", "mac-roman"):
        content = (CSV.replace("grün", "gruen") + "0.5,rosé,a\n").encode(encoding)
        data = datasets.read(write(tmp_path, "d.csv", content))
        assert column(data, "k")[-1] == "rosé"


# --- numbers

NUMBERS = {
    "decimal commas": ("x;class", ["28,801", "3,14159", "-0,5", "7"], [28.801, 3.14159, -0.5, 7]),
    "three decimals": ("x;class", ["28,801", "12,345", "3,250"], [28.801, 12.345, 3.25]),
    "German": ("x;class", ["1.234,5", "30.000", "7"], [1234.5, 30000, 7]),
    "points alone": ("x;class", ["30.000", "1.250.000", "7.500"], [30000, 1250000, 7500]),
    "round thousands": ("x;class", ["30.000", "28.500", "1.250"], [30000, 28500, 1250]),
    "English": ('x,class', ['"1,234.5"', '"30,000"', "7"], [1234.5, 30000, 7]),
    "blanks": ("x;class", ["1 234,5", "30 000", "7"], [1234.5, 30000, 7]),
    "Swiss": ("x;class", ["1'234.5", "30'000.25", "7"], [1234.5, 30000.25, 7]),
    "three decimals in a , file": ("x,class", ["5.123", "12.456", "3.251"], [5.123, 12.456, 3.251]),
    "currency": ("x,class", ["$4.99", '"$1,200.00"', "$0"], [4.99, 1200, 0]),
    "percent": ("x;class", ["12,5%", "3%", "0,25 %"], [12.5, 3, 0.25]),
    "installs": ('x,class', ['"10,000+"', '"5,000,000+"', "50+"], [10000, 5000000, 50]),
}  # fmt: skip


@pytest.mark.parametrize("what", NUMBERS)
def test_numbers_with_marks_are_read_and_said(tmp_path, what):
    header, cells, values = NUMBERS[what]
    delimiter = header[1]
    rows = "".join(f"{cells[i % len(cells)]}{delimiter}{'ab'[i % 2]}\n" for i in range(60))
    data = datasets.read(write(tmp_path, "d.csv", f"{header}\n{rows}"))
    assert data.table.kinds == ("numeric",)
    np.testing.assert_allclose(column(data, "x")[: len(values)], values)
    plain = what == "three decimals in a , file"
    assert ("before the decimals" in said(data)) != plain


def test_doubtful_marks_are_said_and_can_be_given(tmp_path):
    rows = "".join(f"{i + 10}.{i}00;{'ab'[i % 2]}\n" for i in range(1, 10)) * 4
    path = write(tmp_path, "d.csv", "price;class\n" + rows)
    data = datasets.read(path)
    assert column(data, "price")[0] == 11100
    assert "The numbers of price have one mark before three digits" in said(data)
    assert column(datasets.read(path, decimal="."), "price")[0] == 11.1
    given = datasets.read(path, decimal=",", thousands=".")
    assert column(given, "price")[0] == 11100


def test_one_column_tells_the_marks_of_another(tmp_path):
    rows = "".join(f"{i + 10}.{i % 10}00;{i},5;{'ab'[i % 2]}\n" for i in range(1, 40))
    data = datasets.read(write(tmp_path, "d.csv", "price;weight;class\n" + rows))
    assert column(data, "price")[0] == 11100
    assert column(data, "weight")[0] == 1.5


def test_a_model_reads_new_numbers_with_the_marks_it_was_fitted_on(tmp_path):
    rows = "".join(f"{i}.250,{i % 10};{'ab'[i % 2]}\n" for i in range(1, 60))
    data = datasets.read(write(tmp_path, "d.csv", "x;class\n" + rows))
    encoder = datasets.TableEncoder(None).fit(data.table)
    new = datasets.read_unlabelled(write(tmp_path, "new.csv", "x;y\n30.000;1\n"))
    assert encoder.transform(new).tolist() == [[30000.0]]
    point = datasets.read_unlabelled(write(tmp_path, "new.csv", "x,y\n30.25,1\n"))
    assert encoder.transform(point).tolist() == [[30.25]]


# --- formats


def records(data):
    return data.to_dict("records")


def as_json(data, path):
    path.write_text(json.dumps(records(data)))


def as_json_lines(data, path):
    path.write_text("".join(json.dumps(record) + "\n" for record in records(data)))


def as_nested_json(data, path):
    path.write_text(json.dumps({"count": len(data), "data": records(data)}))


def as_json_columns(data, path):
    path.write_text(json.dumps(data.to_dict("list")))


def as_old_workbook(data, path):
    xlwt = pytest.importorskip("xlwt")
    book = xlwt.Workbook()
    sheet = book.add_sheet("one")
    for i, row in enumerate([list(data.columns), *data.to_numpy().tolist()]):
        for j, cell in enumerate(row):
            sheet.write(i, j, cell)
    book.save(str(path))


def as_zip(data, path):
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("inside/d.csv", data.to_csv(index=False))
        archive.writestr("__MACOSX/._d.csv", "rubbish")


def as_zstandard(data, path):
    with pa.CompressedOutputStream(str(path), "zstd") as out:
        out.write(data.to_csv(index=False).encode())


def packed(by):
    return lambda data, path: path.write_bytes(by(data.to_csv(index=False).encode()))


FORMATS = {
    "d.csv": lambda data, path: data.to_csv(path, index=False),
    "d.tsv": lambda data, path: data.to_csv(path, index=False, sep="\t"),
    "d.json": as_json,
    "d.jsonl": as_json_lines,
    "lines.json": as_json_lines,
    "nested.json": as_nested_json,
    "columns.json": as_json_columns,
    "json-without-a-name": as_json,
    "d.xlsx": lambda data, path: data.to_excel(path, index=False),
    "d.xls": as_old_workbook,
    "d.parquet": lambda data, path: data.to_parquet(path, index=False),
    "parquet-without-a-name": lambda data, path: data.to_parquet(path, index=False),
    "d.feather": lambda data, path: data.to_feather(path),
    "d.csv.gz": packed(gzip.compress),
    "d.csv.bz2": packed(bz2.compress),
    "d.csv.xz": packed(lzma.compress),
    "d.csv.zst": as_zstandard,
    "d.zip": as_zip,
    "gzip-named.csv": packed(gzip.compress),
}


@pytest.mark.parametrize("name", FORMATS)
def test_every_format_gives_the_same_data(tmp_path, name):
    if name.endswith(".xlsx"):
        pytest.importorskip("openpyxl")
    want = datasets.read(write(tmp_path, "want.csv", CSV))
    FORMATS[name](frame(), tmp_path / name)
    data = datasets.read(tmp_path / name)
    assert (data.table.names, data.table.kinds) == (want.table.names, want.table.kinds)
    assert data.hash == want.hash
    unlabelled = datasets.read_unlabelled(tmp_path / name)
    assert unlabelled.names == ("x", "k", "class")
    assert len(os.listdir(tmp_path)) == 2  # nothing is left behind


def test_formats_of_a_shared_set(tmp_path, data_dir):
    whole = pd.read_csv(data_dir / "segment.csv.gz")
    want = datasets.read(data_dir / "segment.csv.gz", "class")
    assert want.table.n_rows == len(whole)
    for name in ("d.json", "d.parquet", "d.feather", "d.zip"):
        FORMATS[name](whole, tmp_path / name)
        assert datasets.read(tmp_path / name, "class").hash == want.hash
    commas = whole.to_csv(index=False, sep=";", decimal=",")
    assert datasets.read(write(tmp_path, "d.csv", commas), "class").hash == want.hash
    latin = commas.replace("brickface", "façade").encode("latin-1")
    assert "façade" in datasets.read(write(tmp_path, "l.csv", latin), "class").y


def test_standard_input(tmp_path):
    program = "from outcode import datasets as d; t = d.read('-'); print(t.hash, t.source, t.name)"
    want = datasets.read(write(tmp_path, "d.csv", CSV))
    for content in (
        CSV.encode(),
        gzip.compress(CSV.encode()),
        json.dumps(records(frame())).encode(),
    ):
        done = subprocess.run(
            [sys.executable, "-c", program], input=content, capture_output=True, check=True
        )
        assert done.stdout.decode().split(" ", 1) == [want.hash, "standard input standard input\n"]


def test_a_sheet_is_chosen(tmp_path):
    pytest.importorskip("openpyxl")
    with pd.ExcelWriter(tmp_path / "d.xlsx") as book:
        pd.DataFrame().to_excel(book, sheet_name="empty")
        frame().to_excel(book, sheet_name="first", index=False)
        frame(30).to_excel(book, sheet_name="second", index=False, startrow=3)
    data = datasets.read(tmp_path / "d.xlsx")
    assert data.table.n_rows == 60
    assert "The sheet is 'first'. The others are empty, second." in data.about
    for sheet in ("second", "2", 2):
        assert datasets.read(tmp_path / "d.xlsx", sheet=sheet).table.n_rows == 30
    with pytest.raises(DataError, match=r"Unknown sheet 'secnd'. Did you mean 'second'"):
        datasets.read(tmp_path / "d.xlsx", sheet="secnd")


def test_a_workbook_with_a_title_and_dates(tmp_path):
    pytest.importorskip("openpyxl")
    days = pd.date_range("2020-01-31", periods=40, freq="D")
    table = frame(40).assign(day=days, flag=[True, False] * 20)[["day", "flag", "x", "class"]]
    with pd.ExcelWriter(tmp_path / "d.xlsx") as book:
        table.to_excel(book, index=False, startrow=2)
        book.sheets["Sheet1"]["A1"] = "Visits of the year"
    data = datasets.read(tmp_path / "d.xlsx")
    assert data.table.names == ("day", "flag", "x")
    assert data.table.kinds == ("date", "nominal", "numeric")
    assert column(data, "day").tolist() == days.to_pydatetime().tolist()
    assert "The first line is not part of the table" in said(data)


def test_records_that_differ(tmp_path):
    rows = [
        {"x": i, "place": {"city": "ab"[i % 2], "at": [1, i % 3]}, "class": "uv"[i % 2]}
        for i in range(12_000)
    ]
    rows[7]["late"] = 1
    rows[11_000]["x"] = None
    data = datasets.read(write(tmp_path, "d.json", json.dumps(rows)))
    assert data.table.names == ("x", "place.city", "place.at", "late")
    assert np.isnan(column(data, "x")[11_000])
    assert column(data, "x")[11_999] == 11_999
    assert column(data, "place.at")[:3].tolist() == ["1, 0", "1, 1", "1, 2"]
    assert np.flatnonzero(~np.isnan(column(data, "late"))).tolist() == [7]


# --- layout


def test_a_ragged_row_is_set_aside_and_said(tmp_path):
    rows = [f"{i},{i * 0.37 % 1:.3f},{'ab'[i % 2]}" for i in range(10_841)]
    rows[10_472] = "Life Made,1.9,3.0,x"
    data = datasets.read(write(tmp_path, "d.csv", "n,x,class\n" + "\n".join(rows) + "\n"))
    assert data.table.n_rows == 10_840
    found = next(f for f in data.findings if f.code == "OD015")
    assert found.message == (
        "1 row is ignored: row 10473 (line 10474) has 4 cells, but the header has 3."
    )


HEADERS = {
    "one cell less": ("x,k,class", ["1", "0.5", "u", "a"], ("c1", "x", "k"), "fewer cells"),
    "one cell more": ("x,k,class,", ["0.5", "u", "a"], ("x", "k"), ""),
    "one name more": ("x,k,class,more", ["0.5", "u", "a"], ("x", "k"), "['more'] name no column"),
    "rows end in a comma": ("x,k,class", ["0.5", "u", "a", ""], ("x", "k"), ""),
}


@pytest.mark.parametrize("what", HEADERS)
def test_a_header_of_another_width(tmp_path, what):
    header, row, names, message = HEADERS[what]
    rows = []
    for i in range(40):
        row[-2 if row[-1] == "" else -1] = "ab"[i % 2]
        row[names.index("x")] = str(i * 0.37 % 1)
        row[names.index("k")] = "uvw"[i * i % 3]
        rows.append(",".join(row))
    data = datasets.read(write(tmp_path, "d.csv", header + "\n" + "\n".join(rows) + "\n"), "class")
    assert set(data.table.names) <= set(names)
    assert {"x", "k"} <= set(data.table.names)
    assert message in said(data)
    assert sorted(set(data.y.tolist())) == ["a", "b"]
    assert data.table.n_rows == 40


def test_a_second_header_is_no_class(tmp_path):
    rows = "".join(f"{i * 0.37 % 1:.3f},{i % 7},{'ab'[i % 2]}\n" for i in range(40))
    data = datasets.read(write(tmp_path, "d.csv", "length,width,class\ncm,mm,name\n" + rows))
    assert sorted(set(data.y.tolist())) == ["a", "b"]
    assert data.table.kinds == ("numeric", "numeric")
    assert "Line 2 is a second header, not data: cm, mm, name." in data.about
    orange = "length,width,class\ncontinuous,continuous,discrete\n,,class\n" + rows
    assert sorted(set(datasets.read(write(tmp_path, "d.tab", orange)).y.tolist())) == ["a", "b"]


def test_a_title_and_repeated_names(tmp_path):
    rows = "".join(f"{i * 0.37 % 1:.3f},{i % 7},{'ab'[i % 2]}\n" for i in range(40))
    data = datasets.read(write(tmp_path, "d.csv", "Measured in May\n\n# x,x,class\n" + rows))
    assert data.table.names == ("x", "x (2)")
    assert "The first line is not part of the table" in said(data)
    assert "The name 'x' stands 2 times" in said(data)


# --- kinds


DATES = {
    "ISO": "%Y-%m-%d",
    "with time": "%Y-%m-%d %H:%M:%S",
    "German": "%d.%m.%Y",
    "American": "%m/%d/%Y",
    "British": "%d/%m/%Y",
    "short": "%d-%b-%y",
    "long": "%B %d, %Y",
    "number": "%Y%m%d",
    "American time": "%m/%d/%Y %I:%M %p",
}


@pytest.mark.parametrize("what", DATES)
def test_dates_are_dates(tmp_path, what):
    days = pd.date_range("2019-11-05 06:00", periods=60, freq="29h")
    texts = days.strftime(DATES[what])
    rows = "".join(f'"{t}",{i * 0.37 % 1:.3f},{"ab"[i % 2]}\n' for i, t in enumerate(texts))
    data = datasets.read(write(tmp_path, "d.csv", "when,x,class\n" + rows))
    assert data.table.kinds == ("date", "numeric")
    want = pd.to_datetime(list(texts), format=DATES[what]).to_numpy().astype("datetime64[s]")
    np.testing.assert_array_equal(column(data, "when"), want)
    assert data.findings == ()
    encoder = datasets.TableEncoder().fit(data.table)
    new = datasets.read_unlabelled(tmp_path / "d.csv")
    np.testing.assert_array_equal(encoder.transform(new), encoder.transform(data.table))


def test_identifiers_are_no_dates(tmp_path):
    rows = "".join(f"{20_200_000 + 17 * i},A-{i},{i * 0.37 % 1},{'ab'[i % 2]}\n" for i in range(60))
    data = datasets.read(write(tmp_path, "d.csv", "number,ticket,x,class\n" + rows))
    assert dict(zip(data.table.names, data.table.kinds, strict=True)) == {
        "number": "numeric", "x": "numeric"
    }  # fmt: skip


def test_free_text_is_no_category(tmp_path):
    words = ["please", "my", "card", "was", "lost", "and", "soon", "because", "of", "travel"]
    rng = np.random.default_rng(0)
    rows = "".join(f"{' '.join(rng.choice(words, 6))},{i % 9},{'ab'[i % 2]}\n" for i in range(80))
    data = datasets.read(write(tmp_path, "d.csv", "query,x,class\n" + rows))
    assert data.table.kinds == ("text", "numeric")
    encoder = datasets.TableEncoder().fit(data.table)
    assert not any("=" in name for name in encoder.get_feature_names_out())
    as_category = datasets.read(tmp_path / "d.csv", types={"query": "category"})
    assert as_category.table.names == ("x",)
    assert as_category.findings[0].code == "OD001"


def test_types_are_imposed(tmp_path):
    rows = "".join(f"{i % 4},{i % 9},{i * 0.37 % 1:.3f},{'ab'[i % 2]}\n" for i in range(60))
    path = write(tmp_path, "d.csv", "zip,n,x,class\n" + rows)
    data = datasets.read(path, types={"zip": "category", "n": "text"})
    assert data.table.kinds == ("nominal", "text", "numeric")
    with pytest.raises(DataError, match=r"d.csv, row 1, column 'x': '0.000' is not a date"):
        datasets.read(path, types={"x": "date"})
    words = path.read_text().replace("\n0,", "\nnone at all,")
    with pytest.raises(DataError, match=r"row 1, column 'zip': 'none at all' is not a number"):
        datasets.read(write(tmp_path, "d.csv", words), types={"zip": "number"})


def test_columns_and_rows_are_chosen(tmp_path):
    path = write(tmp_path, "d.csv", CSV)
    assert datasets.read(path, keep=["x"]).table.names == ("x",)
    assert datasets.read(path, drop=["x"]).table.names == ("k",)
    part = datasets.read(path, sample=20)
    assert sorted(np.unique(part.y, return_counts=True)[1].tolist()) == [6, 7, 7]
    assert "A sample of 20 of 60 rows, each class as frequent as in all." in part.about
    assert part.hash == datasets.read(path, sample=20).hash
    with pytest.raises(TypeError, match="Unknown option 'colour'"):
        datasets.read(path, colour=1)
    with pytest.raises(DataError, match=r"column to keep 'xx'. Did you mean 'x'"):
        datasets.read(path, keep=["xx"])


# --- targets


def test_the_target_is_guessed_by_its_name(tmp_path):
    data = datasets.read(write(tmp_path, "d.csv", frame()[["class", "k", "x"]].to_csv(index=False)))
    assert sorted(set(data.y.tolist())) == ["a", "b c", "d"]
    assert "The target is 'class', by its name; give the target if it is another." in data.about
    first = frame().rename(columns={"class": "kind"})[["kind", "k", "x"]]
    data = datasets.read(write(tmp_path, "d.csv", first.to_csv(index=False)))
    assert "The target is 'kind', the first column" in said(data)
    both = frame().assign(label="z")[["class", "label", "k"]]
    assert (
        datasets.read(write(tmp_path, "d.csv", both.to_csv(index=False))).table.names[0] == "class"
    )


def test_a_quantity_is_questioned_and_cut(tmp_path):
    table = frame(200).assign(price=np.arange(200) * 1.5)
    path = write(tmp_path, "d.csv", table.to_csv(index=False))
    with pytest.raises(DataError, match=r"'price' looks like a quantity.*bins=5.*regression"):
        datasets.read(path, "price")
    data = datasets.read(path, "price", bins=4)
    names, counts = np.unique(data.y, return_counts=True)
    assert counts.tolist() == [50] * 4
    assert names.tolist() == [
        "1: up to 74.625", "2: over 74.625 to 149.25", "3: over 149.25 to 223.875",
        "4: over 223.875",
    ]  # fmt: skip
    german = table.to_csv(index=False, sep=";", decimal=",")
    again = datasets.read(write(tmp_path, "g.csv", german), "price", bins=4)
    assert again.y.tolist() == data.y.tolist()
    with pytest.raises(DataError, match=r"'price' looks like a quantity"):
        datasets.read(tmp_path / "g.csv", "price")
    with pytest.raises(DataError, match="not a number in every row: leave the bins out"):
        datasets.read(path, "k", bins=3)


@pytest.mark.parametrize(
    ("written", "wanted"),
    [
        (["1.0", "2.0", "3.0"], ["1", "2", "3"]),
        (["0.5", "1", "2.0"], ["0.5", "1", "2"]),
        (["True", "False", "True"], ["False", "True"]),
        (["01", "02", "03"], ["01", "02", "03"]),
        ([" very good ", "good", "bad"], ["bad", "good", "very good"]),
    ],
)
def test_labels_of_every_sort(tmp_path, written, wanted):
    rows = "".join(f"{i * 0.37 % 1},{written[i % 3]}\n" for i in range(60))
    data = datasets.read(write(tmp_path, "d.csv", "x,class\n" + rows))
    assert np.unique(data.y).tolist() == wanted
    table = datasets.read_unlabelled(tmp_path / "d.csv")
    assert datasets.as_labels(table.columns[1]).tolist() == data.y.tolist()


# --- hostile input

HOSTILE = {
    "folder": "is a folder: give one of its files",
    "pipe": "is a pipe or a device, not a file",
    "device": "is a pipe or a device, not a file",
    "cut.csv.gz": "the gzip data is damaged or cut off",
    "cut.csv.bz2": "the bzip2 data is damaged or cut off",
    "cut.csv.xz": "the xz data is damaged or cut off",
    "cut.csv.zst": "the zstandard data is damaged or cut off",
    "cut.zip": "the zip data is damaged or cut off",
    "cut.xlsx": "damaged or cut off",
    "cut.parquet": "is not a Parquet file, or is damaged",
    "cut.feather": "is not a Feather file, or is damaged",
    "cut.json": "not JSON with records, or it is cut off",
    "two.zip": "is an archive of 2 files",
    "bomb.csv.gz": "unpacks to more than 64 times its size",
    "bomb.csv.xz": "unpacks to more than 64 times its size",
    "bomb.zip": "unpacks to more than 64 times its size",
    "far.xlsx": "a sheet reaches far beyond its table",
    "deep.json": "not JSON with records",
    "empty": "is empty",
    "secret": "cannot be read: Permission denied",
}


def hostile(folder, name):
    path, kind = folder / name, name.partition(".")[2]
    if name == "folder":
        path.mkdir()
    elif name == "pipe":
        os.mkfifo(path)
    elif name == "device":
        return "/dev/zero"
    elif name == "two.zip":
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr("a.csv", CSV)
            archive.writestr("b.csv", CSV)
    elif name == "bomb.zip":
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
            archive.writestr("a.csv", b"1,2,3\n" * 15_000_000)
    elif name.startswith("bomb"):
        by = {"csv.gz": gzip.compress, "csv.xz": lzma.compress}[kind]
        path.write_bytes(by(b"1,2,3\n" * 15_000_000))
    elif name == "far.xlsx":
        openpyxl = pytest.importorskip("openpyxl")
        book = openpyxl.Workbook()
        book.active["A1"], book.active["XFD1048576"] = "x", 1
        book.save(path)
    elif name == "deep.json":
        path.write_text('[{"a":' + "[" * 100_000)
    elif name == "empty":
        path.write_bytes(b"")
    elif name == "secret":
        path.write_text(CSV)
    else:
        FORMATS[f"d.{kind}"](frame(), path)
        path.write_bytes(path.read_bytes()[:-40])
    return path


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_files_are_refused(tmp_path, name, monkeypatch):
    path = hostile(tmp_path, name)
    if name == "secret":  # the superuser may read every file, so that its mode would not tell

        def refuse(*_):
            raise PermissionError(13, "Permission denied")

        monkeypatch.setattr("pathlib.Path.open", refuse)
    before = sorted(os.listdir(tmp_path))
    for read in (datasets.read, datasets.read_unlabelled):
        with pytest.raises(DataError) as caught:
            read(path)
        assert HOSTILE[name] in str(caught.value)
    assert sorted(os.listdir(tmp_path)) == before


def test_a_far_index_stays_sparse(tmp_path):
    """27 bytes with index 1,000,000 are read and fitted in no time and memory."""
    from sklearn.pipeline import make_pipeline

    from outcode import OutputCodeClassifier

    path = write(tmp_path, "d.libsvm", "1 1:2 1000000:1\n2 7:1\n1 1:1\n2 7:2\n")
    datasets.read(path)  # imports what readers need
    spent, before = time.process_time(), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    data = datasets.read(path)
    assert data.table.names == ("f1", "f7", "f1000000")
    assert time.process_time() - spent < 0.5
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 20_000  # kB
    model = make_pipeline(datasets.TableEncoder(), OutputCodeClassifier("ova"))
    model.fit(data.table, data.y)
    far = datasets.read_unlabelled(write(tmp_path, "new.libsvm", "7:1 900000000:3\n1:1\n"))
    assert model.predict(far).tolist() == ["2", "1"]


def test_limits_come_before_memory(tmp_path):
    path = write(tmp_path, "d.json", json.dumps(records(frame())))
    for what, allowed in (("bytes", 100), ("rows", 59), ("columns", 2), ("cells", 100)):
        with pytest.raises(DataError, match=f"more than {allowed} {what}"):
            datasets.read(path, limits=Limits(**{what: allowed}))


PEAK = """
import sys
from outcode import datasets
def peak():  # of this process alone; getrusage counts its parent at the fork, too
    lines = open("/proc/self/status").read().splitlines()
    return next(1024 * int(line.split()[1]) for line in lines if line.startswith("VmHWM"))
datasets.read(sys.argv[1])
before = peak()
table = datasets.read(sys.argv[2]).table
held = sum(sys.getsizeof(t) for c in table.columns if c.dtype == object for t in set(c.tolist()))
print(peak() - before, held + sum(c.nbytes for c in table.columns))
"""


@pytest.mark.parametrize("name", ["numbers.csv", "commas.csv", "words.csv", "d.jsonl"])
def test_peak_memory_is_a_few_times_the_file(tmp_path, name):
    rng = np.random.default_rng(0)
    table = pd.DataFrame(rng.normal(size=(120_000, 12)).round(4)).add_prefix("x")
    table["label"] = rng.choice(list("abc"), len(table))
    if name == "words.csv":
        table[["x0", "x1", "x2"]] = rng.choice(["red", "green", "blue"], (len(table), 3))
        table["note"] = list(
            map(" ".join, rng.choice(["a", "late", "card", "lost"], (len(table), 8)))
        )
    options = {"sep": ";", "decimal": ","} if name == "commas.csv" else {}
    large, small = tmp_path / name, tmp_path / f"small-{name}"
    for path, part in ((large, table), (small, table[:200])):
        if name == "d.jsonl":
            as_json_lines(part, path)
        else:
            part.to_csv(path, index=False, **options)
    done = subprocess.run(
        [sys.executable, "-c", PEAK, small, large], capture_output=True, text=True, check=True
    )
    peak, held = map(int, done.stdout.split())
    assert peak <= 6 * max(held, large.stat().st_size)


def test_every_reader_is_found_and_a_new_one_is_one_function(tmp_path, monkeypatch):
    """A reader is a function with a decorator; nothing else has to know of it."""
    from outcode.datasets import readers

    assert set(readers.READERS) == {
        "arff", "delimited", "feather", "libsvm", "parquet", "records", "workbook"
    }  # fmt: skip
    monkeypatch.setattr(readers, "READERS", dict(readers.READERS))

    @readers.reader(".fixed", looks=lambda head: head.startswith(b"FIXED"))
    def fixed(source, options):
        cells = [(line[:5].strip(), line[5:].strip()) for line in source.data.decode().splitlines()]
        names, *rows = cells[1:]
        return readers.Found(names, [pa.array(cells) for cells in zip(*rows, strict=True)])

    lines = "".join(f"{i % 7:<5}{'ab'[i % 2]}\n" for i in range(40))
    for name in ("d.fixed", "unnamed"):
        data = datasets.read(write(tmp_path, name, "FIXED\nx    class\n" + lines))
        assert data.table.names == ("x",)
        assert column(data, "x")[:3].tolist() == [0, 1, 2]
