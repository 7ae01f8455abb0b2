"""The loss and the penalty of Eq. 4 minimised in turn (Douglas-Rachford splitting).

With M minimised out, Eq. 4 is loss(W) + Omega(W), Omega(W) = lambda1/2 |W|_F^2 + lambda2/2 |W|_*^2.
The loss parts by columns, Omega by singular values, so that both of

    X = argmin loss(X) + rho/2 |X - (Z - U)|_F^2,      Z = argmin Omega(Z) + rho/2 |Z - (X + U)|_F^2

are closed forms, and U collects X - Z (the alternating direction method of multipliers, Boyd et al.
2011, section 3). No system couples the columns. The errors of X are the dual variables V, and
Phi'V = rho (X - (Z - U)): the duality gap of X costs two singular value decompositions.

Start: Z = U = 0 and rho = lambda1 + L lambda2, so that the first X is the paper's first W.
rho follows the ratio of the two residuals (section 3.4.1 there). Stopping: duality gap <= tol.
At the end comes one round of Eq. 10 for the relation of X; it lowers the objective once more.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from outcode._checks import Array
from outcode.solvers.jcl.alternation import solve_round
from outcode.solvers.jcl.certificates import Decomposed, Solution, lengths, lower_bound
from outcode.solvers.jcl.problems import Problem

#: Over-relaxation of X; iterations between two looks at the gap.
RELAXATION, LOOK = 1.6, 5
#: rho changes at a look by at most MOST, when the residuals' ratio asks for more than LEAST, and
#: not any more after so many iterations.
MOST, LEAST, SETTLED = 5.0, 2.0, 200


def split(
    problem: Problem, lambda1: float, lambda2: float, *, max_iter: int, tol: float
) -> Solution:
    """Minimise Eq. 4 until the duality gap is ``tol``, then solve Eq. 10 for the relation found."""
    rho, lower, path, n_iter = lambda1 + problem.n_columns * lambda2, 0.0, [np.inf], 0
    Z = np.zeros((len(problem.spectrum.s), problem.n_columns))
    U = np.zeros_like(Z)
    while n_iter == 0 or (n_iter < max_iter and 1.0 - lower / path[-1] > tol):
        Q, before, n_iter = Z - U, Z, n_iter + 1
        X, loss = problem.resolvent(Q, rho)
        mixed = RELAXATION * X + (1 - RELAXATION) * Z
        Z = _shrunk(mixed + U, rho, lambda1, lambda2)
        U += mixed - Z
        if n_iter == 1 or n_iter % LOOK == 0 or n_iter == max_iter:
            found = Decomposed.of(X)
            lower = max(lower, lower_bound(X, rho * (X - Q), loss, lambda1, lambda2))
            objective = loss + found.penalty(lambda1, lambda2)
            if objective < path[-1]:
                best = found
                path.append(objective)
            if n_iter <= SETTLED:
                factor = _balance(X - Z, Z - before, Z, U)
                rho, U = rho * factor, U / factor
    if len(path) == 1:
        raise ValueError("The objective overflows: use smaller weights, or scale the features.")
    start = best.half(lambda1, lambda2)
    last = solve_round(problem, best.relation(), lambda1, lambda2, start=start, tol=tol)
    gap = max(0.0, 1.0 - max(lower, last.bound) / last.objective)
    path = [value for value in path[1:] if value > last.objective]  # at the end by rounding
    known: dict[str, Any] = {
        "objective": last.objective,
        "gap": gap,
        "n_iter": n_iter,
        "converged": gap <= tol,
    }
    return Solution(round=last, path=np.array([*path, last.objective]), **known)


def _shrunk(X: Array, rho: float, lambda1: float, lambda2: float) -> Array:
    """Return Z that minimises Omega(Z) + rho/2 |Z - X|_F^2."""
    found = Decomposed.of(X)
    return found.scaled(lengths(rho * found.sigma, lambda1 + rho, lambda2))


def _balance(apart: Array, moved: Array, Z: Array, U: Array) -> float:
    """Return the factor for rho that evens the relative residuals |X - Z| and |Z - Z_old|."""
    sizes = [max(float(np.linalg.norm(a)), np.finfo(float).tiny) for a in (apart, Z, moved, U)]
    step = 0.5 * np.log(sizes) @ [1.0, -1.0, -1.0, 1.0]
    limit = np.log(MOST)
    return float(np.exp(np.clip(step, -limit, limit))) if abs(step) > np.log(LEAST) else 1.0
