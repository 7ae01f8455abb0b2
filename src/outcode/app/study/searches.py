"""How a method's gamma and C are chosen inside a training fold: the same way for all of them."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin, MetaEstimatorMixin, clone
from sklearn.model_selection import StratifiedKFold, cross_val_score

from outcode import machines
from outcode._checks import Array
from outcode.capabilities import PredictsProbabilities, available_if, can
from outcode.selection import KernelSearchCV, LOOBoundSearch, median_gamma
from outcode.selection.trials import Data

#: How often the grid may grow by one value.
GROWTHS = 4


class MachineBoundSearch(LOOBoundSearch):
    """Choose gamma by the bound of the machines under linear decoding, whatever the decoder.

    For decoders that no leave-one-out bound covers: the machines and the code are theirs, only the
    decoding of the bound is another.
    """

    def _search(self, data: Data) -> int:
        linear = clone(self.estimator).set_params(decoder="linear")
        return super()._search(replace(data, estimator=linear))


def _gives_probabilities(search: Any) -> bool:
    return can(getattr(search, "best_estimator_", search.estimator), PredictsProbabilities)


def inner_folds(y: Array, n_folds: int, random_state: Any) -> list[tuple[Array, Array]]:
    """Return folds of each class's rows; those that leave one class to train on are left out.

    Examples
    --------
    >>> y = np.repeat([0, 1], [20, 1])
    >>> [int(np.sum(y[test])) for train, test in inner_folds(y, 3, 0)]
    [0, 0]
    """
    most = int(np.unique(y, return_counts=True)[1].max())
    splitter = StratifiedKFold(max(2, min(n_folds, most)), shuffle=True, random_state=random_state)
    with warnings.catch_warnings(action="ignore", category=UserWarning):  # of small classes
        folds = list(splitter.split(np.zeros(len(y)), y))
    kept = [(train, test) for train, test in folds if len(np.unique(y[train])) > 1]
    if not kept:
        raise ValueError("No class has two rows: there is nothing to hold out for tuning.")
    return kept


class GammaSearchCV(MetaEstimatorMixin, ClassifierMixin, BaseEstimator):
    """Choose gamma and a cost by cross-validation, on a grid that grows where its best is an edge.

    Gammas are factors of 1 / the median squared distance. Equal scores go to the smaller gamma,
    then to the smaller cost. While the best is strictly better than its neighbour and at an end of
    the grid, one more value is tried there, at most :data:`GROWTHS` times. Folds are stratified and
    shuffled.

    Parameters
    ----------
    estimator : classifier
    gamma, cost : the names of its gamma and its cost ("C", "estimator__C"); None has no such. What
        shares a Gram matrix names them itself
    factors, costs : the values to begin with, each in equal ratios
    cv : number of folds
    shared : the folds share one Gram matrix; for classifiers made of a code, machine and decoder
    searched : parameters of the estimator that are others during the search
    random_state : of the folds
    n_jobs : processes, where nothing is shared

    Attributes
    ----------
    best_params_, best_score_, best_index_, best_estimator_
    results_ : a table as a dict of arrays: gamma, C, mean_score
    """

    def __init__(
        self,
        estimator: Any,
        gamma: str = "gamma",
        cost: str | None = "C",
        *,
        factors: Sequence[float] = (0.25, 1.0, 4.0),
        costs: Sequence[float] = (1.0, 10.0, 100.0),
        cv: int = 3,
        shared: bool = False,
        searched: Mapping[str, Any] | None = None,
        random_state: Any = None,
        n_jobs: int | None = None,
    ) -> None:
        self.estimator = estimator
        self.gamma = gamma
        self.cost = cost
        self.factors = factors
        self.costs = costs
        self.cv = cv
        self.shared = shared
        self.searched = searched
        self.random_state = random_state
        self.n_jobs = n_jobs

    def fit(self, X: Any, y: Any) -> GammaSearchCV:
        """Try the settings on the folds, and fit the best on all rows."""
        folds = inner_folds(np.asarray(y), self.cv, self.random_state)
        unit = median_gamma(X)
        gammas = sorted(float(factor * unit) for factor in self.factors)
        costs = [np.nan] if self.cost is None else sorted(map(float, self.costs))
        scores = self._scores(X, y, folds, gammas, costs)
        for _ in range(GROWTHS):
            new = _beyond(scores, gammas, costs)
            if new is None:
                break
            scores |= self._scores(X, y, folds, *new)
            gammas, costs = sorted({*gammas, *new[0]}), sorted({*costs, *new[1]})
        self._keep(scores)
        self.best_estimator_ = clone(self.estimator).set_params(**self.best_params_).fit(X, y)
        self.classes_ = self.best_estimator_.classes_
        return self

    def _keep(self, scores: dict[tuple[float, float], float]) -> None:
        settings = sorted(scores)
        gamma, cost = np.array(settings).T
        values = np.array([scores[setting] for setting in settings])
        self.results_ = {"gamma": gamma, "C": cost, "mean_score": values}
        self.best_index_ = settings.index(_best(scores))
        self.best_score_ = float(values[self.best_index_])
        self.best_params_ = self._named(*settings[self.best_index_])

    def _named(self, gamma: float, cost: float) -> dict[str, float]:
        if self.shared:
            machine = machines.resolve(self.estimator.elements()[1])
            found = machine.setting(gamma, None if self.cost is None else cost)
            return {self.estimator.prefix + name: value for name, value in found.items()}
        return {self.gamma: gamma} | ({} if self.cost is None else {self.cost: cost})

    def _scores(
        self, X: Any, y: Any, folds: Any, gammas: Sequence[float], costs: Sequence[float]
    ) -> dict[tuple[float, float], float]:
        """Return the mean accuracy on the folds of every (gamma, cost)."""
        estimator = clone(self.estimator).set_params(**self.searched or {})
        if self.shared:
            values = None if self.cost is None else costs
            found = KernelSearchCV(estimator, gammas, values, cv=folds, refit=False)
            means = found.fit(X, y).results_["mean_score"]
            return dict(zip(product(sorted(gammas), sorted(costs)), means.tolist(), strict=True))
        return {
            setting: float(
                cross_val_score(
                    clone(estimator).set_params(**self._named(*setting)),
                    *(X, y),
                    cv=folds,
                    n_jobs=self.n_jobs,
                    error_score="raise",
                ).mean()
            )
            for setting in product(gammas, costs)
        }

    def predict(self, X: Any) -> Array:
        """Return the classes the best estimator predicts."""
        return np.asarray(self.best_estimator_.predict(X))

    def decision_function(self, X: Any) -> Array:
        """Return the scores of the best estimator."""
        return np.asarray(self.best_estimator_.decision_function(X))

    @available_if(_gives_probabilities)
    def predict_proba(self, X: Any) -> Array:
        """Return the probabilities of the best estimator."""
        return np.asarray(self.best_estimator_.predict_proba(X))


def _best(scores: dict[tuple[float, float], float]) -> tuple[float, float]:
    """Return the setting of the largest score; of equals the smallest gamma, then cost."""
    return min(scores, key=lambda setting: (-round(scores[setting], 12), setting))


def _beyond(
    scores: dict[tuple[float, float], float], gammas: Sequence[float], costs: Sequence[float]
) -> tuple[list[float], list[float]] | None:
    """Return the settings to try next: beyond the end where the best is, None if it is within."""
    gamma, cost = _best(scores)
    top = scores[gamma, cost]
    for values, value, other in ((gammas, gamma, cost), (costs, cost, gamma)):
        if len(values) < 2 or value not in (values[0], values[-1]):
            continue
        inner = values[1] if value == values[0] else values[-2]
        near = (inner, other) if values is gammas else (other, inner)
        if top > scores[near] + 1e-12:
            new = value * value / inner
            return ([new], list(costs)) if values is gammas else (list(gammas), [new])
    return None


def powers(base: float, exponents: Iterable[int]) -> tuple[float, ...]:
    """Return the powers of a base, for the factors of gamma.

    >>> powers(4, range(-1, 2))
    (0.25, 1.0, 4.0)
    """
    return tuple(float(base) ** exponent for exponent in exponents)
