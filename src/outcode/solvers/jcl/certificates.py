"""What a solver hands back, and the dual value that certifies it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.linalg import svd

from outcode._checks import Array
from outcode.solvers.certificate import Certificate
from outcode.solvers.jcl.spectrum import Relation


@dataclass(frozen=True)
class Decomposed:
    """W = P diag(sigma) R': ``left`` P (r, k), ``sigma`` (k,) descending, ``right`` R' (k, L)."""

    left: Array
    sigma: Array
    right: Array

    @classmethod
    def of(cls, W: Array) -> Decomposed:
        """Return the singular value decomposition of W."""
        return cls(*svd(W, full_matrices=False, check_finite=False))

    @property
    def total(self) -> float:
        """|W|_*, the trace norm."""
        return float(self.sigma.sum())

    def scaled(self, sigma: Array) -> Array:
        """Return the matrix with these singular values instead."""
        return (self.left * sigma) @ self.right

    def relation(self) -> Relation:
        """Return M of Eq. 15, (W'W)^1/2 over its trace; I / L if W is 0."""
        if self.total > 0:
            return Relation(self.right.T, self.sigma / self.total)
        return Relation.even(self.right.shape[1])

    def half(self, lambda1: float, lambda2: float) -> Array:
        """Return H = W T^-1/2 for the T of that relation."""
        return self.scaled(np.sqrt(self.sigma * (lambda1 * self.sigma + lambda2 * self.total)))

    def penalty(self, lambda1: float, lambda2: float) -> float:
        """Return Omega(W) = lambda1/2 |W|_F^2 + lambda2/2 |W|_*^2."""
        return lambda1 / 2 * float(self.sigma @ self.sigma) + lambda2 / 2 * self.total**2


@dataclass(frozen=True)
class Round:
    """W, b of Eq. 10 for one relation, and the relation of Eq. 15 for them.

    ``W`` (r, L), also ``decomposed``; ``half`` H with W = H T^1/2, T the ``coupling`` W was solved
    with; ``relation`` Eq. 15 of W; ``objective`` Eq. 4 of W and this relation; ``bound`` a lower
    bound of its minimum.
    """

    W: Array
    decomposed: Decomposed
    half: Array
    coupling: Relation
    relation: Relation
    objective: float
    bound: float


@dataclass(frozen=True, kw_only=True)
class Solution(Certificate):
    """The last round, the objectives that each lowered the one before, gap and iterations.

    ``gap`` is the relative duality gap of the round, under the largest lower bound met.
    """

    round: Round
    path: Array


def lower_bound(W: Array, G: Array, loss: float, lambda1: float, lambda2: float) -> float:
    """Return a dual value of the squared-trace-norm form of Eq. 4: its minimum is not below.

    The dual variables are V = 2 c / N (t - f), scaled to the best length: the dual value is
    (2 loss + <W, G>)^2 / 4 (loss + Omega*(G)), G = Phi'V.
    """
    linear = 2 * loss + float((W * G).sum())
    g = svd(G, compute_uv=False, check_finite=False)
    return linear**2 / max(4 * (loss + conjugate(g, lambda1, lambda2)), np.finfo(float).tiny)


def conjugate(g: Array, lambda1: float, lambda2: float) -> float:
    """Return Omega*(G) of the penalty Omega, g the singular values of G, descending.

    >>> conjugate(np.array([2.0]), 1.0, 1.0)
    1.0
    """
    return float(0.5 * (lengths(g, lambda1, lambda2) @ g))


def lengths(g: Array, lambda1: float, lambda2: float) -> Array:
    """Return sigma >= 0 that maximises g.sigma - Omega(sigma), g descending.

    It is sigma_j = max(0, g_j - lambda2 sum sigma) / lambda1.

    >>> lengths(np.array([2.0, 0.5]), 1.0, 1.0)
    array([1., 0.])
    """
    totals = np.cumsum(g) / (lambda1 + lambda2 * np.arange(1, len(g) + 1))
    active = np.flatnonzero(g > lambda2 * totals)
    total = totals[active[-1]] if len(active) else 0.0
    return np.maximum(0.0, g - lambda2 * total) / lambda1
