"""Which form a problem is solved in, and conjugate gradients for many columns of their own rows."""

from __future__ import annotations

from functools import cached_property

import numpy as np

from outcode._checks import Array
from outcode.solvers.jcl.spectrum import Relation, Spectrum
from outcode.solvers.jcl.systems import OwnRows, SharedRows, SmallDual, SmallPrimal

#: Unknowns up to which Eq. 10 of a code with zeros is solved by Cholesky factorisation.
SMALL = 1000
#: Steps of the conjugate gradients, and steps between two looks at the residual.
CG_STEPS, CG_LOOK = 2000, 5
#: The relative residual they stop at is this share of tol, within these limits.
CG_SHARE, CG_LIMITS = 1e-3, (1e-12, 1e-6)
#: The least coupling of a column with itself, as a share of the largest, in the preconditioner.
LEAST = 1e-10


class ConjugateGradients(OwnRows):
    """The system of :class:`SmallDual`, u + F (F'u T) = y, never built.

    F are the features of each column's rows. A product costs O(n^2 L), with few features
    O(n r L). The preconditioner takes the columns for independent, each with its own entry of the
    diagonal of T; it is exact where T is diagonal.
    """

    def half_weights(self, T: Relation, start: Array | None, tol: float) -> Array:
        """Return H (r, L), where W = H T^1/2, of the best W for this T, from ``start``."""
        half, matrix, side = T.root(), T.matrix(), self.size * self.Y
        tau = np.maximum(np.diag(matrix), LEAST * np.diag(matrix).max())
        u = side if start is None else side - self.push(start @ half)
        enough = float(np.clip(CG_SHARE * tol, *CG_LIMITS) * np.linalg.norm(self.G0 @ half))
        residual = side - u - self.coupled(u, matrix)
        p, before = np.zeros_like(u), 1.0
        for step in range(CG_STEPS):
            if step % CG_LOOK == 0 and np.linalg.norm(self.pull(residual) @ half) <= enough:
                break
            z = self.ridge(residual, 1 / tau) / tau
            now = float((residual * z).sum())
            p = z + (now / before) * p
            image = p + self.coupled(p, matrix)
            length = now / float((p * image).sum())
            u, residual, before = u + length * p, residual - length * image, now
        return self.pull(u) @ half

    @cached_property
    def _gram(self) -> Array:
        """The centred Gram, put together again."""
        return (self.spectrum.basis * self.spectrum.s) @ self.spectrum.basis.T

    def coupled(self, u: Array, T: Array) -> Array:
        """Return F (F'u T): by the Gram it is one product instead of two."""
        if self.few_features:
            return self.push(self.pull(u) @ T)
        return self.size * self.centred(self._gram @ ((self.size * u) @ T))


Problem = SharedRows | SmallPrimal | SmallDual | ConjugateGradients


def problem_of(spectrum: Spectrum, targets: Array) -> Problem:
    """Return the problem of the targets (n, L) of the spectrum's rows, in the form it is solved."""
    targets = targets.astype(np.float64)
    if (targets != 0).all():
        return SharedRows(spectrum, targets)
    primal, dual = len(spectrum.s) * targets.shape[1], np.count_nonzero(targets)
    if min(primal, dual) > SMALL:
        return ConjugateGradients(spectrum, targets)
    return (SmallPrimal if primal <= dual else SmallDual)(spectrum, targets)
