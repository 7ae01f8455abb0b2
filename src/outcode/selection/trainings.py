"""Trainings on one Gram matrix: every gamma, every C, every fold.

Distances are computed once and exponentiated for each gamma; a fold is a mask on the same Gram
matrix (its rows have weight 0, and their margins come out all the same); every training starts from
the solution before it, of another C, another fold or the next smaller gamma.
"""

from __future__ import annotations

import copy
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse
from scipy.spatial.distance import cdist
from sklearn.base import clone
from sklearn.metrics.pairwise import manhattan_distances
from sklearn.utils import check_random_state, gen_batches, get_tags

from outcode import codes, decoders, dichotomies, kernels, loo, machines
from outcode import gram as grams
from outcode._checks import Array, positive
from outcode.classifier import stratified_folds
from outcode.parallel import thread_map

#: The median distance is taken over at most this many rows.
MEDIAN_ROWS = 500
#: Rows exponentiated at a time.
BAND = 64
#: Beyond this many rows, trials of machines with a tol of at least COARSE_TOL use float32.
SINGLE_LIMIT, COARSE_TOL = 1000, 1e-5


# --- distances once, kernel values for every gamma ---


@dataclass(frozen=True)
class _Distance(kernels.Kernel):
    """The distances of a kernel exp(-gamma distance), in the place of kernel values."""

    def diagonal(self, A: kernels.Rows) -> Array:
        return np.zeros(len(A))


@dataclass(frozen=True)
class _Squared(_Distance):
    """|x - z|^2"""

    def values(self, A: kernels.Rows, B: kernels.Rows) -> Array:
        return kernels.squared_distances(A, B, kernels._scratch(len(A), len(B)))


@dataclass(frozen=True)
class _Manhattan(_Distance):
    """|x - z|_1"""

    def values(self, A: kernels.Rows, B: kernels.Rows) -> Array:
        if sparse.issparse(A.values):
            return manhattan_distances(A.values, B.values)
        return cdist(A.values, B.values, "cityblock")


#: Kernels that are exp(-gamma distance).
DISTANCES: dict[str, kernels.Kernel] = {"rbf": _Squared(), "laplacian": _Manhattan()}


def _is_exponential(kernel: Any) -> bool:
    return isinstance(kernel, str) and kernel in DISTANCES


def _exponential(distances: Array, gamma: float, out: Array, n_jobs: int | None) -> None:
    """Write exp(-gamma distances) into ``out``, bands of rows by threads."""

    def band(rows: slice) -> None:
        values = np.multiply(distances[rows], -gamma, out=out[rows])
        np.exp(values, out=values)

    thread_map(band, gen_batches(len(out), BAND), n_jobs)


def median_gamma(X: Any, kernel: str = "rbf") -> float:
    """Return 1 / the median distance of two rows (squared for "rbf"), the data's own scale.

    >>> median_gamma(np.array([[0.0], [2.0], [2.0]]))
    0.25
    """
    distance = DISTANCES.get(kernel, DISTANCES["rbf"])
    X = X[np.unique(np.linspace(0, X.shape[0] - 1, MEDIAN_ROWS).astype(int))]
    kind = kernels.KERNELS["laplacian" if kernel == "laplacian" else "rbf"]()
    rows = kind.prepare(X, kind.origin(X))
    between = distance.block(rows, rows)[np.triu_indices(len(rows), 1)]
    median = float(np.median(between)) if len(between) else 0.0
    return 1.0 / median if median > 0 else kernels.gamma_value("scale", X)


# --- one training on some of the rows, on the Gram matrix of all ---


@dataclass(frozen=True)
class Part:
    """The rows trained on: the classes, code and weights they lead to; others have weight 0."""

    train: Array
    test: Array
    classes: Array
    labels: Array
    code: Array
    targets: Array
    weight: Array
    seed: int


@dataclass
class Problem:
    """The user's rows, and the Gram matrix of the gamma in work."""

    estimator: Any
    X: Any
    y: Array
    weight: Array

    def __post_init__(self) -> None:
        self.machine = machines.resolve(self.estimator.machine)
        self.n_jobs = self.estimator.n_jobs
        self._room: tuple[Array, Array] | None = None  # distances, and the kernel values in work

    def part(self, train: Array, test: Array) -> Part:
        """Draw the code of the training rows and their targets, as the classifier would."""
        estimator, n = clone(self.estimator), len(self.y)
        rng = check_random_state(estimator.random_state)
        classes, labels = np.unique(self.y[train], return_inverse=True)
        X = self.take(train, train)
        code = codes.resolve(estimator.code, len(classes), classes, X, labels, self.machine, rng)
        weight, targets = np.zeros(n), np.zeros((n, code.shape[1]), dtype=np.int8)
        weight[train] = self.machine.weigh(self.y[train], self.weight[train])
        targets[train] = dichotomies.targets(labels, code)
        seed = int(rng.randint(2**31 - 1))
        return Part(train, test, classes, labels, code, targets, weight, seed)

    def trainings(self, splits: Iterable[tuple[Array, Array]]) -> Trainings:
        """Return the trainings of some splits into training and test rows."""
        return Trainings(self, [self.part(train, test) for train, test in splits])

    def take(self, rows: Array, train: Array) -> Any:
        """Return some rows as a decoder sees them."""
        return _rows(self.machine, self.X, rows, train)

    def store(self, gamma: float | None, parts: Sequence[Part]) -> grams.Gram:
        """Return the Gram store of all rows, those of a class together if a code has zeros.

        It is written over the one before.
        """
        machine = clone(self.machine).set_params(**({} if gamma is None else {"gamma": gamma}))
        if gamma is None or not _is_exponential(machine.kernel) or not self._fits():
            return machine.gram(self.X, parts[0].targets, self.weight, n_jobs=self.n_jobs)
        ternary = any((part.code == 0).any() for part in parts)
        order = np.argsort(self.y, kind="stable") if ternary else None
        distances, values = self._room = self._room or self._distances(order)
        _exponential(distances, positive(gamma, "gamma"), values, self.n_jobs)
        return grams.DenseGram(values, order)

    def _distances(self, order: Array | None) -> tuple[Array, Array]:
        kind = kernels.KERNELS[self.machine.kernel]()
        rows = kind.prepare(self.X, kind.origin(self.X))
        rows = rows if order is None else rows[order]
        distance = DISTANCES[self.machine.kernel]
        distances = grams.gram_matrix(distance, rows, self._dtype(), self.n_jobs)
        return distances, np.empty_like(distances)

    def _dtype(self) -> Any:
        coarse = getattr(self.machine, "tol", 0.0) >= COARSE_TOL
        small = len(self.y) <= (SINGLE_LIMIT if coarse else grams.DOUBLE_LIMIT)
        return np.dtype(self.machine.dtype or (np.float64 if small else np.float32))

    def _fits(self) -> bool:
        if self._room is not None:
            return True
        given = self.machine.max_memory
        budget = grams.free_memory() / 2 if given is None else float(given)
        return 2 * len(self.y) ** 2 * self._dtype().itemsize <= budget

    def train(self, store: grams.Gram, part: Part, C: float | None, before: Any) -> Any:
        """Return machines trained on the part's rows, starting from those of another setting."""
        machine = clone(self.machine).set_params(**({} if C is None else {"C": C}))
        machine.kernel_ = None  # these machines never see other rows
        similar = before is not None and before.dual_coef_.shape == part.targets.shape
        start = before if similar else None
        args = store, part.targets, part.weight
        return machine.fit_gram(*args, n_jobs=self.n_jobs, start=start)

    def decoder(self, store: grams.Gram, part: Part, machine: Any) -> Any:
        """Return the decoder fitted on the part's rows."""

        def held_out(folds: int) -> Array:
            rng = np.random.RandomState(part.seed)
            fold = np.full(len(self.y), -1)
            fold[part.train] = stratified_folds(part.labels, folds, rng, part.weight[part.train])
            args = store, part.targets, fold, part.weight
            return machine.held_out_margins(*args, n_jobs=self.n_jobs)[part.train]

        training = decoders.Training(
            part.code,
            part.labels,
            self.take(part.train, part.train),
            _restricted(machine, part.train),
            part.weight[part.train],
            held_out,
        )
        return decoders.resolve(self.estimator.decoder).fit(training)

    def accuracy(self, part: Part, machine: Any, decoder: Any) -> float:
        """Return the (weighted) share of the part's test rows that are predicted rightly."""
        margins, X = machine.training_margins_[part.test], self.take(part.test, part.train)
        predicted = part.classes[np.argmax(decoder.scores(margins, X), axis=1)]
        right, weight = predicted == self.y[part.test], self.weight[part.test]
        return float(np.average(right, weights=weight if weight.any() else None))


def _restricted(machine: Any, rows: Array) -> Any:
    """Return the machine with what it knows of its training rows cut down to some of them."""
    view = copy.copy(machine)
    for name in ("dual_coef_", "training_margins_", "gram_diagonal_", "loo_margins_"):
        if hasattr(machine, name):
            setattr(view, name, getattr(machine, name)[rows])
    view.support_ = np.flatnonzero((view.dual_coef_ != 0).any(axis=1))
    return view


def _without_margins(machine: Any) -> Any:
    """Return the machine as another gamma can start from it."""
    view = copy.copy(machine)
    if view is not None:
        view.training_margins_ = None
    return view


@dataclass
class Trainings:
    """The machines and decoders of each part, one setting after the other."""

    problem: Problem
    parts: Sequence[Part]

    def __post_init__(self) -> None:
        self.store: grams.Gram | None = None
        self.gamma: float | None = None
        self.last: list[Any] = [None] * len(self.parts)

    def at(self, gamma: float | None, C: float | None) -> Iterator[tuple[Part, Any, Any]]:
        """Yield each part with its machines and its decoder."""
        store = self._gram(gamma)
        for k, part in enumerate(self.parts):
            before = self.last[k] if self.last[k] is not None else self.last[k - 1]
            self.last[k] = self.problem.train(store, part, C, before)
            yield part, self.last[k], self.problem.decoder(store, part, self.last[k])

    def _gram(self, gamma: float | None) -> grams.Gram:
        """Return the Gram store of a gamma; after another one nothing but duals is carried over."""
        if self.store is None or gamma != self.gamma:
            self.store = None  # one Gram matrix at a time
            self.store, self.gamma = self.problem.store(gamma, self.parts), gamma
            self.last = [_without_margins(self.last[0]), *[None] * (len(self.parts) - 1)]
        return self.store

    def bound(
        self, gamma: float | None, C: float | None
    ) -> tuple[dict[str, float], tuple[Any, loo.LooBound]]:
        """Return the bound of one setting as a row of the table, and what it was found on."""
        started = time.perf_counter()
        part, machine, decoder = next(self.at(gamma, C))
        view = clone(self.problem.estimator)
        view.machine_, view.decoder_, view.code_ = machine, decoder, part.code
        view.labels_, view.sample_weight_ = part.labels, part.weight
        found = loo.bound(view)
        wrong = float(part.weight @ (found.margins <= 0) / part.weight.sum())
        row = {"bound": found.error, "training_error": wrong}
        seconds = time.perf_counter() - started
        return {**_setting(gamma, C), **row, "seconds": seconds}, (view, found)

    def sharpened(
        self, gamma: float | None, bounded: tuple[Any, loo.LooBound], by: str, goal: float
    ) -> float:
        """Return the sharp bound or the estimate where :meth:`bound` gave a bound, if below goal.

        Otherwise it is left unfinished, and too high.
        """
        store = self._gram(gamma)
        return loo.sharpened(*bounded, store, estimated=by == "estimate", goal=goal).error

    def accuracy(self, gamma: float | None, C: float | None) -> dict[str, float]:
        """Return the held-out accuracies of one setting, as a row of the table."""
        started = time.perf_counter()
        scores = [self.problem.accuracy(*trained) for trained in self.at(gamma, C)]
        return _scored(gamma, C, scores, started)


def _setting(gamma: float | None, C: float | None) -> dict[str, float]:
    return {"gamma": np.nan if gamma is None else gamma, "C": np.nan if C is None else C}


# --- classifiers that are no bank of machines: fitted anew ---


@dataclass
class Plain:
    """The user's rows for a classifier with ``kernel``, ``gamma`` and ``C`` of its own."""

    estimator: Any
    X: Any
    y: Array
    weight: Array

    @property
    def machine(self) -> Any:
        """What has the parameters."""
        return self.estimator

    def trainings(self, splits: Iterable[tuple[Array, Array]]) -> Refits:
        """Return the trainings of some splits into training and test rows."""
        return Refits(self, list(splits))


@dataclass
class Refits:
    """The classifier fitted on each part, one setting after the other."""

    problem: Plain
    parts: Sequence[tuple[Array, Array]]

    def accuracy(self, gamma: float | None, C: float | None) -> dict[str, float]:
        """Return the held-out accuracies of one setting, as a row of the table."""
        started = time.perf_counter()
        given = {name: value for name, value in (("gamma", gamma), ("C", C)) if value is not None}
        scores = [self._score(given, *part) for part in self.parts]
        return _scored(gamma, C, scores, started)

    def _score(self, given: dict[str, float], train: Array, test: Array) -> float:
        problem = self.problem
        clf = clone(problem.estimator).set_params(**given)
        taught = {} if np.all(problem.weight == 1.0) else {"sample_weight": problem.weight[train]}
        clf.fit(_rows(clf, problem.X, train, train), problem.y[train], **taught)
        right = clf.predict(_rows(clf, problem.X, test, train)) == problem.y[test]
        weight = problem.weight[test]
        return float(np.average(right, weights=weight if weight.any() else None))


def _rows(estimator: Any, X: Any, rows: Array, train: Array) -> Any:
    """Return some rows, of a precomputed kernel their values against the training rows."""
    return X[np.ix_(rows, train)] if get_tags(estimator).input_tags.pairwise else X[rows]


def _scored(
    gamma: float | None, C: float | None, scores: Sequence[float], started: float
) -> dict[str, float]:
    splits = {f"split{k}_score": score for k, score in enumerate(scores)}
    row = {"mean_score": float(np.mean(scores)), "std_score": float(np.std(scores)), **splits}
    return {**_setting(gamma, C), **row, "seconds": time.perf_counter() - started}
