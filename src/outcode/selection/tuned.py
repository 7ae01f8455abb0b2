"""OutputCodeClassifierCV: the classifier that tunes itself."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data

from outcode import codes, kernels
from outcode._checks import (
    Array,
    class_labels,
    lookup,
    positive,
    require_classes,
    row_weights,
    unchanged_on_failure,
)
from outcode.classifier import EXACT_ROWS, OutputCodeClassifier
from outcode.decoders.shared import SharedSigmoid
from outcode.folds import content_folds, distinct_rows
from outcode.gram import given
from outcode.machines import SVM, LeastSquares
from outcode.parallel import single_blas, thread_map
from outcode.progress import progress
from outcode.scores import ByScores
from outcode.selection.closed_form import loo_margins
from outcode.selection.landmarks import on_landmarks
from outcode.selection.landscape import (
    RIDGES,
    Landscape,
    Trial,
    hopeless,
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
#: Widths tried for every kernel, and between them: powers of 4.
FIRST, MIDDLE = (-2.0, 0.0), (-1.0,)
#: How many of the map's best settings, of different kernels and codes, are tried on all rows.
NEAR = 3
#: Folds of the held-out margins of support vector machines, their largest C, and the C tried
#: where they are the only machine.
FOLDS, LARGEST_C, TENS = 5, 1e4, 10.0 ** np.array([0.0, -1.0, 1.0])
#: Ridge values tried around the best, and of a mixture of kernels.
AROUND, MIXED = 10.0 ** np.array([-0.5, 0.5]), 10.0 ** np.array([-0.4])
SCORINGS = {name: name for name in ("accuracy", "balanced_accuracy", "neg_log_loss")}
MACHINES: dict[str, Any] = {"ls": LeastSquares, "svm": SVM}


class OutputCodeClassifierCV(ByScores, BaseEstimator):
    """A tuned and calibrated classifier in one line: machine, kernel, width, C and code by data.

    Least squares has exact leave-one-out margins in closed form: from one eigendecomposition per
    kernel width those of all ridge values 1 / C, for every column of every code. They map the
    landscape: kernels x widths x ridge values x codes. Settings are compared by their held-out
    rows; a kernel that cannot win any more, paired over rows, is not refined. Near the optimum a
    weighted mean of the kernels and support vector machines with the same width and C are tried.
    The slope and the temperature of the probabilities come from the held-out margins.

    Beyond a few hundred rows the map is made on a sample and its best settings are tried on all
    rows (at most 3,000). Only the final machine is trained on everything; beyond 50,000 rows it is
    :class:`~outcode.machines.Nystrom` with the kernel and code chosen. Rows with the same
    content and label are left out together, so a weight of 2 equals a repeated row.

    Parameters
    ----------
    machines : of "ls" and "svm"
    kernels : names of kernels, functions, or "precomputed" alone
    codes : names, codes or matrices; the first is mapped everywhere
    decoders : names or decoders, compared on the held-out margins of the best setting
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
    best_params_ : its code, machine, kernel, gamma, C and decoder
    best_score_ : its held-out score by ``scoring``
    best_index_ : its place in ``results_``
    results_ : everything tried as a dict of arrays: stage, n_rows, machine, kernel, gamma, C, code,
        decoder, accuracy, balanced_accuracy, neg_log_loss (all held out), seconds

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
        decoders: Any = ("shared",),
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
        self.decoders = decoders
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
        with unchanged_on_failure(self):
            return self._fit(X, y, sample_weight)

    def _fit(self, X: Any, y: Any, sample_weight: Any) -> OutputCodeClassifierCV:
        started = time.monotonic()
        lookup(SCORINGS, self.scoring, "scoring")
        X, y = validate_data(self, X, y, **self._rules)
        self._check_square(X)
        classes, labels = class_labels(y)
        weight = row_weights(sample_weight, len(labels))
        require_classes(classes, labels, weight)
        if not self._pairwise:
            rows, weight = distinct_rows(X, weight, labels)
            X, labels = X[rows], labels[rows]
        rng = check_random_state(self.random_state)
        land = Landscape(X, labels, weight, self._matrices(len(classes), rng), "full")
        search = Search(self, land, rng, started)
        with single_blas():
            best = search.run()
        self._keep(classes, search.tried, best)
        self.__dict__.pop("best_estimator_", None)  # of an earlier fit
        if self.refit:
            self.best_estimator_ = self._trained(best, X, classes[labels], weight)
        return self

    def _trained(self, best: Trial, X: Any, y: Array, weight: Array) -> OutputCodeClassifier:
        """Return the best setting trained on all rows; on landmarks where they are too many."""
        if len(y) <= EXACT_ROWS or self._pairwise:
            return self._model(best).fit(X, y, weight)
        model = on_landmarks(self._codes[best.code], best.kernel, X, y, weight, self.n_jobs)
        chosen = {"gamma": getattr(model.machine_.features_.kernel, "gamma", None)}
        chosen |= {"machine": "nystrom", "C": model.machine_.C_, "decoder": "likelihood"}
        self.best_params_ |= chosen
        return model

    def _keep(self, classes: Array, tried: list[Trial], best: Trial) -> None:
        self.classes_, self.results_ = classes, _table(tried)
        self.best_index_ = next(i for i, trial in enumerate(tried) if trial is best)
        self.best_score_ = float(self.results_[self.scoring][self.best_index_])
        names = ("machine", "kernel", "gamma", "C", "decoder")
        self.best_params_ = {"code": self._codes[best.code]}
        self.best_params_ |= {name: getattr(best, name) for name in names}

    def _model(self, best: Trial) -> OutputCodeClassifier:
        gamma = "scale" if best.gamma is None else best.gamma
        machine = MACHINES[best.machine](best.kernel, gamma, C=best.C)
        shared = SharedSigmoid(slope=best.slope, temperature=best.temperature)
        decoder = shared if best.decoder == "shared" else best.decoder
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

    def predict_set(
        self, X: Any, coverage: float = 0.9, method: Any = "lac", **options: Any
    ) -> Array:
        """Return the classes each row may belong to, as the best estimator does."""
        return np.asarray(self._fitted().predict_set(X, coverage, method, **options))

    def explain(self, x: Any) -> Any:
        """Return why one row is given its class, as the best estimator does."""
        return self._fitted().explain(x)

    def _check_square(self, X: Any) -> None:
        if self._pairwise and X.shape[0] != X.shape[1]:
            raise ValueError(
                f"A precomputed kernel matrix must be square, got shape {X.shape}: give the kernel "
                f"values between all training rows."
            )

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
        self.machines = _listed(owner.machines)
        for machine in self.machines:
            lookup(MACHINES, machine, "machine")
        limit = owner.time_limit
        self.deadline = np.inf if limit is None else started + positive(limit, "time_limit")
        self.tried: list[Trial] = []
        self.powers: dict[Any, float] = {}
        if "precomputed" in self.kernels and len(self.kernels) > 1:
            raise ValueError(
                "A precomputed kernel matrix is the only kernel: kernels='precomputed'."
            )

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
            trials = self._supported(small, large, trials)
            report.advance()
        return self._decoded(large, preferred(trials, self.scoring))

    @property
    def _svm_only(self) -> bool:
        """Whether least squares only maps: not wanted, or too many rows to train it."""
        large = len(self.whole) > LEAST_SQUARES_ROWS
        return "ls" not in self.machines or (large and "svm" in self.machines)

    @property
    def _late(self) -> bool:
        return time.monotonic() > self.deadline

    def _affords(self, land: Landscape) -> bool:
        """Whether one more trial on these rows, and the final training, will end in time.

        Both grow with the cube of the rows; what the trials so far have cost says how fast.
        """
        if np.isinf(self.deadline):
            return True
        cube = max(trial.seconds / trial.n_rows**3 for trial in self.tried)
        needed = cube * (len(land) ** 3 + len(self.whole) ** 3)
        return time.monotonic() + needed < self.deadline

    def _sampled(self, size: int, stage: str) -> Landscape:
        rows = sample(self.whole.labels, size, self.rng)
        return self.whole.part(rows, stage, self.owner._pairwise)

    def _add(self, found: Iterable[Trial]) -> list[Trial]:
        new = list(found)
        self.tried.extend(new)
        return new

    # --- the map ---

    def _map(self, land: Landscape) -> None:
        """Try every kernel at two widths, then go on where it can still win.

        Widths are powers of 4 around 1 / the median distance. Between the first two the log loss
        has one valley nearly always: the middle is tried, and one step beyond an end that is best.
        """
        names = list(land.codes)
        often = [n for n in names if n == names[0] or land.codes[n].shape[1] <= MANY_COLUMNS]
        self._each(self.kernels, lambda kernel: self._widths(land, kernel, FIRST, often))
        if not self.tried:
            raise ValueError(
                "No kernel matrix is positive definite, whatever the ridge value: use kernels that "
                "are, or a precomputed matrix with a larger diagonal."
            )
        best = preferred(self.tried, self.scoring)
        codes = [c for c in often if not self._hopeless(land, best, code=c)]
        alive = [k for k in self.kernels if not self._hopeless(land, best, kernel=k)]
        moving = [k for k in alive if _has_width(k)]
        self._each(moving, lambda kernel: self._widths(land, kernel, MIDDLE, codes))
        self._each(moving, lambda kernel: self._widths(land, kernel, self._beyond(kernel), codes))
        seldom = [name for name in names if name not in often]
        self._each(alive, lambda kernel: self._widths(land, kernel, self._best(kernel), seldom))

    def _each(self, names: Sequence[Any], work: Callable[[Any], list[Trial]]) -> None:
        """Add the trials of every kernel, made by threads, unless it is too late."""
        if not (self.tried and self._late):
            for found in thread_map(work, names, self.owner.n_jobs):
                self._add(found)

    def _widths(
        self, land: Landscape, kernel: Any, powers: Sequence[float], names: Sequence[Any]
    ) -> list[Trial]:
        if not _has_width(kernel):
            powers = powers[:1]
        found: list[Trial] = []
        for power in powers if names else ():
            if found and self._late:
                break
            gamma = 4.0**power / land.median(kernel) if _has_width(kernel) else None
            gram = land.gram(kernel, gamma)
            for code in names:
                trials = land.trials(kernel, gamma, code, RIDGES, gram)
                self.powers[id(kernel), gamma] = power
                found += trials
        return found

    def _of(self, kernel: Any) -> list[Trial]:
        return [trial for trial in self.tried if trial.kernel is kernel]

    def _hopeless(self, land: Landscape, best: Trial, **only: Any) -> bool:
        """Whether the best trial of a kernel or of a code cannot win any more."""
        own = [t for t in self.tried if all(getattr(t, k) is v for k, v in only.items())]
        return bool(own) and hopeless(preferred(own, "neg_log_loss"), best, land.scored)

    def _best(self, kernel: Any) -> tuple[float, ...]:
        """Return the power of the best width of a kernel."""
        best = preferred(self._of(kernel), self.scoring)
        return (self.powers[id(kernel), best.gamma],)

    def _beyond(self, kernel: Any) -> tuple[float, ...]:
        """Return the power one step beyond, where the best width is the first or the last."""
        best = self._best(kernel)[0]
        return (best + np.sign(best - MIDDLE[0]),) if best != MIDDLE[0] else ()

    # --- near the optimum, on all rows ---

    def _near(self, small: Landscape, large: Landscape) -> list[Trial]:
        """Return the trials to choose from: the best of the map on all rows, and around it."""
        if small is large:
            trials = list(self.tried)
            if self._affords(large):
                trials += self._add(self._again(large, preferred(trials, self.scoring), AROUND))
            return trials
        leaders, trials = self._leaders(self.tried), []
        for trial in leaders[:NEAR]:
            if self._affords(large) and not hopeless(trial, leaders[0], small.scored, 1.0):
                trials += self._add(self._again(large, trial, np.ones(1)))
        if not trials:
            return list(self.tried)
        if self._affords(large):
            best = preferred(trials, self.scoring)
            trials += self._add(self._again(large, best, AROUND[:1]))
        return trials + self._narrower(large, preferred(trials, self.scoring))

    def _narrower(self, land: Landscape, best: Trial) -> list[Trial]:
        """Return trials with narrower kernels while they win: more rows tell finer detail."""
        found: list[Trial] = []
        while best.gamma is not None and len(found) < 3 and self._affords(land):
            ridge = np.array([best.ridge])
            new = self._add(land.trials(best.kernel, 4.0 * best.gamma, best.code, ridge))
            found += new
            if not new or new[0].loss >= best.loss:
                break
            best = new[0]
        return found

    def _again(self, land: Landscape, trial: Trial, factors: Array) -> list[Trial]:
        """Try the setting of a trial on other rows, its ridge value times ``factors``."""
        return land.trials(trial.kernel, trial.gamma, trial.code, trial.ridge * factors)

    def _leaders(self, trials: Sequence[Trial]) -> list[Trial]:
        """Return the best trial of every kernel and code, the best first."""
        groups: dict[Any, list[Trial]] = {}
        for trial in trials:
            groups.setdefault((id(trial.kernel), str(trial.code)), []).append(trial)
        # kernels that agree on these rows (all features 0 or 1) count once
        unlike = {preferred(group, self.scoring).loss: group for group in groups.values()}
        left = [preferred(group, self.scoring) for group in unlike.values()]
        order = []
        while left:
            order.append(preferred(left, self.scoring))
            left = [trial for trial in left if trial is not order[-1]]
        return order

    def _mixed(self, land: Landscape, trials: list[Trial]) -> list[Trial]:
        """Try a weighted mean of the kernels, each at its best width."""
        best = preferred(trials, self.scoring)
        names = [kernel for kernel in self.kernels if _has_width(kernel)]
        if len(names) < 2 or best.gamma is None or not self._affords(land):
            return trials
        own = [[t for t in self._of(k) if t.code == best.code] for k in names]
        members = [preferred(group, self.scoring) for group in own if group]
        weight = np.array([member.ridge**-0.5 for member in members])
        share = (weight / weight.sum()).tolist()
        terms = [(w, t.kernel, float(t.gamma or 1.0)) for w, t in zip(share, members, strict=True)]
        mixture = str(kernels.Mixture(terms=tuple(terms)))
        ridge = np.exp(np.mean([np.log(member.ridge) for member in members]))
        return trials + self._add(land.trials(mixture, None, best.code, ridge * MIXED))

    def _supported(self, small: Landscape, large: Landscape, trials: list[Trial]) -> list[Trial]:
        """Try support vector machines where least squares is best, with the same C.

        On the rows of the map first: where they lose there, they are not trained on all rows.
        """
        best = preferred(trials, self.scoring)
        if self._svm_only:
            found = self._add(self._svm(small, best, C) for C in best.C * TENS)
            if small is not large and self._affords(large):
                found = self._add([self._svm(large, best, preferred(found, self.scoring).C)])
            return found
        if "svm" not in self.machines or not self._affords(large):
            return trials
        if small is not large:
            there = self._add([self._svm(small, best, best.C)])[0]
            same = [t for t in self.tried if t.n_rows == len(small) and t.machine == "ls"]
            if there.loss > preferred(same, self.scoring).loss:
                return trials
        return trials + self._add([self._svm(large, best, best.C)])

    def _svm(self, land: Landscape, best: Trial, C: float) -> Trial:
        started = time.perf_counter()
        matrix, C = land.codes[best.code], min(C, LARGEST_C)
        margins = self._svm_margins(land, replace(best, C=C))
        setting = {name: getattr(best, name) for name in ("kernel", "gamma", "code")}
        trial = land.judged(margins[None], matrix, machine="svm", C=C, seconds=0.0, **setting)[0]
        return replace(trial, seconds=time.perf_counter() - started)

    def _svm_margins(self, land: Landscape, trial: Trial) -> Array:
        """Return the margins of every row under support vector machines without its fold."""
        targets, jobs = land.codes[trial.code][land.labels], self.owner.n_jobs
        store = given(land.gram(trial.kernel, trial.gamma))
        fold = content_folds(land.X, land.labels, FOLDS, land.weight, pairwise=self.owner._pairwise)
        machine = SVM(kernel="precomputed", C=trial.C, tol=1e-3)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)  # it is a trial
            machine.fit_gram(store, targets, land.weight, n_jobs=jobs)
            if fold.max() < 0:  # every class has a single row
                return np.asarray(machine.training_margins_)
            return np.asarray(
                machine.held_out_margins(store, targets, fold, land.weight, n_jobs=jobs)
            )

    def _decoded(self, land: Landscape, best: Trial) -> Trial:
        """Return the best trial under the best of the decoders, on the same held-out margins."""
        names = _listed(self.owner.decoders)
        if names == [best.decoder]:
            return best
        matrix = land.codes[best.code]
        if best.machine == "svm":
            margins = self._svm_margins(land, best)
        else:
            targets = matrix[land.labels]
            ridge = np.array([1.0 / best.C])
            margins = loo_margins(land.gram(best.kernel, best.gamma), targets, ridge, land.weight)[
                0
            ]
        return preferred(self._add(land.decoded(best, margins, names)), self.scoring)


def _has_width(kernel: Any) -> bool:
    return kernels.named(kernel).of_distance


def _listed(given: Any) -> list[Any]:
    return [given] if isinstance(given, str) or not isinstance(given, (list, tuple)) else [*given]


def _table(tried: Sequence[Trial]) -> dict[str, Array]:
    names = ("stage", "n_rows", "machine", "kernel", "gamma", "C", "code", "decoder")
    numbers = ("accuracy", "balanced_accuracy", "seconds")
    table = {name: np.array([str(getattr(t, name)) for t in tried]) for name in names}
    for name in ("n_rows", "C"):
        table[name] = np.array([getattr(trial, name) for trial in tried])
    table["gamma"] = np.array([np.nan if t.gamma is None else t.gamma for t in tried])
    table |= {name: np.array([getattr(trial, name) for trial in tried]) for name in numbers}
    table["neg_log_loss"] = np.array([-trial.loss for trial in tried])
    return table
