"""All columns at once: many small problems in one compiled call, large ones one after the other.

Problem, variables and signs are those of :mod:`outcode.solvers.svm.loops`. A column has its own
rows; a :class:`layout.Layout` lists them column after column, and every array of a bank runs along
that list. A column of at most SMALL rows is solved on its square of the Gram matrix, gathered once
for all values of C and all folds, without Python between columns (:func:`solve_columns`); a larger
one by :func:`columns.solve`. Threads take chunks of columns that do not depend on how many threads
there are, so the answers do not either.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from outcode._checks import Array
from outcode.parallel import thread_map
from outcode.solvers.store import Store
from outcode.solvers.svm import columns
from outcode.solvers.svm.columns import Memory, Rule
from outcode.solvers.svm.layout import Layout
from outcode.solvers.svm.loops import HUGE, between, compiled, compiled_fast, pairs

#: A column of at most this many rows is solved without shrinking, in compiled code alone.
SMALL = 500
#: Kernel values gathered by a chunk of small columns: some milliseconds of work.
CHUNK = 2**20
#: What is known of every column, in this order.
CERTIFICATE = ("bias", "norm2", "objective", "gap", "violation", "n_iter")


@compiled
def begin(square: Any, y: Any, s: Any, lo: Any, hi: Any, free: bool, g: Any) -> None:
    """Bring s into its box (free bias: and its sum to 0), and set g = K s - y."""
    plus, minus = 0.0, 0.0
    for p in range(s.shape[0]):
        s[p] = between(s[p], lo[p], hi[p])
        if s[p] > 0.0:
            plus += s[p]
        else:
            minus -= s[p]
    if free and abs(plus - minus) > 1e-14 * (plus + minus):  # scale the heavier side down
        total = plus if plus < minus else minus
        a, b = total / plus if plus > 0.0 else 0.0, total / minus if minus > 0.0 else 0.0
        for p in range(s.shape[0]):
            s[p] *= a if s[p] > 0.0 else b
    gradient(square, y, s, g)


@compiled_fast
def gradient(square: Any, y: Any, s: Any, g: Any) -> None:
    """g = K s - y."""
    for q in range(s.shape[0]):
        g[q] = -y[q]
    for p in range(s.shape[0]):
        if s[p] != 0.0:
            row, c = square[p], s[p]
            for q in range(s.shape[0]):
                g[q] += c * row[q]


@compiled
def certify(
    g: Any, y: Any, s: Any, lo: Any, hi: Any, shift: float, free: bool, n_iter: int, out: Any
) -> float:
    """Write bias, squared norm, primal objective, relative gap, violation and steps to ``out``.

    A free bias is the mean of y - f over rows between their bounds, or the middle of the allowed
    range if there is none; a row within rounding of a bound is at it. Returns the violation.
    """
    v_up, v_down, norm2, linear, total, mean, count = -HUGE, -HUGE, 0.0, 0.0, 0.0, 0.0, 0
    for p in range(s.shape[0]):
        v_up = -g[p] if s[p] < hi[p] and -g[p] > v_up else v_up
        v_down = g[p] if s[p] > lo[p] and g[p] > v_down else v_down
        norm2, linear, total = norm2 + s[p] * (g[p] + y[p]), linear + s[p] * y[p], total + s[p]
        rounding = 1e-10 * (hi[p] - lo[p])
        if lo[p] + rounding < s[p] < hi[p] - rounding:
            mean, count = mean - g[p], count + 1
    bias = shift * total
    if free and count > 0:
        bias = mean / count
    elif free:  # the range has one end only when rows of one sign are left
        bias = (v_up - v_down) / 2 if v_up > -HUGE and v_down > -HUGE else max(v_up, -v_down)
        bias = -v_down if v_up <= -HUGE else v_up if v_down <= -HUGE else bias
    norm2 = norm2 if norm2 > 0.0 else 0.0
    loss, moved = 0.0, bias if free else 0.0
    for p in range(s.shape[0]):
        slack = 1.0 - y[p] * (g[p] + y[p] + moved)
        loss += (hi[p] - lo[p]) * slack if slack > 0.0 else 0.0
    primal, dual = 0.5 * norm2 + loss, linear - 0.5 * norm2
    gap = (primal - dual) / primal if primal > dual and primal > 0.0 else 0.0
    worst = v_up if v_up > v_down else v_down
    violation = v_up + v_down if free else worst
    out[0], out[1], out[2], out[3], out[4], out[5] = bias, norm2, primal, gap, violation, n_iter
    return violation


@compiled
def gather_shifted(matrix: Any, index: Any, shift: float, out: Any) -> None:
    """out = matrix[index][:, index] + shift in float64."""
    m = index.shape[0]
    for p in range(m):
        row, target = matrix[index[p]], out[p]
        for q in range(m):
            target[q] = row[index[q]] + shift


@compiled
def solve_columns(
    matrix: Any,
    index: Any,
    offset: Any,
    y: Any,
    box: Any,
    fold: Any,
    plan: Any,
    values: Any,
    shift: float,
    free: bool,
    tol: float,
    max_iter: int,
    first: int,
    last: int,
    coef: Any,
    fitted: Any,
    out: Any,
    flat: Any,
    work: Any,
) -> None:
    """Solve columns first..last-1, each for several values of C and with several folds left out.

    Parameters
    ----------
    matrix : (n, n) kernel values
    index, y, box, fold : rows of all columns one after the other, column t at offset[t] to
        offset[t + 1] - 1: places in ``matrix``, targets, weights and folds
    plan : (problems, 2) for each problem the fold left out (-1: none) and the problem whose
        solution it starts from (-1: what ``coef`` holds)
    values : (problems,) C of each
    coef, fitted : (problems, rows of all columns) dual variables and K s, without a free bias
    out : (problems, columns, 6) see CERTIFICATE
    flat, work : memory for a square and for 8 vectors of the longest column
    """
    for t in range(first, last):
        a, b = offset[t], offset[t + 1]
        m = b - a
        square = flat[: m * m].reshape((m, m))
        g, s, lo, hi, diagonal = (work[0][:m], work[1][:m], work[2][:m], work[3][:m], work[4][:m])
        rows, y_ = index[a:b], y[a:b]
        same = t > first and m == a - offset[t - 1]
        for p in range(m):
            same = same and rows[p] == index[a - m + p]
            if not same:
                break
        if not same:  # columns that use the same rows share their square
            gather_shifted(matrix, rows, shift, square)
        for k in range(plan.shape[0]):
            left, start = plan[k, 0], k if plan[k, 1] < 0 else plan[k, 1]
            for p in range(m):
                c = 0.0 if left >= 0 and fold[a + p] == left else values[k] * box[a + p] * y_[p]
                lo[p], hi[p] = (c, 0.0) if c < 0.0 else (0.0, c)
                s[p], diagonal[p] = coef[start, a + p], square[p, p]
            begin(square, y_, s, lo, hi, free, g)
            n_iter, enough = 0, tol
            while True:
                steps = pairs(
                    square, diagonal, g, s, lo, hi, 0.0, free, enough, max_iter - n_iter, work[5:]
                )
                n_iter, enough = n_iter + steps, tol / 2
                gradient(square, y_, s, g)  # anew, without what rounding added up
                violation = certify(g, y_, s, lo, hi, shift, free, n_iter, out[k, t])
                if violation <= tol or steps == 0 or n_iter >= max_iter:
                    break
            for p in range(m):
                coef[k, a + p], fitted[k, a + p] = s[p], g[p] + y_[p]


@dataclass(frozen=True)
class Solutions:
    """What was found for every problem (a value of C, a fold left out) and column.

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


@dataclass(frozen=True)
class Problems:
    """The problems of every column.

    Attributes
    ----------
    C : (n_problems,)
    left_out : (n_problems,) the fold left out, -1 for none
    start : (n_problems,) an earlier problem whose solution it starts from, -1 for none
    """

    C: Array
    left_out: Array
    start: Array

    @classmethod
    def one(cls, C: float) -> Problems:
        """One value of C, all rows."""
        return cls(np.array([C]), np.array([-1]), np.array([-1]))

    @classmethod
    def folds(cls, C: float, folds: Array) -> Problems:
        """One value of C, each fold left out in turn."""
        return cls(np.full(len(folds), C), np.asarray(folds), np.full(len(folds), -1))

    @classmethod
    def path(cls, values: Array, folds: Array) -> Problems:
        """Every value of C in turn: on all rows, then with each fold left out.

        A value of C starts from the one before it, a fold from all rows at its value of C.
        """
        width = 1 + len(folds)
        place = np.arange(len(values) * width).reshape(len(values), width)
        start = np.repeat(place[:, :1], width, axis=1)
        start[:, 0] = place[:, 0] - width
        left_out = np.tile(np.concatenate([[-1], folds]), len(values))
        return cls(np.repeat(values, width), left_out, np.maximum(start.ravel(), -1))


def solve(
    gram: Store,
    layout: Layout,
    weight: Array,
    problems: Problems,
    rule: Rule,
    *,
    fold: Array | None = None,
    start: tuple[Array, Array | None] | None = None,
    n_jobs: int | None = None,
    advance: Callable[[], None] = lambda: None,
) -> Solutions:
    """Solve every problem of every column.

    Parameters
    ----------
    weight, fold : (n_samples,) by the user's rows; the box of row i is C times its weight
    start : dual variables and margins without free bias of the entries, where problems start that
        start from no other; None for the margins of another Gram matrix
    advance : called once for every column
    """
    bank = _Bank(gram, layout, weight, problems, rule, fold, start)

    def work(columns_: range) -> None:
        bank.solve(columns_)
        for _ in columns_:
            advance()

    thread_map(work, _chunks(np.diff(layout.offset), len(problems.C)), n_jobs)
    return Solutions(layout, bank.coef, bank.fitted, bank.certificate)


def _chunks(sizes: Array, n_problems: int) -> list[range]:
    """Cut the columns into chunks of about the same work: large ones alone, small ones together."""
    chunks, first, work = [], 0, 0
    for t, size in enumerate(sizes.tolist()):
        alone = size > SMALL
        if t > first and (alone or work > CHUNK):
            chunks.append(range(first, t))
            first, work = t, 0
        work += CHUNK + 1 if alone else size * size * n_problems
    return [*chunks, range(first, len(sizes))] if len(sizes) else []


class _Bank:
    """The arrays of a bank while it is solved."""

    def __init__(
        self,
        gram: Store,
        layout: Layout,
        weight: Array,
        problems: Problems,
        rule: Rule,
        fold: Array | None,
        start: tuple[Array, Array | None] | None,
    ) -> None:
        self.gram, self.layout, self.problems, self.rule = gram, layout, problems, rule
        self.weight = weight[layout.rows]
        self.fold = np.full(len(layout.rows), -1) if fold is None else fold[layout.rows]
        shape = len(problems.C), len(layout.index)
        self.coef, self.fitted = np.zeros(shape), np.empty(shape)
        self.certificate = np.empty((shape[0], layout.shape[1], len(CERTIFICATE)))
        self.start, self.memory = start, Memory()
        if start is not None:
            self.coef[problems.start < 0] = start[0]

    def solve(self, chunk: range) -> None:
        """Solve the columns of a chunk."""
        offset = self.layout.offset
        if offset[chunk.stop] - offset[chunk.start] > SMALL * len(chunk):
            self._large(chunk.start)
        elif self.gram.matrix is not None:
            self._small(self.gram.matrix, self.layout.index, chunk)
        else:  # the kernel values of each column are computed for it
            for t in chunk:
                index = self.layout.index.copy()
                entries = slice(offset[t], offset[t + 1])
                square = self.gram.block(index[entries])
                index[entries] = np.arange(len(square))
                self._small(square, index, range(t, t + 1))

    def _small(self, matrix: Array, index: Array, chunk: range) -> None:
        offset, rule, problems = self.layout.offset, self.rule, self.problems
        most = int(np.diff(offset[chunk.start : chunk.stop + 1]).max())
        solve_columns(
            matrix,
            index,
            offset,
            self.layout.y,
            self.weight,
            self.fold,
            np.stack([problems.left_out, problems.start], axis=1),
            problems.C,
            *columns.BIASES[rule.bias],
            rule.tol,
            rule.max_iter,
            chunk.start,
            chunk.stop,
            self.coef,
            self.fitted,
            self.certificate,
            self.memory.vector("square", most * most, np.float64),
            self.memory.vector("vectors", 8 * most, np.float64).reshape(8, most),
        )
        if rule.tol < columns.POLISH_TOL:
            for t in chunk:
                self._polish(t)

    def _polish(self, t: int) -> None:
        """Follow a tight tol by one exact solve for the rows between their bounds."""
        entries = slice(self.layout.offset[t], self.layout.offset[t + 1])
        square, y = self.gram.square(self.layout.index[entries]), self.layout.y[entries]
        for k in range(len(self.problems.C)):
            if self.certificate[k, t, 4] <= self.rule.tol:
                start = self.coef[k, entries], self.fitted[k, entries]
                solution = columns.polish(
                    square, y, self._box(k, entries), self.rule.bias, start, self.certificate[k, t]
                )
                self._write(k, t, entries, solution, slice(None))

    def _large(self, t: int) -> None:
        """Solve a column on its square of the Gram matrix, or on all of it if that is as well."""
        entries = slice(self.layout.offset[t], self.layout.offset[t + 1])
        index, n = self.layout.index[entries], len(self.gram)
        few, place = columns.shrinks(index, self.gram), slice(None)
        if few:
            size, dtype = len(index) ** 2, self.gram.dtype
            store = self.gram.square(index, self.memory.vector("column", size, dtype))
        elif len(index) < n:
            store, place = self.gram, index
        else:
            store = self.gram
        y, box = np.zeros(len(store)), np.zeros(len(store))
        y[place] = self.layout.y[entries]
        for k in range(len(self.problems.C)):
            box[place] = self._box(k, entries)
            solution = columns.solve(
                store, y, box, self.rule, self._start(k, entries, place, len(store)), self.memory
            )
            self._write(k, t, entries, solution, place)

    def _box(self, k: int, entries: slice) -> Array:
        left = self.problems.left_out[k]
        kept = (self.fold[entries] != left) | (left < 0)
        return np.where(kept, self.problems.C[k] * self.weight[entries], 0.0)

    def _start(self, k: int, entries: slice, place: Any, n: int) -> Any:
        """Return the dual variables and margins that a problem starts from, None for zeros."""
        before = self.problems.start[k]
        if before >= 0:
            coef, fitted = self.coef[before], self.fitted[before]
        elif self.start is not None:
            coef, fitted = self.start
        else:
            return None
        s = np.zeros(n)
        s[place] = coef[entries]
        known = fitted is not None and isinstance(place, slice)
        return s, fitted[entries] if known else None

    def _write(
        self, k: int, t: int, entries: slice, solution: columns.Solution, place: Any
    ) -> None:
        self.coef[k, entries] = solution.dual_coef[place]
        self.fitted[k, entries] = solution.fitted[place]
        self.certificate[k, t] = solution.certificate
