"""Kernels: two sets of rows -> their kernel values.

A kernel is a frozen object with one verb, :meth:`Kernel.values`, over rows made ready once by
:meth:`Kernel.prepare`, and a few properties that others ask about (:attr:`Kernel.has_gamma`,
:attr:`Kernel.linear`, ...). One that is exp(-gamma distance) defines the distance instead
(:class:`OfDistance`). To add a kernel, write the class here and enter its name at the foot.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from scipy import sparse
from scipy.spatial.distance import cdist
from sklearn.metrics.pairwise import manhattan_distances

from outcode._checks import Array, lookup, positive
from outcode.formula import FormulaError, dense, symbolic

#: The median distance is taken over at most this many rows.
MEDIAN_ROWS = 500
#: Up to gamma |x|^2 of this float32 distances serve float32 kernel values.
NARROW = 4.0


@dataclass(frozen=True)
class Rows:
    """Rows ready for a kernel.

    Parameters
    ----------
    values : ndarray or CSR matrix of shape (n_rows, n_features)
        The rows.
    norms : ndarray of shape (n_rows,)
        Their squared lengths.

    Examples
    --------
    >>> rows = Gaussian().prepare(np.array([[3.0, 4.0], [0.0, 1.0]]))
    >>> rows.norms.tolist(), len(rows[:1])
    ([25.0, 1.0], 1)
    """

    values: Any
    norms: Array

    def __len__(self) -> int:
        return int(self.values.shape[0])

    def __getitem__(self, index: Any) -> Rows:
        return Rows(self.values[index], self.norms[index])

    @cached_property
    def lifted(self) -> Array:
        """[x, 1, |x|^2] of every dense row: one product of these is a squared distance."""
        columns = self.values, np.ones(len(self)), self.norms
        return np.column_stack([part.astype(self.values.dtype, copy=False) for part in columns])


def _inner(A: Rows, B: Rows) -> Array:
    product = A.values @ B.values.T
    return product.toarray() if sparse.issparse(product) else product


def _narrow(values: Any) -> Any:
    """Return CSR rows with the 32-bit indices that scikit-learn's compiled distances take."""
    rows = sparse.csr_matrix(values)
    parts = rows.data, rows.indices.astype(np.int32), rows.indptr.astype(np.int32)
    return sparse.csr_matrix(parts, shape=rows.shape)


def _norms(values: Any) -> Any:
    if symbolic(values):
        return (values * values).sum(axis=1)
    with np.errstate(over="ignore"):
        if sparse.issparse(values):
            return np.asarray(values.multiply(values).sum(axis=1), dtype=np.float64).ravel()
        return np.asarray(np.einsum("ij,ij->i", values, values), dtype=np.float64)


@dataclass(frozen=True)
class Kernel:
    """A positive (semi-)definite function of two rows.

    ``has_gamma`` says whether gamma means anything, ``linear`` that K(x, z) = x.z (a primal form),
    ``of_distance`` that K = exp(-gamma distance), ``unit`` that K(x, x) = 1, ``as_near`` that its
    feature space orders neighbours as |x - z| does, ``given`` that the user gives the values, and
    ``mixes`` that it is a sum of others.

    Parameters
    ----------
    gamma : float, default=1.0
        Width parameter, for a kernel that has one.
    degree : int, default=3
        Exponent of the polynomial kernel.
    coef0 : float, default=0.0
        Constant of the polynomial and the sigmoid kernel.
    scales : tuple of float, default=()
        Factors of the features, applied first; empty where all features have the same gamma.

    Examples
    --------
    >>> class Constant(Kernel):
    ...     def values(self, A, B):
    ...         return np.full((len(A), len(B)), self.gamma)
    >>> rows = Constant(2.0).prepare(np.zeros((2, 1)))
    >>> Constant(2.0).block(rows, rows).tolist()
    [[2.0, 2.0], [2.0, 2.0]]
    """

    gamma: float = 1.0
    degree: int = 3
    coef0: float = 0.0
    scales: tuple[float, ...] = ()

    has_gamma: ClassVar[bool] = True
    linear: ClassVar[bool] = False
    of_distance: ClassVar[bool] = False
    unit: ClassVar[bool] = False
    as_near: ClassVar[bool] = False
    given: ClassVar[bool] = False
    mixes: ClassVar[bool] = False
    #: gamma="scale" and "auto" are powers of 1 / squared length
    power: ClassVar[float] = 1.0
    #: a feature with a gamma of its own is multiplied by gamma to this power
    stretch: ClassVar[float] = 0.5

    def origin(self, X: Any) -> Array | None:
        """Return the point to shift rows to before anything else, None to leave them."""
        return None

    def prepare(self, X: Any, origin: Array | None = None) -> Rows:
        """Make rows ready; the same ``origin`` must serve training and prediction."""
        values = self.scaled(X if origin is None else X - origin)
        if not sparse.issparse(values) and not symbolic(values):
            values = np.ascontiguousarray(values)  # a table's columns come one after the other
        rows = Rows(values, _norms(values))
        if not symbolic(values) and not np.all(np.isfinite(rows.norms)):
            row = int(np.abs(X).max(axis=1).argmax())
            raise ValueError(
                f"Row {row} of X holds values so large that their squares overflow: scale the "
                f"features first, for example with sklearn.preprocessing.StandardScaler."
            )
        return rows

    def unprepared(self, rows: Rows, origin: Array | None = None) -> Array:
        """Return rows that were made ready as they were before, dense."""
        values = dense(rows.values) / (np.array(self.scales) if self.scales else 1.0)
        return values if origin is None else values + origin

    def scaled(self, values: Any) -> Any:
        """Return rows with each feature times its scale."""
        if not self.scales:
            return values
        if sparse.issparse(values):
            return sparse.csr_matrix(values @ sparse.diags_array(np.array(self.scales)))
        return values * np.array(self.scales)

    def values(self, A: Rows, B: Rows) -> Array:
        """Return the (len(A), len(B)) kernel values in float64."""
        raise NotImplementedError(f"{type(self).__name__} must define values()")

    def fill(self, A: Rows, B: Rows, out: Array) -> None:
        """Write the kernel values into ``out``, in the type it has."""
        np.copyto(out, self.values(A, B), casting="same_kind")

    def block(self, A: Rows, B: Rows, dtype: Any = np.float64) -> Array:
        """Return the (len(A), len(B)) kernel values."""
        out = np.empty((len(A), len(B)), dtype=dtype)
        self.fill(A, B, out)
        return out

    def narrowed(self, rows: Rows, dtype: Any) -> Rows:
        """Return the rows in the type of the kernel values, where that is precise enough."""
        return rows

    def diagonal(self, A: Rows) -> Array:
        """Return K(x, x) of every row."""
        steps = range(0, len(A), 64)
        return np.concatenate(
            [self.block(A[i : i + 64], A[i : i + 64]).diagonal() for i in steps]
        ).astype(np.float64)


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
        return _inner(A, B)

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
            return (self.gamma * _inner(A, B) + self.coef0) ** self.degree

    def gradient(self, a: Rows, B: Rows, coef: Array) -> Array:
        """Return the derivatives of sum_i c_is K(a, b_i) by a, (n_sums, n_features)."""
        base = (self.gamma * _inner(a, B) + self.coef0).T
        slope = self.gamma * self.degree * base ** (self.degree - 1)
        return np.asarray(B.values.T @ (coef * slope)).T


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


@dataclass(frozen=True)
class Mixture(Kernel):
    """K(x, z) = sum_k w_k exp(-gamma_k d_k(x, z)): a weighted sum of kernels of distances.

    It is named by its own formula, so that a parameter and a model file hold it as text. A gamma
    for each feature multiplies the features of all terms.

    Parameters
    ----------
    gamma, degree, coef0 : number
        Not used.
    scales : tuple of float, default=()
        Factors of the features, applied first; empty where all features have the same gamma.
    terms : tuple of (float, str, float), default=()
        Weight, name and gamma of each kernel.

    Examples
    --------
    >>> both = Mixture.parse("0.5 rbf(1.0) + 0.5 laplacian(1.0)")
    >>> rows = both.prepare(np.array([[0.0, 0.0], [1.0, 1.0]]))
    >>> both.values(rows, rows).round(3).tolist()
    [[1.0, 0.135], [0.135, 1.0]]
    >>> str(both)
    '0.5 rbf(1.0) + 0.5 laplacian(1.0)'
    """

    terms: tuple[tuple[float, str, float], ...] = ()

    has_gamma = False
    stretch = 1.0
    mixes = True

    @classmethod
    def parse(cls, text: str) -> Mixture:
        """Return the mixture of a formula such as "0.3 rbf(0.1) + 0.7 laplacian(2.0)"."""
        terms = []
        for term in text.split("+ "):
            found = re.fullmatch(r"\s*(\S+) (\w+)\((\S+)\)\s*", term)
            kind = KERNELS.get(found[2]) if found else None
            if found is None or kind is None or not kind.of_distance:
                raise ValueError(
                    f"{text!r} is no sum of kernels: write one like '0.3 rbf(0.1) + 0.7 "
                    f"laplacian(2.0)', the weight, the name and gamma of each."
                )
            terms.append((positive(float(found[1]), "weight"), found[2], float(found[3])))
        return cls(terms=tuple(terms))

    def __str__(self) -> str:
        return " + ".join(f"{w!r} {name}({gamma!r})" for w, name, gamma in self.terms)

    def origin(self, X: Any) -> Array | None:
        return Gaussian().origin(X)

    def values(self, A: Rows, B: Rows) -> Array:
        return self.combine(lambda name, gamma: KERNELS[name](gamma).values(A, B))

    def combine(self, values: Callable[[str, float], Array]) -> Array:
        """Return the weighted sum of ``values(name, gamma)``."""
        return sum(w * values(name, gamma) for w, name, gamma in self.terms)  # type: ignore[return-value]  # there is a term

    def gradient(self, a: Rows, B: Rows, coef: Array) -> Array:
        """Return the derivatives of sum_i c_is K(a, b_i) by a, (n_sums, n_features)."""
        parts = [w * KERNELS[name](g).gradient(a, B, coef) for w, name, g in self.terms]  # type: ignore[attr-defined]  # of_distance
        return np.asarray(sum(parts))

    def diagonal(self, A: Rows) -> Array:
        return np.full(len(A), sum(w for w, _, _ in self.terms))


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
        return np.tanh(self.gamma * _inner(A, B) + self.coef0)

    def gradient(self, a: Rows, B: Rows, coef: Array) -> Array:
        """Return the derivatives of sum_i c_is K(a, b_i) by a, (n_sums, n_features)."""
        slope = self.gamma * (1.0 - self.values(a, B).T ** 2)
        return np.asarray(B.values.T @ (coef * slope)).T


@dataclass(frozen=True)
class Custom(Kernel):
    """A kernel that is a function of the user's.

    Parameters
    ----------
    gamma, degree, coef0, scales : number
        Not used.
    function : callable, default=inner products
        ``function(X, Z)`` returns the (len(X), len(Z)) kernel values.

    Examples
    --------
    >>> kernel = Custom(function=lambda X, Z: X @ Z.T)
    >>> rows = kernel.prepare(np.array([[1.0], [3.0]]))
    >>> kernel.values(rows, rows).round(3).tolist()
    [[1.0, 3.0], [3.0, 9.0]]
    """

    has_gamma = False
    function: Callable[[Any, Any], Any] = lambda X, Z: X @ Z.T

    def prepare(self, X: Any, origin: Array | None = None) -> Rows:
        return Rows(X, np.zeros(X.shape[0]))

    def values(self, A: Rows, B: Rows) -> Array:
        if symbolic(A.values):
            raise FormulaError("the kernel is a function of yours: use a named kernel")
        values = np.asarray(self.function(A.values, B.values), dtype=np.float64)
        if values.shape != (len(A), len(B)):
            raise ValueError(
                f"The kernel function returned shape {values.shape} for {len(A)} and {len(B)} "
                f"rows: it must return ({len(A)}, {len(B)})."
            )
        if not np.all(np.isfinite(values)):
            raise ValueError("The kernel function returned NaN or infinity.")
        return values


@dataclass(frozen=True)
class Precomputed(Kernel):
    """Kernel values that the user gives: new rows are their values against every training row.

    Parameters
    ----------
    gamma, degree, coef0, scales : number
        Not used.

    Examples
    --------
    >>> rows = Precomputed().prepare(np.array([[1.0, 0.5, 0.2]]))
    >>> Precomputed().values(rows, places(3)).tolist()
    [[1.0, 0.5, 0.2]]
    """

    has_gamma = False
    given = True

    def prepare(self, X: Any, origin: Array | None = None) -> Rows:
        return Rows(X, np.zeros(X.shape[0]))

    def values(self, A: Rows, B: Rows) -> Array:
        """Return the values of rows ``A`` against the training rows numbered in ``B``."""
        return A.values[:, B.values]


def _drawn(a: Rows, B: Rows, pull: Array) -> Array:
    """Return sum_i pull_is (a - b_i), (n_sums, n_features), for one row a."""
    x = a.values.toarray() if sparse.issparse(a.values) else a.values
    return pull.sum(axis=0)[:, None] * x - np.asarray(B.values.T @ pull).T


def places(n: int) -> Rows:
    """Return the rows of a given kernel matrix: their numbers.

    Parameters
    ----------
    n : int
        Number of rows.

    Returns
    -------
    Rows
        The numbers 0..n-1 as rows.

    Examples
    --------
    >>> places(3).values.tolist()
    [0, 1, 2]
    """
    return Rows(np.arange(n), np.zeros(n))


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
    >>> rows = Linear().prepare(np.array([[0.0, 0.0], [3.0, 4.0]]))
    >>> squared_distances(rows, rows).tolist()
    [[0.0, 25.0], [25.0, 0.0]]
    """
    if out is not None and not sparse.issparse(A.values) and not sparse.issparse(B.values):
        distances = np.matmul(A.values, B.values.T, out=out)
    else:
        distances = _inner(A, B)
    distances *= -2.0
    distances += A.norms[:, None]
    distances += B.norms
    return np.maximum(distances, 0.0, out=distances)


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


#: Below it the inverse overflows, or squared distances lose their digits.
SMALLEST_SPREAD = 1e-280


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
            variance = float(share @ _norms(X)) - mean**2
        else:
            variance = float(share @ ((X - mean) ** 2).sum(axis=1))
    if not np.isfinite(variance):
        raise ValueError(
            "The values of X are so large that their variance overflows: scale the features "
            "first, for example with sklearn.preprocessing.StandardScaler."
        )
    return max(variance, 0.0)


KERNELS: dict[str, type[Kernel]] = {
    "rbf": Gaussian,
    "linear": Linear,
    "poly": Polynomial,
    "laplacian": Laplacian,
    "exponential": Exponential,
    "sigmoid": Sigmoid,
}
