"""Which methods are worse than the best, when the same table shows which is the best."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np
from scipy import stats

from outcode._checks import Array

#: Simulated tables of equally good methods, and how many at a time.
DRAWS, BLOCK = 50_000, 5_000


def against_best(p_values: Any, df: float = np.inf) -> Array:
    """Correct the p values of the best method against every other.

    The best of k equally good methods is ahead of the others because it was chosen, so its p values
    are too small. Corrected, a p value is the probability that the smallest of the k - 1 is as
    small among equally good methods: with means m ~ N(0, I_k), the best b = argmin m, and normal
    folds, it is the share of simulated tables with

        max_j (m_j - m_b) / s_bj >= t,

    where s_bj is the standard deviation of the differences in df + 1 folds and t the quantile of p.
    This holds the probability of one or more false claims at the level, in one step, as Tukey's
    and Hsu's procedures do for a common variance ([H96] chapters 4 and 5).

    Parameters
    ----------
    p_values : array-like of shape (n_methods - 1,)
        Two-sided p values of the best method against each other one.
    df : float, default=inf
        Degrees of freedom of the tests.

    Returns
    -------
    ndarray of shape (n_methods - 1,)
        The corrected p values, in the same order.

    Examples
    --------
    >>> against_best([0.01], df=4).round(2).tolist()
    [0.01]
    >>> corrected = against_best([0.01, 0.2, 0.5])
    >>> bool(0.03 < corrected[0] < 0.06)
    True
    """
    p = np.asarray(p_values, dtype=np.float64)
    if len(p) < 2:
        return p
    simulated = _smallest_p(len(p) + 1, float(df))
    return np.maximum(p, np.searchsorted(simulated, p, side="right") / len(simulated))


@lru_cache(maxsize=64)
def _smallest_p(n_methods: int, df: float) -> Array:
    """Return the smallest p value against the best in tables of equal methods, sorted."""
    rng = np.random.default_rng(0)
    largest = [_largest_t(rng, n_methods, df) for _ in range(DRAWS // BLOCK)]
    found: Array = np.sort(2 * stats.t.sf(np.concatenate(largest), df))
    return found


def _largest_t(rng: np.random.Generator, n_methods: int, df: float) -> Array:
    means = rng.standard_normal((BLOCK, n_methods))
    best = means.argmin(axis=1)[:, None]
    gap = means - np.take_along_axis(means, best, axis=1)
    if np.isinf(df):
        return np.asarray(gap.max(axis=1) / np.sqrt(2))
    square = np.zeros_like(gap)
    total = np.zeros_like(gap)
    for _ in range(int(df) + 1):
        fold = rng.standard_normal((BLOCK, n_methods))
        difference = fold - np.take_along_axis(fold, best, axis=1)
        total += difference
        square += difference**2
    deviation = np.sqrt((square - total**2 / (df + 1)) / df)
    np.put_along_axis(deviation, best, 1.0, axis=1)
    return np.asarray((gap / deviation).max(axis=1))


def degrees(pairs: Sequence[Any]) -> float:
    """Return the degrees of freedom of the tests of some pairs; infinity where they have none."""
    return min(pair.df for pair in pairs)
