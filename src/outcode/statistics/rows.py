"""Two methods on the rows of one test set: McNemar's test."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import stats

from outcode.statistics.pairs import Comparison, Pair, compare, summary
from outcode.statistics.table import Table, level, read

#: With fewer rows that only one of the two gets wrong, the p value is binomial; else chi2's.
FEW = 25


@dataclass(frozen=True, kw_only=True)
class McNemarPair(Pair):
    """McNemar's test of one pair.

    Parameters
    ----------
    first : str
        Name of the first method.
    second : str
        Name of the second method.
    advantage : float
        The error rate of the second method less that of the first.
    leader : str or None
        The method that is ahead in these data. None when they are level.
    p_value : float
        Two-sided p value.
    p_holm : float, default=1.0
        The p value corrected for all pairs of the call.
    least_p : float, default=0.0
        The smallest p value that this number of rows can give.
    interval : tuple of float, default=None
        Normal 95% interval of the advantage, not corrected for the number of pairs.
    significant : bool, default=False
        Whether ``p_holm`` is at most the significance level.
    sentence : str, default=""
        The result in plain words.
    df : float, default=inf
        Degrees of freedom: the test has none.
    only_first : int
        Number of rows that only the first method gets wrong.
    only_second : int
        Number of rows that only the second method gets wrong.
    chi2 : float
        The statistic with the continuity correction.
    exact : bool
        Whether ``p_value`` is binomial instead.
    """

    only_first: int
    only_second: int
    chi2: float
    exact: bool

    @property
    def size(self) -> str:
        """Direction and size of the difference, in words."""
        return (
            f"rows only {self.first} gets wrong: {self.only_first}, only {self.second}: "
            f"{self.only_second}; error rates differ by {abs(self.advantage):.3g}"
        )


@dataclass(frozen=True)
class McNemar:
    """McNemar's tests of all pairs asked for.

    Parameters
    ----------
    pairs : tuple of McNemarPair
        The test of each pair.
    alpha : float
        Significance level of the tests.
    left_out : tuple of int
        Indices of the rows with a missing answer.
    sentence : str
        The result in plain words.
    """

    pairs: tuple[McNemarPair, ...]
    alpha: float
    left_out: tuple[int, ...]
    sentence: str


def mcnemar(
    wrong: Any, names: Sequence[str], *, control: str | None = None, alpha: float = 0.05
) -> McNemar:
    """Compare methods two by two on the same test rows, with Holm's correction.

    With n_01 rows that only the first gets wrong and n_10 that only the second does,

        chi2 = (|n_01 - n_10| - 1)^2 / (n_01 + n_10)

    with one degree of freedom; below :data:`FEW` such rows the p value is that of n_01 successes
    in n_01 + n_10 fair trials. It judges the two classifiers as they were trained, not the methods
    on another training set.

    Parameters
    ----------
    wrong : array-like of bool of shape (n_rows, n_methods)
        True where the answer of that method for that row is wrong. A row with a missing answer
        (NaN) is left out.
    names : sequence of str
        Names of the methods, one for each column.
    control : str, default=None
        The method to compare with all others. None compares all pairs.
    alpha : float, default=0.05
        The probability allowed for one or more false claims among the pairs.

    Returns
    -------
    McNemar
        The test of each pair and a summary.

    References
    ----------
    [M47]; [D98] section 3.1.

    Examples
    --------
    >>> wrong = [[True, False]] * 1 + [[False, True]] * 9 + [[False, False]] * 90
    >>> print(mcnemar(wrong, ["A", "B"]).sentence)
    A is better than B on these 100 test rows (p = 0.021; rows only A gets wrong: 1, \
only B: 9; error rates differ by 0.08).
    """
    alpha = level(alpha)
    table = read(wrong, names, unit="test rows")
    if not np.isin(table.errors, (0.0, 1.0)).all():
        raise ValueError("McNemar's test takes True (wrong) and False (right) per row and method.")
    pairs = compare(table, control, alpha, _mcnemar_pair)
    return McNemar(pairs, alpha, table.left_out, summary(pairs, table, alpha))


def beats_rate(wrong: int, n: int, rate: float, alpha: float = 0.01) -> bool:
    """Return whether the error is significantly below a rate, by the binomial test.

    Parameters
    ----------
    wrong : int
        Number of rows predicted wrong.
    n : int
        Number of rows.
    rate : float
        The error rate to compare with.
    alpha : float, default=0.01
        Significance level of the test.

    Returns
    -------
    bool
        Whether the error is significantly below the rate.

    Examples
    --------
    >>> beats_rate(30, 100, 0.5), beats_rate(45, 100, 0.5)
    (True, False)
    """
    return bool(stats.binom.cdf(wrong, n, rate) <= level(alpha))


def _mcnemar_pair(table: Table, first: int, second: int) -> McNemarPair:
    advantage = table.advantage(first, second)
    only_first, only_second = int((advantage < 0).sum()), int((advantage > 0).sum())
    discordant = only_first + only_second
    chi2 = max(abs(only_first - only_second) - 1, 0) ** 2 / max(discordant, 1)
    exact = discordant < FEW
    p = _binomial_p(only_first, discordant) if exact else float(stats.chi2.sf(chi2, 1))
    return McNemarPair(
        first=table.names[first],
        second=table.names[second],
        advantage=float(advantage.mean()),
        leader=table.leader(first, second, only_second - only_first),
        p_value=p,
        only_first=only_first,
        only_second=only_second,
        chi2=chi2,
        exact=exact,
        interval=_paired_interval(float(advantage.mean()), discordant, len(advantage)),
    )


def _paired_interval(advantage: float, discordant: int, n: int) -> tuple[float, float]:
    """Return the normal interval of the difference of two error rates on the same n rows."""
    width = 1.96 * math.sqrt(max(0.0, discordant / n - advantage**2) / n)
    return advantage - width, advantage + width


def _binomial_p(successes: int, trials: int) -> float:
    return float(stats.binomtest(successes, trials).pvalue) if trials else 1.0


TESTS = (
    Comparison(
        "McNemar's test over the rows of the one test set, with Holm's correction",
        *("test rows", "pairs", mcnemar),
    ),
)
