"""Two methods over many data sets, by signed ranks: Wilcoxon's test, and its Bayesian sister."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from scipy import stats
from sklearn.utils import check_random_state, gen_batches

from outcode._checks import Array
from outcode.statistics.pairs import (
    ROPE,
    BayesianPair,
    BayesianPairs,
    Comparison,
    Pair,
    bayesian_summary,
    chosen,
    compare,
    summary,
)
from outcode.statistics.table import Table, level, read

#: Up to so many data sets Wilcoxon's p value is exact; beyond, normal.
EXACT = 100
#: Draws from the Dirichlet posterior: probabilities have a standard error of at most 0.0023.
DRAWS = 50_000
#: Weight of the prior's one pseudo-observation, which says "no difference" ([BCDZ17]).
PRIOR = 0.5


@dataclass(frozen=True, kw_only=True)
class WilcoxonPair(Pair):
    """Wilcoxon's test of one pair.

    Parameters
    ----------
    first : str
        Name of the first method.
    second : str
        Name of the second method.
    advantage : float
        The Hodges-Lehmann estimate: the median of all averages of two data sets' differences.
    leader : str or None
        The method that is ahead in these data. None when they are level.
    p_value : float
        Two-sided p value.
    p_holm : float, default=1.0
        The p value corrected for all pairs of the call.
    least_p : float, default=0.0
        The smallest p value that this number of rows can give.
    interval : tuple of float, default=None
        Confidence interval of the advantage, where the test has one.
    significant : bool, default=False
        Whether ``p_holm`` is at most the significance level.
    sentence : str, default=""
        The result in plain words.
    df : float, default=inf
        Degrees of freedom: the test has none.
    R_plus : float
        Rank sum of the data sets on which the first method is better, those without a difference
        split.
    R_minus : float
        Rank sum of the data sets on which the second method is better.
    z : float
        The standardised ``R_plus``.
    wins : int
        Number of data sets on which the first method is better.
    ties : int
        Number of data sets without a difference.
    losses : int
        Number of data sets on which the first method is worse.
    """

    R_plus: float
    R_minus: float
    z: float
    wins: int
    ties: int
    losses: int

    @property
    def size(self) -> str:
        """Direction and size of the difference, in words."""
        equal = f", equal on {self.ties}" if self.ties else ""
        counts = f"{self.first} better on {self.wins}, {self.second} on {self.losses}{equal}"
        return f"{counts}; typical difference {abs(self.advantage):.3g}"


@dataclass(frozen=True)
class Wilcoxon:
    """Wilcoxon's tests of all pairs asked for.

    Parameters
    ----------
    pairs : tuple of WilcoxonPair
        The test of each pair.
    alpha : float
        Significance level of the tests.
    left_out : tuple of int
        Indices of the data sets with a missing cell.
    sentence : str
        The result in plain words.
    """

    pairs: tuple[WilcoxonPair, ...]
    alpha: float
    left_out: tuple[int, ...]
    sentence: str


def wilcoxon(
    errors: Any,
    names: Sequence[str],
    *,
    control: str | None = None,
    alpha: float = 0.05,
    lower_is_better: bool = True,
) -> Wilcoxon:
    """Compare methods two by two over data sets with Wilcoxon's signed-rank test and Holm.

    The absolute differences d_i are ranked, equal ones sharing their ranks; with d_i > 0 where
    the first method is better,

        R+ = sum_{d_i > 0} rank(d_i) + 1/2 sum_{d_i = 0} rank(d_i),   R- likewise.

    An odd number of zero differences loses one of them first. The p value is exact up to
    :data:`EXACT` data sets: every difference takes either sign with probability 1/2, given the
    ranks as they are; beyond, R+ is normal with the variance sum_{d_i != 0} rank(d_i)^2 / 4.

    Parameters
    ----------
    errors : array-like of shape (n_datasets, n_methods)
        One error for each data set and method. A data set with a missing cell (NaN) is left out.
    names : sequence of str
        Names of the methods, one for each column.
    control : str, default=None
        The method to compare with all others. None compares all pairs.
    alpha : float, default=0.05
        The probability allowed for one or more false claims among the pairs.
    lower_is_better : bool, default=True
        Whether lower values are better. Use False for accuracies.

    Returns
    -------
    Wilcoxon
        The test of each pair and a summary.

    References
    ----------
    [D06] section 3.1.3; [H79].

    Examples
    --------
    >>> errors = [[0.10, 0.13], [0.20, 0.22], [0.15, 0.16], [0.30, 0.35], [0.05, 0.11], [0.2, 0.24]]
    >>> print(wilcoxon(errors, ["A", "B"]).sentence)
    A is better than B on these 6 data sets (p = 0.031; A better on 6, B on 0; typical \
difference 0.035).
    """
    alpha = level(alpha)
    table = read(errors, names, lower_is_better=lower_is_better)
    pairs = compare(table, control, alpha, _wilcoxon_pair)
    return Wilcoxon(pairs, alpha, table.left_out, summary(pairs, table, alpha))


def bayesian_signed_rank(
    errors: Any,
    names: Sequence[str],
    *,
    control: str | None = None,
    rope: float = ROPE,
    lower_is_better: bool = True,
    random_state: Any = 0,
) -> BayesianPairs:
    """Return the probabilities that one method is practically better, equal or worse.

    The differences z_1..z_N of two methods, with z_0 = 0 of weight s = 1/2 as the prior, have
    weights w ~ Dirichlet(s, 1, ..., 1); the shares of the three regions are

        theta_first  = sum_ij w_i w_j [z_i + z_j < -2 rope],
        theta_rope   = sum_ij w_i w_j [|z_i + z_j| <= 2 rope],
        theta_second = sum_ij w_i w_j [z_i + z_j > 2 rope].

    A probability is the share of :data:`DRAWS` Monte Carlo draws in which its theta is the largest
    of the three. It is no p value: nothing is corrected for the number of pairs.

    Parameters
    ----------
    errors : array-like of shape (n_datasets, n_methods)
        One error for each data set and method. A data set with a missing cell (NaN) is left out.
    names : sequence of str
        Names of the methods, one for each column.
    control : str, default=None
        The method to compare with all others. None compares all pairs.
    rope : float, default=0.01
        Differences up to this, in the units of the table, count as practically equal.
    lower_is_better : bool, default=True
        Whether lower values are better. Use False for accuracies.
    random_state : int, RandomState or None, default=0
        Seed of the draws. All pairs share the draws.

    Returns
    -------
    BayesianPairs
        The posterior probabilities of each pair and a summary.

    References
    ----------
    [BCDZ17], the Bayesian signed-rank test.

    Examples
    --------
    >>> errors = [[0.10, 0.103], [0.20, 0.20], [0.15, 0.151], [0.30, 0.298], [0.05, 0.051]] * 3
    >>> bayesian_signed_rank(errors, ["A", "B"], rope=0.01).pairs[0].equal
    True
    """
    if not (np.isfinite(rope) and rope >= 0):
        raise ValueError(f"rope must be a finite number >= 0, got {rope!r}.")
    table = read(errors, names, lower_is_better=lower_is_better)
    seed = check_random_state(random_state).randint(2**31 - 1)  # all pairs share the draws
    pairs = tuple(
        _bayesian_pair(table, i, j, rope, np.random.default_rng(seed))
        for i, j in chosen(table.names, control)
    )
    sentence = bayesian_summary(pairs, table.scope)
    return BayesianPairs(pairs, float(rope), table.left_out, sentence)


def _wilcoxon_pair(table: Table, first: int, second: int) -> WilcoxonPair:
    advantage = table.advantage(first, second)
    split = _one_zero_less(advantage)
    ranks = stats.rankdata(np.abs(split))
    half = ranks[split == 0].sum() / 2
    R_plus, R_minus = ranks[split > 0].sum() + half, ranks[split < 0].sum() + half
    z, p = _signed_rank_test(ranks[split != 0], R_plus - R_minus)
    return WilcoxonPair(
        first=table.names[first],
        second=table.names[second],
        advantage=_hodges_lehmann(split, table.rounding),
        leader=table.leader(first, second, R_plus - R_minus),
        p_value=p,
        least_p=2.0 ** (1 - len(advantage)),
        R_plus=float(R_plus),
        R_minus=float(R_minus),
        z=z,
        wins=int((advantage > 0).sum()),
        ties=int((advantage == 0).sum()),
        losses=int((advantage < 0).sum()),
    )


def _one_zero_less(values: Array) -> Array:
    """Return the values, one zero removed if their number is odd: the others can be split."""
    zeros = np.flatnonzero(values == 0)
    return np.delete(values, zeros[:1]) if len(zeros) % 2 else values


def _signed_rank_test(ranks: Array, balance: float) -> tuple[float, float]:
    """Return z and the two-sided p value of a balance R+ - R- of ranks with random signs."""
    if balance == 0:
        return 0.0, 1.0
    z = balance / math.sqrt(float((ranks**2).sum()))
    if len(ranks) > EXACT:
        return z, float(2 * stats.norm.sf(abs(z)))
    doubled = np.sort(np.rint(2 * ranks)).astype(int)  # shared ranks are halves
    below = _negative_rank_sums(tuple(doubled.tolist()))
    smaller = round((doubled.sum() - 2 * abs(balance)) / 2)
    return z, min(1.0, 2 * float(below[smaller]))


@lru_cache(maxsize=64)
def _negative_rank_sums(ranks: tuple[int, ...]) -> Array:
    """Return P(sum of the negative ranks <= s) for s = 0, 1, ..., signs fair and independent."""
    chance = np.zeros(sum(ranks) + 1)
    chance[0] = 1.0
    for rank in ranks:
        chance[rank:] += chance[:-rank]
        chance /= 2
    return np.cumsum(chance)


def _hodges_lehmann(values: Array, rounding: float) -> float:
    """Return the median of (v_i + v_j) / 2 over i <= j; 0 within rounding."""
    if not len(values):
        return 0.0
    rows, columns = np.triu_indices(len(values))
    median = float(np.median(values[rows] + values[columns])) / 2
    return median if abs(median) > rounding else 0.0


def _bayesian_pair(
    table: Table, first: int, second: int, rope: float, rng: np.random.Generator
) -> BayesianPair:
    won, theta = _posterior(table.advantage(first, second), rope + table.rounding, rng)
    return BayesianPair(
        first=table.names[first],
        second=table.names[second],
        p_first=float(won[0]),
        p_rope=float(won[1]),
        p_second=float(won[2]),
        rope=rope,
        scope=table.scope,
        theta=theta,
    )


def _posterior(advantage: Array, rope: float, rng: np.random.Generator) -> tuple[Array, Array]:
    """Return how often each region's theta is the largest, and the mean thetas."""
    z = np.r_[0.0, advantage]
    sums = z[:, None] + z
    better, worse = (sums > 2 * rope).astype(float), (sums < -2 * rope).astype(float)
    won, total = np.zeros(3), np.zeros(3)
    for batch in gen_batches(DRAWS, max(1, 2**20 // len(z))):
        w = _dirichlet(batch.stop - batch.start, len(advantage), rng)
        first, second = ((w @ better) * w).sum(axis=1), ((w @ worse) * w).sum(axis=1)
        theta = np.stack([first, 1 - first - second, second], axis=1)
        won += np.bincount(theta.argmax(axis=1), minlength=3)
        total += theta.sum(axis=0)
    return won / DRAWS, total / DRAWS


def _dirichlet(n_draws: int, n: int, rng: np.random.Generator) -> Array:
    """Draw weights from Dirichlet(PRIOR, 1, ..., 1)."""
    weights = rng.standard_exponential((n_draws, n + 1))
    weights[:, 0] = rng.standard_gamma(PRIOR, n_draws)
    return np.asarray(weights / weights.sum(axis=1, keepdims=True))


TESTS = (
    Comparison(
        "Wilcoxon's signed-rank test over the data sets, with Holm's correction",
        *("data sets", "pairs", wilcoxon),
    ),
    Comparison(
        "the Bayesian signed-rank test",
        *("data sets", "practical", bayesian_signed_rank),
        least=5,  # with fewer data sets the prior weighs too much
    ),
)
