"""Methods two by two: which pairs, Holm's correction over them, and what a pair says in words."""

from __future__ import annotations

import inspect
import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import numpy as np

from outcode._checks import Array, lookup
from outcode.statistics.best import against_best, degrees
from outcode.statistics.table import Table


@dataclass(frozen=True, kw_only=True)
class Pair:
    """Two methods compared.

    Parameters
    ----------
    first : str
        Name of the first method.
    second : str
        Name of the second method.
    advantage : float
        How much the first method is better (negative: worse), in the units of the table.
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
        Degrees of freedom of the test.
    """

    first: str
    second: str
    advantage: float
    leader: str | None
    p_value: float
    p_holm: float = 1.0
    least_p: float = 0.0
    interval: tuple[float, float] | None = None
    significant: bool = False
    sentence: str = ""
    df: float = np.inf

    @property
    def size(self) -> str:
        """Direction and size of the difference, in words."""
        return (
            "level" if self.leader is None else f"{self.leader} ahead by {abs(self.advantage):.3g}"
        )

    @property
    def other(self) -> str:
        """The method that is not ahead."""
        return self.first if self.leader == self.second else self.second


P = TypeVar("P", bound=Pair)

#: Differences up to this are practically none, in the table's units.
ROPE = 0.01
#: A practical verdict needs this probability.
SURE = 0.95
TOO_FEW = ", too few for any pair to differ significantly"
CORRECTED = " corrected for the choice of the best"


@dataclass(frozen=True, kw_only=True)
class BayesianPair:
    """Posterior probabilities of one pair: they sum to 1.

    Parameters
    ----------
    first : str
        Name of the first method.
    second : str
        Name of the second method.
    p_first : float
        Probability that the first method is better by more than ``rope``.
    p_rope : float
        Probability that neither is better by more than ``rope``.
    p_second : float
        Probability that the second method is better by more than ``rope``.
    rope : float
        Largest difference that counts as practically equal.
    scope : str
        The rows that the result is based on, in words.
    theta : ndarray of shape (3,), default=None
        Posterior means of the shares of the same three regions, where the test has them.
    """

    first: str
    second: str
    p_first: float
    p_rope: float
    p_second: float
    rope: float
    scope: str
    theta: Array | None = None

    @property
    def better(self) -> str | None:
        """The method that is practically better, None when that is not sure."""
        sides = (self.first, self.p_first), (self.second, self.p_second)
        return next((name for name, p in sides if p >= SURE), None)

    @property
    def equal(self) -> bool:
        """Whether both are practically equal; when neither this nor ``better``, nothing is sure."""
        return self.p_rope >= SURE

    @property
    def sentence(self) -> str:
        """The verdict and the three probabilities, in words."""
        if self.better is not None:
            other = self.second if self.better == self.first else self.first
            tell = f"{self.better} is practically better than {other}"
        elif self.equal:
            tell = f"{self.first} and {self.second} are practically equal"
        else:
            tell = f"Nothing is sure about {self.first} and {self.second}"
        return (
            f"{tell} on {self.scope} (probability {_share(self.p_first)} that {self.first} is "
            f"better by more than {self.rope:g}, {_share(self.p_second)} that {self.second} is, "
            f"{_share(self.p_rope)} that neither)."
        )

    @property
    def brief(self) -> str:
        """The verdict in a clause."""
        if self.better is not None:
            p = max(self.p_first, self.p_second)
            return (
                f"{self.better} is better by more than {self.rope:g} with probability {_chance(p)}"
            )
        if self.equal:
            return f"they are equal within {self.rope:g} with probability {_chance(self.p_rope)}"
        apart = _chance(1 - self.p_rope)
        return f"the probability that they differ by more than {self.rope:g} is {apart}"


@dataclass(frozen=True)
class BayesianPairs:
    """Posterior probabilities of all pairs asked for.

    Parameters
    ----------
    pairs : tuple of BayesianPair
        The probabilities of each pair.
    rope : float
        Largest difference that counts as practically equal.
    left_out : tuple of int
        Indices of the rows with a missing cell.
    sentence : str
        The result in plain words.
    """

    pairs: tuple[BayesianPair, ...]
    rope: float
    left_out: tuple[int, ...]
    sentence: str


@dataclass(frozen=True)
class Comparison:
    """A statistical test that a report can run.

    Parameters
    ----------
    label : str
        Name of the test.
    unit : {"folds", "data sets", "test rows"}
        What a row of its table is.
    role : {"pairs", "practical", "overall"}
        What the test returns beside a ``sentence``: "pairs" of p values, of which the first test of
        a unit decides; "practical" pairs of posterior probabilities; or nothing more ("overall").
    test : callable
        Function called as ``test(table, names, ...)``.
    least : int, default=2
        Smallest number of rows that the test needs.
    """

    label: str
    unit: str
    role: str
    test: Callable[..., Any]
    least: int = 2

    def run(self, table: Any, names: Sequence[str], **setting: Any) -> Any:
        """Run the test with what it takes of ``control``, ``test_train_ratio`` and
        ``lower_is_better``."""
        taken = inspect.signature(self.test).parameters
        return self.test(table, names, **{k: v for k, v in setting.items() if k in taken})


def holm(p_values: Any) -> Array:
    """Return the p values corrected by Holm's step-down procedure.

    With p_(1) <= ... <= p_(m), the i-th becomes max_{j <= i} min(1, (m - j + 1) p_(j)). Rejecting
    where it is at most alpha keeps the probability of one or more false rejections at or below
    alpha, whatever the dependence of the tests ([H79]; [D06] section 3.2.2).

    Parameters
    ----------
    p_values : array-like of shape (n_tests,)
        The p values before correction.

    Returns
    -------
    ndarray of shape (n_tests,)
        The corrected p values, in the same order.

    Examples
    --------
    >>> holm([0.016, 0.019, 0.607]).round(3).tolist()
    [0.048, 0.048, 0.607]
    """
    p = np.asarray(p_values, dtype=np.float64)
    order = np.argsort(p, kind="stable")
    steps = p[order] * np.arange(len(p), 0, -1)
    adjusted = np.empty_like(p)
    adjusted[order] = np.minimum(np.maximum.accumulate(steps), 1.0)
    return adjusted


def chosen(names: Sequence[str], control: str | None) -> list[tuple[int, int]]:
    """Return all pairs of columns, or those of the control with every other."""
    if control is None:
        return list(itertools.combinations(range(len(names)), 2))
    index = lookup({name: i for i, name in enumerate(names)}, str(control), "control")
    return [(index, i) for i in range(len(names)) if i != index]


def compare(
    table: Table, control: str | None, alpha: float, test: Callable[[Table, int, int], P]
) -> tuple[P, ...]:
    """Test every pair asked for, correct by Holm, and put each into words."""
    tested = [test(table, i, j) for i, j in chosen(table.names, control)]
    corrected = holm([pair.p_value for pair in tested])
    return tuple(
        _judged(pair, float(p), alpha, table.scope, len(tested))
        for pair, p in zip(tested, corrected, strict=True)
    )


def with_best(pairs: Sequence[P], alpha: float, scope: str) -> tuple[tuple[P, ...], str]:
    """Return the pairs of the best method, corrected for its choice, and a sentence.

    Parameters
    ----------
    pairs : sequence of Pair
        The best method, as the first, with every other one.
    alpha : float
        The probability allowed for one or more false claims.
    scope : str
        What the answer rests on, in words.

    Returns
    -------
    pairs : tuple of Pair
        The pairs with the corrected p values in ``p_holm``.
    sentence : str
        One sentence about all of them.

    Examples
    --------
    >>> pair = Pair(first="A", second="B", advantage=0.1, leader="A", p_value=0.01)
    >>> print(with_best([pair], 0.05, "these 10 folds")[1])
    A is better than B on these 10 folds (p = 0.01; A ahead by 0.1).
    """
    corrected = against_best([pair.p_value for pair in pairs], degrees(pairs))
    judged = []
    for pair, p in zip(pairs, corrected.tolist(), strict=True):
        least = float(against_best([pair.least_p] * len(pairs), pair.df)[0])
        few = TOO_FEW if least > alpha else ""
        judged.append(_worded(pair, p, alpha, scope, CORRECTED if len(pairs) > 1 else "", few))
    return tuple(judged), _told(judged, alpha, scope)


def _told(pairs: Sequence[Pair], alpha: float, scope: str) -> str:
    clearest = min(pairs, key=lambda pair: pair.p_holm)
    if len(pairs) == 1:
        return clearest.sentence
    worse = sum(pair.significant for pair in pairs)
    p = p_words(clearest.p_holm, alpha) + CORRECTED
    if not worse:
        few = TOO_FEW if TOO_FEW in clearest.sentence else ""
        return f"None of the {len(pairs)} other methods is significantly worse than \
{clearest.first} on {scope}{few} (smallest {p})."
    tell = f"{worse} of the {len(pairs)} other methods are significantly worse than"
    return f"{tell} {clearest.first} on {scope}, most clearly {clearest.second} ({p}; \
{clearest.size})."


def summary(pairs: Sequence[Pair], table: Table, alpha: float) -> str:
    """Return one sentence about all pairs: how many differ significantly, and the clearest."""
    clearest = min(pairs, key=lambda pair: pair.p_holm)
    if len(pairs) == 1:
        return clearest.sentence
    p = p_words(clearest.p_holm, alpha)
    found = sum(pair.significant for pair in pairs)
    if not found:
        few = _too_few(clearest, alpha, len(pairs))
        tell = f"None of the {len(pairs)} pairs differs significantly on {table.scope}{few}"
        return f"{tell} (smallest {p} after Holm)."
    tell = f"{found} of the {len(pairs)} pairs differ significantly on {table.scope}"
    clear = f"most clearly {clearest.leader} as better than {clearest.other}"
    return f"{tell}, {clear} ({p} after Holm; {clearest.size})."


def p_words(p: float, alpha: float) -> str:
    """Return a p value in words, never rounded across the level it is compared with."""
    if p < 0.001:
        return "p < 0.001"
    short = f"{p:.2g}"
    return f"p = {short}" if (float(short) <= alpha) == (p <= alpha) else f"p = {p:.6g}"


def _judged(pair: P, p_holm: float, alpha: float, scope: str, n_pairs: int) -> P:
    after = " after Holm" if n_pairs > 1 else ""
    return _worded(pair, p_holm, alpha, scope, after, _too_few(pair, alpha, n_pairs))


def _worded(pair: P, p_holm: float, alpha: float, scope: str, after: str, few: str) -> P:
    significant = p_holm <= alpha and pair.leader is not None
    p = p_words(p_holm, alpha) + after
    if significant:
        verdict = f"{pair.leader} is better than {pair.other} on {scope}"
    else:
        verdict = f"{pair.first} and {pair.second} are not significantly different on {scope}{few}"
    sentence = f"{verdict} ({p}; {pair.size})."
    return replace(pair, p_holm=p_holm, significant=significant, sentence=sentence)


def _share(probability: float) -> str:
    """Return a share of the draws in words: no draw is no proof that it cannot be."""
    if probability < 0.001:
        return "below 0.001"
    return f"{probability:.3f}" if probability <= 0.999 else "above 0.999"


def _chance(p: float) -> str:
    return "above 0.99" if p > 0.99 else "below 0.01" if p < 0.01 else f"{p:.2f}"


def bayesian_summary(pairs: Sequence[BayesianPair], scope: str) -> str:
    """Return one sentence about all pairs."""
    if len(pairs) == 1:
        return pairs[0].sentence
    better, equal = sum(p.better is not None for p in pairs), sum(p.equal for p in pairs)
    return (
        f"Among the {len(pairs)} pairs with {scope}: a practically better method in "
        f"{better}, practical equality in {equal}, nothing sure in {len(pairs) - better - equal} "
        f"(a verdict needs probability {SURE:g})."
    )


def _too_few(pair: Pair, alpha: float, n_pairs: int) -> str:
    return TOO_FEW if pair.least_p * n_pairs > alpha else ""
