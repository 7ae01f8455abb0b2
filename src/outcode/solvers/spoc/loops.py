"""Compiled inner loops of SPOC: numbers in, numbers out. [CS02] Section 6"""

from __future__ import annotations

from typing import Any

import numpy as np

from outcode.solvers.svm.loops import add_multiple, compiled, larger, lean, pairs, smaller

HUGE = 1e30
#: Curvature at or below this times the largest is taken for a linear problem.
FLAT = 1e-14
#: Two classes are left once this share of their largest violation is left, or after so many steps.
PART, STAY = 0.6, 64


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


@lean
def violations(G: Any, eta: Any, out: Any, least: Any) -> None:
    """out_i = psi_i = max_r G_ir - min_{r: eta_ir > 0} G_ir; negative where all eta are 0.

    ``least`` is memory for the minimum.
    """
    n = out.shape[0]
    for i in range(n):
        out[i] = -HUGE
        least[i] = HUGE
    for r in range(G.shape[0]):
        for p in range(n):
            out[p] = larger(out[p], G[r, p])
            least[p] = smaller(least[p], G[r, p] + HUGE * (eta[r, p] <= 0.0))
    for q in range(n):
        out[q] -= least[q]


@compiled
def violation_of(g: Any, eta: Any) -> float:
    """Return psi of one sample."""
    top, low = -HUGE, HUGE
    for r in range(g.shape[0]):
        top = max(top, g[r])
        low = min(low, g[r] if eta[r] > 0.0 else HUGE)
    return top - low


@lean
def descend(
    matrix: Any,
    diagonal: Any,
    G: Any,
    eta: Any,
    beta: float,
    shift: float,
    tol: float,
    max_iter: int,
    memory: Any,
) -> int:
    """Solve the dual on a square of kernel values, two classes and two samples at a time.

    Moving delta_i of eta_i from class b to class a, with all else held, is the binary problem

        minimise  1/2 delta' K delta - beta/2 (G_a - G_b)'delta   s.t.  -eta_ia <= delta_i <= eta_ib

    whose steps take two samples, the second by its second-order gain
    (:func:`outcode.solvers.svm.loops.pairs`): one sample alone ([CS02] Figure 4) shifts a score as
    a whole, which the next one undoes. The classes are those of the sample that violates most; they
    are left at ``PART`` of that violation, or after about ``STAY`` steps. Stops when the largest
    violation is at most ``tol``. ``shift`` is added to every kernel value but ``diagonal``, which
    has it. ``G`` and ``eta`` (n_classes, n) are changed in place, ``memory`` is (8, n); returns the
    number of steps.
    """
    n = G.shape[1]
    g, s, lo, hi = memory[0], memory[1], memory[2], memory[3]
    psi, up, down, gain = memory[4], memory[5], memory[6], memory[7]
    steps = 0
    while steps < max_iter:
        violations(G, eta, psi, g)
        worst = 0
        for i in range(n):
            if psi[i] > psi[worst]:
                worst = i
        largest = psi[worst]
        if largest <= tol:
            return steps
        a = 0
        b = 0
        low = HUGE
        for r in range(G.shape[0]):
            if G[r, worst] > G[a, worst]:
                a = r
            if eta[r, worst] > 0.0 and G[r, worst] < low:
                b = r
                low = G[r, worst]
        for p in range(n):
            g[p] = 0.5 * beta * (G[b, p] - G[a, p])
            s[p] = 0.0
            lo[p] = -eta[a, p]
            hi[p] = eta[b, p]
        enough = 0.5 * beta * larger(0.5 * tol, PART * largest)
        most = min(STAY + 4 * G.shape[0], max_iter - steps)
        made = pairs(matrix, diagonal, g, s, lo, hi, n, shift, False, enough, most, up, down, gain)
        if made == 0:
            return steps
        for q in range(n):
            change = g[q] / beta - 0.5 * (G[b, q] - G[a, q])  # K delta / beta
            G[a, q] -= change
            G[b, q] += change
            eta[a, q] += s[q]
            eta[b, q] -= s[q]
        steps += made
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
