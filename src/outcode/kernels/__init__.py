"""Kernels: two sets of rows -> their kernel values.

A kernel is a frozen object with one verb, :meth:`Kernel.values`, over rows made ready once by
:meth:`Kernel.prepare`, and a few properties that others ask about (:attr:`Kernel.has_gamma`,
:attr:`Kernel.linear`, ...). One that is exp(-gamma distance) defines the distance instead
(:class:`OfDistance`). To add a kernel, write the class in the file of its family and enter its name
at that file's foot.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from outcode._checks import Array, lookup
from outcode.kernels import distances, products
from outcode.kernels.common import Kernel, Rows
from outcode.kernels.distances import (
    NARROW,
    Exponential,
    Gaussian,
    Laplacian,
    OfDistance,
    squared_distances,
)
from outcode.kernels.given import Custom, Precomputed, places
from outcode.kernels.mixture import Mixture
from outcode.kernels.products import Linear, Polynomial, Sigmoid
from outcode.kernels.widths import SMALLEST_SPREAD, check_spread, feature_gammas, gamma_value

__all__ = [
    "KERNELS",
    "MEDIAN_ROWS",
    "NARROW",
    "SMALLEST_SPREAD",
    "Custom",
    "Exponential",
    "Gaussian",
    "Kernel",
    "Laplacian",
    "Linear",
    "Mixture",
    "OfDistance",
    "Polynomial",
    "Precomputed",
    "Rows",
    "Sigmoid",
    "check_spread",
    "feature_gammas",
    "gamma_value",
    "median_gamma",
    "named",
    "places",
    "resolve",
    "squared_distances",
]

KERNELS: dict[str, type[Kernel]] = {**distances.NAMES, **products.NAMES}

#: The median distance is taken over at most this many rows.
MEDIAN_ROWS = 500


def resolve(
    kernel: Any,
    X: Any,
    *,
    gamma: Any = "scale",
    degree: int = 3,
    coef0: float = 0.0,
    weight: Array | None = None,
) -> Kernel:
    """Return the kernel a user named, with ``gamma`` as a number, or a scale for each feature.

    Parameters
    ----------
    kernel : str or callable
        Name of a kernel, formula of a :class:`Mixture` or a function.
    X : array-like of shape (n_samples, n_features)
        Training rows.
    gamma : float, array-like of shape (n_features,) or {"scale", "auto"}, default="scale"
        As for :func:`gamma_value`, or a number >= 0 for each feature.
    degree : int, default=3
        Degree of the polynomial kernel.
    coef0 : float, default=0.0
        Constant of the polynomial and the sigmoid kernel.
    weight : ndarray of shape (n_samples,) or None, default=None
        Weights of the rows; None is 1 for each.

    Returns
    -------
    Kernel
        The kernel with its parameters.

    Examples
    --------
    >>> resolve("rbf", np.array([[0.0], [2.0]])).gamma
    1.0
    """
    kind = named(kernel)
    if kind is Custom:
        return Custom(function=kernel)
    if kind is Mixture:
        scales = feature_gammas(gamma, X.shape[1]).tolist() if np.ndim(gamma) else ()
        return replace(Mixture.parse(kernel), scales=(*scales,))
    if not kind.has_gamma:
        return kind()
    if np.ndim(gamma):
        scales = feature_gammas(gamma, X.shape[1]) ** kind.stretch
        return kind(degree=degree, coef0=coef0, scales=(*scales.tolist(),))
    value = gamma_value(gamma, X, weight) ** (kind.power if isinstance(gamma, str) else 1.0)
    return kind(gamma=value, degree=degree, coef0=coef0)


def named(kernel: Any) -> type[Kernel]:
    """Return the class of a kernel given by its name or as a function.

    Parameters
    ----------
    kernel : str or callable
        Name of a kernel, formula of a :class:`Mixture` or a function.

    Returns
    -------
    type
        A subclass of :class:`Kernel`.

    Examples
    --------
    >>> named("rbf").__name__
    'Gaussian'
    """
    if callable(kernel):
        return Custom
    if not isinstance(kernel, str):
        raise ValueError(f"kernel must be a name or a function, got {kernel!r}.")
    if "(" in kernel:
        return Mixture
    return lookup({**KERNELS, "precomputed": Precomputed}, kernel, "kernel")


def median_gamma(X: Any, kernel: Any = "rbf") -> float:
    """Return 1 / the median distance of two rows (squared for "rbf"), the data's own scale.

    A kernel of no distance is treated as "rbf".

    Parameters
    ----------
    X : array-like of shape (n_samples, n_features)
        Rows; the median is taken over at most MEDIAN_ROWS of them.
    kernel : str or callable, default="rbf"
        Kernel whose distance is meant.

    Returns
    -------
    float
        The gamma.

    Examples
    --------
    >>> median_gamma(np.array([[0.0], [2.0], [2.0]]))
    0.25
    """
    kind = named(kernel)() if named(kernel).of_distance else Gaussian()
    X = X[np.unique(np.linspace(0, X.shape[0] - 1, MEDIAN_ROWS).astype(int))]
    rows = kind.prepare(X, kind.origin(X))
    between = kind.distances(rows, rows)[np.triu_indices(len(rows), 1)]  # type: ignore[attr-defined]  # of_distance
    median = float(np.median(between)) if len(between) else 0.0
    check_spread(median)
    return 1.0 / median if median > 0 else gamma_value("scale", X)
