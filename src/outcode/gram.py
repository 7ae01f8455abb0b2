"""The Gram store: one kernel matrix for all columns, in memory or as rows on demand.

Both stores answer the same questions (``diagonal``, ``block``, ``add``, ``matrix``, and
the ``largest_square`` of rows worth copying), so a solver does not know which it has. ``order``
says which row of the user's data stands at each place: rows of one class stand together when a
code has zeros, so that a column's rows are contiguous in memory.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np

from outcode import kernels
from outcode._checks import Array
from outcode.parallel import thread_map
from outcode.solvers.store import TILE, cuts
from outcode.solvers.svm.loops import add_rows, gather

#: Up to this many rows the Gram matrix is float64, beyond it float32, unless the user says.
DOUBLE_LIMIT = 5000


class DenseGram:
    """The whole matrix in memory."""

    def __init__(self, matrix: Array, order: Array | None = None) -> None:
        self.matrix = matrix
        self.order = order
        self.diagonal = matrix.diagonal().astype(np.float64)
        self.largest_square = len(matrix)

    def __len__(self) -> int:
        return len(self.matrix)

    @property
    def dtype(self) -> Any:
        """The type kernel values are kept in."""
        return self.matrix.dtype

    def block(self, index: Array, memory: Array | None = None) -> Array:
        """Return the square matrix of some rows, contiguous, in the memory given."""
        memory = np.empty(len(index) ** 2, dtype=self.dtype) if memory is None else memory
        out = memory.reshape(len(index), len(index))
        starts = np.flatnonzero(np.diff(index, prepend=-2) != 1)
        if len(starts) > 8:
            gather(self.matrix, index.astype(np.uint32), out)
            return out
        places = [slice(a, b) for a, b in pairwise([*starts, len(index)])]
        for rows in places:  # the rows of a few classes, which stand together
            for columns in places:
                source = tuple(slice(index[p][0], index[p][-1] + 1) for p in (rows, columns))
                out[rows, columns] = self.matrix[source]
        return out

    def strip(self, index: Array) -> Array:
        """Return some rows."""
        return self.matrix[index]

    def square(self, index: Array, memory: Array | None = None) -> DenseGram:
        """Return the store of some rows alone."""
        return DenseGram(self.block(index, memory))

    def cross(self, rows: Array, columns: Array) -> Array:
        """Return kernel values between some places and others."""
        return self.matrix[np.ix_(rows, columns)]

    def between(self, rows: Array, columns: Array) -> Array:
        """Return kernel values between some of the user's rows and others."""
        place = places(self)
        return self.cross(place[rows], place[columns])

    def add(self, index: Array, coef: Array, out: Array) -> None:
        """out += coef @ K[index], accumulated in float64."""
        add_rows(self.matrix, index, coef, out)


class RowGram:
    """Kernel values computed when asked for, squares of them within a budget of bytes."""

    matrix: Array | None = None

    def __init__(
        self, kernel: kernels.Kernel, rows: kernels.Rows, dtype: Any, budget: float, order: Any
    ) -> None:
        self.kernel, self.rows, self.dtype, self.order = kernel, rows, np.dtype(dtype), order
        self.diagonal = kernel.diagonal(rows)
        self.largest_square = max(2, int(np.sqrt(budget / 2 / self.dtype.itemsize)))

    def __len__(self) -> int:
        return len(self.rows)

    def block(self, index: Array, memory: Array | None = None) -> Array:
        """Return the square matrix of some rows, in the memory given."""
        rows, shape = self.rows[index], (len(index), len(index))
        out = np.empty(shape, self.dtype) if memory is None else memory.reshape(shape)
        for fill in symmetric_bands(self.kernel, rows, out):
            fill()
        return out

    def strip(self, index: Array) -> Array:
        """Return some rows, computed in float64 and not kept."""
        return self.kernel.block(self.rows[index], self.rows)

    def square(self, index: Array, memory: Array | None = None) -> DenseGram:
        """Return the store of some rows alone, in memory."""
        return DenseGram(self.block(index, memory))

    def cross(self, rows: Array, columns: Array) -> Array:
        """Return kernel values between some places and others."""
        return self.kernel.block(self.rows[rows], self.rows[columns], self.dtype)

    def between(self, rows: Array, columns: Array) -> Array:
        """Return kernel values between some of the user's rows and others."""
        place = places(self)
        return self.cross(place[rows], place[columns])

    def add(self, index: Array, coef: Array, out: Array) -> None:
        """out += coef @ K[index], in tiles that stay in the cache."""
        rows = self.rows[index]
        for cut in cuts(len(self), 4 * TILE):
            others = self.rows[cut]
            for batch in cuts(len(index), TILE):
                out[cut] += coef[batch] @ self.kernel.block(rows[batch], others, self.dtype)


Gram = DenseGram | RowGram


def places(store: Gram) -> Array:
    """Return where each of the user's rows stands in the store."""
    return np.arange(len(store)) if store.order is None else np.argsort(store.order)


def gram(
    kernel: kernels.Kernel,
    rows: kernels.Rows,
    *,
    dtype: Any = None,
    max_memory: float | None = None,
    order: Array | None = None,
    n_jobs: int | None = None,
) -> Gram:
    """Return the Gram store of ``rows``: in memory if it fits, else rows on demand (said so)."""
    n = len(rows)
    dtype = np.dtype(dtype or (np.float64 if n <= DOUBLE_LIMIT else np.float32))
    rows = rows if order is None else rows[order]
    budget = free_memory() / 2 if max_memory is None else float(max_memory)
    if n**2 * dtype.itemsize <= budget:
        return DenseGram(gram_matrix(kernel, rows, dtype, n_jobs), order)
    warnings.warn(
        f"The {n:,} x {n:,} kernel matrix needs {n**2 * dtype.itemsize / 2**30:.1f} GiB, more than "
        f"the {budget / 2**30:.2f} GiB of max_memory: its rows are computed on demand, which is "
        f"slower and gives the same solution.",
        stacklevel=4,
    )
    return RowGram(kernel, rows, dtype, budget / 2, order)


def gram_matrix(
    kernel: kernels.Kernel, rows: kernels.Rows, dtype: Any, n_jobs: int | None = None
) -> Array:
    """Return the full symmetric matrix: tiles of the upper triangle, mirrored, by threads."""
    matrix = np.empty((len(rows), len(rows)), dtype=dtype)
    thread_map(lambda fill: fill(), symmetric_bands(kernel, rows, matrix), n_jobs)
    if not np.all(np.isfinite(matrix.diagonal())):
        raise ValueError(
            "The kernel values overflow: scale the features, or use a smaller gamma or degree."
        )
    return matrix


def symmetric_bands(
    kernel: kernels.Kernel, rows: kernels.Rows, matrix: Array
) -> list[Callable[[], None]]:
    """Return the tasks that fill a square matrix: bands of its upper triangle, mirrored."""
    n = len(rows)
    places = cuts(n, TILE)
    parts = [rows[cut] for cut in places]

    def band(a: int) -> None:
        for b in range(a, len(places)):
            tile = matrix[places[a], places[b]]
            kernel.fill(parts[a], parts[b], tile)
            if b > a:
                matrix[places[b], places[a]] = tile.T
            else:
                np.maximum(tile, tile.T, out=tile)  # rounding differs below the diagonal
        corner = np.arange(n)[places[a]]
        matrix[corner, corner] = kernel.diagonal(parts[a])

    return [partial(band, a) for a in range(len(places))]


def cross_blocks(n_test: int, n_train: int) -> list[slice]:
    """Cut test rows so that a block of kernel values stays in the cache."""
    return cuts(n_test, max(1, min(TILE, 2**19 // max(n_train, 1))))


def free_memory() -> float:
    """Return the bytes that can be used without swapping."""
    try:
        with open("/proc/meminfo", encoding="ascii") as file:
            for line in file:
                if line.startswith("MemAvailable:"):
                    return float(line.split()[1]) * 1024
    except OSError:
        pass
    try:
        return 0.5 * os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):
        return 4.0 * 2**30
