"""Error of four tables with dates, text or many-valued categories, by how they are encoded.

    PYTHONPATH=src python benchmarks/encoding.py
    PYTHONPATH=src python benchmarks/encoding.py weather.csv:weather ...  # files and targets

Each table is made with a known signal, three times; a file is split three times, at most 2,400 of
its rows and the classes of ten rows or more. Compared, on a held-out third of the rows: the
encoder of this package (an RBF support vector machine, C and gamma chosen by 3-fold
cross-validation), the same machine on one-hot columns (the 200 most frequent values, dates and text
among them, text that differs in every row left out), and scikit-learn's
HistGradientBoostingClassifier on skrub's ``tabular_pipeline`` where skrub is installed.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.model_selection import GridSearchCV, train_test_split
from sklearn.svm import SVC

from outcode.datasets import Table, TableEncoder, as_table, read
from outcode.datasets.cells import as_nominal

N = 2400
SEEDS = 3


def tickets(rng: np.random.Generator) -> tuple[pd.DataFrame, Any]:
    """Short questions of 24 kinds: a topic and an action in words of many forms, and chatter."""
    topics = ["card", "transfer", "account", "pin", "refund", "cash", "fee", "loan"]
    actions = [["lost", "missing", "gone"], ["slow", "pending", "late"], ["wrong", "double", "odd"]]
    chatter = ["please", "hello", "I", "my", "the", "was", "could", "you", "tell", "me", "why"]
    y = rng.integers(0, 24, N)
    texts = []
    for label in y:
        words = list(rng.choice(chatter, rng.integers(5, 10)))
        words.insert(int(rng.integers(len(words))), topics[label % 8] + rng.choice(["", "s"]))
        words.insert(int(rng.integers(len(words))), rng.choice(actions[label // 8]))
        texts.append(" ".join(words))
    return pd.DataFrame(
        {"query": texts, "hour": rng.integers(0, 24, N), "age": rng.normal(40, 12, N)}
    ), y


def sales(rng: np.random.Generator) -> tuple[pd.DataFrame, Any]:
    """What is sold by season and weekday: the class is in the date, one row in ten at random."""
    days = pd.to_datetime("2018-01-01") + pd.to_timedelta(rng.integers(0, 4 * 365, N), unit="D")
    season, weekend = (days.month % 12) // 3, days.day_of_week >= 5
    y = np.where(rng.random(N) < 0.1, rng.integers(0, 8, N), season + 4 * weekend)
    return pd.DataFrame(
        {"day": days, "till": rng.choice(list("abc"), N), "sum": rng.lognormal(3, 1, N)}
    ), y


def jobs(rng: np.random.Generator) -> tuple[pd.DataFrame, Any]:
    """Pay grades by titles of some 700 spellings."""
    levels = ["junior", "senior", "chief", "assistant"]
    fields = ["engineer", "nurse", "teacher", "driver", "analyst", "clerk"]
    where = [f"unit {i}" for i in range(30)]
    level, field = rng.integers(0, 4, N), rng.integers(0, 6, N)
    titles = [
        f"{levels[a]} {fields[b]} {rng.choice(where)}" for a, b in zip(level, field, strict=True)
    ]
    titles = [
        t[: (k := int(rng.integers(1, len(t))))] + t[k + 1 :] if rng.random() < 0.3 else t
        for t in titles
    ]
    y = (level + 2 * (field % 3)) % 6
    y = np.where(rng.random(N) < 0.05, rng.integers(0, 6, N), y)
    return pd.DataFrame({"title": titles, "years": rng.gamma(3, 4, N)}), y


def visits(rng: np.random.Generator) -> tuple[pd.DataFrame, Any]:
    """Codes without meaning in their letters, gaps that tell, and numbers with heavy tails."""
    groups = rng.integers(0, 5, 120)
    code = np.minimum(rng.geometric(0.03, N) - 1, 119)
    names = np.array(
        [
            f"{a}{b:02d}"
            for a, b in zip(rng.choice(list("KLMNPQ"), 120), rng.integers(0, 99, 120), strict=True)
        ]
    )
    amount = rng.lognormal(groups[code] * 0.8, 1.5)
    y = np.where(rng.random(N) < 0.15, rng.integers(0, 5, N), groups[code])
    amount[rng.random(N) < np.where(y == 2, 0.5, 0.05)] = np.nan
    return pd.DataFrame({"code": names[code], "amount": amount, "x": rng.normal(size=N)}), y


TABLES: dict[str, Callable[[np.random.Generator], tuple[pd.DataFrame, Any]]] = {
    f.__name__: f for f in (tickets, sales, jobs, visits)
}


def one_hot(table: Table) -> Table:
    """Return the table with dates and text as categories, those that all differ left out."""
    names = [n for n, c, k in zip(table.names, table.columns, table.kinds, strict=True)
             if k != "text" or len(set(c.tolist())) < len(c)]  # fmt: skip
    part = table.select(names)
    columns = tuple(
        c if k == "numeric" else as_nominal(c)
        for c, k in zip(part.columns, part.kinds, strict=True)
    )
    kinds = tuple("numeric" if k == "numeric" else "nominal" for k in part.kinds)
    return Table(part.names, kinds, columns)


def of_file(given: str) -> Callable[[np.random.Generator], tuple[pd.DataFrame, Any]]:
    """Return the maker of a table from a file and its target, ``file:target``."""
    path, _, target = given.rpartition(":")

    def make(rng: np.random.Generator) -> tuple[pd.DataFrame, Any]:
        data = read(path, target)
        names, counts = np.unique(data.y, return_counts=True)
        rows = np.flatnonzero(np.isin(data.y, names[counts >= 10]))
        rows = rng.permutation(rows)[:N]
        columns = dict(zip(data.table.names, data.table.take(rows).columns, strict=True))
        return pd.DataFrame(columns), data.y[rows]

    return make


def error(encoder: TableEncoder, train: Table, test: Table, y: Any, z: Any) -> float:
    """Return the error on held-out rows of a machine tuned on the training rows."""
    X = encoder.fit(train, y).transform(train)
    grid = {"C": [1, 10], "gamma": ["scale", 0.02, 0.1, 0.4]}
    found = GridSearchCV(SVC(), grid, cv=3).fit(X, y)
    return float(np.mean(found.predict(encoder.transform(test)) != z))


def skrub_error(train: Any, test: Any, y: Any, z: Any) -> float:
    try:
        from skrub import tabular_pipeline
    except ImportError:
        return float("nan")
    model = tabular_pipeline(HistGradientBoostingClassifier(random_state=0)).fit(train, y)
    return float(np.mean(model.predict(test) != z))


def typed(rows: pd.DataFrame, kinds: dict[str, str]) -> Table:
    """Return rows as a table of the kinds that all rows show."""
    return replace(as_table(rows), kinds=tuple(kinds[name] for name in rows.columns))


def errors(make: Callable[..., tuple[pd.DataFrame, Any]], seed: int) -> list[float]:
    """Return the three errors on one table."""
    frame, y = make(np.random.default_rng(seed))
    kinds = dict(zip(frame.columns, as_table(frame).kinds, strict=True))
    enough = np.unique(y, return_counts=True)[1].min() > 1
    train, test, y, z = train_test_split(
        frame, y, test_size=1 / 3, random_state=seed, stratify=y if enough else None
    )
    a, b = typed(train, kinds), typed(test, kinds)
    plain = one_hot(a)
    old = error(TableEncoder(topics=0), plain, b.select(plain.names), y, z)
    return [old, error(TableEncoder(tails="auto"), a, b, y, z), skrub_error(train, test, y, z)]


def main() -> None:
    """Print the table of errors."""
    print(f"{'table':10} {'one-hot':>8} {'here':>8} {'trees':>8}   held-out error, {SEEDS} seeds")
    files = {
        given.rpartition("/")[2].partition(".")[0][:10]: of_file(given) for given in sys.argv[1:]
    }
    for name, make in (files or TABLES).items():
        means = np.mean([errors(make, seed) for seed in range(SEEDS)], axis=0)
        print(f"{name:10} " + " ".join(f"{mean:8.2%}" for mean in means), flush=True)


if __name__ == "__main__":
    main()
