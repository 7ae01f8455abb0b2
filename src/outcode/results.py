"""What the cells of a study say together: the numbers that displays, tables and pages draw.

A record is one cell's dict (``docs/study.md``). Functions that pool a detail take the list of that
detail over the folds; functions on whole records leave out those without a result.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from outcode import metrics
from outcode._checks import Array
from outcode.metrics import METRICS, Reliability
from outcode.words import listing

Record = Mapping[str, Any]

# --- single numbers ---


def finite(value: Any) -> float:
    """Return a finite float, or NaN."""
    if isinstance(value, bool) or not isinstance(value, int | float | np.number):
        return math.nan
    return float(value) if math.isfinite(value) else math.nan


def plain(value: float) -> float | None:
    """Return the number as JSON can hold it: NaN is None."""
    return float(value) if math.isfinite(value) else None


def mapping(value: Any) -> Mapping[str, Any]:
    """Return a dict as it is, and an empty one for anything else."""
    return value if isinstance(value, Mapping) else {}


def metric_of(record: Record | None, metric: str) -> float:
    """Return a metric of a finished record, NaN when it has none or it is no finite number."""
    if record is None or record["status"] != "ok":
        return math.nan
    return finite(mapping(record.get("metrics")).get(metric))


def detail(record: Record, name: str) -> Any:
    """Return a part of a record's details, None when it is not there."""
    return mapping(record.get("details")).get(name)


# --- tables ---


@dataclass(frozen=True)
class Standing:
    """A method on the leaderboard.

    Parameters
    ----------
    method : str
        Name of the method.
    values : mapping of str to float or None
        Mean of every metric (of times: the median) over the finished cells, None where none has it.
    finished : int, default=0
        Number of finished cells.
    unfinished : mapping of str to int
        Number of the other cells by status.
    reasons : mapping of str to int
        Number of the other cells by status and reason.
    """

    method: str
    values: Mapping[str, float | None]
    finished: int = 0
    unfinished: Mapping[str, int] = field(default_factory=dict)
    reasons: Mapping[str, int] = field(default_factory=dict)

    @property
    def cells(self) -> int:
        """Number of cells with a record."""
        return self.finished + sum(self.unfinished.values())


def standing(method: str, records: Iterable[Record]) -> Standing:
    """Return how a method stands, given its records."""
    records = list(records)
    states = Counter(record["status"] for record in records)
    reasons = Counter(
        f"{record['status']}: {record['reason']}" for record in records if record["status"] != "ok"
    )
    values = {key: summarised(key, [metric_of(r, key) for r in records]) for key in METRICS}
    finished = states.pop("ok", 0)
    return Standing(method, values, finished, dict(sorted(states.items())), dict(reasons))


def summarised(metric: str, values: Iterable[float]) -> float | None:
    """Return the mean (of times: the median) of the values that are numbers, None without one."""
    known = [value for value in values if not math.isnan(value)]
    return METRICS[metric].summary(known) if known else None


def leaderboard(
    records: Iterable[Record], methods: Sequence[str] | None = None, measure: str = "error"
) -> list[Standing]:
    """Return the methods, the best by a measure first, those without a result last."""
    by_method: dict[str, list[Record]] = {name: [] for name in methods or ()}
    for record in records:
        by_method.setdefault(record["method"], []).append(record)
    found = [standing(name, mine) for name, mine in by_method.items()]
    return sorted(found, key=lambda s: loss_key(s.values[measure], measure))


def loss_key(value: float | None, measure: str) -> float:
    """Return what sorts values of a measure from best to worst, none at the end."""
    return math.inf if value is None else METRICS[measure].loss(value)


def fold_table(records: Iterable[Record], methods: Sequence[str], metric: str) -> Array:
    """Return a metric on one data set as (n_folds, n_methods), NaN where there is none."""
    cells = {(r.get("repeat", 0), r.get("fold", 0), r["method"]): r for r in records}
    folds = sorted({key[:2] for key in cells})
    rows = [[metric_of(cells.get((*fold, m)), metric) for m in methods] for fold in folds]
    return np.array(rows, dtype=np.float64).reshape(len(folds), len(methods))


def dataset_means(table: Array) -> Array:
    """Return each method's mean over the folds it shares with the others; NaN if it has none."""
    started = ~np.isnan(table).all(axis=0) if len(table) else np.zeros(table.shape[1], dtype=bool)
    whole = ~np.isnan(table[:, started]).any(axis=1)
    means = np.full(table.shape[1], math.nan)
    if started.any():
        shared = table[whole] if whole.any() else table
        means[started] = np.nanmean(shared[:, started], axis=0)
    return means


# --- details pooled over folds ---


def confusion(parts: Sequence[Sequence[Any]], n_classes: int) -> Array:
    """Return the (n_classes, n_classes) counts over all folds, from labels and predictions."""
    labels, predicted = (np.concatenate(part).astype(np.int64) for part in parts)
    return metrics.confusion(labels, predicted, n_classes)


def recall(matrix: Array) -> Array:
    """Return the share of each class's rows that is predicted right, NaN without rows."""
    rows = matrix.sum(axis=1)
    return np.where(rows > 0, np.diag(matrix) / np.maximum(rows, 1), np.nan)


def reliability(diagrams: Sequence[Mapping[str, Any]]) -> Reliability:
    """Return the reliability diagram over all folds, bin by bin."""
    count, confidence, accuracy = (
        np.array([[finite(v) for v in one[name]] for one in diagrams])
        for name in ("count", "confidence", "accuracy")
    )
    total = np.nansum(count, axis=0)
    with np.errstate(invalid="ignore"):
        means = [np.nansum(count * v, axis=0) / total for v in (confidence, accuracy)]
    return Reliability(total.astype(np.int64), *means)


def wrong_columns(margins: Array, targets: Array) -> Array:
    """Return which columns are wrong on each row, among those that use it; a margin of 0 is."""
    return (margins * targets <= 0) & (targets != 0)


def column_shares(wrong: Array, targets: Array) -> tuple[Array, Array]:
    """Return each column's error and share of +1 among the rows that it uses, NaN without one."""
    used = (targets != 0).sum(axis=0)
    with np.errstate(invalid="ignore"):
        return wrong.sum(axis=0) / used, (targets > 0).sum(axis=0) / used


def bit_errors(counts: Sequence[Sequence[int]]) -> Array:
    """Return how many rows have 0, 1, 2, ... wrong columns, over all folds."""
    total = np.zeros(max(map(len, counts)), dtype=np.int64)
    for part in counts:
        total[: len(part)] += np.asarray(part, dtype=np.int64)
    return total


def opposed(column: Array, names: Sequence[str]) -> str:
    """Return which classes a column of a code opposes, in words.

    >>> opposed(np.array([1, -1, -1, -1, -1]), "abcde"), opposed(np.array([1, 0, -1]), "abc")
    ('a against all others', 'a against c')
    """
    plus, minus = ([names[q] for q in np.flatnonzero(column == sign).tolist()] for sign in (1, -1))
    sides = ((plus, minus), (minus, plus))
    return " against ".join(
        "all others" if len(side) > 3 and len(side) + len(other) == len(column)
        else listing(side, 3)
        for side, other in sides
    )  # fmt: skip


@dataclass(frozen=True)
class Path:
    """A criterion along gamma.

    Parameters
    ----------
    name : str
        What the criterion is of.
    gamma : ndarray of shape (n_gammas,)
        Values of gamma, increasing.
    bound : ndarray of shape (n_gammas,)
        Values of the criterion.
    error : ndarray of shape (n_gammas,), default=None
        Test errors, if known.
    """

    name: str
    gamma: Array
    bound: Array
    error: Array | None = None

    @property
    def chosen(self) -> int:
        """The place of the least bound."""
        return int(np.argmin(self.bound))

    @property
    def at_edge(self) -> bool:
        """Whether the least bound is at an end of the grid."""
        return self.chosen in (0, len(self.gamma) - 1)


def path(name: str, gamma: Any, bound: Any, error: Any = None) -> Path:
    """Return a path in the order of gamma, without the places that have no bound."""
    gamma, bound = (np.array([finite(v) for v in values]) for values in (gamma, bound))
    errors = [math.nan] * len(gamma) if error is None else [finite(v) for v in error]
    known = (gamma > 0) & ~np.isnan(bound)
    order = np.argsort(gamma[known], kind="stable")
    parts = (values[known][order] for values in (gamma, bound, np.array(errors)))
    return Path(name, *parts)
