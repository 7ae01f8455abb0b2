"""Kinds of trouble seen in real files: one small file for each, read rightly or refused clearly."""

from __future__ import annotations

import datetime
import io
import json
import pickle
import tarfile
import warnings
import zipfile

import numpy as np
import pandas as pd
import pytest

from outcode import datasets
from outcode.app.study.influence import influences
from outcode.datasets import DataError, TableEncoder
from outcode.datasets.tails import preferred

pa = pytest.importorskip("pyarrow")


def write(folder, name, content):
    path = folder / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def said(data):
    return " ".join((*data.about, *map(str, data.findings)))


def cells(data, name):
    return data.table.columns[data.table.names.index(name)]


def frame(n=60):
    x = np.round(np.arange(n) * 0.37 % 1, 3)
    return pd.DataFrame({"x": x, "class": [["a", "b", "d"][i % 3] for i in range(n)]})


# --- layout


def test_an_empty_or_constant_last_column_is_not_the_target(tmp_path):
    rows = "".join(f"{i % 7}.5,{'ab'[i % 2]},same,\n" for i in range(40))
    data = datasets.read(write(tmp_path, "d.csv", "x,kind,note,\n" + rows))
    assert set(data.y) == {"a", "b"}
    assert "The target is 'kind', the last column that v" in said(data)


def test_columns_two_blanks_apart_may_hold_blanks(tmp_path):
    rows = "".join(
        f"  {i}   {['< 12 years', '16+ years'][i % 2]}    {i / 8}  No\n" for i in range(30)
    )
    data = datasets.read(write(tmp_path, "d.dat", "  id   educ      years   div\n" + rows), "educ")
    assert set(data.y) == {"< 12 years", "16+ years"}
    assert data.table.names == ("years", "div")


def test_blanks_and_a_tab_before_a_quoted_name(tmp_path):
    rows = "".join(f'{i}.0   {i % 4}   {"ab"[i % 2]}\t"car {i} gt"\n' for i in range(30))
    data = datasets.read(write(tmp_path, "d.data", "mpg   cyl   origin\tname\n" + rows), "origin")
    assert "mpg" in data.table.names
    assert set(data.y) == {"a", "b"}


def test_keel_headers(tmp_path):
    head = "@relation r\n@attribute x real[0.0, 9.0]\n@attribute n integer [0, 9]\n"
    head += "@attribute class {a, b}\n@inputs x, n\n@outputs class\n@data\n"
    rows = "".join(f"{i % 9}.5, {i % 7}, {'ab'[i % 2]}\n" for i in range(30))
    data = datasets.read(write(tmp_path, "d.dat", head + rows))
    assert data.table.kinds == ("numeric", "numeric")
    assert set(data.y) == {"a", "b"}


def test_the_three_rows_of_an_orange_header(tmp_path):
    rows = "".join(f"{['first', 'crew'][i % 2]}\t{'mf'[i % 2]}\t{'yn'[i % 2]}\n" for i in range(30))
    content = "status\tsex\tsurvived\nd\td\td\n\t\tclass\n" + rows
    data = datasets.read(write(tmp_path, "d.tab", content))
    assert len(data.y) == 30
    assert "OD009" not in said(data)
    assert set(data.y) == {"y", "n"}


CSV = frame().to_csv(index=False)


@pytest.mark.parametrize("delimiter", "~^:")
def test_rare_delimiters(tmp_path, delimiter):
    data = datasets.read(write(tmp_path, "d.csv", CSV.replace(",", delimiter)))
    assert (data.table.names, set(data.y)) == (("x",), {"a", "b", "d"})


def test_single_quotes_around_cells(tmp_path):
    rows = "".join(f"{i / 8},'it, {i % 5}','{'ab'[i % 2]}'\n" for i in range(40))
    data = datasets.read(write(tmp_path, "d.csv", "x,note,class\n" + rows))
    assert set(data.y) == {"a", "b"}
    assert cells(data, "note")[1] == "it, 1"


HEADS = {
    "title beside empty cells": "Report,,\n,,\nx,y,class\n",
    "groups above names": "size,,\nx,y,class\n",
    "repeated names": "size,size,\nx,y,class\n",
}


@pytest.mark.parametrize("what", HEADS)
def test_names_are_those_next_to_the_rows(tmp_path, what):
    rows = "".join(f"{i / 8},{i % 7},{'ab'[i % 2]}\n" for i in range(40))
    data = datasets.read(write(tmp_path, "d.csv", HEADS[what] + rows))
    assert data.table.names == ("x", "y")


def test_names_below_groups(tmp_path):
    rows = "".join(f"{i / 8},{i % 7},{i % 3},{i % 5},{'ab'[i % 2]}\n" for i in range(40))
    data = datasets.read(write(tmp_path, "d.csv", "A,,B,,\nmean,sd,mean,sd,class\n" + rows))
    assert data.table.names == ("A mean", "A sd", "B mean", "B sd")


def test_columns_of_words_without_a_header(tmp_path):
    rows = "".join(f"{'ab'[i % 2]}\ta text of six words or {i * i}\n" for i in range(40))
    data = datasets.read(write(tmp_path, "d.tsv", rows))
    assert (len(data.y), set(data.y)) == (40, {"a", "b"})
    assert "The target is 'c1', the first column of few values" in said(data)


def test_rows_of_numbers_with_double_tabs(tmp_path):
    rows = "".join(f"{i / 8}\t{i % 7}\t{chr(9) * (i % 3 == 0)}{i % 2}\n" for i in range(40))
    data = datasets.read(write(tmp_path, "d.txt", rows))
    assert len(data.y) == 40
    assert data.table.names == ("c1", "c2")


@pytest.mark.parametrize("last", ["x", "price"])
def test_the_target_guessed_recurs(tmp_path, last):
    table = frame().assign(id=[f"r{i}" for i in range(60)], price=np.arange(60) * 1.25 + 0.1)
    table = table.rename(columns={"class": "kind"})[["id", "kind", last]]
    data = datasets.read(write(tmp_path, "d.csv", table.to_csv(index=False)))
    assert "The target is 'kind', the last column of few values" in said(data)
    table["kind"] = np.arange(60) * 0.5
    path = write(tmp_path, "d.csv", table.assign(x=np.arange(60) / 7).to_csv(index=False))
    with pytest.raises(DataError, match="looks like a quantity"):
        datasets.read(path)


def test_a_column_of_different_texts_can_be_called_text(tmp_path):
    rows = "".join(f"{'ab'[i % 2]},note {i * i}\n" for i in range(40))
    path = write(tmp_path, "d.csv", "class,note\n" + rows)
    with pytest.raises(DataError, match=r"different words, say so \(types note=text\)"):
        datasets.read(path, "class")
    assert datasets.read(path, "class", types={"note": "text"}).table.kinds == ("text",)


# --- cells


@pytest.mark.parametrize("unit", [" lb", "kg", " km/h", "°C"])
def test_numbers_with_their_unit(tmp_path, unit):
    table = frame().assign(w=[f"{i * 1.5:g}{unit}" for i in range(60)])
    data = datasets.read(write(tmp_path, "d.csv", table.to_csv(index=False)), "class")
    np.testing.assert_allclose(cells(data, "w"), np.arange(60) * 1.5)


def test_thousands_and_millions_by_letter_with_a_few_words(tmp_path):
    sizes = [*(f"{i + 1}.5M" for i in range(30)), *(f"{i + 1}k" for i in range(29)), "Varies"]
    data = datasets.read(
        write(tmp_path, "d.csv", frame().assign(s=sizes).to_csv(index=False)), "class"
    )
    assert cells(data, "s")[[0, 30]].tolist() == [1.5e6, 1e3]
    assert np.isnan(cells(data, "s")[59])


def test_words_that_were_missing_in_training_are_missing_in_new_rows(tmp_path):
    table = frame().assign(s=[*map(str, range(59)), "broken"])
    path = write(tmp_path, "d.csv", table.to_csv(index=False))
    data = datasets.read(path, "class")
    encoder = TableEncoder().fit(data.table)
    with pytest.warns(UserWarning, match=r"1 of 60 cells are not numbers and taken as missing"):
        new = encoder.transform(datasets.read_unlabelled(path))
    np.testing.assert_allclose(new, encoder.transform(data.table))


def test_dates_written_in_two_ways(tmp_path):
    days = pd.date_range("2020-01-01", periods=60)
    table = frame().assign(day=[d.strftime("%Y-%m-%d" if i % 2 else "%d.%m.%Y")
                                for i, d in enumerate(days)])  # fmt: skip
    data = datasets.read(write(tmp_path, "d.csv", table.to_csv(index=False)), "class")
    np.testing.assert_array_equal(cells(data, "day"), days.to_numpy())
    assert "Dates are read as" in said(data)


def test_few_rows_of_long_text_are_text(tmp_path):
    words = [f"the {i} dogs of the village went to market {i * i}" for i in range(30)]
    data = datasets.read(
        write(tmp_path, "d.csv", frame(30).assign(t=words).to_csv(index=False)), "class"
    )
    assert "text" in data.table.kinds


def test_many_cells_far_out_are_no_slips(tmp_path):
    x = np.where(np.arange(100) % 5, np.arange(100) % 3 / 100, 1000.0)
    table = pd.DataFrame({"x": x, "class": ["a", "b"] * 50})
    data = datasets.read(write(tmp_path, "d.csv", table.to_csv(index=False)), "class")
    assert "OD013" not in said(data)


# --- containers


@pytest.mark.parametrize("orient", ["columns", "index", "split", "table", "records"])
def test_json_as_pandas_writes_it(tmp_path, orient):
    path = tmp_path / "d.json"
    frame().to_json(path, orient=orient)
    data = datasets.read(path, "class")
    np.testing.assert_allclose(cells(data, "x"), frame()["x"])


def test_the_longest_list_of_records(tmp_path):
    records = frame().to_dict("records")
    path = write(tmp_path, "d.json", json.dumps({"fields": [{"name": "x"}], "rows": records}))
    assert len(datasets.read(path, "class").y) == 60


def test_an_archive_of_one_table_and_a_readme(tmp_path):
    path = tmp_path / "d.zip"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("README.md", "hello")
        archive.writestr("table.csv", frame().to_csv(index=False))
    assert len(datasets.read(path, "class").y) == 60


def test_an_archive_as_uci_has_them_and_one_of_two_tables(tmp_path):
    path = tmp_path / "d.zip"
    with zipfile.ZipFile(path, "w") as archive:
        for name in ("Index", "d.names", "readme.txt"):
            archive.writestr(name, "hello")
        archive.writestr("d.data", CSV)
    assert len(datasets.read(path, "class").y) == 60
    with zipfile.ZipFile(path, "a") as archive:
        archive.writestr("a/train.csv", CSV[:300] + "1.5,a\n")
        archive.writestr("a/test.csv", CSV)
    with pytest.raises(DataError, match=r"choose one by its name \(sheet=.*a/test.csv"):
        datasets.read(path, "class")
    assert len(datasets.read(path, "class", sheet="a/test.csv").y) == 60


NESTED = {
    "inside an object": lambda rows: {"result": {"n": 60, "records": rows}, "ok": True},
    "names first": lambda rows: [["x", "class"], *([r["x"], r["class"]] for r in rows)],
    "geojson": lambda rows: {
        "type": "FeatureCollection",
        "features": [{"type": "Feature", "properties": row, "geometry": None} for row in rows],
    },
    "a list for each class": lambda rows: {
        k: [{"x": r["x"]} for r in rows if r["class"] == k] for k in "abd"
    },
}


@pytest.mark.parametrize("how", NESTED)
def test_records_in_other_shapes(tmp_path, how):
    path = write(tmp_path, "d.json", json.dumps(NESTED[how](frame().to_dict("records"))))
    data = datasets.read(path)
    assert (len(data.y), set(data.y)) == (60, {"a", "b", "d"})


def test_the_first_sheet_with_two_columns(tmp_path):
    path = tmp_path / "d.xlsx"
    with pd.ExcelWriter(path) as book:
        pd.DataFrame({"read me": ["a book", "of plants"]}).to_excel(book, sheet_name="about")
        pd.DataFrame({"read me": ["a"]}).to_excel(book, sheet_name="note", index=False)
        frame().to_excel(book, sheet_name="data", index=False)
    read = datasets.read(path, "class", sheet="data")
    book = tmp_path / "e.xlsx"
    with pd.ExcelWriter(book) as out:
        pd.DataFrame({"read me": ["a book", "of plants"]}).to_excel(out, index=False)
        frame().to_excel(out, sheet_name="data", index=False)
    assert datasets.read(book).hash == read.hash


ARFF = "@relation r\n@attribute a numeric\n@attribute a numeric\n@attribute c {x,'y z'}\n@data\n"


@pytest.mark.parametrize("row", ["{}\t{}\t'y z'", "{} {} x", "{},{},'y z',{{0.5}}"])
def test_arff_rows_between_blanks_or_with_weights(tmp_path, row):
    rows = "".join(row.format(i, i % 5) + "\n" + f"{i},0,x\n" for i in range(30))
    data = datasets.read(write(tmp_path, "d.arff", ARFF + rows + "1,2,'y z'\n" * 2))
    assert data.table.names == ("a", "a (2)")
    assert set(data.y) == {"x", "y z"}


def test_libsvm_from_index_zero(tmp_path):
    rows = "".join(f"{i % 2} 0:{i} 3:1.5\n" for i in range(20))
    assert datasets.read(write(tmp_path, "d.svm", rows)).table.names == ("f0", "f3")


def _tar():
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as archive:
        archive.addfile(tarfile.TarInfo("a"), io.BytesIO(b""))
    return out.getvalue()


FOREIGN = {
    "a Git LFS pointer": b"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 3\n",
    "a web page": b"\n<!DOCTYPE html>\n<html><body>404, not found</body></html>\n",
    "a pickle": pickle.dumps([1, 2]),
    "a tar archive": _tar(),
    "an SQLite database": b"SQLite format 3\0" + bytes(100),
    "SQL": b"INSERT INTO t VALUES (1, 'a');\n" * 9,
}


@pytest.mark.parametrize("what", FOREIGN)
def test_what_is_no_table_is_named(tmp_path, what):
    with pytest.raises(DataError, match=f"d.csv is {what}"):
        datasets.read(write(tmp_path, "d.csv", FOREIGN[what]))


@pytest.mark.parametrize("negative", ["(1.25)", "1.25-", "\u22121.25", "-1.25"])
def test_negative_numbers_however_they_are_written(tmp_path, negative):
    rows = "".join(f"{negative if i % 3 else i}\t{'ab'[i % 2]}\n" for i in range(60))
    data = datasets.read(write(tmp_path, "d.tsv", f"x\tclass\n{rows}"), "class")
    assert data.table.kinds == ("numeric",)
    assert data.table.columns[0][:4].tolist() == [0.0, -1.25, -1.25, 3.0]


def test_dates_of_mail_headers_are_dates(tmp_path):
    days = pd.date_range("2020-01-01 07:30", periods=40, freq="31h")
    rows = "".join(f"{day:%a, %d %b %Y %H:%M:%S}\t{'ab'[i % 2]}\n" for i, day in enumerate(days))
    data = datasets.read(write(tmp_path, "d.tsv", f"sent\tclass\n{rows}"), "class")
    assert data.table.kinds == ("date",)
    assert data.table.columns[0].tolist() == days.to_numpy("datetime64[s]").tolist()


# --- tails, and what matters


def test_tails_are_bent_where_leave_one_out_prefers_it():
    rng = np.random.RandomState(0)
    x = np.exp(3 * rng.randn(400))
    y = np.digitize(np.log(x), [-2, 0, 2])
    table = datasets.as_table(np.column_stack([x, rng.randn(400)]))
    assert TableEncoder(tails="auto").fit(table, y).columns_[0].knots
    assert not TableEncoder(tails="auto").fit(table).columns_[0].knots  # no classes, no choice
    calm = datasets.as_table(rng.randn(400, 2))
    assert not TableEncoder(tails="auto").fit(calm, y).columns_[0].knots
    assert preferred(calm, y, ("log",), lambda t, w: 1 / 0) is None  # nothing heavy: not tried


def test_influence_finds_the_column_that_decides():
    from sklearn.neighbors import KNeighborsClassifier

    rng = np.random.RandomState(0)
    colour = np.array(["red", "green", "blue"], dtype=object)[rng.randint(3, size=300)]
    table = datasets.as_table(
        np.column_stack([rng.randn(300).astype(object), colour, rng.randn(300).astype(object)])
    )
    encoder = TableEncoder().fit(table)
    X, labels = encoder.transform(table), np.unique(colour, return_inverse=True)[1]
    clf = KNeighborsClassifier(5).fit(X[:200], labels[:200])
    found = influences(clf, encoder, X[200:], labels[200:], seed=0)
    assert found["x1"] > 0.3
    assert abs(found["x0"]) < 0.1
    assert set(found) == {"x0", "x1", "x2"}


# --- numbers, times and missing cells as people write them


def column_file(folder, written, n=60):
    """Write a file with a column x of these cells and a class."""
    rows = "".join(f'"{written(i)}";{"ab"[i % 2]}\n' for i in range(n))
    return write(folder, "d.csv", "x;class\n" + rows)


@pytest.mark.parametrize("word", ["n/a", ".", "--", "#DIV/0!", "missing", "Unknown", "broken"])
def test_a_word_for_missing_leaves_a_column_numeric(tmp_path, word):
    path = column_file(tmp_path, lambda i: word if i % 5 == 0 else f"{i * 0.37:.2f}")
    data = datasets.read(path)
    assert data.table.kinds == ("numeric",)
    assert data.table.missing == 12
    encoder = TableEncoder().fit(data.table)
    if word != "broken":  # of one row, nothing tells that this word stands for missing
        new = write(tmp_path, "new.csv", f"x\n{word}\n")
        assert np.isfinite(encoder.transform(datasets.read_unlabelled(new))).all()


def test_different_words_among_numbers_are_categories(tmp_path):
    path = column_file(tmp_path, lambda i: f"{i * 0.37:.2f}" if i % 3 else ["high", "low"][i % 2])
    assert datasets.read(path).table.kinds == ("nominal",)


def test_numbers_with_a_bound_are_numbers(tmp_path):
    path = column_file(tmp_path, lambda i: "<0.5" if i % 6 == 0 else f"{i * 0.37:.2f}")
    data = datasets.read(path)
    assert cells(data, "x")[:2].tolist() == [0.5, 0.37]
    assert "10 cells are written with < or > and read as the number, the first in row 1" in said(
        data
    )
    new = datasets.read_unlabelled(write(tmp_path, "new.csv", "x\n< 0.5\n0.5\n"))
    low, same = TableEncoder().fit(data.table).transform(new)
    assert low == same


def test_numbers_grouped_as_in_india(tmp_path):
    data = datasets.read(column_file(tmp_path, lambda i: f"{i % 9 + 1},{10 + i},500"))
    assert cells(data, "x")[:2].tolist() == [110500.0, 211500.0]


@pytest.mark.parametrize("sign", ["USD ", "CHF ", "¥", "₹", "Rs. ", "R$ "])
def test_a_currency_before_the_number(tmp_path, sign):
    data = datasets.read(column_file(tmp_path, lambda i: f"{sign}{i}.25"))
    assert cells(data, "x")[:2].tolist() == [0.25, 1.25]


def test_amounts_in_several_currencies_are_not_numbers(tmp_path):
    path = column_file(tmp_path, lambda i: f"{['USD', 'EUR'][i % 2]} {i % 9}.25")
    assert datasets.read(path).table.kinds == ("nominal",)


@pytest.mark.parametrize(("written", "hours"), [("{}:30", [3.5, 4.5]), ("0{}:15:36", [3.26, 4.26])])
def test_times_and_durations_are_hours(tmp_path, written, hours):
    data = datasets.read(column_file(tmp_path, lambda i: written.format(3 + i % 7)))
    assert np.allclose(cells(data, "x")[:2], hours)
    assert "Times like 7:30 are read as hours (7.5): x." in data.about
    new = datasets.read_unlabelled(write(tmp_path, "new.csv", "x\n3:30\n03:30:00\n"))
    short, long = TableEncoder().fit(data.table).transform(new)
    assert short == long


@pytest.mark.parametrize(
    ("way", "read"),
    [
        ("Mar-{:02d}", "2021-03-01T00:00:00"),
        ("April 20{:02d}", "2021-04-01T00:00:00"),
        ("20{:02d}0510153000", "2021-05-10T15:30:00"),
        ("Mon, 10 May 20{:02d} 15:30:00 GMT", "2021-05-10T15:30:00"),
    ],
)
def test_dates_of_months_and_with_times(tmp_path, way, read):
    days = [2021, 2027]  # 10 May is a Monday in both
    data = datasets.read(column_file(tmp_path, lambda i: way.format(days[i // 2 % 2] - 2000)))
    assert data.table.kinds == ("date",)
    assert cells(data, "x")[0].astype(str) == read


def test_the_order_of_day_and_month_is_said(tmp_path):
    path = column_file(tmp_path, lambda i: f"{1 + i % 5}/{1 + i % 7}/2020 10:30")
    assert "Dates are read with the month first: x." in datasets.read(path).about


def test_a_code_for_missing_is_asked_about(tmp_path):
    path = column_file(tmp_path, lambda i: -999 if i % 6 == 0 else i * 0.37)
    assert "x: 10 cells are -999, all others from 0.37 to 21.83: a code for missing?" in said(
        datasets.read(path)
    )


# --- dates, times and codes that are not numbers


@pytest.mark.parametrize("word", ["unknown", "0000-00-00", "9999-12-31", "soon"])
def test_a_few_words_among_dates_are_missing(tmp_path, word):
    path = column_file(tmp_path, lambda i: word if i == 7 else f"2020-03-{i % 28 + 1:02d}")
    data = datasets.read(path)
    assert data.table.kinds == ("date",)
    assert np.isnat(cells(data, "x")[7])
    assert f"1 cell is not a date and taken as missing, the first in row 8: '{word}'" in said(data)
    encoder = TableEncoder().fit(data.table)
    with warnings.catch_warnings(record=True):
        warnings.simplefilter("always")
        new = encoder.transform(datasets.read_unlabelled(path))
    np.testing.assert_allclose(new, encoder.transform(data.table))


def test_many_words_among_dates_are_categories(tmp_path):
    path = column_file(tmp_path, lambda i: ["2020-03-01", "low", "high"][i % 3])
    assert datasets.read(path).table.kinds == ("nominal",)


@pytest.mark.parametrize(
    "way", ["%a %b %d %H:%M:%S %Y", "%a %b %d %H:%M:%S +0000 %Y", "%dth %B %Y", "%s", "%s000"]
)
def test_dates_as_programs_write_them(tmp_path, way):
    days = pd.date_range("2020-01-04", "2020-01-19")
    seconds = [str(int(day.timestamp())) for day in days]
    written = [d.strftime(way.replace("%s", s)) for d, s in zip(days, seconds, strict=True)]
    rows = "".join(f"{written[i % 16]}\t{'ab'[i % 2]}\n" for i in range(64))
    path = write(tmp_path, "d.tsv", "created_at\tclass\n" + rows)
    data = datasets.read(path)
    assert data.table.kinds == ("date",)
    assert cells(data, "created_at")[0].astype(str) == "2020-01-04T00:00:00"
    encoder = TableEncoder().fit(data.table)
    new = encoder.transform(datasets.read_unlabelled(path))
    np.testing.assert_allclose(new, encoder.transform(data.table))


def test_times_before_and_after_noon(tmp_path):
    data = datasets.read(
        column_file(tmp_path, lambda i: ["12:30 AM", "1:15 PM", "12:00 pm"][i % 3])
    )
    assert cells(data, "x")[:3].tolist() == [0.5, 13.25, 12.0]


def test_codes_with_zeros_in_front_are_categories(tmp_path):
    path = column_file(tmp_path, lambda i: f"{i % 9 + 996:05d}")
    data = datasets.read(path)
    assert cells(data, "x")[0] == "00996"
    assert "Digits with zeros in front are read as categories: x." in data.about
    assert datasets.read(path, types={"x": "number"}).table.columns[0][0] == 996.0


def test_durations_and_times_of_a_parquet_file_are_hours(tmp_path):
    hours = np.arange(60) % 24
    table = frame().assign(
        took=pd.to_timedelta(hours, "h"), at=[datetime.time(h, 30) for h in hours.tolist()]
    )
    table.to_parquet(tmp_path / "d.parquet")
    data = datasets.read(tmp_path / "d.parquet", "class")
    np.testing.assert_allclose(cells(data, "took"), hours)
    np.testing.assert_allclose(cells(data, "at"), hours + 0.5)


# --- new rows


def test_a_number_with_the_other_mark_is_named(tmp_path):
    encoder = TableEncoder().fit(datasets.read(column_file(tmp_path, lambda i: f"{i}.25")).table)
    new = datasets.read_unlabelled(write(tmp_path, "new.csv", 'x\n5.1\n"6,3"\n'))
    with pytest.raises(DataError, match=r"row 2, column 'x': '6,3' is not a number"):
        encoder.transform(new)


def test_a_missing_column_is_likened_to_those_that_are_not_used():
    table = datasets.as_table(pd.DataFrame({"Plant": [1.0], "planted": [2.0], "size": [3.0]}))
    with pytest.raises(DataError, match=r"Did you mean 'Plant' for 'plant'\?"):
        table.select(["plant", "planted"])


@pytest.mark.parametrize(("n_classes", "asked"), [(10, False), (14, True)])
def test_classes_that_are_many_numbers_are_questioned(tmp_path, n_classes, asked):
    rows = "".join(f"{i / 8},{i % n_classes}\n" for i in range(90))
    data = datasets.read(write(tmp_path, "d.csv", "x,rings\n" + rows))
    assert ("If they are a quantity, cut it into classes (--bins 5)" in said(data)) == asked
