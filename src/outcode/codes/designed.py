"""Codes designed for the machines that learn them: columns and machines in turn. [CS02]"""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.utils import check_random_state

from outcode._checks import Array, lookup, positive
from outcode.codes.common import (
    Code,
    check_learnable,
    column_count,
    distinct_columns,
    new_columns,
    two_classes,
)
from outcode.codes.fixed import DenseRandom, OneVsAll
from outcode.codes.joint import repaired
from outcode.codes.trials import Trial
from outcode.design import best_column, code_error, continuous_code
from outcode.design.incremental import not_won
from outcode.parallel import single_blas

#: Searches for one column that end at columns the code has already, before it is given up.
FAILURES = 5


class Designed(Code):
    """A code learned alternately with its machines ([CS02] Theorem 1, sections 5 and 8).

    ``by="columns"``: one column after the other. A column starts at random. The machine is trained
    on it, and the column is replaced by the best column for the held-out margins of the machine
    (Theorem 1); this is repeated until the column does not change, at most ``rounds`` times. Of all
    these columns, the one with the smallest held-out error of the code (Eq. 1) is kept. Rows that
    the code currently misclassifies count double.

    ``by="continuous"``: all columns together. Starting from a dense random code, machines are
    trained, the continuous code M with the smallest norm and loss for their held-out margins is
    computed (Eq. 16), and the signs of M are the next code. The code whose M has the smallest error
    is kept. Decode it with ``decoder="continuous"``,
    which finds M for the machines trained on all rows.

    Both are heuristics: the best code for given machines is NP-complete to find (Theorem 2).

    Parameters
    ----------
    by : {"columns", "continuous"}, default="columns"
        How the code is learned.
    n_columns : int or None, default=None
        Number of columns; None is as many as there are classes.
    rounds : int, default=5
        Largest number of machines trained for one column, or for the whole code.
    beta : float, default=1.0
        Weight of the norm of the continuous code.
    folds : int, default=3
        Number of folds the held-out margins come from.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from outcode import OutputCodeClassifier
    >>> X, y = load_iris(return_X_y=True)
    >>> clf = OutputCodeClassifier(Designed("continuous"), decoder="continuous", random_state=0)
    >>> clf.fit(X, y).code_.shape, clf.decoder_.continuous_code_.shape
    ((3, 3), (3, 3))
    """

    def __init__(
        self,
        by: str = "columns",
        n_columns: int | None = None,
        *,
        rounds: int = 5,
        beta: float = 1.0,
        folds: int = 3,
    ) -> None:
        self.by = by
        self.n_columns = n_columns
        self.rounds = rounds
        self.beta = beta
        self.folds = folds

    def matrix(
        self,
        n_classes: int,
        X: Any = None,
        labels: Array | None = None,
        machine: Any = None,
        rng: np.random.RandomState | None = None,
    ) -> Array:
        design = lookup(WAYS, self.by, "by")
        X, labels = check_learnable(self, n_classes, X, labels)
        if n_classes == 2:
            return two_classes()
        n_columns = column_count(self.n_columns, n_classes, n_classes, 2 ** (n_classes - 1) - 1)
        trial, rng = Trial(machine, X, labels, self.folds), check_random_state(rng)
        code = design(self, trial, n_classes, n_columns, rng)
        return repaired(code, OneVsAll().draw(n_classes, rng))

    def columns(self, trial: Trial, n_classes: int, n_columns: int, rng: Any) -> Array:
        """Return columns found one after the other."""
        code, H = np.zeros((n_classes, 0), dtype=np.int8), np.zeros((len(trial.labels), 0))
        failures = 0
        while code.shape[1] < n_columns and failures < FAILURES:
            found = self._next(trial, code, H, rng)
            if found is None:
                failures += 1
                continue
            failures = 0
            code, H = np.column_stack([code, found[0]]), np.column_stack([H, found[1]])
        return code

    def _next(self, trial: Trial, code: Array, H: Array, rng: Any) -> tuple[Array, Array] | None:
        """Return the best new column found while alternating with its machine, and its votes."""
        weight = 1.0 + not_won(code, H, trial.labels)
        column, k = random_split(len(code), rng), len(code)
        best: tuple[float, Any] = (np.inf, None)
        for _ in range(self.rounds):
            votes = trial.votes(column[:, None])[:, 0]
            if new_columns(column[:, None], code).shape[1]:
                together = np.column_stack([code, column]), np.column_stack([H, votes])
                error = code_error(*together, trial.labels)
                if error < best[0]:
                    best = error, (column, votes)
            after = best_column(signs(votes), trial.labels, n_classes=k, sample_weight=weight)
            if np.array_equal(after, column):
                break
            column = after
        found: tuple[Array, Array] | None = best[1]
        return found

    def continuous(self, trial: Trial, n_classes: int, n_columns: int, rng: Any) -> Array:
        """Return the signs of a continuous code that alternates with its machines."""
        code = DenseRandom(n_columns).draw(n_classes, rng)
        best, beta = (np.inf, code), positive(self.beta, "beta")
        for _ in range(self.rounds):
            with single_blas():
                votes = trial.votes(code)
                M = continuous_code(votes, trial.labels, beta=beta, n_classes=n_classes).code
            error = code_error(M, votes, trial.labels)
            if error < best[0]:
                best = error, code
            after = repaired(distinct_columns(signs(M).astype(np.int8)), code)
            if after.shape == code.shape and np.array_equal(after, code):
                break
            code = after
        return best[1]


class DesignedTree(Code):
    """A tree of classes, each split the best column for its machine ([CS02] sections 3 and 8).

    At each node, a column that splits the classes of the node starts at random. The machine is
    trained on the rows of these classes, and the column is replaced by the best column for its
    held-out margins (Theorem 1); this is repeated until the column does not change, at most
    ``rounds`` times. Of all these columns, the one whose machine has the smallest balanced held-out
    error is the split.
    The code has n_classes - 1 columns, 0 for the classes that are not at the node.

    Parameters
    ----------
    rounds : int, default=5
        Largest number of machines trained at a node.
    starts : int, default=2
        Number of random columns to start from at each node.
    folds : int, default=3
        Number of folds the held-out margins come from.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from outcode.codes import code_matrix
    >>> X, y = load_iris(return_X_y=True)
    >>> code_matrix(DesignedTree(), 3, X, y, random_state=0).shape
    (3, 2)
    """

    def __init__(self, rounds: int = 5, *, starts: int = 2, folds: int = 3) -> None:
        self.rounds = rounds
        self.starts = starts
        self.folds = folds

    def matrix(
        self,
        n_classes: int,
        X: Any = None,
        labels: Array | None = None,
        machine: Any = None,
        rng: np.random.RandomState | None = None,
    ) -> Array:
        X, labels = check_learnable(self, n_classes, X, labels)
        if n_classes == 2:
            return two_classes()
        trial, rng = Trial(machine, X, labels, self.folds), check_random_state(rng)
        columns, waiting = [], [np.arange(n_classes)]
        while waiting:
            classes = waiting.pop(0)
            column = self._split(trial, classes, n_classes, rng)
            columns.append(column)
            sides = (classes[column[classes] == sign] for sign in (1, -1))
            waiting += [side for side in sides if len(side) > 1]
        return np.column_stack(columns)

    def _split(self, trial: Trial, classes: Array, n_classes: int, rng: Any) -> Array:
        """Return the column with the least error met at a node."""
        rows = np.flatnonzero(np.isin(trial.labels, classes))
        place = np.searchsorted(classes, trial.labels[rows])
        best: tuple[float, Any] = (np.inf, None)
        for _ in range(1 if len(classes) == 2 else self.starts):
            short = random_split(len(classes), rng)
            for _ in range(self.rounds):
                column = np.zeros(n_classes, dtype=np.int8)
                column[classes] = short
                h = signs(trial.votes(column[:, None])[rows, 0])
                error = _half_error(h, short[place])
                if error < best[0]:
                    best = error, column
                after = best_column(h, place, n_classes=len(classes))
                if np.array_equal(after, short) or np.array_equal(after, -short):
                    break
                short = after
        split: Array = best[1]
        return split


def _half_error(h: Array, targets: Array) -> float:
    """Return the mean of the errors on either side."""
    sides = [targets == sign for sign in (1, -1)]
    return float(np.mean([np.mean(h[side] != targets[side]) for side in sides if side.any()]))


def random_split(n_classes: int, rng: Any) -> Array:
    """Return a column with half of the classes, drawn at random, on either side."""
    return np.where(rng.permutation(n_classes) < max(1, n_classes // 2), 1, -1).astype(np.int8)


def signs(values: Array) -> Array:
    """Return +1 and -1; 0 is +1."""
    return np.where(values >= 0, 1, -1)


WAYS = {"columns": Designed.columns, "continuous": Designed.continuous}

NAMES: dict[str, type[Code]] = {"designed": Designed, "designed-tree": DesignedTree}
