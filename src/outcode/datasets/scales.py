"""Scaling of numbers, and bending of those with heavy tails; all learned on the training rows."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy.special import ndtri

from outcode._checks import Array
from outcode.datasets.cells import HUGE

KNOTS = 33


def holes(column: Array) -> Array:
    """Return the mask of cells that are missing, infinite, or as good as infinite."""
    return ~(np.abs(column) <= HUGE)


def _standard(x: Array) -> tuple[float, float]:
    # relative to the largest, so that the squares of small numbers do not vanish
    size = float(np.abs(x).max()) or 1.0
    shift, scale = float(np.mean(x / size)), float(np.std(x / size))
    return shift * size, scale * size if scale > 1e-14 else 0.0


def _unit(x: Array) -> tuple[float, float]:
    return float(x.min()), float(np.ptp(x))


def _unscaled(x: Array) -> tuple[float, float]:
    return 0.0, float(x.min() < x.max())


def _circle(x: Array) -> tuple[float, float]:
    return -1.0, 2.0


#: The shift and the width by which numbers are scaled; a width of 0 is a constant column.
SCALES: dict[str, Callable[[Array], tuple[float, float]]] = {
    "standard": _standard,
    "unit": _unit,
    "None": _unscaled,
    "circle": _circle,
}


def _straight(x: Array) -> tuple[float, ...]:
    return ()


def _log_knots(x: Array) -> tuple[float, ...]:
    """Return the ends of the middle, where a logarithm starts: half a spread off the median."""
    low, middle, high = np.quantile(x, [0.25, 0.5, 0.75]).tolist()
    width = (high - low) / 2 or float(np.std(x))
    return (middle - width, middle + width) if _many(x) and 0 < width < np.inf else ()


def _quantile_knots(x: Array) -> tuple[float, ...]:
    """Return the values at equally spaced ranks."""
    knots = np.quantile(x, np.linspace(0, 1, KNOTS))
    return tuple(knots.tolist()) if _many(x) and knots[0] < knots[-1] else ()


def _many(x: Array) -> bool:
    return len(np.unique(x[:1000])) > 20


#: Where numbers are bent: nowhere, or at knots learned from them.
TAILS: dict[str, Callable[[Array], tuple[float, ...]]] = {
    "None": _straight,
    "log": _log_knots,
    "quantile": _quantile_knots,
}


def bent(x: Array, knots: tuple[float, ...]) -> Array:
    """Return numbers with their tails pulled in.

    Two knots m - w and m + w: asinh((x - m) / w), a logarithm in both directions. More: the
    normal quantile of the share of training numbers below x.

    Examples
    --------
    >>> bent(np.array([0.0, 1.0, 1000.0]), (-1.0, 1.0)).round(2)
    array([0.  , 0.88, 7.6 ])
    """
    if not knots:
        return x
    if len(knots) == 2:
        return np.arcsinh((2 * x - knots[0] - knots[1]) / (knots[1] - knots[0]))
    grid = np.linspace(0, 1, len(knots))
    # ranks of equal knots: the middle of the first and the last of them
    up = np.interp(x, knots, grid)
    down = 1.0 - np.interp(-x, -np.array(knots)[::-1], grid)
    return np.asarray(ndtri(np.clip((up + down) / 2, 0.001, 0.999)))
