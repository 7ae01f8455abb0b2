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

With a free bias two rows move at a time (:func:`descend_pairs`). Without the sum constraint a block
of rows does (:func:`descend_blocks`): what a step costs is reading rows of K from main memory, and
a block is solved from 16 x 16 of its values before its rows are read, eight side by side.
"""

from __future__ import annotations

from typing import Any

import numba
import numpy as np

from outcode._checks import Array

LANES = 256
HUGE = 1e30
#: Rows that move together, and the share of the largest gain that takes a row along.
BLOCK, GAIN = 16, 0.3
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
def descend_pairs(
    matrix: Any, diagonal: Any, g: Any, s: Any, lo: Any, hi: Any, tol: float, max_iter: int
) -> int:
    """Sequential minimal optimisation of the problem with a free bias, two rows at a time.

    The row that violates most upwards goes first, its partner is chosen by second-order gain, the
    pair is solved exactly. Stops when the sum of the largest violations up and down is at most
    ``tol``, as LIBSVM. ``g`` and ``s`` are changed in place; one iteration costs two rows of
    ``matrix``. Returns the number of iterations.
    """
    n = g.shape[0]
    kind = g.dtype.type
    up, down = np.empty(n, g.dtype), np.empty(n, g.dtype)
    masks(s, lo, hi, up, down)
    i, v_up, i_down, v_down = update(g, up, down, kind(0), matrix[0], kind(0), matrix[0], kind(0))
    for iteration in range(max_iter):
        if v_up + v_down <= tol:
            return iteration
        up[i] = down[i] = HUGE  # i is no partner of itself; move() sets its masks again
        j = partner(g, up, down, diagonal, matrix[i], i, kind(0), kind(0), True)
        j = i_down if j < 0 else j
        d_i, d_j = choose_step(g, s, lo, hi, diagonal, i, j, float(matrix[i, j]), True)
        d_i = move(s, lo, hi, up, down, i, d_i)
        d_j = move(s, lo, hi, up, down, j, d_j)
        i, v_up, i_down, v_down = update(
            g, up, down, kind(d_i), matrix[i], kind(d_j), matrix[j], kind(0)
        )
    return max_iter


@compiled_fast
def gains(
    g: Any, up: Any, down: Any, diagonal: Any, row: Any, i: int, first: Any, shift: Any, best: Any
) -> None:
    """Write each lane's largest second-order gain (see :func:`partner`), up and down apart."""
    zero, one, tiny = g.dtype.type(0.0), g.dtype.type(1.0), g.dtype.type(TINY)
    k_ii = diagonal[i]
    best_up, best_down = best[0], best[1]
    best_up[:], best_down[:] = zero, zero
    for start in range(0, g.shape[0], LANES):
        width = min(LANES, g.shape[0] - start)
        g_, up_, down_ = (
            g[start : start + width],
            up[start : start + width],
            down[start : start + width],
        )
        row_, diagonal_ = row[start : start + width], diagonal[start : start + width]
        for p in range(width):
            k = row_[p] + shift
            v = g_[p] + first * k
            x, y = -v - up_[p], v - down_[p]
            x, y = x if x > zero else zero, y if y > zero else zero
            curve = diagonal_[p] * k_ii - k * k
            inverse = one / (curve if curve > tiny * k_ii else tiny * k_ii)
            x, y = x * x * inverse, y * y * inverse
            best_up[p] = x if x > best_up[p] else best_up[p]
            best_down[p] = y if y > best_down[p] else best_down[p]


@compiled
def take(
    g: Any,
    sign: int,
    mask: Any,
    diagonal: Any,
    row: Any,
    first: float,
    shift: float,
    best: Any,
    block: Any,
    m: int,
    most: int,
) -> int:
    """Add the best row of each lane that gains enough to the block, up to ``most`` rows.

    ``block[0]`` is the row that goes first, m rows are in it already; returns how many are then.
    """
    n, k_ii = g.shape[0], diagonal[block[0]]
    top = np.argmax(best)
    for t in range(LANES):
        lane = (top + t) % LANES
        if m >= most or best[top] <= 0.0:
            return m
        if best[lane] < GAIN * best[top]:
            continue
        j, largest = -1, 0.0
        for p in range(lane, n, LANES):
            k = row[p] + shift
            v = max(0.0, sign * (g[p] + first * k) - mask[p])
            gain = v * v / max(TINY * k_ii, diagonal[p] * k_ii - k * k)
            if gain > largest:
                j, largest = p, gain
        if j >= 0:
            block[m] = j
            m += 1
    return m


@compiled
def solve_block(square: Any, g: Any, low: Any, high: Any, tol: float, step: Any) -> None:
    """Minimise g.d + 1/2 d'Kd over a small box by pairs, as :func:`partner` chooses them.

    Stops when the largest violation is at most ``tol`` or a tenth of what it was: solving a block
    further than its surroundings is wasted. ``step`` is d, ``g`` the gradient there.
    """
    m = g.shape[0]
    step[:] = 0.0
    for iteration in range(4 * m):
        i, worst = -1, 0.0
        for a in range(m):
            v = -g[a] if step[a] < high[a] else 0.0
            v = max(v, g[a]) if step[a] > low[a] else v
            if v > worst:
                i, worst = a, v
        if iteration == 0:
            tol = max(tol, 0.1 * worst)
        if i < 0 or worst <= tol:
            return
        k_ii = max(TINY, square[i, i])
        first = min(high[i], max(low[i], step[i] - g[i] / k_ii)) - step[i]
        j, largest = -1, 0.0
        for a in range(m):
            v = g[a] + first * square[i, a]
            v = max(-v if step[a] < high[a] else 0.0, v if step[a] > low[a] else 0.0)
            gain = v * v / max(TINY * k_ii, square[a, a] * k_ii - square[i, a] ** 2)
            if a != i and gain > largest:
                j, largest = a, gain
        d_i, d_j = first, 0.0
        if j >= 0:
            least = low[i] - step[i], low[j] - step[j]
            most = high[i] - step[i], high[j] - step[j]
            k = square[i, i], square[j, j], square[i, j]
            d_i, d_j = pair_step(g[i], g[j], k[0], k[1], k[2], least, most)
            step[j] = min(high[j], max(low[j], step[j] + d_j))
        step[i] = min(high[i], max(low[i], step[i] + d_i))
        for a in range(m):
            g[a] += d_i * square[i, a] + d_j * square[max(j, 0), a]


@compiled
def move_block(
    matrix: Any,
    diagonal: Any,
    g: Any,
    s: Any,
    box: Any,
    masks_: Any,
    block: Any,
    shift: float,
    tol: float,
    coef: Any,
) -> Any:
    """Solve the problem of the block's rows and move them; returns how many did, and sum d.

    ``block`` and ``coef`` then begin with the rows that moved and their steps.
    """
    m, (lo, hi) = block.shape[0], box
    square, gradient, step = np.empty((m, m)), np.empty(m), np.empty(m)
    low, high = np.empty(m), np.empty(m)
    for a in range(m):
        i = block[a]
        row = matrix[i]
        for b in range(m):
            square[a, b] = row[block[b]] + shift
        square[a, a], gradient[a] = diagonal[i], g[i]
        low[a], high[a] = lo[i] - s[i], hi[i] - s[i]
    solve_block(square, gradient, low, high, tol, step)
    moved, total = 0, 0.0
    for a in range(m):
        if step[a] != 0.0:
            d = move(s, lo, hi, masks_[0], masks_[1], block[a], step[a])
            block[moved], coef[moved] = block[a], d
            moved, total = moved + 1, total + d
    return moved, total


@compiled
def descend_blocks(
    matrix: Any,
    diagonal: Any,
    g: Any,
    s: Any,
    lo: Any,
    hi: Any,
    shift: float,
    tol: float,
    max_iter: int,
) -> int:
    """Decomposition of the problem without the sum constraint, up to BLOCK rows at a time.

    The row that violates most goes first; the rows with the largest second-order gains beside it
    go along, half of them up and half down, for moving one side alone shifts the bias and is
    undone by the other. Stops when the largest violation is at most ``tol``. ``g`` and ``s`` are
    changed in place. Returns the number of steps, two rows of ``matrix`` each.
    """
    n, steps = g.shape[0], 0
    kind = g.dtype.type
    up, down, best = np.empty(n, g.dtype), np.empty(n, g.dtype), np.empty((2, LANES), g.dtype)
    block, coef = np.empty(BLOCK, np.int64), np.empty(BLOCK, g.dtype)
    masks(s, lo, hi, up, down)
    i_up, v_up, i_down, v_down = update(
        g, up, down, kind(0), matrix[0], kind(0), matrix[0], kind(0)
    )
    while max(v_up, v_down) > tol and steps < max_iter:
        i = block[0] = i_up if v_up >= v_down else i_down
        row, mask = matrix[i], (up[i], down[i])
        first = min(hi[i], max(lo[i], s[i] - g[i] / max(TINY, diagonal[i]))) - s[i]
        up[i] = down[i] = HUGE  # i is in the block already
        gains(g, up, down, diagonal, row, i, kind(first), kind(shift), best)
        half = BLOCK // 2 + (v_up < v_down)
        m = take(g, -1, up, diagonal, row, first, shift, best[0], block, 1, half)
        m = take(g, 1, down, diagonal, row, first, shift, best[1], block, m, BLOCK)
        up[i], down[i] = mask
        moved, total = move_block(
            matrix, diagonal, g, s, (lo, hi), (up, down), block[:m], shift, tol / 2, coef
        )
        if moved == 0:  # rounding: nothing can be gained
            break
        last = (moved - 1) // 2 * 2
        add_rows(matrix, block[:last], coef[:last], g)
        j, d_j = (moved - 1, coef[moved - 1]) if moved - last == 2 else (last, kind(0))
        a, b, c = matrix[block[last]], matrix[block[j]], kind(shift * total)
        i_up, v_up, i_down, v_down = update(g, up, down, coef[last], a, d_j, b, c)
        steps += (moved + 1) // 2
    return steps


@compiled
def leave_out(
    matrix: Any,
    diagonal: Any,
    g: Any,
    s: Any,
    lo: Any,
    hi: Any,
    shift: float,
    rows: Any,
    tol: float,
    max_iter: int,
    out: Any,
) -> None:
    """Bound and estimate, for each of some rows i, how far its margin falls without the row.

    With s_i = 0 the others are moved by :func:`descend_blocks` as far as ``tol`` and ``max_iter``
    go. Whatever d this changes s by, d_i = -s_i, the margin without row i is within

        sqrt(G_ii) sqrt(d'Gd / 4 + sum_{j != i} g_j d_j)   of   f_i + (Gd)_i / 2

    (:func:`columns.removals`). ``matrix`` is the square of the rows that may move, g and s
    their gradient and dual variables at the optimum. ``out[0]`` is how far the lower end lies
    below f_i, ``out[1]`` how far f_i + (Gd)_i does, each seen from the row's own sign.
    """
    low, high = lo.copy(), hi.copy()
    for r in range(rows.shape[0]):
        i = rows[r]
        t, low[i], high[i] = s.copy(), 0.0, 0.0
        t[i] = 0.0
        h = (g - s[i] * (matrix[i] + shift)).astype(matrix.dtype)
        descend_blocks(matrix, diagonal, h, t, low, high, shift, tol, max_iter)
        moved, d = np.flatnonzero(t != s), t - s
        fall, length2, cost = 0.0, 0.0, 0.0
        for j in moved:  # anew from the kernel values: h may be in single precision
            row, change = matrix[j], 0.0
            for k in moved:
                change += d[k] * (row[k] + shift)
            length2 += d[j] * change
            fall -= d[j] * (row[i] + shift) * np.sign(s[i])
            if j != i:
                cost += max(0.0, d[j] * g[j])  # never negative at an exact optimum
        radius2 = max(0.0, length2 / 4.0 + cost) * max(0.0, float(diagonal[i]))
        out[0, r], out[1, r] = fall / 2.0 + np.sqrt(radius2), fall
        low[i], high[i] = lo[i], hi[i]


@compiled_fast
def add_rows(matrix: Any, index: Any, coef: Any, out: Any) -> None:
    """out += coef @ matrix[index], eight rows at a time, accumulated in the type of ``out``."""
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
        while k + 2 <= m:
            r0, r1 = matrix[index[k]][start:stop], matrix[index[k + 1]][start:stop]
            c0, c1 = coef[k], coef[k + 1]
            for p in range(stop - start):
                o[p] += c0 * r0[p] + c1 * r1[p]
            k += 2
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
