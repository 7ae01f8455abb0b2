"""From rows and labels to a problem: classes, code, weights, and what the machine trains on."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from outcode import codes, machines
from outcode._checks import Array, class_labels, require_classes
from outcode.capabilities import TrainsOnGram, can
from outcode.training import Problem


def pose(
    code: Any,
    machine: Any,
    X: Any,
    y: Array,
    weight: Array,
    rng: np.random.RandomState,
    *,
    rows: Array | None = None,
    source: Any = None,
    n_jobs: int | None = None,
) -> Problem:
    """Return the problem of some rows (all, if none are given): their classes, code and weights.

    Rows that are not among them have weight 0. ``source`` is what the machine trains on, if it is
    there already.
    """
    rows, pairwise = np.arange(len(y)) if rows is None else rows, machines.input_tags(machine)
    classes, own = class_labels(y[rows])
    counted, labels = np.zeros(len(y)), np.searchsorted(classes, y)
    labels = np.where(np.isin(y, classes), labels, 0)  # of weight 0, whatever the label
    counted[rows] = machine.weigh(y[rows], weight[rows])
    require_classes(classes, own, counted[rows])
    some = X if len(rows) == len(y) else take(X, rows, pairwise.pairwise)
    data = classes, some, own, machine, rng
    matrix, columns = codes.resolve_weighted(code, len(classes), *data)
    problem = Problem(source, matrix, labels, counted, classes, X, pairwise.pairwise, columns)
    if source is not None:
        return problem
    return replace(problem, source=source_of(machine, problem, n_jobs))


def source_of(machine: Any, problem: Problem, n_jobs: int | None) -> Callable[[], Any]:
    """Return what makes the Gram store a machine trains on, or gives the rows themselves."""
    if not can(machine, TrainsOnGram):
        return lambda: problem.X
    fresh = machines.resolve(machine)
    targets = problem.targets_for(machine)
    return partial(fresh.gram, problem.X, targets, problem.weight, n_jobs=n_jobs)


def take(X: Any, rows: Array, pairwise: bool) -> Any:
    """Return some rows; of a kernel matrix their values among themselves."""
    return X[np.ix_(rows, rows)] if pairwise else X[rows]
