"""Choosing a gamma for each feature by descending the smoothed leave-one-out bound."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Any

import numpy as np
from scipy import sparse
from scipy.optimize import minimize
from sklearn.base import clone

from outcode import loo
from outcode._checks import Array, positive
from outcode.capabilities import HasGammaGradient, require
from outcode.progress import Progress, Silent, progress
from outcode.selection.searches import FACTORS, _columns, _Search
from outcode.selection.smooth import check_smooth, smoothed
from outcode.selection.trials import Data, Trials
from outcode.training import Problem, Rule, fit_machine, read

#: Machines are solved at least as well as this: the gradient is that of exact solutions.
TOL = 1e-5
#: A gamma is at most so many times that of the start.
MOST = 100.0


class RelevanceSearch(_Search):
    """Choose a gamma for each feature by the smoothed leave-one-out bound and its gradient.

    The kernel is K(x, z) = exp(-sum_d gamma_d (x_d - z_d)^2), one for all columns. What is
    minimised over gamma_d >= 0 is

        smoothed bound(gamma_1, ..., gamma_d) + sparsity (share of the features with gamma_d > 0).

    The search starts from the best of eleven common values of gamma, and minimises the smoothed
    bound by L-BFGS with the gradient of :func:`smooth_bound`. Then features are removed, the
    smallest gamma first, as long as the sum falls, and L-BFGS continues with the remaining
    features. Features should have similar scales, for example standardised. Each step is a training
    that starts from the previous solution, plus O(n_samples^2 (n_features + n_columns)) operations,
    so it suits up to a few thousand rows. The fitted parameters of the decoder are kept from the
    start, and fitted again in the refit.

    [PPF04] section VI leaves it as future work: "to use the derived leave-one-out bound to perform
    feature selection".

    Parameters
    ----------
    estimator : OutputCodeClassifier
        With an SVM on the kernel "rbf" and a decoder with derivatives that the bound covers
        ("linear", "logistic", "hinge" or "likelihood").
    softness : float, default=1.0
        T of the smoothed bound.
    sparsity : float, default=0.05
        Cost of the share of features used, 0 for none.
    gamma : float or None, default=None
        Where all features start; None is the best of eleven around 1 / the median distance.
    max_iter : int, default=100
        Largest number of steps of L-BFGS.
    refit : bool, default=True
        Fit the estimator with the best gammas on all rows.
    verbose : int, default=0
        If not 0, show the trainings done.

    Attributes
    ----------
    best_params_, best_index_, best_estimator_
    best_score_ : the smallest value of what was minimised, with its sign turned
    relevance_ : (n_features,) gamma_d over the largest of them
    support_ : (n_features,) bool, the features with a gamma that is not 0
    results_ : a table as a dict of arrays, one row for each training: smooth, bound, n_features,
        value, seconds, and gamma (n_trainings, n_features)

    Examples
    --------
    >>> from outcode import OutputCodeClassifier
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> noise = np.random.RandomState(0).randn(150, 2)
    >>> search = RelevanceSearch(OutputCodeClassifier(decoder="linear"))
    >>> search.fit(np.hstack([X, noise]), y).support_[4:].tolist()
    [False, False]
    """

    def __init__(
        self,
        estimator: Any,
        *,
        softness: float = 1.0,
        sparsity: float = 0.05,
        gamma: float | None = None,
        max_iter: int = 100,
        refit: bool = True,
        verbose: int = 0,
    ) -> None:
        self.estimator = estimator
        self.softness = softness
        self.sparsity = sparsity
        self.gamma = gamma
        self.max_iter = max_iter
        self.refit = refit
        self.verbose = verbose

    @property
    def _criterion(self) -> str:
        return "value"

    def _params(self, row: dict[str, Any]) -> dict[str, Any]:
        return {self.estimator.prefix + "gamma": np.asarray(row["gamma"], dtype=np.float64)}

    def _search(self, data: Data) -> int:
        if self.sparsity < 0:
            raise ValueError(f"sparsity must be a number >= 0, got {self.sparsity!r}.")
        descent = _Descent(data, positive(self.softness, "softness"), float(self.sparsity))
        with progress("trainings", 3 * self.max_iter, self.verbose) as report:
            descent.report = report
            units = descent.go_down(descent.begin(self.gamma), self.max_iter)
            while not np.array_equal(units, fewer := descent.drop(units)):
                units = descent.go_down(fewer, self.max_iter)
        self.results_ = _columns(descent.table)
        best = int(np.argmin(self.results_["value"]))
        self.best_score_ = -float(self.results_["value"][best])
        gammas = self.results_["gamma"][best]
        self.relevance_, self.support_ = gammas / gammas.max(), gammas > 0
        return best

    def plot(self, ax: Any = None) -> Any:
        """Draw the relevance of each feature; returns the axes."""
        ax = self._axes(ax)
        ax.bar(np.arange(len(self.relevance_)), self.relevance_)
        ax.set(xlabel="feature", ylabel="gamma / largest gamma")
        return ax


class _Descent:
    """The smoothed bound of one training after the other, all with the same decoder.

    Gammas are in units of the one that all features start from.
    """

    def __init__(self, data: Data, softness: float, sparsity: float) -> None:
        data = data.merged()
        everything = np.arange(len(data.y))
        self.trials = Trials(data, [(everything, everything)])
        self.problem = self.trials.problems[0]
        self.X = data.X.toarray() if sparse.issparse(data.X) else data.X
        self.softness, self.sparsity = softness, sparsity
        self.table: list[dict[str, Any]] = []
        self.unit = 1.0
        self.report: Progress = Silent()
        self.last: Any = None
        self.decoder: Any = None

    def begin(self, gamma: float | None) -> Array:
        """Find the gamma to start from and the decoder held from then on; return units of it."""
        unit, ones = self.trials.data.unit_gamma("rbf"), np.ones(self.X.shape[1])
        tried = FACTORS * unit if gamma is None else np.array([positive(gamma, "gamma")])
        values = [self.value(one * ones)[0] for one in tried]
        self.unit, self.table, self.decoder = float(tried[int(np.argmin(values))]), [], None
        return ones

    def go_down(self, units: Array, max_iter: int) -> Array:
        """Return the gammas of the smallest smoothed bound on the way of L-BFGS; 0 stays 0."""
        box, first = [(0.0, MOST * bool(one)) for one in units], len(self.table)
        options = {"maxiter": max_iter, "ftol": 1e-7}

        def value(units: Array) -> tuple[float, Array]:
            if units.any():
                return self.value(units)
            return 2.0 * self.table[first]["smooth"], np.zeros(len(units))  # no kernel: step back

        minimize(value, units, jac=True, method="L-BFGS-B", bounds=box, options=options)
        way = self.table[first:]
        best = min(range(len(way)), key=lambda k: way[k]["value"])
        return np.asarray(way[best]["gamma"]) / self.unit

    def drop(self, units: Array) -> Array:
        """Return the gammas without features that cost more than they bring, smallest first."""
        lowest = self.value(units)[0] + self._cost(units)
        for d in np.argsort(units, kind="stable"):
            fewer = np.where(np.arange(len(units)) == d, 0.0, units)
            if not units[d] or not fewer.any():
                continue
            value = self.value(fewer)[0] + self._cost(fewer)
            if value <= lowest:
                units, lowest = fewer, value
        return units

    def _cost(self, units: Array) -> float:
        return self.sparsity * float(np.mean(units > 0))

    def value(self, units: Array) -> tuple[float, Array]:
        """Return the smoothed bound at some gammas, and its gradient."""
        started, gammas = time.perf_counter(), self.unit * units
        rule, gram = self._rule(gammas)
        found = smoothed(rule, gram, self.X, self.softness)
        self.table.append(
            {
                "smooth": found.error,
                "bound": loo.bound(rule).error,
                "n_features": np.count_nonzero(gammas),
                "value": found.error + self._cost(gammas),
                "seconds": time.perf_counter() - started,
                "gamma": gammas,
            }
        )
        self.report.advance()
        return found.error, self.unit * found.gradient

    def _rule(self, gammas: Array) -> tuple[Rule, Any]:
        """Return the rule at some gammas, trained from the one before, and its Gram store."""
        machine = clone(self.trials.machine).set_params(gamma=gammas)
        require(machine.kernel_for(self.X), HasGammaGradient, "RelevanceSearch")
        machine.tol = min(machine.tol, TOL)
        gram = machine.gram(self.X, self.problem.targets, self.problem.weight)
        args = self._on(gram), machine, self.last
        fitted = fit_machine(*args, n_jobs=self.trials.n_jobs, verbose=0)
        self.last = fitted
        if self.decoder is None:
            rule = read(self._on(gram), fitted, clone(self.trials.decoder), n_jobs=1, verbose=0)
            check_smooth(rule)
            self.decoder = rule.decoder
        return Rule(self.problem, fitted, self.decoder), gram

    def _on(self, gram: Any) -> Problem:
        return replace(self.problem, source=gram)
