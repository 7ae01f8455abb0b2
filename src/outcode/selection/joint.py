"""Choosing the width, lambda1 and lambda2 of joint machines.

One decomposition per fold and width serves the whole grid of lambda1 and lambda2.
"""

from __future__ import annotations

import copy
import time
from dataclasses import replace
from functools import partial
from itertools import product
from typing import Any

import numpy as np
from scipy import sparse
from scipy.spatial.distance import pdist
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state

from outcode import decoders, machines
from outcode._checks import Array, positive, warn
from outcode.capabilities import Factorises, MadeOfElements, require
from outcode.parallel import thread_map
from outcode.posing import pose, source_of
from outcode.progress import progress
from outcode.selection.searches import _Search, as_values, of_rows, splits_of
from outcode.selection.trials import Data, Split
from outcode.training import Rule, read

#: The paper's grids ([LZCX16] section 4.2): lambdas, and bandwidths over the mean distance.
GRID, FACTORS = 10.0 ** np.arange(-8, -1), 10.0 ** np.arange(-3, 4)
#: The mean distance is taken over at most this many rows.
MEAN_ROWS = 1000


class JointSearchCV(_Search):
    """Choose width, lambda1 and lambda2 of joint machines by the multiclass error of the rule.

    The results are those of ``GridSearchCV`` with the same folds and (weighted) accuracy as score.
    Each fold needs one decomposition of its kernel matrix for each gamma, and every pair of the
    grid starts from it. Ties go to the larger lambda1, then to the larger lambda2, then to the
    smaller gamma. A code that is learned with machines is learned once per fold, with the
    parameters of the given estimator.

    ``cv="loo"`` leaves out one row at a time, in closed form from one decomposition, for codes
    without zeros: W and b are exactly those without the row; the relation matrix, gamma and the
    fitted parameters of the decoder are those of all rows.

    Parameters
    ----------
    estimator : OutputCodeClassifier
        With a :class:`outcode.machines.Joint` machine.
    lambda1s : array-like or None, default=None
        Values to try; None is the paper's grid, 1e-8, 1e-7, ..., 1e-2.
    lambda2s : array-like or None, default=None
        Values to try; None is the paper's grid.
    gammas : array-like, function or None, default=None
        Values to try, or a function that gives them for the training rows, such as
        :func:`bandwidth_gammas`; None keeps the machine's own.
    cv : int, splitter, iterable of (train, test) or "loo", default=5
        Number of folds, the folds, or leave-one-out.
    refit : bool, default=True
        Fit the estimator with the best setting on all rows.
    verbose : int, default=0
        If not 0, show the folds done and the time left.

    Attributes
    ----------
    best_params_, best_score_, best_index_, best_estimator_, n_splits_
    results_ : a table as a dict of arrays: lambda1, lambda2, gamma, mean_score, std_score,
        split0_score, ..., gap (the largest relative duality gap), seconds

    Examples
    --------
    >>> from outcode import OutputCodeClassifier
    >>> from sklearn.datasets import load_iris
    >>> search = JointSearchCV(OutputCodeClassifier(machine="jcl", decoder="llw"), cv="loo")
    >>> sorted(search.fit(*load_iris(return_X_y=True)).best_params_)
    ['machine__lambda1', 'machine__lambda2']
    """

    def __init__(
        self,
        estimator: Any,
        lambda1s: Any = None,
        lambda2s: Any = None,
        *,
        gammas: Any = None,
        cv: Any = 5,
        refit: bool = True,
        verbose: int = 0,
    ) -> None:
        self.estimator = estimator
        self.lambda1s = lambda1s
        self.lambda2s = lambda2s
        self.gammas = gammas
        self.cv = cv
        self.refit = refit
        self.verbose = verbose

    def _check_estimator(self) -> None:
        require(self.estimator, MadeOfElements, "JointSearchCV")
        require(machines.resolve(self.estimator.elements()[1]), Factorises, "JointSearchCV")

    def _params(self, row: dict[str, Any]) -> dict[str, float]:
        names = ["lambda1", "lambda2", *(["gamma"] if np.isfinite(row["gamma"]) else [])]
        return {self.estimator.prefix + name: float(row[name]) for name in names}

    def _search(self, data: Data) -> int:
        grid = GRID.tolist()
        first = as_values(grid if self.lambda1s is None else self.lambda1s, "lambda1s", None)
        second = as_values(grid if self.lambda2s is None else self.lambda2s, "lambda2s", None)
        gammas = as_values(of_rows(self.gammas, data.X), "gammas", None)
        settings, loo = list(product(first, second)), _is_loo(self.cv)
        everything = np.arange(len(data.y))
        splits = [(everything, everything)] if loo else splits_of(data, self.cv)
        self.n_splits_ = len(data.y) if loo else len(splits)
        with progress("folds", len(splits), self.verbose) as report:

            def fold(split: Split) -> list[tuple[float, float, float]]:
                part, scores = _Fold(data, split, loo), []
                for gamma in gammas:
                    scores += part.at(gamma).scores(settings)
                report.advance()
                return scores

            # (folds, settings, 3)
            found = np.array(thread_map(fold, splits, self.estimator.n_jobs))
        self.results_ = _results(list(product(gammas, settings)), found)
        tol = machines.resolve(self.estimator.elements()[1]).get_params()["tol"]
        _warn_unconverged(self.results_["gap"], tol)
        keys = [self.results_["gamma"], -self.results_["lambda2"], -self.results_["lambda1"]]
        best = int(np.lexsort((*keys, -self.results_["mean_score"].round(12)))[0])
        self.best_score_ = float(self.results_["mean_score"][best])
        return best

    def plot(self, ax: Any = None) -> Any:
        """Draw the held-out error over lambda1 and lambda2, at the best gamma; returns the axes."""
        ax = self._axes(ax)
        first, second = (np.unique(self.results_[name]) for name in ("lambda1", "lambda2"))
        scores = self.results_["mean_score"].reshape(-1, len(first), len(second))
        error = 1.0 - scores[self.best_index_ // (len(first) * len(second))]
        ax.imshow(error, origin="lower", cmap="viridis_r")
        ax.set_xticks(range(len(second)), [f"{value:.0e}" for value in second])
        ax.set_yticks(range(len(first)), [f"{value:.0e}" for value in first])
        ax.set(xlabel="lambda2", ylabel="lambda1", title="held-out error")
        return ax


def bandwidth_gammas(X: Any, factors: Any = FACTORS) -> Array:
    """Return the gammas of [LZCX16] section 4.2: bandwidths of some factors times sigma.

    sigma is the mean distance of two training rows, and gamma = 1 / (2 bandwidth^2).

    Parameters
    ----------
    X : array-like of shape (n_samples, n_features)
        Training rows; the mean is taken over at most 1,000 of them.
    factors : array-like, default=(1e-3, 1e-2, ..., 1e3)
        Bandwidths over the mean distance.

    Returns
    -------
    ndarray of shape (n_factors,)
        A gamma for each factor.

    Examples
    --------
    >>> bandwidth_gammas(np.array([[0.0], [2.0]]), [1.0, 0.5])
    array([0.125, 0.5  ])
    """
    rows = np.asarray(X.toarray() if sparse.issparse(X) else X, dtype=np.float64)
    some = rows[np.unique(np.linspace(0, len(rows) - 1, MEAN_ROWS).astype(int))]
    sigma = float(pdist(some).mean()) if len(some) > 1 else 0.0
    return 0.5 / (np.asarray(factors, dtype=np.float64) * positive(sigma, "The mean distance")) ** 2


def _warn_unconverged(gap: Array, tol: float) -> None:
    """Say once that some settings stopped early."""
    if (early := gap > tol).any():
        warn(
            f"{early.sum()} of {len(gap)} settings stopped early, at most {100 * gap.max():.2g} % "
            f"above the optimum (tol={tol:g}): raise the machine's max_iter. results_['gap'] has "
            f"each.",
            ConvergenceWarning,
        )


def _is_loo(cv: Any) -> bool:
    return isinstance(cv, str) and cv == "loo"


def _results(settings: list[tuple[Any, tuple[Any, Any]]], found: Array) -> dict[str, Array]:
    scores = found[:, :, 0]
    return {
        "lambda1": np.array([first for _, (first, _) in settings]),
        "lambda2": np.array([second for _, (_, second) in settings]),
        "gamma": np.array([np.nan if gamma is None else gamma for gamma, _ in settings]),
        "mean_score": scores.mean(axis=0),
        "std_score": scores.std(axis=0),
        **{f"split{k}_score": row for k, row in enumerate(scores)},
        "gap": found[:, :, 1].max(axis=0),
        "seconds": found[:, :, 2].sum(axis=0),
    }


class _Fold:
    """The training rows of a split: their problem, decomposed once for all settings."""

    factorised: Any

    def __init__(self, data: Data, split: Split, loo: bool) -> None:
        self.data, (self.train, self.test), self.loo = data, split, loo
        code, machine, decoder = data.estimator.elements()
        self.machine, self.decoder = machines.resolve(machine), decoders.resolve(decoder)
        rng = check_random_state(clone(data.estimator).random_state)
        some = self._rows(self.train), data.y[self.train], data.weight[self.train]
        self.problem = pose(code, clone(self.machine), *some, rng, n_jobs=1)
        self._inner: dict[bytes, list[Any]] = {}

    def at(self, gamma: float | None) -> _Fold:
        """Return the fold with another gamma (None: the machine's own), decomposed."""
        other = copy.copy(self)
        if gamma is not None:
            other.machine = clone(self.machine).set_params(gamma=gamma)
            source = source_of(other.machine, self.problem, 1)
            other.problem = replace(self.problem, source=source)
        other._inner = {}
        other.factorised = other._factorise(other.problem.weight)
        return other

    def scores(self, settings: list[tuple[Any, Any]]) -> list[tuple[float, float, float]]:
        """Return accuracy on the test rows, gap and seconds of every setting."""
        cross, out = None if self.loo else self._cross(), []
        for setting in settings:
            started = time.perf_counter()
            rule = self._rule(*setting)
            machine, Z = rule.machine, self._rows(self.test)
            if cross is None:
                margins = machine.loo_margins(self.factorised, self.problem.targets)
            else:
                margins = machine.margins_gram(cross)
            score = self.data.share_right(rule.predict(margins, Z), self.test)
            out.append((score, machine.gap_, time.perf_counter() - started))
        return out

    def _rule(self, lambda1: float, lambda2: float) -> Rule:
        """Return the rule of one setting; that a trial stops early is in the table."""
        machine = clone(self.machine).set_params(lambda1=lambda1, lambda2=lambda2)
        problem = self.problem
        machine.fit_factorised(self.factorised, problem.store, problem.targets, n_jobs=1)
        machine.held_out_margins = partial(self._held_out, copy.copy(machine))
        return read(problem, machine, clone(self.decoder), n_jobs=1)

    def _held_out(
        self, machine: Any, gram: Any, targets: Array, fold: Array, weight: Array, **_: Any
    ) -> Array:
        """Return held-out margins, each fold of the decoder decomposed once for all settings."""
        key, numbers = fold.tobytes(), np.unique(fold)
        if key not in self._inner:
            kept = [np.where((fold == f) & (f >= 0), 0.0, weight) for f in numbers]
            self._inner[key] = [self._factorise(w) for w in kept]
        out = np.empty(targets.shape)
        for f, inner in zip(numbers, self._inner[key], strict=True):
            out[fold == f] = machine.margins_of(inner, gram, targets)[fold == f]
        return out

    def _factorise(self, weight: Array) -> Any:
        return self.machine.factorise(self.problem.store, self.problem.targets, weight)

    def _cross(self) -> Array:
        """Return the kernel values of the test rows against the training rows."""
        gram, Z = self.problem.store, self._rows(self.test)
        rows = gram.support(np.arange(len(self.train)))
        return gram.kernel.block(gram.kernel.prepare(Z, gram.origin), rows)

    def _rows(self, rows: Array) -> Any:
        X = self.data.X
        return X[np.ix_(rows, self.train)] if self.data.pairwise else X[rows]
