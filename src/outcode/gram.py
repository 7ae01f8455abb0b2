"""The Gram store: one kernel matrix for all columns, in memory or as rows on demand.

A store owns the kernel, the rows it was made of, their origin, the type of the kernel values and
the memory they may take. Both stores answer the same questions (``diagonal``, ``block``,
``add``, ``matrix``, ``support``, and the ``largest_square`` of rows worth copying), so a solver
does not know which it has. ``order`` says which row of the user's data stands at each place: rows
of one class stand together when a code has zeros, so that a column's rows are contiguous in memory.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import pairwise
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.utils import check_array

from outcode import kernels
from outcode._checks import Array, positive, warn
from outcode.parallel import thread_map
from outcode.solvers.store import TILE, cuts
from outcode.solvers.svm.loops import add_rows, gather

#: Up to this many rows the Gram matrix is float64, beyond it float32, unless the user says.
DOUBLE_LIMIT = 5000
#: Rows exponentiated at a time.
BAND = 64
#: Rows that stand together in at most so many runs are taken run by run.
RUNS = 8
#: Fewer features than this make kernel values cheap: up to so many rows, computing all that a
#: column may ask for costs less than choosing some.
FEW_FEATURES, FEW_ROWS = 64, 20_000


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

    @property
    def features(self) -> Array | None:
        """The dense rows in the order of the store, if a kernel value is their product."""
        return _features(self.kernel, self.rows, self.order)

    def support(self, index: Array) -> kernels.Rows:
        """Return some of the user's rows, ready for the kernel."""
        return self.rows[index]

    def block(self, index: Array, memory: Array | None = None) -> Array:
        """Return the square matrix of some rows, contiguous, in the memory given."""
        memory = np.empty(len(index) ** 2, dtype=self.dtype) if memory is None else memory
        out = memory.reshape(len(index), len(index))
        runs = _runs(index)
        if len(runs) > RUNS:
            gather(self.matrix, index.astype(np.uint32), out)
            return out
        for rows, source in runs:  # the rows of a few classes, which stand together
            for columns, others in runs:
                out[rows, columns] = self.matrix[source, others]
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
        self.ready = kernel.narrowed(self.rows, dtype)
        self.diagonal = kernel.diagonal(self.rows)
        self.largest_square = max(2, int(np.sqrt(budget / 2 / self.dtype.itemsize)))

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def features(self) -> Array | None:
        """The dense rows in the order of the store, if a kernel value is their product."""
        return _features(self.kernel, self.rows, None)

    def support(self, index: Array) -> kernels.Rows:
        """Return some of the user's rows, ready for the kernel."""
        return self.rows[places(self)[index]]

    def block(self, index: Array, memory: Array | None = None) -> Array:
        """Return the square matrix of some rows, in the memory given."""
        rows, shape = self.ready[index], (len(index), len(index))
        out = np.empty(shape, self.dtype) if memory is None else memory.reshape(shape)
        for fill in symmetric_bands(self.kernel, rows, out):
            fill()
        return out

    def strip(self, index: Array) -> Array:
        """Return some rows, computed in float64 and not kept."""
        return self.kernel.block(self.rows[index], self.rows)

    def square(self, index: Array, memory: Array | None = None) -> KeptGram:
        """Return the store of some rows alone, computed on demand as well, kept in the memory."""
        memory = np.empty(0, self.dtype) if memory is None else memory
        return KeptGram(self, self.ready[index], memory)

    def cross(self, rows: Array, columns: Array) -> Array:
        """Return kernel values between some places and others."""
        return self.kernel.block(self.ready[rows], self.ready[columns], self.dtype)

    def between(self, rows: Array, columns: Array) -> Array:
        """Return kernel values between some of the user's rows and others."""
        place = places(self)
        return self.cross(place[rows], place[columns])

    def add(self, index: Array, coef: Array, out: Array) -> None:
        """out += coef @ K[index], in tiles that stay in the cache, accumulated in float64."""
        rows = [(coef[batch], self.ready[index[batch]]) for batch in cuts(len(index), TILE)]
        for cut in cuts(len(self), 4 * TILE):
            others = self.ready[cut]
            for values, batch in rows:
                block = self.kernel.block(batch, others, self.dtype)
                add_rows(block, np.arange(len(batch)), values, out[cut])


class KeptGram(RowGram):
    """Kernel values on demand; rows that were added up once are kept while there is memory."""

    def __init__(self, whole: RowGram, rows: kernels.Rows, memory: Array) -> None:
        super().__init__(whole.kernel, rows, whole.dtype, 0.0)
        self.largest_square = whole.largest_square
        self.kept = memory[: memory.size // len(rows) * len(rows)].reshape(-1, len(rows))
        self.place, self.used = np.full(len(rows), -1), 0
        self.parts = [(cut, self.ready[cut]) for cut in cuts(len(rows), 4 * TILE)]

    def keep(self, index: Array) -> bool:
        """Compute the rows that are not kept yet; return whether all of them are now."""
        new = index[self.place[index] < 0]
        if self.used + len(new) > len(self.kept):
            return False
        rows = self.ready[new]
        for cut, others in self.parts:
            for batch in cuts(len(new), TILE):
                out = self.kept[self.used + batch.start : self.used + batch.stop, cut]
                self.kernel.fill(rows[batch], others, out)
        self.place[new] = np.arange(self.used, self.used + len(new))
        self.used += len(new)
        return True

    def add(self, index: Array, coef: Array, out: Array) -> None:
        """out += coef @ K[index], accumulated in float64."""
        if self.keep(index):
            add_rows(self.kept, self.place[index], coef, out)
        else:
            super().add(index, coef, out)

    def block(self, index: Array, memory: Array | None = None) -> Array:
        """Return the square matrix of some rows, in the memory given."""
        known = self.place[index] >= 0
        if not known.any():
            return super().block(index, memory)
        out = np.empty(len(index) ** 2, self.dtype) if memory is None else memory
        out, old, new = out.reshape(len(index), -1), np.flatnonzero(known), np.flatnonzero(~known)
        out[old] = self.kept[np.ix_(self.place[index[old]], index)]
        out[np.ix_(new, old)] = out[np.ix_(old, new)].T
        out[np.ix_(new, new)] = super().block(index[new])
        return out


class SquareGram(RowGram):
    """Kernel values on demand that are cheap: whole squares of columns, nothing else.

    A column of a code with zeros uses the rows of a few classes, which stand together. The values
    within a class serve all its columns and are kept; those between two classes are computed for
    the one column that asks, in memory that the next column uses again.
    """

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.kept: dict[tuple[int, int], Array] = {}
        self.tiles: dict[tuple[int, int], list[tuple[slice, kernels.Rows]]] = {}

    def block(self, index: Array, memory: Array | None = None) -> Array:
        """Return the square matrix of some rows, in the memory given."""
        runs = _runs(index)
        if len(runs) > RUNS:
            return super().block(index, memory)
        memory = np.empty(len(index) ** 2, dtype=self.dtype) if memory is None else memory
        out = memory.reshape(len(index), len(index))
        for a, (rows, source) in enumerate(runs):
            out[rows, rows] = self._within(source)
            for columns, others in runs[a + 1 :]:
                self._between(source, others, out[rows, columns], out[columns, rows])
        return out

    def square(self, index: Array, memory: Array | None = None) -> Any:
        """Return the store of some rows alone: all its values, in the memory if there is enough."""
        if memory is None or memory.size < len(index) ** 2:
            return super().square(index, memory)
        return DenseGram(self.block(index, memory[: len(index) ** 2]))

    def _within(self, run: slice) -> Array:
        """Return the values of rows that stand together, computed once."""
        key = run.start, run.stop
        if key not in self.kept:  # threads that come at once compute the same bits
            self.kept[key] = super().block(np.arange(run.start, run.stop))
        return self.kept[key]

    def _between(self, rows: slice, columns: slice, out: Array, mirror: Array) -> None:
        """Write the values of some rows and others, and their transpose, in tiles."""
        for a, left in self._tiles(rows):
            for b, right in self._tiles(columns):
                self.kernel.fill(left, right, out[a, b])
                mirror[b, a] = out[a, b].T

    def _tiles(self, run: slice) -> list[tuple[slice, kernels.Rows]]:
        """Return rows that stand together in tiles, made once, with their places among them."""
        key = run.start, run.stop
        if key not in self.tiles:
            rows = self.ready[run]
            self.tiles[key] = [(cut, rows[cut]) for cut in cuts(len(rows), 2 * TILE)]
        return self.tiles[key]


class FeatureGram(RowGram):
    """The store of a linear kernel that keeps dense or sparse rows alone."""

    def add(self, index: Array, coef: Array, out: Array) -> None:
        """out += coef @ K[index], in two products with the features."""
        values = self.rows.values
        out += np.asarray((coef @ values[index]) @ values.T)


def _features(kernel: kernels.Kernel, rows: kernels.Rows, order: Array | None) -> Array | None:
    if not kernel.linear or sparse.issparse(rows.values):
        return None
    return np.asarray(rows.values if order is None else rows.values[order], dtype=np.float64)


def _runs(index: Array) -> list[tuple[slice, slice]]:
    """Return where rows that stand together are in ``index``, and in the store."""
    starts = np.flatnonzero(np.diff(index, prepend=-2) != 1)
    return [
        (slice(a, b), slice(int(index[a]), int(index[b - 1]) + 1))
        for a, b in pairwise([*starts.tolist(), len(index)])
    ]


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
    whole: bool = True,
    n_jobs: int | None = None,
) -> Gram:
    """Return the Gram store of ``rows``: in memory if it fits, else rows on demand (said so).

    Without ``whole`` rows are on demand in any case: whoever asks wants the squares of some rows,
    or, where a value costs more than little, only a part of them.
    """
    n = len(rows)
    dtype = precision(n, dtype)
    budget = memory_budget(max_memory)
    if not whole:
        cheap = n <= FEW_ROWS and rows.values.shape[1] < FEW_FEATURES
        store = SquareGram if cheap else RowGram
        return store(kernel, rows, dtype, budget / 2, order, origin)
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
        thread_map(band, cuts(len(self.values), BAND), self.n_jobs)
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


def features(X: Any, origin: Array | None = None) -> FeatureGram:
    """Return the store of a linear kernel that keeps the rows alone, in float64."""
    kernel = kernels.Linear()
    return FeatureGram(kernel, kernel.prepare(X, origin), np.float64, 0.0, None, origin)


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
    n, narrow = len(rows), kernel.narrowed(rows, matrix.dtype)
    places = cuts(n, TILE)
    parts = [narrow[cut] for cut in places]

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
