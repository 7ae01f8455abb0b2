"""Margin losses L(z) of the signed margin z = m f, shared by machines, decoders and bounds.

Every loss is a plain function, elementwise, finite for every finite margin. All but those named
in ``RISING`` never increase, which the leave-one-out bounds ask for.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy.special import expit

from outcode._checks import Array

Loss = Callable[[Array], Array]

#: Margins beyond this are clipped before squaring, so that the square stays finite.
SQUARE_LIMIT = 1e150


def linear(z: Array) -> Array:
    """L(z) = -z.

    Parameters
    ----------
    z : ndarray
        Margins of any shape.

    Returns
    -------
    ndarray
        The loss of each margin.

    Examples
    --------
    >>> linear(np.array([-1.0, 0.5, 2.0])).tolist()
    [1.0, -0.5, -2.0]
    """
    return -z


def hinge(z: Array) -> Array:
    """L(z) = max(0, 1 - z), the loss of the support vector machine.

    Parameters
    ----------
    z : ndarray
        Margins of any shape.

    Returns
    -------
    ndarray
        The loss of each margin.

    Examples
    --------
    >>> hinge(np.array([-1.0, 0.0, 2.0])).tolist()
    [2.0, 1.0, 0.0]
    """
    return np.maximum(0.0, 1.0 - z)


def exponential(z: Array) -> Array:
    """L(z) = exp(-z); decoders sum it in log form, this plain value overflows below z = -709.

    Parameters
    ----------
    z : ndarray
        Margins of any shape.

    Returns
    -------
    ndarray
        The loss of each margin.

    Examples
    --------
    >>> exponential(np.array([-1.0, 0.0, 2.0])).round(3).tolist()
    [2.718, 1.0, 0.135]
    """
    return np.exp(-z)


def logistic(z: Array) -> Array:
    """L(z) = log(1 + exp(-z)).

    Parameters
    ----------
    z : ndarray
        Margins of any shape.

    Returns
    -------
    ndarray
        The loss of each margin.

    Examples
    --------
    >>> logistic(np.array([-1.0, 0.0, 2.0])).round(3).tolist()
    [1.313, 0.693, 0.127]
    """
    return np.logaddexp(0.0, -z)


def squared(z: Array) -> Array:
    """L(z) = (1 - z)^2: it grows again beyond z = 1.

    Parameters
    ----------
    z : ndarray
        Margins of any shape.

    Returns
    -------
    ndarray
        The loss of each margin.

    Examples
    --------
    >>> squared(np.array([-1.0, 0.0, 2.0])).tolist()
    [4.0, 1.0, 1.0]
    """
    return (1.0 - np.clip(z, -SQUARE_LIMIT, SQUARE_LIMIT)) ** 2


def zero_one(z: Array) -> Array:
    """L(z) = (1 - sign z) / 2: 1 when wrong, 0 when right, 1/2 at zero (Hamming decoding).

    Parameters
    ----------
    z : ndarray
        Margins of any shape.

    Returns
    -------
    ndarray
        The loss of each margin.

    Examples
    --------
    >>> zero_one(np.array([-1.0, 0.0, 2.0])).tolist()
    [1.0, 0.5, 0.0]
    """
    return (1.0 - np.sign(z)) / 2.0


LOSSES: dict[str, Loss] = {
    "linear": linear,
    "hinge": hinge,
    "exponential": exponential,
    "logistic": logistic,
    "squared": squared,
    "zero_one": zero_one,
}

#: Losses that grow again for large margins.
RISING = {"squared"}

#: Derivatives of the losses that are differentiable but for single points.
SLOPES: dict[str, Loss] = {
    "linear": lambda z: np.full(np.shape(z), -1.0),
    "hinge": lambda z: np.where(z < 1.0, -1.0, 0.0),
    "logistic": lambda z: -expit(-z),
    "squared": lambda z: -2.0 * (1.0 - z),
}
