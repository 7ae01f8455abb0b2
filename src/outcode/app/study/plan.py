"""What a study will do: data sets x methods x folds -> cells, each with a key of its content."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cached_property
from typing import Any

import numpy as np

from outcode import datasets, notebooks
from outcode._checks import Array, lookup
from outcode.app.study.describe import describe_data, machine, versions
from outcode.app.study.methods import Method, baselines, methods
from outcode.app.study.store import SCHEMA
from outcode.metrics import MEASURES
from outcode.words import listing

#: Scalings of the numeric columns, fitted on the training rows.
SCALES: dict[str, str | None] = {"standard": "standard", "unit": "unit", "none": None}
#: Where folds come from: drawn here, or the data set's own training and test rows.
SPLITS = dict.fromkeys(("folds", "own"))


def from_arrays(name: str, X: Any, y: Any, split: Any = None) -> datasets.Dataset:
    """Return a data set for a study from a matrix or frame and labels.

    Parameters
    ----------
    name : str
        Name of the data set in records and reports.
    X : array-like, sparse matrix or data frame of shape (n_samples, n_features)
        The features.
    y : array-like of shape (n_samples,)
        Labels of any type. A study knows them as text.
    split : array-like of shape (n_samples,), default=None
        "train" or "test" for each row, for ``Study(splits="own")``.

    Returns
    -------
    Dataset
        The data set.

    Examples
    --------
    >>> from_arrays("toy", [[0.0], [1.0]], ["a", "b"]).y.tolist()
    ['a', 'b']
    """
    labels = np.asarray(y).astype(str)
    parted = None if split is None else np.asarray(split).astype(str)
    table = datasets.as_table(X)
    about = (f"{len(table.names)} columns in memory",)
    return datasets.Dataset(name, table, labels, parted, source="memory", about=about)


@dataclass(frozen=True)
class Rows:
    """A data set as workers know it; ``labels`` are places in the sorted ``classes``.

    ``rest`` are further rows, in blocks, of a data set whose table is a sample.
    """

    table: Any
    labels: Array
    classes: tuple[str, ...]
    rest: Any = None


@dataclass(frozen=True, eq=False)
class Cell:
    """One method on one fold of one data set.

    Parameters
    ----------
    dataset : str
        Name of the data set.
    method : str
        Name of the method.
    repeat : int
        Index of the repetition.
    fold : int
        Index of the fold.
    seed : int
        Seed of whatever is random in the method.
    scale : str
        How numeric columns are scaled.
    estimator : estimator
        The classifier to fit.
    train : ndarray of shape (n_train,)
        Indices of the training rows.
    test : ndarray of shape (n_test,)
        Indices of the test rows.
    key : str, default=""
        Hash of everything that decides the cell.
    """

    dataset: str
    method: str
    repeat: int
    fold: int
    seed: int
    scale: str
    estimator: Any = field(repr=False)
    train: Array = field(repr=False)
    test: Array = field(repr=False)
    key: str = ""


@dataclass(frozen=True)
class Study:
    """Data sets, methods, and the folds that all methods share.

    Parameters
    ----------
    datasets : Dataset or sequence of Dataset
        Data sets of :mod:`outcode.datasets` or :func:`from_arrays`.
    methods : str, Method or sequence of these
        Names, or :class:`Method` objects.
    folds : int, default=5
        Number of stratified folds. A class of a single row is never left out.
    repeats : int, default=1
        Number of repetitions. Each divides the rows again into folds.
    seed : int, default=0
        Seed of the folds and of whatever is random in a method.
    scale : {"standard", "unit"} or None, default="standard"
        Scaling of numeric columns, fitted on the training rows.
    measure : str, default="error"
        What methods are ranked by, a key of ``metrics.MEASURES``.
    splits : {"folds", "own"}, default="folds"
        "own" takes the data sets' own training and test rows as the only fold.
    baselines : bool, default=True
        Whether to add the methods of scikit-learn where the methods lack them.
    first : int, default=None
        Number of folds to run, from the first. None runs all.

    Examples
    --------
    >>> data = from_arrays("toy", np.arange(12.0)[:, None], list("aabb" * 3))
    >>> study = Study([data], ["ova+hinge"], folds=3)
    >>> len(study.cells()), study.cells()[0].method
    (15, 'ova+hinge')
    """

    datasets: Any
    methods: Any
    folds: int = 5
    repeats: int = 1
    seed: int = 0
    scale: Any = "standard"
    measure: str = "error"
    splits: str = "folds"
    baselines: bool = True
    first: int | None = None

    def __post_init__(self) -> None:
        given = [self.datasets] if hasattr(self.datasets, "table") else self.datasets
        object.__setattr__(self, "datasets", tuple(given))
        object.__setattr__(self, "methods", _as_methods(self.methods, self.baselines))
        object.__setattr__(self, "scale", self.scale or "none")
        lookup(SCALES, self.scale, "scale")
        lookup(MEASURES, self.measure, "measure")
        lookup(SPLITS, self.splits, "splits")
        _check_unique([data.name for data in self.datasets], "data sets")
        _check_unique([method.name for method in self.methods], "methods")
        if self.repeats < 1:
            raise ValueError(f"repeats must be at least 1, got {self.repeats}.")
        for data in self.datasets:
            _check_data(data)
            self.partitions(data)

    @cached_property
    def rows(self) -> Mapping[str, Rows]:
        """The data sets by name, labels as numbers."""
        return {data.name: _rows(data) for data in self.datasets}

    def keys(self) -> list[str]:
        """Return the keys of all cells, in their order."""
        return [cell.key for cell in self._cells]

    def cells(self) -> list[Cell]:
        """Return all cells: every method on the first fold of every data set, then the second."""
        return self._cells

    @property
    def places(self) -> list[tuple[int, int]]:
        """The (repeat, fold) that are run."""
        return sorted({(cell.repeat, cell.fold) for cell in self._cells})

    @cached_property
    def _cells(self) -> list[Cell]:
        split = {data.name: self.partitions(data) for data in self.datasets}
        places = sorted({place for parts in split.values() for place in parts})
        return [
            self._cell(data, method, place, split[data.name][place])
            for place in places[: self.first]
            for data in self.datasets
            if place in split[data.name]
            for method in self.methods
        ]

    def _cell(
        self, data: Any, method: Method, place: tuple[int, int], rows: tuple[Array, Array]
    ) -> Cell:
        named = data.name, method.name, *place, self.seed, self.scale
        content = data.hash, describe_estimator(method.estimator), *map(_bytes, rows)
        return Cell(*named, method.estimator, *rows, key=_digest(SCHEMA, *named, *content))

    def partitions(self, data: Any) -> dict[tuple[int, int], tuple[Array, Array]]:
        """Return the training and test rows of each (repeat, fold)."""
        if self.splits == "own":
            return {(0, 0): _own_split(data)}
        labels = np.unique(data.y, return_inverse=True)[1]
        return {
            (repeat, fold): (np.flatnonzero(number != fold), np.flatnonzero(number == fold))
            for repeat in range(self.repeats)
            for number in [deal(labels, self.folds, np.random.RandomState([self.seed, repeat]))]
            for fold in range(self.folds)
        }

    def _repr_html_(self) -> str:
        facts = {
            "data sets": listing([data.name for data in self.datasets], 8),
            "methods": listing([method.name for method in self.methods], 12),
            "folds": self.folds,
            "repetitions": self.repeats,
            "runs": len(self._cells),
            "ranked by": MEASURES[self.measure].label,
        }
        return notebooks.card("Study", facts)

    def meta(self, command: str = "", title: str = "") -> dict[str, Any]:
        """Return what a report says about the study: data, methods, machine, versions, command."""
        named = title or ", ".join(data.name for data in self.datasets)
        settings = {name: getattr(self, name) for name in ("seed", "folds", "repeats", "scale")}
        return {
            "schema": SCHEMA,
            "title": named,
            "command": command,
            "created": datetime.now(UTC).isoformat(),
            **settings,
            "measure": self.measure,
            "splits": self.splits,
            "cells": len(self._cells),
            "folds_run": len(self.places),
            "machine": machine(),
            "versions": versions(),
            "datasets": [
                describe_data(data, self.rows[data.name], SCALES[self.scale])
                for data in self.datasets
            ],
            "methods": [method.description() for method in self.methods],
        }


def deal(labels: Array, folds: int, rng: np.random.RandomState) -> Array:
    """Number the rows 0..folds-1, each class spread evenly; -1 for a class's only row.

    Classes are dealt one after the other like cards, so the folds' sizes differ by one at most and
    a class with fewer rows than folds is left out of training only where others of it remain.

    Parameters
    ----------
    labels : ndarray of int of shape (n_rows,)
        Index of the class of each row.
    folds : int
        Number of folds.
    rng : RandomState
        Source of random numbers.

    Returns
    -------
    ndarray of shape (n_rows,)
        The fold of each row.

    Examples
    --------
    >>> labels = np.array([0, 0, 0, 0, 1, 1, 2])
    >>> fold = deal(labels, 2, np.random.RandomState(0))
    >>> np.bincount(fold[:6]).tolist(), int(fold[6])
    ([3, 3], -1)
    """
    counts = np.bincount(labels)
    tested = int(counts[counts > 1].sum())
    if not 2 <= folds <= tested:
        raise ValueError(
            f"folds must be between 2 and the number of rows in classes of two rows or more "
            f"({tested}), got {folds}."
        )
    number, dealt = np.full(len(labels), -1), 0
    for q in np.flatnonzero(counts > 1):
        rows = rng.permutation(np.flatnonzero(labels == q))
        number[rows] = (np.arange(len(rows)) + dealt) % folds
        dealt += len(rows)
    return number


def describe_estimator(value: Any) -> Any:
    """Return a parameter, or an estimator with all its parameters, as JSON-able content."""
    if hasattr(value, "get_params") and not isinstance(value, type):
        params = value.get_params(deep=False)
        inner = {name: describe_estimator(params[name]) for name in sorted(params)}
        return [f"{type(value).__module__}.{type(value).__qualname__}", inner]
    if isinstance(value, np.ndarray):
        return [str(value.dtype), list(value.shape), _bytes(value)]
    if isinstance(value, list | tuple):
        return [describe_estimator(item) for item in value]
    if callable(value):
        return f"{value.__module__}.{value.__qualname__}"
    return repr(value)


def _rows(data: Any) -> Rows:
    classes, labels = np.unique(data.y, return_inverse=True)
    return Rows(data.table, labels, tuple(map(str, classes)), getattr(data, "rest", None))


def _own_split(data: Any) -> tuple[Array, Array]:
    if data.split is None:
        raise ValueError(f"{data.name} has no split of its own: use splits='folds'.")
    parts = [np.flatnonzero(data.split == part) for part in ("train", "test")]
    if not all(map(len, parts)):
        raise ValueError(f"The split of {data.name} must name both 'train' and 'test' rows.")
    return parts[0], parts[1]


def _as_methods(given: Any, with_baselines: bool) -> tuple[Method, ...]:
    listed = [given] if isinstance(given, str | Method) else list(given)
    found = [methods([method])[0] if isinstance(method, str) else method for method in listed]
    names = {method.name for method in found}
    added = [method for method in baselines() if method.name not in names and with_baselines]
    return (*found, *added)


def _check_unique(names: Iterable[str], what: str) -> None:
    listed = list(names)
    if not listed:
        raise ValueError(f"A study needs {what}: none were given.")
    twice = sorted({name for name in listed if listed.count(name) > 1})
    if twice:
        raise ValueError(f"Two {what} have the name {twice[0]!r}: give each its own.")


def _check_data(data: Any) -> None:
    if len(np.unique(data.y)) < 2:
        raise ValueError(f"{data.name} holds one class only: classification needs at least two.")


def _bytes(array: Array) -> str:
    return hashlib.sha256(np.ascontiguousarray(array).tobytes()).hexdigest()


def _digest(*parts: Any) -> str:
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()
