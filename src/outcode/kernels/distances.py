"""Kernels of a distance, exp(-gamma d(x, z)): Gaussian, exponential and Laplacian."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse
from scipy.spatial.distance import cdist
from sklearn.metrics.pairwise import manhattan_distances

from outcode._checks import Array
from outcode.formula import symbolic
from outcode.kernels.common import Kernel, Rows, inner

#: Up to gamma |x|^2 of this float32 distances serve float32 kernel values.
NARROW = 4.0


@dataclass(frozen=True)
class OfDistance(Kernel):
    """K(x, z) = exp(-gamma d(x, z)); a subclass defines the distance d.

    Parameters
    ----------
    gamma : float, default=1.0
        Factor of the distance.
    degree, coef0 : number
        Not used.
    scales : tuple of float, default=()
        Factors of the features, applied first; empty where all features have the same gamma.

    Examples
    --------
    >>> class Chebyshev(OfDistance):
    ...     def distances(self, A, B):
    ...         return cdist(A.values, B.values, "chebyshev")
    >>> rows = Chebyshev().prepare(np.array([[0.0, 0.0], [1.0, 0.5]]))
    >>> Chebyshev().values(rows, rows).round(3).tolist()
    [[1.0, 0.368], [0.368, 1.0]]
    """

    of_distance = True
    unit = True

    def distances(self, A: Rows, B: Rows) -> Array:
        """Return d, (len(A), len(B)), in memory that the next call may use again."""
        raise NotImplementedError(f"{type(self).__name__} must define distances()")

    def values(self, A: Rows, B: Rows) -> Array:
        return self.of(self.distances(A, B))

    def of(self, distances: Array, out: Array | None = None) -> Array:
        """Return exp(-gamma distances)."""
        exponent = np.multiply(distances, -self.gamma, out=out)
        return np.exp(exponent, out=exponent)

    def diagonal(self, A: Rows) -> Array:
        return np.ones(len(A))


@dataclass(frozen=True)
class Gaussian(OfDistance):
    """Gaussian kernel: K(x, z) = exp(-gamma |x - z|^2).

    The distance is |x|^2 + |z|^2 - 2 x.z, rows centred first so that little cancels. It is computed
    in float64, only the exponential in the type asked for; float32 values of rows that are within
    NARROW of their centre, gamma being the unit, have float32 distances, off by about 1e-6.

    Parameters
    ----------
    gamma : float, default=1.0
        Factor of the distance.
    degree, coef0 : number
        Not used.
    scales : tuple of float, default=()
        Factors of the features, applied first; empty where all features have the same gamma.

    Examples
    --------
    >>> kernel = Gaussian()
    >>> rows = kernel.prepare(np.array([[0.0], [1.0]]))
    >>> kernel.values(rows, rows).round(3).tolist()
    [[1.0, 0.368], [0.368, 1.0]]
    """

    as_near = True

    def origin(self, X: Any) -> Array | None:
        return None if sparse.issparse(X) else np.asarray(X.mean(axis=0))

    def distances(self, A: Rows, B: Rows) -> Array:
        known = not symbolic(A.values)
        return squared_distances(A, B, _scratch(len(A), len(B)) if known else None)

    def gradient(self, a: Rows, B: Rows, coef: Array) -> Array:
        """Return the derivatives of sum_i c_is K(a, b_i) by a, (n_sums, n_features)."""
        return _drawn(a, B, -2.0 * self.gamma * coef * self.block(a, B).T)

    def gamma_gradient(self, X: Array, weighted: Array) -> Array:
        """Return the derivatives of sum_ij W_ij K(x_i, x_j) by the gamma of each feature.

        dK_ij / dgamma_d = -(x_id - x_jd)^2 K_ij; ``weighted`` (n, n) is W_ij K_ij.
        """
        squares = (weighted.sum(axis=1) + weighted.sum(axis=0)) @ X**2
        return np.asarray(2.0 * np.einsum("id,id->d", X, weighted @ X) - squares)

    def fill(self, A: Rows, B: Rows, out: Array) -> None:
        if sparse.issparse(A.values) or sparse.issparse(B.values):
            np.multiply(squared_distances(A, B), -self.gamma, out=out, casting="same_kind")
        else:  # -gamma (|x|^2 + |z|^2 - 2 x.z) as one product
            kind = np.result_type(A.values, B.values)
            product = out if kind == out.dtype else _scratch(len(A), len(B))
            exponent = np.matmul(self._left(A, kind), B.lifted.T, out=product)
            np.minimum(exponent, 0.0, out=out, casting="same_kind")
        np.exp(out, out=out)

    def narrowed(self, rows: Rows, dtype: Any) -> Rows:
        far = self.gamma * np.max(rows.norms, initial=0.0) > NARROW
        if np.dtype(dtype) != np.float32 or sparse.issparse(rows.values) or far:
            return rows
        return Rows(rows.values.astype(np.float32), rows.norms)

    def _left(self, A: Rows, kind: Any) -> Array:
        """Return gamma [2 x, -|x|^2, -1] of every row."""
        left = np.empty((len(A), A.values.shape[1] + 2), dtype=kind)
        np.multiply(A.values, 2.0 * self.gamma, out=left[:, :-2])
        left[:, -2], left[:, -1] = -self.gamma * A.norms, -self.gamma
        return left


@dataclass(frozen=True)
class Exponential(Gaussian):
    """Exponential kernel: K(x, z) = exp(-gamma |x - z|), Matern with nu = 1/2.

    The distance is the Euclidean one itself, not its square.

    Parameters
    ----------
    gamma : float, default=1.0
        Factor of the distance.
    degree, coef0 : number
        Not used.
    scales : tuple of float, default=()
        Factors of the features, applied first; empty where all features have the same gamma.

    Examples
    --------
    >>> kernel = Exponential()
    >>> rows = kernel.prepare(np.array([[0.0], [2.0]]))
    >>> kernel.values(rows, rows).round(3).tolist()
    [[1.0, 0.135], [0.135, 1.0]]
    """

    power = 0.5

    def narrowed(self, rows: Rows, dtype: Any) -> Rows:
        return rows  # the root of a small distance would show the rounding

    stretch = 1.0

    def distances(self, A: Rows, B: Rows) -> Array:
        squares = super().distances(A, B)
        # what rounding leaves of equal rows would show in the root
        scale = A.norms[:, None] + B.norms
        squares *= squares > 1e-14 * scale
        return np.sqrt(squares, out=squares)

    def gradient(self, a: Rows, B: Rows, coef: Array) -> Array:
        """Return the derivatives of sum_i c_is K(a, b_i) by a; 0 at the rows b_i themselves."""
        distance = self.distances(a, B).T.copy()
        slope = np.divide(-self.gamma, distance, out=np.zeros_like(distance), where=distance > 0)
        return _drawn(a, B, coef * slope * self.of(distance))

    def fill(self, A: Rows, B: Rows, out: Array) -> None:
        np.multiply(self.distances(A, B), -self.gamma, out=out, casting="same_kind")
        np.exp(out, out=out)


@dataclass(frozen=True)
class Laplacian(OfDistance):
    """Laplacian kernel: K(x, z) = exp(-gamma |x - z|_1), of the city-block distance.

    Parameters
    ----------
    gamma : float, default=1.0
        Factor of the distance.
    degree, coef0 : number
        Not used.
    scales : tuple of float, default=()
        Factors of the features, applied first; empty where all features have the same gamma.

    Examples
    --------
    >>> kernel = Laplacian()
    >>> rows = kernel.prepare(np.array([[0.0, 0.0], [1.0, 1.0]]))
    >>> kernel.values(rows, rows).round(3).tolist()
    [[1.0, 0.135], [0.135, 1.0]]
    """

    stretch = 1.0

    def prepare(self, X: Any, origin: Array | None = None) -> Rows:
        return Rows(self.scaled(X), np.zeros(X.shape[0]))

    def distances(self, A: Rows, B: Rows) -> Array:
        if symbolic(A.values):
            return A.values.city_block(B.values)
        if sparse.issparse(A.values) or sparse.issparse(B.values):
            return manhattan_distances(_narrow(A.values), _narrow(B.values))
        return cdist(A.values, B.values, "cityblock")

    def gradient(self, a: Rows, B: Rows, coef: Array) -> Array:
        """Return the derivatives of sum_i c_is K(a, b_i) by a; 0 along a feature that is equal."""
        x, Z = (one.toarray() if sparse.issparse(one) else one for one in (a.values, B.values))
        return (coef * (-self.gamma * self.block(a, B)).T).T @ np.sign(x - Z)


def squared_distances(A: Rows, B: Rows, out: Array | None = None) -> Array:
    """Return |a - b|^2, never negative; written into ``out`` if given and the rows are dense.

    Parameters
    ----------
    A : Rows
        Prepared rows.
    B : Rows
        Prepared rows.
    out : ndarray of shape (len(A), len(B)) or None, default=None
        Memory for the result.

    Returns
    -------
    ndarray of shape (len(A), len(B))
        The squared distances.

    Examples
    --------
    >>> rows = Gaussian().prepare(np.array([[0.0, 0.0], [3.0, 4.0]]))
    >>> squared_distances(rows, rows).tolist()
    [[0.0, 25.0], [25.0, 0.0]]
    """
    if out is not None and not sparse.issparse(A.values) and not sparse.issparse(B.values):
        distances = np.matmul(A.values, B.values.T, out=out)
    else:
        distances = inner(A, B)
    distances *= -2.0
    distances += A.norms[:, None]
    distances += B.norms
    return np.maximum(distances, 0.0, out=distances)


_thread = threading.local()


def _scratch(n_rows: int, n_columns: int) -> Array:
    """Return this thread's working memory: asking for it again costs more than the work."""
    size = n_rows * n_columns
    if size > 2**22:
        return np.empty((n_rows, n_columns))
    if not hasattr(_thread, "memory") or _thread.memory.size < size:
        _thread.memory = np.empty(size)
    memory: Array = _thread.memory
    return memory[:size].reshape(n_rows, n_columns)


def _drawn(a: Rows, B: Rows, pull: Array) -> Array:
    """Return sum_i pull_is (a - b_i), (n_sums, n_features), for one row a."""
    x = a.values.toarray() if sparse.issparse(a.values) else a.values
    return pull.sum(axis=0)[:, None] * x - np.asarray(B.values.T @ pull).T


def _narrow(values: Any) -> Any:
    """Return CSR rows with the 32-bit indices that scikit-learn's compiled distances take.

    Their indices are in order: scikit-learn would sort them in place, numbers that others share.
    """
    rows = sparse.csr_matrix(values)
    if not rows.has_canonical_format:
        rows = rows.copy()
        rows.sum_duplicates()
    parts = rows.data, rows.indices.astype(np.int32), rows.indptr.astype(np.int32)
    return sparse.csr_matrix(parts, shape=rows.shape)


NAMES: dict[str, type[Kernel]] = {
    "rbf": Gaussian,
    "laplacian": Laplacian,
    "exponential": Exponential,
}
