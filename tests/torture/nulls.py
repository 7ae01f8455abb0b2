"""Simulated studies without a difference: how often the report says there is one."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import numpy as np
from scipy import stats

import fake_records
from outcode import OutputCodeClassifier, conformal, statistics
from outcode.app.report import comparison, evidence

#: Methods, folds and rows a fold of the simulated studies.
SHAPES = ((2, 5, 30), (5, 5, 30), (8, 5, 60), (8, 10, 100), (5, 10, 20))
#: Every method is wrong on a row with probability 0.2; two of them are on the same row with BOTH,
#: so that OWN / rows is the variance over folds of what is a method's own.
HARD = stats.norm.isf(0.2)
BOTH = stats.multivariate_normal([0, 0], [[1, 0.64], [0.64, 1]]).cdf([-HARD, -HARD])
OWN = 0.2 - BOTH


def errors(rng: np.random.Generator, methods: int, folds: int, rows: int) -> np.ndarray:
    """Return errors of equally good methods, (folds, methods).

    A row is hard or easy for all methods; what a method learned by luck it has in all folds, since
    they share training rows, with the correlation of 1 / folds that the corrected t test allows.
    """
    hard = rng.normal(size=(folds, rows, 1))
    own = rng.normal(size=(folds, rows, methods))
    wrong = (0.8 * hard + 0.6 * own > HARD).mean(axis=1)
    return wrong + np.sqrt(OWN / rows / (folds - 1)) * rng.normal(size=methods)


def a_difference_where_there_is_none(number: int, _: Path) -> list[str]:
    """Compare methods of equal error with the best of them, as the report does."""
    methods, folds, rows = SHAPES[number % len(SHAPES)]
    table = errors(np.random.default_rng(number), methods, folds, rows)
    return _called_different(study_of(table), methods)


def study_of(table: np.ndarray, rows: int = 100) -> evidence.Evidence:
    """Return a study of one data set with these errors, (folds, methods)."""
    folds, methods = table.shape
    names = tuple(f"m{j}" for j in range(methods))
    meta, records = fake_records.study(4, names, folds, n_test=4, broken=False)
    for record in records:
        error = table[record["fold"], names.index(record["method"])]
        sizes = {"n_test": rows, "n_train": rows * (folds - 1)}
        record["metrics"] |= {"error": float(error)} | sizes
    return evidence.read(meta, records)


#: Methods and data sets of the simulated studies; methods and rows of those of one test set.
COLLECTIONS = ((2, 6), (3, 8), (5, 10))
TEST_SETS = ((2, 200), (3, 100), (5, 400))


def _called_different(study: evidence.Evidence, methods: int) -> list[str]:
    found = comparison.against_best(study)
    real = [pair for pair in found["against_best"] if pair["significant"]]
    return [f"{len(real)} of {methods - 1} called different"] if real else []


def a_difference_over_data_sets(number: int, _: Path) -> list[str]:
    """Compare methods of equal error over easy and hard data sets, as the report does."""
    methods, sets = COLLECTIONS[number % len(COLLECTIONS)]
    rng = np.random.default_rng([number, 1])
    error = rng.uniform(0.05, 0.4, size=(sets, 1)) * np.exp(0.2 * rng.normal(size=(sets, methods)))
    names = tuple(f"d{i}" for i in range(sets)), tuple(f"m{j}" for j in range(methods))
    meta, records = fake_records.study(4, names[1], 1, names[0], n_test=4, broken=False)
    for record in records:
        place = names[0].index(record["dataset"]), names[1].index(record["method"])
        record["metrics"]["error"] = float(error[place])
    return _called_different(evidence.read(meta, records), methods)


def a_difference_on_one_test_set(number: int, _: Path) -> list[str]:
    """Compare methods that are wrong on a row of the one test set equally often."""
    methods, rows = TEST_SETS[number % len(TEST_SETS)]
    rng = np.random.default_rng([number, 2])
    wrong = 0.8 * rng.normal(size=(rows, 1)) + 0.6 * rng.normal(size=(rows, methods)) > HARD
    names = tuple(f"m{j}" for j in range(methods))
    meta, records = fake_records.study(4, names, 1, n_test=4, broken=False)
    for record in records:
        own = wrong[:, names.index(record["method"])]
        record["details"] |= {"labels": [0] * rows, "predicted": own.astype(int).tolist()}
        record["metrics"] |= {"error": float(own.mean()), "n_test": rows}
    return _called_different(evidence.read(meta, records), methods)


@cache
def classifier() -> OutputCodeClassifier:
    """Return a classifier whose prediction sets are tried."""
    X, y = rows_of_three_classes(np.random.default_rng(0), 60)
    return OutputCodeClassifier(machine="ls", decoder="softmax").fit(X, y)


def rows_of_three_classes(rng: np.random.Generator, n: int) -> tuple[np.ndarray, np.ndarray]:
    """Return rows of classes that overlap."""
    y = rng.integers(3, size=n)
    return rng.normal(size=(n, 2)) + 1.5 * np.eye(3, 2)[y], y


def a_set_without_the_class(number: int, _: Path) -> list[str]:
    """Calibrate on 99 rows, and ask for the set of a new one: 10 of 100 may miss its class."""
    X, y = rows_of_three_classes(np.random.default_rng([number, 3]), 100)
    clf = conformal.split(classifier(), X[:99], y[:99])
    method = ("lac", "aps", "rank")[number % 3]
    found = clf.predict_set(X[99:], coverage=0.9, method=method)
    return [] if found[0, y[99]] else [f"{method}: the class is not in the set"]


def perfect_probabilities_called_wrong(number: int, _: Path) -> list[str]:
    """Judge probabilities that are true: the report must not call them wrong."""
    rng = np.random.default_rng(number)
    stated = rng.beta(8, 1, size=(200, 1000, 5000)[number % 3])
    right = rng.random(len(stated)) < stated
    edges = np.clip((stated * 15).astype(int), 0, 14)
    count = np.bincount(edges, minlength=15)
    with np.errstate(invalid="ignore"):
        confidence = np.bincount(edges, stated, 15) / count
        accuracy = np.bincount(edges, right, 15) / count
    found = statistics.calibration(count, confidence, accuracy)
    return ["called wrong"] if found.significant else []


def parts() -> dict:
    """Return the name of each part and its case, how many in a whole run, and how many a record."""
    return {
        "no difference": (a_difference_where_there_is_none, 10**4, 100),
        "no difference over data sets": (a_difference_over_data_sets, 10**4, 100),
        "no difference on one test set": (a_difference_on_one_test_set, 10**4, 100),
        "prediction sets": (a_set_without_the_class, 10**4, 100),
        "perfect probabilities": (perfect_probabilities_called_wrong, 10**4, 100),
    }
