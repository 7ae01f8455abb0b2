"""TableEncoder on dates, names, free text, heavy tails and gaps; files of fitted encoders."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.svm import SVC
from threadpoolctl import threadpool_limits

from outcode import OutputCodeClassifier, datasets, persistence
from outcode.datasets import DataError, Table, TableEncoder
from outcode.datasets.encoded import date_parts
from outcode.datasets.topics import counted, projection, weighted, weights

N = 240


def text(*cells):
    array = np.empty(len(cells), dtype=object)
    array[:] = cells
    return array


def table(seed=0):
    """Return a table with a column of every kind, and classes that its date and text tell."""
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 3, N)
    days = np.datetime64("2020-01-01", "s") + (120 * y + rng.integers(0, 90, N)) * 86_400
    days[5] = np.datetime64("NaT")
    chatter = ["please", "I", "my", "the", "was", "today", "with"]
    topic = np.array(["refund", "card", "transfer"])
    notes = [" ".join([*rng.choice(chatter, 4), topic[k], *rng.choice(chatter, 3)]) for k in y]
    names = [f"{['junior', 'senior', 'chief'][k]}{rng.integers(100)}" for k in y]
    notes[7] = None
    columns = (rng.lognormal(0, 2, N), days, text(*names), text(*notes), text(*"uv" * (N // 2)))
    kinds = ("numeric", "date", "nominal", "text", "nominal")
    return Table(("amount", "day", "job", "note", "k"), kinds, columns), y


# --- dates


def test_parts_of_dates_against_pandas():
    when = pd.Series(pd.date_range("1950-03-01 05:00", periods=4000, freq="13h"))
    days = when.to_numpy().astype("datetime64[s]").astype(np.int64) / 86_400
    parts = date_parts(days)
    np.testing.assert_array_equal(parts["year"], when.dt.year)
    np.testing.assert_array_equal(parts["day"], when.dt.day)
    for name, values, period in (
        ("month", when.dt.month - 1, 12),
        ("weekday", when.dt.day_of_week, 7),
        ("hour", when.dt.hour, 24),
    ):
        angle = 2 * np.pi * values.to_numpy() / period
        np.testing.assert_allclose(parts[f"{name} sin"], np.sin(angle), atol=1e-9)
        np.testing.assert_allclose(parts[f"{name} cos"], np.cos(angle), atol=1e-9)


@pytest.mark.parametrize("scale", ["standard", "unit", None])
def test_dates_become_their_parts(scale):
    data, _ = table()
    part = data.select(["day"])
    out = TableEncoder(scale).fit(part)
    assert out.get_feature_names_out().tolist() == [
        "day.elapsed", "day.day", "day.month sin", "day.month cos", "day.weekday sin",
        "day.weekday cos",
    ]  # fmt: skip
    rows = out.transform(part)
    if scale == "standard":
        np.testing.assert_allclose(rows[:, :2].mean(axis=0), 0, atol=1e-9)
        np.testing.assert_allclose(rows[:, :2].std(axis=0), 1, atol=1e-9)
    if scale == "unit":
        assert (rows.min(), rows.max()) == (0, 1)
    missing = Table(("day",), ("date",), (np.array(["NaT"], dtype="datetime64[s]"),))
    elapsed = data.columns[1][~np.isnat(data.columns[1])].astype(np.int64) / 86_400
    if scale is None:
        assert out.transform(missing)[0, 0] == np.median(elapsed)
    words = Table(("day",), ("nominal",), (text("03/04/2020", "05/31/2020"),))
    typed = np.array(["2020-03-04", "2020-05-31"], dtype="datetime64[s]")
    np.testing.assert_array_equal(
        out.transform(words), out.transform(Table(("day",), ("date",), (typed,)))
    )
    with pytest.raises(DataError, match=r"row 2, column 'day': 'soon' is not a date"):
        out.transform(Table(("day",), ("nominal",), (text("2020-03-04", "soon"),)))


# --- text


def test_topics_are_the_leading_directions():
    """Against an exact SVD: the projection keeps as much of the rows as the best of its rank."""
    data, _ = table()
    counts = counted(data.columns[3])
    rows = weighted(counts, weights(counts))
    lengths = np.sqrt(np.asarray(rows.multiply(rows).sum(axis=1)).ravel())
    np.testing.assert_allclose(np.delete(lengths, 7), 1.0)
    assert lengths[7] == 0
    found = projection(rows, 5, 4.0).astype(float)
    projected = rows @ found.T
    np.testing.assert_allclose(projected.var(axis=0).sum(), 4.0, rtol=1e-5)
    exact = np.linalg.svd(rows.toarray(), full_matrices=False)
    kept = np.linalg.norm(projected) ** 2 / (np.linalg.norm(found) ** 2 / 5)
    best = np.sum(exact.S[:5] ** 2)
    assert 0.98 * best <= kept <= best * (1 + 1e-6)


def test_text_is_learned_and_not_one_hot():
    data, y = table()
    encoder = TableEncoder().fit(data.select(["note"]))
    names = encoder.get_feature_names_out().tolist()
    assert len(names) == 48  # a fifth of the rows
    assert all(name.startswith("note~") for name in names)
    new, z = table(seed=1)
    model = SVC().fit(encoder.transform(data.select(["note"])), y)
    wrong = model.predict(encoder.transform(new.select(["note"]))) != z
    assert wrong.mean() < 0.03  # the one row without a note among them


def test_similar_names_are_near():
    cells = text(*(f"{a} {b}" for a in ("engineer", "nurse", "driver") for b in range(30)))
    part = Table(("job",), ("nominal",), (cells,))
    encoder = TableEncoder().fit(part)
    assert [n for n in encoder.get_feature_names_out() if "~" in n] == [
        f"job~{i}" for i in range(1, 19)
    ]
    new = Table(("job",), ("nominal",), (text("enginer 99", "nurses 98", "drivers 97"),))
    near = KNeighborsClassifier(1).fit(encoder.transform(part), np.arange(90) // 30)
    assert near.predict(encoder.transform(new)).tolist() == [0, 1, 2]
    assert TableEncoder(topics=0).fit(part).get_feature_names_out().shape == (90,)


def test_the_same_numbers_for_any_number_of_threads():
    data, _ = table()
    found = []
    for threads in (1, 2, 4):
        with threadpool_limits(threads):
            found.append(TableEncoder().fit(data))
    for other in found[1:]:
        np.testing.assert_array_equal(found[0].topics_, other.topics_)
        np.testing.assert_array_equal(found[0].transform(data), other.transform(data))
    alone = data.take(np.array([11]))
    np.testing.assert_array_equal(found[0].transform(alone)[0], found[0].transform(data)[11])


# --- tails and gaps


@pytest.mark.parametrize("tails", ["log", "quantile"])
def test_heavy_tails_are_pulled_in(tails):
    data, _ = table()
    part = data.select(["amount"])
    plain = TableEncoder().fit_transform(part)
    bent = TableEncoder(tails=tails).fit(part)
    rows = bent.transform(part)
    assert np.abs(plain).max() > 8
    assert np.abs(rows).max() < 4
    order = np.argsort(data.columns[0])
    assert np.all(np.diff(rows[order, 0]) >= 0)
    far = Table(("amount",), ("numeric",), (np.array([-1e9, 1e9]),))
    assert np.isfinite(bent.transform(far)).all()
    few = Table(("k",), ("numeric",), (np.arange(40.0) % 3,))
    np.testing.assert_array_equal(
        TableEncoder(tails=tails).fit_transform(few), TableEncoder().fit_transform(few)
    )
    with pytest.raises(ValueError, match=r"Unknown treatment of tails 'lgo'. Did you mean 'log'"):
        TableEncoder(tails="lgo").fit(few)


def test_quantiles_are_normal_scores():
    from scipy.stats import norm

    x = np.random.default_rng(0).lognormal(0, 3, 32 * 60 + 1)
    rows = TableEncoder(None, tails="quantile").fit_transform(x[:, None])[:, 0]
    at = np.argsort(x)[60:-60:60]  # the 1/32, 2/32, ... quantiles
    np.testing.assert_allclose(rows[at], norm.ppf(np.arange(1, 32) / 32), atol=1e-9)


def test_indicators_where_they_inform():
    rng = np.random.default_rng(0)
    gap = rng.random(400) < 0.3
    a, b, c = rng.normal(size=(3, 400))
    a[gap], b[gap], c[3] = np.nan, np.nan, np.nan
    names = TableEncoder().fit(np.column_stack([a, b, c])).get_feature_names_out().tolist()
    assert names == ["x0", "x0=missing", "x1", "x2"]  # x1 misses the same rows, x2 hardly any


# --- new files


def test_new_values_are_named():
    data, _ = table()
    encoder = TableEncoder().fit(data)
    new = Table(("k", "job"), ("nominal", "nominal"), (text("u", "w", None), text("a", "b", "c")))
    assert encoder.unseen(new) == {"k": ["w"], "job": ["a", "b", "c"]}
    assert encoder.unseen(data) == {}


def test_another_order_and_other_columns(tmp_path):
    data, _ = table()
    encoder = TableEncoder().fit(data)
    frame = pd.DataFrame(dict(zip(data.names, data.columns, strict=True)))
    frame[["k", "note", "job", "day", "amount"]].assign(more=1).to_csv(tmp_path / "new.csv")
    new = datasets.read_unlabelled(tmp_path / "new.csv")
    np.testing.assert_allclose(encoder.transform(new), encoder.transform(data), rtol=1e-12)
    assert encoder.unused(new) == ("c1", "more")
    frame.drop(columns=["note", "day"]).to_csv(tmp_path / "new.csv", index=False)
    with pytest.raises(DataError, match=r"new.csv: 2 columns: 'day', 'note' are missing"):
        encoder.transform(datasets.read_unlabelled(tmp_path / "new.csv"))


# --- model files


@pytest.mark.parametrize("tails", [None, "log", "quantile"])
def test_a_fitted_encoder_is_kept_without_pickle(tmp_path, tails):
    data, y = table()
    model = make_pipeline(TableEncoder(tails=tails), OutputCodeClassifier("ovo", decoder="hinge"))
    model.fit(data, y)
    persistence.save(model, tmp_path / "m.oc")
    again = persistence.load(tmp_path / "m.oc")
    np.testing.assert_array_equal(again[0].transform(data), model[0].transform(data))
    np.testing.assert_array_equal(again.predict(data), model.predict(data))
    assert again[0].columns_ == model[0].columns_
    assert (tmp_path / "m.oc").stat().st_size < 8 * 2**20


def test_every_column_says_what_it_became():
    data, _ = table()
    encoder = TableEncoder().fit(data)
    became = {column.name: len(column.outputs) for column in encoder.columns_}
    assert set(became) == set(data.names)
    assert sum(became.values()) == encoder.transform(data).shape[1]
