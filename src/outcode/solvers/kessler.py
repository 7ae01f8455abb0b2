"""Kessler's construction on a Gram store: dual coordinate descent over pairs of a row and a class.

Problem    maximise over alpha (n_rows, n_classes)
               sum_ij alpha_ij - 1/2 |sum_ij alpha_ij z_ij|^2,   0 <= alpha_ij <= C_i
           with the difference vector z_ij = x_i in block y_i and -x_i in block j, for every class
           j != y_i, all of them positive and without a bias (Duda & Hart 1973, section 5.12.1;
           [EPY08] section 2): the dual of
               1/2 sum_r |w_r|^2 + sum_i C_i sum_{j != y_i} max(0, 1 - (w_{y_i} - w_j) . x_i)
Cases      alpha_ij = 0 for j = y_i, and for rows of weight 0
Input      a Gram store of K, labels and box
Output     alpha and F_ri = w_r . x_i, with w_r = sum_i s_ri x_i,
           s_ri = [r = y_i] sum_j alpha_ij - alpha_ir; the certificate
Algorithm  coordinate descent: alpha_ij moves by (1 - F_{y_i i} + F_ji) / (2 K_ii) within its box,
           rows in a new order each time (Hsieh et al. 2008, Algorithm 1). Two rows of F change with
           it: the difference vectors are never built
Stopping   the largest violation 1 - F_{y_i i} + F_ji that alpha may follow is at most tol
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numba
import numpy as np
from sklearn.utils import gen_batches

from outcode._checks import Array

#: Rows of a Gram matrix that is not in memory computed at a time.
BATCH = 256


@numba.njit(nogil=True, cache=True, error_model="numpy")
def descend(K: Any, at: Any, rows: Any, labels: Any, box: Any, alpha: Any, F: Any) -> float:
    """Move every alpha of some rows once, K[at_p] being the kernel of rows_p; the violation met."""
    worst = 0.0
    for p in range(rows.shape[0]):
        i = rows[p]
        y, k = labels[i], K[at[p]]
        curvature = 2.0 * k[i]
        for j in range(F.shape[0]):
            if j == y or box[i] <= 0.0:
                continue
            g = 1.0 - F[y, i] + F[j, i]
            if (g > 0.0 and alpha[i, j] < box[i]) or (g < 0.0 and alpha[i, j] > 0.0):
                worst = max(worst, abs(g))
                step = g / curvature if curvature > 0.0 else g * np.inf
                new = min(max(alpha[i, j] + step, 0.0), box[i])
                change = new - alpha[i, j]
                alpha[i, j] = new
                for q in range(F.shape[1]):
                    F[y, q] += change * k[q]
                    F[j, q] -= change * k[q]
    return worst


@dataclass(frozen=True)
class Solution:
    """The certificate of a solve; ``objective`` is the primal value."""

    alpha: Array
    coef: Array
    scores: Array
    objective: float
    dual_objective: float
    gap: float
    violation: float
    n_iter: int
    converged: bool


def solve(
    gram: Any,
    labels: Array,
    box: Array,
    n_classes: int,
    *,
    tol: float,
    max_iter: int,
    start: Array | None = None,
) -> Solution:
    """Solve the problem at the head of this module from alpha = ``start``, or 0.

    ``max_iter`` counts passes over all rows.
    """
    alpha = np.zeros((len(gram), n_classes))
    if start is not None:
        alpha[:] = np.minimum(start, box[:, None])
    F = _scores(gram, signed(alpha, labels))
    rng, violation, n_iter = np.random.RandomState(0), np.inf, 0
    while violation > tol and n_iter < max_iter:
        violation = _pass(gram, rng.permutation(len(gram)), labels, box, alpha, F)
        n_iter += 1
    return _certified(alpha, F, labels, box, violation, n_iter, tol)


def signed(alpha: Array, labels: Array) -> Array:
    """Return s (n_rows, n_classes): what each row adds to each w_r."""
    coef = -alpha
    coef[np.arange(len(labels)), labels] += alpha.sum(axis=1)
    return coef


def _pass(gram: Any, order: Array, labels: Array, box: Array, alpha: Array, F: Array) -> float:
    if gram.matrix is not None:
        return float(descend(gram.matrix, order, order, labels, box, alpha, F))
    worst = 0.0
    for batch in gen_batches(len(order), BATCH):
        rows = order[batch]
        K = np.ascontiguousarray(gram.strip(rows), dtype=np.float64)
        found = descend(K, np.arange(len(rows)), rows, labels, box, alpha, F)
        worst = max(worst, float(found))
    return worst


def _scores(gram: Any, coef: Array) -> Array:
    """Return F = s' K, (n_classes, n_rows)."""
    F = np.zeros(coef.T.shape)
    for r, column in enumerate(coef.T):
        used = np.flatnonzero(column)
        if len(used):
            gram.add(used, np.ascontiguousarray(column[used]), F[r])
    return F


def _certified(
    alpha: Array, F: Array, labels: Array, box: Array, violation: float, n_iter: int, tol: float
) -> Solution:
    coef, own = signed(alpha, labels), F[labels, np.arange(len(labels))]
    hinge = np.maximum(0.0, 1.0 - own + F)
    hinge[labels, np.arange(len(labels))] = 0.0
    norm2 = max(0.0, float((coef.T * F).sum()))
    primal = norm2 / 2 + float((hinge @ box).sum())
    dual = float(alpha.sum()) - norm2 / 2
    gap = max(0.0, primal - dual) / max(primal, np.finfo(float).tiny)
    return Solution(alpha, coef, F.T.copy(), primal, dual, gap, violation, n_iter, violation <= tol)
