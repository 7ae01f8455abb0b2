"""The records read once: names made harmless, one cell per method and fold, numbers checked."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from outcode._checks import Array
from outcode.app.report.text import LONG, clean, labels
from outcode.metrics import METRICS, Metric
from outcode.results import detail, finite, fold_table, mapping, metric_of

Cell = Mapping[str, Any]

#: The finding about a column that alone determines the class.
LEAK = "OD004"


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

    @property
    def leaks(self) -> list[str]:
        """The columns that alone determine the class."""
        found = (mapping(f) for f in listed(self.about.get("findings")))
        names = (listed(f.get("columns")) or ["a column"] for f in found if f.get("code") == LEAK)
        return [clean(name, 60) for columns in names for name in columns]

    @property
    def guess(self) -> float | None:
        """The error of always predicting the largest class, None if the classes are unknown."""
        return 1 - max(self.counts) / sum(self.counts) if any(self.counts) else None


@dataclass(frozen=True, eq=False)
class Evidence:
    """What a study found: ``cells`` by data set, method, repeat and fold.

    ``variants`` are the same for data sets without the columns that give their classes away.
    """

    meta: Mapping[str, Any]
    methods: tuple[Method, ...]
    datasets: tuple[Data, ...]
    cells: Mapping[tuple[str, str, int, int], Cell] = field(repr=False)
    variants: tuple[Evidence, ...] = ()

    @property
    def open(self) -> int:
        """How many runs of the study have no record yet."""
        return max(0, whole(self.meta.get("cells")) - self.recorded)

    @property
    def recorded(self) -> int:
        """How many runs have a record, those without leaking columns included."""
        return len(self.cells) + sum(len(variant.cells) for variant in self.variants)

    @property
    def measure(self) -> str:
        """The key of the metric that decides."""
        return self.metric.key

    @property
    def metric(self) -> Metric:
        """The metric that decides: the error, unless the study says otherwise."""
        return METRICS.get(str(self.meta.get("measure")), METRICS["error"])

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

    def table(self, metric: str, dataset: str) -> Array:
        """Return a metric as (n_folds, n_methods), NaN where there is none."""
        return fold_table(self.of(dataset), self.names, metric)

    def details(self, dataset: str, method: str, part: str) -> list[Any]:
        """Return one detail of the finished cells that have it."""
        found = (detail(cell, part) for cell in self.finished(dataset, method))
        return [value for value in found if value]

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
    whole_meta = {**meta, "cells": 0}  # what is open is counted once, in the whole
    parts = [
        _part(whole_meta, methods, [data], cells) for data in datasets if data.about.get("without")
    ]
    plain = [data for data in datasets if not data.about.get("without")]
    return replace(_part(meta, methods, plain, cells), variants=tuple(parts))


def _part(
    meta: Mapping[str, Any],
    methods: tuple[Method, ...],
    datasets: Sequence[Data],
    cells: Mapping[tuple[str, str, int, int], Cell],
) -> Evidence:
    """Return the evidence on some of the data sets."""
    names = {data.name for data in datasets}
    mine = {key: cell for key, cell in sorted(cells.items()) if key[0] in names}
    return Evidence(meta, methods, tuple(datasets), mine)


def listed(value: Any) -> list[Any]:
    """Return a list as it is, and an empty one for anything else."""
    return value if isinstance(value, list) else []


def whole(value: Any) -> int:
    """Return a number as an int, and 0 for anything else."""
    number = finite(value)
    return 0 if math.isnan(number) else int(number)


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
