"""Tables, data sets by name, hashes and findings."""

from __future__ import annotations

import gzip
import json
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from scipy import sparse as sp

from outcode import datasets
from outcode.datasets import DataError, Dataset, Table
from outcode.datasets.columns import about


def text(*cells):
    return np.array(cells, dtype=object)


def write(folder, name, content):
    path = folder / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def table_of(columns, n=60, classes="abc", **options):
    """Return a csv text: columns are functions of the row; the class cycles."""
    lines = [",".join([*columns, "class"])]
    lines += [
        ",".join([*(str(f(i)) for f in columns.values()), classes[i % len(classes)]])
        for i in range(n)
    ]
    return "\n".join(lines) + "\n"


def findings(data):
    return {finding.code: finding for finding in data.findings}


# --- tables and data sets


def test_taking_rows_and_columns():
    table = Table(("x", "c"), ("numeric", "nominal"), (np.array([1.0, np.nan]), text("a", None)))
    assert (table.n_rows, table.missing) == (2, 2)
    part = table.select(["c"]).take(np.array([True, False]))
    assert (part.names, part.kinds, part.columns[0].tolist()) == (("c",), ("nominal",), ["a"])
    with pytest.raises(DataError, match=r"Column 'cc' is missing. Did you mean 'c' for 'cc'"):
        table.select(["cc"])
    with pytest.raises(DataError, match=r"'x' occurs 2 times \(columns 1, 2\)"):
        Table(("x", "x"), ("numeric", "numeric"), (np.ones(1), np.ones(1)))
    with pytest.raises(ValueError, match="one name and kind per column"):
        Table(("x",), ("numeric",), (np.ones(1), np.ones(1)))


def test_a_sparse_table_takes_and_selects():
    block = sp.csr_matrix([[0.0, 1.0], [2.0, 0.0], [0.0, 3.0]])
    table = Table(("f1", "f2"), ("numeric", "numeric"), sparse=block)
    part = table.select(["f2"]).take(np.array([0, 2]))
    np.testing.assert_array_equal(part.sparse.toarray(), [[1.0], [3.0]])
    assert part.n_rows == 2


def test_the_hash_is_of_the_content(tmp_path):
    content = table_of({"x": lambda i: i / 7, "k": lambda i: "pq"[i % 2]})
    plain = datasets.read(write(tmp_path, "one.csv", content))
    packed = datasets.read(write(tmp_path, "other.csv.gz", gzip.compress(content.encode())))
    tabs = datasets.read(write(tmp_path, "tabs.tsv", content.replace(",", "\t")))
    assert plain.hash == packed.hash == tabs.hash
    assert len(plain.hash) == 64
    changed = {plain.hash}
    for old, new in (("x,k", "z,k"), ("\n0.0,p,a", "\n0.5,p,a"), ("p,a", "p,b"), ("q,b", "r,b")):
        path = write(tmp_path, "c.csv", content.replace(old, new, 1))
        changed.add(datasets.read(path).hash)
    assert len(changed) == 5


def test_the_hash_does_not_tell_nan_or_zero_bits_apart():
    y = np.array(["a", "b"])
    other_nan = np.array([0x7FF8000000000001, 0x8000000000000000], dtype=np.uint64).view(float)
    one, two = (Dataset("d", x[:, None], y).hash for x in (np.array([np.nan, 0.0]), other_nan))
    assert one == two


def test_a_data_set_of_an_array():
    data = Dataset(
        "d", np.array([[1.0, np.nan], [3.0, 5.0], [4.0, 7.0]]), np.array(["a", "b", "a"])
    )
    assert data.feature_names == ("x0", "x1")
    np.testing.assert_array_equal(data.X, [[1, 6], [3, 5], [4, 7]])
    with pytest.raises(ValueError, match="2 labels, but 3 rows"):
        Dataset("d", data.X, np.array(["a", "b"]))


# --- by name


def test_the_folder_against_pandas(data_dir):
    about = json.loads((data_dir / "datasets.json").read_text())["datasets"]
    for name, entry in about.items():
        nominal = entry["nominal_columns"]
        text_columns = dict.fromkeys([*nominal, "class", "split"], str)
        frame = pd.read_csv(
            data_dir / entry["file"], dtype=text_columns, keep_default_na=False,
            na_values={c: [""] for c in pd.read_csv(data_dir / entry["file"], nrows=0).columns},
        )  # fmt: skip
        data = datasets.load(name, data_dir)
        assert data.y.tolist() == frame.pop("class").tolist()
        split = frame.pop("split").tolist() if "split" in frame else None
        assert (data.split if data.split is None else data.split.tolist()) == split
        assert data.table.names == tuple(frame.columns)
        parts = []
        for column, cells in zip(frame.columns, data.table.columns, strict=True):
            if column in nominal:
                assert [c or "" for c in cells] == frame[column].fillna("").tolist()
                dummies = pd.get_dummies(frame[column].fillna(""), dtype=float)
                parts.append(dummies[sorted(dummies)].to_numpy())
            else:
                np.testing.assert_allclose(cells, frame[column], rtol=1e-15)
                parts.append(frame[[column]].fillna(frame[column].median()).to_numpy(float))
        np.testing.assert_allclose(data.X, np.hstack(parts), rtol=1e-15)
        assert len(data.feature_names) == data.X.shape[1]


def test_names_and_what_is_bundled(data_dir, monkeypatch):
    monkeypatch.delenv("OUTCODE_DATA", raising=False)
    assert datasets.names() == ["breast_cancer", "digits", "iris", "wine"]
    assert {"letter", "digits"} <= set(datasets.names(data_dir))
    shapes = {name: datasets.load(name).X.shape for name in datasets.names()}
    assert shapes == {
        "breast_cancer": (569, 30), "digits": (1797, 64), "iris": (150, 4), "wine": (178, 13)
    }  # fmt: skip
    assert datasets.load("iris").source == "scikit-learn's iris"
    monkeypatch.setenv("OUTCODE_DATA", str(data_dir))
    assert "letter" in datasets.names()


def test_a_folder_that_is_none(tmp_path):
    with pytest.raises(DataError, match=r"holds no datasets.json"):
        datasets.load("iris", tmp_path)
    write(tmp_path, "datasets.json", "{")
    with pytest.raises(DataError, match=r"datasets.json cannot be read"):
        datasets.names(tmp_path)
    entry = {"file": "a.csv.gz", "nominal_columns": []}
    write(tmp_path, "datasets.json", json.dumps({"datasets": {"a": entry}}))
    write(tmp_path, "a.csv.gz", gzip.compress(b"x,class\n1,a\nz,b\n"))
    with pytest.raises(DataError, match=r"a.csv.gz is not as datasets.json describes it.*'z'"):
        datasets.load("a", tmp_path)


def test_openml(monkeypatch):
    asked = []

    def fetch(name, version, **options):
        asked.append((name, version))
        frame = pd.DataFrame({"x": [1.0, np.nan, 2.0], "k": pd.Categorical(["u", "v", None])})
        target = pd.Series(["yes", "no", None], dtype="category", name="good")
        return SimpleNamespace(data=frame, target=target, details={"version": "3"})

    monkeypatch.setattr("sklearn.datasets.fetch_openml", fetch)
    monkeypatch.delenv("OUTCODE_DATA", raising=False)
    data = datasets.load("credit-g:3")
    assert asked == [("credit-g", 3)]
    assert data.table.kinds == ("numeric", "nominal")
    assert data.table.columns[1].tolist() == ["u", "v"]
    assert data.y.tolist() == ["yes", "no"]
    assert findings(data)["OD008"].columns == ("good",)
    assert data.name == "credit-g:3"
    assert data.source == "OpenML credit-g, version 3"
    datasets.load("credit-g")
    assert asked[-1] == ("credit-g", "active")


def test_openml_out_of_reach(monkeypatch):
    def fetch(name, version, **options):
        raise OSError("no route to host")

    monkeypatch.setattr("sklearn.datasets.fetch_openml", fetch)
    monkeypatch.delenv("OUTCODE_DATA", raising=False)
    with pytest.raises(DataError) as caught:
        datasets.load("irsi")
    for part in ("Did you mean 'iris'?", "no route to host", "check the name and the network"):
        assert part in str(caught.value)


def test_openml_without_a_target(monkeypatch):
    nothing = SimpleNamespace(data=pd.DataFrame({"x": [1.0]}), target=None, details={})
    monkeypatch.setattr("sklearn.datasets.fetch_openml", lambda *args, **options: nothing)
    with pytest.raises(DataError, match="no single target column"):
        datasets.load("boston-1234")


# --- what is said


def test_what_was_inferred_is_said(tmp_path):
    content = table_of(
        {"x": lambda i: i / 7, "code": lambda i: i * i % 5, "k": lambda i: "pq"[i % 2]}
    )
    about = " ".join(datasets.read(write(tmp_path, "d.csv", content)).about)
    for part in (
        "Cells are separated by comma.",
        "The target is 'class', the last column.",
        "60 rows in 3 classes: a 20, b 20, c 20.",
        "3 columns: 2 numeric, 1 categorical (k).",
        "few different whole numbers are read as numbers: code.",
        "add --types code=category.",
    ):
        assert part in about


def test_long_columns_of_few_values_are_described():
    x = np.arange(1_200_000.0) % 2
    said = " ".join(about(Table(("x",), ("numeric",), (x,)), x.astype(int)))
    assert said.startswith("1,200,000 rows in 2 classes: 0 600000, 1 600000. 1 column: 1 numeric")
    assert "few different" not in said


def test_nothing_is_found_where_nothing_is_odd(tmp_path):
    content = table_of({"x": lambda i: i * 0.37 % 1, "k": lambda i: "pq"[i * i % 5 % 2]})
    assert datasets.read(write(tmp_path, "d.csv", content)).findings == ()


ODD = {
    "OD001": ({"id": lambda i: 1000 + 7 * i}, ("id",), "like an identifier: id"),
    "OD002": ({"one": lambda i: "same"}, ("one",), "same value in every row: one"),
    "OD003": ({"u": lambda i: i % 7, "v": lambda i: i % 7}, ("u", "v"), "same content: u, v"),
    "OD004": ({"leak": lambda i: "rst"[i % 3] + "xy"[i % 2]}, ("leak",), "tells all classes: leak"),
    "OD005": ({"d": lambda i: f"k{i // 2 * 2 + i % 3}"}, ("d",), "Many different values: d"),
    "OD006": ({"m": lambda i: "" if i % 3 else i / 7}, ("m",), "More than half"),
    "OD012": ({"v": lambda i: "-inf" if i == 4 else i / 7}, ("v",), "1 infinite cell is taken"),
    "OD013": ({"v": lambda i: 1e6 if i == 4 else i / 7}, ("v",), "farthest 1e+06 in row 5"),
}  # fmt: skip


@pytest.mark.parametrize("code", ODD)
def test_odd_columns_are_found(tmp_path, code):
    columns, names, message = ODD[code]
    base = {"x": lambda i: i * 0.37 % 1}
    data = datasets.read(write(tmp_path, "d.csv", table_of({**base, **columns})))
    assert set(findings(data)) == {code}
    assert findings(data)[code].columns == names
    assert message in findings(data)[code].message
    assert set(names) <= set(data.table.names)


def test_nearly_unique_numbers_are_no_leak(tmp_path):
    """Numbers that differ from row to row separate any classes; that is no warning."""
    content = table_of({"x": lambda i: i * 0.37 % 1, "t": lambda i: i % 3 + i / 1000})
    assert findings(datasets.read(write(tmp_path, "d.csv", content))) == {}
    few = "x,y,class\n" + "".join(f"{i % 8},{i},{'ab'[i in (3, 17)]}\n" for i in range(100))
    assert "OD004" not in findings(datasets.read(write(tmp_path, "d.csv", few)))


def test_infinite_cells_are_missing(tmp_path):
    data = datasets.read(write(tmp_path, "d.csv", table_of(ODD["OD012"][0])))
    assert np.flatnonzero(np.isnan(data.table.columns[0])).tolist() == [4]


def test_text_that_differs_in_every_row_is_left_out(tmp_path):
    content = table_of({"name": lambda i: f"n{i}", "x": lambda i: i * 0.37 % 1})
    data = datasets.read(write(tmp_path, "d.csv", content))
    assert data.table.names == ("x",)
    assert findings(data)["OD001"].message == (
        "Left out, every row has another value, like an identifier: name."
    )


def test_empty_columns_and_unlabelled_rows_are_left_out(tmp_path):
    content = table_of(
        {"x": lambda i: i * 0.37 % 1, "none": lambda i: ("", "NA", "?", "null")[i % 4]}
    )
    data = datasets.read(write(tmp_path, "d.csv", content + "1,,\n1,,?\n"))
    assert data.table.names == ("x",)
    assert (data.table.n_rows, len(data.y)) == (60, 60)
    found = findings(data)
    assert found["OD007"].columns == ("none",)
    assert "2 rows are left out" in found["OD008"].message
    assert "row 61" in found["OD008"].message


def test_small_and_unequal_classes(tmp_path):
    content = "x,class\n" + "".join(f"{i * 0.37 % 1},a\n" for i in range(60)) + "1,b\n2,c\n3,c\n"
    data = datasets.read(write(tmp_path, "d.csv", content))
    found = findings(data)
    assert found["OD009"].message.startswith("1 row is left out: a class of one row")
    assert found["OD009"].message.endswith(": b.")
    assert sorted(set(data.y.tolist())) == ["a", "c"]
    assert data.table.n_rows == 62
    assert found["OD010"].message.endswith(": c.")
    assert "96.8 % of the rows are of class a" in found["OD011"].message
    pair = datasets.read(write(tmp_path, "d.csv", "x,class\n1,a\n2,a\n3,b\n"))
    assert "one row" in findings(pair)["OD009"].message
    assert sorted(set(pair.y.tolist())) == ["a", "b"]  # one class alone could not be learned


def test_none_and_a_dash_are_classes(tmp_path):
    content = "x,class\n" + "1,None\n2,-\n3,NA\n" * 10
    data = datasets.read(write(tmp_path, "d.csv", content))
    assert sorted(set(data.y.tolist())) == ["-", "None"]
    assert "10 rows are left out" in findings(data)["OD008"].message


def test_a_few_words_among_numbers_are_missing(tmp_path):
    content = table_of({"x": lambda i: "high" if i == 7 else i % 30, "z": lambda i: i * 0.37 % 1})
    data = datasets.read(write(tmp_path, "d.csv", content))
    assert data.table.kinds == ("numeric", "numeric")
    assert np.flatnonzero(np.isnan(data.table.columns[0])).tolist() == [7]
    found = findings(data)["OD014"]
    assert found.columns == ("x",)
    assert found.message == (
        "x: 1 cell is not numeric and taken as missing, the first in row 8: 'high'."
    )
    kept = datasets.read(tmp_path / "d.csv", types={"x": "category"})
    assert kept.table.kinds == ("nominal", "numeric")
    words = ["high", "low"]
    many = table_of({"x": lambda i: i if i % 7 else words[i % 2], "z": lambda i: i * 0.37 % 1})
    assert datasets.read(write(tmp_path, "d.csv", many)).table.kinds == ("nominal", "numeric")


def test_rows_that_are_numbered_are_left_out(tmp_path):
    rows = "".join(f"{i + 1},{i * 0.37 % 1},{'ab'[i // 15]}\n" for i in range(30))
    data = datasets.read(write(tmp_path, "d.csv", ",x,class\n" + rows))
    assert data.table.names == ("x",)
    assert findings(data)["OD001"].columns == ("c1",)
    kept = datasets.read(write(tmp_path, "d.csv", "time,x,class\n" + rows))
    assert kept.table.names == ("time", "x")
    assert findings(kept)["OD001"].columns == ("time",)


def test_classes_that_differ_by_case(tmp_path):
    content = table_of({"x": lambda i: i * 0.37 % 1}, classes=["yes", "Yes", "no"])
    found = findings(datasets.read(write(tmp_path, "d.csv", content)))["OD016"]
    assert found.message == "Classes that differ only by case or blanks: 'Yes', 'yes'."
