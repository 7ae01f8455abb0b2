"""The dual problem of Weston & Watkins' multiclass machine, solved and certified.

Primal, over one vector w_r per class, C_i = C times the weight of sample i (Weston & Watkins 1999,
with a required lead of 1):

    minimise  1/2 sum_r |w_r|^2 + sum_i C_i sum_{r != y_i} max(0, 1 - (w_{y_i} - w_r).x_i)

Dual, over 0 <= alpha_ir <= C_i, r != y_i, with tau_ir = -alpha_ir and tau_{i y_i} = sum_r alpha_ir:

    maximise  sum_ir alpha_ir - 1/2 sum_r sum_ij tau_ir tau_jr K_ij,    w_r = sum_i tau_ir x_i

``G`` (n_classes, n) holds w_r.x_i. The gradient of alpha_ir is the lack d_ir = 1 - (G_{y_i} - G_r),
the violation of a sample the largest gradient that its bounds allow to follow.

The block of one sample is solved exactly (Wang & Scott 2021, "An exact solver for the
Weston-Watkins SVM subproblem"). As for SPOC, samples at their bounds that do not want to leave them
are left out, the kernel values of the others are gathered, and G of all samples is brought up to
date in float64 after each such square; the violation measured on it decides whether to stop.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from sklearn.utils import gen_batches

from outcode._checks import Array
from outcode.parallel import single_blas, thread_map
from outcode.solvers.certificate import Certificate
from outcode.solvers.store import TILE, Store
from outcode.solvers.ww.loops import descend, reduced, total, violations

__all__ = ["Solution", "reduced", "solve", "total"]

#: Steps, as a multiple of the samples worked on, before looking whether few of them are active.
BURST = 2
#: Samples are gathered into a square once at most this share is active, unless they are this few.
SHRINK, SMALL = 1 / 2, 600
#: Rounds in which the violation of all samples may fail to fall before giving up.
PATIENCE = 10
#: A square is solved to this share of the tolerance: what rounding adds stays below the rest.
INNER = 0.8


@dataclass(frozen=True, kw_only=True)
class Solution(Certificate):
    """The optimum and its certificate.

    ``tau`` and ``scores`` (w_r.x_i) are (n_samples, n_classes), ``objective`` and
    ``dual_objective`` the primal and the dual value, ``gap`` their difference over the primal
    value, ``violation`` the largest of any sample.
    """

    tau: Array
    scores: Array
    dual_objective: float


@dataclass
class Problem:
    """One problem: alpha and G as they stand, (n_classes, n); labels and box (n,).

    alpha of a sample's own class is no variable: it is held at the box, where it never violates.
    """

    alpha: Array
    G: Array
    labels: Array
    box: Array
    shift: float

    def psi(self) -> Array:
        """Return the violation of every sample."""
        out = np.empty(len(self.labels))
        violations(self.G, self.alpha, self.labels, self.box, out)
        return out

    def active(self, psi: Array, tol: float) -> Array:
        """Return the samples with an alpha between its bounds, or a violation."""
        free = ((self.alpha > 0) & (self.alpha < self.box)).any(axis=0)
        return np.flatnonzero(free | (psi > tol))


def solve(
    gram: Store,
    labels: Array,
    box: Array,
    n_classes: int,
    *,
    shift: float = 0.0,
    tol: float = 1e-3,
    max_iter: int = 10_000_000,
    start: tuple[Array, Array] | None = None,
    n_jobs: int | None = None,
) -> Solution:
    """Solve the dual on a Gram store.

    Parameters
    ----------
    gram : the Gram store, n rows
    labels : (n,) class indices
    box : (n,) the largest alpha of each sample; 0 for a sample that is not used
    shift : added to every kernel value: 1 puts a bias into the kernel
    tol : largest violation, in units of the required lead 1
    start : tau and K tau, (n, n_classes) each, of a similar problem to start from
    """
    G, labels = np.zeros((n_classes, len(labels))), labels.astype(np.int64)
    problem = Problem(_held(G.copy(), labels, box), G, labels, box, shift)
    _begin(gram, problem, start, n_jobs)
    n_iter, stalled, psi = 0, 0, problem.psi()
    while psi.max() > tol and n_iter < max_iter and stalled < PATIENCE:
        index = _working_set(gram, problem, psi, tol)
        steps, solved = _work(gram, problem, index, INNER * tol, max_iter - n_iter, n_jobs)
        n_iter, psi = n_iter + steps, problem.psi()
        if solved and psi[index].max() > tol:  # the kernel values are coarse: look again
            stalled += 1
    return _certify(problem, n_iter, float(psi.max()), tol)


def _begin(
    gram: Store, problem: Problem, start: tuple[Array, Array] | None, n_jobs: int | None
) -> None:
    if start is not None:
        before, product = start
        alpha = _held(np.clip(-before.T, 0.0, problem.box), problem.labels, problem.box)
        problem.G += product.T
        change = as_tau(alpha, problem.labels) - before.T
        _add(gram, problem, np.arange(len(problem.labels)), change, n_jobs)
        problem.alpha[:] = alpha


def as_tau(alpha: Array, labels: Array) -> Array:
    """Return tau_ir = -alpha_ir, and their sum for the sample's own class, (n_classes, n)."""
    tau, rows = -alpha + 0.0, np.arange(len(labels))  # no -0
    tau[labels, rows] = 0.0
    tau[labels, rows] = -tau.sum(axis=0)
    return tau


def _held(alpha: Array, labels: Array, box: Array) -> Array:
    """Return alpha with that of every sample's own class at its box."""
    alpha[labels, np.arange(len(labels))] = box
    return alpha


def _working_set(gram: Store, problem: Problem, psi: Array, tol: float) -> Array:
    """Return the samples to work on next; all of them while more than half are active."""
    index = problem.active(psi, tol / 2)
    if gram.matrix is not None:
        return index if _few(len(index), len(gram)) else np.arange(len(gram))
    limit = gram.largest_square
    if len(index) <= limit:
        return index
    shuffled = np.random.RandomState(0).permutation(index)  # equal violations: any class
    return np.sort(shuffled[np.argsort(-psi[shuffled], kind="stable")[:limit]])


def _few(active: int, n: int) -> bool:
    return n > SMALL and active <= SHRINK * n


def _work(
    gram: Store, problem: Problem, index: Array, tol: float, max_iter: int, n_jobs: int | None
) -> tuple[int, bool]:
    """Work on some samples alone, then bring G of all samples up to date.

    Returns the steps made, and whether the samples were solved: they are left unsolved once few of
    them are active.
    """
    whole = len(index) == len(gram) and gram.matrix is not None
    matrix = gram.matrix if whole else gram.block(index)
    alpha = np.ascontiguousarray(problem.alpha[:, index])
    G = problem.G[:, index].astype(gram.dtype, order="C")
    part = Problem(alpha, G, problem.labels[index], problem.box[index], problem.shift)
    tol = max(tol, 4.0 * float(np.finfo(G.dtype).eps * np.abs(G).max()))  # finer is rounding
    arrays = matrix, gram.diagonal[index] + part.shift, G, alpha, part.labels, part.box
    steps, solved = 0, False
    while not solved and steps < max_iter:
        most = min(BURST * max(len(index), SMALL), max_iter - steps)
        done = int(descend(*arrays, part.shift, tol, most))
        steps, solved = steps + done, done < most
        if _few(len(part.active(part.psi(), tol)), len(index)):
            break
    change = as_tau(alpha, part.labels) - as_tau(problem.alpha[:, index], part.labels)
    _add(gram, problem, index, change, n_jobs)
    problem.alpha[:, index] = alpha
    return steps, solved


def _add(gram: Store, problem: Problem, index: Array, change: Array, n_jobs: int | None) -> None:
    """G += change @ (K + shift)[index], only where ``change`` (n_classes, n_index) is not 0."""
    G = problem.G
    G += problem.shift * change.sum(axis=1, keepdims=True)
    if gram.matrix is None:
        moved = np.flatnonzero(change.any(axis=0))
        with single_blas():
            for batch in gen_batches(len(moved), TILE):
                G += change[:, moved[batch]] @ gram.strip(index[moved[batch]])
        return

    def one_class(r: int) -> None:
        moved = np.flatnonzero(change[r])
        gram.add(index[moved], change[r, moved], G[r])

    thread_map(one_class, range(len(G)), n_jobs)


def _certify(problem: Problem, n_iter: int, violation: float, tol: float) -> Solution:
    """Objectives and gap of what was found."""
    own, rows = problem.labels, np.arange(len(problem.labels))
    tau = as_tau(problem.alpha, own)
    norm = max(0.0, float(np.einsum("ri,ri->", tau, problem.G)))
    lack = np.maximum(0.0, 1.0 - problem.G[own, rows] + problem.G)
    lack[own, rows] = 0.0
    primal = 0.5 * norm + float(problem.box @ lack.sum(axis=0))
    dual = float(tau[own, rows].sum()) - 0.5 * norm
    return Solution(
        tau=np.ascontiguousarray(tau.T),
        scores=np.ascontiguousarray(problem.G.T),
        objective=primal,
        dual_objective=dual,
        gap=max(0.0, primal - dual) / max(primal, np.finfo(float).tiny),
        violation=violation,
        n_iter=n_iter,
        converged=violation <= tol,
    )
