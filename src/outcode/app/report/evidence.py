"""The records read once: names made harmless, one cell per method and fold, numbers checked."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from scipy import stats

from outcode._checks import Array
from outcode.app.report.text import LONG, clean, labels

Cell = Mapping[str, Any]


@dataclass(frozen=True)
class Method:
    """A method as the page names it; ``full`` is its whole name."""

    name: str
    full: str
    title: str
    baseline: bool
    estimator: str


@dataclass(frozen=True)
class Data:
    """A data set as the page names it; ``classes``, ``counts`` (n_classes,), ``about`` the rest."""

    name: str
    full: str
    classes: tuple[str, ...]
    full_classes: tuple[str, ...]
    counts: tuple[int, ...]
    about: Mapping[str, Any]


@dataclass(frozen=True)
class Evidence:
    """What a study found: ``cells`` by data set, method, repeat and fold."""

    meta: Mapping[str, Any]
    methods: tuple[Method, ...]
    datasets: tuple[Data, ...]
    cells: Mapping[tuple[str, str, int, int], Cell] = field(repr=False)

    @property
    def measure(self) -> str:
        """The metric that decides, lower is better."""
        return str(self.meta.get("measure") or "error")

    @property
    def names(self) -> list[str]:
        """The methods' names."""
        return [method.name for method in self.methods]

    @property
    def baselines(self) -> list[str]:
        """The names of the baselines."""
        return [method.name for method in self.methods if method.baseline]

    def of(self, dataset: str | None = None, method: str | None = None) -> list[Cell]:
        """Return the cells of a data set and a method, None for all, in the order of the folds."""
        return [
            cell
            for (d, m, _, _), cell in self.cells.items()
            if dataset in (None, d) and method in (None, m)
        ]

    def finished(self, dataset: str | None = None, method: str | None = None) -> list[Cell]:
        """Return the cells that came to a result."""
        return [cell for cell in self.of(dataset, method) if cell["status"] == "ok"]

    def folds(self, dataset: str) -> list[tuple[int, int]]:
        """Return the (repeat, fold) pairs of a data set."""
        return sorted({(r, f) for (d, _, r, f) in self.cells if d == dataset})

    def table(self, metric: str, dataset: str) -> Array:
        """Return a metric as (n_folds, n_methods), NaN where there is none."""
        rows = [
            [metric_of(self.cells.get((dataset, m, r, f)), metric) for m in self.names]
            for r, f in self.folds(dataset)
        ]
        return np.array(rows, dtype=np.float64).reshape(len(rows), len(self.names))

    def ratio(self, dataset: str) -> float:
        """Return the number of test rows over that of training rows."""
        sizes = [
            (metric_of(cell, "n_test"), metric_of(cell, "n_train"))
            for cell in self.finished(dataset)
        ]
        known = [test / train for test, train in sizes if test > 0 and train > 0]
        folds = whole(self.meta.get("folds"))
        return float(np.mean(known)) if known else 1 / (folds - 1) if folds > 1 else 0.0


def read(meta: Mapping[str, Any], records: Iterable[Mapping[str, Any]]) -> Evidence:
    """Return the evidence; of a cell recorded twice the last finished record counts."""
    records = list(records)
    if not isinstance(meta, Mapping):
        raise ValueError(f"meta must be the dict of a study, got {type(meta).__name__}.")
    methods = _methods(meta, records)
    datasets = _datasets(meta, records)
    method_of = dict(zip(_keys(meta, records, "method"), (m.name for m in methods), strict=True))
    dataset_of = dict(zip(_keys(meta, records, "dataset"), (d.name for d in datasets), strict=True))
    cells: dict[tuple[str, str, int, int], Cell] = {}
    for record in records:
        cell = _cell(record, dataset_of, method_of)
        key = (cell["dataset"], cell["method"], cell["repeat"], cell["fold"])
        if key not in cells or cell["status"] == "ok" or cells[key]["status"] != "ok":
            cells[key] = cell
    return Evidence(meta, methods, datasets, dict(sorted(cells.items())))


def metric_of(cell: Cell | None, metric: str) -> float:
    """Return a metric of a finished cell, NaN when it has none or it is no finite number."""
    if cell is None or cell["status"] != "ok":
        return math.nan
    return finite(mapping(cell.get("metrics")).get(metric))


def mapping(value: Any) -> Mapping[str, Any]:
    """Return a dict as it is, and an empty one for anything else."""
    return value if isinstance(value, Mapping) else {}


def listed(value: Any) -> list[Any]:
    """Return a list as it is, and an empty one for anything else."""
    return value if isinstance(value, list) else []


def whole(value: Any) -> int:
    """Return a number as an int, and 0 for anything else."""
    number = finite(value)
    return 0 if math.isnan(number) else int(number)


def finite(value: Any) -> float:
    """Return a finite float, or NaN."""
    if isinstance(value, bool) or not isinstance(value, int | float | np.number):
        return math.nan
    return float(value) if math.isfinite(value) else math.nan


def detail(cell: Cell, name: str) -> Any:
    """Return a part of a cell's details, None when it is not there."""
    return mapping(cell.get("details")).get(name)


def plain(value: float) -> float | None:
    """Return the number as JSON can hold it: NaN is None."""
    return float(value) if math.isfinite(value) else None


def interval(values: Array, ratio: float, confidence: float = 0.95) -> list[float] | None:
    """Return the interval of a mean over folds whose training rows overlap.

        mean -+ t sqrt((1/J + n_test/n_train) s^2)

    with J - 1 degrees of freedom ([NB03]); None with fewer than two folds, and when all folds
    show the same value: s = 0 says nothing.
    """
    if len(values) < 2 or np.ptp(values) == 0:
        return None
    width = stats.t.isf((1 - confidence) / 2, len(values) - 1)
    width *= math.sqrt((1 / len(values) + ratio) * float(np.var(values, ddof=1)))
    mean = float(np.mean(values))
    return [mean - float(width), mean + float(width)]


def _keys(meta: Mapping[str, Any], records: Sequence[Cell], kind: str) -> list[str]:
    """Return the names of the methods or data sets: those of the meta dict, then any others."""
    named = [str(mapping(entry).get("name")) for entry in listed(meta.get(kind + "s"))]
    return list(dict.fromkeys(named + [str(record.get(kind)) for record in records]))


def _entries(meta: Mapping[str, Any], records: Sequence[Cell], kind: str) -> list[tuple[str, Any]]:
    entries = {
        str(mapping(entry).get("name")): mapping(entry) for entry in listed(meta.get(kind + "s"))
    }
    return [(key, entries.get(key, {})) for key in _keys(meta, records, kind)]


def _methods(meta: Mapping[str, Any], records: Sequence[Cell]) -> tuple[Method, ...]:
    entries = _entries(meta, records, "method")
    return tuple(
        Method(
            name=label,
            full=clean(key),
            title=clean(entry.get("title") or "", 120) if entry.get("title") else "",
            baseline=bool(entry.get("baseline")),
            estimator=clean(entry.get("estimator") or "", 400) if entry.get("estimator") else "",
        )
        for label, (key, entry) in zip(labels(k for k, _ in entries), entries, strict=True)
    )


def _datasets(meta: Mapping[str, Any], records: Sequence[Cell]) -> tuple[Data, ...]:
    entries = _entries(meta, records, "dataset")
    return tuple(
        Data(
            name=label,
            full=clean(key),
            classes=tuple(labels(listed(entry.get("classes")))),
            full_classes=tuple(clean(name) for name in listed(entry.get("classes"))),
            counts=tuple(whole(n) for n in listed(entry.get("counts"))),
            about=entry,
        )
        for label, (key, entry) in zip(labels(k for k, _ in entries), entries, strict=True)
    )


def _cell(record: Cell, dataset_of: Mapping[str, str], method_of: Mapping[str, str]) -> Cell:
    reason = record.get("reason")
    return {
        **record,
        "dataset": dataset_of[str(record.get("dataset"))],
        "method": method_of[str(record.get("method"))],
        "repeat": whole(record.get("repeat")),
        "fold": whole(record.get("fold")),
        "status": clean(record.get("status") or "failed", 20),
        "reason": clean(reason, LONG) if reason else None,
    }
