"""Simulated studies without a difference: how often the report says there is one."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from scipy import stats

import fake_records
from outcode import statistics
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
    found = comparison.against_best(study_of(table))
    real = [pair for pair in found["against_best"] if pair["significant"]]
    return [f"{len(real)} of {methods - 1} called different"] if real else []


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
        "perfect probabilities": (perfect_probabilities_called_wrong, 10**4, 100),
    }
