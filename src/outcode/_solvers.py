"""Compiled inner loops: numbers in, numbers out.

One problem serves every support vector machine here. With the signed dual variables
s_i = alpha_i y_i (the ``dual_coef`` of the rest of the library),

    minimise   1/2 s'(K + shift) s - y's     subject to  lo_i <= s_i <= hi_i   [and sum_i s_i = 0]

where lo_i = min(0, y_i C_i), hi_i = max(0, y_i C_i). shift = 1 puts the bias into the kernel,
shift = 0 with the sum constraint is LIBSVM's free bias, shift = 0 without it is no bias. A row
with C_i = 0 (another class, another fold) can never move, and its margin comes out all the same.

``g`` is the gradient f - y. Row i may go up while s_i < hi_i (violation -g_i), and down while
s_i > lo_i (violation g_i). The masks ``up`` and ``down`` are 0 where a row may and HUGE where it
may not, so that choosing a row is a maximum without a branch. LLVM does not vectorise a maximum
with its place; it does vectorise LANES maxima side by side, which is what the loops do.
"""

from __future__ import annotations

from typing import Any

import numba
import numpy as np

from outcode._checks import Array

LANES = 256
HUGE = 1e30
#: Smallest curvature along a step: kernels that are not positive definite have negative ones.
TINY = 1e-12

FAST = {"contract", "reassoc", "nsz", "arcp", "nnan", "ninf"}
compiled = numba.njit(nogil=True, cache=True, error_model="numpy")
compiled_fast = numba.njit(nogil=True, cache=True, error_model="numpy", fastmath=FAST)


@compiled_fast
def update(g: Any, up: Any, down: Any, a: Any, row_a: Any, b: Any, row_b: Any, c: Any) -> Any:
    """g += a row_a + b row_b + c, and in the same pass the rows that violate most each way.

    Returns (i, -g_i) for the row that gains most by going up and (j, g_j) for down.
    """
    n = g.shape[0]
    none = g.dtype.type(-HUGE)
    best_up, best_down = np.full(LANES, none), np.full(LANES, none)
    for start in range(0, n, LANES):
        width = min(LANES, n - start)
        g_, up_, down_ = (
            g[start : start + width],
            up[start : start + width],
            down[start : start + width],
        )
        a_, b_ = row_a[start : start + width], row_b[start : start + width]
        for p in range(width):
            value = g_[p] + (a * a_[p] + b * b_[p] + c)
            g_[p] = value
            x, y = -value - up_[p], value - down_[p]
            best_up[p] = x if x > best_up[p] else best_up[p]
            best_down[p] = y if y > best_down[p] else best_down[p]
    lane_up, lane_down = 0, 0
    for p in range(LANES):
        if best_up[p] > best_up[lane_up]:
            lane_up = p
        if best_down[p] > best_down[lane_down]:
            lane_down = p
    i, j = min(lane_up, n - 1), min(lane_down, n - 1)
    for p in range(lane_up, n, LANES):
        if -g[p] - up[p] > -g[i] - up[i]:
            i = p
    for p in range(lane_down, n, LANES):
        if g[p] - down[p] > g[j] - down[j]:
            j = p
    return i, -g[i] - up[i], j, g[j] - down[j]


@compiled_fast
def partner(
    g: Any, up: Any, down: Any, diagonal: Any, row: Any, i: int, first: Any, shift: Any, free: bool
) -> int:
    """Return the row that gains most when moved together with row i (second-order choice).

    With a free bias the pair moves along e_i - e_j and gains (g_j - g_i)^2 / |phi_i - phi_j|^2
    (Fan, Chen & Lin 2005). Otherwise i has moved alone by ``first``, and the gain of j is its
    remaining violation squared over the curvature left after i adapts (Steinwart, Hush & Scovel
    2011).
    """
    n = g.shape[0]
    zero, tiny, two = g.dtype.type(0.0), g.dtype.type(TINY), g.dtype.type(2.0)
    k_ii, g_i = diagonal[i], g[i]
    best = np.full(LANES, g.dtype.type(-1.0))
    for start in range(0, n, LANES):
        width = min(LANES, n - start)
        g_, up_, down_ = (
            g[start : start + width],
            up[start : start + width],
            down[start : start + width],
        )
        row_, diagonal_ = row[start : start + width], diagonal[start : start + width]
        if free:
            for p in range(width):
                v = g_[p] - down_[p] - g_i
                curve = k_ii + diagonal_[p] - two * (row_[p] + shift)
                v = v if v > zero else zero
                curve = curve if curve > tiny else tiny
                gain = v * v / curve
                best[p] = gain if gain > best[p] else best[p]
        else:
            for p in range(width):
                k = row_[p] + shift
                v = g_[p] + first * k
                x, y = -v - up_[p], v - down_[p]
                v = x if x > y else y
                v = v if v > zero else zero
                curve = diagonal_[p] * k_ii - k * k
                curve = curve if curve > tiny * k_ii else tiny * k_ii
                gain = v * v / curve
                best[p] = gain if gain > best[p] else best[p]
    lane = 0
    for p in range(LANES):
        if best[p] > best[lane]:
            lane = p
    j, most = -1, zero
    for p in range(lane, n, LANES):
        k = row[p] + shift
        if free:
            v = g[p] - down[p] - g_i
            curve = max(tiny, k_ii + diagonal[p] - two * k)
        else:
            v = g[p] + first * k
            v = max(-v - up[p], v - down[p])
            curve = max(tiny * k_ii, diagonal[p] * k_ii - k * k)
        gain = max(zero, v) * max(zero, v) / curve
        if gain > most:
            j, most = p, gain
    return j


@compiled
def pair_step(
    g_i: float, g_j: float, k_ii: float, k_jj: float, k_ij: float, low: Any, high: Any
) -> Any:
    """Return the exact minimum over the box of g.d + 1/2 d'Kd in two variables."""
    det = k_ii * k_jj - k_ij * k_ij
    if det > TINY * k_ii * k_jj:
        x, y = (k_ij * g_j - k_jj * g_i) / det, (k_ij * g_i - k_ii * g_j) / det
        if low[0] <= x <= high[0] and low[1] <= y <= high[1]:
            return x, y
    best, best_x, best_y = np.inf, 0.0, 0.0
    for edge in range(4):  # otherwise the minimum lies on an edge of the box
        if edge < 2:
            x = low[0] if edge == 0 else high[0]
            y = min(high[1], max(low[1], -(g_j + k_ij * x) / max(TINY, k_jj)))
        else:
            y = low[1] if edge == 2 else high[1]
            x = min(high[0], max(low[0], -(g_i + k_ij * y) / max(TINY, k_ii)))
        value = g_i * x + g_j * y + 0.5 * (k_ii * x * x + k_jj * y * y) + k_ij * x * y
        if value < best:
            best, best_x, best_y = value, x, y
    return best_x, best_y


@compiled
def move(s: Any, lo: Any, hi: Any, up: Any, down: Any, i: int, step: float) -> float:
    """s_i += step, landing exactly on a bound when it reaches one; returns the step made."""
    before = s[i]
    value = before + step
    if step >= hi[i] - before:
        value = hi[i]
    elif step <= lo[i] - before:
        value = lo[i]
    s[i] = value
    up[i] = 0.0 if value < hi[i] else HUGE
    down[i] = 0.0 if value > lo[i] else HUGE
    return value - before


@compiled
def choose_step(
    g: Any, s: Any, lo: Any, hi: Any, diagonal: Any, i: int, j: int, k_ij: float, free: bool
) -> Any:
    """Return the steps of rows i and j."""
    g_i, k_ii = float(g[i]), float(diagonal[i])
    if j < 0:
        return -g_i / max(TINY, k_ii), 0.0
    g_j, k_jj = float(g[j]), float(diagonal[j])
    if free:
        t = (g_j - g_i) / max(TINY, k_ii + k_jj - 2.0 * k_ij)
        t = min(t, hi[i] - s[i], s[j] - lo[j])
        return t, -t
    low, high = (lo[i] - s[i], lo[j] - s[j]), (hi[i] - s[i], hi[j] - s[j])
    return pair_step(g_i, g_j, k_ii, k_jj, k_ij, low, high)


@compiled
def masks(s: Any, lo: Any, hi: Any, up: Any, down: Any) -> None:
    """Set ``up`` and ``down`` to 0 where a row may go that way and HUGE where it may not."""
    for i in range(s.shape[0]):
        up[i] = 0.0 if s[i] < hi[i] else HUGE
        down[i] = 0.0 if s[i] > lo[i] else HUGE


@compiled
def descend(
    matrix: Any,
    diagonal: Any,
    g: Any,
    s: Any,
    lo: Any,
    hi: Any,
    shift: float,
    free: bool,
    tol: float,
    max_iter: int,
) -> int:
    """Sequential minimal optimisation of the problem above, two rows at a time.

    The row that violates most goes first, its partner is chosen by second-order gain, the pair is
    solved exactly. Stops when the largest violation (with a free bias: the sum of the largest
    violations up and down, as LIBSVM) is at most ``tol``. ``g`` and ``s`` are changed in place;
    one iteration costs two rows of ``matrix``. Returns the number of iterations.
    """
    n = g.shape[0]
    kind = g.dtype.type
    up, down = np.empty(n, g.dtype), np.empty(n, g.dtype)
    masks(s, lo, hi, up, down)
    i_up, v_up, i_down, v_down = update(
        g, up, down, kind(0), matrix[0], kind(0), matrix[0], kind(0)
    )
    for iteration in range(max_iter):
        violation = v_up + v_down if free else max(v_up, v_down)
        if violation <= tol:
            return iteration
        i = i_up if free or v_up >= v_down else i_down
        first = min(hi[i], max(lo[i], s[i] - g[i] / max(TINY, diagonal[i]))) - s[i]
        up[i] = down[i] = HUGE  # i is no partner of itself; move() sets its masks again
        j = partner(g, up, down, diagonal, matrix[i], i, kind(first), kind(shift), free)
        if j < 0 and free:
            j = i_down
        k_ij = float(matrix[i, max(j, 0)]) + shift
        d_i, d_j = choose_step(g, s, lo, hi, diagonal, i, j, k_ij, free)
        d_i = move(s, lo, hi, up, down, i, d_i)
        if j >= 0:
            d_j = move(s, lo, hi, up, down, j, d_j)
        else:
            j = i
        c = shift * (d_i + d_j)
        i_up, v_up, i_down, v_down = update(
            g, up, down, kind(d_i), matrix[i], kind(d_j), matrix[j], kind(c)
        )
    return max_iter


@compiled_fast
def add_rows(matrix: Any, index: Any, coef: Any, out: Any) -> None:
    """out += coef @ matrix[index], eight rows at a time, accumulated in float64."""
    n, m = out.shape[0], index.shape[0]
    for start in range(0, n, 4096):
        stop = min(n, start + 4096)
        o = out[start:stop]
        k = 0
        while k + 8 <= m:
            r0, r1 = matrix[index[k]][start:stop], matrix[index[k + 1]][start:stop]
            r2, r3 = matrix[index[k + 2]][start:stop], matrix[index[k + 3]][start:stop]
            r4, r5 = matrix[index[k + 4]][start:stop], matrix[index[k + 5]][start:stop]
            r6, r7 = matrix[index[k + 6]][start:stop], matrix[index[k + 7]][start:stop]
            c0, c1, c2, c3 = coef[k], coef[k + 1], coef[k + 2], coef[k + 3]
            c4, c5, c6, c7 = coef[k + 4], coef[k + 5], coef[k + 6], coef[k + 7]
            for p in range(stop - start):
                left = (c0 * r0[p] + c1 * r1[p]) + (c2 * r2[p] + c3 * r3[p])
                right = (c4 * r4[p] + c5 * r5[p]) + (c6 * r6[p] + c7 * r7[p])
                o[p] += left + right
            k += 8
        while k < m:
            r, c = matrix[index[k]][start:stop], coef[k]
            for p in range(stop - start):
                o[p] += c * r[p]
            k += 1


@compiled
def gather(matrix: Any, index: Any, out: Any) -> None:
    """out = matrix[index][:, index]; ``index`` unsigned, so that no place is checked for a sign."""
    m = index.shape[0]
    for p in range(m):
        row, target = matrix[index[p]], out[p]
        for q in range(m):
            target[q] = row[index[q]]


def violations(g: Array, s: Array, lo: Array, hi: Array) -> tuple[Array, Array]:
    """Return how much each row violates going up and going down; -HUGE where it may not."""
    return np.where(s < hi, -g, -HUGE), np.where(s > lo, g, -HUGE)
