"""Losses of a margin t f for batches of rows and columns, with their first two derivatives."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from outcode._checks import Array


@dataclass(frozen=True)
class Loss:
    """A convex loss l(z) of z = t f; ``usual`` is what a metric takes for l''.

    Near a solution most rows are right by a margin and have hardly any curvature.
    """

    value: Callable[[Array], Array]
    slope: Callable[[Array], Array]
    second: Callable[[Array], Array]
    usual: float


def _shortfall(z: Array) -> Array:
    return np.maximum(1.0 - z, 0.0)


def _squared_hinge(z: Array) -> Array:
    """max(0, 1 - z)^2 / 2, least squares where a row is not yet right by 1."""
    return 0.5 * _shortfall(z) ** 2


def _squared_hinge_slope(z: Array) -> Array:
    return -_shortfall(z)


def _squared_hinge_second(z: Array) -> Array:
    return (z < 1.0).astype(z.dtype)


def _logistic(z: Array) -> Array:
    """log(1 + exp(-z))"""
    return np.maximum(-z, 0.0) + np.log1p(np.exp(-np.abs(z)))


def _logistic_slope(z: Array) -> Array:
    return -1.0 / (1.0 + np.exp(np.minimum(z, 80.0)))


def _logistic_second(z: Array) -> Array:
    p = -_logistic_slope(z)
    return p * (1.0 - p)


SQUARED_HINGE = Loss(_squared_hinge, _squared_hinge_slope, _squared_hinge_second, 0.02)
LOGISTIC = Loss(_logistic, _logistic_slope, _logistic_second, 0.05)
