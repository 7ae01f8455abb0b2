"""Choosing a width and a C for each column by the leave-one-out bound of the whole rule."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.base import clone

from outcode import loo, machines
from outcode._checks import Array
from outcode.progress import progress
from outcode.selection.searches import LOOBoundSearch, _columns, _settings, _smoothest
from outcode.selection.trials import Data, Trials
from outcode.training import Rule, Training

#: Sweeps over the columns at most.
SWEEPS = 10


class ColumnSearch(LOOBoundSearch):
    """Choose gamma and C of every column by the leave-one-out bound of the whole rule.

    [PPF04] Theorem 4.1 has a kernel K^s in each column; its experiments use one kernel for all
    columns, "to simplify the problem". Here all columns are trained once for each setting; rules
    with different settings in different columns are combined from these trainings. The search
    starts with the best common setting. Then each column in order changes to the setting with the
    smallest bound for the current settings of the others, until no column changes. Ties are
    resolved by the smaller total shortfall of the rows that the bound counts.

    Parameters
    ----------
    estimator : OutputCodeClassifier
        With an SVM and a decoder the bound covers.
    gammas : array-like or None, default=None
        Values of gamma; None takes eleven, factors of two around 1 / the median distance.
    Cs : array-like or None, default=None
        Values of C; None keeps the machine's own.
    refit : bool, default=True
        Fit the estimator with the best settings on all rows.
    verbose : int, default=0
        If not 0, show the settings done and the time left.

    Attributes
    ----------
    best_params_ : the machine, a :class:`outcode.machines.PerColumn`
    best_bound_, common_bound_ : the bound with a setting per column, and with the best for all
    settings_ : a dict of gamma and C for each column
    results_ : a table as a dict of arrays: gamma, C, bound, training_error, seconds of the common
        settings

    Examples
    --------
    >>> from outcode import OutputCodeClassifier
    >>> from sklearn.datasets import load_iris
    >>> search = ColumnSearch(OutputCodeClassifier(decoder="linear"))
    >>> search.fit(*load_iris(return_X_y=True)).best_bound_ <= search.common_bound_
    True
    >>> [sorted(setting) for setting in search.settings_]
    [['C', 'gamma'], ['C', 'gamma'], ['C', 'gamma']]
    """

    by = "bound"

    def __init__(
        self,
        estimator: Any,
        gammas: Any = None,
        Cs: Any = None,
        *,
        refit: bool = True,
        verbose: int = 0,
    ) -> None:
        self.estimator = estimator
        self.gammas = gammas
        self.Cs = Cs
        self.refit = refit
        self.verbose = verbose

    def _check_estimator(self) -> None:
        super()._check_estimator()
        if not self.estimator.prefix:
            raise ValueError("ColumnSearch needs a machine to replace: use OutputCodeClassifier.")

    def _params(self, row: dict[str, Any]) -> dict[str, Any]:
        machine = machines.resolve(self.estimator.elements()[1])
        own = machines.PerColumn(machine, self.settings_)
        return {self.estimator.prefix.removesuffix("__"): own}

    def _search(self, data: Data) -> int:
        data = data.merged()
        everything = np.arange(len(data.y))
        trainings = Trials(data, [(everything, everything)])
        settings = _settings(trainings, self.gammas, self.Cs)
        rows, rules = [], []
        with progress("settings", len(settings), self.verbose) as report:
            for setting in settings:
                row, (rule, _) = trainings.bound(*setting)
                rows.append(row)
                rules.append(rule)
                report.advance()
        self.results_ = _columns(rows)
        best = _smoothest(-self.results_["bound"], self.results_)
        self.common_bound_ = float(self.results_["bound"][best])
        which, self.best_bound_ = _descended(_Stitching(rules, data.X), best)
        machine = trainings.machine
        self.settings_ = [machine.setting(*settings[k]) for k in which]
        return best

    def plot(self, ax: Any = None) -> Any:
        """Draw the bound of the common settings against gamma; returns the axes."""
        ax = super().plot(ax)
        ax.axhline(self.best_bound_, color="0.6", linestyle="--", label="a setting per column")
        ax.legend(frameon=False)
        return ax


def _descended(stitching: _Stitching, best: int) -> tuple[Array, float]:
    """Return the number of each column's setting, and the bound, after the columns took turns."""
    n_columns = stitching.rules[0].problem.code.shape[1]
    which = np.full(n_columns, best)
    lowest = stitching.value(which)
    for _ in range(SWEEPS):
        before = which
        for s in range(n_columns):
            tried = [_put(which, s, k) for k in range(len(stitching.rules)) if k != which[s]]
            for other in tried:
                value = stitching.value(other)
                if value < lowest:
                    which, lowest = other, value
        if np.array_equal(before, which):
            break
    return which, lowest[0]


def _put(which: Array, s: int, k: int) -> Array:
    other = which.copy()
    other[s] = k
    return other


@dataclass(frozen=True)
class _Stitched:
    """A machine whose columns were trained with different settings: what bounds ask for."""

    dual_coef_: Array
    training_margins_: Array
    gram_diagonal_: Array
    bias: str
    C: Array


class _Stitching:
    """Rules of the same problem at several settings, and bounds of rules made of their columns."""

    def __init__(self, rules: Sequence[Rule], X: Any) -> None:
        self.rules, self.X = rules, X
        parts = [rule.machine for rule in rules]
        names = "dual_coef_", "training_margins_"
        self.parts = {name: np.stack([getattr(one, name) for one in parts]) for name in names}
        self.diagonals = np.stack([one.gram_diagonal_ for one in parts], axis=1)
        self.costs = np.array([one.C for one in parts])

    def value(self, which: Array) -> tuple[float, float]:
        """Return the bound of a rule, and by how much in all the rows it counts fall short."""
        found = loo.bound(self.rule(which))
        short = np.maximum(0.0, found.U.max(axis=1) - found.margins)
        return found.error, float(short.sum())

    def rule(self, which: Array) -> Rule:
        """Return the rule with setting ``which[s]`` in column s; its decoder is fitted again."""
        first, columns = self.rules[0], np.arange(len(which))
        stacked = {name: part[which, :, columns].T for name, part in self.parts.items()}
        machine = _Stitched(
            **stacked,
            gram_diagonal_=self.diagonals[:, which],
            bias=first.machine.bias,
            C=self.costs[which],
        )

        def held_out(folds: int) -> Array:
            margins = np.stack([rule.held_out[folds][0] for rule in self.rules])
            return margins[which, :, columns].T

        problem, decoder = first.problem, clone(first.decoder)
        data = problem.code, problem.labels, self.X, machine, problem.weight
        return Rule(problem, machine, decoder.fit(Training(*data, held_out)))
