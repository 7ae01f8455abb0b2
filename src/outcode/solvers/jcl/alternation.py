"""W, b for the relation (Eq. 10) and the relation for W (Eq. 15) in turn, as printed ([LZCX16])."""

from __future__ import annotations

from typing import Any

import numpy as np

from outcode._checks import Array
from outcode.solvers.jcl.certificates import (
    Decomposed,
    Round,
    Solution,
    lower_bound,
)
from outcode.solvers.jcl.problems import Problem
from outcode.solvers.jcl.spectrum import Relation


def alternate(
    problem: Problem, lambda1: float, lambda2: float, *, max_iter: int, tol: float
) -> Solution:
    """Alternate W, b (Eq. 10) and M (Eq. 15), from M = I / L, until the duality gap is ``tol``.

    With fewer features than columns Eq. 15 is singular from the first round on, and W never leaves
    the row space it then has; and a direction that has become tiny grows back slowly.
    """
    relation = Relation.even(problem.n_columns)
    best = solve_round(problem, relation, lambda1, lambda2, start=None, tol=tol)
    lower, path, n_iter = best.bound, [best.objective], 1
    while n_iter < max_iter and 1.0 - lower / best.objective > tol:
        start = best.decomposed.half(lambda1, lambda2)
        now = solve_round(problem, best.relation, lambda1, lambda2, start=start, tol=tol)
        lower, n_iter = max(lower, now.bound), n_iter + 1
        if now.objective > best.objective:  # rounding: there is nothing left to gain
            break
        best = now
        path.append(now.objective)
    gap = max(0.0, 1.0 - lower / best.objective)
    known: dict[str, Any] = {
        "objective": best.objective,
        "gap": gap,
        "n_iter": n_iter,
        "converged": gap <= tol,
    }
    return Solution(round=best, path=np.array(path), **known)


def solve_round(
    problem: Problem,
    relation: Relation,
    lambda1: float,
    lambda2: float,
    *,
    start: Array | None,
    tol: float,
) -> Round:
    """Solve W for this M, from the H of ``start``, then M for this W, and bound the optimum."""
    T = relation.coupling(lambda1, lambda2)
    half = problem.half_weights(T, start, tol)
    W = half @ T.root()
    decomposed = Decomposed.of(W)
    loss, G = problem.evaluate(W)
    return Round(
        W=W,
        decomposed=decomposed,
        half=half,
        coupling=T,
        relation=decomposed.relation(),
        objective=loss + decomposed.penalty(lambda1, lambda2),
        bound=lower_bound(W, G, loss, lambda1, lambda2),
    )
