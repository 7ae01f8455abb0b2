"""Compiled inner loops of Weston & Watkins' machine: numbers in, numbers out."""

from __future__ import annotations

from typing import Any

import numpy as np

from outcode.solvers.svm.loops import add_multiple, add_rows, compiled, compiled_fast, pairs

#: Curvature at or below this times the largest is taken for a linear problem.
FLAT = 1e-14
#: Nor is one by which a lead cannot be divided.
LEAST = 1e-290
#: Samples, or pairs of classes, with at least this share of the largest violation are worked on.
SHARE = 0.3
#: Two classes are left once this share of their violation is left.
PART = 0.3
#: Passes over samples before one over pairs of classes.
PASSES = 4
#: Rows of one class that are worked on at once in a pair of classes.
ROWS = 256


# --- one sample, all classes ---


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


@compiled
def samples_in_turn(
    matrix: Any,
    diagonal: Any,
    G: Any,
    alpha: Any,
    labels: Any,
    box: Any,
    shift: float,
    tol: float,
    max_iter: int,
) -> tuple[float, int]:
    """Solve the block of each sample with at least ``SHARE`` of the largest violation.

    They are taken in order of their violation, each looked at again when its turn comes. Returns
    the largest violation before, and the number of steps.
    """
    k, n = G.shape
    psi, g, before, after = np.empty(n), np.empty(k), np.empty(k), np.empty(k)
    flat, steps = max(FLAT * np.abs(diagonal).max(), LEAST), 0
    violations(G, alpha, labels, box, psi)
    largest = psi.max()
    least = max(tol, SHARE * largest)
    chosen = np.flatnonzero(psi > least)
    for p in chosen[np.argsort(-psi[chosen])]:
        if steps == max_iter:
            break
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
                add_multiple(G[r], G.dtype.type(change), matrix[p], G.dtype.type(change * shift))
        steps += 1
    return largest, steps


# --- two classes, many samples ---


@compiled_fast
def violation_between(
    G: Any, alpha: Any, box: Any, rows: Any, own: int, other: int, tol: float, index: Any, out: Any
) -> tuple[int, float]:
    """Return how many samples of a class are between their bounds or violate, and by how much most.

    Counted is alpha of the ``other`` class alone; ``index`` begins with the samples, ``out`` with
    their violations.
    """
    count, worst = 0, 0.0
    for t in range(rows.shape[0]):
        i = rows[t]
        lack, a = 1.0 - G[own, i] + G[other, i], alpha[other, i]
        up = lack if a < box[i] else 0.0
        down = -lack if a > 0.0 else 0.0
        violation = max(up, down)
        worst = max(worst, violation)
        if violation > tol or 0.0 < a < box[i]:
            index[count], out[count] = i, violation
            count += 1
    return count, worst


@compiled
def two_classes(
    matrix: Any,
    diagonal: Any,
    G: Any,
    alpha: Any,
    box: Any,
    index: Any,
    split: int,
    pair: Any,
    shift: float,
    tol: float,
    memory: Any,
) -> int:
    """Solve the problem between two classes (a, b) in some of their samples, all else held.

    With s_i = alpha_ib for the first ``split`` samples, which are of class a, and s_i = -alpha_ia
    for the others, of class b, a change d of s changes tau_a by d and tau_b by -d. What is left is
    the binary problem

        minimise  1/2 d' K d + 1/2 (G_a - G_b - sign)'d   s.t.  0 <= s_i sign_i <= C_i

    which two samples at a time descend (:func:`outcode.solvers.svm.loops.pairs`) until the largest
    violation is at most ``tol``. ``memory`` is (8, 2 ROWS); returns the number of steps.
    """
    a, b = pair
    m, kind = len(index), G.dtype.type
    g, s, lo, hi, d = memory[0], memory[1], memory[2], memory[3], memory[4]
    square = np.empty((m, m), matrix.dtype)
    for p in range(m):
        i, sign = index[p], 1.0 if p < split else -1.0
        for q in range(m):
            square[p, q] = matrix[i, index[q]]
        now = alpha[b, i] if p < split else -alpha[a, i]
        g[p], s[p] = 0.5 * (G[a, i] - G[b, i] - sign), now
        lo[p], hi[p], d[p] = min(0.0, sign * box[i]), max(0.0, sign * box[i]), now
    arrays = square, diagonal[index].astype(np.float64), g, s, lo, hi
    most = memory.shape[1]
    steps = pairs(*arrays, m, shift, False, 0.5 * tol, most, memory[5], memory[6], memory[7])
    for p in range(m):
        d[p] = s[p] - d[p]
        alpha[b if p < split else a, index[p]] = abs(s[p])
    change = np.full(G.shape[1], kind(shift * d[:m].sum()))
    moved = np.flatnonzero(d[:m])
    add_rows(matrix, index[moved], d[moved], change)
    add_multiple(G[a], kind(1.0), change, kind(0.0))
    add_multiple(G[b], kind(-1.0), change, kind(0.0))
    return steps


@compiled
def classes_in_turn(
    matrix: Any,
    diagonal: Any,
    G: Any,
    alpha: Any,
    order: Any,
    starts: Any,
    box: Any,
    shift: float,
    tol: float,
    max_iter: int,
) -> int:
    """Work on each pair of classes with at least ``SHARE`` of the largest violation.

    ``order`` holds the samples of class r from ``starts[r]`` to ``starts[r + 1]``. Returns the
    number of steps.
    """
    k, n = G.shape
    index, psi, worst = np.empty(n, np.int64), np.empty(n), np.zeros((k, k))
    for a in range(k):
        for b in range(k):
            if a != b:
                rows = order[starts[a] : starts[a + 1]]
                most = violation_between(G, alpha, box, rows, a, b, tol, index, psi)[1]
                worst[min(a, b), max(a, b)] = max(most, worst[min(a, b), max(a, b)])
    least, steps, flat = max(tol, SHARE * worst.max()), 0, worst.ravel()
    chosen, memory = np.flatnonzero(flat > least), np.empty((8, 2 * ROWS))
    together, at = np.empty(2 * ROWS, np.int64), np.zeros(3, np.int64)
    for c in chosen[np.argsort(-flat[chosen])]:
        if steps >= max_iter:
            break
        pair, largest = (c // k, c % k), 0.0
        for side in range(2):
            own, other = pair[side], pair[1 - side]
            rows = order[starts[own] : starts[own + 1]]
            count, most = violation_between(G, alpha, box, rows, own, other, tol / 2, index, psi)
            taken = np.argsort(-psi[:count])[:ROWS] if count > ROWS else np.arange(count)
            at[side + 1] = at[side] + len(taken)
            together[at[side] : at[side + 1]] = index[taken]
            largest = max(largest, most)
        if largest > least:
            rows, enough = together[: at[2]], max(tol / 2, PART * largest)
            arrays = matrix, diagonal, G, alpha, box, rows
            steps += two_classes(*arrays, at[1], pair, shift, enough, memory)
    return steps


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
    """Solve the dual on a square of kernel values, by samples and by pairs of classes in turn.

    The block of one sample is solved exactly, but one sample at a time converges slowly where
    samples resemble each other: a step shifts a score as a whole, which the next one undoes. Pairs
    of classes, two samples at a time, do not, and converge slowly where several classes come near
    the same samples. ``PASSES`` of the first alternate with one of the second.

    Stops when the largest violation is at most ``tol``. ``shift`` is added to every kernel value
    but ``diagonal``, which has it. ``G`` and ``alpha`` (n_classes, n) are changed in place; returns
    the number of steps. alpha of a sample's own class is its box, which means nothing.
    """
    order = np.argsort(labels, kind="mergesort")
    starts = np.searchsorted(labels[order], np.arange(G.shape[0] + 1))
    steps = 0
    while steps < max_iter:
        for _ in range(PASSES):
            arrays = matrix, diagonal, G, alpha, labels, box
            largest, made = samples_in_turn(*arrays, shift, tol, max_iter - steps)
            steps += made
            if largest <= tol or made == 0:  # what is left of the largest violation is rounding
                return steps
        arrays_ = matrix, diagonal, G, alpha, order, starts, box
        steps += classes_in_turn(*arrays_, shift, tol, max_iter - steps)
    return steps
