"""The gamma of a kernel: given as a number, for each feature, or by a rule from the rows."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse

from outcode._checks import Array, lookup, positive
from outcode.kernels.common import squared_norms

#: Below it the inverse overflows, or squared distances lose their digits.
SMALLEST_SPREAD = 1e-280


def gamma_value(gamma: float | str, X: Any, weight: Array | None = None) -> float:
    """Return gamma as a number: "scale" is 1 / (d var X), "auto" is 1 / d.

    The variance is weighted, so that a row of weight 2 counts as two rows.

    Parameters
    ----------
    gamma : float or {"scale", "auto"}
        A positive number or a rule.
    X : array-like of shape (n_samples, n_features)
        Training rows.
    weight : ndarray of shape (n_samples,) or None, default=None
        Weights of the rows; None is 1 for each.

    Returns
    -------
    float
        The gamma; 1 where the rule meets constant rows.

    Examples
    --------
    >>> X = np.array([[0.0, 0.0], [4.0, 4.0]])
    >>> gamma_value("scale", X), gamma_value("auto", X)
    (0.125, 0.5)
    """
    if not isinstance(gamma, str):
        return positive(gamma, "gamma")
    rule = lookup({"scale": True, "auto": False}, gamma, "gamma")
    variance = _variance(X, weight) if rule else 1.0
    check_spread(variance)
    return 1.0 / (X.shape[1] * variance) if variance > 0 else 1.0


def feature_gammas(gamma: Any, n_features: int) -> Array:
    """Return a gamma for each feature, or an error if they are none.

    Parameters
    ----------
    gamma : array-like of shape (n_features,)
        Numbers >= 0, not all 0.
    n_features : int
        Number of features.

    Returns
    -------
    ndarray of shape (n_features,)
        The gammas.

    Examples
    --------
    >>> feature_gammas([0.5, 0.0], 2)
    array([0.5, 0. ])
    """
    gammas = np.asarray(gamma, dtype=np.float64)
    valid = gammas.shape == (n_features,) and np.all(np.isfinite(gammas)) and gammas.min() >= 0
    if not valid or not gammas.any():
        raise ValueError(
            f"gamma must be a positive number, or one number >= 0 for each of the {n_features} "
            f"features, not all 0; got shape {gammas.shape}."
        )
    return gammas


def check_spread(spread: float) -> None:
    """Refuse a variance, or squared distance, that is too small to divide by; 0 is constant.

    Parameters
    ----------
    spread : float
        Variance or squared distance.

    Raises
    ------
    ValueError
        If the spread is positive and below SMALLEST_SPREAD.

    Examples
    --------
    >>> check_spread(0.0)
    """
    if 0.0 < spread < SMALLEST_SPREAD:
        raise ValueError(
            f"The values of X differ by so little (variance {spread:.2g}) that kernels cannot "
            f"resolve it: scale the features first, for example with "
            f"sklearn.preprocessing.StandardScaler."
        )


def _variance(X: Any, weight: Array | None) -> float:
    weight = np.ones(X.shape[0]) if weight is None else weight
    share = weight / weight.sum() / X.shape[1]
    with np.errstate(over="ignore", invalid="ignore"):
        mean = float(share @ np.asarray(X.sum(axis=1)).ravel())
        if sparse.issparse(X):
            variance = float(share @ squared_norms(X)) - mean**2
        else:
            variance = float(share @ ((X - mean) ** 2).sum(axis=1))
    if not np.isfinite(variance):
        raise ValueError(
            "The values of X are so large that their variance overflows: scale the features "
            "first, for example with sklearn.preprocessing.StandardScaler."
        )
    return max(variance, 0.0)
