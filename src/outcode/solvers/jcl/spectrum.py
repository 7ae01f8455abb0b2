"""The coordinates of W, and symmetric matrices over the columns by their eigenvectors."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

import numpy as np
from scipy.linalg import blas, eigh, svd

from outcode._checks import Array
from outcode.parallel import interruptible

#: Eigenvalues of a kernel below minus this share of the largest are not rounding.
INDEFINITE = 1e-6


@dataclass(frozen=True)
class Spectrum:
    """Weighted and centred rows  D^1/2 (Phi - mean) = Q diag(sqrt s) B'.

    ``basis`` Q (n, r) orthonormal and orthogonal to ``root`` (n,), the square roots of the weights;
    ``s`` (r,) ascending; ``rows`` (n,) which rows of the user's these are.
    """

    basis: Array
    s: Array
    root: Array
    rows: Array

    @classmethod
    def of_gram(cls, matrix: Array, place: Array, weight: Array) -> Spectrum:
        """Return the spectrum of a Gram matrix whose entry ``place[i]`` is row i."""
        rows = np.flatnonzero(weight > 0)
        d = np.sqrt(weight[rows])
        K = matrix[np.ix_(place[rows], place[rows])].T.astype(np.float64, order="F")
        K *= d
        K *= d[:, None]
        unit = d / np.linalg.norm(d)
        product = K @ unit
        size = float(np.linalg.norm(product))
        product -= 0.5 * (unit @ product) * unit
        K = blas.dsyr2(-1.0, unit, product, a=K, lower=1, overwrite_a=1)  # (I - uu') K (I - uu')
        options: Any = {"lower": True, "overwrite_a": True, "check_finite": False, "driver": "evr"}
        s, Q = interruptible(partial(eigh, K, **options), len(K))
        first = _first_positive(s, size, matrix.dtype)
        Q = blas.dger(-1.0, unit, unit @ Q, a=Q, overwrite_a=1)  # small s: mixed with u's 0
        return cls(Q[:, first:], s[first:], d, rows)

    @classmethod
    def of_rows(cls, X: Array, weight: Array) -> Spectrum:
        """Return the spectrum of dense rows, for the linear kernel."""
        rows = np.flatnonzero(weight > 0)
        c = weight[rows]
        d = np.sqrt(c)
        centred = (X[rows] - (c / c.sum()) @ X[rows]) * d[:, None]
        factors = partial(svd, centred, full_matrices=False, check_finite=False)
        Q, lengths, _ = interruptible(factors, len(centred))
        r = int((lengths > max(X.shape) * np.finfo(float).eps * lengths[0]).sum())
        return cls(Q[:, :r][:, ::-1].copy(order="F"), lengths[:r][::-1] ** 2, d, rows)

    @cached_property
    def scale(self) -> Array:
        """sqrt(s) as a column."""
        return np.sqrt(self.s)[:, None]

    def dual_coef(self, W: Array) -> Array:
        """Return what V T is on the rows, up to what the kernel maps to zero: sums of columns 0."""
        coef = self.root[:, None] * (self.basis @ (W / self.scale))
        return coef - np.outer(self.root**2 / (self.root @ self.root), coef.sum(axis=0))


def _first_positive(s: Array, size: float, dtype: np.dtype[Any]) -> int:
    """Return where the eigenvalues beyond rounding begin, or an error if some are negative.

    ``size`` is that of the matrix before it was centred: what rounding is a share of.
    """
    size = max(float(s[-1]), size)
    if s[0] < -INDEFINITE * size:
        raise ValueError(
            f"The kernel is not positive definite: the centred kernel matrix has the eigenvalues "
            f"{s[0]:.3g} to {s[-1]:.3g}. Use a positive definite kernel."
        )
    return int(np.searchsorted(s, 10 * np.finfo(dtype).eps * size, side="right"))


@dataclass(frozen=True)
class Relation:
    """M = R diag(m) R' or T = R diag(m) R': ``vectors`` R (L, k) orthonormal, ``values`` m (k,)."""

    vectors: Array
    values: Array

    @classmethod
    def even(cls, n_columns: int) -> Relation:
        """Return I / L."""
        return cls(np.eye(n_columns), np.full(n_columns, 1 / n_columns))

    def matrix(self) -> Array:
        """Return the L x L matrix."""
        return (self.vectors * self.values) @ self.vectors.T

    def coupling(self, lambda1: float, lambda2: float) -> Relation:
        """Return T = M (lambda1 M + lambda2 I)^-1."""
        return Relation(self.vectors, self.values / (lambda1 * self.values + lambda2))

    def root(self) -> Array:
        """Return the square root of the matrix."""
        return (self.vectors * np.sqrt(self.values)) @ self.vectors.T
