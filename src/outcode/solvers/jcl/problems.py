"""Which form a problem is solved in."""

from __future__ import annotations

import numpy as np

from outcode._checks import Array
from outcode.solvers.jcl.gradients import ConjugateGradients
from outcode.solvers.jcl.spectrum import Spectrum
from outcode.solvers.jcl.systems import SharedRows, SmallDual, SmallPrimal

#: Unknowns up to which Eq. 10 of a code with zeros is solved by Cholesky factorisation.
SMALL = 1000

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
