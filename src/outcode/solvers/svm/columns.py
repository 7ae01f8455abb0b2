"""The dual problem of one column, solved on a Gram store and certified.

Problem, variables and signs are those of :mod:`outcode.solvers.svm.loops`. Three levels of work:

- *rows*: the whole problem, two rows of the Gram per step (:func:`loops.descend_blocks`, with
  a free bias :func:`loops.descend_pairs`); left out when the Gram is not in memory, where the
  squares of the rows that violate most are computed one after the other;
- *shrinking*: rows that sit at a bound and want to stay there are left out; once the rest is at
  most a third, its square of the Gram is gathered, small enough for the cache, and solved there
  (a column of a ternary code that uses few rows starts from their square);
- *certificate*: after each of these the gradient of all rows is brought up to date in float64
  from the rows that changed, and the violation measured on it decides whether to stop.

A step costs O(n), so a column costs O(n x steps); steps grow with the number of support vectors.
The answer is right when the duality gap says so: it is computed from the float64 gradient alone.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.linalg import cho_factor, cho_solve

from outcode._checks import Array, warn
from outcode.solvers.store import Store
from outcode.solvers.svm import loops

#: shift of the kernel and presence of the constraint sum s = 0, for each way to have a bias
BIASES = {"kernel": (1.0, False), "free": (0.0, True), "none": (0.0, False)}

#: Steps on the whole problem before looking again whether it can be shrunk.
BURST = 500
#: A problem is shrunk once at most this share of its rows is left.
SHRINK = 1 / 3
#: Where kernel values are computed on demand, this many rows are worked on at once, or this share.
WORKING, WORKING_SHARE = 500, 1 / 8
#: Fewer rows than this are never shrunk.
SMALL = 600
#: A tighter tol than this is followed by one exact solve for the rows between their bounds.
POLISH_TOL = 1e-5
#: What is left of the violations, and steps at most, when a row is left out to bound what it costs.
REMOVAL_TOL, REMOVAL_STEPS = 1e-3, 300
#: Rows beside the support vectors that may become one then: as many again, or these.
NEIGHBOURS = 500


@dataclass(frozen=True)
class Rule:
    """How a problem is solved: the bias, the largest violation allowed, steps at most."""

    bias: str
    tol: float
    max_iter: int


@dataclass(frozen=True)
class Solution:
    """What was found for one column: dual variables, margins without a free bias, steps."""

    dual_coef: Array
    fitted: Array
    n_iter: int


class Memory:
    """Working memory of each thread, used again: touching new memory costs more than the work."""

    def __init__(self) -> None:
        self._local = threading.local()

    def vector(self, name: str, size: int, dtype: Any) -> Array:
        """Return a vector with whatever was in it."""
        kept: dict[str, Array] = self._local.__dict__
        if name not in kept or kept[name].size < size or kept[name].dtype != dtype:
            kept.pop(name, None)
            kept[name] = np.empty(size, dtype=dtype)
        return kept[name][:size]


@dataclass
class _Problem:
    """The arrays of one problem: y and the box on all rows, s and the gradient g as they stand."""

    y: Array
    lo: Array
    hi: Array
    s: Array
    g: Array
    shift: float
    free: bool

    def violation(self) -> float:
        """The largest violation (with a free bias: of the largest up and the largest down)."""
        up, down = loops.violations(self.g, self.s, self.lo, self.hi)
        return float(up.max() + down.max() if self.free else max(up.max(), down.max()))

    def active(self) -> Array:
        """Rows that are not at a bound, or would leave it."""
        up, down = loops.violations(self.g, self.s, self.lo, self.hi)
        wants = (up > -down.max()) | (down > -up.max()) if self.free else (up > 0) | (down > 0)
        between = (self.s > self.lo) & (self.s < self.hi)
        return np.flatnonzero(wants | between)

    def part(self, index: Any, dtype: Any) -> _Problem:
        """Return a copy of some rows to work on, the gradient in the type of the kernel values."""
        y, lo, hi, s = (a[index] for a in (self.y, self.lo, self.hi, self.s.copy()))
        return _Problem(y, lo, hi, s, self.g[index].astype(dtype), self.shift, self.free)


def solve(
    gram: Store,
    y: Array,
    box: Array,
    rule: Rule,
    start: tuple[Array, Array | None] | None,
    memory: Memory,
) -> Solution:
    """Solve one column.

    Parameters
    ----------
    gram : the Gram store, n rows
    y : (n,) float64, +1 or -1 (anything where ``box`` is 0)
    box : (n,) the upper bound C_i of alpha_i; 0 for a row this column does not use
    start : (dual_coef, margins without free bias) of a similar problem to start from; None for the
        margins of another Gram matrix
    """
    tol, max_iter = rule.tol, rule.max_iter
    problem = _begin(gram, y, box, *BIASES[rule.bias], start)
    n_iter, violation, whole, squares = 0, problem.violation(), True, 0
    while violation > tol and n_iter < max_iter:
        if gram.matrix is None:  # kernel values are computed when asked for
            most = max(WORKING, int(len(gram) * WORKING_SHARE))
            rows = _working(problem, min(most, gram.largest_square))
            steps, whole = _descend_square(gram, problem, rows, tol / 2, max_iter, memory), True
        elif whole:  # all rows; between two gathered squares always, to see what was left out
            burst = BURST * 4**squares  # what a square left over is mostly little
            steps = _descend_whole(gram, problem, tol / 2, max_iter - n_iter, burst)
        else:
            active = problem.active()
            steps = _descend_square(gram, problem, active, tol / 2, max_iter - n_iter, memory)
            squares += 1
        n_iter += steps
        violation = problem.violation()
        if whole and steps == 0:  # the kernel values are too coarse to do better
            break
        whole = not whole or gram.matrix is None or not shrinks(problem.active(), gram)
    if tol < POLISH_TOL:
        _polish(gram, problem, tol)
    return Solution(problem.s, problem.g + y, n_iter)


def polish(gram: Store, y: Array, box: Array, rule: Rule, start: tuple[Array, Array]) -> Solution:
    """Follow a solution by one exact solve for the rows between their bounds."""
    lo, hi = np.minimum(0.0, y * box), np.maximum(0.0, y * box)
    problem = _Problem(y, lo, hi, start[0].copy(), start[1] - y, *BIASES[rule.bias])
    _polish(gram, problem, rule.tol)
    return Solution(problem.s, problem.g + y, 0)


def _begin(
    gram: Store,
    y: Array,
    box: Array,
    shift: float,
    free: bool,
    start: tuple[Array, Array | None] | None,
) -> _Problem:
    lo, hi = np.minimum(0.0, y * box), np.maximum(0.0, y * box)
    problem = _Problem(y, lo, hi, np.zeros(len(y)), -y, shift, free)
    if start is None:
        return problem
    before, margins = start
    s = np.clip(before, lo, hi)
    if free:
        s = _balanced(s)
    if margins is not None:
        problem.s, problem.g = before.copy(), margins - y
    _apply(gram, problem, np.arange(len(y)), s)
    return problem


def _balanced(s: Array) -> Array:
    """Scale the heavier side down until sum s = 0."""
    plus, minus = s[s > 0].sum(), -s[s < 0].sum()
    if abs(plus - minus) <= 1e-14 * (plus + minus):
        return s
    if plus == 0 or minus == 0:
        return np.zeros_like(s)
    return np.where(s > 0, s * min(1.0, minus / plus), s * min(1.0, plus / minus))


def shrinks(active: Array, gram: Store) -> bool:
    """Return whether the active rows are few enough to copy their square of the Gram."""
    return len(gram) > SMALL and len(active) <= min(SHRINK * len(gram), gram.largest_square)


def _working(problem: _Problem, most: int) -> Array:
    """Return at most some of the active rows: those that violate most, and those between bounds.

    Half of the places go to the largest violations, equal ones in an order that has no pattern.
    """
    active = problem.active()
    if len(active) <= most:
        return active
    up, down = (v[active] for v in loops.violations(problem.g, problem.s, problem.lo, problem.hi))
    middle = (up.max() - down.max()) / 2 if problem.free else 0.0
    mixed = np.random.RandomState(0).permutation(len(active))
    ranked = mixed[np.argsort(-np.maximum(up - middle, down + middle)[mixed], kind="stable")]
    inside = ((problem.s > problem.lo) & (problem.s < problem.hi))[active[ranked]]
    first = np.arange(len(ranked)) < most // 2
    chosen = ranked[np.argsort(~(first | inside), kind="stable")][:most]
    return np.sort(active[chosen])


def _descend_whole(gram: Store, problem: _Problem, tol: float, max_iter: int, burst: int) -> int:
    """Work on all rows until done, or until few enough are left to gather them."""
    n, steps = len(gram), 0
    part = problem.part(slice(None), gram.dtype)
    diagonal = (gram.diagonal + problem.shift).astype(gram.dtype)
    while steps < max_iter:
        most = min(burst if n > SMALL else max_iter, max_iter - steps)
        done = _descend(gram.matrix, diagonal, part, tol, most)
        steps += done
        if done < most or shrinks(part.active(), gram):
            break
    _apply(gram, problem, np.arange(n), part.s)
    return steps


def _descend_square(
    gram: Store, problem: _Problem, index: Array, tol: float, max_iter: int, memory: Memory
) -> int:
    """Work on some rows alone, on their square of the Gram."""
    square = gram.block(index, memory.vector("active", len(index) ** 2, gram.dtype))
    part = problem.part(index, gram.dtype)
    diagonal = (gram.diagonal[index] + problem.shift).astype(gram.dtype)
    steps = _descend(square, diagonal, part, tol, max_iter)
    _apply(gram, problem, index, part.s)
    return steps


def _apply(gram: Store, problem: _Problem, index: Array, s: Array) -> None:
    """Set s[index] and bring the gradient of all rows up to date."""
    change = s - problem.s[index]
    moved = np.flatnonzero(change)
    gram.add(index[moved], change[moved], problem.g)
    problem.g += problem.shift * change.sum()
    problem.s[index] = s


def _polish(gram: Store, problem: _Problem, tol: float) -> None:
    """One Newton step on the rows between their bounds, kept if it lessens the violation.

    With the bounded rows held, the optimum solves (K + shift) d = -g on the others (with a free
    bias: up to a constant, and sum d = 0).
    """
    index = np.flatnonzero((problem.s > problem.lo) & (problem.s < problem.hi))
    violation = problem.violation()
    if violation > tol or not 0 < len(index) <= SMALL:
        return
    block = gram.block(index).astype(np.float64) + problem.shift
    block.flat[:: len(index) + 1] *= 1 + 1e-14
    try:
        sides = np.column_stack([-problem.g[index], np.ones(len(index))])
        step, ones = cho_solve(cho_factor(block), sides).T
    except np.linalg.LinAlgError:  # repeated rows, or a kernel that is not positive definite
        return
    if problem.free:
        step = step - ones * (step.sum() / ones.sum())
    s, g = problem.s.copy(), problem.g.copy()
    _apply(gram, problem, index, np.clip(s[index] + step, problem.lo[index], problem.hi[index]))
    better = problem.violation()
    if not better < violation or (problem.free and abs(problem.s.sum()) > 1e-12 * np.abs(s).sum()):
        problem.s, problem.g = s, g


def _descend(matrix: Array, diagonal: Array, part: _Problem, tol: float, max_iter: int) -> int:
    arrays = diagonal, part.g, part.s, part.lo, part.hi
    if part.free:
        return int(loops.descend_pairs(matrix, *arrays, tol, max_iter))
    return int(loops.descend_blocks(matrix, *arrays, part.shift, tol, max_iter))


def removals(
    gram: Store, y: Array, box: Array, s: Array, margins: Array, rows: Array, bias: str
) -> Array:
    """Bound and estimate how far the margin of each of some rows falls when it is left out.

    Problem    y_i (f - f^i)(x_i), f^i the machine trained without row i, for a bias in the kernel
               or none, from the solution (s, margins) on all rows
    Bound      Let D be the dual objective, s^i its optimum with s_i = 0, t any point of the box
               with t_i = 0, d = t - s, and g = f - y. Box constraints act row by row, so the
               optimum s has g_j (t_j - s_j) >= 0 for every j and every t, and D is quadratic:
                   |w^i - w|^2 / 2  <=  D(s) - D(s^i) + g_i s_i
                   |w^i - w(t)|^2 / 2  <=  D(s^i) - D(t)
               Their sum holds w^i in a ball around (w + w(t)) / 2 of squared radius
                   d'Gd / 4 + sum_{j != i} g_j d_j,
               and f^i(x_i) within sqrt(G_ii) times the radius of f_i + (Gd)_i / 2.
    Cases      t = s but for t_i = 0 gives alpha_i G_ii, [PPF04] Lemma 1.1. A better t, other rows
               taking over the work of row i, gives a smaller ball; if t = s^i moves only rows
               between their bounds, d'Gd is alpha_i^2 times the squared span of [VC00].
    Estimate   the fall at t itself: exact if t = s^i
    Algorithm  some steps of the solver on the support vectors and about as many rows that may
               become one, all others staying as they are (:func:`loops.leave_out`)
    Cost       O(steps m) for each row, m of them moving, and a copy of their square

    Parameters
    ----------
    y, box : (n,) as in :func:`solve`
    s, margins : (n,) dual variables and margins of the solution
    rows : places of the rows in the store

    Returns
    -------
    (2, len(rows)) : the bound, at most alpha_i G_ii, and the estimate, at most the bound
    """
    shift, _ = BIASES[bias]
    falls = np.tile(np.abs(s[rows]) * np.maximum(0.0, gram.diagonal[rows] + shift), (2, 1))
    asked = np.flatnonzero(s[rows])
    near = _nearest(s, np.where((y != 0) & (box > 0), y * margins, np.inf), gram)
    if not len(asked) or not len(near):
        return falls
    whole = len(near) == len(gram) and gram.matrix is not None
    square = gram.matrix if whole else gram.block(near)
    y, box, s, margins = (a[near] for a in (y, box, s, margins))
    out, place = np.empty((2, len(asked))), np.searchsorted(near, rows[asked])
    diagonal = (gram.diagonal[near] + shift).astype(gram.dtype)
    lo, hi = np.minimum(0.0, y * box), np.maximum(0.0, y * box)
    steps = shift, place, REMOVAL_TOL, REMOVAL_STEPS, out
    loops.leave_out(square, diagonal, margins - y, s, lo, hi, *steps)
    falls[:, asked] = np.clip(out, 0.0, falls[:, asked])
    return np.minimum(falls, falls[0])


def _nearest(s: Array, margins: Array, gram: Store) -> Array:
    """Return the support vectors and as many others, those with the smallest margins.

    All rows if that is more than half, which a copy of their square would not save much; none,
    and a warning, if not even the support vectors fit into memory.
    """
    support, others = np.flatnonzero(s), np.flatnonzero((s == 0) & (margins < np.inf))
    if len(support) > gram.largest_square:
        warn(
            f"The kernel values of {len(support):,} support vectors do not fit into max_memory: "
            f"leave-one-out uses the largest possible change instead. Raise max_memory.",
        )
        return support[:0]
    most = min(max(len(support), NEIGHBOURS), gram.largest_square - len(support))
    closest = np.argsort(margins[others], kind="stable")[:most]
    near = np.sort(np.concatenate([support, others[closest]]))
    return np.arange(len(s)) if 2 * len(near) > len(s) and gram.matrix is not None else near
