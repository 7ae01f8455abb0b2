"""Exact nearest training rows, for decoders that look at them.

Candidates come from scikit-learn (or from kernel values), their distances are measured again
without cancellation, and more candidates are asked for until no row left out can be as near as the
last one wanted. Distances that differ by rounding alone are equal, and go to the lower index.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.neighbors import NearestNeighbors
from sklearn.utils import gen_batches
from sklearn.utils.extmath import row_norms
from threadpoolctl import ThreadpoolController

from outcode import kernels
from outcode._checks import Array
from outcode.saved import KernelKind, Matrix, Optional, RowsKind, Saved, reals, set_attributes
from outcode.solvers.svm.loops import compiled
from outcode.training import Training

#: Distances closer than this share of their size are equal: what rounding leaves of a tie.
TIE = 1e-12
#: Numbers a batch of test rows may hold.
BATCH = 2**22
#: Test rows a thread looks up at a time.
PIECE = 512
#: Candidates are all rows once more than one in so many would be asked for.
SHARE = 8


class Space(Saved):
    """Where neighbours are near: the exact nearest of ``size`` training rows, ties settled.

    A space makes rows ready, and proposes candidates whose distances it has measured.
    """

    room = "space"
    bare = True
    size: int

    def ready(self, X: Any) -> Any:
        """Return test rows as ``candidates`` takes them."""
        raise NotImplementedError(f"{type(self).__name__} must define ready()")

    def ready_training(self, training: Training, index: Array) -> Any:
        """Return some training rows as ``candidates`` takes them."""
        return self.ready(training.X[index])

    def candidates(self, rows: Any, tried: int) -> tuple[Array, Array, Array, Array]:
        """Return distances and indices (n_samples, tried), rounding, and a bound for the rest."""
        raise NotImplementedError(f"{type(self).__name__} must define candidates()")

    def numbers(self, tried: int) -> int:
        """Return how many numbers one test row needs at a time."""
        raise NotImplementedError(f"{type(self).__name__} must define numbers()")

    def batches(self, n_samples: int, count: int) -> Iterator[slice]:
        """Cut test rows into pieces for threads, so that memory stays bounded."""
        rows = min(PIECE, BATCH // self.numbers(_first_try(count)))
        yield from gen_batches(n_samples, max(1, rows))

    def nearest(self, X: Any, count: int) -> Array:
        """Return the ``count`` nearest training rows of every row, the nearest first."""
        return self.settle(self.ready(X), count, _first_try(count))

    def nearest_training(self, training: Training, index: Array, count: int) -> Array:
        """Return the ``count`` nearest of some training rows, themselves among them."""
        return self.settle(self.ready_training(training, index), count, _first_try(count))

    def settle(self, rows: Any, count: int, tried: int) -> Array:
        """Return the ``count`` nearest of ready rows, more candidates tried until they are sure."""
        tried = tried if SHARE * tried < self.size else self.size
        out = np.empty((rows.shape[0], count), dtype=np.intp)
        for cut in _batches(rows.shape[0], self.numbers(tried)):
            out[cut], settled = _in_order(*self.candidates(rows[cut], tried), count, self.size)
            left = cut.start + np.flatnonzero(~settled)
            if tried < self.size and len(left):
                out[left] = self.settle(rows[left], count, 4 * tried)
        return out


class InputSpace(Space):
    """|x - z|^2: candidates from scikit-learn, measured again by differences."""

    saved = {
        "rows": Matrix("n_neighbours", "n_features"),
        "origin": Optional(reals("n_features")),
    }

    def __init__(self, X: Any) -> None:
        self.size = X.shape[0]
        self.sparse = sparse.issparse(X)
        self.origin = None if self.sparse else X.mean(axis=0)  # less cancels in |x|^2 - 2 x.z
        self.rows = self.ready(X)
        self.index = NearestNeighbors(algorithm="brute").fit(self.rows)

    def ready(self, X: Any) -> Any:
        if self.sparse:
            return sparse.csr_matrix(X)
        return np.ascontiguousarray((X.toarray() if sparse.issparse(X) else X) - self.origin)

    def unpack(self, values: dict[str, Any]) -> None:
        self.rows, self.origin = values["rows"], values["origin"]
        self.size, self.sparse = self.rows.shape[0], sparse.issparse(self.rows)
        if self.sparse == (self.origin is not None):
            raise ValueError("dense rows have an origin, sparse ones have none")
        self.index = NearestNeighbors(algorithm="brute").fit(self.rows)

    def numbers(self, tried: int) -> int:
        return tried * (1 + (self.rows.nnz if self.sparse else self.rows.size) // self.size)

    def candidates(self, rows: Any, tried: int) -> tuple[Array, Array, Array, Array]:
        reported, index = self._propose(rows, tried)
        distance = self._measured(rows, index)
        # |z|^2 <= 2 |x|^2 + 2 |x - z|^2 bounds what scikit-learn's |x|^2 + |z|^2 - 2 x.z rounds off
        bound = reported[:, -1] ** 2 * (1.0 - TIE) - TIE * row_norms(rows, squared=True)
        return distance, index, TIE * distance, bound

    def _propose(self, rows: Any, tried: int) -> tuple[Array, Array]:
        if tried < self.size:
            with _openmp().limit(limits=1, user_api="openmp"):  # threads have a piece each
                return self.index.kneighbors(rows, tried)
        everything = np.tile(np.arange(self.size), (rows.shape[0], 1))
        return np.full((rows.shape[0], 1), np.inf), everything

    def _measured(self, rows: Any, index: Array) -> Array:
        """Return |x - z|^2 of every row and its candidates, by differences."""
        if self.sparse:
            difference = rows[np.repeat(np.arange(len(index)), index.shape[1])]
            difference = difference - self.rows[index.ravel()]
            return row_norms(difference, squared=True).reshape(index.shape)
        out = np.empty(index.shape)
        _squared_differences(rows, self.rows, index, out)
        return out


class KernelSpace(Space):
    """K(x, x) + K(z, z) - 2 K(x, z), less its first term, which is the same for all z."""

    saved = {
        "diagonal": reals("n_neighbours"),
        "kernel": KernelKind(),
        "rows": RowsKind("n_neighbours", "n_features"),
        "origin": Optional(reals("n_features")),
    }

    def __init__(self, training: Training, kept: Array) -> None:
        machine = training.machine
        self.size, self.kept = len(kept), kept
        self.diagonal = machine.gram_diagonal_[kept]
        self.kernel, self.origin = machine.kernel_, machine.origin_
        self.rows = kernels.Rows(kept, np.zeros(len(kept)))
        if not self.kernel.given:
            self.rows = self.kernel.prepare(training_rows(training)[kept], self.origin)

    def unpack(self, values: dict[str, Any]) -> None:
        set_attributes(self, values)
        self.origin, self.size = values["origin"], len(self.diagonal)
        if self.kernel.given != (np.ndim(self.rows.values) == 1):
            raise ValueError("neighbours have a kernel and rows, or places among the training rows")
        self.kept = self.rows.values if self.kernel.given else np.arange(self.size)

    def ready(self, X: Any) -> Any:
        return np.asarray(self.kernel.block(self.kernel.prepare(X, self.origin), self.rows))

    def ready_training(self, training: Training, index: Array) -> Any:
        if training.gram is None:
            return super().ready_training(training, index)
        return training.gram.between(index, self.kept).astype(np.float64)

    def numbers(self, tried: int) -> int:
        return 2 * self.size + tried

    def candidates(self, rows: Any, tried: int) -> tuple[Array, Array, Array, Array]:
        distance = self.diagonal - 2.0 * rows
        index = np.argpartition(distance, tried - 1, axis=1)[:, :tried]
        distance = np.take_along_axis(distance, index, axis=1)
        size = np.abs(self.diagonal[index]) + np.abs(distance - self.diagonal[index])
        return distance, index, TIE * size, distance.max(axis=1)


def _in_order(
    distance: Array, index: Array, rounding: Array, bound: Array, count: int, size: int
) -> tuple[Array, Array]:
    """Return the first ``count`` indices by distance then index, and where they are settled.

    They are when nothing beyond ``bound`` can tie with the last of them.
    """
    order = np.argsort(distance, axis=1)
    distance, index, rounding = (
        np.take_along_axis(array, order, axis=1) for array in (distance, index, rounding)
    )
    group = np.zeros(index.shape, dtype=np.int64)
    np.cumsum(np.diff(distance, axis=1) > rounding[:, 1:], axis=1, out=group[:, 1:])
    wanted = group <= group[:, count - 1 : count]
    end = np.where(wanted, distance + rounding, -np.inf).max(axis=1)
    return np.sort(group * size + index, axis=1)[:, :count] % size, end < bound


def _first_try(count: int) -> int:
    """Return how many candidates settle ``count`` neighbours most of the time."""
    return 2 * count + 6


def _batches(n_samples: int, numbers: int) -> Iterator[slice]:
    yield from gen_batches(n_samples, max(1, BATCH // numbers))


@lru_cache(maxsize=1)
def _openmp() -> Any:
    return ThreadpoolController()  # made after scikit-learn has brought its OpenMP


@compiled
def _squared_differences(rows: Any, training: Any, index: Any, out: Any) -> None:
    """out_ij = |rows_i - training_(index_ij)|^2"""
    for i in range(index.shape[0]):
        x = rows[i]
        for j in range(index.shape[1]):
            z, total = training[index[i, j]], 0.0
            for p in range(x.shape[0]):
                total += (x[p] - z[p]) ** 2
            out[i, j] = total


def training_rows(training: Training) -> Any:
    """Return the training rows, or an error that says how to give them."""
    if training.X is None:
        raise ValueError(
            "DynamicReliability looks for neighbours among the training rows: give them, "
            "with_decoder(decoder, X=X_train)."
        )
    return training.X
