"""Many methods at once, by their ranks: average ranks, Friedman's test, Nemenyi's difference."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from scipy import stats

from outcode._checks import Array
from outcode.statistics.pairs import Comparison, p_words
from outcode.statistics.table import Table, level, read

#: Average ranks closer than this are equal: what differs beyond is rounding.
EQUAL = 1e-9


@dataclass(frozen=True)
class AverageRanks:
    """Ranks of methods on data sets, 1 the best, equal ones sharing theirs.

    Parameters
    ----------
    names : tuple of str
        Names of the methods.
    ranks : ndarray of shape (n_datasets, n_methods)
        Ranks on each data set, without those left out.
    average : ndarray of shape (n_methods,)
        Average rank of each method.
    left_out : tuple of int
        Indices of the data sets with a missing cell.
    sentence : str
        The result in plain words.
    """

    names: tuple[str, ...]
    ranks: Array
    average: Array
    left_out: tuple[int, ...]
    sentence: str


@dataclass(frozen=True)
class Friedman:
    """Friedman's chi2 with its p value, and Iman and Davenport's F with ``p_value``.

    Parameters
    ----------
    chi2 : float
        Friedman's statistic.
    chi2_p_value : float
        The p value of ``chi2``.
    F : float
        Iman and Davenport's statistic. It is infinite when all data sets rank the methods alike.
    p_value : float
        The p value of ``F``. It is exact when ``F`` is infinite.
    df : tuple of int
        Degrees of freedom of ``F``: (n_methods - 1, (n_methods - 1)(n_datasets - 1)).
    significant : bool
        Whether ``p_value`` is at most the significance level.
    ranks : AverageRanks
        The ranks that the test is based on.
    sentence : str
        The result in plain words.
    """

    chi2: float
    chi2_p_value: float
    F: float
    p_value: float
    df: tuple[int, int]
    significant: bool
    ranks: AverageRanks
    sentence: str


@dataclass(frozen=True)
class Nemenyi:
    """The pairs of methods whose average ranks differ by the critical difference or more.

    Parameters
    ----------
    critical_difference : float
        Smallest significant difference of two average ranks.
    q : float
        The critical value (Studentized range / sqrt 2).
    p_values : ndarray of shape (n_methods, n_methods)
        The p value of each pair, corrected for all pairs.
    significant : ndarray of shape (n_methods, n_methods)
        Whether each pair differs significantly.
    groups : tuple of tuple of str
        The largest sets of two or more methods, best first, of which no two differ significantly.
    ranks : AverageRanks
        The ranks that the test is based on.
    sentence : str
        The result in plain words.
    """

    critical_difference: float
    q: float
    p_values: Array
    significant: Array
    groups: tuple[tuple[str, ...], ...]
    ranks: AverageRanks
    sentence: str


def average_ranks(
    errors: Any, names: Sequence[str], *, lower_is_better: bool = True
) -> AverageRanks:
    """Rank the methods on every data set and average: R_j = (1/N) sum_i r_i^j.

    Parameters
    ----------
    errors : array-like of shape (n_datasets, n_methods)
        One error for each data set and method. A data set with a missing cell (NaN) is left out.
    names : sequence of str
        Names of the methods, one for each column.
    lower_is_better : bool, default=True
        Whether lower values are better. Use False for accuracies.

    Returns
    -------
    AverageRanks
        The ranks, their averages and a summary.

    References
    ----------
    [D06] section 3.2.2.

    Examples
    --------
    >>> errors = [[0.10, 0.20, 0.20], [0.05, 0.30, 0.40]]
    >>> average_ranks(errors, ["A", "B", "C"]).average.tolist()
    [1.0, 2.25, 2.75]
    """
    return _ranked(read(errors, names, lower_is_better=lower_is_better))


def friedman(
    errors: Any,
    names: Sequence[str],
    *,
    alpha: float = 0.05,
    lower_is_better: bool = True,
    tie_correction: bool = True,
) -> Friedman:
    """Test whether any of the methods differ, by Friedman's chi2 and Iman and Davenport's F.

        chi2 = (k - 1) N^2 sum_j (R_j - (k+1)/2)^2 / sum_ij (r_i^j - (k+1)/2)^2,
        F_F = (N - 1) chi2 / (N (k - 1) - chi2),

    for N data sets and k methods. Without ties the denominator of chi2 is N k (k^2 - 1) / 12, and
    chi2 = 12 N / (k (k+1)) [sum_j R_j^2 - k (k+1)^2 / 4]; ``tie_correction=False`` takes that value
    with ties too, as [D06] does. The verdict is F's: chi2 is too cautious.

    Parameters
    ----------
    errors : array-like of shape (n_datasets, n_methods)
        One error for each data set and method. A data set with a missing cell (NaN) is left out.
    names : sequence of str
        Names of the methods, one for each column.
    alpha : float, default=0.05
        Significance level of the test.
    lower_is_better : bool, default=True
        Whether lower values are better. Use False for accuracies.
    tie_correction : bool, default=True
        Whether ``chi2`` is corrected for ties.

    Returns
    -------
    Friedman
        Both statistics, their p values and a summary.

    References
    ----------
    [D06] section 3.2.2; [ID80].

    Examples
    --------
    >>> errors = [[0.1, 0.2], [0.2, 0.3], [0.1, 0.3], [0.3, 0.2], [0.0, 0.1], [0.2, 0.4]]
    >>> print(friedman(errors, ["A", "B"]).sentence)
    The 2 methods are not significantly different on these 6 data sets (F_F = 4, p = 0.1; average \
ranks, best to worst, go from A's 1.17 to B's 1.83).
    """
    alpha = level(alpha)
    ranked = _ranked(table := read(errors, names, lower_is_better=lower_is_better))
    n, k = ranked.ranks.shape
    chi2 = _chi2(ranked, tie_correction)
    F, p = _iman_davenport(ranked, chi2)
    return Friedman(
        chi2=chi2,
        chi2_p_value=float(stats.chi2.sf(chi2, k - 1)),
        F=F,
        p_value=p,
        df=(k - 1, (k - 1) * (n - 1)),
        significant=p <= alpha,
        ranks=ranked,
        sentence=_friedman_sentence(ranked, table.scope, F, p, alpha),
    )


def nemenyi(
    errors: Any, names: Sequence[str], *, alpha: float = 0.05, lower_is_better: bool = True
) -> Nemenyi:
    """Find the methods whose average ranks differ by the critical difference or more.

        CD = q_alpha sqrt(k (k + 1) / (6 N)),

    for k methods on N data sets, with q_alpha the upper quantile of the Studentized range of k
    values with infinite degrees of freedom, divided by sqrt 2.

    Parameters
    ----------
    errors : array-like of shape (n_datasets, n_methods)
        One error for each data set and method. A data set with a missing cell (NaN) is left out.
    names : sequence of str
        Names of the methods, one for each column.
    alpha : float, default=0.05
        The probability allowed for one or more false claims among the pairs.
    lower_is_better : bool, default=True
        Whether lower values are better. Use False for accuracies.

    Returns
    -------
    Nemenyi
        The critical difference, the groups of methods and a summary.

    References
    ----------
    [D06] section 3.2.2.

    Examples
    --------
    >>> result = nemenyi([[0.1, 0.2, 0.3]] * 7, ["A", "B", "C"])
    >>> round(result.critical_difference, 2), result.groups
    (1.25, (('A', 'B'), ('B', 'C')))
    """
    alpha = level(alpha)
    ranked = _ranked(table := read(errors, names, lower_is_better=lower_is_better))
    n, k = ranked.ranks.shape
    unit = math.sqrt(k * (k + 1) / (6 * n))
    q = _critical_value(k, alpha)
    gaps = np.abs(ranked.average[:, None] - ranked.average)
    significant = gaps >= q * unit - EQUAL
    return Nemenyi(
        critical_difference=q * unit,
        q=q,
        p_values=_range_p(gaps / unit),
        significant=significant,
        groups=_groups(ranked, significant),
        ranks=ranked,
        sentence=_nemenyi_sentence(ranked, significant, table.scope, q * unit, alpha),
    )


def mean_ranks(losses: Array) -> Array:
    """Return the average rank of each column, lower is better, values equal to 12 digits tied.

    Parameters
    ----------
    losses : ndarray of shape (n_datasets, n_methods)
        The values to rank.

    Returns
    -------
    ndarray of shape (n_methods,)
        The average ranks, 1 the best.

    Examples
    --------
    >>> mean_ranks(np.array([[0.1, 0.2, 0.2]])).tolist()
    [1.0, 2.5, 2.5]
    """
    return np.asarray(stats.rankdata(losses.round(12), axis=1).mean(axis=0))


def _ranked(table: Table) -> AverageRanks:
    ranks = stats.rankdata(table.losses(), axis=1)
    average = ranks.mean(axis=0)
    sentence = f"With {table.scope} {_span(table.names, average)}."
    return AverageRanks(table.names, ranks, average, table.left_out, sentence)


def _chi2(ranked: AverageRanks, tie_correction: bool) -> float:
    n, k = ranked.ranks.shape
    middle = (k + 1) / 2
    between = (k - 1) * n**2 * float(((ranked.average - middle) ** 2).sum())
    spread = (
        float(((ranked.ranks - middle) ** 2).sum()) if tie_correction else n * k * (k**2 - 1) / 12
    )
    return between / spread if spread > 0 else 0.0


def _iman_davenport(ranked: AverageRanks, chi2: float) -> tuple[float, float]:
    n, k = ranked.ranks.shape
    if chi2 < EQUAL:
        return 0.0, 1.0
    if (ranked.ranks == ranked.ranks[0]).all():
        return math.inf, _p_of_agreement(ranked.ranks[0], n)
    F = (n - 1) * chi2 / (n * (k - 1) - chi2)
    return F, float(stats.f.sf(F, k - 1, (k - 1) * (n - 1)))


def _p_of_agreement(ranks: Array, n: int) -> float:
    """Return the chance that n data sets rank alike: the first any way, the others the same."""
    ties = np.unique(ranks, return_counts=True)[1]
    ways = math.lgamma(len(ranks) + 1) - sum(math.lgamma(t + 1) for t in ties)
    return math.exp(-(n - 1) * ways)


@lru_cache(maxsize=256)
def _critical_value(k: int, alpha: float) -> float:
    return float(stats.studentized_range.ppf(1 - alpha, k, np.inf)) / math.sqrt(2)


def _range_p(gaps: Array) -> Array:
    """Return the p values of standardised differences between all pairs of average ranks."""
    k, above = len(gaps), np.triu_indices(len(gaps), 1)
    p = np.eye(k)
    p[above] = stats.studentized_range.sf(gaps[above] * math.sqrt(2), k, np.inf)
    return np.maximum(p, p.T)


def _groups(ranked: AverageRanks, significant: Array) -> tuple[tuple[str, ...], ...]:
    """Return the runs of neighbouring ranks that no difference splits and no other run contains."""
    order = np.argsort(ranked.average, kind="stable")
    apart = significant[np.ix_(order, order)]
    groups, reached = [], 0
    for start, row in enumerate(apart):
        stop = len(row) - int(row[start:].sum())  # those apart from the first come last
        if stop > max(reached, start + 1):
            groups.append(tuple(ranked.names[i] for i in order[start:stop]))
        reached = max(reached, stop)
    return tuple(groups)


def _span(names: Sequence[str], average: Array) -> str:
    """Return who has the best and the worst average rank, in words."""
    if np.ptp(average) < EQUAL:
        return f"the methods share the average rank {average[0]:.3g}"
    best, worst = (_holders(names, average, end) for end in (average.min(), average.max()))
    return (
        f"average ranks, best to worst, go from {best} {average.min():.3g} "
        f"to {worst} {average.max():.3g}"
    )


def _holders(names: Sequence[str], average: Array, rank: float) -> str:
    return " and ".join(
        f"{name}'s" for name, r in zip(names, average, strict=True) if abs(r - rank) < EQUAL
    )


def _friedman_sentence(ranked: AverageRanks, scope: str, F: float, p: float, alpha: float) -> str:
    verdict = "differ" if p <= alpha else "are not significantly different"
    numbers = f"F_F = {F:.3g}, {p_words(p, alpha)}; {_span(ranked.names, ranked.average)}"
    return f"The {len(ranked.names)} methods {verdict} on {scope} ({numbers})."


def _nemenyi_sentence(
    ranked: AverageRanks, significant: Array, scope: str, difference: float, alpha: float
) -> str:
    found, k = int(significant.sum()) // 2, len(ranked.names)
    span, bar = (
        _span(ranked.names, ranked.average),
        f"critical difference {difference:.3g} at level {alpha:g}",
    )
    if not found:
        return f"No two methods differ significantly on {scope} ({bar}; {span})."
    best = int(ranked.average.argmin())
    beaten = ", ".join(
        name for name, apart in zip(ranked.names, significant[best], strict=True) if apart
    )
    return (
        f"{found} of the {k * (k - 1) // 2} pairs differ significantly on {scope}, "
        f"among them {ranked.names[best]} as better than {beaten} ({bar}; {span})."
    )


TESTS = (
    Comparison("Friedman's test with Iman and Davenport's F", "data sets", "overall", friedman),
)
