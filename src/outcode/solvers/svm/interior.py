"""Where the steps begin for kernels of few features: an interior-point method in the features.

Problem    min_s 1/2 s'Gs - y's,  lo <= s <= hi,  with a free bias sum s = 0;  G = ZZ', Z (n, d)
Optimality Gs - y - a + b + v = 0 with a (s - lo) = 0, b (hi - s) = 0, a, b >= 0; v the free bias
Algorithm  Mehrotra's predictor and corrector. A Newton step solves (D + ZZ') ds = r, D diagonal, by
           the d x d matrix I + Z'D^-1 Z: O(n d^2), whatever C is, where coordinate steps grow in
           number with C
Stop       the duality gap sum a (s - lo) + b (hi - s) is at most TOL times the objective
           |w|^2 / 2 + sum b (hi - lo), or STEPS steps
Output     s with every row that a multiplier holds put exactly on its bound: a point to start from.
           It is certified by the solver that goes on from there
"""

from __future__ import annotations

import numpy as np
from scipy.linalg import cho_factor, cho_solve

from outcode._checks import Array

#: The duality gap, relative to the objective, and steps at most.
TOL, STEPS = 1e-9, 60
#: A multiplier this large, in units of a margin, holds its row on the bound: by the gap, the row is
#: so close to it then that putting it there moves no margin.
HELD = 1e-4
#: Steps stay inside by this share of the way to the next bound.
INSIDE = 0.995


def interior(Z: Array, y: Array, box: Array, free: bool) -> Array:
    """Return dual variables near the optimum of one column.

    Parameters
    ----------
    Z : (n, d) features with K + shift = ZZ'
    y : (n,) +1 or -1
    box : (n,) the bound of |s_i|, 0 for a row that is left out
    free : whether sum s = 0

    Examples
    --------
    >>> Z = np.array([[1.0, 1.0], [-1.0, 1.0], [-3.0, 1.0]])
    >>> s = interior(Z, np.array([1.0, -1.0, -1.0]), np.full(3, 10.0), free=False)
    >>> (s.round(6) + 0.0).tolist()
    [0.5, -0.5, 0.0]
    """
    s, used = np.zeros(len(y)), np.flatnonzero(box > 0)
    if len(used):
        e = y[used] * box[used]  # x = s / e: 0 <= x <= 1
        try:
            with np.errstate(all="ignore"):
                x = _solve(Z[used] * e[:, None], box[used], e, free)
        except np.linalg.LinAlgError:  # beyond what float64 can hold
            return s
        s[used] = np.where(np.isfinite(x), e * x, 0.0)
    return s


def _solve(Z: Array, c: Array, e: Array, free: bool) -> Array:
    """Minimise 1/2 |Z'x|^2 - c'x over 0 <= x <= 1 (and e'x = 0), and put held rows on bounds."""
    n = len(c)
    x, low, high, v = np.full(n, 0.5), np.ones(n) * c, np.ones(n) * c, 0.0
    if free:
        x = _balanced(e)
    for _ in range(STEPS):
        room = 1.0 - x
        mean = float(low @ x + high @ room) / (2 * n)
        w = Z.T @ x
        if 2 * n * mean <= TOL * float(w @ w / 2 + high.sum()):
            break
        gradient = Z @ w - c + v * e
        step = _Newton(Z, low / x + high / room, e if free else None)
        dx, dv = step(-gradient, -float(e @ x))
        dlow, dhigh = -low - low * dx / x, -high + high * dx / room
        size = _longest(x, room, low, high, dx, dlow, dhigh)
        after = (low + size * dlow) @ (x + size * dx) + (high + size * dhigh) @ (room - size * dx)
        goal = mean * (float(after) / (2 * n * mean)) ** 3
        up, down = goal - dlow * dx, goal + dhigh * dx
        dx, dv = step(-gradient + up / x - down / room, -float(e @ x))
        dlow, dhigh = (up - low * dx) / x - low, (down + high * dx) / room - high
        size = min(1.0, INSIDE * _longest(x, room, low, high, dx, dlow, dhigh))
        x, v = x + size * dx, v + size * dv
        low, high = low + size * dlow, high + size * dhigh
    return np.where(low > HELD * c, 0.0, np.where(high > HELD * c, 1.0, x))


class _Newton:
    """Solves (D + ZZ') dx + e dv = r, e'dx = t, by one factor of I + Z'D^-1 Z."""

    def __init__(self, Z: Array, D: Array, e: Array | None) -> None:
        self.Z, self.D, self.e = Z, D, e
        small = Z.T @ (Z / D[:, None])
        small.flat[:: len(small) + 1] += 1.0
        self.factor = cho_factor(small, check_finite=False)
        self.of_e = None if e is None else self._apply(e)

    def _apply(self, r: Array) -> Array:
        inner = cho_solve(self.factor, self.Z.T @ (r / self.D), check_finite=False)
        return np.asarray((r - self.Z @ inner) / self.D)

    def __call__(self, r: Array, t: float) -> tuple[Array, float]:
        dx = self._apply(r)
        if self.e is None or self.of_e is None:
            return dx, 0.0
        dv = float((self.e @ dx - t) / (self.e @ self.of_e))
        return dx - dv * self.of_e, dv


def _balanced(e: Array) -> Array:
    """Return a point inside with e'x = 0."""
    plus, minus = e[e > 0].sum(), -e[e < 0].sum()
    if not plus * minus:
        raise np.linalg.LinAlgError("one sign alone has no point inside")
    return np.where(e > 0, 0.5 * min(1.0, minus / plus), 0.5 * min(1.0, plus / minus))


def _longest(*values: Array) -> float:
    """Return how far x, 1 - x and the multipliers may go before one is negative, at most 1."""
    x, room, low, high, dx, dlow, dhigh = values
    pairs = (x, dx), (room, -dx), (low, dlow), (high, dhigh)
    worst = max(float(np.max(-change / value)) for value, change in pairs)
    return 1.0 if worst <= 1.0 else 1.0 / worst
