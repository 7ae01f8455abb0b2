"""Compiled inner loops of SPOC: numbers in, numbers out. [CS02] Section 6"""

from __future__ import annotations

from typing import Any

import numba
import numpy as np

HUGE = 1e30
#: Curvature at or below this times the largest is taken for a linear problem.
FLAT = 1e-14
#: Samples with at least this share of the largest violation are worked on one after the other.
SHARE = 0.5

FAST = {"contract", "reassoc", "nsz", "arcp", "nnan", "ninf"}
compiled = numba.njit(nogil=True, cache=True, error_model="numpy")
compiled_fast = numba.njit(nogil=True, cache=True, error_model="numpy", fastmath=FAST)


# --- one sample ---


@compiled
def threshold(D: Any, mass: float) -> float:
    """Return the theta with sum_r max(0, D_r - theta) = mass: theta_0 of [CS02] Eq. 46.

    Figure 3 finds it by sorting. This is the search without a sort (Michelot 1986): with all
    classes taken theta is too small; drop the classes below it until none is left to drop. A pass
    costs k, and two or three are enough.
    """
    most = D.max()
    theta, count = -np.inf, D.shape[0] + 1
    while True:
        total, kept = 0.0, 0
        for r in range(D.shape[0]):
            if D[r] - most > theta:
                total += D[r] - most
                kept += 1
        if kept >= count or kept == 0:  # more than before: rounding, where D_r is about theta
            return theta + most
        theta, count = (total - mass) / kept, kept


@compiled
def reduced(g: Any, eta: Any, mass: float, curvature: float, out: Any) -> None:
    """Solve the reduced problem of one sample exactly, all others held. [CS02] Eq. 37-39

    max over tau  -A/2 tau.tau - B.tau  s.t.  tau <= c 1_y, tau.1 = 0, with A = K_pp / beta and
    B = g - A tau. In eta = c 1_y - tau it is the projection of D = eta + g / A on the simplex of
    mass c: out = max(0, D - theta). With A = 0 the problem is linear: all mass on argmax g.
    """
    k = g.shape[0]
    if curvature <= 0.0:
        out[:] = 0.0
        out[np.argmax(g)] = mass
        return
    for r in range(k):
        out[r] = eta[r] + g[r] / curvature
    theta = threshold(out, mass)
    for r in range(k):
        out[r] = max(0.0, out[r] - theta)


# --- a square ---


@compiled_fast
def violations(G: Any, eta: Any, out: Any) -> None:
    """out_i = psi_i = max_r G_ir - min_{r: eta_ir > 0} G_ir; negative where all eta are 0."""
    k, n = G.shape
    huge = G.dtype.type(HUGE)
    for start in range(0, n, 1024):
        width = min(1024, n - start)
        top, low = np.full(width, -huge), np.full(width, huge)
        for r in range(k):
            g, e = G[r, start : start + width], eta[r, start : start + width]
            for p in range(width):
                top[p] = max(top[p], g[p])
                low[p] = min(low[p], g[p] if e[p] > 0.0 else huge)
        for p in range(width):
            out[start + p] = top[p] - low[p]


@compiled
def violation_of(g: Any, eta: Any) -> float:
    """Return psi of one sample."""
    top, low = -HUGE, HUGE
    for r in range(g.shape[0]):
        top = max(top, g[r])
        low = min(low, g[r] if eta[r] > 0.0 else HUGE)
    return top - low


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
    eta: Any,
    mass: Any,
    beta: float,
    shift: float,
    tol: float,
    max_iter: int,
) -> int:
    """Solve the dual on a square of kernel values, one sample at a time. [CS02] Figure 4

    Samples are chosen by their violation: those with at least ``SHARE`` of the largest are
    taken in order of their violation, each looked at again when its turn comes; then the
    violations of all are measured anew. Only the classes whose eta changed are updated in ``G``:
    a step costs one row of ``matrix`` times two or three classes. Stops when the largest
    violation is at most ``tol``. ``shift`` is added to every kernel value but ``diagonal``, which
    has it. ``G`` and ``eta`` (n_classes, n) are changed in place; returns the number of steps.
    """
    k, n = G.shape
    psi = np.empty(n, G.dtype)
    g, before, after = np.empty(k), np.empty(k), np.empty(k)
    flat, steps = FLAT * np.abs(diagonal).max(), 0
    while steps < max_iter:
        violations(G, eta, psi)
        largest = psi.max()
        if largest <= tol:
            return steps
        least, before_pass = max(tol, SHARE * largest), steps
        chosen = np.flatnonzero(psi > least)
        for p in chosen[np.argsort(-psi[chosen])]:
            for r in range(k):
                g[r], before[r] = G[r, p], eta[r, p]
            if violation_of(g, before) <= least:
                continue
            curvature = diagonal[p] / beta if diagonal[p] > flat else 0.0
            reduced(g, before, mass[p], curvature, after)
            for r in range(k):
                if after[r] != before[r]:
                    eta[r, p] = after[r]
                    a = (before[r] - after[r]) / beta
                    add_multiple(G[r], G.dtype.type(a), matrix[p], G.dtype.type(a * shift))
            steps += 1
            if steps == max_iter:
                break
        if steps == before_pass:  # what is left of the largest violation is rounding
            return steps
    return steps


# --- the linear kernel ---


@compiled
def sweep(
    order: Any,
    starts: Any,
    columns: Any,
    values: Any,
    norms: Any,
    M: Any,
    eta: Any,
    b: Any,
    mass: Any,
    beta: float,
    tol: float,
    psi: Any,
) -> int:
    """Visit samples in ``order`` and solve the reduced problem of each that violates.

    The samples are the rows of a CSR matrix (``starts``, ``columns``, ``values``), ``norms`` their
    squared lengths; ``M`` (n_features, n_classes) is kept up to date, so that a visit costs the
    sample's entries times the classes, whatever the number of samples (Keerthi et al. 2008).
    ``eta``, ``b`` (n, n_classes). The violation each sample had when visited goes to ``psi``;
    returns the number of steps.
    """
    k = M.shape[1]
    g, after = np.empty(k), np.empty(k)
    flat, steps = FLAT * norms.max(), 0
    for p in order:
        g[:] = b[p]
        for e in range(starts[p], starts[p + 1]):
            add_multiple(g, values[e], M[columns[e]], 0.0)
        psi[p] = violation_of(g, eta[p])
        if psi[p] <= tol:
            continue
        reduced(g, eta[p], mass[p], norms[p] / beta if norms[p] > flat else 0.0, after)
        for r in range(k):
            change = (eta[p, r] - after[r]) / beta
            if change != 0.0:
                eta[p, r] = after[r]
                for e in range(starts[p], starts[p + 1]):
                    M[columns[e], r] += change * values[e]
        steps += 1
    return steps
