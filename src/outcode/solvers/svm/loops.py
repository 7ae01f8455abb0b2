"""Compiled inner loops: numbers in, numbers out.

One problem serves every support vector machine here. With the signed dual variables
s_i = alpha_i y_i (the ``dual_coef`` of the rest of the library),

    minimise   1/2 s'(K + shift) s - y's     subject to  lo_i <= s_i <= hi_i   [and sum_i s_i = 0]

where lo_i = min(0, y_i C_i), hi_i = max(0, y_i C_i). shift = 1 puts the bias into the kernel,
shift = 0 with the sum constraint is LIBSVM's free bias, shift = 0 without it is no bias. A row
with C_i = 0 (another class, another fold) can never move, and its margin comes out all the same.

``g`` is the gradient f - y. Row i may go up while s_i < hi_i (violation -g_i), and down while
s_i > lo_i (violation g_i). The masks ``up`` and ``down`` are 0 where a row may and HUGE where it
may not, so that choosing a row is a maximum without a branch. LLVM vectorises a maximum (told so by
:func:`larger`, a comparison alone does not suffice) but not its place: the maximum of each page of
rows is taken, then looked for in the page that has it.

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
from llvmlite import ir
from numba.extending import intrinsic

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
#: For loops that allocate nothing: without the counting of references, which costs them time.
options: Any = {"nogil": True, "cache": True, "error_model": "numpy", "fastmath": FAST}
lean = numba.njit(**{**options, "_nrt": False})
#: The same with the rules of IEEE for what is not finite.
plain = numba.njit(**{**options, "fastmath": False, "_nrt": False})


def _extreme(name: str) -> Any:
    """Return a function of two numbers, neither of them NaN, that is one instruction of LLVM."""

    def typed(_: Any, a: Any, b: Any) -> Any:
        def generate(_: Any, builder: Any, __: Any, values: Any) -> Any:
            kind = values[0].type
            signature = ir.FunctionType(kind, [kind, kind])
            function = builder.module.declare_intrinsic(name, [kind], signature)
            return builder.call(function, values, fastmath=("fast",))

        return a(a, a), generate

    return intrinsic(typed)


larger, smaller = _extreme("llvm.maxnum"), _extreme("llvm.minnum")


@lean
def update(g: Any, up: Any, down: Any, a: Any, row_a: Any, b: Any, row_b: Any, c: Any) -> Any:
    """g += a row_a + b row_b + c, and in the same pass the largest violations each way.

    Returns (page, -g_i) for the row that gains most by going up, (page, g_j) for down; the pages
    say where to look for the rows (:func:`find`).
    """
    n = g.shape[0]
    none = g.dtype.type(-2.0 * HUGE)
    best_up, best_down, page_up, page_down = none, none, 0, 0
    for start in range(0, n, PAGE):
        stop = start + PAGE if start + PAGE < n else n
        g_, up_, down_ = g[start:stop], up[start:stop], down[start:stop]
        a_, b_ = row_a[start:stop], row_b[start:stop]
        most_up, most_down = none, none
        for p in range(stop - start):
            value = g_[p] + (a * a_[p] + b * b_[p] + c)
            g_[p] = value
            most_up = larger(most_up, -value - up_[p])
            most_down = larger(most_down, value - down_[p])
        if most_up > best_up:
            best_up, page_up = most_up, start
        if most_down > best_down:
            best_down, page_down = most_down, start
    return page_up, best_up, page_down, best_down


@lean
def find(g: Any, mask: Any, sign: Any, page: int, violation: Any) -> int:
    """Return the row of a page that violates as much, going up (sign -1) or down (sign 1)."""
    last = g.shape[0] - 1
    while page < last and sign * g[page] - mask[page] < violation:
        page += 1
    return page


@lean
def move(s: Any, lo: Any, hi: Any, up: Any, down: Any, i: int, step: float) -> float:
    """s_i += step, landing exactly on a bound when it reaches one; returns the step made."""
    before = s[i]
    after = before + step
    if step >= hi[i] - before:
        after = hi[i]
    if step <= lo[i] - before:
        after = lo[i]
    s[i] = after
    up[i] = HUGE * (after >= hi[i])
    down[i] = HUGE * (after <= lo[i])
    return after - before


@lean
def pairs(
    matrix: Any,
    diagonal: Any,
    g: Any,
    s: Any,
    lo: Any,
    hi: Any,
    n: int,
    shift: float,
    free: bool,
    tol: float,
    max_iter: int,
    up: Any,
    down: Any,
    gain: Any,
) -> int:
    """Sequential minimal optimisation, two rows at a time, in float64.

    Choice     free bias: the row that violates most upwards goes first, and its partner is the one
               that gains most, (g_j - g_i)^2 / |phi_i - phi_j|^2 (Fan, Chen & Lin 2005). Otherwise
               the row that violates most goes first; had it moved alone, its partner is the one
               with the largest violation left, squared, over the curvature left after i adapts
               (Steinwart, Hush & Scovel 2011)
    Step       the exact minimum in both. If that of the plane lies outside the box, that of the box
               lies on a side between them: x or y is put there and the other one follows; a pair
               that gains less than the first row alone (indefinite kernels) is not moved
    Stop       the largest violation is at most ``tol``; free bias: the sum of the largest up and
               the largest down, as LIBSVM
    Cost       two rows of ``matrix`` each step

    The problem is that of the first n rows; arrays may be longer. ``g`` and ``s`` are changed in
    place; ``up``, ``down`` and ``gain`` are memory. Returns the number of steps. One function, no
    slices, and a new name for every value: a call costs as much as a step on a few dozen rows, and
    compilation takes long over names that change.
    """
    i = 0
    j = 0
    d_i = 0.0
    d_j = 0.0
    iteration = 0
    for p in range(n):
        up[p] = HUGE * (s[p] >= hi[p])
        down[p] = HUGE * (s[p] <= lo[p])
    while True:
        both = shift * (d_i + d_j)
        v_up = -2.0 * HUGE
        v_down = -2.0 * HUGE
        for q in range(n):
            g_q = g[q] + (d_i * matrix[i, q] + d_j * matrix[j, q] + both)
            g[q] = g_q
            v_up = larger(v_up, -g_q - up[q])
            v_down = larger(v_down, g_q - down[q])
        worst = v_up + v_down if free else larger(v_up, v_down)
        if worst <= tol or iteration >= max_iter:
            return iteration
        iteration += 1
        i = 0
        if free or v_up >= v_down:
            while i < n - 1 and -g[i] - up[i] < v_up:
                i += 1
        else:
            while i < n - 1 and g[i] - down[i] < v_down:
                i += 1
        k_ii = larger(diagonal[i], TINY)
        g_i = g[i]
        low = lo[i] - s[i]
        high = hi[i] - s[i]
        mask_up = up[i]
        mask_down = down[i]
        up[i] = HUGE  # i is no partner of itself
        down[i] = HUGE
        # curvature: K_ii + K_rr - 2 K_ir of a free pair, otherwise K_ii K_rr - K_ir^2
        alone = 0.0 if free else smaller(larger(-g_i / k_ii, low), high)
        base = g_i * free
        off = HUGE * free
        c_one = k_ii * free
        c_r = 1.0 if free else k_ii
        c_k = -2.0 * free
        c_kk = free - 1.0
        most = 0.0
        for r in range(n):
            k_r = matrix[i, r] + shift
            g_r = g[r] + alone * k_r
            v_r = larger(larger(-g_r - up[r] - off, g_r - down[r] - base), 0.0)
            gain_r = v_r * v_r / larger(c_one + c_r * diagonal[r] + k_r * (c_k + c_kk * k_r), TINY)
            gain[r] = gain_r
            most = larger(most, gain_r)
        j = 0
        while j < n - 1 and gain[j] < most:
            j += 1
        up[i] = mask_up
        down[i] = mask_down
        k_ij = matrix[i, j] + shift
        k_jj = larger(diagonal[j], TINY)
        g_j = g[j]
        low_j = lo[j] - s[j]
        high_j = hi[j] - s[j]
        if free:
            slope = (g_j - g_i) / larger(k_ii + k_jj - 2.0 * k_ij, TINY)
            d_i = smaller(smaller(slope, high), -low_j)
            d_j = -d_i
        elif most > 0.0:
            det = larger(k_ii * k_jj - k_ij * k_ij, TINY * k_ii * k_jj)
            x = smaller(larger((k_ij * g_j - k_jj * g_i) / det, low), high)
            y = smaller(larger(-(g_j + k_ij * x) / k_jj, low_j), high_j)
            y_2 = smaller(larger((k_ij * g_i - k_ii * g_j) / det, low_j), high_j)
            x_2 = smaller(larger(-(g_i + k_ij * y_2) / k_ii, low), high)
            value = g_i * x + g_j * y + 0.5 * (k_ii * x * x + k_jj * y * y) + k_ij * x * y
            value_2 = g_i * x_2 + g_j * y_2 + 0.5 * (k_ii * x_2 * x_2 + k_jj * y_2 * y_2)
            least = smaller(value_2 + k_ij * x_2 * y_2, value)
            # with a kernel that is not positive definite a pair may gain less than i alone
            apart = g_i * alone + 0.5 * k_ii * alone * alone
            d_i = alone if apart < least else (x if least == value else x_2)
            d_j = 0.0 if apart < least else (y if least == value else y_2)
        else:
            d_i = alone
            d_j = 0.0
        d_i = move(s, lo, hi, up, down, i, d_i)
        d_j = move(s, lo, hi, up, down, j, d_j)


def descend_pairs(
    matrix: Any, diagonal: Any, g: Any, s: Any, lo: Any, hi: Any, tol: float, max_iter: int
) -> int:
    """Solve the problem with a free bias by :func:`pairs`."""
    exact, memory = g.astype(np.float64), np.empty((3, len(g)))
    arrays = matrix, diagonal.astype(np.float64), exact, s, lo, hi
    steps = int(pairs(*arrays, len(g), 0.0, True, tol, max_iter, *memory))
    g[:] = exact
    return steps


@lean
def gains(
    g: Any, up: Any, down: Any, diagonal: Any, row: Any, i: int, first: Any, shift: Any, best: Any
) -> None:
    """Write each page's largest second-order gain (see :func:`pairs`), up and down apart."""
    n = g.shape[0]
    zero, one, tiny = g.dtype.type(0.0), g.dtype.type(1.0), g.dtype.type(TINY)
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
            x, y = larger(-v - up_[p], zero), larger(v - down_[p], zero)
            inverse = one / larger(diagonal_[p] * k_ii - k * k, least)
            most_up = larger(most_up, x * x * inverse)
            most_down = larger(most_down, y * y * inverse)
        best[0, page], best[1, page] = most_up, most_down


@lean
def take(
    g: Any,
    masks: Any,
    diagonal: Any,
    row: Any,
    first: float,
    shift: float,
    best: Any,
    block: Any,
    half: int,
) -> int:
    """Add the best row of each page that gains enough to the block, up to ``half`` rows going up.

    ``block[0]`` is the row that goes first; returns how many rows are in the block then.
    """
    k_ii = diagonal[block[0]]
    pages = best.shape[1]
    n = g.shape[0]
    m = 1
    for side in range(2):  # up, down
        sign = 2.0 * side - 1.0
        most = half if side == 0 else BLOCK
        top = 0
        for page in range(pages):
            if best[side, page] > best[side, top]:
                top = page
        enough = GAIN * best[side, top]
        for t in range(pages):
            leaf = (top + t) % pages
            if m < most and enough > 0.0 and best[side, leaf] >= enough:
                chosen = -1
                largest = 0.0
                for p in range(leaf * LEAF, min(leaf * LEAF + LEAF, n)):
                    k = row[p] + shift
                    v = larger(sign * (g[p] + first * k) - masks[side, p], 0.0)
                    gain = v * v / larger(diagonal[p] * k_ii - k * k, TINY * k_ii)
                    if gain > largest:
                        chosen = p
                        largest = gain
                if chosen >= 0:
                    block[m] = chosen
                    m += 1
    return m


@lean
def move_block(
    matrix: Any,
    diagonal: Any,
    g: Any,
    s: Any,
    lo: Any,
    hi: Any,
    masks: Any,
    block: Any,
    m: int,
    shift: float,
    tol: float,
    memory: Any,
) -> int:
    """Solve the problem of the block's m rows and move them; returns how many did.

    ``block`` then begins with the rows that moved, and the first row of ``memory`` with their
    steps; it has room for the kernel values of the block below eight vectors.
    """
    steps, square, k_ii, gradient = memory[0], memory[9:], memory[1], memory[2]
    low, high, step = memory[3], memory[4], memory[5]
    for a in range(m):
        i = block[a]
        for b in range(m):
            square[a, b] = matrix[i, block[b]]
        k_ii[a] = diagonal[i]
        gradient[a] = g[i]
        step[a] = 0.0
        low[a] = lo[i] - s[i]
        high[a] = hi[i] - s[i]
    arrays = memory[6], memory[7], memory[8]
    pairs(square, k_ii, gradient, step, low, high, m, shift, False, tol, 4 * m, *arrays)
    moved = 0
    for c in range(m):
        if step[c] != 0.0:
            steps[moved] = move(s, lo, hi, masks[0], masks[1], block[c], step[c])
            block[moved] = block[c]
            moved += 1
    return moved


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
    n = g.shape[0]
    kind = g.dtype.type
    zero = kind(0.0)
    masks = np.empty((2, n), g.dtype)
    best = np.empty((2, (n + LEAF - 1) // LEAF), g.dtype)
    memory = np.empty((9 + BLOCK, BLOCK), np.float64)
    block = np.empty(BLOCK, np.int64)
    up, down, coef = masks[0], masks[1], memory[0]
    for p in range(n):
        up[p] = HUGE * (s[p] >= hi[p])
        down[p] = HUGE * (s[p] <= lo[p])
    steps = 0
    p_up, v_up, p_down, v_down = update(g, up, down, zero, matrix[0], zero, matrix[0], zero)
    while steps < max_iter:
        worst = larger(v_up, v_down)
        if worst <= tol:
            break
        if v_up >= v_down:
            i = find(g, up, kind(-1.0), p_up, v_up)
        else:
            i = find(g, down, kind(1.0), p_down, v_down)
        block[0] = i
        row = matrix[i]
        alone = -g[i] / larger(diagonal[i], kind(TINY))
        first = kind(smaller(larger(float(alone), lo[i] - s[i]), hi[i] - s[i]))
        mask_up = up[i]
        mask_down = down[i]
        up[i] = HUGE  # i is in the block already
        down[i] = HUGE
        gains(g, up, down, diagonal, row, i, first, kind(shift), best)
        half = BLOCK // 2 + (v_up < v_down)
        m = take(g, masks, diagonal, row, first, shift, best, block, half)
        up[i] = mask_up
        down[i] = mask_down
        enough = larger(0.1 * worst, tol / 2)
        moved = move_block(matrix, diagonal, g, s, lo, hi, masks, block, m, shift, enough, memory)
        if moved == 0:  # rounding: nothing can be gained
            break
        last = (moved - 1) // 2 * 2
        add_rows(matrix, block[:last], coef[:last], g)
        total = 0.0
        for c in range(moved):
            total += coef[c]
        a = matrix[block[last]]
        b = matrix[block[moved - 1]]
        d_a = kind(coef[last])
        d_b = kind(coef[moved - 1] * (moved - last - 1))
        p_up, v_up, p_down, v_down = update(g, up, down, d_a, a, d_b, b, kind(shift * total))
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
def add_multiple(out: Any, a: Any, x: Any, c: Any) -> None:
    """out += a x + c."""
    for p in range(out.shape[0]):
        out[p] += a * x[p] + c


@lean
def add_rows(matrix: Any, index: Any, coef: Any, out: Any) -> None:
    """out += coef @ matrix[index], four rows at a time, accumulated in the type of ``out``."""
    n = out.shape[0]
    last = index.shape[0] - 1
    kind = out.dtype.type
    for start in range(0, n, 2048):
        stop = min(start + 2048, n)
        o = out[start:stop]
        for k in range(0, last + 1, 4):  # the last ones may repeat a row, with nothing of it
            k_1 = min(k + 1, last)
            k_2 = min(k + 2, last)
            k_3 = min(k + 3, last)
            c_0 = kind(coef[k])
            c_1 = kind(coef[k_1] * (k_1 == k + 1))
            c_2 = kind(coef[k_2] * (k_2 == k + 2))
            c_3 = kind(coef[k_3] * (k_3 == k + 3))
            r_0 = matrix[index[k]][start:stop]
            r_1 = matrix[index[k_1]][start:stop]
            r_2 = matrix[index[k_2]][start:stop]
            r_3 = matrix[index[k_3]][start:stop]
            for p in range(stop - start):
                o[p] += (c_0 * r_0[p] + c_1 * r_1[p]) + (c_2 * r_2[p] + c_3 * r_3[p])


@lean
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
