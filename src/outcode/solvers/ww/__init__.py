"""The dual problem of Weston & Watkins' multiclass machine, solved and certified.

Primal, over one vector w_r per class, C_i = C times the weight of sample i (Weston & Watkins 1999,
with a required lead of 1):

    minimise  1/2 sum_r |w_r|^2 + sum_i C_i sum_{r != y_i} max(0, 1 - (w_{y_i} - w_r).x_i)

Dual, over 0 <= alpha_ir <= C_i, r != y_i, with tau_ir = -alpha_ir and tau_{i y_i} = sum_r alpha_ir:

    maximise  sum_ir alpha_ir - 1/2 sum_r sum_ij tau_ir tau_jr K_ij,    w_r = sum_i tau_ir x_i

``G`` (n_classes, n) holds w_r.x_i. The gradient of alpha_ir is the lack d_ir = 1 - (G_{y_i} - G_r),
the violation of a sample the largest gradient that its bounds allow to follow.

The block of one sample is solved exactly (Wang & Scott 2021, "An exact solver for the
Weston-Watkins SVM subproblem"), in turn with the binary problems between two classes;
:mod:`outcode.solvers.squares` chooses the samples to work on.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from outcode._checks import Array
from outcode.solvers import squares
from outcode.solvers.certificate import Certificate
from outcode.solvers.store import Store
from outcode.solvers.ww.loops import descend, reduced, total, violations

__all__ = ["Solution", "reduced", "solve", "total"]

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

    def part(self, index: Array, dtype: Any) -> Problem:
        """Return the problem of some samples alone."""
        G = self.G[:, index].astype(dtype, order="C")
        alpha = np.ascontiguousarray(self.alpha[:, index])
        return Problem(alpha, G, self.labels[index], self.box[index], self.shift)

    def descend(self, matrix: Array, diagonal: Array, tol: float, most: int) -> int:
        """Make at most some steps on a square of kernel values."""
        arrays = matrix, diagonal, self.G, self.alpha, self.labels, self.box
        return int(descend(*arrays, self.shift, tol, most))

    def merge(self, part: Problem, index: Array) -> Array:
        """Take over the alpha of some samples; return how tau changes."""
        change = as_tau(part.alpha, part.labels) - as_tau(self.alpha[:, index], part.labels)
        self.alpha[:, index] = part.alpha
        return change


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
    if start is not None:
        before, product = start
        alpha = _held(np.clip(-before.T, 0.0, box), labels, box)
        problem.G += product.T
        change = as_tau(alpha, labels) - before.T
        squares.add(gram, problem, np.arange(len(labels)), change, n_jobs)
        problem.alpha[:] = alpha
    n_iter, violation = squares.solve(
        gram, problem, tol=tol, share=INNER, max_iter=max_iter, n_jobs=n_jobs
    )
    return _certify(problem, n_iter, violation, tol)


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
        gap=squares.relative_gap(primal, dual),
        violation=violation,
        n_iter=n_iter,
        converged=violation <= tol,
    )
