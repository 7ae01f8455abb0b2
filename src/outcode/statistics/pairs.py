"""Methods two by two: which pairs, Holm's correction over them, and what a pair says in words."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import numpy as np

from outcode._checks import Array, lookup
from outcode.statistics.table import Table


@dataclass(frozen=True, kw_only=True)
class Pair:
    """Two methods compared.

    ``advantage`` says by how much the first is better (negative: worse), in the table's units;
    ``leader`` which is ahead in these data (None when they are level); ``p_value`` is two-sided,
    ``p_holm`` the same corrected for all pairs of the call; ``significant`` says that ``p_holm``
    is at or below the level asked for; ``least_p`` is the smallest p value that so many rows can
    give.
    """

    first: str
    second: str
    advantage: float
    leader: str | None
    p_value: float
    p_holm: float = 1.0
    least_p: float = 0.0
    significant: bool = False
    sentence: str = ""

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


def holm(p_values: Any) -> Array:
    """Return the p values corrected by Holm's step-down procedure.

    With p_(1) <= ... <= p_(m), the i-th becomes max_{j <= i} min(1, (m - j + 1) p_(j)). Rejecting
    where it is at most alpha keeps the probability of one or more false rejections at or below
    alpha, whatever the dependence of the tests ([H79]; [D06] section 3.2.2).

    Parameters
    ----------
    p_values : (n_tests,)

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


def summary(pairs: Sequence[Pair], table: Table, alpha: float) -> str:
    """Return one sentence about all pairs: how many can be told apart, and the clearest."""
    clearest = min(pairs, key=lambda pair: pair.p_holm)
    if len(pairs) == 1:
        return clearest.sentence
    p = p_words(clearest.p_holm, alpha)
    found = sum(pair.significant for pair in pairs)
    if not found:
        few = _too_few(clearest, alpha, len(pairs))
        tell = f"None of the {len(pairs)} pairs can be told apart with {table.scope}{few}"
        return f"{tell} (smallest {p} after Holm)."
    tell = f"{found} of the {len(pairs)} pairs can be told apart with {table.scope}"
    clear = f"most clearly {clearest.leader} as better than {clearest.other}"
    return f"{tell}, {clear} ({p} after Holm; {clearest.size})."


def p_words(p: float, alpha: float) -> str:
    """Return a p value in words, never rounded across the level it is compared with."""
    if p < 0.001:
        return "p < 0.001"
    short = f"{p:.2g}"
    return f"p = {short}" if (float(short) <= alpha) == (p <= alpha) else f"p = {p:.6g}"


def _judged(pair: P, p_holm: float, alpha: float, scope: str, n_pairs: int) -> P:
    significant = p_holm <= alpha and pair.leader is not None
    p = p_words(p_holm, alpha) + (" after Holm" if n_pairs > 1 else "")
    if significant:
        verdict = f"{pair.leader} is better than {pair.other} with {scope}"
    else:
        few = _too_few(pair, alpha, n_pairs)
        verdict = f"{pair.first} and {pair.second} cannot be told apart with {scope}{few}"
    sentence = f"{verdict} ({p}; {pair.size})."
    return replace(pair, p_holm=p_holm, significant=significant, sentence=sentence)


def _too_few(pair: Pair, alpha: float, n_pairs: int) -> str:
    return ", too few to tell any pair apart" if pair.least_p * n_pairs > alpha else ""
