"""The Gram store: one kernel matrix for all columns, in memory or as rows on demand.

A store owns the kernel, the rows it was made of, their origin, the type of the kernel values and
the memory they may take. Both stores answer the same questions (``diagonal``, ``row``, ``block``,
``add``, ``matrix``, ``support``, and the ``largest_square`` of rows worth copying), so a solver
does not know which it has. ``order`` says which row of the user's data stands at each place: rows
of one class stand together when a code has zeros, so that a column's rows are contiguous in memory.
"""

from __future__ import annotations

import os
from collections import OrderedDict
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from threading import Lock
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.utils import check_array, gen_batches

from outcode import kernels
from outcode._checks import Array, positive, warn
from outcode.parallel import thread_map
from outcode.solvers.store import TILE
from outcode.solvers.svm.loops import add_rows, gather

#: Up to this many rows the Gram matrix is float64, beyond it float32, unless the user says.
DOUBLE_LIMIT = 5000
#: Rows exponentiated at a time.
BAND = 64


class DenseGram:
    """The whole matrix in memory; without a kernel, values that the user gave."""

    def __init__(
        self,
        matrix: Array,
        order: Array | None = None,
        *,
        kernel: kernels.Kernel | None = None,
        rows: kernels.Rows | None = None,
        origin: Array | None = None,
    ) -> None:
        self.matrix = matrix
        self.order = order
        self.kernel = kernels.Precomputed() if kernel is None else kernel
        self.rows = kernels.places(len(matrix)) if rows is None else rows
        self.origin = origin
        self.diagonal = matrix.diagonal().astype(np.float64)
        self.largest_square = len(matrix)

    def __len__(self) -> int:
        return len(self.matrix)

    @property
    def dtype(self) -> Any:
        """The type kernel values are kept in."""
        return self.matrix.dtype

    def support(self, index: Array) -> kernels.Rows:
        """Return some of the user's rows, ready for the kernel."""
        return self.rows[index]

    def row(self, i: int) -> Array:
        """Return one row."""
        return self.matrix[i]

    def block(self, index: Array) -> Array:
        """Return the square matrix of some rows, contiguous."""
        out = np.empty((len(index), len(index)), dtype=self.dtype)  # NumPy asks for huge pages
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

    def square(self, index: Array) -> DenseGram:
        """Return the store of some rows alone."""
        return DenseGram(self.block(index))

    def between(self, rows: Array, columns: Array) -> Array:
        """Return kernel values between some of the user's rows and others."""
        place = places(self)
        return self.matrix[np.ix_(place[rows], place[columns])]

    def add(self, index: Array, coef: Array, out: Array) -> None:
        """out += coef @ K[index], accumulated in float64."""
        add_rows(self.matrix, index, coef, out)


class RowGram:
    """Rows computed when asked for and kept, least recently used dropped, within a budget."""

    matrix: Array | None = None

    def __init__(
        self,
        kernel: kernels.Kernel,
        rows: kernels.Rows,
        dtype: Any,
        budget: float,
        order: Any = None,
        origin: Array | None = None,
    ) -> None:
        self.kernel, self.dtype, self.order = kernel, np.dtype(dtype), order
        self.rows, self.origin = rows if order is None else rows[order], origin
        self.diagonal = kernel.diagonal(self.rows)
        self.capacity = max(2, int(budget / (len(rows) * self.dtype.itemsize)))
        self.largest_square = int(np.sqrt(budget / 2 / self.dtype.itemsize))
        self._kept: OrderedDict[int, Array] = OrderedDict()
        self._lock = Lock()

    def __len__(self) -> int:
        return len(self.rows)

    def support(self, index: Array) -> kernels.Rows:
        """Return some of the user's rows, ready for the kernel."""
        return self.rows[places(self)[index]]

    def row(self, i: int) -> Array:
        """Return one row, from the cache if it is there."""
        return self._rows(np.array([i]))[0]

    def block(self, index: Array) -> Array:
        """Return the square matrix of some rows."""
        rows = self.rows[index]
        return self.kernel.block(rows, rows, self.dtype)

    def strip(self, index: Array) -> Array:
        """Return some rows, computed in float64 and not kept."""
        return self.kernel.block(self.rows[index], self.rows)

    def square(self, index: Array) -> DenseGram:
        """Return the store of some rows alone, in memory."""
        return DenseGram(self.block(index))

    def between(self, rows: Array, columns: Array) -> Array:
        """Return kernel values between some of the user's rows and others."""
        place = places(self)
        return np.stack(self._rows(place[rows]))[:, place[columns]]

    def add(self, index: Array, coef: Array, out: Array) -> None:
        """out += coef @ K[index], in batches of rows."""
        for batch in gen_batches(len(index), TILE):
            for value, row in zip(coef[batch], self._rows(index[batch]), strict=True):
                out += value * row.astype(np.float64)

    def _rows(self, index: Array) -> list[Array]:
        with self._lock:
            have = {int(i): self._kept[i] for i in index if i in self._kept}
            for i in have:
                self._kept.move_to_end(i)
        missing = np.array([i for i in index if int(i) not in have], dtype=np.intp)
        if len(missing):
            values = self.kernel.block(self.rows[missing], self.rows, self.dtype)
            have.update(zip(missing.tolist(), values, strict=True))
            with self._lock:
                for i in missing.tolist():
                    self._kept[i] = have[i].copy()
                while len(self._kept) > self.capacity:
                    self._kept.popitem(last=False)
        return [have[int(i)] for i in index]


Gram = DenseGram | RowGram


def places(store: Gram) -> Array:
    """Return where each of the user's rows stands in the store."""
    return np.arange(len(store)) if store.order is None else np.argsort(store.order)


def gram(
    kernel: kernels.Kernel,
    rows: kernels.Rows,
    *,
    origin: Array | None = None,
    dtype: Any = None,
    max_memory: float | None = None,
    order: Array | None = None,
    n_jobs: int | None = None,
) -> Gram:
    """Return the Gram store of ``rows``: in memory if it fits, else rows on demand (said so)."""
    n = len(rows)
    dtype = precision(n, dtype)
    budget = memory_budget(max_memory)
    if n**2 * dtype.itemsize <= budget:
        ready = rows if order is None else rows[order]
        matrix = gram_matrix(kernel, ready, dtype, n_jobs)
        return DenseGram(matrix, order, kernel=kernel, rows=rows, origin=origin)
    warn(
        f"The {n:,} x {n:,} kernel matrix needs {n**2 * dtype.itemsize / 2**30:.1f} GiB, more than "
        f"the {budget / 2**30:.2f} GiB of max_memory: its rows are computed on demand, which is "
        f"slower and gives the same solution.",
    )
    return RowGram(kernel, rows, dtype, budget / 2, order, origin)


def precision(n: int, dtype: Any = None, limit: int = DOUBLE_LIMIT) -> np.dtype[Any]:
    """Return the type of the kernel values of n rows: as asked, else float64 up to ``limit``."""
    return np.dtype(dtype or (np.float64 if n <= limit else np.float32))


def memory_budget(max_memory: float | None) -> float:
    """Return the bytes that kernel values may take: as asked, else half of what is free."""
    return free_memory() / 2 if max_memory is None else float(max_memory)


def require_memory(needed: float, max_memory: float | None, what: str, remedy: str) -> None:
    """Raise an error if ``what`` needs more bytes than there are."""
    if needed > (budget := memory_budget(max_memory)):
        raise ValueError(
            f"{what} needs {needed / 2**30:.2f} GiB, more than the {budget / 2**30:.2f} GiB of "
            f"max_memory: {remedy}."
        )


class Widths:
    """The Gram stores of one kernel at any gamma: distances once, exponentials for each gamma.

    Only for kernels that are exp(-gamma distance). ``fits`` says whether distances and values
    are within the memory there may be; each store is written over the one before.
    """

    def __init__(
        self,
        kind: type[kernels.Kernel],
        X: Any,
        *,
        dtype: Any,
        max_memory: float | None,
        order: Array | None = None,
        n_jobs: int | None = None,
    ) -> None:
        kernel = kind()
        self.kind, self.order, self.n_jobs = kind, order, n_jobs
        self.dtype, self.origin = np.dtype(dtype), kernel.origin(X)
        self.rows = kernel.prepare(X, self.origin)
        self.fits = 2 * len(self.rows) ** 2 * self.dtype.itemsize <= memory_budget(max_memory)

    @cached_property
    def distances(self) -> Array:
        """The distances of all rows."""
        rows = self.rows if self.order is None else self.rows[self.order]
        return gram_matrix(_Distances(inner=self.kind()), rows, self.dtype, self.n_jobs)

    @cached_property
    def values(self) -> Array:
        """The kernel values of the gamma in work."""
        return np.empty_like(self.distances)

    def at(self, gamma: float) -> DenseGram:
        """Return the store of a gamma."""
        kernel: Any = self.kind(gamma=positive(gamma, "gamma"))

        def band(rows: slice) -> None:
            kernel.of(self.distances[rows], self.values[rows])

        self.values  # noqa: B018  one allocation, before the threads
        thread_map(band, gen_batches(len(self.values), BAND), self.n_jobs)
        parts = {"kernel": kernel, "rows": self.rows, "origin": self.origin}
        return DenseGram(self.values, self.order, **parts)


@dataclass(frozen=True)
class _Distances(kernels.Kernel):
    """The distances of a kernel exp(-gamma distance), in the place of kernel values."""

    inner: Any = None

    def values(self, A: kernels.Rows, B: kernels.Rows) -> Array:
        return self.inner.distances(A, B)

    def diagonal(self, A: kernels.Rows) -> Array:
        return np.zeros(len(A))


def features(X: Any, origin: Array | None = None) -> RowGram:
    """Return the store of a linear kernel that keeps the rows alone, in float64."""
    kernel = kernels.Linear()
    return RowGram(kernel, kernel.prepare(X, origin), np.float64, 0.0, None, origin)


def given(K: Any) -> DenseGram:
    """Return the store of a precomputed kernel matrix, or an error if it is none."""
    if sparse.issparse(K):
        raise ValueError("A precomputed kernel matrix cannot be sparse: give K.toarray().")
    K = check_array(K, dtype=[np.float64, np.float32])
    if K.shape[0] != K.shape[1]:
        raise ValueError(
            f"A precomputed kernel matrix must be square with a row and a column per training "
            f"row, got shape {K.shape}."
        )
    size = float(np.abs(K.diagonal()).max())
    for cut in cross_blocks(len(K), len(K)):
        off = np.abs(K[cut] - K[:, cut].T)
        if off.max() > 1e-6 * max(size, 1e-300) + 1e-12:
            i, j = np.unravel_index(int(off.argmax()), off.shape)
            i = i + cut.start
            raise ValueError(
                f"A precomputed kernel matrix must be symmetric, but K[{i}, {j}] = {K[i, j]:g} "
                f"and K[{j}, {i}] = {K[j, i]:g}."
            )
    return DenseGram(np.ascontiguousarray(K))


def gram_matrix(
    kernel: kernels.Kernel, rows: kernels.Rows, dtype: Any, n_jobs: int | None = None
) -> Array:
    """Return the full symmetric matrix: tiles of the upper triangle, mirrored, by threads."""
    n = len(rows)
    matrix = np.empty((n, n), dtype=dtype)
    cuts = [slice(i, min(i + TILE, n)) for i in range(0, n, TILE)]
    parts = [rows[cut] for cut in cuts]

    def band(a: int) -> None:
        for b in range(a, len(cuts)):
            tile = matrix[cuts[a], cuts[b]]
            kernel.fill(parts[a], parts[b], tile)
            if b > a:
                matrix[cuts[b], cuts[a]] = tile.T
            else:
                np.maximum(tile, tile.T, out=tile)  # rounding differs below the diagonal
        corner = np.arange(n)[cuts[a]]
        matrix[corner, corner] = kernel.diagonal(parts[a])

    thread_map(band, range(len(cuts)), n_jobs)
    if not np.all(np.isfinite(matrix.diagonal())):
        raise ValueError(
            "The kernel values overflow: scale the features, or use a smaller gamma or degree."
        )
    return matrix


def cross_blocks(n_test: int, n_train: int) -> list[slice]:
    """Cut test rows so that a block of kernel values stays in the cache."""
    return list(gen_batches(n_test, max(1, min(TILE, 2**19 // max(n_train, 1)))))


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
