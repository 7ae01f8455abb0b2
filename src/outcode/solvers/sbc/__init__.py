"""The single binary problem on a Gram store: working sets of copies, weights of class kernels.

Problem    minimise over s (n_columns, n_rows)
               1/2 sum_{r,i,t,j} s_ri s_tj M_rt K_ij - sum_{r,i} y_ri s_ri
           subject to  lo_ri <= s_ri <= hi_ri  and  sum_{r,i} s_ri = 0
           with s_ri = y_ri alpha_ir: [EPY08] Eq. 2-3 (halved, C the box on alpha) for the kernel of
           Eq. 6, the Kronecker product of the sample kernel K and the class kernel M
Cases      copy (i, r) of row i stands at [r, i], so that a row of K runs along memory; lo = hi = 0
           for a copy that is not used
Input      a Gram store of K, M, targets and box
Output     s and F = s K in place, the certificate
Algorithm  working sets of copies, each solved by sequential minimal optimisation on its own square
           of the kernel (:func:`svm.loops.descend_pairs`). The cm x cm kernel is never
           built: kept are K, M, a square of WORKING_SET copies and n_columns x n_rows arrays
Stopping   max{-g: s < hi} + max{g: s > lo} <= tol with the gradient g = M F - y, LIBSVM's rule
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numba
import numpy as np
from sklearn.utils import gen_batches

from outcode._checks import Array, lookup
from outcode.progress import Progress
from outcode.solvers.certificate import Certificate
from outcode.solvers.svm import loops

HUGE = loops.HUGE
#: Copies of a working set; their square of the kernel (8 MiB) stays in the cache.
WORKING_SET = 1024
#: A working set is solved until its violation is this share of the one it was chosen for.
SHARE = 0.1
#: Updates of the kernel weights without a smaller change after which they go round in circles.
PATIENCE = 10
#: Rows of the Gram taken at a time.
BATCH = 256


@numba.njit(nogil=True, cache=True, error_model="numpy")
def gather_copies(K: Any, M: Any, rows: Any, columns: Any, out: Any) -> None:
    """out_pq = K[rows_p, rows_q] M[columns_p, columns_q], indices unsigned, equal rows together."""
    n = rows.shape[0]
    kernel, classes = np.empty(n), np.empty((M.shape[0], n))
    for r in range(M.shape[0]):
        for q in range(n):
            classes[r, q] = M[r, columns[q]]
    for p in range(n):
        if p == 0 or rows[p] != rows[p - 1]:
            k = K[rows[p]]
            for q in range(n):
                kernel[q] = k[rows[q]]
        m, target = classes[columns[p]], out[p]
        for q in range(n):
            target[q] = kernel[q] * m[q]


# --- one machine: working sets and a certificate ---


@dataclass(frozen=True, kw_only=True)
class Solution(Certificate):
    """The certificate of a solve; ``objective`` is the primal value 1/2 |w|^2 + sum C_i hinge."""

    bias: float
    dual_objective: float


@dataclass
class Problem:
    """A single binary problem as it stands, copy (i, r) at [r, i].

    ``F`` is s K, the sample kernel applied to every column: the values of the copies are M F for
    any class kernel M, so that another class kernel costs no kernel value.
    """

    gram: Any
    y: Array
    lo: Array
    hi: Array
    s: Array
    F: Array

    def violations(self, g: Array) -> tuple[Array, Array]:
        """Return what each copy gains going up and going down; -HUGE where it may not."""
        return loops.violations(g, self.s, self.lo, self.hi)

    def set_rows(self, rows: Array, s: Array) -> None:
        """Set s of all copies of some rows and bring F up to date."""
        change = s - self.s[:, rows]
        self.s[:, rows] = s
        if self.gram.matrix is not None:
            for r in range(len(change)):
                moved = np.flatnonzero(change[r])
                self.gram.add(rows[moved], change[r, moved], self.F[r])
            return
        moved = np.flatnonzero(change.any(axis=0))
        for batch in gen_batches(len(moved), BATCH):
            part = moved[batch]
            self.F += change[:, part] @ computed_rows(self.gram, rows[part])

    def without(self, rows: Array) -> Problem:
        """Return the problem without some rows, started from this solution."""
        lo, hi = self.lo.copy(), self.hi.copy()
        lo[:, rows] = hi[:, rows] = 0.0
        other = Problem(self.gram, self.y, lo, hi, self.s.copy(), self.F.copy())
        other.start_from(self.s)
        return other

    def start_from(self, s: Array) -> None:
        """Go to the s of a similar problem, within the box of this one and with sum 0."""
        self.set_rows(np.arange(s.shape[1]), balanced(np.clip(s, self.lo, self.hi), self))


def begin(gram: Any, targets: Array, box: Array) -> Problem:
    """Return the problem at s = 0.

    Parameters
    ----------
    gram : the Gram store, m rows
    targets : (m, n_columns) +1, -1, or 0 for a copy that is not used
    box : (m,) upper bound of alpha for every copy of a row
    """
    y = np.ascontiguousarray(targets.T, dtype=np.float64)
    lo, hi = np.minimum(0.0, y * box), np.maximum(0.0, y * box)
    return Problem(gram, y, lo, hi, np.zeros_like(y), np.zeros_like(y))


def balanced(s: Array, problem: Problem) -> Array:
    """Scale the heavier side down until sum s = 0, copies between their bounds first.

    A copy at its bound mostly stays there in the next solution.
    """
    excess = float(s.sum())
    side = s * np.sign(excess) > 0
    between = side & (s > problem.lo) & (s < problem.hi)
    scaled = between if abs(s[between].sum()) >= abs(excess) else side
    total = float(s[scaled].sum())
    return np.where(scaled, s * (1.0 - excess / total), s) if excess else s


def computed_rows(gram: Any, rows: Array) -> Array:
    """Return whole rows of a Gram store that does not hold them, in float64."""
    return np.asarray(gram.kernel.block(gram.rows[rows], gram.rows, gram.dtype), dtype=np.float64)


def solve(problem: Problem, M: Array, tol: float, max_iter: int) -> Solution:
    """Minimise the problem at the head of this module from where it stands.

    Problem    as at the head of this module, on all rows
    Cases      any store; another class kernel M than the last one: a warm start
    Input      the problem and M (n_columns, n_columns)
    Output     ``problem`` changed in place, and the certificate
    Algorithm  decomposition: the copies that violate most each way, and half of the last working
               set, those between their bounds first. The most violating pair is always in it,
               which makes it converge (Lin 2001)
    Stopping   the violation of all copies is at most ``tol``, or ``max_iter`` steps are made
    """
    n_iter, last = 0, np.empty(0, dtype=np.intp)
    order = np.random.RandomState(0).permutation(problem.s.size)
    size = min(problem.s.size, WORKING_SET)
    square = np.empty((size, size))
    while True:
        g = M @ problem.F - problem.y
        up, down = problem.violations(g)
        violation = float(up.max() + down.max())
        if violation <= tol or n_iter >= max_iter:
            break
        last = working_set(up, down, last, order)
        goal = max(tol / 2, SHARE * violation)
        steps = descend_set(problem, M, g, last, square, goal, max_iter - n_iter)
        n_iter += steps
        if steps == 0:  # rounding: the working set sees no violation where the whole problem does
            break
    return certify(problem, M, n_iter, violation, violation <= tol)


def working_set(up: Array, down: Array, last: Array, order: Array) -> Array:
    """Return the copies to work on: half of the last set, and the others that violate most.

    Of the last set those that may move stay, copies between their bounds before others, newer ones
    (further back) before older. Copies are numbered r m + i. Equals are taken in ``order``, a
    permutation of them: at the start all violate alike, and what copies of a few rows or classes
    alone would learn has to be undone.
    """
    up, down = up.ravel(), down.ravel()
    if len(up) <= WORKING_SET:
        return np.arange(len(up))
    last = last[(up[last] > -down.max()) | (down[last] > -up.max())]
    between = np.minimum(up[last], down[last]) > -HUGE
    keep = last[np.argsort(between, kind="stable")][-(WORKING_SET // 2) :]
    taken = np.zeros(len(up), dtype=bool)
    taken[keep] = True
    half = (WORKING_SET - len(keep)) // 2
    rising = _largest(up, taken, order, half)
    taken[rising] = True
    falling = _largest(down, taken, order, half)
    return np.concatenate([keep, np.stack([rising, falling], axis=1).ravel()])


def _largest(values: Array, taken: Array, order: Array, count: int) -> Array:
    """Return where the ``count`` largest values stand that are not taken."""
    free = np.where(taken, -np.inf, values)[order]
    return order[np.argpartition(-free, count - 1)[:count]]


def descend_set(
    problem: Problem, M: Array, g: Array, copies: Array, square: Array, tol: float, max_iter: int
) -> int:
    """Solve for some copies, the others held; ``square`` is memory for their kernel.

    Returns the number of steps.
    """
    columns, rows = np.divmod(copies, g.shape[1])
    order = np.argsort(rows, kind="stable")  # copies of a row together: their kernel is near
    columns, rows = columns[order], rows[order]
    touched, at = np.unique(rows, return_inverse=True)
    K, places = problem.gram.matrix, rows
    if K is None:
        K, places = problem.gram.block(touched), at
    gather_copies(K, M, places.astype(np.uint32), columns.astype(np.uint32), square)
    part, s, lo, hi = (a[columns, rows] for a in (g, problem.s, problem.lo, problem.hi))
    diagonal = square.diagonal().copy()
    steps = int(loops.descend_pairs(square, diagonal, part, s, lo, hi, tol, max_iter))
    every = problem.s[:, touched]
    every[columns, at] = s
    problem.set_rows(touched, every)
    return steps


def certify(problem: Problem, M: Array, n_iter: int, violation: float, converged: bool) -> Solution:
    """Return bias, primal and dual objective and the relative gap between them."""
    s, y = problem.s, problem.y
    f = M @ problem.F
    bias = free_bias(problem, f - y)
    norm2 = max(0.0, float((s * f).sum()))
    box = problem.hi - problem.lo
    primal = 0.5 * norm2 + float((box * np.maximum(0.0, 1.0 - y * (f + bias))).sum())
    dual = float((s * y).sum()) - 0.5 * norm2
    gap = max(0.0, primal - dual) / max(primal, np.finfo(float).tiny)
    return Solution(
        bias=bias,
        objective=primal,
        dual_objective=dual,
        gap=gap,
        violation=violation,
        n_iter=n_iter,
        converged=converged,
    )


def free_bias(problem: Problem, g: Array) -> float:
    """Mean of y - f over copies between their bounds; the middle of the allowed range if none.

    Footnote 1 of [EPY08], over 0 < alpha < C.
    """
    between = (problem.s > problem.lo) & (problem.s < problem.hi)
    if between.any():
        return float(-g[between].mean())
    up, down = problem.violations(g)
    return float(up.max() - down.max()) / 2


# --- the class kernel: weights of basis kernels ---


def gradient_step(mu: Array, v: Array, radius: float) -> Array:
    """mu + v, scaled back to sum ``radius`` if it is larger. [EPY08] Algorithm 2, steps 8-9

    >>> gradient_step(np.array([1.0, 1.0]), np.array([6.0, 0.0]), 2.0).tolist()
    [1.75, 0.25]
    """
    moved = mu + v
    return moved * min(1.0, radius / moved.sum())


def alternating_step(mu: Array, v: Array, radius: float) -> Array:
    """mu_j proportional to |w_j| = mu_j sqrt(v_j), of sum ``radius``.

    The least of sum_j |w_j|^2 / mu_j over sum_j mu_j = radius for fixed w (Xu, Jin, Yang, King &
    Lyu 2010): the objective never rises, and stops falling only at the minimum.
    """
    length = mu * np.sqrt(np.maximum(v, 0.0))
    return radius * length / length.sum() if length.sum() > 0 else mu


@dataclass(frozen=True)
class Limits:
    """When a solve stops (``tol``, ``max_iter``), and when learning the weights does."""

    tol: float
    max_iter: int
    kernel_tol: float
    max_updates: int


@dataclass(frozen=True)
class Learned:
    """Kernel weights, the class kernel they make, the machine solved for it, and how it came.

    ``left`` is what the stopping rule of the weights measured last; ``gap`` that of kernel_gap.
    """

    weights: Array
    class_kernel: Array
    solution: Solution
    path: Array
    left: float
    gap: float
    n_iter: int


def basis_norms(problem: Problem, basis: Array) -> Array:
    """Return v_j = alpha' G(K_j) alpha of every basis kernel, minus the gradient of Eq. 2 in mu.

    With A_ir = y_ir alpha_ir it is sum_rs K_M^(j)(r, s) (A' K_x A)_rs: one c x c matrix for all j.
    """
    inner = problem.s @ problem.F.T
    return np.tensordot(basis, inner, axes=2)


def kernel_gap(problem: Problem, solution: Solution, basis: Array, radius: float) -> float:
    """Return the relative distance of the objective to a lower bound of its minimum over mu.

    For any feasible alpha and 0 <= t <= 1, 2 t sum alpha - t^2 radius max_j v_j is such a bound
    (the dual of the minimum over mu, a quadratically constrained problem).
    """
    return _gap_below(problem, solution, radius * float(basis_norms(problem, basis).max()))


def _gap_below(problem: Problem, solution: Solution, most: float) -> float:
    """Return the relative distance of the objective to 2 t sum alpha - t^2 most, t the best."""
    total = float((problem.s * problem.y).sum())
    t = min(1.0, total / most) if most > 0 else 1.0
    bound, value = 2.0 * t * total - t * t * most, 2.0 * solution.objective
    return max(0.0, value - bound) / max(value, np.finfo(float).tiny)


def learn_kernel(
    problem: Problem,
    basis: Array,
    radius: float,
    update: str,
    limits: Limits,
    report: Progress,
    mu: Array | None = None,
) -> Learned:
    """Learn the class kernel as a combination of basis kernels.

    Problem    min over mu >= 0, sum mu <= radius of g_d(mu), the maximum of [EPY08] Eq. 2 for the
               class kernel sum_j mu_j K_M^(j) (Eq. 8); convex in mu
    Cases      update "paper": mu + v scaled back to the radius, whose fixed point has mu_j
               proportional to v_j and lies a few per cent above the minimum;
               "alternating": the closed form for fixed w, which goes to the minimum
    Input      the problem (its solution is where the next one starts), basis (n, c, c), radius,
               limits of a solve and of the weights
    Output     weights, class kernel, machine, g_d after every solve, relative gap to the minimum
    Algorithm  [EPY08] Algorithm 2 from mu_0 = radius / n, or from ``mu``; gradients by
               :func:`basis_norms`
    Stopping   "paper": |mu_old - mu_new| <= kernel_tol |mu_old| (section 5), and mu_new is taken,
               its machine solved once more; "alternating": the
               relative gap to the minimum is at most kernel_tol; or max_updates updates, or (when
               v is large, the paper's step may alternate between two points) PATIENCE of them
               without a smaller change: then the best weights met are taken
    """
    step = lookup(UPDATES, update, "update")
    if mu is None:
        mu = np.full(len(basis), radius / len(basis))
    path: list[float] = []
    tried: list[Array] = []
    lefts: list[float] = []
    n_iter, done = 0, False
    while True:
        learned = fixed_kernel(problem, basis, mu, limits)
        n_iter += learned.n_iter
        path.append(learned.path[0])
        tried.append(mu)
        if done or _stalls(lefts, limits.max_updates, update):
            break
        new = step(mu, basis_norms(problem, basis), radius)
        change = float(np.linalg.norm(new - mu) / np.linalg.norm(mu))
        lefts.append(change if update == "paper" else learned.gap)
        report.advance()
        done = lefts[-1] <= limits.kernel_tol
        if done and update == "alternating":
            break
        stalls = not done and _stalls(lefts, limits.max_updates, update)
        mu = tried[int(np.argmin(path))] if stalls else new
    return replace(learned, path=np.array(path), left=lefts[-1], n_iter=n_iter)


#: A class kernel is kept away from being singular by this share of the tolerance; more at first,
#: START falling by FADE with every update: without it the last digits come very slowly.
MIXED, START, FADE = 0.5, 0.3, 0.9


def learn_class_kernel(
    problem: Problem, radius: float, limits: Limits, report: Progress
) -> Learned:
    """Learn the class kernel itself, any positive semidefinite matrix of bounded trace.

    Problem    min over K_M >= 0, tr K_M <= radius of g_d(K_M), the maximum of [EPY08] Eq. 2; convex
               in K_M (section 3.1, where it is called a semidefinite program and not solved)
    Algorithm  for fixed w the objective is 1/2 tr(W K_M^-1 W') + loss, W (features, c), least at
               K_M = radius (W'W)^1/2 / tr (W'W)^1/2, with W'W = K_M B K_M, B = A' K_x A; solve and
               update in turn from K_M = radius / c I, a little of which is always mixed in
    Output     the weights are the entries of K_M on and above its diagonal
    Stopping   2 t sum alpha - t^2 radius (largest eigenvalue of B), 0 <= t <= 1, is below the
               minimum: the relative gap to it is at most kernel_tol, or max_updates updates
    """
    c = problem.s.shape[0]
    M, path, n_iter = radius / c * np.eye(c), [], 0
    while True:
        solution = solve(problem, M, limits.tol, limits.max_iter)
        n_iter += solution.n_iter
        path.append(2.0 * solution.dual_objective)
        inner = problem.s @ problem.F.T  # B
        inner = (inner + inner.T) / 2.0
        gap = _gap_below(problem, solution, radius * float(np.linalg.eigvalsh(inner)[-1]))
        report.advance()
        if gap <= limits.kernel_tol or len(path) > limits.max_updates:
            break
        share = max(MIXED * limits.kernel_tol, START * FADE ** len(path))
        M = _trace_step(M, inner, radius, share)
    entries = M[np.triu_indices(c)]
    return Learned(entries, M, solution, np.array(path), gap, gap, n_iter)


def _trace_step(M: Array, inner: Array, radius: float, share: float) -> Array:
    """Return radius S^1/2 / tr S^1/2, S = M B M, with a share of radius / c I mixed in.

    A singular class kernel leaves the dual variables undetermined, and those that prove it optimal
    are not found.
    """
    values, vectors = np.linalg.eigh(M @ inner @ M)
    roots = np.sqrt(np.maximum(values, 0.0))
    if roots.sum() == 0:
        return M
    values = (1.0 - share) * roots / roots.sum() + share / len(roots)
    return (vectors * (radius * values)) @ vectors.T


def _stalls(lefts: list[float], max_updates: int, update: str) -> bool:
    """Whether to give up: too many updates, or the paper's step goes round in circles."""
    if len(lefts) >= max_updates:
        return True
    circling = update == "paper" and len(lefts) > PATIENCE
    return circling and min(lefts[-PATIENCE:]) >= min(lefts[:-PATIENCE])


def fixed_kernel(problem: Problem, basis: Array, mu: Array, limits: Limits) -> Learned:
    """Solve the machine for given kernel weights. [EPY08] Algorithm 1"""
    M = np.tensordot(mu, basis, axes=1)
    solution = solve(problem, M, limits.tol, limits.max_iter)
    path = np.array([2.0 * solution.dual_objective])
    gap = kernel_gap(problem, solution, basis, float(mu.sum())) if len(mu) > 1 else np.nan
    return Learned(mu, M, solution, path, 0.0, gap, solution.n_iter)


UPDATES: dict[str, Callable[[Array, Array, float], Array]] = {
    "paper": gradient_step,
    "alternating": alternating_step,
}
