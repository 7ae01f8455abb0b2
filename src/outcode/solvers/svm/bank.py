"""All columns at once: many small problems in one compiled call, large ones one after the other.

Problem, variables and signs are those of :mod:`outcode.solvers.svm.loops`. A column has its own
rows; a :class:`layout.Layout` lists them column after column, and every array of a bank runs along
that list. A column of at most SMALL rows is solved on its square of the Gram matrix, gathered once
for all values of C and all folds, without Python between columns (:func:`solve_columns`); a larger
one by :func:`columns.solve`. Threads take chunks of columns that do not depend on how many threads
there are, so the answers do not either.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from outcode._checks import Array
from outcode.parallel import thread_map
from outcode.solvers.store import Store
from outcode.solvers.svm import columns
from outcode.solvers.svm.columns import Memory, Rule
from outcode.solvers.svm.interior import interior
from outcode.solvers.svm.layout import Layout
from outcode.solvers.svm.loops import HUGE, larger, lean, pairs, plain, smaller

#: A column of at most this many rows is solved without shrinking, in compiled code alone.
SMALL = 500
#: Columns of more rows than this, each a few of all, are solved from kernel values on demand.
ON_DEMAND = 2 * SMALL
#: How often the gradient of a small column is computed again at most.
ROUNDS = 20
#: Vectors of a small column are as long as a multiple of this.
LANES = 32
#: Kernel values gathered by a chunk of small columns: what a cache holds.
CHUNK = 2**17
#: The smallest objective that a gap is relative to.
LEAST = float(np.finfo(np.float64).tiny)
#: A linear kernel of at most so many features starts from an interior-point solution, where columns
#: have this many rows on average and C times the mean of K(x, x) is this large: coordinate steps
#: grow in number with that product, an interior point's do not.
MOST_FEATURES, LEAST_ROWS, HARD = 64, 150, 100.0
#: What is known of every column, in this order.
CERTIFICATE = ("bias", "norm2", "objective", "gap", "violation", "n_iter")


@lean
def gather(
    matrix: Any, index: Any, offset: Any, shift: float, first: int, last: int, squares: Any
) -> None:
    """Write the kernel values of columns first..last-1, plus shift, one square after the other.

    The rows of ``squares`` are those of the columns. Rows that stand side by side are read as one
    piece, and what lies below them is mirrored: a piece of a row of a large matrix is far from the
    next.
    """
    for t in range(first, last):
        a, m, q = offset[t], offset[t + 1] - offset[t], 0
        top = a - offset[first]
        squares[top : top + m, m:] = 0.0
        while q < m:
            stop, place = q + 1, index[a + q]
            while stop < m and index[a + stop] == index[a + stop - 1] + 1:
                stop += 1
            for p in range(stop):
                row, out = matrix[index[a + p]][place : place + stop - q], squares[top + p][q:stop]
                for r in range(stop - q):
                    out[r] = row[r] + shift
            for p in range(q):
                for r in range(q, stop):
                    squares[top + r, p] = squares[top + p, r]
            q = stop


@lean
def solve_columns(
    squares: Any,
    shared: bool,
    offset: Any,
    index: Any,
    y: Any,
    weight: Any,
    plan: Any,
    values: Any,
    free: bool,
    tol: float,
    max_iter: int,
    first: int,
    last: int,
    coef: Any,
    fitted: Any,
    n_iter: Any,
    work: Any,
) -> None:
    """Solve columns first..last-1, each for several values of C and several weights of the rows.

    Parameters
    ----------
    squares : kernel values of the rows of each column, one column after the other, or of one for
        all if ``shared``; as wide as LANES allow, zeros where there is no row
    index, y : place and target of the rows of all columns, column t at offset[t] to
        offset[t + 1] - 1
    weight : (weightings, places) of each row, 0 for one that is left out
    plan : (problems, 2) for each problem its weighting and the problem whose solution it starts
        from (-1: what ``coef`` holds)
    values : (problems,) C of each
    coef, fitted : (problems, rows of all columns) dual variables and K s, without a free bias
    n_iter : (problems, columns) steps
    work : memory for 9 vectors as long as a row of ``squares``
    """
    g, s, lo = work[0], work[1], work[2]
    hi, diagonal, t_y = work[3], work[4], work[5]
    up, down, gain = work[6], work[7], work[8]
    for t in range(first, last):
        a = offset[t]
        m = offset[t + 1] - a
        n = (m + LANES - 1) // LANES * LANES  # no rest that loops would do one by one
        square = squares[(a - offset[first]) * (not shared) :]
        for k in range(plan.shape[0]):
            masses = weight[plan[k, 0]]
            start = plan[k, 1]
            if start < 0:
                start = k
            balance = 0.0
            total = 0.0
            more = 1.0
            if start != k:  # as far along its own direction as the dual rises and C allows
                own = 0.0
                gained = 0.0
                for d in range(m):
                    own += coef[start, a + d] * fitted[start, a + d]
                    gained += coef[start, a + d] * y[a + d]
                if own > 0.0:
                    more = larger(1.0, smaller(values[k] / values[start], gained / own))
            for p in range(n):
                s[p] = 0.0
                lo[p] = 0.0
                hi[p] = 0.0
                t_y[p] = 0.0
                diagonal[p] = 1.0
            for q in range(m):
                t_y[q] = y[a + q]
                diagonal[q] = square[q, q]
                bound = values[k] * masses[index[a + q]] * y[a + q]
                lo[q] = smaller(bound, 0.0)
                hi[q] = larger(bound, 0.0)
                s[q] = smaller(larger(more * coef[start, a + q], lo[q]), hi[q])
                balance += s[q]
                total += abs(s[q])
            if free and abs(balance) > 1e-14 * total:  # scale the heavier side down
                ratio = (total - abs(balance)) / (total + abs(balance))
                for r in range(m):
                    if s[r] * balance > 0.0:
                        s[r] *= ratio
            count = 0
            for _ in range(ROUNDS):  # until a gradient computed again is small enough
                for i in range(n):
                    g[i] = -t_y[i]
                for j in range(m):
                    c = s[j]
                    if c != 0.0:
                        for h in range(n):
                            g[h] += c * square[j, h]
                limit = max_iter - count
                steps = pairs(
                    square, diagonal, g, s, lo, hi, n, 0.0, free, tol, limit, up, down, gain
                )
                count += steps
                if steps == 0:
                    break
            for u in range(m):
                coef[k, a + u] = s[u]
                fitted[k, a + u] = g[u] + t_y[u]
            n_iter[k, t] = count


@plain
def certify(
    offset: Any,
    index: Any,
    y: Any,
    weight: Any,
    weighting: Any,
    values: Any,
    shift: float,
    free: bool,
    first: int,
    last: int,
    coef: Any,
    fitted: Any,
    n_iter: Any,
    out: Any,
) -> None:
    """Write the certificate of columns first..last-1 in every problem, the last axis of ``out``.

    A free bias is the mean of y - f over rows between their bounds, or the middle of the allowed
    range if there is none; a row within rounding of a bound is at it. Arrays are those of
    :func:`solve_columns`.
    """
    for t in range(first, last):
        a, b = offset[t], offset[t + 1]
        for k in range(weighting.shape[0]):
            masses, C = weight[weighting[k]], values[k]
            up, down, rise, fall = -HUGE, -HUGE, -HUGE, -HUGE
            total, product, dual, between, count = 0.0, 0.0, 0.0, 0.0, 0
            for e in range(a, b):
                s, f = coef[k, e], fitted[k, e]
                g, box = f - y[e], C * masses[index[e]]
                lo, hi = min(y[e] * box, 0.0), max(y[e] * box, 0.0)
                total += s
                product += s * f
                dual += s * y[e]
                up = max(up, -g) if s < hi else up
                down = max(down, g) if s > lo else down
                over, under = s > lo + 1e-10 * box, s < hi - 1e-10 * box
                rise = max(rise, -g) if under else rise
                fall = max(fall, g) if over else fall
                if over and under:
                    between -= g
                    count += 1
            bias, own = shift * total, 0.0
            if free:
                ends = (rise - fall) / 2.0
                if rise <= -HUGE or fall <= -HUGE:
                    ends = -fall if rise <= -HUGE else rise
                bias = between / count if count > 0 else ends
                own = bias
            norm2, loss = max(0.0, product), 0.0
            for e in range(a, b):
                loss += masses[index[e]] * max(0.0, 1.0 - y[e] * (fitted[k, e] + own))
            primal = 0.5 * norm2 + C * loss
            gap = max(0.0, primal - dual + 0.5 * norm2) / max(primal, LEAST)
            violation = up + down if free else max(up, down)
            row = out[k, t]
            row[0], row[1], row[2] = bias, norm2, primal
            row[3], row[4], row[5] = gap, violation, n_iter[k, t]


@dataclass(frozen=True)
class Solutions:
    """What was found for every problem (a value of C, weights of the rows) and column.

    Attributes
    ----------
    coef : (n_problems, n_entries) dual variables
    fitted : (n_problems, n_entries) margins of the column's own rows
    certificate : (n_problems, n_columns, 6) see CERTIFICATE
    """

    layout: Layout
    coef: Array
    fitted: Array
    certificate: Array

    def margins(self, free: bool) -> Array:
        """Return the (n_problems, n_entries) margins, a free bias added."""
        if not free:
            return self.fitted
        return self.fitted + self.certificate[:, self.layout.columns, 0]

    def one(self, k: int) -> Solutions:
        """Return what was found for one problem."""
        some = slice(k, k + 1)
        return Solutions(self.layout, self.coef[some], self.fitted[some], self.certificate[some])


@dataclass(frozen=True)
class Problems:
    """The problems of every column.

    Attributes
    ----------
    C : (n_problems,)
    weighting : (n_problems,) which of the weightings of the rows
    start : (n_problems,) an earlier problem whose solution it starts from, -1 for none
    """

    C: Array
    weighting: Array
    start: Array

    @classmethod
    def path(cls, values: Sequence[float], weightings: int = 1) -> Problems:
        """Every value of C in turn, with every weighting.

        Each starts from the same weighting at the value before, the first ones from none.
        """
        start = np.arange(len(values) * weightings) - weightings
        which = np.tile(np.arange(weightings), len(values))
        return cls(np.repeat(np.asarray(values), weightings), which, np.maximum(start, -1))


def solve(
    gram: Store,
    layout: Layout,
    weight: Array,
    problems: Problems,
    rule: Rule,
    *,
    start: tuple[Array, Array | None] | None = None,
    n_jobs: int | None = None,
    advance: Callable[[], None] | None = None,
) -> Solutions:
    """Solve every problem of every column.

    Parameters
    ----------
    weight : (n_samples,) or (n_weightings, n_samples) by the user's rows; the box of row i is C
        times its weight
    start : dual variables and margins without free bias of the entries, where problems start that
        start from no other, (n_entries,) or a row for each of them; None for the margins of
        another Gram matrix
    advance : called once for every column
    """
    bank = _Bank(gram, layout, weight, problems, rule, start)

    def work(columns_: range) -> None:
        bank.solve(columns_)
        if advance is not None:
            for _ in columns_:
                advance()

    thread_map(work, _chunks(np.diff(layout.offset), len(problems.C)), n_jobs)
    return Solutions(layout, bank.coef, bank.fitted, bank.certificate)


def _chunks(sizes: Array, n_problems: int) -> list[range]:
    """Cut the columns into chunks of about the same work: large ones alone, small ones together."""
    alone = sizes > SMALL
    group = np.cumsum(np.where(alone, 0, sizes**2) * n_problems) // CHUNK
    new = (np.diff(group) > 0) | alone[1:] | alone[:-1]
    return [range(a, b) for a, b in pairwise([0, *(np.flatnonzero(new) + 1).tolist(), len(sizes)])]


class _Bank:
    """The arrays of a bank while it is solved."""

    def __init__(
        self,
        gram: Store,
        layout: Layout,
        weight: Array,
        problems: Problems,
        rule: Rule,
        start: tuple[Array, Array | None] | None,
    ) -> None:
        self.gram, self.layout, self.problems, self.rule = gram, layout, problems, rule
        self.weight = np.ascontiguousarray(np.atleast_2d(weight)[:, layout.order])
        shape = len(problems.C), len(layout.index)
        self.coef, self.fitted = np.zeros(shape), np.empty(shape)
        self.n_iter = np.zeros((shape[0], layout.shape[1]), dtype=np.int64)
        self.certificate = np.empty((*self.n_iter.shape, len(CERTIFICATE)))
        self.start, self.memory = start, Memory()
        if start is not None:
            self.coef[problems.start < 0] = start[0]
        self.features, self.own = self._interior()
        self.before = np.where(self.own, -1, problems.start)

    def _interior(self) -> tuple[Array | None, Array]:
        """Return features whose products are the kernel values, and which problems start there."""
        none, few = np.zeros(len(self.problems.C), dtype=bool), self.layout.offset[-1]
        Z = self.gram.features if few >= LEAST_ROWS * self.layout.shape[1] else None
        if Z is None or Z.shape[1] > MOST_FEATURES:
            return None, none
        shift = columns.BIASES[self.rule.bias][0]
        Z = np.column_stack([Z, np.full(len(Z), np.sqrt(shift))])
        return Z, self.problems.C * np.mean(self.gram.diagonal + shift) >= HARD

    def solve(self, chunk: range) -> None:
        """Solve and certify the columns of a chunk."""
        self._solve(chunk)
        layout, problems = self.layout, self.problems
        certify(
            layout.offset,
            layout.index,
            layout.y,
            self.weight,
            problems.weighting,
            problems.C,
            *columns.BIASES[self.rule.bias],
            chunk.start,
            chunk.stop,
            self.coef,
            self.fitted,
            self.n_iter,
            self.certificate,
        )

    def _solve(self, chunk: range) -> None:
        for t in chunk if self.features is not None else ():
            self._begin_inside(t)
        sizes = np.diff(self.layout.offset[chunk.start : chunk.stop + 1])
        if sizes.max() > SMALL:
            self._large(chunk.start)
            return
        self._small(chunk, int(sizes.max()), int(sizes[0] if self.layout.whole() else sizes.sum()))
        if self.rule.tol < columns.POLISH_TOL:
            for t in chunk:
                self._polish(t)

    def _begin_inside(self, t: int) -> None:
        """Put interior-point solutions of a column where its problems start."""
        entries = slice(self.layout.offset[t], self.layout.offset[t + 1])
        if self.features is None:
            return
        Z, y = self.features[self.layout.index[entries]], self.layout.y[entries].astype(np.float64)
        free = columns.BIASES[self.rule.bias][1]
        for k in np.flatnonzero(self.own):
            self.coef[k, entries] = interior(Z, y, self.box(k, entries), free)

    def _small(self, chunk: range, most: int, height: int) -> None:
        layout, rule, problems = self.layout, self.rule, self.problems
        shift, free = columns.BIASES[rule.bias]
        width = -(-most // LANES) * LANES
        squares = self.memory.vector("squares", height * width, np.float64).reshape(height, width)
        matrix, index = self._kernel_values(chunk, height)
        last = chunk.start + 1 if layout.whole() else chunk.stop
        gather(matrix, index, layout.offset, shift, chunk.start, last, squares)
        solve_columns(
            squares,
            layout.whole(),
            layout.offset,
            layout.index,
            layout.y,
            self.weight,
            np.stack([problems.weighting, self.before], axis=1),
            problems.C,
            free,
            0.999 * rule.tol,  # rounding must not lift the violation above tol
            rule.max_iter,
            chunk.start,
            chunk.stop,
            self.coef,
            self.fitted,
            self.n_iter,
            self.memory.vector("vectors", 9 * width, np.float64).reshape(9, width),
        )

    def _kernel_values(self, chunk: range, height: int) -> tuple[Array, Array]:
        """Return a kernel matrix and the places in it of the rows of a chunk's columns."""
        index = self.layout.index
        if self.gram.matrix is not None:
            return self.gram.matrix, index
        entries = slice(self.layout.offset[chunk.start], self.layout.offset[chunk.start] + height)
        rows, places = np.unique(index[entries], return_inverse=True)
        index = index.copy()
        index[entries] = places
        return self.gram.block(rows), index

    def _polish(self, t: int) -> None:
        """Follow a tight tol by one exact solve for the rows between their bounds."""
        entries = slice(self.layout.offset[t], self.layout.offset[t + 1])
        square, y = self.gram.square(self.layout.index[entries]), self.layout.y[entries]
        for k in range(len(self.problems.C)):
            start = self.coef[k, entries], self.fitted[k, entries]
            box = self.box(k, entries)
            self._write(k, entries, columns.polish(square, y, box, self.rule, start), slice(None))

    def _large(self, t: int) -> None:
        """Solve a column on its square of the Gram matrix, or on all of it if that is as well."""
        entries = slice(self.layout.offset[t], self.layout.offset[t + 1])
        index, n = self.layout.index[entries], len(self.gram)
        few = self.gram.matrix is None or columns.shrinks(index, self.gram)
        place: Any = slice(None)
        if few:
            store = self.gram.square(index, self._column_memory(len(index)))
        elif len(index) < n:
            store, place = self.gram, index
        else:
            store = self.gram
        y, box = np.zeros(len(store)), np.zeros(len(store))
        y[place] = self.layout.y[entries]
        for k in range(len(self.problems.C)):
            box[place] = self.box(k, entries)
            solution = columns.solve(
                store, y, box, self.rule, self._start(k, entries, place, len(store)), self.memory
            )
            self._write(k, entries, solution, place)
            self.n_iter[k, t] = solution.n_iter

    def _column_memory(self, n: int) -> Array:
        """Return memory for kernel values of n rows: all of them, or what may be kept."""
        most = n * n if self.gram.matrix is not None else self.gram.largest_square**2 // 2
        return self.memory.vector("column", min(n * n, most), self.gram.dtype)

    def box(self, k: Any, entries: slice) -> Array:
        """Return the upper bounds of alpha in a problem, or in some."""
        weight = self.weight[self.problems.weighting[k]][..., self.layout.index[entries]]
        return np.asarray((self.problems.C[k] * weight.T).T)

    def _start(self, k: int, entries: slice, place: Any, n: int) -> Any:
        """Return the dual variables and margins that a problem starts from, None for zeros."""
        before = self.before[k]
        fitted: Any = None
        if self.own[k]:
            coef = self.coef[k]
        elif before >= 0:
            coef, fitted = self.coef[before], self.fitted[before]
        elif self.start is not None:
            coef, fitted = (a if a is None or a.ndim == 1 else a[k] for a in self.start)
        else:
            return None
        s = np.zeros(n)
        s[place] = coef[entries]
        known = fitted is not None and isinstance(place, slice)
        return s, fitted[entries] if known else None

    def _write(self, k: int, entries: slice, solution: columns.Solution, place: Any) -> None:
        self.coef[k, entries] = solution.dual_coef[place]
        self.fitted[k, entries] = solution.fitted[place]
