"""How a method's gamma and C are chosen inside a training fold."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV, ParameterGrid

from outcode.selection import LOOBoundSearch, median_gamma
from outcode.selection.trials import Data


class MachineBoundSearch(LOOBoundSearch):
    """Choose gamma by the bound of the machines under linear decoding, whatever the decoder.

    For decoders that no leave-one-out bound covers: the machines and the code are theirs, only the
    decoding of the bound is another.
    """

    def _search(self, data: Data) -> int:
        linear = clone(self.estimator).set_params(decoder="linear")
        return super()._search(replace(data, estimator=linear))


class GammaSearchCV(GridSearchCV):
    """scikit-learn's grid search, with gammas in units of the data: factors / median distance.

    Parameters
    ----------
    estimator : classifier
    gamma : the name of its gamma, such as "gamma" or "estimator__gamma"
    factors : values of gamma times the median squared distance
    other : further names and values, all combinations of which are tried
    cv : number of folds
    n_jobs : processes
    """

    def __init__(
        self,
        estimator: Any,
        gamma: str = "gamma",
        *,
        factors: Sequence[float] = (0.25, 1.0, 4.0),
        other: Mapping[str, Sequence[Any]] | None = None,
        cv: int = 3,
        n_jobs: int | None = None,
    ) -> None:
        super().__init__(estimator, {}, cv=cv, n_jobs=n_jobs, error_score="raise")
        self.gamma = gamma
        self.factors = factors
        self.other = other

    def fit(self, X: Any, y: Any = None, **params: Any) -> GammaSearchCV:
        """Try the combinations on folds, and fit the best on all rows."""
        unit = median_gamma(X, "rbf")
        self.gammas_ = [float(factor * unit) for factor in sorted(self.factors)]
        return super().fit(X, y, **params)

    def _run_search(self, evaluate_candidates: Callable[[Any], Any]) -> None:
        grid = {self.gamma: self.gammas_, **(self.other or {})}
        evaluate_candidates(ParameterGrid(grid))


def powers(base: float, exponents: Sequence[int]) -> tuple[float, ...]:
    """Return the powers of a base, for the factors of gamma.

    >>> powers(4, range(-1, 2))
    (0.25, 1.0, 4.0)
    """
    return tuple((base ** np.asarray(exponents, dtype=float)).tolist())
