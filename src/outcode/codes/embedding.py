"""Growing a code where its machines confuse classes: NodeEmbedding."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.utils import check_random_state

from outcode._checks import Array
from outcode.codes import algebraic, fixed, partitions
from outcode.codes.common import Code, check_learnable, checked_matrix, new_columns
from outcode.codes.information import Potentials
from outcode.codes.trials import Trial
from outcode.parallel import single_blas

STARTS: dict[str, type[Code]] = {**fixed.NAMES, **algebraic.NAMES, **partitions.NAMES}


@dataclass(frozen=True)
class Growth:
    """How a code grew: the columns added, their weights and the held-out error after each.

    Parameters
    ----------
    code : ndarray of shape (n_classes, n_dichotomies)
        The code.
    weights : ndarray of shape (n_dichotomies,)
        Weights of its columns.
    errors : tuple of float
        Held-out error of the start and after each column added; it falls strictly.
    pairs : tuple of (int, int)
        The two classes each added column was meant for.
    """

    code: Array
    weights: Array
    errors: tuple[float, ...]
    pairs: tuple[tuple[int, int], ...]


class NodeEmbedding(Code):
    """A code with additional columns for the classes that it confuses (ECOC-ONE, [PER08]).

    The machine is trained on the start code and evaluated by cross-validation. Columns are added
    one by one while the held-out error falls. For the pair of classes a, b that is confused most
    often, the candidate columns have a and b on opposite sides, and 0, 1, 3, 7, ... of the other
    classes, the nearest first, on the sides given by the most informative partition that separates
    a and b (mutual information as in :class:`Discriminant`). The candidate with the smallest
    held-out error is added if it lowers the error. If none does, the next pair is tried; after
    ``n_pairs`` pairs without success, no more columns are added.

    While growing, a row goes to the class q with the largest

        sum_s w_s m_qs v_s / sum_s w_s |m_qs|,    w_s = log((1 - e_s) / e_s) / 2, at least 0,

    v the held-out margins cut to [-1, 1], e_s the held-out error of column s: the weights of
    [PER08], zeros having no influence. ``decoders.LossWeighted(weights="code")`` decodes the
    margins with the same weights.

    Parameters
    ----------
    start : str, Code or array-like of shape (n_classes, n_dichotomies), default="ova"
        The code to begin with.
    max_added : int, default=5
        Largest number of columns added.
    folds : int, default=3
        Number of folds for validation.
    n_pairs : int, default=3
        Number of confused pairs tried before growth stops.
    machine : Machine or None, default=None
        What the code is learned with; None is the machine of the classifier.

    Notes
    -----
    Without a machine (``codes.code_matrix`` without ``machine``) linear least squares is trained.
    With a machine on precomputed kernels X is its Gram matrix: folds take rows and columns of it,
    and nearness is that of the kernel's feature space.

    Examples
    --------
    >>> from sklearn.datasets import load_wine
    >>> X, y = load_wine(return_X_y=True)
    >>> growth = NodeEmbedding().grow(3, X, y, rng=0)
    >>> growth.code.shape[1] == 3 + len(growth.pairs)
    True
    """

    def __init__(
        self,
        start: Any = "ova",
        max_added: int = 5,
        folds: int = 3,
        n_pairs: int = 3,
        machine: Any = None,
    ) -> None:
        self.start = start
        self.max_added = max_added
        self.folds = folds
        self.n_pairs = n_pairs
        self.machine = machine

    def matrix(
        self,
        n_classes: int,
        X: Any = None,
        labels: Array | None = None,
        machine: Any = None,
        rng: np.random.RandomState | None = None,
    ) -> Array:
        return self.grow(n_classes, X, labels, machine, rng).code

    def weighted_matrix(self, n_classes: int, **data: Any) -> tuple[Array, Array]:
        """Return the code and the weights of its columns; ``data`` as :meth:`matrix` takes it."""
        growth = self.grow(n_classes, **data)
        return growth.code, growth.weights

    def grow(
        self, n_classes: int, X: Any, labels: Any, machine: Any = None, rng: Any = None
    ) -> Growth:
        """Return the code with its column weights and the held-out errors on the way."""
        X, labels = check_learnable(self, n_classes, X, labels)
        machine, rng = machine if self.machine is None else self.machine, check_random_state(rng)
        data = {"X": X, "labels": labels, "machine": machine, "rng": rng}
        code = checked_matrix(self.start, STARTS, n_classes, **data)
        near = partitions.Discriminant().potentials(n_classes, **data)
        trial = Trial(machine, X, labels, self.folds)
        state = _State.of(trial, code)
        errors: list[float] = [state.error]
        pairs: list[tuple[int, int]] = []
        while state.error > 0 and len(pairs) < self.max_added:
            found = self._next(trial, state, near)
            if found is None:
                break
            pair, state = found
            errors.append(state.error)
            pairs.append(pair)
        return Growth(state.code, state.weights, tuple(errors), tuple(pairs))

    def _next(
        self, trial: Trial, state: _State, near: Potentials
    ) -> tuple[tuple[int, int], _State] | None:
        """Return the first confused pair with a column that lowers the error, and that column."""
        for pair in state.confused_pairs()[: self.n_pairs]:
            new = _candidates(near, *pair, state.code)
            if not new.shape[1]:
                continue
            votes = trial.votes(new)
            grown = [state.with_column(new[:, [s]], votes[:, [s]]) for s in range(new.shape[1])]
            best = min(grown, key=lambda candidate: candidate.error)
            if best.error < state.error:
                return pair, best
        return None


@dataclass(frozen=True)
class _State:
    """A code, its held-out votes and what they decode to."""

    code: Array
    votes: Array
    labels: Array
    weights: Array
    predicted: Array

    @classmethod
    def of(cls, trial: Trial, code: Array) -> _State:
        return cls._decoded(code, trial.votes(code), trial.labels)

    @classmethod
    def _decoded(cls, code: Array, votes: Array, labels: Array) -> _State:
        weights = column_weights(code[labels], votes)
        return cls(code, votes, labels, weights, decoded(votes, code, weights))

    def with_column(self, column: Array, votes: Array) -> _State:
        return self._decoded(
            np.hstack([self.code, column]), np.hstack([self.votes, votes]), self.labels
        )

    @property
    def error(self) -> float:
        return float(np.mean(self.predicted != self.labels))

    def confused_pairs(self) -> list[tuple[int, int]]:
        """Return the pairs of classes taken for each other, most rows first."""
        k = len(self.code)
        counts = np.zeros((k, k), dtype=np.int64)
        np.add.at(counts, (self.labels, self.predicted), 1)
        a, b = np.triu_indices(k, 1)
        rows = (counts + counts.T)[a, b]
        order = np.argsort(-rows, kind="stable")
        return [(int(a[i]), int(b[i])) for i in order if rows[i] > 0]


def column_weights(targets: Array, votes: Array) -> Array:
    """Return log((1 - e) / e) / 2 of each column's error e on the rows it uses, at least 0.

    An error counts half a row more on either side, so that no weight is infinite.
    """
    used = np.abs(targets).sum(axis=0)
    wrong = ((targets * votes <= 0) & (targets != 0)).sum(axis=0)
    error = (wrong + 0.5) / (used + 1.0)
    return np.maximum(np.log((1 - error) / error) / 2, 0.0)


def decoded(votes: Array, code: Array, weights: Array) -> Array:
    """Return the class whose weighted columns agree most with the votes, on average."""
    weighted = code * weights
    mass = np.abs(weighted).sum(axis=1)
    with single_blas():
        scores = votes @ (weighted / np.where(mass > 0, mass, 1.0)[:, None]).T
    return np.asarray(scores.argmax(axis=1))


def _candidates(near: Potentials, a: int, b: int, code: Array) -> Array:
    """Return columns that oppose a and b, from the pair alone to all classes, none of them in code.

    Classes join in the order of their mean potential with the pair: those nearest to it first.
    """
    sides = _opposing(near.centred(np.arange(len(code))), a, b)
    mean = near.values / np.outer(near.shares, near.shares)
    closeness = mean[a] + mean[b]
    closeness[[a, b]] = np.inf
    order = np.argsort(-closeness, kind="stable")
    sizes = sorted({min(1 + 2**i, len(code)) for i in range(len(code).bit_length() + 1)})
    columns = np.zeros((len(code), len(sizes)), dtype=np.int8)
    for column, size in zip(columns.T, sizes, strict=True):
        column[order[:size]] = sides[order[:size]]
    return new_columns(columns, code)


def _opposing(U: Array, a: int, b: int) -> Array:
    """Return the signs of a partition with a and b apart that no single move makes better."""
    signs = np.where(U[:, a] >= U[:, b], 1.0, -1.0)
    signs[a], signs[b] = 1.0, -1.0
    while True:
        gain = 4 * (np.diagonal(U) - signs * (U @ signs))
        gain[[a, b]] = -np.inf
        if gain.max() <= 1e-12 * np.trace(U):
            return signs.astype(np.int8)
        signs[gain.argmax()] *= -1


NAMES: dict[str, type[Code]] = {"ecocone": NodeEmbedding}
