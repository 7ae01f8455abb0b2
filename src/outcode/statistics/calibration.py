"""Whether probabilities hold: the gap seen against the gap that chance alone would show."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from outcode._checks import Array
from outcode.statistics.table import level

#: Draws of the gap that perfect probabilities show.
DRAWS = 4000


@dataclass(frozen=True)
class Calibration:
    """Stated probabilities against accuracies, over all rows.

    Parameters
    ----------
    rows : int
        Number of rows.
    stated : float
        Mean stated probability.
    right : float
        Share of rows that are right.
    gap : float
        Mean gap over the bins.
    chance : float
        The gap that perfect probabilities show on average on so many rows.
    allowed : float
        The gap that perfect probabilities stay below with probability 1 - alpha / 2.
    lean_allowed : float
        The same limit for the size of the lean, ``stated - right``.
    alpha : float
        Significance level of the test.
    """

    rows: int
    stated: float
    right: float
    gap: float
    chance: float
    allowed: float
    lean_allowed: float
    alpha: float

    @property
    def lean(self) -> float:
        """By how much the probabilities are too high on average."""
        return self.stated - self.right

    @property
    def biased(self) -> bool:
        """Whether they are too high or too low on average, beyond chance."""
        return abs(self.lean) > self.lean_allowed

    @property
    def significant(self) -> bool:
        """Whether perfect probabilities would show this with probability alpha at most."""
        return self.biased or self.gap > self.allowed


def calibration(
    count: Array,
    confidence: Array,
    accuracy: Array,
    *,
    repeats: int = 1,
    alpha: float = 0.01,
    random_state: int = 0,
) -> Calibration:
    """Test whether the accuracies of a reliability diagram equal the stated probabilities.

    If the probabilities are perfect, the rows right among the n_b of a bin are binomial with its
    mean confidence p_b (their variance is at most that, since rows of one bin differ in p); from
    draws of all bins the gap sum_b n_b |a_b - p_b| / n and the lean sum_b n_b (p_b - a_b) / n have
    the distributions that those seen are compared with, each at level alpha / 2.

    Parameters
    ----------
    count : ndarray of shape (n_bins,)
        Number of rows in each bin, as in :class:`outcode.metrics.Reliability`.
    confidence : ndarray of shape (n_bins,)
        Mean stated probability in each bin.
    accuracy : ndarray of shape (n_bins,)
        Share of rows that are right in each bin.
    repeats : int, default=1
        Number of times each row was tested. Repeated rows do not count as new evidence.
    alpha : float, default=0.01
        Largest probability of calling perfect probabilities wrong.
    random_state : int, default=0
        Seed of the draws.

    Returns
    -------
    Calibration
        The observed gaps and the gaps expected by chance.

    Examples
    --------
    >>> found = calibration(np.array([1797]), np.array([0.999]), np.array([0.982]))
    >>> found.significant, found.lean > 0, round(found.gap, 3)
    (True, True, 0.017)
    """
    alpha, used = level(alpha), count > 0
    n, p, a = count[used] / repeats, np.clip(confidence[used], 0, 1), accuracy[used]
    share = n / n.sum()
    trials = np.maximum(1, np.rint(n)).astype(int)
    drawn = np.random.default_rng(random_state).binomial(trials, p, (DRAWS, len(p))) / trials - p
    gaps, leans = np.abs(drawn) @ share, np.abs(drawn @ share)
    return Calibration(
        rows=int(count.sum()),
        stated=float(p @ share),
        right=float(a @ share),
        gap=float(np.abs(a - p) @ share),
        chance=float(gaps.mean()),
        allowed=float(np.quantile(gaps, 1 - alpha / 2)),
        lean_allowed=float(np.quantile(leans, 1 - alpha / 2)),
        alpha=alpha,
    )
