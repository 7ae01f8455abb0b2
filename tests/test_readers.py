"""Files: delimited text, LIBSVM, Parquet; what is wrong with a file, and how much it may hold."""

from __future__ import annotations

import gzip
import subprocess
import sys
import time

import numpy as np
import pandas as pd
import pytest

from outcode import datasets
from outcode.datasets import DataError, Limits, reading
from outcode.datasets.layout import has_header, sniff

ROWS = [(f"{i * 0.37 % 1:.3f}", str(i * i % 7), "ab"[i % 2]) for i in range(40)]
GOOD = "x,y,class\n" + "".join(",".join(row) + "\n" for row in ROWS)


def write(folder, name, content):
    path = folder / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


# --- delimited text


@pytest.mark.parametrize("delimiter", [",", ";", "\t", "|", "   "])
@pytest.mark.parametrize("ends", ["\n", "\r\n", "\r"])
def test_delimiters_and_line_ends(tmp_path, delimiter, ends):
    content = GOOD.replace(",", delimiter).replace("\n", ends)
    data = datasets.read(write(tmp_path, "d.txt", content))
    assert data.table.names == ("x", "y")
    assert data.table.columns[0].tolist() == [float(row[0]) for row in ROWS]
    assert data.y.tolist() == [row[2] for row in ROWS]


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "latin-1"])
def test_encodings(tmp_path, encoding):
    content = GOOD.replace("class", "Größe").encode(encoding)
    given = encoding if encoding == "latin-1" else None
    data = datasets.read(write(tmp_path, "d.csv", content), "Größe", encoding=given)
    assert data.table.names == ("x", "y")
    assert data.table.n_rows == 40


def test_quoted_cells_keep_delimiters_quotes_and_line_ends(tmp_path):
    cells = ["a,b", 'say "x"', "two\nlines", " blanks "]
    frame = pd.DataFrame({"k": cells * 5, "x": range(20), "class": list("ab") * 10})
    frame.to_csv(tmp_path / "d.csv", index=False)
    data = datasets.read(tmp_path / "d.csv")
    assert data.table.columns[0].tolist() == [cell.strip() for cell in cells] * 5


def test_missing_cells(tmp_path):
    tokens = ["", "NA", "N/A", "NaN", "nan", "?", "null", "None", "-", " ? "]
    rows = "".join(f"{token},{token},{'ab'[i % 2]}\n1,k,a\n" for i, token in enumerate(tokens))
    data = datasets.read(write(tmp_path, "d.csv", "x,k,class\n" + rows))
    assert data.table.kinds == ("numeric", "nominal")
    assert np.isnan(data.table.columns[0]).tolist() == [True, False] * 10
    assert data.table.columns[1].tolist() == [None, "k"] * 10
    assert "A missing cell is empty, NA, n/a, NaN, ?, ., -, --, null or None." in data.about


def test_against_pandas(tmp_path):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.normal(size=(300, 4)) * 10.0 ** rng.integers(-9, 9, 4))
    frame.columns = [f"x{j}" for j in range(4)]
    frame["k"] = rng.choice(["u", "v w", "ü"], 300)
    frame["class"] = rng.choice(list("abc"), 300)
    frame = frame.mask(rng.random(frame.shape) < 0.05)
    frame.to_csv(tmp_path / "d.csv", index=False)
    data = datasets.read(tmp_path / "d.csv")
    known = frame[frame["class"].notna()]
    for j in range(4):
        np.testing.assert_array_equal(data.table.columns[j], known[f"x{j}"])
    assert data.table.columns[4].tolist() == [k if isinstance(k, str) else None for k in known["k"]]
    assert data.y.tolist() == known["class"].tolist()


def test_a_word_late_in_a_column_of_few_numbers(tmp_path):
    rows = [f"0{i % 4},{i},{'word' if i == 35 else i % 5},{'ab'[i % 2]}\n" for i in range(40)]
    data = datasets.read(write(tmp_path, "d.csv", "u,x,k,class\n" + "".join(rows)))
    assert data.table.kinds == ("numeric", "numeric", "nominal")
    assert data.table.columns[1].tolist() == list(range(40))
    assert data.table.columns[2].tolist() == ["word" if i == 35 else str(i % 5) for i in range(40)]


@pytest.mark.parametrize("cell", ["1_000", "١", "0x10", "1e", "½", "1 2"])
def test_what_is_no_number(tmp_path, cell):
    content = GOOD + f"{cell},1,a\n"
    data = datasets.read(write(tmp_path, "d.csv", content))
    assert np.isnan(data.table.columns[0][-1])
    assert repr(cell) in next(f.message for f in data.findings if f.code == "OD014")
    assert datasets.read_unlabelled(tmp_path / "d.csv").columns[0][-1] == cell


def test_sniffing():
    assert sniff(["a;b\n", "1,5;2,5\n", "3,5;2,5\n"]) == ";"
    assert sniff(["a,b\n", "x;y,2\n", "z;w,2\n"]) == ","
    assert sniff(["a b\n", "the cat\n", "the dog\n"]) == ","
    assert sniff(["a  b\n", "1 2\n"]) == " "
    assert sniff(['"a,1"|"b,2"\n', '"3,4"|"5,6"\n']) == "|"


def test_headers():
    assert has_header([["0", "1", "2", "class"], ["1.5", "2.5", "3.5", "a"]])
    assert not has_header([["0", "1.5", "2", "b"], ["1.5", "2.5", "3.5", "a"]])
    assert not has_header([["low", "yes"], ["high", "no"], ["low", "no"], ["high", "yes"]])
    assert has_header([["level", "class"], ["high", "no"], ["low", "no"], ["high", "yes"]])
    assert has_header([["", "x"], ["1", "2"]])
    assert has_header([["400.5", "401", "class"], ["1", "2", "a"], ["2", "2", "a"]])
    assert not has_header([["1", "2"], ["1", "3"]])


def test_without_a_header(tmp_path):
    data = datasets.read(write(tmp_path, "d.csv", GOOD.partition("\n")[2]))
    assert data.table.names == ("c1", "c2")
    assert data.table.n_rows == 40
    assert "The first row looks like data, not names: the columns are named c1 to c3." in data.about


@pytest.mark.parametrize("target", ["class", 2, -1, "2", "-1", None])
def test_the_target(tmp_path, target):
    assert datasets.read(write(tmp_path, "d.csv", GOOD), target).y[1] == "b"


def test_a_name_goes_before_a_position(tmp_path):
    path = write(tmp_path, "d.csv", GOOD.replace("x,y,class", "0,2,1st"))
    data = datasets.read(path, "2")
    assert set(data.y.tolist()) == {row[1] for row in ROWS}
    assert data.table.names == ("0", "1st")
    assert "The first row is taken as names, though some of them are numbers." in data.about


# --- bad files: the message names the file, the place, and what to do

BAD = {
    "empty": (b"", {}, ["bad.csv is empty", "give a file with a header and rows"]),
    "blank lines": (b"\n \r\n\n", {}, ["bad.csv is empty"]),
    "header only": (b"a,b,c\n", {}, ["bad.csv has a header and no rows"]),
    "ragged rows": (
        GOOD + "1,2\n" * 9, {},
        ["row 41 (line 42) has 2 cells, but the header has 3", "and 8 more such rows", "empty"],
    ),
    "wrong delimiter": (GOOD.replace(",", "_"), {}, ["bad.csv has one column", "delimiter=..."]),
    "given delimiter": (GOOD, {"delimiter": ";"}, ["one column, 'x,y,class'", "semicolon"]),
    "no delimiter": (GOOD, {"delimiter": ";;"}, ["one character, got ';;'"]),
    "wrong encoding": (
        GOOD.encode() + "1,2,Zürich\n".encode("latin-1"), {"encoding": "utf-8"},
        ["bad.csv, line 42", f"byte {len(GOOD) + 5} (0xfc) is not utf-8", "Leave the encoding out"],
    ),
    "unknown encoding": (GOOD, {"encoding": "utf-9"}, ["unknown encoding: utf-9", "latin-1"]),
    "NUL": (GOOD + "1,\0,a\n", {}, [f"byte {len(GOOD) + 2} is NUL", "utf-16"]),
    "unknown target": (GOOD, {"target": "clas"}, ["bad.csv", "'clas'", "Did you mean 'class'?"]),
    "no such position": (GOOD, {"target": 3}, ["bad.csv", "no column 3", "-1 for the last"]),
    "unknown drop": (GOOD, {"drop": ["yy"]}, ["column to drop 'yy'", "Did you mean 'y'?"]),
    "dropped target": (GOOD, {"drop": ["class"]}, ["target 'class' is among the columns to drop"]),
    "all dropped": (GOOD, {"drop": ["x", "y"]}, ["no column is left", "Drop fewer"]),
    "one class": (GOOD.replace(",b", ",a"), {}, ["'class' has one class, 'a'", "may be: y"]),
    "a quantity": (GOOD, {"target": "x"}, ["'x' looks like a quantity", "bins=5", "y, class"]),
    "an identifier": (
        "x,k\n" + "".join(f"{i % 3},k{i}\n" for i in range(30)), {"target": "k"},
        ["'k' is different in every row", "may be: x"],
    ),
    "too many classes": (
        "x,k\n" + "".join(f"{i % 3},k{i // 2}\n" for i in range(3000)), {},
        ["'k' has 1500 classes, the limit is 1000", "Limits(classes=1500)"],
    ),
    "no label at all": ("x,k\n1,\n2,?\n", {}, ["target 'k' is missing in every row"]),
    "long labels": (f"x,k\n1,{'a' * 1001}\n2,b\n", {}, ["a text of 1001 characters"]),
    "NaN everywhere": (
        "u,v,k\n" + ",nan,a\n?,NA,b\n" * 9, {},
        ["bad.csv: no column is left", "all cells are missing: u, v", "how missing cells"],
    ),
    "open quote": (GOOD + '1,"2,a\n' + GOOD, {}, ["row 41 (line 42)", "quote may be open"]),
    "cut gzip": (gzip.compress(GOOD.encode())[:60], {}, ["bad.csv", "damaged or cut off"]),
    "cut zip": (b"PK\x03\x04....", {}, ["bad.csv: the zip data is damaged", "again"]),
    "no option": (GOOD, {"decimal": ";"}, ["decimal mark is '.' or ','", "';'"]),
    "unknown type": (GOOD, {"types": {"x": "numbr"}}, ["type 'numbr'", "Did you mean 'number'?"]),
    "unknown typed column": (GOOD, {"types": {"z": "text"}}, ["column of a type 'z'"]),
}  # fmt: skip


@pytest.mark.parametrize("what", BAD)
def test_bad_files(tmp_path, what):
    content, options, parts = BAD[what]
    path = write(tmp_path, "bad.csv", content)
    with pytest.raises(DataError) as caught:
        datasets.read(path, **options)
    for part in parts:
        assert part in str(caught.value)


@pytest.mark.parametrize("place", ['1,"2,a', '1,2,"a'])
def test_an_open_quote_does_not_swallow_the_file(tmp_path, place):
    path = write(tmp_path, "d.csv", GOOD + place + "\n" + "1,2,a\n" * 10_000)
    with pytest.raises(DataError, match=r"row 41 \(line 42\): a quote is not closed"):
        datasets.read(path)
    tabs = GOOD.replace(",", "\t") + '0.5\t1\t"a\n' + "0.25\t2\ta\n" * 9
    data = datasets.read(write(tmp_path, "d.tsv", tabs))
    assert data.table.n_rows == 49  # the class of row 41 is '"a', of one row, and is left out
    assert '"a' in next(f.message for f in data.findings if f.code == "OD009")


def test_hostile_cells_cost_no_time(tmp_path):
    spent = time.process_time()
    digits = "1" * 100_000
    rows = "".join(f"{digits}{end},{digits},{digits}.a,a\n" for end in "x,_ey.")
    outcome(datasets.read, write(tmp_path, "d.csv", "u,v,w,class\n" + rows))
    for head in (
        "# " * 2000,
        " " * 4000 + "\n",
        "%\n" * 1300,
        "1 " * 2000,
        "1 1:1" + " " * 4000 + "x",
    ):
        outcome(datasets.read, write(tmp_path, "d.txt", head + "\nx\n1 1:1 x"))
    assert time.process_time() - spent < 5


def test_many_columns_cost_little(tmp_path):
    """A pattern of all letters, compiled for each column, took 20 ms a column and more."""
    rng = np.random.default_rng(0)
    words = np.array(["low", "mid", "high", "3 kg"])[rng.integers(4, size=(40, 200))]
    lines = [",".join([*row, "ab"[i % 2]]) for i, row in enumerate(words)]
    head = ",".join([*(f"w{j}" for j in range(200)), "class"])
    path = write(tmp_path, "d.csv", "\n".join([head, *lines, ""]))
    datasets.read(path)
    spent = time.process_time()
    datasets.read(path)
    assert time.process_time() - spent < 3


def test_files_that_are_not_there(tmp_path):
    write(tmp_path, "mine.csv", GOOD)
    with pytest.raises(DataError, match=r"does not exist. Did you mean 'mine.csv'"):
        datasets.read(tmp_path / "mien.csv")
    with pytest.raises(DataError, match="is a folder"):
        datasets.read(tmp_path)
    with pytest.raises(DataError, match="does not exist"):
        datasets.read(tmp_path / "no" / "where.csv")


# --- limits


def test_limits(tmp_path):
    path = write(tmp_path, "d.csv", GOOD)
    fine = Limits(bytes=len(GOOD), rows=40, columns=3, cells=120, classes=2)
    assert datasets.read(path, limits=fine).table.n_rows == 40
    for what, allowed in (("bytes", len(GOOD) - 1), ("rows", 39), ("columns", 2), ("cells", 119)):
        with pytest.raises(DataError, match=rf"d.csv: more than {allowed} {what}.*Limits\({what}="):
            datasets.read(path, limits=Limits(**{what: allowed}))
    with pytest.raises(DataError, match="2 classes, the limit is 1"):
        datasets.read(path, limits=Limits(classes=1))


IN_LITTLE_MEMORY = """
import resource, sys
from outcode import datasets
datasets.read(sys.argv[1])
def peak(): return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
start = peak()
for path in sys.argv[2:]:
    try:
        print("rows", datasets.read(path).table.n_rows)
    except datasets.DataError as error:
        print(error)
    print(peak() - start)
"""


def test_large_files_take_little_memory(tmp_path):
    small = write(tmp_path, "small.csv", GOOD)
    bomb, line, large = (tmp_path / name for name in ("bomb.csv.gz", "line.csv.gz", "large.csv"))
    with gzip.open(bomb, "wb", 6) as file:
        file.write(b"x,y,class\n")
        for _ in range(14):
            file.write(b"1,2,a\n1,3,b\n" * 200_000)
    with gzip.open(line, "wb", 1) as file:
        for _ in range(40):
            file.write(b"a" * 1_000_000)
    rows = np.random.default_rng(0).normal(size=(60_000, 15)).round(6)
    frame = pd.DataFrame(rows, columns=[f"x{j}" for j in range(15)])
    frame.assign(label=np.arange(60_000) % 3).to_csv(large, index=False)
    done = subprocess.run(
        [sys.executable, "-c", IN_LITTLE_MEMORY, small, bomb, line, large],
        capture_output=True, text=True, check=True, timeout=250,
    )  # fmt: skip
    told = done.stdout.splitlines()
    assert "bomb.csv.gz: more than 5,000,000 rows" in told[0]
    assert "a line is longer than 32 MiB" in told[2]
    assert told[4] == "rows 60000"
    # MiB: what is unpacked, 32 and 38, is there twice; nothing is parsed
    assert float(told[3]) < 90
    assert float(told[5]) < 90


# --- LIBSVM


def test_libsvm(tmp_path):
    content = "# a file\n+1 1:2 3:4.5 # last\n-1 qid:3 2:1e1\n\n+1\n-1 2:1.5\n"
    data = datasets.read(write(tmp_path, "d.libsvm", content))
    assert data.table.names == ("f1", "f2", "f3")
    np.testing.assert_array_equal(data.X, [[2, 0, 4.5], [0, 10, 0], [0, 0, 0], [0, 1.5, 0]])
    assert data.y.tolist() == ["1", "-1", "1", "-1"]
    assert "The query numbers (qid) of 1 rows are not used." in data.about
    assert datasets.read(tmp_path / "d.libsvm", drop=["f1"]).table.names == ("f2", "f3")


def test_a_large_libsvm_file_stays_sparse(tmp_path, monkeypatch):
    monkeypatch.setattr(reading, "DENSE_CELLS", 5)
    monkeypatch.setattr(reading, "DENSE_SHARE", 0.9)
    data = datasets.read(write(tmp_path, "d.svm", "1 1:2\n2 50:3\n1 1:1 7:1\n2 50:1\n"))
    assert data.table.names == ("f1", "f7", "f50")
    assert data.table.sparse.shape == (4, 3)
    assert data.table.missing == 0
    np.testing.assert_array_equal(data.X.toarray(), data.table.sparse.toarray())
    unlabelled = datasets.read_unlabelled(write(tmp_path, "u.svm", "1:1 4:2\n2:3\n"))
    assert unlabelled.names == ("f1", "f2", "f4")
    np.testing.assert_array_equal(unlabelled.sparse.toarray(), [[1, 0, 2], [0, 3, 0]])


BAD_LIBSVM = {
    "1 1:2\n2 -1:2\n": "d.libsvm, line 2: index -1, but indices start at 0 or 1",
    "1 2:2 1:3\n": "line 1: index 1 follows 2",
    "1 2:2 2:3\n": "line 1: index 2 follows 2",
    "1 2:2 3\n": "line 1: expected 'index:value' with finite numbers, got '3'",
    "1 2:x\n": "got '2:x'",
    "1 2:nan\n": "got '2:nan'",
    "1 1_0:1\n": "got '1_0:1'",
    f"1 {'9' * 400}:1\n": "stay below 2^53",
    "a\nb\n": "no 'index:value' entry",
}


@pytest.mark.parametrize("content", BAD_LIBSVM)
def test_bad_libsvm(tmp_path, content):
    with pytest.raises(DataError) as caught:
        datasets.read(write(tmp_path, "d.libsvm", content))
    assert BAD_LIBSVM[content] in str(caught.value)


def test_libsvm_has_no_columns_to_choose_from(tmp_path):
    with pytest.raises(DataError, match="Leave the target out"):
        datasets.read(write(tmp_path, "d.libsvm", "1 1:1\n2 1:2\n"), "f1")


def test_the_first_line_tells_the_format(tmp_path):
    data = datasets.read(write(tmp_path, "a1a", "# made\n-1 3:1 11:1\n+1 5:2 \n"))
    assert (data.table.names[-1], data.y.tolist()) == ("f11", ["-1", "1"])
    arff = "% made\n\n@relation r\n@attribute x real\n@attribute c {a,b}\n@data\n1,a\n2,b\n"
    assert datasets.read(write(tmp_path, "d.txt", arff)).table.names == ("x",)
    times = "when at,class\n12:30,a\n13:10,b\n12:30,b\n"
    assert datasets.read(write(tmp_path, "times", times)).table.names == ("when at",)


# --- Parquet


def parquet(path, n=40, **columns):
    pytest.importorskip("pyarrow")
    base = {"x": np.arange(n) * 0.37 % 1, "class": ["ab"[i % 2] for i in range(n)]}
    pd.DataFrame({**columns, **base}).to_parquet(path, index=False)
    return path


def test_parquet(tmp_path):
    values = pd.Categorical(["u", None, "v", "u"] * 10)
    flags = pd.array([True, None] * 20, dtype="boolean")
    path = parquet(tmp_path / "d.parquet", whole=range(40), k=values, flag=flags)
    data = datasets.read(path, drop=["whole"])
    assert data.table.names == ("k", "flag", "x")
    assert data.table.columns[0].tolist() == ["u", None, "v", "u"] * 10
    assert data.table.columns[1].tolist() == ["True", None] * 20
    np.testing.assert_array_equal(data.table.columns[2], np.arange(40) * 0.37 % 1)
    assert datasets.read_unlabelled(path).kinds == (
        "numeric", "nominal", "nominal", "numeric", "nominal"
    )  # fmt: skip


def test_bad_parquet(tmp_path):
    path = parquet(tmp_path / "d.parquet", lists=[[1, 2]] * 40)
    assert "OD017 Left out, the cells are lists, records or bytes: lists." in map(
        str, datasets.read(path).findings
    )
    with pytest.raises(DataError, match="more than 39 rows"):
        datasets.read(path, limits=Limits(rows=39))
    with pytest.raises(DataError, match=r"cut.parquet is not a Parquet file, or is damaged"):
        datasets.read(write(tmp_path, "cut.parquet", path.read_bytes()[:300]))


def test_without_pyarrow(tmp_path):
    """The library and its named sets work; files say what to install."""
    program = (
        "import sys; sys.modules['pyarrow'] = None\n"
        "from outcode import datasets\n"
        "assert datasets.TableEncoder().fit_transform(datasets.load('iris').table).shape[1] == 4\n"
        f"try: datasets.read({str(write(tmp_path, 'd.csv', GOOD))!r})\n"
        "except datasets.DataError as error: print(error)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stdout == 'Reading files needs the package pyarrow: pip install "outcode[app]".\n'


# --- rows to predict


def test_unlabelled_rows_stay_text(tmp_path):
    table = datasets.read_unlabelled(write(tmp_path, "d.csv", "a,b\n01,x\n,y\n"))
    assert table.kinds == ("nominal", "nominal")
    assert [column.tolist() for column in table.columns] == [["01", None], ["x", "y"]]
    one = datasets.read_unlabelled(write(tmp_path, "one.csv", "a\n1\n2\n"))
    assert one.columns[0].tolist() == ["1", "2"]


# --- whatever the bytes are

SEEDS = {
    "f.csv": GOOD[:300].replace("0.370", '"q, 1"').encode(),
    "f.tsv": GOOD[:300].replace(",", "\t").encode("utf-8-sig"),
    "f.arff": b"@RELATION 'x y'\n@attribute 'a b' NUMERIC\n@attribute k {red,'dark blue'}\n"
    b"@attribute s string\n@attribute class {yes,no}\n@data\n1, 'dark blue', 'it\\'s', yes\n"
    b"?, red, 'w', no\n{0 4, 2 'a b', 3 no}\n{1 'dark blue', 2 \"q\"}\n",
    "f.libsvm": b"+1 1:2 3:4 # c\n-1 qid:1 2:1\n+1 1:3\n-1 2:1.5e3 7:9\n",
}
TOKENS = [
    b"", b"\n", b"\r", b'"', b"'", b",", b";", b"\t", b"?", b"nan", b"inf", b"-1", b"1e999", b"\0",
    b"\xff", b"{", b"}", b"@data\n", b":", b"#", b"1_0", b"\xd9\xa1", b"9" * 30, b"\xc2\xa0", b"\\",
    b"0:1", b"\xff\xfe", b" ", b"None", b"1,5",
]  # fmt: skip


def mutated(content, rng):
    out = bytearray(content)
    for _ in range(rng.integers(1, 4)):
        at = int(rng.integers(len(out) + 1))
        upto = at + int(rng.integers(0, 12))
        token = TOKENS[rng.integers(len(TOKENS))]
        match rng.integers(4):
            case 0:
                out[at : at + 1] = bytes([rng.integers(256)])
            case 1:
                out[at:at] = token
            case 2:
                out[at:upto] = token
            case _:
                out[at:at] = out[max(0, at - 40) : at]
    return bytes(out)


def outcome(reader, path):
    try:
        return reader(path)
    except DataError as error:
        return str(error)


@pytest.mark.parametrize("name", ["f.json", "f.jsonl", "f.parquet", "f.feather", "f.xls", "f.zip"])
def test_any_bytes_of_other_formats(tmp_path, name):
    """Damaged files are read or refused by our own error; a workbook's parser is slow to start."""
    from test_files import FORMATS, frame

    FORMATS[f"d.{name[2:]}"](frame(12), tmp_path / name)
    content = (tmp_path / name).read_bytes()
    rng = np.random.default_rng(len(name))
    refused = 0
    for _ in range(8 if name == "f.xls" else 150):
        found = outcome(datasets.read, write(tmp_path, name, mutated(content, rng)))
        refused += isinstance(found, str)
        outcome(datasets.read_unlabelled, tmp_path / name)
    assert refused > 3


def test_a_parser_without_memory_ends_without_a_trace(tmp_path, monkeypatch):
    """A damaged workbook ends its parser; writing a trace of it took most of the time."""
    from test_files import FORMATS, frame

    FORMATS["d.xls"](frame(12), tmp_path / "d.xls")
    content = mutated((tmp_path / "d.xls").read_bytes(), np.random.default_rng([0, 3]))
    run, told = subprocess.run, []

    def kept(*given, **how):
        told.append(run(*given, **how))
        return told[-1]

    monkeypatch.setattr(subprocess, "run", kept)
    monkeypatch.setenv("RUST_BACKTRACE", "full")
    with pytest.raises(DataError, match="takes too much memory or time"):
        datasets.read(write(tmp_path, "d.xls", content))
    assert told[0].returncode
    assert "backtrace:" not in told[0].stderr.decode()


@pytest.mark.parametrize("name", SEEDS)
def test_any_bytes_give_data_or_our_error(tmp_path, name):
    rng = np.random.default_rng(len(name))
    read, refused = 0, 0
    for trial in range(500):
        content = mutated(SEEDS[name], rng)
        if trial % 10 == 0:
            content = mutated(gzip.compress(content), rng)
        path = write(tmp_path, name, content)
        found = outcome(datasets.read, path)
        if isinstance(found, str):
            assert found.startswith(name)
            refused += 1
        else:
            assert found.table.n_rows == len(found.y)
            assert np.isfinite(found.X).all()
            read += 1
        outcome(datasets.read_unlabelled, path)
    assert read > 10
    assert refused > 100
