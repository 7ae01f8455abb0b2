"""Positive definite systems: solutions and the diagonal of the inverse, in float64 or float32.

Problem    M x = t  and  [M^-1]_ii, M symmetric and positive definite
Algorithm  M = L L' by LAPACK; L^-1 by halves,

               [ A   0 ]^-1   [     A^-1         0   ]
               [ B   C ]    = [ -C^-1 B A^-1   C^-1 ],

           which leaves nearly all work to products of matrices: LAPACK's own inverse of L takes
           2.5 times as long at 300 rows. [M^-1]_ii is the sum of the squares of column i of L^-1.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.linalg import blas, lapack

from outcode._checks import Array

#: Triangles of at most so many rows are inverted by LAPACK.
SMALL = 64
#: Factorise, solve, invert and multiply, by type.
ROUTINES: dict[Any, tuple[Any, ...]] = {
    np.dtype(np.float64): (lapack.dpotrf, lapack.dpotrs, lapack.dtrtri, blas.dtrmm),
    np.dtype(np.float32): (lapack.spotrf, lapack.spotrs, lapack.strtri, blas.strmm),
}


def solved(M: Array, t: Array) -> tuple[Array, Array]:
    """Return M^-1 t and the diagonal of M^-1, NaN where M is not positive definite.

    Parameters
    ----------
    M : (n, n) float64 or float32 in the order of Fortran; overwritten
    t : (n, n_columns)

    Examples
    --------
    >>> x, diagonal = solved(np.array([[2.0, 0.0], [0.0, 4.0]], order="F"), np.ones((2, 1)))
    >>> x.round(3).ravel().tolist(), diagonal.round(3).tolist()
    ([0.5, 0.25], [0.5, 0.25])
    """
    factorise, solve, _, _ = ROUTINES[M.dtype]
    lower, info = factorise(M, lower=1, clean=1, overwrite_a=1)
    if info:
        return np.full(t.shape, np.nan), np.full(len(t), np.nan)
    x, _ = solve(lower, t, lower=1)
    return x, squared_columns(inverted(lower))


def inverted(lower: Array) -> Array:
    """Return the inverse of a lower triangular matrix, whose memory it takes."""
    _, _, invert, multiply = ROUTINES[lower.dtype]
    n = len(lower)
    if n <= SMALL:
        lower[...] = invert(lower, lower=1)[0]
        return lower
    half = -(-n // 16) * 8
    left, right = inverted(lower[:half, :half]), inverted(lower[half:, half:])
    below = multiply(1.0, left, lower[half:, :half], side=1, lower=1)
    lower[half:, :half] = multiply(-1.0, right, below, lower=1)
    return lower


def squared_columns(A: Array) -> Array:
    """Return the sum of the squares of every column."""
    return np.asarray(np.einsum("ik,ik->i", A.T, A.T))
