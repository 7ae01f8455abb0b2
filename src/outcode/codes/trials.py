"""Trying a code out: margins on rows the machine did not see, for codes that learn from them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn import linear_model
from sklearn.base import BaseEstimator, clone

from outcode._checks import Array
from outcode.capabilities import TrainsOnGram, can
from outcode.codes.common import is_pairwise
from outcode.codes.information import standardised
from outcode.dichotomies import equal_columns
from outcode.folds import content_folds
from outcode.training import Problem, fit_machine, held_out_margins


class Trial:
    """Held-out margins of any columns for the same rows, machine and folds.

    Every row is a validation row once, except a class's only row, which all machines see; only if
    there is no other row do those count. ``labels`` are the classes of the validation rows. A
    kernel machine computes its Gram matrix once. ``machine=None`` is :class:`Ridge` on features of
    unit variance.
    """

    def __init__(self, machine: Any, X: Any, labels: Array, folds: int) -> None:
        self.machine = Ridge() if machine is None else clone(machine)
        self.X = standardised(X) if machine is None else X
        self.pairwise = is_pairwise(self.machine)
        self.fold = content_folds(self.X, labels, folds, pairwise=self.pairwise)
        self.validated = (self.fold >= 0) | (self.fold.max() < 0)
        self.labels = labels[self.validated]
        self._all_labels = labels
        self._source: Any = None

    def votes(self, code: Array) -> Array:
        """Return each validation row's held-out margins (n_rows, n_columns) in units of their size.

        A column is divided by its mean absolute margin and cut to [-1, 1], so that machines whose
        margins have another scale (probabilities, say) count alike.
        """
        problem = self._problem(code)
        fitted = fit_machine(problem, clone(self.machine), n_jobs=None, verbose=0)
        margins = held_out_margins(problem, fitted, self.fold)[self.validated]
        size = np.abs(margins).mean(axis=0)
        return np.clip(margins / np.where(size > 0, size, 1.0), -1.0, 1.0)

    def _problem(self, code: Array) -> Problem:
        labels = self._all_labels
        data = {"X": self.X, "pairwise": self.pairwise, "classes": np.arange(len(code))}
        return Problem(self._make(code), code, labels, np.ones(len(labels)), **data)

    def _make(self, code: Array) -> Callable[[], Any]:
        def source() -> Any:
            if self._source is None:
                kernel = can(self.machine, TrainsOnGram)
                rows = self.X, code[self._all_labels]
                self._source = clone(self.machine).gram(*rows) if kernel else self.X
            return self._source

        return source


class Ridge(BaseEstimator):
    """The machine used when none is given: linear least squares, each column on its own rows.

    min over w, b of the mean of (t_i - w'x_i - b)^2 + penalty |w|^2, t_i = +1 or -1.
    """

    def __init__(self, penalty: float = 0.01) -> None:
        self.penalty = penalty

    def fit(self, X: Any, targets: Array, sample_weight: Any = None, **threads: Any) -> Ridge:
        self.groups_ = []
        for columns in equal_columns(targets != 0):
            rows = np.flatnonzero(targets[:, columns[0]])
            line = linear_model.Ridge(alpha=self.penalty * len(rows))
            line.fit(X[rows], targets[np.ix_(rows, columns)].astype(np.float64))
            self.groups_.append((columns, line))
        return self

    def margins(self, X: Any) -> Array:
        out = np.empty((X.shape[0], sum(len(columns) for columns, _ in self.groups_)))
        for columns, line in self.groups_:
            out[:, columns] = line.predict(X).reshape(len(out), -1)
        return out

    def held_out_margins(
        self, X: Any, targets: Array, fold: Array, sample_weight: Any = None, **threads: Any
    ) -> Array:
        out = self.margins(X)
        for f in np.unique(fold[fold >= 0]):
            train, test = np.flatnonzero(fold != f), np.flatnonzero(fold == f)
            out[test] = clone(self).fit(X[train], targets[train]).margins(X[test])
        return out
