"""One training is one value: a problem goes in, a rule comes out.

labels --code--> targets --machine--> margins --decoder--> scores --> label, probability

:func:`train` is the only place that walks this way. A classifier trains a whole problem, a search
trains parts of it, leave-one-out numbers are functions of the rule, and codes that are learned
take held-out margins from here. Machines and decoders come as objects, so this module knows none.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import product
from typing import Any, cast

import numpy as np

from outcode import dichotomies
from outcode._checks import Array
from outcode.capabilities import HoldsOut, TrainsOnGram, can, require
from outcode.folds import content_folds
from outcode.parallel import single_blas, thread_map
from outcode.solvers.certificate import Certificate

#: Held-out margins and the fold of each sample, by number of folds.
HeldOut = dict[int, tuple[Any, Array]]


@dataclass(frozen=True)
class Used:
    """Margins of the rows that each column uses, one column after the other.

    Parameters
    ----------
    values : ndarray of shape (n_entries,)
        The margins.
    signs : ndarray of shape (n_entries,)
        The signs of the rows in the column.
    rows : ndarray of shape (n_entries,)
        The rows.
    columns : ndarray of shape (n_entries,)
        The columns, in their order.

    Examples
    --------
    >>> used = Used.of(np.array([[0.5, 2.0], [-1.0, 3.0]]), np.array([[1, 0], [-1, 1]]))
    >>> used.values.tolist(), used.rows.tolist(), used.columns.tolist()
    ([0.5, -1.0, 3.0], [0, 1, 1], [0, 0, 1])
    """

    values: Array
    signs: Array
    rows: Array
    columns: Array

    @classmethod
    def of(cls, margins: Array, signs: Array) -> Used:
        """Pick them from the margins and signs of all rows and columns."""
        columns, rows = np.nonzero(signs.T)
        return cls(margins[rows, columns], signs[rows, columns], rows, columns)


@dataclass(frozen=True)
class Problem:
    """What is to be learned.

    Parameters
    ----------
    source : Gram store, array-like or callable
        What the machine trains on: a Gram store, rows, or a function that makes one of these when
        it is first needed.
    code : ndarray of int8 of shape (n_classes, n_dichotomies)
        Code matrix of +1, -1 and 0.
    labels : ndarray of shape (n_samples,)
        The row of the code of each sample; any where the weight is 0.
    weight : ndarray of shape (n_samples,)
        How much a sample counts, 0 for not at all.
    classes : ndarray of shape (n_classes,)
        The user's label of each row of the code.
    X : array-like of shape (n_samples, n_features), default=None
        The rows, for folds and for decoders that look at them. None if they are not at hand.
    pairwise : bool, default=False
        Whether X is a kernel matrix.
    column_weights : ndarray of shape (n_dichotomies,), default=None
        Weight that the code gives each column. None if it gives none.
    """

    source: Any
    code: Array
    labels: Array
    weight: Array
    classes: Array
    X: Any = None
    pairwise: bool = False
    column_weights: Array | None = None

    @cached_property
    def targets(self) -> Array:
        """The sign of every sample in every column, (n_samples, n_dichotomies)."""
        return dichotomies.targets(self.labels, self.code)

    def targets_for(self, machine: Any) -> Any:
        """Return the targets, as code and labels for a machine that needs no matrix of them."""
        coded = getattr(machine, "takes_coded", False)
        return dichotomies.Coded(self.code, self.labels) if coded else self.targets

    @cached_property
    def _folds(self) -> dict[int, Array]:
        """The fold of each sample, by number of folds, once it is known."""
        return {}

    @cached_property
    def store(self) -> Any:
        """What the machine trains on, made when first asked for."""
        return self.source() if callable(self.source) else self.source

    def part(self, rows: Array) -> Problem:
        """Return the problem of some samples, on the same Gram: the others have weight 0."""
        weight = np.zeros(len(self.weight))
        weight[rows] = self.weight[rows]
        return replace(self, weight=weight)

    def folds(self, folds: int, enough: float = np.inf) -> Array:
        """Number the samples that count by fold, -1 for those never held out.

        Folds are numbered until ``enough`` samples are in one; the rest are not held out.
        """
        if folds not in self._folds:
            args = self.X, self.labels, folds, self.weight
            self._folds[folds] = content_folds(*args, pairwise=self.pairwise)
        fold = self._folds[folds]
        held = np.cumsum(np.bincount(fold[fold >= 0], minlength=folds))
        return np.where(fold <= np.searchsorted(held, enough), fold, -1)

    def without_data(self) -> Problem:
        """Return the problem as a rule keeps it: no Gram, no rows."""
        return replace(self, source=None, X=None)


@dataclass(frozen=True)
class Rule:
    """A trained machine and its fitted decoder.

    Parameters
    ----------
    problem : Problem
        What they were trained on, without its Gram and rows.
    machine : Machine
        The fitted machine.
    decoder : Decoder
        The fitted decoder.
    held_out : dict of int to tuple of ndarray
        The held-out margins that the decoder asked for, by number of folds.
    calibration : object, default=None
        The class values of rows it was not trained on, where prediction sets and abstaining were
        given some of their own.
    """

    problem: Problem
    machine: Any
    decoder: Any
    held_out: HeldOut = field(default_factory=dict)
    calibration: Any = None

    @property
    def held_out_margins(self) -> tuple[Array, Array]:
        """The margins of each sample without its fold, and its fold, -1 if it was not held out."""
        margins, fold = self.held_out[max(self.held_out)]
        return np.asarray(margins), fold

    @property
    def certificate(self) -> Certificate:
        """How well the machine solved its problem: gap, objective and steps, where it says so."""
        names = "objective_", "gap_", "n_iter_"
        objective, gap, n_iter = (getattr(self.machine, name, None) for name in names)
        return Certificate(objective=objective, gap=gap, n_iter=n_iter)

    def margins(self, X: Any) -> Array:
        """Return the (n_samples, n_dichotomies) margins of new rows."""
        return np.asarray(self.machine.margins(X))

    def of_rows(self, read: Callable[[Array, Any], Array], X: Any) -> Array:
        """Return ``read(margins, X)`` of new rows, in blocks where the machine asks for them."""
        blocks = [] if self.decoder.looks_at_rows else self.machine.blocks(X.shape[0])
        with single_blas():  # once for what comes: setting it takes as long as a row
            if len(blocks) <= 1:
                return read(self.margins(X), X)
            return np.concatenate(
                thread_map(lambda cut: read(self.margins(X[cut]), X[cut]), blocks)
            )

    def scores(self, margins: Array, X: Any = None) -> Array:
        """Return the (n_samples, n_classes) scores, larger is better."""
        return np.asarray(self.decoder.scores(margins, X))

    def proba(self, margins: Array, X: Any = None) -> Array:
        """Return the (n_samples, n_classes) probabilities."""
        return np.asarray(self.decoder.proba(margins, X))

    def predict(self, margins: Array, X: Any = None) -> Array:
        """Return the user's label of the class with the largest score, the first of equals."""
        return self.problem.classes[self.decoder.best(margins, X)]


@dataclass
class Training:
    """Data that a decoder can use when it is fitted; each item is computed on demand.

    Samples of weight 0 are not trained on; whatever a decoder sums over samples is weighted.

    Parameters
    ----------
    code : ndarray of shape (n_classes, n_dichotomies)
        The code of the problem.
    labels : ndarray of shape (n_samples,)
        Class indices of the training rows.
    X : array-like of shape (n_samples, n_features)
        The training rows.
    machine : machine
        The fitted machine.
    sample_weight : ndarray of shape (n_samples,)
        Weights of the training rows.
    held_out : callable
        Number of folds -> margins of each sample under machines trained without its fold.
    source : callable or None, default=None
        Function that gives the Gram store of the samples, None if there is none.
    kept : dict
        Held-out margins and the fold of each sample, by number of folds, once they are computed.
    column_weights : ndarray of shape (n_dichotomies,) or None, default=None
        Weights of the columns that come with the code; None if it has none.

    Examples
    --------
    >>> code, labels = np.array([[1], [-1]]), np.array([0, 1])
    >>> training = Training(code, labels, None, None, np.ones(2), held_out=lambda folds: 0.5 * code)
    >>> training.crossfit(3).ravel().tolist()
    [0.5, -0.5]
    """

    code: Array
    labels: Array
    X: Any
    machine: Any
    sample_weight: Array
    held_out: Callable[[int], Any]
    source: Callable[[], Any] | None = None
    kept: HeldOut = field(default_factory=dict)
    column_weights: Array | None = None

    @property
    def gram(self) -> Any:
        """The Gram store of the samples, None where there is none."""
        return None if self.source is None else self.source()

    @cached_property
    def margins(self) -> Array:
        """The (n_samples, n_dichotomies) margins on the training rows."""
        return np.asarray(self.machine.training_margins_)

    def crossfit(self, folds: int) -> Array:
        """Return margins of each sample under machines trained without its fold.

        A sample that was never held out (the only row of its class, or beyond what the decoder
        says is ``enough``) has the margins of the machine itself; :meth:`was_held_out` says.
        """
        return np.asarray(self.held_out(folds))

    def crossfit_used(self, folds: int) -> Used:
        """Return :meth:`crossfit` of the rows that each column uses, without the others' margins.

        Parameters
        ----------
        folds : int
            Number of folds.

        Returns
        -------
        Used
            The margins.
        """
        margins = self.held_out(folds)
        if hasattr(margins, "used"):
            return cast(Used, margins.used())
        return Used.of(np.asarray(margins), self.code[self.labels])

    def was_held_out(self, folds: int) -> Array:
        """Return which samples :meth:`crossfit` held out, (n_samples,) bool."""
        known = self.kept.get(folds)
        return np.ones(len(self.labels), dtype=bool) if known is None else known[1] >= 0


def train(
    problem: Problem,
    machine: Any,
    decoder: Any,
    start: Any = None,
    *,
    n_jobs: int | None = None,
    verbose: int = 0,
) -> Rule:
    """Train a machine and a decoder, both unfitted, on a problem.

    ``start`` is a machine fitted to a similar problem on the same rows, where one that iterates
    begins.

    Parameters
    ----------
    problem : Problem
        What is to be learned.
    machine : Machine
        The machine to fit.
    decoder : Decoder
        The decoder to fit.
    start : Machine, default=None
        A machine fitted to a similar problem on the same rows, where one that iterates begins.
    n_jobs : int, default=None
        Number of threads.
    verbose : int, default=0
        Whether to print progress.

    Returns
    -------
    Rule
        The trained machine and decoder.

    Examples
    --------
    >>> from outcode import codes, decoders, machines
    >>> X, code = np.array([[0.0], [1.0], [2.0]]), codes.code_matrix("ova", 3)
    >>> labels = np.arange(3)
    >>> problem = Problem(X, code, labels, np.ones(3), np.array(["a", "b", "c"]), X=X)
    >>> rule = train(problem, machines.SparseLinear(), decoders.Hamming())
    >>> rule.margins(X).shape
    (3, 3)
    """
    threads: dict[str, Any] = {"n_jobs": n_jobs, "verbose": verbose}
    with single_blas():
        return read(problem, fit_machine(problem, machine, start, **threads), decoder, **threads)


@dataclass
class PathTrainings:
    """Trainings that differ in C and in the weights of the rows alone, for a decoder of each.

    The problems are solved together on one Gram store: ``path`` is what the machine found for every
    value of C and problem. Held-out margins are found for all of them at once, when asked for.
    """

    problems: Sequence[Problem]
    store: Any
    path: Any
    n_jobs: int | None = None

    @property
    def code(self) -> Array:
        """The code of all problems."""
        return self.problems[0].code

    @property
    def weight(self) -> Array:
        """Weight of the samples in each problem, (n_problems, n_samples)."""
        return np.stack([problem.weight for problem in self.problems])

    @property
    def bare(self) -> Training:
        """A training that has the code, the labels and the rows, but no machine."""
        first = self.problems[0]
        return Training(first.code, first.labels, first.X, None, first.weight, held_out=_no_margins)

    def each(self, enough: float) -> Iterator[Training]:
        """Yield the training of every value of C, and of every problem."""
        known: dict[int, tuple[Array, Array]] = {}
        for c, k in product(range(len(self.path.values)), range(len(self.problems))):
            yield self._one(c, k, enough, known)

    def _one(self, c: int, k: int, enough: float, known: HeldOut) -> Training:
        problem, kept = self.problems[k], HeldOut()

        def held_out(folds: int) -> Array:
            if folds not in known:
                fold = self.folds(folds, enough)
                known[folds] = self.path.held_out_margins(fold, self.n_jobs), fold
            margins, fold = known[folds]
            kept[folds] = margins[c, k], fold[k]
            return kept[folds][0]

        machine = self.path.fitted(c, k)
        data = problem.code, problem.labels, problem.X, machine, problem.weight
        return Training(*data, held_out, lambda: self.store, kept)

    def held_out_entries(self, folds: int, enough: float) -> tuple[Array, Array, Array, Array]:
        """Return what sigmoids are fitted on, of every training at once.

        Held-out margins (n_trainings, n_entries) of the rows that each column uses, column after
        column, their signs and columns (n_entries,) and their weights (n_trainings, n_entries).
        """
        layout = self.path.solutions.layout
        margins = self.path.held_out_entries(self.folds(folds, enough), self.n_jobs)
        weight = np.tile(self.weight[:, layout.rows], (len(margins), 1))
        return margins.reshape(len(weight), -1), layout.y, layout.columns, weight

    def folds(self, folds: int, enough: float) -> Array:
        """Return the fold of each sample in each problem, (n_problems, n_samples)."""
        return np.stack([problem.folds(folds, enough) for problem in self.problems])


def _no_margins(folds: int) -> Array:
    raise ValueError("No machine is trained here: there are no held-out margins.")


def train_path(
    problems: Sequence[Problem],
    store: Any,
    machine: Any,
    values: Sequence[float],
    start: Any = None,
    *,
    n_jobs: int | None = None,
) -> PathTrainings:
    """Train a machine for several values of C on problems that differ in their weights alone.

    ``store`` is the Gram store of their samples, ``start`` the path of another one.
    """
    first, weights = problems[0], np.stack([problem.weight for problem in problems])
    options: dict[str, Any] = {"n_jobs": n_jobs, "start": start}
    path = machine.fit_path(store, first.targets_for(machine), weights, values, **options)
    return PathTrainings(problems, store, path, n_jobs)


def fit_machine(problem: Problem, machine: Any, start: Any = None, **threads: Any) -> Any:
    """Return the machine fitted to the targets of a problem."""
    weight = None if np.all(problem.weight == 1.0) else problem.weight
    if not can(machine, TrainsOnGram):
        return machine.fit(problem.store, problem.targets, weight, **threads)
    targets = problem.targets_for(machine)
    return machine.fit_gram(problem.store, targets, weight, start=start, **threads)


def read(problem: Problem, machine: Any, decoder: Any, **threads: Any) -> Rule:
    """Return the rule of a fitted machine: fit the decoder on its margins."""
    kept: HeldOut = {}

    def held_out(folds: int) -> Any:
        if folds not in kept:
            fold = problem.folds(folds, decoder.enough)
            kept[folds] = _held_out(problem, machine, fold, **threads), fold
        return kept[folds][0]

    on_gram = can(machine, TrainsOnGram) and problem.source is not None
    training = Training(
        problem.code,
        problem.labels,
        problem.X,
        machine,
        problem.weight,
        held_out,
        (lambda: problem.store) if on_gram else None,
        kept,
        problem.column_weights,
    )
    return Rule(problem.without_data(), machine, decoder.fit(training), kept)


def held_out_margins(problem: Problem, machine: Any, fold: Array, **threads: Any) -> Array:
    """Return margins of each sample under machines trained without its fold, -1 for none."""
    return np.asarray(_held_out(problem, machine, fold, **threads))


def _held_out(problem: Problem, machine: Any, fold: Array, **threads: Any) -> Any:
    """Return them as an array, or as what gives it when asked."""
    require(machine, HoldsOut, "A decoder that is fitted on held-out margins")
    if problem.source is None:
        raise ValueError(
            "This decoder asks for held-out margins: give the training rows, "
            "with_decoder(decoder, X=X_train)."
        )
    args = problem.store, problem.targets_for(machine), fold, problem.weight
    hold_out = getattr(machine, "hold_out_used", machine.held_out_margins)
    return hold_out(*args, **threads)
