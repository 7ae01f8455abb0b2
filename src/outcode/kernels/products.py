"""Kernels of the inner product x.z: linear, polynomial and sigmoid."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from outcode._checks import Array
from outcode.kernels.common import Kernel, Rows, inner


@dataclass(frozen=True)
class Linear(Kernel):
    """Linear kernel: K(x, z) = x.z.

    Parameters
    ----------
    gamma, degree, coef0 : number
        Not used.
    scales : tuple of float, default=()
        Factors of the features, applied first; empty where all features have the same gamma.

    Examples
    --------
    >>> kernel = Linear()
    >>> rows = kernel.prepare(np.array([[1.0], [2.0]]))
    >>> kernel.values(rows, rows).round(3).tolist()
    [[1.0, 2.0], [2.0, 4.0]]
    """

    has_gamma = False
    linear = True
    as_near = True

    def values(self, A: Rows, B: Rows) -> Array:
        return inner(A, B)

    def gradient(self, a: Rows, B: Rows, coef: Array) -> Array:
        """Return the derivatives of sum_i c_is K(a, b_i) by a, (n_sums, n_features)."""
        return np.asarray(B.values.T @ coef).T


@dataclass(frozen=True)
class Polynomial(Kernel):
    """Polynomial kernel: K(x, z) = (gamma x.z + coef0)^degree.

    Parameters
    ----------
    gamma : float, default=1.0
        Factor of the inner product.
    degree : int, default=3
        The exponent.
    coef0 : float, default=0.0
        The constant.
    scales : tuple of float, default=()
        Factors of the features, applied first; empty where all features have the same gamma.

    Examples
    --------
    >>> kernel = Polynomial(degree=2, coef0=1.0)
    >>> rows = kernel.prepare(np.array([[1.0], [2.0]]))
    >>> kernel.values(rows, rows).round(3).tolist()
    [[4.0, 9.0], [9.0, 25.0]]
    """

    def values(self, A: Rows, B: Rows) -> Array:
        with np.errstate(over="ignore"):
            return (self.gamma * inner(A, B) + self.coef0) ** self.degree

    def gradient(self, a: Rows, B: Rows, coef: Array) -> Array:
        """Return the derivatives of sum_i c_is K(a, b_i) by a, (n_sums, n_features)."""
        base = (self.gamma * inner(a, B) + self.coef0).T
        slope = self.gamma * self.degree * base ** (self.degree - 1)
        return np.asarray(B.values.T @ (coef * slope)).T


@dataclass(frozen=True)
class Sigmoid(Kernel):
    """Sigmoid kernel: K(x, z) = tanh(gamma x.z + coef0), not positive definite in general.

    Parameters
    ----------
    gamma : float, default=1.0
        Factor of the inner product.
    degree : int, default=3
        Not used.
    coef0 : float, default=0.0
        The constant.
    scales : tuple of float, default=()
        Factors of the features, applied first; empty where all features have the same gamma.

    Examples
    --------
    >>> kernel = Sigmoid()
    >>> rows = kernel.prepare(np.array([[0.0], [1.0]]))
    >>> kernel.values(rows, rows).round(3).tolist()
    [[0.0, 0.0], [0.0, 0.762]]
    """

    def values(self, A: Rows, B: Rows) -> Array:
        return np.tanh(self.gamma * inner(A, B) + self.coef0)

    def gradient(self, a: Rows, B: Rows, coef: Array) -> Array:
        """Return the derivatives of sum_i c_is K(a, b_i) by a, (n_sums, n_features)."""
        slope = self.gamma * (1.0 - self.values(a, B).T ** 2)
        return np.asarray(B.values.T @ (coef * slope)).T


NAMES: dict[str, type[Kernel]] = {"linear": Linear, "poly": Polynomial, "sigmoid": Sigmoid}
