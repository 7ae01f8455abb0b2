"""OutputCodeClassifierCV: the classifier that tunes itself."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils import check_random_state
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted, validate_data

from outcode import codes, kernels
from outcode._checks import Array, class_labels, lookup, positive, require_classes, row_weights
from outcode.classifier import OutputCodeClassifier, stratified_folds
from outcode.decoders.softmax import Softmax
from outcode.gram import DenseGram
from outcode.machines import SVM, LeastSquares
from outcode.parallel import single_blas, thread_map
from outcode.progress import progress
from outcode.scores import ByScores
from outcode.selection.landscape import (
    DISTANCES,
    RIDGES,
    Landscape,
    Trial,
    better_than_chance,
    distinct,
    preferred,
    sample,
)

#: Beyond MAP_SPLIT distinct rows the map is made on MAP_ROWS of them; its best settings are then
#: tried on all rows, at most FULL_ROWS.
MAP_SPLIT, MAP_ROWS, FULL_ROWS = 400, 300, 3000
#: Beyond this many rows least squares costs too much to be trained on all of them.
LEAST_SQUARES_ROWS = 8000
#: Codes of more columns are tried at the best width of the first code only, or not at all.
MANY_COLUMNS, MOST_COLUMNS = 30, 1000
#: Folds of the held-out margins of support vector machines.
FOLDS = 5
#: Ridge values tried around the best, and of a mixture of kernels.
AROUND, MIXED = 10.0 ** np.array([-0.5, 0.5]), 10.0 ** np.array([-1.0, -0.5, 0.0])
SCORINGS = {name: name for name in ("accuracy", "balanced_accuracy", "neg_log_loss")}
MACHINES = {"ls": LeastSquares, "svm": SVM}


class OutputCodeClassifierCV(ByScores, BaseEstimator):
    """A tuned and calibrated classifier in one line: machine, kernel, width, C and code by data.

    Least squares has exact leave-one-out margins in closed form: from one eigendecomposition per
    kernel width those of all ridge values 1 / C, for every column of every code. They map the
    landscape: kernels x widths x ridge values x codes. Settings are compared by their held-out
    rows; a kernel that cannot win any more, paired over rows, is not refined. Near the optimum a
    weighted mean of the kernels and support vector machines with the same width and C are tried.
    The slope and the temperature of the probabilities come from the held-out margins.

    Beyond a few hundred rows the map is made on a sample and its best settings are tried on all
    rows (at most 3,000). Only the final machine is trained on everything. Rows with the same
    content and label are left out together, so a weight of 2 equals a repeated row.

    Parameters
    ----------
    machines : of "ls" and "svm"
    kernels : names of kernels, functions, or "precomputed" alone
    codes : names, codes or matrices; the first is mapped everywhere
    scoring : "accuracy", "balanced_accuracy" or "neg_log_loss"
        Settings within one standard error of the highest accuracy are compared by log loss.
    time_limit : seconds after which nothing more is tried; None is no limit
    refit : train the best setting on all rows
    n_jobs : threads; None is all cores. The model does not depend on it.
    random_state : seed of the sample and of folds
    verbose : show the progress

    Attributes
    ----------
    classes_ : the sorted labels
    best_estimator_ : OutputCodeClassifier
    best_params_ : its code, machine, kernel, gamma and C
    best_score_ : its held-out score by ``scoring``
    best_index_ : its place in ``results_``
    results_ : everything tried as a dict of arrays: stage, n_rows, machine, kernel, gamma, C, code,
        accuracy, balanced_accuracy, neg_log_loss (all held out), seconds

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> clf = OutputCodeClassifierCV(random_state=0).fit(X, y)
    >>> clf.predict_proba(X[:1]).shape, bool(clf.best_score_ > 0.95)
    ((1, 3), True)
    """

    def __init__(
        self,
        machines: Any = ("ls", "svm"),
        kernels: Any = ("rbf", "exponential", "laplacian"),
        codes: Any = ("ova", "ovo"),
        *,
        scoring: str = "accuracy",
        time_limit: float | None = None,
        refit: bool = True,
        n_jobs: int | None = None,
        random_state: Any = None,
        verbose: int = 0,
    ) -> None:
        self.machines = machines
        self.kernels = kernels
        self.codes = codes
        self.scoring = scoring
        self.time_limit = time_limit
        self.refit = refit
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.pairwise = self._pairwise
        tags.input_tags.sparse = not self._pairwise
        return tags

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> OutputCodeClassifierCV:
        """Choose by held-out rows, then train the best setting on all rows."""
        started = time.monotonic()
        lookup(SCORINGS, self.scoring, "scoring")
        X, y = validate_data(self, X, y, **self._rules)
        classes, labels = class_labels(y)
        weight = row_weights(sample_weight, len(labels))
        require_classes(classes, labels, weight)
        if not self._pairwise:
            rows, weight = distinct(X, labels, weight)
            X, labels = X[rows], labels[rows]
        rng = check_random_state(self.random_state)
        land = Landscape(X, labels, weight, self._matrices(len(classes), rng))
        search = Search(self, land, rng, started)
        with single_blas():
            best = search.run()
        self._keep(classes, search.tried, best)
        self.__dict__.pop("best_estimator_", None)  # of an earlier fit
        if self.refit:
            self.best_estimator_ = self._model(best).fit(X, classes[labels], weight)
        return self

    def _keep(self, classes: Array, tried: list[Trial], best: Trial) -> None:
        self.classes_, self.results_ = classes, _table(tried)
        self.best_index_ = next(i for i, trial in enumerate(tried) if trial is best)
        self.best_score_ = float(self.results_[self.scoring][self.best_index_])
        names = ("code", "machine", "kernel", "gamma", "C")
        self.best_params_ = {name: getattr(best, name) for name in names}

    def _model(self, best: Trial) -> OutputCodeClassifier:
        width = {} if best.gamma is None else {"gamma": best.gamma}
        machine = MACHINES[best.machine](kernel=best.kernel, C=best.C, **width)
        decoder = Softmax("loo" if best.machine == "ls" else FOLDS)
        return OutputCodeClassifier(
            self._codes[best.code], machine, decoder, n_jobs=self.n_jobs, random_state=0
        )

    # --- the fitted model ---

    def _fitted(self) -> Any:
        check_is_fitted(self, "results_")
        if not hasattr(self, "best_estimator_"):
            raise AttributeError("The best setting was not trained: fit with refit=True.")
        return self.best_estimator_

    def _scores(self, X: Any) -> Array:
        model = self._fitted()
        scores = model.decision_function(self._check_rows(X))
        return np.column_stack([-scores, scores]) / 2.0 if scores.ndim == 1 else scores

    def predict(self, X: Any) -> Array:
        """Return the most probable class, the first of equals."""
        return np.asarray(self._fitted().predict(self._check_rows(X)))

    def predict_proba(self, X: Any) -> Array:
        """Return the (n_samples, n_classes) probabilities; their largest is what predict says."""
        return np.asarray(self._fitted().predict_proba(self._check_rows(X)))

    def _check_rows(self, X: Any) -> Any:
        return validate_data(self, X, reset=False, **self._rules)

    # --- what the arguments say ---

    @property
    def _pairwise(self) -> bool:
        return "precomputed" in _listed(self.kernels)

    @property
    def _rules(self) -> dict[str, Any]:
        sparse = False if self._pairwise else "csr"
        return {"accept_sparse": sparse, "dtype": np.float64}

    @property
    def _codes(self) -> dict[Any, Any]:
        """The codes as given, by name or by number."""
        given = _listed(self.codes)
        return {c if isinstance(c, str) else i: c for i, c in enumerate(given)}

    def _matrices(self, n_classes: int, rng: np.random.RandomState) -> dict[Any, Array]:
        found: dict[Any, Array] = {}
        for name, code in self._codes.items():
            if isinstance(code, str) and code == "ovo" and n_classes == 2 and found:
                continue  # the one-vs-all columns of two classes are the same
            found[name] = codes.code_matrix(code, n_classes, random_state=rng)
        small = {k: m for k, m in found.items() if m.shape[1] <= MOST_COLUMNS}
        return small or found


class Search:
    """One search: what is tried, in which order, and when it stops."""

    def __init__(
        self, owner: OutputCodeClassifierCV, land: Landscape, rng: Any, started: float
    ) -> None:
        self.owner, self.whole, self.rng = owner, land, rng
        self.scoring = owner.scoring
        self.kernels = _listed(owner.kernels)
        self.machines = [lookup(MACHINES, m, "machine") and m for m in _listed(owner.machines)]
        limit = owner.time_limit
        self.deadline = np.inf if limit is None else started + positive(limit, "time_limit")
        self.tried: list[Trial] = []
        if "precomputed" in self.kernels and len(self.kernels) > 1:
            raise ValueError("A precomputed kernel matrix is the only kernel: kernels='precomputed'.")

    def run(self) -> Trial:
        """Return the best trial."""
        small = self._sampled(MAP_ROWS, "map") if len(self.whole) > MAP_SPLIT else self.whole
        large = self._sampled(FULL_ROWS, "full") if len(self.whole) > FULL_ROWS else self.whole
        with progress("stages", 4, self.owner.verbose) as report:
            self._map(small)
            report.advance()
            trials = self._near(small, large)
            report.advance()
            trials = self._mixed(large, trials)
            report.advance()
            trials = self._supported(large, trials)
            report.advance()
        return preferred(trials, self.scoring)

    @property
    def _late(self) -> bool:
        return time.monotonic() > self.deadline

    def _sampled(self, size: int, stage: str) -> Landscape:
        rows = sample(self.whole.labels, size, self.rng)
        return self.whole.part(rows, stage, self.owner._pairwise)

    def _add(self, found: Iterable[Trial]) -> list[Trial]:
        new = list(found)
        self.tried.extend(new)
        return new

    # --- the map ---

    def _map(self, land: Landscape) -> None:
        """Try every kernel at three widths, then refine those that can still win."""
        for found in self._each_kernel(self.kernels, lambda kernel: self._coarse(land, kernel)):
            self._add(found)
        best = preferred(self.tried, self.scoring)
        leaders = {k: preferred(self._of(k), self.scoring) for k in self.kernels if self._of(k)}
        alive = [
            kernel
            for kernel, leader in leaders.items()
            if leader.gamma is not None and not better_than_chance(leader, best, land.scored)
        ]
        for found in self._each_kernel(alive, lambda k: self._refined(land, k, leaders[k].power)):
            self._add(found)

    def _each_kernel(
        self, names: Sequence[Any], work: Callable[[Any], list[Trial]]
    ) -> list[list[Trial]]:
        return thread_map(work, names, self.owner.n_jobs)

    def _of(self, kernel: Any) -> list[Trial]:
        return [trial for trial in self.tried if trial.kernel is kernel]

    def _coarse(self, land: Landscape, kernel: Any) -> list[Trial]:
        if not (isinstance(kernel, str) and kernel in DISTANCES):
            return self._all_codes(land, kernel, None, 0.0, list(land.codes))
        found: list[Trial] = []
        always, seldom = self._split_codes(land)
        for power in DISTANCES[kernel][1]:
            if found and self._late:
                return found
            found += self._all_codes(land, kernel, _gamma(land, kernel, power), power, always)
        power = preferred(found, self.scoring).power
        return found + self._all_codes(land, kernel, _gamma(land, kernel, power), power, seldom)

    def _refined(self, land: Landscape, kernel: Any, power: float) -> list[Trial]:
        found: list[Trial] = []
        step, always = DISTANCES[kernel][2], self._split_codes(land)[0]
        for other in (power - step, power + step):
            if not self._late:
                found += self._all_codes(land, kernel, _gamma(land, kernel, other), other, always)
        return found

    def _split_codes(self, land: Landscape) -> tuple[list[Any], list[Any]]:
        """Return the codes tried at every width, and those tried at the best only."""
        names = list(land.codes)
        often = [n for n in names if n == names[0] or land.codes[n].shape[1] <= MANY_COLUMNS]
        return often, [name for name in names if name not in often]

    def _all_codes(
        self, land: Landscape, kernel: Any, gamma: float | None, power: float, names: list[Any]
    ) -> list[Trial]:
        if not names:
            return []
        gram = land.gram(kernel, gamma)
        found: list[Trial] = []
        for code in names:
            found += land.trials(kernel, gamma, code, RIDGES, power=power, gram=gram)
        return found

    # --- near the optimum, on all rows ---

    def _near(self, small: Landscape, large: Landscape) -> list[Trial]:
        """Return the trials to choose from: the best of the map on all rows, finer ridge values."""
        best = self._leaders(self.tried)[:3]
        if small is large:
            trials = list(self.tried)
            first = best[:1]
        else:
            first = best
            trials = []
        for trial in first:
            if trials and self._late:
                break
            ridges = 1.0 / trial.C * (AROUND if small is large else np.r_[1.0, AROUND])
            trials += self._add(self._again(large, trial, ridges))
        return trials

    def _again(self, land: Landscape, trial: Trial, ridges: Array) -> list[Trial]:
        gram = land.gram(trial.kernel, trial.gamma)
        scale = max(float(gram.diagonal().mean()), 1e-300)
        return land.trials(
            trial.kernel, trial.gamma, trial.code, ridges / scale, power=trial.power, gram=gram
        )

    def _leaders(self, trials: Sequence[Trial]) -> list[Trial]:
        """Return the best trial of every kernel and code, the best first."""
        groups: dict[Any, list[Trial]] = {}
        for trial in trials:
            groups.setdefault((id(trial.kernel), str(trial.code)), []).append(trial)
        left = [preferred(group, self.scoring) for group in groups.values()]
        order = []
        while left:
            order.append(preferred(left, self.scoring))
            left = [trial for trial in left if trial is not order[-1]]
        return order

    def _mixed(self, land: Landscape, trials: list[Trial]) -> list[Trial]:
        """Try a weighted mean of the kernels, each at its best width."""
        best = preferred(trials, self.scoring)
        names = [k for k in self.kernels if isinstance(k, str) and k in DISTANCES]
        if len(names) < 2 or best.gamma is None or self._late:
            return trials
        own = [[t for t in self._of(k) if t.code == best.code] for k in names]
        members = [preferred(group, self.scoring) for group in own if group]
        weight = np.array([member.C**0.5 for member in members])
        mixture = kernels.Mixture(
            tuple(member.kernel for member in members),
            tuple(float(member.gamma or 0.0) for member in members),
            tuple((weight / weight.sum()).tolist()),
        )
        ridge = np.exp(-np.mean([np.log(member.C) for member in members]))
        gram = mixture.combine(land.gram)
        found = land.trials(mixture, None, best.code, ridge * MIXED, gram=gram)
        return trials + self._add(found)

    def _supported(self, land: Landscape, trials: list[Trial]) -> list[Trial]:
        """Try support vector machines where least squares is best, with the same C."""
        if "svm" not in self.machines:
            return trials
        best = preferred(trials, self.scoring)
        fold = stratified_folds(land.labels, FOLDS, self.rng, land.weight)
        return trials + self._add(_svm_trials(land, best, fold))


def _svm_trials(land: Landscape, best: Trial, fold: Array) -> list[Trial]:
    started = time.perf_counter()
    matrix = land.codes[best.code]
    mixture = best.kernel.combine if best.gamma is None else None
    gram = mixture(land.gram) if mixture else land.gram(best.kernel, best.gamma)
    machine = SVM(kernel="precomputed", C=min(best.C, 1e4), tol=1e-3)
    targets = matrix[land.labels]
    machine.fit_gram(gram, targets, land.weight, n_jobs=1)
    margins = machine.held_out_margins(DenseGram(gram), targets, fold, land.weight, n_jobs=1)
    setting = dict(machine="svm", kernel=best.kernel, gamma=best.gamma, code=best.code)
    found = land.judged(np.asarray(margins)[None], matrix, **setting, C=machine.C, seconds=0.0)
    return [replace(trial, seconds=time.perf_counter() - started) for trial in found]


def _gamma(land: Landscape, kernel: str, power: float) -> float:
    return float(4.0**power / land.median(kernel))


def _listed(given: Any) -> list[Any]:
    return [given] if isinstance(given, str) or not isinstance(given, (list, tuple)) else [*given]


def _table(tried: Sequence[Trial]) -> dict[str, Array]:
    names = ("stage", "n_rows", "machine", "kernel", "gamma", "C", "code")
    numbers = ("accuracy", "balanced_accuracy", "seconds")
    table = {name: np.array([str(getattr(t, name)) for t in tried]) for name in names}
    for name in ("n_rows", "C"):
        table[name] = np.array([getattr(trial, name) for trial in tried])
    table["gamma"] = np.array([np.nan if t.gamma is None else t.gamma for t in tried])
    table |= {name: np.array([getattr(trial, name) for trial in tried]) for name in numbers}
    table["neg_log_loss"] = np.array([-trial.loss for trial in tried])
    return table
