"""Continuous codes of norm 2, by the solver of SPOC. [CS02] Section 5.2"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.optimize import brentq

from outcode._checks import Array
from outcode.design.linear import program
from outcode.design.problem import ContinuousDesign, Data, hard, matrix_norm
from outcode.solvers import spoc as spoc_solver

#: Largest violation of the optimality conditions, in units of the largest lead required.
TOL = 1e-7
#: The weight of the norm falls by this factor until the code leaves the ball.
FALL = 10.0
#: When it has fallen by LOOSE the constraint may not bind at all: the least loss is looked at. It
#: never falls by more than LAST.
LOOSE, LAST = 1e3, 1e8
#: A code in the ball whose gap is this small is the answer, though its norm is below the radius.
ENOUGH = 1e-9


def quadratic(data: Data, beta: float, start: Any = None, tol: float = TOL) -> ContinuousDesign:
    """Solve min beta/2 |M|^2 + loss by the solver of SPOC; M by Eq. 26."""
    b = np.ascontiguousarray(data.b.T)
    leads = max(1.0, float(np.abs(b).max()))
    found = spoc_solver.solve_linear(
        data.H, data.labels, b, data.mass, beta=beta, tol=tol * leads, start=start
    )
    code = found.tau.T @ data.H / beta
    return ContinuousDesign(code, found.objective, found.dual_objective, found.tau)


def ball(data: Data, radius: float) -> ContinuousDesign:
    """Solve min loss s.t. |M|_2 <= radius, by the beta whose code has that norm.

    |M(beta)| falls as beta grows, and is at most 2 sum_i c_i |h_i| / beta. From the beta where that
    is the radius it goes down, each solve started from the last one, until the code leaves the
    ball: the root lies between the last two. The dual value of any tau is
    sum_i eta_i.b_i - radius |sum_i tau_i h_i'|_2, so a code inside the ball proves itself, too.
    """
    path = _Path(data, radius)
    top = np.log(2.0 * float(data.mass @ np.linalg.norm(data.H, axis=1)) / radius + 1e-300)
    before, log_beta = top, top
    while path.excess(log_beta) < 0:
        if path.best.gap <= ENOUGH or log_beta < top - np.log(LAST):
            return path.best
        if before > top - np.log(LOOSE) >= log_beta and path.least_loss():
            return path.best
        before, log_beta = log_beta, log_beta - np.log(FALL)
    if log_beta < before:
        path.tol = TOL / 100
        brentq(path.excess, log_beta, before, xtol=1e-12, rtol=1e-14)
    return path.best


class _Path:
    """Codes M(beta) on the way to a radius; ``best`` is the one of least gap, put into the ball."""

    def __init__(self, data: Data, radius: float) -> None:
        self.data, self.radius, self.tol = data, radius, TOL
        self.start: tuple[Array, Array] | None = None
        code = np.zeros((data.b.shape[1], data.H.shape[1]))
        self.best = hard(data, "2", radius, code, np.zeros(data.b.shape))

    def excess(self, log_beta: float) -> float:
        """Solve for a beta and return log(|M| / radius)."""
        found = quadratic(self.data, float(np.exp(log_beta)), self.start, self.tol)
        self.start = found.tau, found.tau
        self._keep(found.code, found.tau)
        return float(np.log(matrix_norm(found.code, "2") + 1e-300) - np.log(self.radius))

    def least_loss(self) -> bool:
        """Try the code of least loss: the answer if it lies in the ball.

        Of the codes with the same scores, up to a number per row, the one of least norm is taken:
        its rows sum to 0 and lie in the span of the rows of H.
        """
        code, tau = program(self.data, "1", 0.0, None)
        code = code - code.mean(axis=0)
        self._keep(code @ np.linalg.pinv(self.data.H) @ self.data.H, tau)
        return self.best.gap <= ENOUGH

    def _keep(self, code: Array, tau: Array) -> None:
        code = code * min(1.0, self.radius / max(matrix_norm(code, "2"), 1e-300))
        found = hard(self.data, "2", self.radius, code, tau)
        if found.gap < self.best.gap:
            self.best = found
