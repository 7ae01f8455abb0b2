"""Kernels: two sets of rows -> their kernel values.

A kernel is a frozen object with one verb, :meth:`Kernel.values`, over rows made ready once by
:meth:`Kernel.prepare`. To add one, write the class here and enter its name at the foot.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from scipy import sparse
from scipy.spatial.distance import cdist
from sklearn.metrics.pairwise import manhattan_distances

from outcode._checks import Array, lookup, positive


@dataclass(frozen=True)
class Rows:
    """Rows ready for a kernel: ``values`` (n, d) dense or CSR, ``norms`` their squared lengths."""

    values: Any
    norms: Array

    def __len__(self) -> int:
        return int(self.values.shape[0])

    def __getitem__(self, index: Any) -> Rows:
        return Rows(self.values[index], self.norms[index])

    @cached_property
    def lifted(self) -> Array:
        """[x, 1, |x|^2] of every dense row: one product of these is a squared distance."""
        return np.column_stack([self.values, np.ones(len(self)), self.norms])


def _inner(A: Rows, B: Rows) -> Array:
    product = A.values @ B.values.T
    return product.toarray() if sparse.issparse(product) else np.asarray(product)


def _narrow(values: Any) -> Any:
    """Return CSR rows with the 32-bit indices that scikit-learn's compiled distances take."""
    rows = sparse.csr_matrix(values)
    parts = rows.data, rows.indices.astype(np.int32), rows.indptr.astype(np.int32)
    return sparse.csr_matrix(parts, shape=rows.shape)


def _norms(values: Any) -> Array:
    with np.errstate(over="ignore"):
        if sparse.issparse(values):
            return np.asarray(values.multiply(values).sum(axis=1), dtype=np.float64).ravel()
        return np.asarray(np.einsum("ij,ij->i", values, values), dtype=np.float64)


@dataclass(frozen=True)
class Kernel:
    """A positive (semi-)definite function of two rows."""

    gamma: float = 1.0
    degree: int = 3
    coef0: float = 0.0

    def origin(self, X: Any) -> Array | None:
        """Return the point to shift rows to before anything else, None to leave them."""
        return None

    def prepare(self, X: Any, origin: Array | None = None) -> Rows:
        """Make rows ready; the same ``origin`` must serve training and prediction."""
        values = X if origin is None else X - origin
        if not sparse.issparse(values):
            values = np.ascontiguousarray(values)  # a table's columns come one after the other
        rows = Rows(values, _norms(values))
        if not np.all(np.isfinite(rows.norms)):
            row = int(np.abs(X).max(axis=1).argmax())
            raise ValueError(
                f"Row {row} of X holds values so large that their squares overflow: scale the "
                f"features first, for example with sklearn.preprocessing.StandardScaler."
            )
        return rows

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

    def diagonal(self, A: Rows) -> Array:
        """Return K(x, x) of every row."""
        steps = range(0, len(A), 64)
        return np.concatenate(
            [self.block(A[i : i + 64], A[i : i + 64]).diagonal() for i in steps]
        ).astype(np.float64)


@dataclass(frozen=True)
class Linear(Kernel):
    """K(x, z) = x.z"""

    def values(self, A: Rows, B: Rows) -> Array:
        return _inner(A, B)


@dataclass(frozen=True)
class Polynomial(Kernel):
    """K(x, z) = (gamma x.z + coef0)^degree"""

    def values(self, A: Rows, B: Rows) -> Array:
        with np.errstate(over="ignore"):
            return (self.gamma * _inner(A, B) + self.coef0) ** self.degree


@dataclass(frozen=True)
class Gaussian(Kernel):
    """K(x, z) = exp(-gamma |x - z|^2)

    The distance is |x|^2 + |z|^2 - 2 x.z in float64, rows centred first so that little cancels;
    only the exponential is taken in the type asked for.
    """

    def origin(self, X: Any) -> Array | None:
        return None if sparse.issparse(X) else np.asarray(X.mean(axis=0))

    def fill(self, A: Rows, B: Rows, out: Array) -> None:
        if sparse.issparse(A.values) or sparse.issparse(B.values):
            exponent = squared_distances(A, B)
            exponent *= -self.gamma
        else:  # -gamma (|x|^2 + |z|^2 - 2 x.z) as one product
            left = np.column_stack([2.0 * A.values, -A.norms, -np.ones(len(A))]) * self.gamma
            exponent = np.matmul(left, B.lifted.T, out=_scratch(len(A), len(B)))
        np.minimum(exponent, 0.0, out=out, casting="same_kind")
        np.exp(out, out=out)

    def diagonal(self, A: Rows) -> Array:
        return np.ones(len(A))


@dataclass(frozen=True)
class Laplacian(Kernel):
    """K(x, z) = exp(-gamma |x - z|_1)"""

    def prepare(self, X: Any, origin: Array | None = None) -> Rows:
        return Rows(X, np.zeros(X.shape[0]))

    def values(self, A: Rows, B: Rows) -> Array:
        if sparse.issparse(A.values) or sparse.issparse(B.values):
            distance = manhattan_distances(_narrow(A.values), _narrow(B.values))
        else:
            distance = cdist(A.values, B.values, "cityblock")
        return np.exp(-self.gamma * distance)

    def diagonal(self, A: Rows) -> Array:
        return np.ones(len(A))


@dataclass(frozen=True)
class Exponential(Kernel):
    """K(x, z) = exp(-gamma |x - z|_2)"""

    def prepare(self, X: Any, origin: Array | None = None) -> Rows:
        return Rows(X, _norms(X))

    def values(self, A: Rows, B: Rows) -> Array:
        if sparse.issparse(A.values) or sparse.issparse(B.values):
            distance = np.sqrt(squared_distances(A, B))
        else:
            distance = cdist(A.values, B.values, "euclidean")
        return np.exp(-self.gamma * distance)

    def diagonal(self, A: Rows) -> Array:
        return np.ones(len(A))


@dataclass(frozen=True)
class Mixture:
    """A weighted mean of kernels, which is a kernel: sum_k w_k K_k(x, z).

    It is given to a machine in the place of a kernel's name.

    Parameters
    ----------
    names : of kernels with a gamma
    gammas : one for each
    weights : one for each

    Examples
    --------
    >>> both = Mixture(("rbf", "laplacian"), (1.0, 1.0), (0.5, 0.5))
    >>> both(np.zeros((1, 2)), np.ones((1, 2))).round(3).tolist()
    [[0.135]]
    """

    names: tuple[str, ...]
    gammas: tuple[float, ...]
    weights: tuple[float, ...]

    def __call__(self, X: Any, Z: Any) -> Array:
        return self.combine(lambda name, gamma: _plain(name, gamma, X, Z))

    def combine(self, values: Callable[[str, float], Array]) -> Array:
        """Return the weighted mean of ``values(name, gamma)``."""
        parts = zip(self.names, self.gammas, self.weights, strict=True)
        return np.asarray(sum(w * values(name, gamma) for name, gamma, w in parts))


def _plain(name: str, gamma: float, X: Any, Z: Any) -> Array:
    kernel = lookup(KERNELS, name, "kernel")(gamma=gamma)
    origin = kernel.origin(Z)
    return kernel.block(kernel.prepare(X, origin), kernel.prepare(Z, origin))


@dataclass(frozen=True)
class Sigmoid(Kernel):
    """K(x, z) = tanh(gamma x.z + coef0); not positive definite in general"""

    def values(self, A: Rows, B: Rows) -> Array:
        return np.tanh(self.gamma * _inner(A, B) + self.coef0)


@dataclass(frozen=True)
class Custom(Kernel):
    """A function of the user's: ``function(X, Z) -> (len(X), len(Z))``"""

    function: Callable[[Any, Any], Any] = lambda X, Z: X @ Z.T

    def prepare(self, X: Any, origin: Array | None = None) -> Rows:
        return Rows(X, np.zeros(X.shape[0]))

    def values(self, A: Rows, B: Rows) -> Array:
        values = np.asarray(self.function(A.values, B.values), dtype=np.float64)
        if values.shape != (len(A), len(B)):
            raise ValueError(
                f"The kernel function returned shape {values.shape} for {len(A)} and {len(B)} "
                f"rows: it must return ({len(A)}, {len(B)})."
            )
        if not np.all(np.isfinite(values)):
            raise ValueError("The kernel function returned NaN or infinity.")
        return values


_thread = threading.local()


def _scratch(n_rows: int, n_columns: int) -> Array:
    """Return this thread's working memory: asking for it anew costs more than the work."""
    size = n_rows * n_columns
    if size > 2**22:
        return np.empty((n_rows, n_columns))
    if not hasattr(_thread, "memory") or _thread.memory.size < size:
        _thread.memory = np.empty(size)
    memory: Array = _thread.memory
    return memory[:size].reshape(n_rows, n_columns)


def squared_distances(A: Rows, B: Rows, out: Array | None = None) -> Array:
    """Return |a - b|^2, never negative; written into ``out`` if given and the rows are dense."""
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
    gamma: float | str = "scale",
    degree: int = 3,
    coef0: float = 0.0,
    weight: Array | None = None,
) -> Kernel:
    """Return the kernel a user named, with ``gamma`` as a number."""
    if callable(kernel):
        return Custom(function=kernel)
    if not isinstance(kernel, str):
        raise ValueError(f"kernel must be a name or a function, got {kernel!r}.")
    kind = lookup(KERNELS, kernel, "kernel")
    if kind is Linear:
        return Linear()
    return kind(gamma=gamma_value(gamma, X, weight), degree=degree, coef0=coef0)


def gamma_value(gamma: float | str, X: Any, weight: Array | None = None) -> float:
    """Return gamma as a number: "scale" is 1 / (d var X), "auto" is 1 / d.

    The variance is weighted, so that a row of weight 2 counts as two rows.
    """
    if not isinstance(gamma, str):
        return positive(gamma, "gamma")
    rule = lookup({"scale": True, "auto": False}, gamma, "gamma")
    variance = _variance(X, weight) if rule else 1.0
    return 1.0 / (X.shape[1] * variance) if variance > 0 else 1.0


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
