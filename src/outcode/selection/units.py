"""Features in different units: the factors that standardise them, and whether to use them."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse

from outcode._checks import Array
from outcode.selection.landscape import RIDGES, Landscape, hopeless, preferred

#: Deviations of features that differ by no more than this factor are of one scale.
ALIKE = 3.0


def unit_scale(X: Any, weight: Array) -> Array | None:
    """Return the factors that standardise the features, None where they are of one scale.

    A feature of two values has a range of 1 instead of a deviation of 1, as a column of 0 and 1
    has already. Sparse rows stay as they are.

    Parameters
    ----------
    X : (n_samples, n_features) dense or CSR
    weight : (n_samples,)

    Examples
    --------
    >>> X = np.column_stack([np.arange(5.0), 1000.0 * np.arange(5.0), [0, 1, 0, 1, 1]])
    >>> unit_scale(X, np.ones(5)).round(4).tolist()
    [0.7071, 0.0007, 1.0]
    """
    if sparse.issparse(X):
        return None
    rows = X[weight > 0]
    low, high, deviation = rows.min(axis=0), rows.max(axis=0), rows.std(axis=0)
    two_values = ((rows == low) | (rows == high)).all(axis=0)
    spread = np.where(two_values, high - low, deviation)
    varies = np.isfinite(spread) & (spread > np.finfo(np.float64).tiny)
    numbers = spread[varies & ~two_values]
    if len(numbers) == 0 or numbers.max() <= ALIKE * numbers.min():
        return None
    return np.asarray(1.0 / np.where(varies, spread, 1.0))


def standardises(land: Landscape, factors: Array, kernel: Any, code: Any, scoring: str) -> bool:
    """Return whether to multiply the features by ``factors``.

    Compared by leave-one-out at a middle width; the features stay as they are where the factors
    lose by a standard error.
    """
    given, standardised = (
        preferred(own.trials(kernel, 0.25 / own.median(kernel), code, RIDGES[1::2]), scoring)
        for own in (land, land.times(factors))
    )
    return not hopeless(standardised, given, land.scored, 1.0)
