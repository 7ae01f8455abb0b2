"""TableEncoder against explicit computations with pandas and scikit-learn."""

from __future__ import annotations

import pickle

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from scipy import sparse as sp
from sklearn.base import clone
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler, OneHotEncoder, StandardScaler
from sklearn.utils.estimator_checks import check_estimator

from outcode import datasets
from outcode.datasets import DataError, EncodedColumn, Table, TableEncoder


def frame(n=80, seed=0):
    rng = np.random.default_rng(seed)
    rows = pd.DataFrame(
        {
            "x": rng.normal(3.0, 5.0, n),
            "holes": np.where(rng.random(n) < 0.2, np.nan, rng.integers(0, 9, n)),
            "k": rng.choice(["u", "v", "w"], n, p=[0.5, 0.3, 0.2]).astype(object),
            "gaps": rng.choice(["p", "q", None], n).astype(object),
            "one": 4.0,
            "same": "z",
        }
    )
    return rows


def expected(train, rows, scaler):
    """Return the encoding, column by column, the slow and obvious way."""
    parts = []
    for name in ("x", "holes"):
        filled = rows[[name]].fillna(train[name].median())
        fitted = scaler().fit(train[[name]].fillna(train[name].median())) if scaler else None
        parts.append(fitted.transform(filled) if fitted else filled.to_numpy())
        if name == "holes":
            parts.append(rows[[name]].isna().to_numpy())
    for name in ("k", "gaps"):
        common = train[name].mode()[0]
        hot = OneHotEncoder(handle_unknown="ignore", sparse_output=False)
        hot.fit(train[[name]].fillna(common).to_numpy())
        parts.append(hot.transform(rows[[name]].fillna(common).to_numpy()))
        if name == "gaps":
            parts.append(rows[[name]].isna().to_numpy())
    return np.hstack(parts).astype(float)


@pytest.mark.parametrize(
    ("scale", "scaler"), [("standard", StandardScaler), ("unit", MinMaxScaler), (None, None)]
)
def test_against_scikit_learn(scale, scaler):
    train, test = frame(), frame(50, seed=1)
    test.loc[3, "k"] = "never seen"
    encoder = TableEncoder(scale).fit(train)
    for rows in (train, test):
        np.testing.assert_allclose(
            encoder.transform(rows), expected(train, rows, scaler), rtol=1e-12, atol=1e-12
        )
    assert encoder.get_feature_names_out().tolist() == [
        "x", "holes", "holes=missing", "k=u", "k=v", "k=w", "gaps=p", "gaps=q", "gaps=missing"
    ]  # fmt: skip


def test_frames_tables_and_arrays_agree():
    rows = frame()
    wanted = TableEncoder().fit_transform(rows)
    table = datasets.as_table(rows)
    assert table.kinds == ("numeric", "numeric", "nominal", "nominal", "numeric", "nominal")
    polars = pl.DataFrame(
        {name: [None if pd.isna(v) else v for v in rows[name]] for name in rows.columns}
    )
    for other in (table, polars, rows.to_numpy(), rows.convert_dtypes()):
        np.testing.assert_array_equal(TableEncoder().fit_transform(other), wanted)
    np.testing.assert_array_equal(
        TableEncoder().fit_transform(rows[["x"]].to_numpy()), wanted[:, :1]
    )
    with pytest.raises(DataError, match="a table of rows and columns"):
        TableEncoder().fit(np.ones(3))


def test_frames_of_every_kind_of_column():
    rows = pd.DataFrame(
        {
            "flag": [True, False, True],
            "day": pd.to_datetime(["2020-01-01", None, "2020-01-03"]),
            "level": pd.Categorical(["a", None, "b"]),
            "whole": pd.array([1, None, 3], dtype="Int64"),
            7: [1, 2, 3],
        }
    )
    table = datasets.as_table(rows)
    assert table.names == ("flag", "day", "level", "whole", "7")
    assert table.kinds == ("nominal", "date", "nominal", "numeric", "numeric")
    assert table.columns[0].tolist() == ["True", "False", "True"]
    assert np.isnat(table.columns[1]).tolist() == [False, True, False]
    assert table.columns[2].tolist() == ["a", None, "b"]
    np.testing.assert_array_equal(table.columns[3], [1.0, np.nan, 3.0])


def test_kinds_seen_in_training_are_imposed(tmp_path):
    train = Table(
        ("x", "k"), ("numeric", "nominal"),
        (np.array([1.0, 2.0, 3.0]), np.array(["1", "2", "word"], dtype=object)),
    )  # fmt: skip
    encoder = TableEncoder(None).fit(train)
    path = tmp_path / "rows.csv"
    path.write_text("more,k,x\nq,1,5\nq,2,?\nq,other,1e1\n")
    table = datasets.read_unlabelled(path)
    np.testing.assert_array_equal(
        encoder.transform(table), [[5, 1, 0, 0], [2, 0, 1, 0], [10, 0, 0, 0]]
    )
    assert encoder.unused(table) == ("more",)
    path.write_text("k,x\n1,5\n2,5\n1,five\n")
    with pytest.raises(DataError, match=r"rows.csv: row 3, column 'x': 'five' is not a number"):
        encoder.transform(datasets.read_unlabelled(path))
    path.write_text('k,x\n1,"5,5"\n')
    assert encoder.transform(datasets.read_unlabelled(path))[0, 0] == 5.5
    path.write_text("k,xx\n1,5\n")
    with pytest.raises(
        DataError,
        match=r"rows.csv: Column 'x' is missing. Did you mean 'xx' for 'x'\? The columns are 'k'",
    ):
        encoder.transform(datasets.read_unlabelled(path))
    path.write_text("a,b\n1,5\n")
    with pytest.raises(DataError, match=r"2 columns: 'x', 'k' are missing. The columns are"):
        encoder.transform(datasets.read_unlabelled(path))
    numeric = pd.DataFrame({"x": [1.0], "k": [2.0]})
    np.testing.assert_array_equal(encoder.transform(numeric), [[1, 0, 1, 0]])


def test_columns_are_found_by_name():
    rows = frame()
    encoder = TableEncoder().fit(rows)
    shuffled = rows[["same", "gaps", "x", "k", "one", "holes"]]
    np.testing.assert_array_equal(encoder.transform(shuffled), encoder.transform(rows))
    np.testing.assert_array_equal(
        encoder.transform(rows.drop(columns=["one", "same"])), encoder.transform(rows)
    )
    with pytest.raises(DataError, match="X has 2 features, but TableEncoder is expecting 6"):
        encoder.transform(rows.to_numpy()[:, :2])


def test_all_that_transform_needs_is_in_columns():
    rows = frame()
    fitted = TableEncoder("unit").fit(rows)
    bare = TableEncoder("unit")
    bare.columns_ = tuple(EncodedColumn(**vars(column)) for column in fitted.columns_)
    bare.idf_, bare.topics_ = fitted.idf_, fitted.topics_
    np.testing.assert_array_equal(bare.transform(rows), fitted.transform(rows))
    for column in fitted.columns_:
        assert {type(value) for value in vars(column).values()} <= {str, float, bool, int, tuple}
        assert {type(value) for value in column.values} <= {str}
    again = pickle.loads(pickle.dumps(fitted))
    np.testing.assert_array_equal(again.transform(rows), fitted.transform(rows))


def test_missing_and_infinite_numbers_at_prediction():
    encoder = TableEncoder(None).fit(np.array([[1.0], [2.0], [6.0]]))
    np.testing.assert_array_equal(
        encoder.transform(np.array([[np.nan], [np.inf], [5.0]])), [[2.0], [2.0], [5.0]]
    )


def test_missing_as_an_indicator_alone():
    rows = Table(
        ("x", "k"), ("numeric", "nominal"),
        (np.array([4.0, np.nan, 4.0]), np.array(["a", "a", None], dtype=object)),
    )  # fmt: skip
    encoder = TableEncoder().fit(rows)
    assert encoder.get_feature_names_out().tolist() == ["x=missing", "k=missing"]
    np.testing.assert_array_equal(encoder.transform(rows), [[0, 0], [1, 0], [0, 1]])


def test_many_values_keep_the_most_frequent():
    cells = np.array([f"v{i}" for i in range(30) for _ in range(i + 1)], dtype=object)
    table = Table(("k",), ("nominal",), (cells,))
    encoder = TableEncoder(max_values=3).fit(table)
    assert encoder.columns_[0].values == ("v27", "v28", "v29")
    assert encoder.transform(table).sum() == 28 + 29 + 30
    assert len(TableEncoder().fit(table).columns_[0].values) == 30


def test_sparse_tables_stay_sparse():
    block = sp.csr_matrix([[0.0, -4.0, 0.0], [2.0, 0.0, 0.0], [1.0, 2.0, 0.0]])
    table = Table(("f1", "f2", "f3"), ("numeric",) * 3, sparse=block)
    encoder = TableEncoder().fit(table)
    out = encoder.transform(table)
    assert sp.issparse(out)
    assert out.format == "csr"
    np.testing.assert_array_equal(out.toarray(), [[0, -1], [1, 0], [0.5, 0.5]])
    assert encoder.get_feature_names_out().tolist() == ["f1", "f2"]
    short = Table(("f1",), ("numeric",), sparse=sp.csr_matrix([[1.0], [0.0]]))
    np.testing.assert_array_equal(encoder.transform(short).toarray(), [[0.5, 0], [0, 0]])
    dense = Table(("f2", "f1"), ("numeric",) * 2, (np.array([4.0]), np.array([2.0])))
    np.testing.assert_array_equal(encoder.transform(dense).toarray(), [[1, 1]])
    full = TableEncoder(None).fit(Table(("f1", "f2"), ("numeric",) * 2, tuple(np.eye(2))))
    np.testing.assert_array_equal(full.transform(short), [[1, 0], [0, 0]])
    unscaled = TableEncoder(None).fit_transform(block)
    np.testing.assert_array_equal(unscaled.toarray(), block.toarray()[:, :2])


def test_scikit_learn_checks():
    results = check_estimator(TableEncoder(), on_skip=None, on_fail=None)
    assert [r["check_name"] for r in results if r["status"] == "failed"] == []
    assert sum(r["status"] == "passed" for r in results) > 40


def test_scikit_learn_conventions():
    encoder = TableEncoder(scale="unit", max_values=7)
    assert clone(encoder).get_params() == {
        "scale": "unit", "max_values": 7, "topics": 100, "tails": None
    }  # fmt: skip
    data = datasets.load("iris")
    model = make_pipeline(TableEncoder(), KNeighborsClassifier(3))
    model.set_params(tableencoder__scale=None)
    assert model.fit(data.table, data.y).score(data.table, data.y) > 0.95
    assert model[0].n_features_in_ == 4
    assert model[0].feature_names_in_.tolist() == list(data.table.names)
    pandas = TableEncoder().set_output(transform="pandas").fit_transform(frame())
    assert list(pandas.columns)[:3] == ["x", "holes", "holes=missing"]
    with pytest.raises(ValueError, match=r"Unknown scale 'standrad'. Did you mean 'standard'"):
        TableEncoder("standrad").fit(data.table)


@pytest.mark.parametrize("rows", [np.ones((3, 2)), np.full((3, 2), np.nan), np.empty((0, 2))])
def test_nothing_to_learn_from(rows):
    with pytest.raises(DataError, match="learn from"):
        TableEncoder().fit(rows)


@settings(max_examples=150, deadline=None)
@given(
    X=hnp.arrays(float, st.tuples(st.integers(2, 8), st.integers(1, 3))),
    scale=st.sampled_from(["standard", "unit", None]),
)
def test_any_numbers_become_finite_ones(X, scale):
    try:
        out = TableEncoder(scale).fit_transform(X)
    except DataError as error:
        assert "nothing to learn from" in str(error)  # noqa: PT017  # either outcome is right
        return
    assert out.shape[0] == X.shape[0]
    assert np.isfinite(out).all()
    assert (out.max(axis=0) > out.min(axis=0)).all()
