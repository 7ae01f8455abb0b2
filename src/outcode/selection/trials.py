"""Rules on one Gram matrix: every gamma, every C, every fold.

Distances are computed once and exponentiated for each gamma; a fold is a part of the problem on
the same Gram matrix (its rows have weight 0, and their margins come out all the same); every
training starts from the solution before it, of another C, another fold or the next smaller gamma.
"""

from __future__ import annotations

import copy
import time
import warnings
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state, get_tags

from outcode import decoders, kernels, loo, machines
from outcode import gram as grams
from outcode._checks import Array
from outcode.capabilities import SolvesPaths, can
from outcode.folds import distinct_rows
from outcode.parallel import single_blas
from outcode.posing import pose, take
from outcode.training import Problem, Rule, train, train_path

#: Beyond this many rows, trials of machines with a tol of at least COARSE_TOL use float32.
SINGLE_LIMIT, COARSE_TOL = 1000, 1e-5
#: Up to this many rows, all values of C and all splits are trained together.
PATH_ROWS = 2000

Split = tuple[Array, Array]
Row = dict[str, float]


@dataclass
class Data:
    """The user's rows, labels and weights, and the classifier to be tuned."""

    estimator: Any
    X: Any
    y: Array
    weight: Array

    @property
    def pairwise(self) -> bool:
        """Whether X is a kernel matrix."""
        return bool(get_tags(self.estimator).input_tags.pairwise)

    def unit_gamma(self, kernel: Any) -> float:
        """Return 1 / the median distance of two different rows, whatever their order."""
        if self.pairwise:
            return 1.0
        return kernels.median_gamma(self.X[distinct_rows(self.X, self.weight)[0]], kernel)

    def merged(self) -> Data:
        """Return the data with equal rows of a class as one, of their total weight.

        Leaving out a row then leaves out all its copies, as leaving out a row of weight 2 does.
        """
        labels = np.unique(self.y, return_inverse=True)[1].ravel()
        rows, weight = distinct_rows(self.X, self.weight, labels, pairwise=self.pairwise)
        order = np.argsort(rows)
        rows, weight = rows[order], weight[order]
        return replace(self, X=take(self.X, rows, self.pairwise), y=self.y[rows], weight=weight)

    def share_right(self, predicted: Array, rows: Array) -> float:
        """Return the (weighted) share of some rows that are predicted rightly."""
        right, weight = predicted == self.y[rows], self.weight[rows]
        total = weight.sum()
        return float(weight @ right / total if total > 0 else right.mean())


@dataclass
class Trials:
    """The rules of some splits, one setting after the other, on one Gram matrix at a time."""

    data: Data
    splits: Sequence[Split]
    gamma: float | None = None
    store: Any = None
    last: list[Any] = field(default_factory=list)
    path: Any = None
    haste: float = 1.0  # multiplies the tolerance of trials

    def __post_init__(self) -> None:
        self.code, machine, decoder = self.data.estimator.elements()
        self.machine, self.decoder = machines.resolve(machine), decoders.resolve(decoder)
        self.n_jobs = self.data.estimator.n_jobs
        self.last = [None] * len(self.splits)

    @cached_property
    def problems(self) -> list[Problem]:
        """The problem of each split's training rows, its code drawn as the classifier would."""
        data, seed = self.data, partial(clone, self.data.estimator.random_state, safe=False)
        args = clone(self.machine), data.X, data.y, data.weight
        return [
            pose(self.code, *args, check_random_state(seed()), rows=rows, source=self._source)
            for rows, _ in self.splits
        ]

    def _source(self) -> Any:
        """Return the Gram store that is trained on at the time."""
        return self.store

    def at(self, gamma: float | None, C: float | None) -> Iterator[Rule]:
        """Yield the rule of each split at one setting."""
        store = self.gram(gamma)
        machine = clone(self.machine).set_params(**self.machine.setting(gamma, C))
        machine.set_params(**self._loosened)
        for k, problem in enumerate(self.problems):
            before = self.last[k] if self.last[k] is not None else self.last[k - 1]
            args = clone(machine), clone(self.decoder), _similar(before, problem)
            with warnings.catch_warnings():
                if self._loosened:  # the best setting is trained again, and warns by itself
                    warnings.simplefilter("ignore", ConvergenceWarning)
                rule = train(replace(problem, source=store), *args, n_jobs=self.n_jobs)
            self.last[k] = rule.machine
            yield rule

    @cached_property
    def _loosened(self) -> dict[str, float]:
        """A tolerance that ranks settings as well, where the machine says so; not below the user's.

        The best setting is trained again, to the tolerance that was asked for.
        """
        machine = self.machine
        tol, slack = getattr(machine, "tol", 0.0), getattr(machine, "trial_slack", 1.0)
        if slack == 1.0 or tol < COARSE_TOL:
            return {}
        names = getattr(machine, "trial_tolerances", ("tol",))
        return {name: self.haste * slack * getattr(machine, name) for name in names}

    @property
    def loosened(self) -> bool:
        """Whether trials are trained to a looser tolerance than the machine's, one by one."""
        return bool(self._loosened) and not self.together

    def gram(self, gamma: float | None) -> Any:
        """Return the Gram store of a gamma; after another one nothing but duals is carried over."""
        if self.store is None or gamma != self.gamma:
            self.store = None  # one Gram matrix at a time
            self.store, self.gamma = self._gram(gamma), gamma
            self.last = [_without_margins(self.last[0]), *[None] * (len(self.splits) - 1)]
        return self.store

    def accuracy(self, gamma: float | None, C: float | None, beat: float = -1.0) -> Row:
        """Return the held-out accuracies of one setting, as a row of the table.

        The splits end where the mean can no longer be above ``beat``.
        """
        started = time.perf_counter()
        pairs = zip(self.at(gamma, C), self.splits, strict=True)
        scores = (self._right(rule, test) for rule, (_, test) in pairs)
        return scored(gamma, C, _while_above(beat, scores, len(self.splits)), started)

    def accuracies(self, gamma: float | None, costs: Sequence[float | None]) -> list[Row]:
        """Return the held-out accuracies at one gamma and several values of C, a row for each."""
        if not self.together:
            return [self.accuracy(gamma, C) for C in costs]
        started, values = time.perf_counter(), [float(C) for C in costs if C is not None]
        with single_blas():
            scores = self._path_scores(gamma, values)
        table = {"gamma": np.full(len(values), np.nan if gamma is None else gamma), "C": values}
        table |= {"mean_score": scores.mean(axis=1), "std_score": scores.std(axis=1)}
        table |= {f"split{k}_score": score for k, score in enumerate(scores.T)}
        seconds = (time.perf_counter() - started) / len(values)
        rows = zip(*(column for column in table.values()), strict=True)
        return [dict(zip(table, row, strict=True), seconds=seconds) for row in rows]

    @cached_property
    def together(self) -> bool:
        """Whether the splits differ in weights alone, so that all are trained together."""
        first = self.problems[0]
        return (
            len(self.data.y) <= PATH_ROWS
            and can(self.machine, SolvesPaths)
            and all(
                np.array_equal(first.code, other.code)
                and np.array_equal(first.classes, other.classes)
                for other in self.problems
            )
        )

    @cached_property
    def _fresh(self) -> tuple[Any, Any]:
        """The machine and the decoder, unfitted."""
        return clone(self.machine), clone(self.decoder)

    @cached_property
    def _whole(self) -> list[Problem]:
        """The problems with the label of every row, also where it has weight 0."""
        classes = self.problems[0].classes
        labels = np.minimum(np.searchsorted(classes, self.data.y), len(classes) - 1)
        return [replace(problem, labels=labels) for problem in self.problems]

    def _path_scores(self, gamma: float | None, values: list[float]) -> Array:
        """Return the (n_values, n_splits) accuracies of every value of C and split."""
        store, (fresh, decoder) = self.gram(gamma), self._fresh
        machine = fresh.set_params(**self.machine.setting(gamma, None))
        trainings = train_path(self._whole, store, machine, values, self.path, n_jobs=self.n_jobs)
        self.path = trainings.path
        margins = self.path.margins_of_each([test for _, test in self.splits])
        rows = self._test_rows * len(values)
        best = np.concatenate(decoder.best_of_each(trainings, margins, rows))
        truth, mass, start = self._tested
        right = (best.reshape(len(values), -1) == truth) * mass
        return np.add.reduceat(right, start, axis=1) / np.add.reduceat(mass, start)

    @cached_property
    def _test_rows(self) -> list[Any]:
        return [self.data.X[test] for _, test in self.splits]

    @cached_property
    def _tested(self) -> tuple[Array, Array, Array]:
        """The class index of the test rows, -1 for one not trained on, their weights and starts."""
        first, tests = self._whole[0], [test for _, test in self.splits]
        known = np.where(first.classes[first.labels] == self.data.y, first.labels, -1)
        parts = [self.data.weight[test] for test in tests]
        mass = np.concatenate([part if part.sum() > 0 else np.ones(len(part)) for part in parts])
        start = np.cumsum([0, *(len(test) for test in tests[:-1])])
        return known[np.concatenate(tests)], mass, start

    def bound(self, gamma: float | None, C: float | None) -> tuple[Row, tuple[Rule, loo.LooBound]]:
        """Return the bound of one setting as a row of the table, and what it was found on."""
        started = time.perf_counter()
        rule = next(self.at(gamma, C))
        found, weight = loo.bound(rule), rule.problem.weight
        wrong = float(weight @ (found.margins <= 0) / weight.sum())
        row = {"bound": found.error, "training_error": wrong}
        return {**_setting(gamma, C), **row, "seconds": time.perf_counter() - started}, (
            rule,
            found,
        )

    def sharpened(
        self, gamma: float | None, bounded: tuple[Rule, loo.LooBound], by: str, goal: float
    ) -> float:
        """Return the sharp bound or the estimate where :meth:`bound` gave a bound, if below goal.

        A value above the goal is an upper limit: the search for it ends there.
        """
        rule, found = bounded
        options: dict[str, Any] = {"estimated": by == "estimate", "goal": goal}
        return loo.sharpened(rule, found, self.gram(gamma), n_jobs=self.n_jobs, **options).error

    def _right(self, rule: Rule, test: Array) -> float:
        margins = rule.machine.training_margins_[test]
        return self.data.share_right(rule.predict(margins, self.data.X[test]), test)

    def _gram(self, gamma: float | None) -> Any:
        if gamma is not None and self._widths is not None:
            return self._widths.at(gamma)
        machine = clone(self.machine).set_params(**self.machine.setting(gamma, None))
        targets = self.problems[0].targets
        return machine.gram(self.data.X, targets, self.data.weight, n_jobs=self.n_jobs)

    @cached_property
    def _widths(self) -> grams.Widths | None:
        """The Gram matrices of all gammas, where the kernel is one of distance and they fit."""
        kind = kernels.named(self.machine.kernel)
        if not kind.of_distance:
            return None
        ternary = any((problem.code == 0).any() for problem in self.problems)
        coarse = getattr(self.machine, "tol", 0.0) >= COARSE_TOL
        limit = SINGLE_LIMIT if coarse else grams.DOUBLE_LIMIT
        widths = grams.Widths(
            kind,
            self.data.X,
            dtype=grams.precision(len(self.data.y), self.machine.dtype, limit),
            max_memory=self.machine.max_memory,
            order=np.argsort(self.data.y, kind="stable") if ternary else None,
            n_jobs=self.n_jobs,
        )
        return widths if widths.fits else None


def _similar(before: Any, problem: Problem) -> Any:
    """Return a machine to start from, None if it has other rows or columns."""
    shape = None if before is None else (before.n_train_, len(before.bias_))
    return before if shape == problem.targets.shape else None


def _without_margins(machine: Any) -> Any:
    """Return the machine as another gamma can start from it."""
    view = copy.copy(machine)
    if view is not None:
        view.training_margins_ = None
    return view


def _setting(gamma: float | None, C: float | None) -> Row:
    return {"gamma": np.nan if gamma is None else gamma, "C": np.nan if C is None else C}


def _while_above(beat: float, scores: Iterable[float], count: int) -> list[float]:
    """Return the ``count`` scores up to where their mean can no longer be above ``beat``, then NaN.

    >>> _while_above(0.5, [0.2, 0.6, 0.7], 3)
    [0.2, 0.6, 0.7]
    >>> _while_above(0.75, [0.2, 0.6, 0.7], 3)
    [0.2, nan, nan]
    """
    found: list[float] = []
    for score in scores:
        found.append(score)
        if (sum(found) + count - len(found)) / count <= beat:
            break
    return found + [np.nan] * (count - len(found))


def scored(gamma: float | None, C: float | None, scores: Sequence[float], started: float) -> Row:
    """Return a row of the table of results: a setting and its score on each split.

    The mean is an upper limit, a split that was not trained counting as 1.
    """
    splits = {f"split{k}_score": score for k, score in enumerate(scores)}
    mean = float(np.mean(np.where(np.isnan(scores), 1.0, scores)))
    row = {"mean_score": mean, "std_score": float(np.std(scores)), **splits}
    return {**_setting(gamma, C), **row, "seconds": time.perf_counter() - started}


@dataclass
class Refits:
    """Any classifier with ``kernel``, ``gamma`` and ``C``, fitted again on each split."""

    data: Data
    splits: Sequence[Split]

    @property
    def machine(self) -> Any:
        """What has the parameters."""
        return self.data.estimator

    def accuracy(self, gamma: float | None, C: float | None, beat: float = -1.0) -> Row:
        """Return the held-out accuracies of one setting, as those of :class:`Trials`."""
        started = time.perf_counter()
        given = {name: value for name, value in (("gamma", gamma), ("C", C)) if value is not None}
        scores = (self._score(given, *split) for split in self.splits)
        return scored(gamma, C, _while_above(beat, scores, len(self.splits)), started)

    def _score(self, given: Row, train_rows: Array, test: Array) -> float:
        data = self.data
        clf = clone(data.estimator).set_params(**given)
        taught = {} if np.all(data.weight == 1.0) else {"sample_weight": data.weight[train_rows]}
        clf.fit(self._rows(train_rows, train_rows), data.y[train_rows], **taught)
        return data.share_right(clf.predict(self._rows(test, train_rows)), test)

    def _rows(self, rows: Array, train_rows: Array) -> Any:
        """Return some rows, of a precomputed kernel their values against the training rows."""
        X = self.data.X
        return X[np.ix_(rows, train_rows)] if self.data.pairwise else X[rows]
