"""Kernels that the user gives: a function, or the values themselves."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from outcode._checks import Array
from outcode.formula import FormulaError, symbolic
from outcode.kernels.common import Kernel, Rows


@dataclass(frozen=True)
class Custom(Kernel):
    """A kernel given as a Python function.

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
            raise FormulaError("the kernel is a user-defined function: use a named kernel")
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
    """A precomputed kernel: a row holds its kernel values with all training rows.

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
