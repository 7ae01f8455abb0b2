"""Trying a code out: margins on rows the machine did not see, for codes that learn from them."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
from sklearn import linear_model
from sklearn.base import BaseEstimator, clone

from outcode._checks import Array
from outcode.codes.common import is_pairwise
from outcode.codes.information import standardised


class Trial:
    """Held-out margins of any columns for the same rows, machine and folds.

    Every row is a validation row once, except a class's only row, which all machines see; only if
    there is no other row do those count. ``labels`` are the classes of the validation rows. A
    kernel machine computes its Gram matrix once. ``machine=None`` is :class:`Ridge` on features of
    unit variance.
    """

    def __init__(
        self, machine: Any, X: Any, labels: Array, folds: int, rng: np.random.RandomState
    ) -> None:
        self.machine = Ridge() if machine is None else clone(machine)
        self.X = standardised(X) if machine is None else X
        self.fold = validation_folds(labels, folds, rng)
        self.validated = (self.fold >= 0) | (self.fold.max() < 0)
        self.labels = labels[self.validated]
        self._all_labels = labels
        self._gram: Any = None

    def votes(self, code: Array) -> Array:
        """Return each validation row's held-out margins (n_rows, n_columns) in units of their size.

        A column is divided by its mean absolute margin and cut to [-1, 1], so that machines whose
        margins have another scale (probabilities, say) count alike.
        """
        margins = self._margins(code[self._all_labels])[self.validated]
        size = np.abs(margins).mean(axis=0)
        return np.clip(margins / np.where(size > 0, size, 1.0), -1.0, 1.0)

    def _margins(self, targets: Array) -> Array:
        if not (self.fold >= 0).any():
            return np.asarray(clone(self.machine).fit(self.X, targets).margins(self.X))
        if hasattr(self.machine, "fit_gram") and hasattr(self.machine, "held_out_margins"):
            return self._from_gram(targets)
        return self._fold_by_fold(targets)

    def _from_gram(self, targets: Array) -> Array:
        if self._gram is None:
            self._gram = self.machine.gram(self.X, targets)
        # a copy: fitting lets go of the rows the Gram matrix was made of
        fitted = copy.copy(self.machine).fit_gram(self._gram, targets)
        return np.asarray(fitted.held_out_margins(self._gram, targets, self.fold))

    def _fold_by_fold(self, targets: Array) -> Array:
        out = np.empty(targets.shape)
        pairwise = is_pairwise(self.machine)
        for f in np.unique(self.fold[self.fold >= 0]):
            train = np.flatnonzero(self.fold != f)
            test = np.flatnonzero((self.fold == f) | (self.fold < 0))
            rows = self.X[np.ix_(train, train)] if pairwise else self.X[train]
            fitted = clone(self.machine).fit(rows, targets[train])
            new = self.X[np.ix_(test, train)] if pairwise else self.X[test]
            out[test] = fitted.margins(new)
        return out


def validation_folds(labels: Array, folds: int, rng: np.random.RandomState) -> Array:
    """Number the rows 0..folds-1, each class spread evenly; -1 for a class's only row."""
    if folds < 2:
        raise ValueError(f"folds must be at least 2, got {folds}.")
    fold = np.full(len(labels), -1)
    offset = 0
    for q in range(int(labels.max()) + 1):
        rows = rng.permutation(np.flatnonzero(labels == q))
        if len(rows) > 1:
            fold[rows] = (np.arange(len(rows)) + offset) % folds
            offset += len(rows)
    return fold


class Ridge(BaseEstimator):
    """The machine used when none is given: linear least squares, each column on its own rows.

    min over w, b of the mean of (t_i - w'x_i - b)^2 + penalty |w|^2, t_i = +1 or -1.
    """

    def __init__(self, penalty: float = 0.01) -> None:
        self.penalty = penalty

    def fit(self, X: Any, targets: Array) -> Ridge:
        used, group = np.unique(targets != 0, axis=1, return_inverse=True)
        self.groups_ = []
        for g, mask in enumerate(used.T):
            rows, columns = np.flatnonzero(mask), np.flatnonzero(group.ravel() == g)
            line = linear_model.Ridge(alpha=self.penalty * len(rows))
            line.fit(X[rows], targets[np.ix_(rows, columns)].astype(np.float64))
            self.groups_.append((columns, line))
        return self

    def margins(self, X: Any) -> Array:
        out = np.empty((X.shape[0], sum(len(columns) for columns, _ in self.groups_)))
        for columns, line in self.groups_:
            out[:, columns] = line.predict(X).reshape(len(out), -1)
        return out
