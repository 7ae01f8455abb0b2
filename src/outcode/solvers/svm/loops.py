"""Compiled inner loops: numbers in, numbers out.

One problem serves every support vector machine here. With the signed dual variables
s_i = alpha_i y_i (the ``dual_coef`` of the rest of the library),

    minimise   1/2 s'(K + shift) s - y's     subject to  lo_i <= s_i <= hi_i   [and sum_i s_i = 0]

where lo_i = min(0, y_i C_i), hi_i = max(0, y_i C_i). shift = 1 puts the bias into the kernel,
shift = 0 with the sum constraint is LIBSVM's free bias, shift = 0 without it is no bias. A row
with C_i = 0 (another class, another fold) can never move, and its margin comes out all the same.

``g`` is the gradient f - y. Row i may go up while s_i < hi_i (violation -g_i), and down while
s_i > lo_i (violation g_i). The masks ``up`` and ``down`` are 0 where a row may and HUGE where it
may not, so that choosing a row is a maximum without a branch. LLVM vectorises a maximum but not
its place: the maximum of each page of rows is taken, then looked for in the page that has it.

Two rows move at a time (:func:`pairs`), or, without the sum constraint, a block of rows
(:func:`descend_blocks`): on many rows a step costs what reading rows of K from main memory does,
and a block is solved from 16 x 16 of its values before its rows are read, eight side by side.
:mod:`bank` solves many small columns, each for values of C and folds, in one compiled call.

Everything is written for a short compilation, which is what a first fit waits for: few functions,
one type of kernel values each, comparisons instead of ``min`` and ``max``.
"""

from __future__ import annotations

from typing import Any

import numba
import numpy as np

from outcode._checks import Array

#: Rows whose largest violation is looked for at once.
PAGE = 256
#: Rows of which at most one joins a block going up, and one going down.
LEAF = 64
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
    none = g.dtype.type(-2.0 * HUGE)
    best_up, best_down, i, j = none, none, 0, 0
    for start in range(0, n, PAGE):
        stop = start + PAGE if start + PAGE < n else n
        g_, up_, down_ = g[start:stop], up[start:stop], down[start:stop]
        a_, b_ = row_a[start:stop], row_b[start:stop]
        most_up, most_down = none, none
        for p in range(stop - start):
            value = g_[p] + (a * a_[p] + b * b_[p] + c)
            g_[p] = value
            x, y = -value - up_[p], value - down_[p]
            most_up = x if x > most_up else most_up
            most_down = y if y > most_down else most_down
        if most_up > best_up:
            best_up, i = most_up, start
        if most_down > best_down:
            best_down, j = most_down, start
    while i < n - 1 and -g[i] - up[i] < best_up:
        i += 1
    while j < n - 1 and g[j] - down[j] < best_down:
        j += 1
    return i, best_up, j, best_down


@compiled_fast
def partner(
    g: Any,
    up: Any,
    down: Any,
    diagonal: Any,
    row: Any,
    i: int,
    first: Any,
    shift: Any,
    free: bool,
    gain: Any,
) -> int:
    """Return the row that gains most when moved together with row i (second-order choice).

    With a free bias the pair moves along e_i - e_j and gains (g_j - g_i)^2 / |phi_i - phi_j|^2
    (Fan, Chen & Lin 2005). Otherwise i has moved alone by ``first``, and the gain of j is its
    remaining violation squared over the curvature left after i adapts (Steinwart, Hush & Scovel
    2011). ``gain`` is memory for a page. Returns -1 if nothing gains.
    """
    n, j = g.shape[0], -1
    zero, tiny, two = g.dtype.type(0.0), g.dtype.type(TINY), g.dtype.type(2.0)
    k_ii, g_i, best = diagonal[i], g[i], zero
    for start in range(0, n, PAGE):
        stop = start + PAGE if start + PAGE < n else n
        g_, up_, down_ = g[start:stop], up[start:stop], down[start:stop]
        row_, diagonal_, most = row[start:stop], diagonal[start:stop], zero
        if free:
            for p in range(stop - start):
                v = g_[p] - down_[p] - g_i
                v = v if v > zero else zero
                curve = k_ii + diagonal_[p] - two * (row_[p] + shift)
                value = v * v / (curve if curve > tiny else tiny)
                gain[p] = value
                most = value if value > most else most
        else:
            least = tiny * k_ii
            for p in range(stop - start):
                k = row_[p] + shift
                v = g_[p] + first * k
                x, y = -v - up_[p], v - down_[p]
                v = x if x > y else y
                v = v if v > zero else zero
                curve = diagonal_[p] * k_ii - k * k
                value = v * v / (curve if curve > least else least)
                gain[p] = value
                most = value if value > most else most
        if most > best:
            best, p = most, 0
            while p < stop - start - 1 and gain[p] < most:
                p += 1
            j = start + p
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
            y = between(-(g_j + k_ij * x) / (k_jj if k_jj > TINY else TINY), low[1], high[1])
        else:
            y = low[1] if edge == 2 else high[1]
            x = between(-(g_i + k_ij * y) / (k_ii if k_ii > TINY else TINY), low[0], high[0])
        value = g_i * x + g_j * y + 0.5 * (k_ii * x * x + k_jj * y * y) + k_ij * x * y
        if value < best:
            best, best_x, best_y = value, x, y
    return best_x, best_y


@compiled
def between(value: float, low: float, high: float) -> float:
    """Return the nearest number within [low, high]."""
    value = value if value > low else low
    return value if value < high else high


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
def masks(s: Any, lo: Any, hi: Any, up: Any, down: Any) -> None:
    """Set ``up`` and ``down`` to 0 where a row may go that way and HUGE where it may not."""
    for i in range(s.shape[0]):
        up[i] = 0.0 if s[i] < hi[i] else HUGE
        down[i] = 0.0 if s[i] > lo[i] else HUGE


@compiled
def pairs(
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
    work: Any,
) -> int:
    """Sequential minimal optimisation, two rows at a time.

    Free bias: the row that violates most upwards goes first, and steps stop when the sum of the
    largest violations up and down is at most ``tol``, as LIBSVM. Otherwise the row that violates
    most goes first, and steps stop when the largest violation is at most ``tol``. The partner is
    chosen by second-order gain and the pair solved exactly. ``g`` and ``s`` are changed in place;
    ``work`` (3, n) is memory. Returns the number of steps, two rows of ``matrix`` each.
    """
    kind = g.dtype.type
    zero, c = kind(0.0), kind(shift)
    up, down, gain = work[0], work[1], work[2]
    masks(s, lo, hi, up, down)
    i_up, v_up, i_down, v_down = update(g, up, down, zero, matrix[0], zero, matrix[0], zero)
    for iteration in range(max_iter):
        i, worst = (i_up, v_up) if free or v_up >= v_down else (i_down, v_down)
        if (v_up + v_down if free else worst) <= tol:
            return iteration
        row, g_i, k_ii = matrix[i], float(g[i]), float(diagonal[i])
        k_ii = k_ii if k_ii > TINY else TINY
        d_i, d_j = between(s[i] - g_i / k_ii, lo[i], hi[i]) - s[i], 0.0
        mask_up, mask_down = up[i], down[i]
        up[i] = down[i] = HUGE  # i is no partner of itself
        j = partner(g, up, down, diagonal, row, i, kind(d_i), c, free, gain)
        up[i], down[i] = mask_up, mask_down
        if free:
            j = i_down if j < 0 else j
            curve = float(diagonal[j]) + diagonal[i] - 2.0 * (float(row[j]) + shift)
            d_i = (g[j] - g_i) / (curve if curve > TINY else TINY)
            d_i = hi[i] - s[i] if d_i > hi[i] - s[i] else d_i
            d_i = s[j] - lo[j] if d_i > s[j] - lo[j] else d_i
            d_j = -d_i
        elif j >= 0:
            low, high = (lo[i] - s[i], lo[j] - s[j]), (hi[i] - s[i], hi[j] - s[j])
            k_jj, k_ij = float(diagonal[j]), float(row[j]) + shift
            d_i, d_j = pair_step(g_i, float(g[j]), k_ii, k_jj, k_ij, low, high)
        j = j if j >= 0 else i
        d_i = move(s, lo, hi, up, down, i, d_i)
        d_j = move(s, lo, hi, up, down, j, d_j)
        step = kind(shift * (d_i + d_j))
        i_up, v_up, i_down, v_down = update(g, up, down, kind(d_i), row, kind(d_j), matrix[j], step)
    return max_iter


def descend_pairs(
    matrix: Any, diagonal: Any, g: Any, s: Any, lo: Any, hi: Any, tol: float, max_iter: int
) -> int:
    """Solve the problem with a free bias by :func:`pairs`."""
    work = np.empty((3, len(g)), g.dtype)
    return int(pairs(matrix, diagonal, g, s, lo, hi, 0.0, True, tol, max_iter, work))


@compiled_fast
def gains(
    g: Any, up: Any, down: Any, diagonal: Any, row: Any, i: int, first: Any, shift: Any, best: Any
) -> None:
    """Write each page's largest second-order gain (see :func:`partner`), up and down apart."""
    n = g.shape[0]
    zero, tiny = g.dtype.type(0.0), g.dtype.type(TINY)
    k_ii = diagonal[i]
    least = tiny * k_ii
    for page in range(best.shape[1]):
        start = page * LEAF
        stop = start + LEAF if start + LEAF < n else n
        g_, up_, down_ = g[start:stop], up[start:stop], down[start:stop]
        row_, diagonal_ = row[start:stop], diagonal[start:stop]
        most_up, most_down = zero, zero
        for p in range(stop - start):
            k = row_[p] + shift
            v = g_[p] + first * k
            x, y = -v - up_[p], v - down_[p]
            x, y = x if x > zero else zero, y if y > zero else zero
            curve = diagonal_[p] * k_ii - k * k
            curve = curve if curve > least else least
            x, y = x * x / curve, y * y / curve
            most_up = x if x > most_up else most_up
            most_down = y if y > most_down else most_down
        best[0, page], best[1, page] = most_up, most_down


@compiled
def take(
    g: Any,
    side: int,
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
    """Add the best row of each page that gains enough to the block, up to ``most`` rows.

    ``block[0]`` is the row that goes first, m rows are in it already; returns how many are then.
    ``side`` is 0 for rows that go up and 1 for rows that go down.
    """
    n, k_ii, sign = g.shape[0], float(diagonal[block[0]]), 2.0 * side - 1.0
    pages, top = best.shape[1], 0
    for page in range(pages):
        top = page if best[side, page] > best[side, top] else top
    enough = GAIN * best[side, top]
    for t in range(pages):
        page = top + t if top + t < pages else top + t - pages
        if m >= most or enough <= 0.0:
            return m
        if best[side, page] < enough:
            continue
        j, largest = -1, 0.0
        for p in range(page * LEAF, (page + 1) * LEAF if (page + 1) * LEAF < n else n):
            k = float(row[p]) + shift
            v = sign * (g[p] + first * k) - mask[p]
            curve = diagonal[p] * k_ii - k * k
            gain = v * v / (curve if curve > TINY * k_ii else TINY * k_ii)
            if v > 0.0 and gain > largest:
                j, largest = p, gain
        if j >= 0:
            block[m] = j
            m += 1
    return m


@compiled
def move_block(
    matrix: Any,
    diagonal: Any,
    g: Any,
    s: Any,
    lo: Any,
    hi: Any,
    masks_: Any,
    block: Any,
    m: int,
    shift: float,
    tol: float,
    coef: Any,
    flat: Any,
    small: Any,
) -> Any:
    """Solve the problem of the block's m rows and move them; returns how many did, and sum d.

    ``block`` and ``coef`` then begin with the rows that moved and their steps. ``flat`` and
    ``small`` are memory for their square and for eight vectors.
    """
    square = flat[: m * m].reshape((m, m))
    k_ii, gradient, step = small[0][:m], small[1][:m], small[2][:m]
    low, high = small[3][:m], small[4][:m]
    for a in range(m):
        i = block[a]
        for b in range(m):
            square[a, b] = matrix[i, block[b]]
        k_ii[a], gradient[a], step[a] = diagonal[i], g[i], 0.0
        low[a], high[a] = lo[i] - s[i], hi[i] - s[i]
    pairs(square, k_ii, gradient, step, low, high, shift, False, tol, 4 * m, small[5:])
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
    undone by the other. A block is solved until a tenth of its violation is left: more would be
    undone by its surroundings. Stops when the largest violation is at most ``tol``. ``g`` and
    ``s`` are changed in place. Returns the number of steps, two rows of ``matrix`` each.
    """
    n, steps = g.shape[0], 0
    kind = g.dtype.type
    zero = kind(0.0)
    up_down, best = np.empty((2, n), g.dtype), np.empty((2, (n + LEAF - 1) // LEAF), g.dtype)
    up, down = up_down[0], up_down[1]
    block, coef = np.empty(BLOCK, np.int64), np.empty(BLOCK, g.dtype)
    flat, small = np.empty(BLOCK * BLOCK), np.empty((8, BLOCK))
    masks(s, lo, hi, up, down)
    i_up, v_up, i_down, v_down = update(g, up, down, zero, matrix[0], zero, matrix[0], zero)
    while steps < max_iter:
        i, worst = (i_up, v_up) if v_up >= v_down else (i_down, v_down)
        if worst <= tol:
            break
        block[0] = i
        row, mask_up, mask_down = matrix[i], up[i], down[i]
        k_ii = diagonal[i] if diagonal[i] > TINY else TINY
        first = between(s[i] - g[i] / k_ii, lo[i], hi[i]) - s[i]
        up[i] = down[i] = HUGE  # i is in the block already
        gains(g, up, down, diagonal, row, i, kind(first), kind(shift), best)
        half = BLOCK // 2 + (v_up < v_down)
        m = take(g, 0, up, diagonal, row, first, shift, best, block, 1, half)
        m = take(g, 1, down, diagonal, row, first, shift, best, block, m, BLOCK)
        up[i], down[i] = mask_up, mask_down
        enough = 0.1 * worst if 0.1 * worst > tol / 2 else tol / 2
        moved, total = move_block(
            matrix, diagonal, g, s, lo, hi, up_down, block, m, shift, enough, coef, flat, small
        )
        if moved == 0:  # rounding: nothing can be gained
            break
        last = (moved - 1) // 2 * 2
        add_rows(matrix, block[:last], coef[:last], g)
        j, d_j = (moved - 1, coef[moved - 1]) if moved - last == 2 else (last, zero)
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
    c = np.zeros(8, out.dtype)
    for start in range(0, n, 4096):
        stop = start + 4096 if start + 4096 < n else n
        o = out[start:stop]
        for k in range(0, m, 8):
            for t in range(8):  # the last ones may repeat a row, with nothing of it
                c[t] = coef[k + t] if k + t < m else 0.0
            i0, i1, i2, i3 = k, min(k + 1, m - 1), min(k + 2, m - 1), min(k + 3, m - 1)
            i4, i5 = min(k + 4, m - 1), min(k + 5, m - 1)
            i6, i7 = min(k + 6, m - 1), min(k + 7, m - 1)
            r0, r1 = matrix[index[i0]][start:stop], matrix[index[i1]][start:stop]
            r2, r3 = matrix[index[i2]][start:stop], matrix[index[i3]][start:stop]
            r4, r5 = matrix[index[i4]][start:stop], matrix[index[i5]][start:stop]
            r6, r7 = matrix[index[i6]][start:stop], matrix[index[i7]][start:stop]
            c0, c1, c2, c3, c4, c5, c6, c7 = c[0], c[1], c[2], c[3], c[4], c[5], c[6], c[7]
            for p in range(stop - start):
                left = (c0 * r0[p] + c1 * r1[p]) + (c2 * r2[p] + c3 * r3[p])
                right = (c4 * r4[p] + c5 * r5[p]) + (c6 * r6[p] + c7 * r7[p])
                o[p] += left + right


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
