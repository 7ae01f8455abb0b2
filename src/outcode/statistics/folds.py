"""Two methods on the folds of a data set: the corrected t test, and t tests counted."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import stats

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
from outcode.statistics.table import Table, level, numbers, read


@dataclass(frozen=True, kw_only=True)
class CorrectedTPair(Pair):
    """The corrected t test of one pair.

    Parameters
    ----------
    first : str
        Name of the first method.
    second : str
        Name of the second method.
    advantage : float
        Mean over the folds of how much the first method is better, in the units of the table.
    leader : str or None
        The method that is ahead in these data. None when they are level.
    p_value : float
        Two-sided p value.
    p_holm : float, default=1.0
        The p value corrected for all pairs of the call.
    least_p : float, default=0.0
        The smallest p value that this number of rows can give.
    interval : tuple of float, default=None
        Confidence interval of the advantage at 1 - alpha, not corrected for the number of pairs.
    significant : bool, default=False
        Whether ``p_holm`` is at most the significance level.
    sentence : str, default=""
        The result in plain words.
    df : int
        Degrees of freedom.
    t : float
        The t statistic. It is infinite when all folds show the same difference.
    """

    t: float
    df: int

    @property
    def size(self) -> str:
        """Direction and size of the difference, in words."""
        if self.leader is None:
            return "level on average"
        return f"{self.leader} ahead by {abs(self.advantage):.3g} on average"


@dataclass(frozen=True)
class CorrectedT:
    """Corrected t tests of all pairs asked for.

    Parameters
    ----------
    pairs : tuple of CorrectedTPair
        The test of each pair.
    alpha : float
        Significance level of the tests.
    test_train_ratio : float
        Ratio of test rows to training rows.
    left_out : tuple of int
        Indices of the folds with a missing cell.
    sentence : str
        The result in plain words.
    """

    pairs: tuple[CorrectedTPair, ...]
    alpha: float
    test_train_ratio: float
    left_out: tuple[int, ...]
    sentence: str


@dataclass(frozen=True, kw_only=True)
class WinTieLossPair:
    """On how many data sets the first method is better, not significantly different, and worse.

    Parameters
    ----------
    first : str
        Name of the first method.
    second : str
        Name of the second method.
    wins : int
        Number of data sets on which the first method is better.
    ties : int
        Number of data sets on which they are not significantly different.
    losses : int
        Number of data sets on which the first method is worse.
    sentence : str
        The result in plain words.
    """

    first: str
    second: str
    wins: int
    ties: int
    losses: int
    sentence: str


@dataclass(frozen=True)
class WinTieLoss:
    """Counts of all pairs asked for.

    Parameters
    ----------
    pairs : tuple of WinTieLossPair
        The counts of each pair.
    alpha : float
        Significance level of the tests.
    left_out : tuple of int
        Indices of the data sets with fewer than two complete folds.
    folds_left_out : int
        Number of folds with a missing cell in the other data sets.
    sentence : str
        The result in plain words.
    """

    pairs: tuple[WinTieLossPair, ...]
    alpha: float
    left_out: tuple[int, ...]
    folds_left_out: int
    sentence: str


def corrected_t(
    errors: Any,
    names: Sequence[str],
    *,
    test_train_ratio: float,
    control: str | None = None,
    alpha: float = 0.05,
    lower_is_better: bool = True,
) -> CorrectedT:
    """Compare methods two by two on the folds of one data set, with Holm's correction.

    Training sets overlap, so folds are not independent trials; with mean m and variance s^2 of
    the differences in J folds, trained on n_1 and tested on n_2 rows,

        t = m / sqrt((1/J + n_2/n_1) s^2)

    has about J - 1 degrees of freedom. If all folds have the same difference, s = 0 and the test
    cannot be used; the p value is then that of the sign test, 2^(1-J).

    Parameters
    ----------
    errors : array-like of shape (n_folds, n_methods)
        One error for each fold and method. A fold with a missing cell (NaN) is left out.
    names : sequence of str
        Names of the methods, one for each column.
    test_train_ratio : float
        Ratio n_2 / n_1 of test rows to training rows. For (repeated) K-fold cross-validation it is
        1 / (K - 1).
    control : str, default=None
        The method to compare with all others. None compares all pairs.
    alpha : float, default=0.05
        The probability allowed for one or more false claims among the pairs.
    lower_is_better : bool, default=True
        Whether lower values are better. Use False for accuracies.

    Returns
    -------
    CorrectedT
        The test of each pair and a summary.

    References
    ----------
    [NB03], the corrected resampled t test.

    Examples
    --------
    >>> errors = [[0.10, 0.13], [0.20, 0.22], [0.15, 0.16], [0.30, 0.35], [0.05, 0.11]]
    >>> print(corrected_t(errors, ["A", "B"], test_train_ratio=1 / 4).sentence)
    A and B are not significantly different on these 5 folds (p = 0.071; A ahead by 0.034 on \
average).
    """
    alpha, ratio = level(alpha), _ratio(test_train_ratio)
    table = read(errors, names, lower_is_better=lower_is_better, unit="folds")

    def test(table: Table, first: int, second: int) -> CorrectedTPair:
        return _corrected_t_pair(table, first, second, ratio, alpha)

    pairs = compare(table, control, alpha, test)
    return CorrectedT(pairs, alpha, ratio, table.left_out, summary(pairs, table, alpha))


def bayesian_corrected_t(
    errors: Any,
    names: Sequence[str],
    *,
    test_train_ratio: float,
    control: str | None = None,
    rope: float = ROPE,
    lower_is_better: bool = True,
) -> BayesianPairs:
    """Return the probabilities of being practically better, equal or worse on given folds.

    Given the folds, the mean difference has a Student distribution with J - 1 degrees of freedom
    around the mean m seen, with the standard error of :func:`corrected_t`.

    Parameters
    ----------
    errors : array-like of shape (n_folds, n_methods)
        One error for each fold and method. A fold with a missing cell (NaN) is left out.
    names : sequence of str
        Names of the methods, one for each column.
    test_train_ratio : float
        Ratio n_2 / n_1 of test rows to training rows. For (repeated) K-fold cross-validation it is
        1 / (K - 1).
    control : str, default=None
        The method to compare with all others. None compares all pairs.
    rope : float, default=0.01
        Differences up to this, in the units of the table, count as practically equal.
    lower_is_better : bool, default=True
        Whether lower values are better. Use False for accuracies.

    Returns
    -------
    BayesianPairs
        The posterior probabilities of each pair and a summary.

    References
    ----------
    [BCDZ17], the Bayesian correlated t test.

    Examples
    --------
    >>> errors = [[0.10, 0.13], [0.20, 0.22], [0.15, 0.16], [0.30, 0.35], [0.05, 0.11]]
    >>> round(bayesian_corrected_t(errors, ["A", "B"], test_train_ratio=1 / 4).pairs[0].p_first, 2)
    0.92
    """
    ratio = _ratio(test_train_ratio)
    table = read(errors, names, lower_is_better=lower_is_better, unit="folds")
    pairs = tuple(_posterior(table, i, j, ratio, rope) for i, j in chosen(table.names, control))
    return BayesianPairs(pairs, rope, table.left_out, bayesian_summary(pairs, table.scope))


def _posterior(table: Table, i: int, j: int, ratio: float, rope: float) -> BayesianPair:
    advantage = table.advantage(i, j)
    mean, error = float(advantage.mean()), _standard_error(advantage, ratio)
    if error > 0:
        posterior = stats.t(len(advantage) - 1, mean, error)
        first, second = float(posterior.sf(rope)), float(posterior.cdf(-rope))
    else:
        first, second = float(mean > rope), float(mean < -rope)
    return BayesianPair(
        first=table.names[i],
        second=table.names[j],
        p_first=first,
        p_rope=1 - first - second,
        p_second=second,
        rope=rope,
        scope=table.scope,
    )


def mean_interval(
    values: Any, test_train_ratio: float, confidence: float = 0.95
) -> tuple[float, float] | None:
    """Return the interval of a mean over folds whose training rows overlap.

        mean -+ t sqrt((1/J + n_2/n_1) s^2)

    with J - 1 degrees of freedom ([NB03]); None with fewer than two folds, and if all folds have
    the same value, because s = 0 then.

    Parameters
    ----------
    values : array-like of shape (n_folds,)
        One value for each fold.
    test_train_ratio : float
        Ratio n_2 / n_1 of test rows to training rows.
    confidence : float, default=0.95
        Confidence level of the interval.

    Returns
    -------
    tuple of float or None
        Lower and upper end of the interval.

    Examples
    --------
    >>> mean_interval([0.1, 0.1], 0.25) is None
    True
    """
    values = np.asarray(values, dtype=np.float64)
    if len(values) < 2 or np.ptp(values) == 0:
        return None
    width = float(stats.t.isf((1 - confidence) / 2, len(values) - 1))
    width *= _standard_error(values, test_train_ratio)
    return float(values.mean()) - width, float(values.mean()) + width


def win_tie_loss(
    folds: Sequence[Any],
    names: Sequence[str],
    *,
    control: str | None = None,
    alpha: float = 0.05,
    test_train_ratio: float = 0.0,
    lower_is_better: bool = True,
) -> WinTieLoss:
    """Count the data sets on which a paired t test over the folds finds a method better or worse.

    As published tables do ([LZCX16] Table 2), each data set is judged by itself at level alpha:
    among 20 data sets one win or loss is expected by chance alone. The plain paired t test
    (``test_train_ratio=0``) treats folds as independent trials and finds far more differences; give
    the ratio for the corrected test of :func:`corrected_t`.

    Parameters
    ----------
    folds : sequence of array-like of shape (n_folds, n_methods)
        One table of errors for each data set. A fold with a missing cell (NaN) is left out, and so
        is a data set with fewer than two complete folds.
    names : sequence of str
        Names of the methods, one for each column.
    control : str, default=None
        The method to compare with all others. None compares all pairs.
    alpha : float, default=0.05
        Significance level of each test.
    test_train_ratio : float, default=0.0
        Ratio n_2 / n_1 of test rows to training rows, the same for all data sets.
    lower_is_better : bool, default=True
        Whether lower values are better. Use False for accuracies.

    Returns
    -------
    WinTieLoss
        The counts of each pair and a summary.

    Examples
    --------
    >>> folds = [[[0.1, 0.2], [0.1, 0.21], [0.2, 0.29]], [[0.1, 0.2], [0.2, 0.1], [0.2, 0.2]]]
    >>> print(win_tie_loss(folds, ["A", "B"]).sentence)
    A wins against B on 1, ties on 1 and loses on 0 of these 2 data sets (paired t at level \
0.05 on each).
    """
    alpha, ratio = level(alpha), _ratio(test_train_ratio)
    tables, left_out = _read_folds(folds, names, lower_is_better)
    missing = sum(len(table.left_out) for table in tables)
    scope = _folds_scope(len(tables), len(left_out), missing, alpha, ratio)
    pairs = tuple(
        _counted(tables, i, j, alpha, ratio, scope) for i, j in chosen(tables[0].names, control)
    )
    return WinTieLoss(pairs, alpha, left_out, missing, _counts_summary(pairs))


def _ratio(test_train_ratio: float) -> float:
    if not (np.isfinite(test_train_ratio) and test_train_ratio >= 0):
        raise ValueError(
            "test_train_ratio must be the number of test rows over that of training rows, "
            f"a finite number >= 0, got {test_train_ratio!r}."
        )
    return float(test_train_ratio)


def _corrected_t_pair(
    table: Table, first: int, second: int, ratio: float, alpha: float
) -> CorrectedTPair:
    advantage = table.advantage(first, second)
    df = len(advantage) - 1
    mean = float(advantage.mean())
    mean = mean if abs(mean) > table.rounding else 0.0
    error = _standard_error(advantage, ratio)
    t, p = _t_test(mean, error, df)
    width = float(stats.t.isf(alpha / 2, df)) * error
    return CorrectedTPair(
        first=table.names[first],
        second=table.names[second],
        advantage=mean,
        leader=table.leader(first, second, t),
        p_value=p,
        t=t,
        df=df,
        interval=(mean - width, mean + width),
    )


def _standard_error(advantage: Array, ratio: float) -> float:
    if np.ptp(advantage) == 0:
        return 0.0
    largest = float(np.abs(advantage).max())  # so that no square is too large or too small
    return (
        largest * math.sqrt(1 / len(advantage) + ratio) * float((advantage / largest).std(ddof=1))
    )


def _t_test(mean: float, error: float, df: int) -> tuple[float, float]:
    if error > 0:
        t = mean / error
        return t, float(2 * stats.t.sf(abs(t), df))
    return (math.copysign(math.inf, mean), 2.0**-df) if mean else (0.0, 1.0)


def _read_folds(
    folds: Sequence[Any], names: Sequence[str], lower_is_better: bool
) -> tuple[list[Table], tuple[int, ...]]:
    tables, left_out = [], []
    for index, errors in enumerate(folds):
        values = numbers(errors, "folds")
        if values.ndim == 2 and (~np.isnan(values).any(axis=1)).sum() < 2 <= len(values):
            left_out.append(index)
        else:
            tables.append(read(values, names, lower_is_better=lower_is_better, unit="folds"))
    if len(tables) < 2:
        raise ValueError(
            "Counting wins takes at least 2 data sets with two folds without a missing cell (NaN), "
            f"got {len(tables)}."
        )
    return tables, tuple(left_out)


def _counted(
    tables: Sequence[Table], first: int, second: int, alpha: float, ratio: float, scope: str
) -> WinTieLossPair:
    tested = [_corrected_t_pair(table, first, second, ratio, alpha) for table in tables]
    winners = [pair.leader for pair in tested if pair.p_value <= alpha]
    names = tables[0].names[first], tables[0].names[second]
    wins, losses = winners.count(names[0]), winners.count(names[1])
    ties = len(tested) - wins - losses
    return WinTieLossPair(
        first=names[0],
        second=names[1],
        wins=wins,
        ties=ties,
        losses=losses,
        sentence=f"{names[0]} wins against {names[1]} on {wins}, ties on {ties} and loses on "
        f"{losses} of {scope}.",
    )


def _folds_scope(n: int, left_out: int, missing: int, alpha: float, ratio: float) -> str:
    test = "corrected t" if ratio else "paired t"
    notes = f"{test} at level {alpha:g} on each"
    if left_out:
        notes += f"; {left_out} more left out: fewer than 2 complete folds"
    if missing:
        notes += f"; {missing} folds left out: a cell is missing"
    return f"these {n} data sets ({notes})"


def _counts_summary(pairs: Sequence[WinTieLossPair]) -> str:
    if len(pairs) == 1:
        return pairs[0].sentence
    clearest = max(pairs, key=lambda pair: abs(pair.wins - pair.losses))
    return f"Most one-sided of the {len(pairs)} pairs: {clearest.sentence}"


TESTS = (
    Comparison(
        "Nadeau and Bengio's corrected t test over the folds, with Holm's correction",
        *("folds", "pairs", corrected_t),
    ),
    Comparison("the Bayesian correlated t test", "folds", "practical", bayesian_corrected_t),
)
