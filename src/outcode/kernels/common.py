"""What every kernel shares: rows made ready once, and the values of a block of them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from scipy import sparse

from outcode._checks import Array
from outcode.formula import dense, symbolic


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
    >>> rows = Kernel().prepare(np.array([[3.0, 4.0], [0.0, 1.0]]))
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
        rows = Rows(values, squared_norms(values))
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


def inner(A: Rows, B: Rows) -> Array:
    """Return x.z of every pair of rows, dense."""
    product = A.values @ B.values.T
    return product.toarray() if sparse.issparse(product) else product


def squared_norms(values: Any) -> Any:
    """Return |x|^2 of every row."""
    if symbolic(values):
        return (values * values).sum(axis=1)
    with np.errstate(over="ignore"):
        if sparse.issparse(values):
            return np.asarray(values.multiply(values).sum(axis=1), dtype=np.float64).ravel()
        return np.asarray(np.einsum("ij,ij->i", values, values), dtype=np.float64)
