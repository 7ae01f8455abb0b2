"""Compiled inner loops of Weston & Watkins' machine: numbers in, numbers out."""

from __future__ import annotations

from typing import Any

import numba
import numpy as np

#: Curvature at or below this times the largest is taken for a linear problem.
FLAT = 1e-14
#: Samples with at least this share of the largest violation are worked on one after the other.
SHARE = 0.3

FAST = {"contract", "reassoc", "nsz", "arcp", "nnan", "ninf"}
compiled = numba.njit(nogil=True, cache=True, error_model="numpy")
compiled_fast = numba.njit(nogil=True, cache=True, error_model="numpy", fastmath=FAST)


@compiled
def total(v: Any, box: float) -> float:
    """Return the s with s = sum_r clip(v_r - s, 0, box), v sorted to fall.

    The right side minus s falls strictly in s and is linear between the points v_r (a class enters)
    and v_r - box (it reaches its bound). Both fall with r, so two counters walk over them in order
    (Wang & Scott 2021 sort them together). With ``entered`` classes in, ``bounded`` of them at
    the bound, s = (sum of the v between + box bounded) / (1 + entered - bounded).
    """
    k, entered, bounded, between = v.shape[0], 0, 0, 0.0
    while True:
        s = (between + box * bounded) / (1 + entered - bounded)
        enters = v[entered] if entered < k else -np.inf
        reaches = v[bounded] - box if bounded < entered else -np.inf
        if s >= max(enters, reaches):
            return s
        if enters >= reaches:
            between += v[entered]
            entered += 1
        else:
            between -= v[bounded]
            bounded += 1


@compiled
def reduced(g: Any, alpha: Any, own: int, box: float, curvature: float, out: Any) -> None:
    """Solve the problem of one sample exactly, all others held.

    max over 0 <= a_r <= box, r != y   sum_r b_r a_r - A/2 (sum_r a_r^2 + (sum_r a_r)^2), with
    b_r = 1 - (g_y - g_r) + A (a_r + sum a) the gradient without this sample. At the optimum
    a_r = clip(b_r / A - s, 0, box) with s = sum_r a_r. With A = 0 it is linear.
    """
    k, before = g.shape[0], alpha.sum()
    v, at = np.empty(k - 1), 0
    for r in range(k):
        lack = 1.0 - g[own] + g[r]
        if r == own:
            out[r] = 0.0
        elif curvature <= 0.0:
            out[r] = box if lack > 0.0 else 0.0
        else:
            out[r] = lack / curvature + alpha[r] + before
            v[at] = out[r]
            at += 1
    if curvature <= 0.0:
        return
    s = total(-np.sort(-v), box)
    for r in range(k):
        if r != own:
            out[r] = min(max(out[r] - s, 0.0), box)


@compiled_fast
def violation_of(g: Any, alpha: Any, own: int, box: float) -> float:
    """Return the largest gradient that a step could follow: d_r = 1 - (g_y - g_r)."""
    worst = 0.0
    for r in range(g.shape[0]):
        lack = 1.0 - g[own] + g[r]
        up = lack if alpha[r] < box else 0.0
        down = -lack if alpha[r] > 0.0 else 0.0
        worst = max(worst, max(up, down) if r != own else 0.0)
    return worst


@compiled_fast
def violations(G: Any, alpha: Any, labels: Any, box: Any, out: Any) -> None:
    """Write the violation of every sample, G and alpha (n_classes, n).

    The own class of a sample stands at its bound, alpha = box, with a lack of 1: it never counts.
    """
    k, n = G.shape
    for start in range(0, n, 1024):
        width = min(1024, n - start)
        own, most, bound = np.empty(width), np.zeros(width), box[start : start + width]
        for p in range(width):
            own[p] = 1.0 - G[labels[start + p], start + p]
        for r in range(k):
            g, a = G[r, start : start + width], alpha[r, start : start + width]
            for p in range(width):
                lack = own[p] + g[p]
                up = lack if a[p] < bound[p] else 0.0
                down = -lack if a[p] > 0.0 else 0.0
                most[p] = max(most[p], up, down)
        for p in range(width):
            out[start + p] = most[p]


@compiled_fast
def add_multiple(out: Any, a: Any, x: Any, c: Any) -> None:
    """out += a x + c."""
    for p in range(out.shape[0]):
        out[p] += a * x[p] + c


@compiled
def descend(
    matrix: Any,
    diagonal: Any,
    G: Any,
    alpha: Any,
    labels: Any,
    box: Any,
    shift: float,
    tol: float,
    max_iter: int,
) -> int:
    """Solve the dual on a square of kernel values, one sample at a time.

    Samples with at least ``SHARE`` of the largest violation are taken in order of their
    violation, each looked at again when its turn comes; then the violations of all are measured
    again. Stops when the largest is at most ``tol``. ``shift`` is added to every kernel value but
    ``diagonal``, which has it. ``G`` and ``alpha`` (n_classes, n) are changed in place; returns
    the number of steps. alpha of a sample's own class is its box, which means nothing.
    """
    k, n = G.shape
    psi, g, before, after = np.empty(n), np.empty(k), np.empty(k), np.empty(k)
    flat, steps = FLAT * np.abs(diagonal).max(), 0
    while steps < max_iter:
        violations(G, alpha, labels, box, psi)
        largest = psi.max()
        if largest <= tol:
            return steps
        least, before_pass = max(tol, SHARE * largest), steps
        chosen = np.flatnonzero(psi > least)
        for p in chosen[np.argsort(-psi[chosen])]:
            for r in range(k):
                g[r], before[r] = G[r, p], alpha[r, p]
            own = labels[p]
            before[own] = 0.0
            if violation_of(g, before, own, box[p]) <= least:
                continue
            reduced(g, before, own, box[p], diagonal[p] if diagonal[p] > flat else 0.0, after)
            for r in range(k):  # tau_r = -alpha_r, and for the own class their sum
                change = before[r] - after[r] if r != own else after.sum() - before.sum()
                if r != own:
                    alpha[r, p] = after[r]
                if change != 0.0:
                    a, c = G.dtype.type(change), G.dtype.type(change * shift)
                    add_multiple(G[r], a, matrix[p], c)
            steps += 1
            if steps == max_iter:
                break
        if steps == before_pass:  # what is left of the largest violation is rounding
            return steps
    return steps
