"""The search estimators: by the leave-one-out bound, by folds, by doubling."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from itertools import groupby, product
from operator import itemgetter
from typing import Any

import numpy as np
from sklearn.base import ClassifierMixin, MetaEstimatorMixin, clone
from sklearn.utils import get_tags
from sklearn.utils.validation import check_is_fitted, validate_data

from outcode import kernels, loo, machines, notebooks
from outcode._checks import (
    Array,
    class_labels,
    lookup,
    positive,
    require_classes,
    row_weights,
    text_explained,
    unchanged_on_failure,
)
from outcode.capabilities import (
    HasKernel,
    HasWidthAndCost,
    LeavesOut,
    MadeOfElements,
    PredictsProbabilities,
    TrainsOnGram,
    available_if,
    can,
    require,
)
from outcode.folds import splits
from outcode.progress import progress
from outcode.selection.trials import Data, Refits, Trials

#: gamma times the median distance, of the values tried when none are given.
FACTORS = 2.0 ** np.arange(-5, 6)
#: Machines that learn all classes at once are tried at so many times the tolerance of their trials,
#: and so many of the settings that come out best again, without haste.
HASTE, FINALISTS = 10.0, 5
#: What a leave-one-out search can go by.
CRITERIA = {"bound": "bound", "sharp": "sharp bound", "estimate": "error, estimated"}


def _has_proba(search: Any) -> bool:
    return can(getattr(search, "best_estimator_", search.estimator), PredictsProbabilities)


class _Search(MetaEstimatorMixin, ClassifierMixin, notebooks.InNotebook):
    """What the searches share: validation of the data, the refit, and the fitted model's verbs.

    A subclass defines ``_search``, which fills ``results_`` and returns the place of the best.
    """

    estimator: Any
    refit: bool
    verbose: int
    results_: dict[str, Array]

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags = get_tags(self.estimator).input_tags
        return tags

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Any:
        """Try the settings, and fit the estimator with the best on all rows."""
        with unchanged_on_failure(self):
            return self._fit(X, y, sample_weight)

    def _fit(self, X: Any, y: Any, sample_weight: Any) -> Any:
        self._check_estimator()
        rows, labels = self._check_rows(X, y)
        weight = row_weights(sample_weight, len(labels))
        self.classes_, index = class_labels(labels)
        require_classes(self.classes_, index, weight)
        self.__dict__.pop("best_estimator_", None)  # of an earlier fit
        data = Data(self.estimator, rows, labels, weight)
        best = self.best_index_ = self._search(data)
        self.best_params_ = self._params({k: v[best] for k, v in self.results_.items()})
        if self.refit:
            self.best_estimator_ = clone(self.estimator).set_params(**self.best_params_)
            extra = {} if sample_weight is None else {"sample_weight": sample_weight}
            self.best_estimator_.fit(X, y, **extra)
        return self

    def predict(self, X: Any) -> Array:
        """Return the classes the best estimator predicts."""
        return self._best().predict(X)

    def decision_function(self, X: Any) -> Array:
        """Return the scores of the best estimator."""
        return self._best().decision_function(X)

    @available_if(_has_proba)
    def predict_proba(self, X: Any) -> Array:
        """Return the probabilities of the best estimator."""
        return self._best().predict_proba(X)

    def _check_estimator(self) -> None:
        """Raise an error if the estimator has no Gram matrix to share."""
        who = type(self).__name__
        require(self.estimator, MadeOfElements, who)
        machine = machines.resolve(self.estimator.elements()[1])
        require(machine, TrainsOnGram, who)
        require(machine, HasKernel, who)

    def _params(self, row: dict[str, Any]) -> dict[str, float]:
        """Return the parameters of the estimator for a row of the results."""
        gamma, C = (float(row[name]) if np.isfinite(row[name]) else None for name in ("gamma", "C"))
        found = machines.resolve(self.estimator.elements()[1]).setting(gamma, C)
        return {self.estimator.prefix + name: value for name, value in found.items()}

    def _search(self, data: Data) -> int:
        raise NotImplementedError(f"{type(self).__name__} must define _search()")

    def _summary(self) -> str | None:
        if not hasattr(self, "results_"):
            return None
        found = self.best_params_, self.results_, self.best_index_, self._criterion
        return notebooks.search(type(self).__name__, *found)

    @property
    def _criterion(self) -> str:
        """The column of the results that the search went by, with a minus if larger is better."""
        return "-mean_score"

    def _best(self) -> Any:
        check_is_fitted(self, "results_")
        if not hasattr(self, "best_estimator_"):
            raise AttributeError("The best estimator was not kept: search with refit=True.")
        return self.best_estimator_

    def _check_rows(self, X: Any, y: Any) -> tuple[Any, Array]:
        pairwise = get_tags(self.estimator).input_tags.pairwise
        rules = {
            "accept_sparse": False if pairwise else "csr",
            "dtype": None if pairwise else np.float64,
        }
        with text_explained(X):
            X, y = validate_data(self, X, y, **rules)
        return X, np.asarray(y)

    def _axes(self, ax: Any) -> Any:
        check_is_fitted(self, "results_")
        if ax is None:
            from matplotlib import pyplot

            ax = pyplot.subplots(layout="constrained")[1]
        return ax


class LOOBoundSearch(_Search):
    """Choose gamma and C by the leave-one-out bound: one training for each setting.

    The bound is [PPF04] Theorem 4.1 and Corollary 4.1 (:func:`outcode.loo.bound`); it ranks
    settings, but its value is far above the error. It becomes less tight with a larger C, so use it
    to choose gamma. With some more time, the search can use a much tighter bound
    (:func:`outcode.loo.sharp_bound`), or an estimate of the leave-one-out error itself
    (:func:`outcode.loo.estimate`), which can also choose C. Equal rows of a class are left out
    together. Ties go to the smaller gamma, then to the smaller C. With least-squares machines all
    three are the leave-one-out error.

    Parameters
    ----------
    estimator : OutputCodeClassifier
        With a kernel machine and a decoder that the bound covers.
    gammas : array-like or None, default=None
        Values of gamma; None takes eleven, factors of two around 1 / the median distance.
    Cs : array-like or None, default=None
        Values of C; None keeps the machine's own.
    by : {"bound", "sharp", "estimate"}, default="bound"
        The criterion that is minimised.
    refit : bool, default=True
        Fit the estimator with the best setting on all rows.
    verbose : int, default=0
        If not 0, show the settings done and the time left.

    Attributes
    ----------
    best_params_, best_index_, best_estimator_
    best_bound_ : the smallest value of the criterion
    results_ : a table as a dict of arrays: gamma, C, bound, training_error, seconds, and "sharp" or
        "estimate"; a value that can no longer be the smallest is an upper limit

    Examples
    --------
    >>> from outcode import OutputCodeClassifier
    >>> from sklearn.datasets import load_iris
    >>> search = LOOBoundSearch(OutputCodeClassifier(decoder="linear"))
    >>> sorted(search.fit(*load_iris(return_X_y=True)).best_params_)
    ['machine__C', 'machine__gamma']
    """

    def __init__(
        self,
        estimator: Any,
        gammas: Any = None,
        Cs: Any = None,
        *,
        by: str = "bound",
        refit: bool = True,
        verbose: int = 0,
    ) -> None:
        self.estimator = estimator
        self.gammas = gammas
        self.Cs = Cs
        self.by = by
        self.refit = refit
        self.verbose = verbose

    @property
    def _criterion(self) -> str:
        return self.by

    def _search(self, data: Data) -> int:
        lookup(CRITERIA, self.by, "by")
        data = data.merged()
        everything = np.arange(len(data.y))
        trainings = Trials(data, [(everything, everything)])
        if self.by != "bound" and can(trainings.machine, LeavesOut):
            loo.check_followed(trainings.machine)
        settings, bounded = _settings(trainings, self.gammas, self.Cs), []
        lowest = 1.0

        def evaluate(gamma: float | None, C: float | None) -> dict[str, float]:
            nonlocal lowest
            row, found = trainings.bound(gamma, C)
            lowest = min(lowest, row["bound"])
            chance = self.by != "bound" and row["training_error"] <= lowest
            bounded.append(found if chance else None)  # what cannot win is not kept
            return row

        self.results_ = _table(evaluate, settings, self.verbose)
        if self.by != "bound":
            self.results_[self.by] = self._sharpened(trainings, settings, bounded)
        best = _smoothest(-self.results_[self.by], self.results_)
        self.best_bound_ = float(self.results_[self.by][best])
        return best

    def _sharpened(
        self, trainings: Trials, settings: Sequence[Any], bounded: Sequence[Any]
    ) -> Array:
        """Sharpen the bounds, lowest first, as long as a setting can still be the best.

        No setting comes below its training error: a row wrong in training stays wrong left out.
        All values of C at one gamma go together, on one Gram matrix.
        """
        values, least = self.results_["bound"].copy(), self.results_["training_error"]
        gammas, which = np.unique(self.results_["gamma"], return_inverse=True)
        of_gamma = np.array([values[which == g].min() for g in range(len(gammas))])
        lowest = 1.0
        with progress("settings looked at again", len(settings), self.verbose) as report:
            for k in np.lexsort((values, which, of_gamma[which])):
                if bounded[k] is not None and least[k] <= lowest + loo.TIE:
                    args = settings[k][0], bounded[k], self.by, lowest
                    values[k] = trainings.sharpened(*args)
                    lowest = min(lowest, values[k])
                report.advance()
        return values

    def plot(self, ax: Any = None) -> Any:
        """Draw what was chosen by against gamma, a line for each C; returns the axes."""
        ax = self._axes(ax)
        _curves(ax, self.results_, self.results_[self.by], self.best_index_)
        ax.set(ylabel=f"leave-one-out {CRITERIA[self.by]}")
        return ax


class KernelSearchCV(_Search):
    """Choose gamma and C by cross-validation on one Gram matrix.

    The results are those of ``GridSearchCV`` with the same folds and (weighted) accuracy as score,
    but no kernel value is computed twice, and most trainings start from an earlier solution: within
    ``tol`` a score may differ by a row that is close to the boundary. Machines that learn all
    classes at once are ranked more coarsely, and the five best settings are trained again. Ties go
    to the smaller gamma, then to the smaller C. A code that is learned with machines is learned
    once per fold, with the parameters of the given estimator.

    Parameters
    ----------
    estimator : OutputCodeClassifier
        With a kernel machine.
    gammas : array-like, function or None, default=None
        Values of gamma, or a function that gives them for the training rows (such as
        :func:`bandwidth_gammas`); None takes eleven, factors of two around 1 / the median distance.
    Cs : array-like or None, default=None
        Values of C; None keeps the machine's own.
    cv : int, splitter or iterable of (train, test), default=5
        The folds; a number gives shuffled stratified folds in which equal rows are together.
    refit : bool, default=True
        Fit the estimator with the best setting on all rows.
    verbose : int, default=0
        If not 0, show the settings done and the time left.

    Attributes
    ----------
    best_params_, best_score_, best_index_, best_estimator_, n_splits_
    results_ : a table as a dict of arrays: gamma, C, mean_score, std_score, split0_score, ...

    Examples
    --------
    >>> from outcode import OutputCodeClassifier
    >>> from sklearn.datasets import load_iris
    >>> search = KernelSearchCV(OutputCodeClassifier(), gammas=[0.1, 1.0], Cs=[1.0, 10.0])
    >>> search.fit(*load_iris(return_X_y=True)).results_["mean_score"].shape
    (4,)
    """

    def __init__(
        self,
        estimator: Any,
        gammas: Any = None,
        Cs: Any = None,
        *,
        cv: Any = 5,
        refit: bool = True,
        verbose: int = 0,
    ) -> None:
        self.estimator = estimator
        self.gammas = gammas
        self.Cs = Cs
        self.cv = cv
        self.refit = refit
        self.verbose = verbose

    def _search(self, data: Data) -> int:
        trainings = Trials(data, splits_of(data, self.cv), haste=HASTE)
        self.n_splits_ = len(trainings.splits)
        settings = _settings(trainings, self.gammas, self.Cs)
        table = self.results_ = _columns(_accuracies(trainings, settings, self.verbose))
        last = np.arange(len(settings))
        if trainings.loosened:
            last = np.sort(np.argsort(-table["mean_score"], kind="stable")[:FINALISTS])
            again = Trials(data, trainings.splits)
            for k in last:
                for name, value in again.accuracy(*settings[k]).items():
                    table[name][k] = value
        some = {name: column[last] for name, column in table.items()}
        best = int(last[_smoothest(some["mean_score"], some)])
        self.best_score_ = float(self.results_["mean_score"][best])
        return best

    def plot(self, ax: Any = None) -> Any:
        """Draw the held-out error against gamma, a line for each C; returns the axes."""
        ax = self._axes(ax)
        _curves(ax, self.results_, 1.0 - self.results_["mean_score"], self.best_index_)
        ax.set(ylabel="held-out error")
        return ax


class GreedySearch(_Search):
    """Choose the width, then C, by doubling and halving ([EPY08] section 5).

    With gamma = 1 / (2 sigma^2), sigma is doubled and then halved from its start, in each direction
    until ``patience`` values in a row do not improve the cross-validated score. Then, at the best
    sigma, the same is done for C.

    Parameters
    ----------
    estimator : classifier
        OutputCodeClassifier with a kernel machine, which shares one matrix of distances, or any
        classifier with ``kernel``, ``gamma`` and ``C`` (SingleBinaryClassifier, SVC), refitted.
    cv : int, splitter or iterable of (train, test), default=5
        Number of folds (the paper takes ten), or the folds.
    sigma : float or None, default=None
        Start value; None is the scale of the data, the paper uses 1.
    C : float, default=1.0
        Where to start.
    patience : int, default=3
        Number of tries without a better score that end a direction.
    refit : bool, default=True
        Fit the estimator with the best setting on all rows.
    verbose : int, default=0
        If not 0, show the trainings done.

    Attributes
    ----------
    best_params_, best_score_, best_index_, best_estimator_, n_splits_
    results_ : a table as a dict of arrays, in the order tried: gamma, C, mean_score, ..., sigma.
        The folds of a setting end where it can no longer be the best: its mean_score is then an
        upper limit, and the scores of the folds that are left are NaN

    Examples
    --------
    >>> from outcode import OutputCodeClassifier
    >>> from sklearn.datasets import load_iris
    >>> search = GreedySearch(OutputCodeClassifier(machine="ls"), cv=3)
    >>> sorted(search.fit(*load_iris(return_X_y=True)).best_params_)
    ['machine__C', 'machine__gamma']
    """

    def __init__(
        self,
        estimator: Any,
        *,
        cv: Any = 5,
        sigma: float | None = None,
        C: float = 1.0,
        patience: int = 3,
        refit: bool = True,
        verbose: int = 0,
    ) -> None:
        self.estimator = estimator
        self.cv = cv
        self.sigma = sigma
        self.C = C
        self.patience = patience
        self.refit = refit
        self.verbose = verbose

    def _check_estimator(self) -> None:
        if not can(self.estimator, HasWidthAndCost):
            super()._check_estimator()

    def _params(self, row: dict[str, Any]) -> dict[str, float]:
        if can(self.estimator, MadeOfElements):
            return super()._params(row)
        return {name: float(row[name]) for name in ("gamma", "C") if np.isfinite(row[name])}

    def _search(self, data: Data) -> int:
        kind: Any = Trials if can(self.estimator, MadeOfElements) else Refits
        trainings = kind(data, splits_of(data, self.cv))
        self.n_splits_ = len(trainings.splits)
        rows: dict[tuple[float, float], dict[str, float]] = {}
        at_least = 1 + 4 * self.patience
        with progress("settings", at_least, self.verbose) as report:

            def score(gamma: float | None, C: float, beat: float) -> float:
                if (key := (gamma or 0.0, C)) not in rows:
                    rows[key] = trainings.accuracy(gamma, C, beat)
                    if len(rows) <= at_least:
                        report.advance()
                return rows[key]["mean_score"]

            gamma = self._gamma(trainings)
            if gamma is not None:
                sigma = _doubled(
                    lambda value, beat: score(0.5 / value**2, self.C, beat),
                    (0.5 / gamma) ** 0.5,
                    self.patience,
                )
                gamma = 0.5 / sigma**2
            _doubled(partial(score, gamma), positive(self.C, "C"), self.patience)
        self.results_ = _columns(list(rows.values()))
        self.results_["sigma"] = np.sqrt(0.5 / self.results_["gamma"])
        best = int(np.argmax(self.results_["mean_score"]))  # the first of equals: where it ended
        self.best_score_ = float(self.results_["mean_score"][best])
        return best

    def _gamma(self, trainings: Any) -> float | None:
        """Return where gamma starts, None for a kernel without one."""
        kernel = trainings.machine.kernel
        if not kernels.named(kernel).has_gamma:
            return None
        if self.sigma is None:
            return float(trainings.data.unit_gamma(kernel))
        return 0.5 / positive(self.sigma, "sigma") ** 2

    def plot(self, ax: Any = None) -> Any:
        """Draw the held-out error of every setting in the order tried; returns the axes."""
        ax = self._axes(ax)
        error = 1.0 - self.results_["mean_score"]
        ax.plot(np.arange(1, len(error) + 1), error, "o-", markersize=4)
        ax.plot(self.best_index_ + 1, 1.0 - self.best_score_, "o", markersize=12, fillstyle="none")
        ax.set(xlabel="setting, in the order tried", ylabel="held-out error")
        return ax


# --- settings and their table ---


def _settings(trainings: Trials, gammas: Any, Cs: Any) -> list[tuple[float | None, float | None]]:
    """Return the (gamma, C) to try, both ascending; None for what the machine does not have."""
    machine = trainings.machine
    if gammas is None and kernels.named(machine.kernel).has_gamma:
        gammas = FACTORS * trainings.data.unit_gamma(machine.kernel)
    widths = as_values(of_rows(gammas, trainings.data.X), "gammas", None)
    return list(product(widths, as_values(Cs, "Cs", machine.cost)))


def of_rows(given: Any, X: Any) -> Any:
    """Return the values to try; a function gives them for the training rows."""
    return given(X) if callable(given) else given


def as_values(given: Any, name: str, own: float | None) -> list[float | None]:
    if given is None:
        return [own]
    values = sorted({positive(value, name) for value in np.atleast_1d(given).tolist()})
    if not values:
        raise ValueError(f"{name} is empty: give at least one value.")
    return [*values]


def splits_of(data: Data, cv: Any) -> list[tuple[Array, Array]]:
    """Return the training and test rows of each fold."""
    return splits(cv, data.X, data.y, data.weight, pairwise=data.pairwise)


def _table(
    evaluate: Callable[[Any, Any], dict[str, float]], settings: Sequence[Any], verbose: int
) -> dict[str, Array]:
    rows = []
    with progress("settings", len(settings), verbose) as report:
        for setting in settings:
            rows.append(evaluate(*setting))
            report.advance()
    return _columns(rows)


def _accuracies(trainings: Trials, settings: Sequence[Any], verbose: int) -> list[dict[str, float]]:
    """Return a row for each setting; all values of C at one gamma are trained together."""
    rows = []
    with progress("settings", len(settings), verbose) as report:
        for gamma, group in groupby(settings, key=itemgetter(0)):
            for row in trainings.accuracies(gamma, [C for _, C in group]):
                rows.append(row)
                report.advance()
    return rows


def _columns(rows: Sequence[dict[str, float]]) -> dict[str, Array]:
    return {name: np.array([row[name] for row in rows]) for name in rows[0]}


def _smoothest(score: Array, table: dict[str, Array]) -> int:
    """Return the place of the largest score; of equals the smallest gamma, then the smallest C."""
    return int(np.lexsort((table["C"], table["gamma"], -score.round(12)))[0])


def _doubled(score: Callable[[float, float], float], start: float, patience: int) -> float:
    """Return the best of start, its doubles and its halves; ``patience`` failures end each way.

    ``score`` is of a value and the score to beat.
    """
    best, most = start, score(start, -1.0)
    for factor in (2.0, 0.5):
        value, failures = start, 0
        while failures < patience:
            value *= factor
            found = score(value, most)
            failures += 1
            if found > most:
                best, most, failures = value, found, 0
    return best


def _curves(ax: Any, table: dict[str, Array], height: Array, best: int) -> None:
    """Draw ``height`` against gamma, a line for each C; against C when there is one gamma."""
    across, lines = ("gamma", "C") if len(np.unique(table["gamma"])) > 1 else ("C", "gamma")
    values = np.unique(table[lines])
    for value in values:
        on = (table[lines] == value) | np.isnan(table[lines])
        name = f"{lines} = {value:.3g}" if len(values) > 1 else None
        ax.plot(table[across][on], height[on], "o-", markersize=4, label=name)
    if len(values) > 1:
        ax.legend(frameon=False)
    ax.plot(table[across][best], height[best], "ko", markersize=12, fillstyle="none")
    ax.set(xscale="log", xlabel=across)
