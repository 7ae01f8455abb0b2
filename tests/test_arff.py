"""ARFF files: what Weka writes, and what is wrong with a file."""

from __future__ import annotations

import numpy as np
import pytest

from outcode import datasets
from outcode.datasets import DataError

HEADER = """% made by hand

@RELATION 'two words'
@attribute 'a b'\tNUMERIC
@Attribute colour {red,'dark blue', "x\\"y", 'it\\'s, so'}
@attribute when date 'yyyy-MM-dd'
@attribute note STRING
@attribute size{small,large}
@attribute class { yes , no }
@DATA
"""


def write(folder, content):
    path = folder / "d.arff"
    path.write_text(content)
    return path


def read(folder, rows, header=HEADER):
    return datasets.read_unlabelled(write(folder, header + rows))


def columns(table):
    return [column.tolist() for column in table.columns]


def test_dense_rows(tmp_path):
    table = read(
        tmp_path,
        "1.5, 'dark blue', 2001-01-01, 'it\\'s \\\\ ok, or?', small, yes\n"
        "% a comment\n"
        '?,red,?,"?",large,no\n'
        "-1e3 , 'it\\'s, so' , 'x' , plain words , ? , yes\n",
    )
    assert table.names == ("a b", "colour", "when", "note", "size", "class")
    assert table.kinds == ("numeric", *["nominal"] * 5)
    np.testing.assert_array_equal(table.columns[0], [1.5, np.nan, -1000.0])
    assert columns(table)[1:] == [
        ["dark blue", "red", "it's, so"],
        ["2001-01-01", None, "x"],
        ["it's \\ ok, or?", "?", "plain words"],
        ["small", "large", None],
        ["yes", "no", "yes"],
    ]


def test_sparse_rows(tmp_path):
    table = read(tmp_path, "{0 4, 1 'dark blue', 3 'a, b', 5 no}\n{ }\n{0 ?,4 large}\n")
    np.testing.assert_array_equal(table.columns[0], [4.0, 0.0, np.nan])
    assert columns(table)[1:] == [
        ["dark blue", "red", "red"],
        [None, None, None],
        ["a, b", None, None],
        ["small", "small", "large"],
        ["no", "yes", "yes"],
    ]


def test_a_data_set(tmp_path):
    rows = "".join(
        f"{i},red,?,?,{'small' if i % 3 else 'large'},{'yes' if i % 2 else 'no'}\n"
        for i in range(30)
    )
    data = datasets.read(write(tmp_path, HEADER + rows))
    assert data.table.names == ("a b", "colour", "size")
    assert data.y[:2].tolist() == ["no", "yes"]
    assert {finding.code for finding in data.findings} == {"OD001", "OD002", "OD007"}
    chosen = datasets.read(tmp_path / "d.arff", "size", drop=["when"])
    assert set(chosen.y.tolist()) == {"small", "large"}


def test_numbers_declared_nominal_stay_nominal(tmp_path):
    header = "@relation r\n@attribute k {1,2,3,4,5,6,7}\n@attribute class {0,1}\n@data\n"
    rows = "".join(f"{i % 7 + 1},{i % 2}\n" for i in range(28))
    data = datasets.read(write(tmp_path, header + rows))
    assert data.table.kinds == ("nominal",)
    assert data.findings == ()


def test_against_scipy(tmp_path):
    from scipy.io import arff

    rng = np.random.default_rng(0)
    header = "@relation r\n@attribute x real\n@attribute k {u,v,w}\n@attribute class {a,b}\n@data\n"
    rows = (
        "".join(
            f"{rng.normal()!r},{rng.choice(list('uvw'))},{rng.choice(list('ab'))}\n"
            for _ in range(50)
        )
        .replace("np.float64(", "")
        .replace(")", "")
    )
    table = read(tmp_path, rows, header)
    theirs, _ = arff.loadarff(tmp_path / "d.arff")
    np.testing.assert_array_equal(table.columns[0], theirs["x"])
    assert columns(table)[1:] == [[c.decode() for c in theirs[n]] for n in ("k", "class")]


DECLARE = (
    "@relation r\n@attribute x numeric\n@attribute k {alpha,beta}\n@attribute c {y,n}\n@data\n"
)
BAD = {
    DECLARE + "1,alpha,y\n1,alpha\n": "d.arff, line 7: expected 3 cells, one for each",
    DECLARE + "1,alpha,y\n\n1z,alpha,y\n": "line 8, column 'x': '1z' is not a number",
    DECLARE + "1,alhpa,y\n": "line 6: Unknown value 'alhpa'. Did you mean 'alpha'?",
    DECLARE + "1,'alpha,y\n": "line 6: the quote that opens at",
    DECLARE + "1,'alpha'x,y\n": "line 6: expected a comma after the quoted cell 'alpha'",
    DECLARE + "{0 1, 3 y}\n": "line 6: index 3, but the attributes are 0 to 2",
    DECLARE + "{0 1, 0 2}\n": "line 6: index 0 occurs twice",
    DECLARE + "{0 1, 2 y\n": "line 6: the sparse row is not closed",
    DECLARE + "{0 1, y}\n": "line 6: expected 'index value' in the sparse row at ' y'",
    DECLARE: "d.arff has attributes and no rows",
    DECLARE.replace("@data\n", ""): "no @data line",
    DECLARE.replace("x numeric", "bag relational"): "line 2: attribute 'bag' is relational",
    DECLARE.replace("x numeric", "x complex"): "unknown type 'complex'",
    DECLARE.replace("x numeric", "x"): "line 2: expected '@attribute name type'",
    DECLARE.replace("x numeric", "numeric"): "line 2: expected '@attribute name type'",
    DECLARE.replace("beta}", "beta"): "line 3: the list of values is not closed",
    "@relation r\n@attribute x numeric\n@data\n1\n": "declares 1 attributes",
    "x,y\n1,2\n": "line 1: expected @relation, @attribute or @data, found 'x,y'",
}  # fmt: skip


@pytest.mark.parametrize("content", BAD)
def test_bad_files(tmp_path, content):
    with pytest.raises(DataError) as caught:
        datasets.read(write(tmp_path, content))
    assert BAD[content] in str(caught.value)


def test_limits(tmp_path):
    path = write(tmp_path, DECLARE + "1,alpha,y\n2,beta,n\n" * 5)
    assert datasets.read(path, limits=datasets.Limits(rows=10, columns=3)).table.n_rows == 10
    for what, allowed in (("rows", 9), ("columns", 2), ("cells", 29)):
        with pytest.raises(DataError, match=f"more than {allowed} {what}"):
            datasets.read(path, limits=datasets.Limits(**{what: allowed}))


def test_hostile_quoting_takes_linear_time(tmp_path):
    for cell in ("'" + "\\" * 200_001, "'" * 100_001, " " * 200_000 + "'", "'a'" + " " * 200_000):
        with pytest.raises(DataError):
            datasets.read(write(tmp_path, DECLARE + f"1,{cell},y,z\n"))
