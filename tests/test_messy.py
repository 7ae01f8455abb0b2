"""Kinds of trouble seen in real files: one small file for each, read rightly or refused clearly."""

from __future__ import annotations

import io
import json
import pickle
import tarfile
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
