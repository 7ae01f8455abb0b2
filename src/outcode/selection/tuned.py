"""OutputCodeClassifierCV: the classifier that tunes itself."""

from __future__ import annotations

import time
import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data

from outcode import codes, kernels, notebooks
from outcode._checks import (
    Array,
    class_labels,
    lookup,
    require_classes,
    row_weights,
    text_explained,
    unchanged_on_failure,
)
from outcode.classifier import EXACT_ROWS, OutputCodeClassifier
from outcode.decoders.shared import SharedSigmoid
from outcode.folds import distinct_rows
from outcode.parallel import single_blas
from outcode.scores import ByScores
from outcode.selection.landmarks import on_landmarks
from outcode.selection.landscape import Landscape, Trial, sample
from outcode.selection.shares import feature_scale
from outcode.selection.tuning import MAP_ROWS, MOST_COLUMNS, Final, Search, listed
from outcode.selection.units import standardises, unit_scale

SCORINGS = {name: name for name in ("accuracy", "balanced_accuracy", "neg_log_loss")}


class OutputCodeClassifierCV(ByScores, notebooks.InNotebook):
    """A calibrated classifier that chooses machine, kernel, width, C and code on held-out rows.

    Least squares has exact leave-one-out margins in closed form: one factorisation for each kernel
    width and ridge value 1 / C gives those of all columns that use the same rows. These are
    computed for combinations of kernels, widths, ridge values and codes, and compared on the
    held-out rows; a kernel that is clearly worse is not refined. Each feature is weighted by the
    share of the variance of the classes that it explains, unless unweighted features are better.
    Near the optimum, a weighted mean of the kernels, support vector machines and SPOC are tried
    with the same width and C. The slope and the temperature of the probabilities are fitted on the
    held-out margins.

    Features of different units are standardised if this lowers the leave-one-out error (for dense
    rows and kernels of a distance).

    With more than a few hundred rows, the settings are compared on a sample, and the best ones are
    tried on all rows (at most 3,000). Only the final machine is trained on all rows: beyond 8,000
    rows it is a support vector machine, beyond 50,000 or if time is short
    :class:`~outcode.machines.Nystrom` with the kernel and code chosen. Rows with the same content
    and label are left out together, so a weight of 2 equals a repeated row.

    Parameters
    ----------
    machines : sequence of {"ls", "svm", "spoc"}, default=("ls", "svm", "spoc")
        Machines to try.
    kernels : sequence of str or callable, default=("rbf", "exponential", "laplacian")
        Names of kernels, functions, or "precomputed" alone.
    codes : sequence of str, code or array-like, default=("ova", "ovo")
        Codes to try; the first is tried with all kernels and widths.
    decoders : sequence of str or decoder, default=("shared",)
        Decoders, compared on the held-out margins of the best setting.
    feature_weights : bool, default=True
        Multiply each feature by the square root of the share of the classes' variance that it
        explains alone, if this does not increase the held-out error; False leaves all features as
        they are.
    scoring : {"accuracy", "balanced_accuracy", "neg_log_loss"}, default="accuracy"
        Score to maximise. Settings within one standard error of the highest accuracy are compared
        by log loss.
    time_limit : float or None, default=None
        Time limit in seconds for the search and the training, on an otherwise idle machine; None is
        no limit. A first pass over the kernels and a small model are always computed.
    refit : bool, default=True
        Train the best setting on all rows.
    n_jobs : int or None, default=None
        Number of threads; None is all cores. The model does not depend on it.
    random_state : int, RandomState or None, default=None
        Seed of the sample and of folds.
    verbose : int, default=0
        If not 0, show the progress.

    Attributes
    ----------
    classes_ : the sorted labels
    best_estimator_ : OutputCodeClassifier
    best_params_ : its code, machine, kernel, gamma, C, decoder, and whether features are weighted
    feature_scale_ : (n_features,) factors of the features, None where they stay as they are
    best_score_ : its held-out score by ``scoring``
    best_index_ : its place in ``results_``
    results_ : everything tried as a dict of arrays: stage, n_rows, machine, kernel, gamma, C, code,
        decoder, features, accuracy, balanced_accuracy, neg_log_loss (all held out), seconds

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
        machines: Any = ("ls", "svm", "spoc"),
        kernels: Any = ("rbf", "exponential", "laplacian"),
        codes: Any = ("ova", "ovo"),
        decoders: Any = ("shared",),
        *,
        feature_weights: bool = True,
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
        self.feature_weights = feature_weights
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
        for name in ("machines", "kernels", "codes", "decoders"):
            if not listed(getattr(self, name)):
                raise ValueError(f"{name} is empty: name at least one to try.")
        with text_explained(X):
            X, y = validate_data(self, X, y, **self._rules)
        self._check_square(X)
        classes, labels = class_labels(y)
        weight = row_weights(sample_weight, len(labels))
        require_classes(classes, labels, weight)
        if not self._pairwise:
            rows, weight = distinct_rows(X, weight, labels)
            X, labels = X[rows], labels[rows]
        rng = check_random_state(self.random_state)
        scale = self._scale(X, labels, weight)
        matrices = self._matrices(len(classes), rng)
        land = Landscape(X, labels, weight, matrices, "full", scale)
        with single_blas():
            units = self._units(land, rng)
            search = Search(self, land if units is None else land.times(units), rng, started)
            best = search.run()
        self._keep(classes, search.tried, best)
        weights = scale if best.features == "weighted" else None
        self.feature_scale_ = (
            weights if units is None else units * (1.0 if weights is None else weights)
        )
        self.__dict__.pop("best_estimator_", None)  # of an earlier fit
        if self.refit:
            final = search.final(best)
            self.best_estimator_ = self._trained(final, X, classes[labels], weight)
        return self

    def _trained(self, final: Final, X: Any, y: Array, weight: Array) -> OutputCodeClassifier:
        """Return the best setting trained on all rows; on landmarks where they are too many."""
        if len(y) <= EXACT_ROWS or self._pairwise or self.time_limit is not None:
            with warnings.catch_warnings():  # held-out rows judged it as precise as this
                warnings.simplefilter("ignore", ConvergenceWarning)
                return self._model(final).fit(X, y, weight)
        best = final.trial
        setting = best.kernel, self.feature_scale_
        model, gamma = on_landmarks(self._codes[best.code], *setting, X, y, weight, self.n_jobs)
        chosen = {"gamma": gamma, "machine": "nystrom", "C": model.machine_.C_}
        self.best_params_ |= chosen | {"decoder": "likelihood"}
        return model

    def _scale(self, X: Any, labels: Array, weight: Array) -> Array | None:
        if self._pairwise or not self.feature_weights:
            return None
        return feature_scale(X, labels, weight)

    def _units(self, land: Landscape, rng: Any) -> Array | None:
        """Return the factors that standardise the features, None where they stay as they are."""
        given = listed(self.kernels)
        if self._pairwise or not all(kernels.named(k).of_distance for k in given):
            return None
        factors = unit_scale(land.X, land.weight)
        if factors is None:
            return None
        rows = sample(land.labels, min(len(land), MAP_ROWS), rng)
        part, code = land.part(rows, "units", False), next(iter(land.codes))
        return factors if standardises(part, factors, given[0], code, self.scoring) else None

    def _keep(self, classes: Array, tried: list[Trial], best: Trial) -> None:
        self.classes_, self.results_ = classes, _table(tried)
        self.best_index_ = next(i for i, trial in enumerate(tried) if trial is best)
        self.best_score_ = float(self.results_[self.scoring][self.best_index_])
        names = ("machine", "kernel", "gamma", "C", "decoder", "features")
        self.best_params_ = {"code": self._codes[best.code]}
        self.best_params_ |= {name: getattr(best, name) for name in names}

    def _model(self, final: Final) -> OutputCodeClassifier:
        best = final.trial
        shared = SharedSigmoid(slope=best.slope, temperature=best.temperature)
        if best.machine == "ls" and final.n_landmarks is None:
            shared = SharedSigmoid(folds=None)  # of all rows, and in float64
        decoder = shared if best.decoder == "shared" else best.decoder
        machine = final.machine(self.feature_scale_)
        return OutputCodeClassifier(
            self._codes[best.code], machine, decoder, n_jobs=self.n_jobs, random_state=0
        )

    # --- the fitted model ---

    def _summary(self) -> str | None:
        if not hasattr(self, "results_"):
            return None
        found = self.best_params_, self.results_, self.best_index_, f"-{self.scoring}"
        return notebooks.search(type(self).__name__, *found)

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
        with text_explained(X):
            return validate_data(self, X, reset=False, **self._rules)

    # --- what the arguments say ---

    @property
    def _pairwise(self) -> bool:
        return "precomputed" in listed(self.kernels)

    @property
    def _rules(self) -> dict[str, Any]:
        sparse = False if self._pairwise else "csr"
        return {"accept_sparse": sparse, "dtype": np.float64}

    @property
    def _codes(self) -> dict[Any, Any]:
        """The codes as given, by name or by number."""
        given = listed(self.codes)
        return {c if isinstance(c, str) else i: c for i, c in enumerate(given)}

    def _matrices(self, n_classes: int, rng: np.random.RandomState) -> dict[Any, Array]:
        found: dict[Any, Array] = {}
        for name, code in self._codes.items():
            pairs = n_classes * (n_classes - 1) // 2
            if code_is(code, "ovo") and found and (n_classes == 2 or pairs > MOST_COLUMNS):
                continue  # as one-vs-all, or too many
            found[name] = codes.code_matrix(code, n_classes, random_state=rng)
        small = {k: m for k, m in found.items() if m.shape[1] <= MOST_COLUMNS}
        return small or found


def code_is(code: Any, name: str) -> bool:
    """Whether a code is given by this name."""
    return isinstance(code, str) and code == name


def _table(tried: Sequence[Trial]) -> dict[str, Array]:
    names = ("stage", "n_rows", "machine", "kernel", "gamma", "C", "code", "decoder", "features")
    numbers = ("accuracy", "balanced_accuracy", "seconds")
    table = {name: np.array([str(getattr(t, name)) for t in tried]) for name in names}
    for name in ("n_rows", "C"):
        table[name] = np.array([getattr(trial, name) for trial in tried])
    table["gamma"] = np.array([np.nan if t.gamma is None else t.gamma for t in tried])
    table |= {name: np.array([getattr(trial, name) for trial in tried]) for name in numbers}
    table["neg_log_loss"] = np.array([-trial.loss for trial in tried])
    return table
