"""The variables of one problem, and the certificate of what was found."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from outcode._checks import Array
from outcode.solvers.certificate import Certificate
from outcode.solvers.spoc.loops import descend, violations
from outcode.solvers.squares import relative_gap


@dataclass(frozen=True, kw_only=True)
class Solution(Certificate):
    """The optimum and its certificate.

    ``tau`` and ``scores`` (M_r.x_i) are (n_samples, n_classes), ``norm2`` (n_classes,) the squared
    norms |M_r|^2, ``objective`` and ``dual_objective`` the primal and the dual value, ``gap`` their
    difference over the primal value, ``violation`` the largest psi_i.
    """

    tau: Array
    scores: Array
    norm2: Array
    dual_objective: float


@dataclass
class Problem:
    """One problem: eta and G as they stand, and b, (n_classes, n); the masses (n,)."""

    eta: Array
    G: Array
    b: Array
    mass: Array
    labels: Array
    beta: float
    shift: float = 0.0

    def psi(self) -> Array:
        """Return the violation of every sample."""
        out, least = np.empty((2, self.G.shape[1]))
        violations(self.G, self.eta, out, least)
        return out

    def active(self, psi: Array, tol: float) -> Array:
        """Return the samples that are between their bounds, or violate."""
        return np.flatnonzero((np.count_nonzero(self.eta, axis=0) > 1) | (psi > tol))

    def part(self, index: Array, dtype: Any) -> Problem:
        """Return the problem of some samples alone."""
        eta = np.ascontiguousarray(self.eta[:, index])
        G = np.ascontiguousarray(self.G[:, index])
        return replace(self, eta=eta, G=G, mass=self.mass[index])

    def descend(self, matrix: Array, diagonal: Array, tol: float, most: int) -> int:
        """Make at most some steps on a square of kernel values."""
        arrays = matrix, diagonal, self.G, self.eta
        memory = np.empty((8, self.G.shape[1]))
        return int(descend(*arrays, self.beta, self.shift, tol, most, memory))

    def merge(self, part: Problem, index: Array) -> Array:
        """Take over the eta of some samples; return how tau / beta changes."""
        change: Array = (self.eta[:, index] - part.eta) / self.beta
        self.eta[:, index] = part.eta
        return change


def as_tau(eta: Array, labels: Array, mass: Array) -> Array:
    """Return tau_i = c_i 1_{y_i} - eta_i, (n, n_classes), rows contiguous."""
    tau = np.negative(eta, order="C") + 0.0  # no -0
    tau[np.arange(len(labels)), labels] += mass
    return tau


def feasible(tau: Array, labels: Array, mass: Array) -> Array:
    """Return tau with the rows shrunk that are beyond tau_i <= c_i 1_{y_i}.

    Rows without mass, and rows whose positive entry is that of another class, become 0.
    """
    own = tau[np.arange(len(labels)), labels]
    share = np.divide(mass, own, out=np.ones_like(own), where=own > mass)
    share[(mass == 0) | (own <= 0)] = 0.0
    return tau * share[:, None]


def certify(problem: Problem, n_iter: int, violation: float, tol: float) -> Solution:
    """Norms, objectives and gap of what was found."""
    rows = np.arange(len(problem.labels))
    tau = as_tau(problem.eta.T, problem.labels, problem.mass)
    scores = (problem.G - problem.b).T
    norm2 = np.maximum(0.0, np.einsum("ir,ir->r", tau, scores) / problem.beta)
    loss = problem.mass @ (problem.G.max(axis=0) - problem.G[problem.labels, rows])
    primal = 0.5 * problem.beta * norm2.sum() + float(loss)
    dual = -0.5 * problem.beta * norm2.sum() - float(np.einsum("ir,ri->", tau, problem.b))
    return Solution(
        tau=tau,
        scores=np.ascontiguousarray(scores),
        norm2=norm2,
        objective=float(primal),
        dual_objective=float(dual),
        gap=relative_gap(primal, dual),
        violation=violation,
        n_iter=n_iter,
        converged=violation <= tol,
    )
