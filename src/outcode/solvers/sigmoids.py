"""One sigmoid for each of many columns, in compiled code.

Problem    min_{A <= 0, B}  sum_i w_i [ t_i z_i + log(1 + exp(-z_i)) ],  z_i = A f_i + B
Algorithm  Newton with a ridge of 1e-12 and backtracking (Lin, Lin & Weng 2007),
           on f / max|f|, which makes the ridge harmless for margins of any size
Stopping   largest gradient of the weighted mean <= GRADIENT_GOAL, or no step lowers the objective
"""

from __future__ import annotations

from typing import Any

import numba
import numpy as np

#: Largest gradient of the mean log-likelihood at which a sigmoid counts as fitted.
GRADIENT_GOAL = 1e-10
RIDGE, STEPS, SMALLEST_STEP = 1e-12, 100, 1e-10
EPS, LARGEST = float(np.finfo(np.float64).eps), float(np.finfo(np.float64).max)

compiled = numba.njit(nogil=True, cache=True, error_model="numpy")


@compiled
def moments(f: Any, t: Any, w: Any, scale: float, total: float, A: float, B: float) -> Any:
    """Return the objective, its gradient and its second derivatives at A and B."""
    value, g_A, g_B = 0.0, 0.0, 0.0
    h_AA, h_AB, h_BB = 0.0, 0.0, 0.0
    for i in range(f.shape[0]):
        x, share = f[i] / scale, w[i] / total
        z = A * x + B
        e = np.exp(-abs(z))
        p = e / (1.0 + e) if z > 0 else 1.0 / (1.0 + e)  # 1 / (1 + exp(z))
        value += share * (t[i] * z + max(-z, 0.0) + np.log1p(e))
        g, h = share * (t[i] - p), share * e / ((1.0 + e) * (1.0 + e))
        g_A += g * x
        g_B += g
        h_AA += h * x * x
        h_AB += h * x
        h_BB += h
    return value, g_A, g_B, h_AA + RIDGE, h_AB, h_BB + RIDGE


@compiled
def newton_step(g_A: float, g_B: float, h_AA: float, h_AB: float, h_BB: float) -> Any:
    """Solve for the step by elimination, the larger diagonal first."""
    if h_BB >= h_AA:
        ratio = h_AB / h_BB
        step_A = (ratio * g_B - g_A) / (h_AA - ratio * h_AB)
        return step_A, -(g_B + h_AB * step_A) / h_BB
    ratio = h_AB / h_AA
    step_B = (ratio * g_A - g_B) / (h_BB - ratio * h_AB)
    return -(g_A + h_AB * step_B) / h_AA, step_B


@compiled
def fit_columns(f: Any, t: Any, w: Any, offset: Any, out: Any) -> None:
    """Fit A, B and the largest gradient left of each column s, rows offset[s]..offset[s + 1] - 1.

    Parameters
    ----------
    f, t, w : margins, targets in [0, 1] and weights of the rows of all columns
    out : (n_columns, 3)
    """
    for s in range(offset.shape[0] - 1):
        rows = slice(offset[s], offset[s + 1])
        margins, targets, weight = f[rows], t[rows], w[rows]
        scale, total, plus = 0.0, 0.0, 0.0
        for i in range(margins.shape[0]):
            scale = max(scale, abs(margins[i]))
            total += weight[i]
            plus += weight[i] * targets[i]
        scale, plus = scale if scale > 0 else 1.0, plus / total
        A, B, residual = 0.0, np.log((1.0 - plus + 1e-300) / (plus + 1e-300)), np.inf
        value, g_A, g_B, h_AA, h_AB, h_BB = moments(margins, targets, weight, scale, total, A, B)
        for _ in range(STEPS):
            residual = max(abs(g_A), abs(g_B))
            if residual <= GRADIENT_GOAL:
                break
            step_A, step_B = newton_step(g_A, g_B, h_AA, h_AB, h_BB)
            slope, rounding = g_A * step_A + g_B * step_B, 4.0 * EPS * (1.0 + abs(value))
            size, moved = 1.0, False
            while size >= SMALLEST_STEP and not moved:  # halve the step until the objective falls
                a, b = A + size * step_A, B + size * step_B
                found = moments(margins, targets, weight, scale, total, a, b)
                moved = found[0] <= value + 1e-4 * size * slope + rounding
                size /= 2.0
            if not moved:
                break
            A, B = a, b
            value, g_A, g_B, h_AA, h_AB, h_BB = found
        if A > 0:
            # the leave-one-out bound holds for losses that never increase, so only with A <= 0;
            # the problem is convex: if its optimum has A > 0, the constrained one lies on A = 0
            A, B, residual = 0.0, np.log1p(-plus) - np.log(plus), 0.0
        out[s, 0] = max(A / scale, -LARGEST)
        out[s, 1] = B
        out[s, 2] = residual
