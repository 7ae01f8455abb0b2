"""OutputCodeClassifier: the few lines that walk from labels to a class.

labels --code--> targets --machine--> margins --decoder--> scores --> label
"""

from __future__ import annotations

import copy
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.base import BaseEstimator
from sklearn.utils import check_random_state
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted, validate_data

from outcode import codes, decoders, dichotomies, machines
from outcode._checks import Array, class_labels, lookup, require_classes, row_weights
from outcode.scores import ByScores


def _decoder_has_proba(clf: OutputCodeClassifier) -> bool:
    decoder = getattr(clf, "decoder_", None) or decoders.resolve(clf.decoder)
    if not hasattr(decoder, "proba"):
        raise AttributeError(
            f"The decoder {clf.decoder!r} gives scores but no probabilities: use one that has them."
        )
    return True


class OutputCodeClassifier(ByScores, BaseEstimator):
    """Learn many classes with binary machines.

    Parameters
    ----------
    code : str, Code or (n_classes, n_dichotomies) matrix of +1, -1, 0
        How classes become codewords, rows in the order of the sorted labels.
    machine : str, Machine or scikit-learn classifier
        What learns each column.
    decoder : str or Decoder
        What turns margins into class scores.
    n_jobs : int or None
        Threads; None is all cores. The model does not depend on it.
    random_state : int, RandomState or None
        Seed of random codes and folds.
    verbose : int
        Show the columns done and the time left.

    Attributes
    ----------
    classes_ : the sorted labels
    code_ : (n_classes, n_dichotomies) int8
    machine_, decoder_ : fitted
    labels_ : (n_samples,) class indices of the training rows

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> clf = OutputCodeClassifier(code="ovo", decoder="hinge").fit(X, y)
    >>> clf.margins(X).shape, clf.decision_function(X).shape
    ((150, 3), (150, 3))
    """

    def __init__(
        self,
        code: Any = "ova",
        machine: Any = "svm",
        decoder: Any = "hinge",
        *,
        n_jobs: int | None = None,
        random_state: Any = None,
        verbose: int = 0,
    ) -> None:
        self.code = code
        self.machine = machine
        self.decoder = decoder
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        inner = machines.input_tags(self.machine)
        tags.input_tags.pairwise = inner.pairwise
        tags.input_tags.sparse = inner.sparse
        tags.input_tags.allow_nan = inner.allow_nan
        return tags

    def set_params(self, **params: Any) -> OutputCodeClassifier:
        """Set parameters; ``machine__gamma`` works for an element given by its name, too."""
        rooms: dict[str, Any] = {
            "code": codes.CODES,
            "machine": machines.MACHINES,
            "decoder": decoders.DECODERS,
        }
        for room, table in rooms.items():
            inner = any(name.startswith(room + "__") for name in params)
            if inner and isinstance(getattr(self, room), str) and room not in params:
                setattr(self, room, lookup(table, getattr(self, room), room)())
        return super().set_params(**params)

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> OutputCodeClassifier:
        """Train the machines on every column of the code, then the decoder."""
        machine = machines.resolve(self.machine)
        X, y = self._check_training(X, y, machine)
        self.classes_, self.labels_ = class_labels(y)
        rng = check_random_state(self.random_state)
        weight = machine.weigh(y, row_weights(sample_weight, len(y)))
        require_classes(self.classes_, self.labels_, weight)
        self.code_ = codes.resolve(
            self.code, len(self.classes_), self.classes_, X, self.labels_, machine, rng
        )
        targets = dichotomies.targets(self.labels_, self.code_)
        given = None if sample_weight is None and np.all(weight == 1.0) else weight
        self._seed, self.sample_weight_ = int(rng.randint(2**31 - 1)), weight
        source = self._source(machine, X)
        fit = getattr(machine, "fit_gram", machine.fit)
        self.machine_ = fit(source, targets, given, n_jobs=self.n_jobs, verbose=self.verbose)
        self.decoder_ = decoders.resolve(self.decoder).fit(self._training(X, lambda: source))
        return self

    def margins(self, X: Any) -> Array:
        """Return the (n_samples, n_dichotomies) margins of the machines."""
        check_is_fitted(self, "decoder_")
        return np.asarray(self.machine_.margins(self._check_rows(X)))

    def predict(self, X: Any) -> Array:
        """Return the class with the largest score, the first of equals."""
        check_is_fitted(self, "decoder_")
        X = self._check_rows(X)
        return self.classes_[self.decoder_.best(self.machine_.margins(X), X)]

    @available_if(_decoder_has_proba)
    def predict_proba(self, X: Any) -> Array:
        """Return the (n_samples, n_classes) probabilities; their largest is what predict says."""
        check_is_fitted(self, "decoder_")
        X = self._check_rows(X)
        return np.asarray(self.decoder_.proba(self.machine_.margins(X), X))

    def with_decoder(self, decoder: Any, X: Any = None) -> OutputCodeClassifier:
        """Return the same machines under another decoder, without refitting them.

        ``X`` are the training rows, for decoders that ask for them or for held-out margins.
        """
        check_is_fitted(self, "decoder_")
        other = copy.copy(self)
        other.decoder = decoder
        rows = None if X is None else self._check_rows(X)
        if rows is not None and rows.shape[0] != len(self.labels_):
            raise ValueError(
                f"X has {rows.shape[0]} rows, but the machines were trained on "
                f"{len(self.labels_)}: give the training rows."
            )
        source = partial(self._source, machines.resolve(self.machine_), rows)
        other.decoder_ = decoders.resolve(decoder).fit(self._training(rows, source))
        return other

    def _source(self, machine: Any, X: Any) -> Any:
        """Return what the machine trains on: its Gram store, or the rows themselves."""
        if X is None:
            raise ValueError(
                "This decoder asks for held-out margins: give the training rows, "
                "with_decoder(decoder, X=X_train)."
            )
        if not hasattr(machine, "fit_gram"):
            return X
        targets = dichotomies.targets(self.labels_, self.code_)
        return machine.gram(X, targets, self.sample_weight_, n_jobs=self.n_jobs)

    def _scores(self, X: Any) -> Array:
        check_is_fitted(self, "decoder_")
        X = self._check_rows(X)
        return self.decoder_.scores(self.machine_.margins(X), X)

    def _training(self, X: Any, source: Callable[[], Any]) -> decoders.Training:
        def held_out(folds: int) -> Array:
            rng = np.random.RandomState(self._seed)
            fold = stratified_folds(self.labels_, folds, rng, self.sample_weight_)
            targets = dichotomies.targets(self.labels_, self.code_)
            threads = {"n_jobs": self.n_jobs, "verbose": self.verbose}
            return np.asarray(
                self.machine_.held_out_margins(
                    source(), targets, fold, self.sample_weight_, **threads
                )
            )

        return decoders.Training(
            self.code_, self.labels_, X, self.machine_, self.sample_weight_, held_out, source
        )

    def _check_training(self, X: Any, y: Any, machine: Any) -> tuple[Any, Array]:
        self._door = _rules(machine)
        _refuse_sparse(X, self._door)
        with _text_explained(X):
            X, y = validate_data(self, X, y, **self._door)
        return X, y

    def _check_rows(self, X: Any) -> Any:
        _refuse_sparse(X, self._door)
        with _text_explained(X):
            return validate_data(self, X, reset=False, **self._door)


def stratified_folds(
    labels: Array, folds: int, rng: np.random.RandomState, weight: Array | None = None
) -> Array:
    """Number the rows 0..folds-1 so that each class is spread evenly.

    When a class has fewer rows than ``folds`` the number of folds comes down to the smallest class
    (said in a warning); a class of a single row is never left out, its number is -1. Rows of weight
    zero teach nothing, so they are not counted.
    """
    if folds < 2:
        raise ValueError(f"folds must be at least 2, got {folds}.")
    counted = np.ones(len(labels), bool) if weight is None else weight > 0
    counts = np.bincount(labels[counted])
    smallest = int(counts[counts > 1].min()) if np.any(counts > 1) else 2
    if counts.min() < folds:
        warnings.warn(
            f"The smallest class has {counts.min()} rows, fewer than {folds} folds: using "
            f"{min(folds, smallest)} folds"
            + (", and never leaving out a class's only row." if counts.min() < 2 else "."),
            stacklevel=2,
        )
    folds = min(folds, smallest)
    fold = np.where(counted, -1, np.arange(len(labels)) % folds)
    offset = 0
    for q in np.flatnonzero(counts > 1):
        rows = rng.permutation(np.flatnonzero(counted & (labels == q)))
        fold[rows] = (np.arange(len(rows)) + offset) % folds
        offset += len(rows)
    return fold


def _rules(machine: Any) -> dict[str, Any]:
    """How rows are checked at the door: numbers for kernels, as the classifier asks otherwise."""
    tags = machines.input_tags(machine)
    kernel = hasattr(machine, "fit_gram")
    return {
        "accept_sparse": "csr" if tags.sparse else False,
        "dtype": np.float64 if kernel and not tags.pairwise else None,
        "ensure_all_finite": not tags.allow_nan,
    }


def _refuse_sparse(X: Any, rules: dict[str, Any]) -> None:
    if sparse.issparse(X) and not rules["accept_sparse"]:
        raise ValueError(
            "These rows are sparse, and the machine (a precomputed kernel, or a classifier that "
            "says so) cannot take them: give X.toarray()."
        )


@contextmanager
def _text_explained(X: Any) -> Iterator[None]:
    """Say which columns hold text where a kernel needs numbers, and what to do."""
    try:
        yield
    except ValueError as error:
        if "could not convert string to float" not in str(error):
            raise
        columns = getattr(X, "columns", ())
        kinds = getattr(X, "dtypes", ())
        pairs = zip(columns, kinds, strict=True) if len(columns) == len(kinds) else ()
        named = [str(name) for name, kind in pairs if getattr(kind, "kind", "O") not in "biuf"]
        where = f"column {', '.join(map(repr, named[:5]))}" if named else "X"
        raise ValueError(
            f"A kernel machine needs numbers, but {where} holds text ({error}): encode it first, "
            f"for example with sklearn.preprocessing.OneHotEncoder in a pipeline."
        ) from None
