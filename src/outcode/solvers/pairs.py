"""Probabilities of all classes from those of pairs, one row after the other, in compiled code.

Problem    min_p  sum_{i != j} (r_ji p_i - r_ij p_j)^2  with sum p = 1 (Wu, Lin & Weng 2004, second
           method): Q p is constant, with Q_ii = D_i = sum_j r_ji^2 and Q_ij = -W_ij = -r_ji r_ij
Algorithm  conjugate gradients on (Q + ee') x = e, p ~ x, with D as preconditioner: every class
           meets every other, so that a dozen products with W suffice. They find p to a share of
           its largest entry; D_i p_i = p'Qp + sum_j W_ij p_j, a sum of positive terms, then gives
           every entry to a share of its own
Stopping   no entry moves by more than a share TOL of itself; a row that does not come there, as
           with pairs that are certain, is left to the caller
Cost       a dozen times k^2 for k classes, where elimination takes k^3 / 3
"""

from __future__ import annotations

from typing import Any

import numba
import numpy as np

from outcode._checks import Array

#: Steps at most, and the share of the first residual, squared, at which they end.
STEPS, SMALL = 60, 1e-25
#: Sweeps at most, the relative change at which they end, and what counts as nothing.
SWEEPS, TOL, NOTHING = 30, 1e-12, 1e-13
#: Vectors are as long as a multiple of this, so that no rest is done one by one.
LANES = 16

FAST = {"contract", "reassoc", "nsz", "arcp"}  # what is not a number must show
options: Any = {"nogil": True, "cache": True, "error_model": "numpy", "fastmath": FAST}
lean = numba.njit(**{**options, "_nrt": False})


@lean
def fill(z: Any, e: Any, first: Any, second: Any, W: Any, D: Any, parts: Any) -> float:
    """Write W and D from r_ij = 1 / (1 + exp(z)), e = exp(-|z|); return the smallest of D."""
    for i in range(W.shape[0]):
        for a in range(4):
            parts[a, i] = 0.0
        for j in range(W.shape[1]):
            W[i, j] = 0.0
    for s in range(first.shape[0]):
        i, j = first[s], second[s]
        likely = 1.0 / (1.0 + e[s])
        rest = e[s] * likely
        W[i, j] = W[j, i] = likely * rest
        # four sums in turn: the next pair is of the same class, and would wait for this one
        parts[s & 3, i] += likely * likely if z[s] > 0.0 else rest * rest
        parts[s & 3, j] += rest * rest if z[s] > 0.0 else likely * likely
    least = np.inf
    for i in range(W.shape[0]):
        D[i] = (parts[0, i] + parts[1, i]) + (parts[2, i] + parts[3, i])
        least = min(least, D[i])
    return least


@lean
def multiply(W: Any, D: Any, x: Any, out: Any) -> float:
    """out = W x; return x'Qx."""
    energy = 0.0
    for i in range(W.shape[0]):
        total, row = 0.0, W[i]
        for j in range(W.shape[1]):
            total += row[j] * x[j]
        out[i] = total
        energy += x[i] * (D[i] * x[i] - total)
    return energy


@lean
def conjugate_gradients(W: Any, D: Any, x: Any, r: Any, d: Any, y: Any) -> None:
    """Solve (Q + ee') x = e; the others are memory."""
    k = W.shape[0]
    sum_d, goal, norm = 0.0, 0.0, 0.0
    for i in range(k):  # the first direction: D^-1 e
        x[i], r[i], d[i] = 0.0, 1.0, 1.0 / D[i]
        norm += d[i]
        sum_d += d[i]
    for step in range(STEPS):
        length = norm / (multiply(W, D, d, y) + sum_d * sum_d)
        new = 0.0
        for i in range(k):
            x[i] += length * d[i]
            r[i] -= length * (D[i] * d[i] - y[i] + sum_d)
            new += r[i] * r[i] / D[i]
        if step == 0:
            goal = SMALL * new
        if not new > goal:
            break
        share, norm, sum_d = new / norm, new, 0.0
        for i in range(k):
            d[i] = r[i] / D[i] + share * d[i]
            sum_d += d[i]


@lean
def sweeps(W: Any, D: Any, p: Any, y: Any) -> bool:
    """Bring every entry of p to a share of its own; return whether it came there."""
    k = W.shape[0]
    for _ in range(SWEEPS):
        total, most = 0.0, 0.0
        energy = max(multiply(W, D, p, y), 0.0)
        for i in range(k):
            y[i] = (energy + y[i]) / D[i]
            total += y[i]
        for i in range(k):
            new = y[i] / total
            most = max(most, abs(new - p[i]) / (new + NOTHING))
            p[i] = new
        if most <= TOL:
            return True
    return False


@lean
def couple_rows(
    z: Any, e: Any, first: Any, second: Any, W: Any, vectors: Any, out: Any, solved: Any
) -> None:
    """Couple the pairs of every row; see :func:`couple`."""
    k = W.shape[0]
    D, p, r, d, y = vectors[0], vectors[1], vectors[2], vectors[3], vectors[4]
    for row in range(z.shape[0]):
        solved[row] = False
        if fill(z[row], e[row], first, second, W, D, vectors[1:]) > 1e-200:
            conjugate_gradients(W, D, p, r, d, y)
            total = 0.0
            for i in range(k):
                p[i] = max(p[i], 0.0)
                total += p[i]
            for i in range(k):
                p[i] /= total
            solved[row] = sweeps(W, D, p, y)
            for i in range(k):
                out[row, i] = p[i]


def couple(z: Array, first: Array, second: Array, n_classes: int) -> tuple[Array, Array]:
    """Return p (n_samples, n_classes) and which rows came to their end.

    Parameters
    ----------
    z : (n_samples, n_pairs) log of (1 - r) / r, r the probability of the first class of a pair
    first, second : (n_pairs,) the classes of each pair, no pair twice

    Examples
    --------
    >>> z = np.log([[1 / 2, 1 / 4, 1 / 2]])  # of 4/7, 2/7 and 1/7
    >>> p, solved = couple(z, np.array([0, 0, 1]), np.array([1, 2, 2]), 3)
    >>> (7 * p).round(9).tolist(), solved.tolist()
    ([[4.0, 2.0, 1.0]], [True])
    """
    z = np.ascontiguousarray(z)
    e = np.abs(z)
    np.exp(np.negative(e, out=e), out=e)
    width = -(-n_classes // LANES) * LANES
    W, vectors = np.empty((n_classes, width)), np.zeros((5, width))
    out, solved = np.empty((len(z), n_classes)), np.empty(len(z), dtype=bool)
    sides = (side.astype(np.uint64) for side in (first, second))  # no place is checked for a sign
    couple_rows(z, e, *sides, W, vectors, out, solved)
    return out, solved
