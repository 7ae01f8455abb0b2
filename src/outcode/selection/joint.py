"""Choosing lambda1 and lambda2 of joint machines: one decomposition per fold serves the grid."""

from __future__ import annotations

import copy
import time
import warnings
from collections.abc import Iterator
from itertools import product
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import check_cv

from outcode import decoders, kernels, machines
from outcode._checks import Array
from outcode.classifier import stratified_folds
from outcode.parallel import thread_map
from outcode.progress import progress
from outcode.selection.searches import _Search, _values
from outcode.selection.trainings import Part, Problem

#: The paper's grid ([LZCX16] section 4.2).
GRID = 10.0 ** np.arange(-8, -1)


class JointSearchCV(_Search):
    """Choose lambda1 and lambda2 of joint machines by the multiclass error of the whole rule.

    The answers are those of ``GridSearchCV`` with the same folds and (weighted) accuracy as score.
    Each fold needs one decomposition of its kernel matrix, and every pair of the grid starts from
    it. Equal scores go to the larger lambda1, then to the larger lambda2: the smoother rule. A code
    that is learned with the machines' help is learned once per fold.

    ``cv="loo"`` leaves out each row in turn, in closed form from one decomposition, for codes
    without zeros: W and b are exactly those without the row, while the relation matrix, gamma and
    what the decoder learned are those of all rows.

    Parameters
    ----------
    estimator : OutputCodeClassifier with a :class:`outcode.machines.Joint` machine
    lambda1s, lambda2s : values to try; None is the paper's grid, 1e-8, 1e-7, ..., 1e-2
    cv : number of folds, splitter, iterable of (train, test), or "loo"
    refit : fit the estimator with the best setting on all rows
    verbose : show the folds done and the time left

    Attributes
    ----------
    best_params_, best_score_, best_index_, best_estimator_, n_splits_
    results_ : a table as a dict of arrays: lambda1, lambda2, mean_score, std_score, split0_score,
        ..., gap (the largest relative duality gap), seconds

    Examples
    --------
    >>> from outcode import OutputCodeClassifier
    >>> from sklearn.datasets import load_iris
    >>> search = JointSearchCV(OutputCodeClassifier(machine="jcl", decoder="llw"), cv="loo")
    >>> sorted(search.fit(*load_iris(return_X_y=True)).best_params_)
    ['machine__lambda1', 'machine__lambda2']
    """

    searched = ("lambda1", "lambda2")

    def __init__(
        self,
        estimator: Any,
        lambda1s: Any = None,
        lambda2s: Any = None,
        *,
        cv: Any = 5,
        refit: bool = True,
        verbose: int = 0,
    ) -> None:
        self.estimator = estimator
        self.lambda1s = lambda1s
        self.lambda2s = lambda2s
        self.cv = cv
        self.refit = refit
        self.verbose = verbose

    def _machine(self) -> tuple[Any, str]:
        return _joint_machine(self.estimator), "machine__"

    def _search(self, problem: Problem) -> int:
        grid = GRID.tolist()
        first = _values(grid if self.lambda1s is None else self.lambda1s, "lambda1s", None)
        second = _values(grid if self.lambda2s is None else self.lambda2s, "lambda2s", None)
        settings = list(product(first, second))
        score = _left_out if _is_loo(self.cv) else _held_out
        parts = list(_parts(problem, self.cv))
        self.n_splits_ = len(problem.y) if _is_loo(self.cv) else len(parts)
        with progress("folds", len(parts), self.verbose) as report:

            def fold(part: Part) -> list[tuple[float, float, float]]:
                scores = score(problem, part, settings)
                report.advance()
                return scores

            found = np.array(thread_map(fold, parts, problem.n_jobs))  # (folds, settings, 3)
        self.results_ = _results(settings, found)
        _warn_unconverged(self.results_["gap"], problem.machine.tol)
        size = self.results_["lambda2"], self.results_["lambda1"]
        best = int(np.lexsort((-size[0], -size[1], -self.results_["mean_score"].round(12)))[0])
        self.best_score_ = float(self.results_["mean_score"][best])
        return best

    def plot(self, ax: Any = None) -> Any:
        """Draw the held-out error over lambda1 and lambda2 as a picture; returns the axes."""
        ax = self._axes(ax)
        first, second = (np.unique(self.results_[name]) for name in ("lambda1", "lambda2"))
        error = 1.0 - self.results_["mean_score"].reshape(len(first), len(second))
        ax.imshow(error, origin="lower", cmap="viridis_r")
        ax.set_xticks(range(len(second)), [f"{value:.0e}" for value in second])
        ax.set_yticks(range(len(first)), [f"{value:.0e}" for value in first])
        ax.set(xlabel="lambda2", ylabel="lambda1", title="held-out error")
        return ax


def _joint_machine(estimator: Any) -> Any:
    """Return a fresh machine of the estimator, or an error if it has no lambda1 and lambda2."""
    if not all(hasattr(estimator, name) for name in ("code", "machine", "decoder")):
        raise ValueError(f"estimator must be an OutputCodeClassifier, got {estimator!r}.")
    machine = machines.resolve(estimator.machine)
    if not hasattr(machine, "fit_factorised"):
        raise ValueError(
            f"The search is over lambda1 and lambda2 of joint machines, but the machine is "
            f"{estimator.machine!r}: use machine='jcl', or selection.KernelSearchCV."
        )
    return machine


def _warn_unconverged(gap: Array, tol: float) -> None:
    """Say once that some settings stopped early."""
    if (early := gap > tol).any():
        warnings.warn(
            f"{early.sum()} of {len(gap)} settings stopped early, at most {100 * gap.max():.2g} % "
            f"above the optimum (tol={tol:g}): raise the machine's max_iter. results_['gap'] has "
            f"each.",
            ConvergenceWarning,
            stacklevel=4,
        )


def _is_loo(cv: Any) -> bool:
    return isinstance(cv, str) and cv == "loo"


def _parts(problem: Problem, cv: Any) -> Iterator[Part]:
    if _is_loo(cv):
        everything = np.arange(len(problem.y))
        yield problem.part(everything, everything)
        return
    for train, test in check_cv(cv, problem.y, classifier=True).split(problem.X, problem.y):
        yield problem.part(train, test)


def _results(settings: list[tuple[Any, Any]], found: Array) -> dict[str, Array]:
    scores = found[:, :, 0]
    return {
        "lambda1": np.array([first for first, _ in settings]),
        "lambda2": np.array([second for _, second in settings]),
        "mean_score": scores.mean(axis=0),
        "std_score": scores.std(axis=0),
        **{f"split{k}_score": row for k, row in enumerate(scores)},
        "gap": found[:, :, 1].max(axis=0),
        "seconds": found[:, :, 2].sum(axis=0),
    }


class _Fold:
    """One part: its Gram store, its decomposition, and those of the decoder's own folds."""

    def __init__(self, problem: Problem, part: Part) -> None:
        self.problem, self.part = problem, part
        self.targets, self.weight = part.targets[part.train], part.weight[part.train]
        self.X = problem.take(part.train, part.train)
        self.machine = clone(problem.machine)
        self.store = self.machine.gram(self.X, self.targets, self.weight, n_jobs=1)
        self.factorised = self.machine.factorise(self.store, self.targets, self.weight)
        self._inner: dict[int, tuple[Array, list[Any]]] = {}

    def fit(self, lambda1: float, lambda2: float) -> Any:
        """Return the machines of one setting; that a trial stops early is in the table."""
        machine = copy.copy(self.machine).set_params(lambda1=lambda1, lambda2=lambda2)
        return machine.fit_factorised(self.factorised, self.store, self.targets, n_jobs=1)

    def cross(self) -> Array:
        """Return the kernel values of the test rows against the training rows."""
        Z = self.problem.take(self.part.test, self.part.train)
        if self.machine.kernel_ is None:
            return np.asarray(Z)
        kernel: kernels.Kernel = self.machine.kernel_
        return kernel.block(kernel.prepare(Z, self.machine.origin_), self.machine.rows_)

    def decoder(self, machine: Any) -> Any:
        """Return the decoder fitted on the part's rows."""

        def held_out(folds: int) -> Array:
            fold, factorised = self._folds(folds)
            out = np.empty(self.targets.shape)
            for f, inner in zip(np.unique(fold), factorised, strict=True):
                margins = machine.margins_of(inner, self.store, self.targets)
                out[fold == f] = margins[fold == f]
            return out

        training = decoders.Training(
            self.part.code, self.part.labels, self.X, machine, self.weight, held_out,
            lambda: self.store,
        )  # fmt: skip
        return decoders.resolve(self.problem.estimator.decoder).fit(training)

    def _folds(self, folds: int) -> tuple[Array, list[Any]]:
        """Return the decoder's folds of the part's rows, each decomposed once."""
        if folds not in self._inner:
            rng = np.random.RandomState(self.part.seed)
            fold = stratified_folds(self.part.labels, folds, rng, self.weight)
            kept = [np.where((fold == f) & (f >= 0), 0.0, self.weight) for f in np.unique(fold)]
            args = self.store, self.targets
            self._inner[folds] = fold, [self.machine.factorise(*args, w) for w in kept]
        return self._inner[folds]

    def accuracy(self, decoder: Any, margins: Array) -> float:
        """Return the (weighted) share of the part's test rows that are predicted rightly."""
        part, problem = self.part, self.problem
        X = problem.take(part.test, part.train)
        predicted = part.classes[np.argmax(decoder.scores(margins, X), axis=1)]
        weight = problem.weight[part.test]
        right = predicted == problem.y[part.test]
        return float(np.average(right, weights=weight if weight.any() else None))


def _held_out(
    problem: Problem, part: Part, settings: list[tuple[Any, Any]]
) -> list[tuple[float, float, float]]:
    """Return accuracy on the test rows, gap and seconds of every setting."""
    fold = _Fold(problem, part)
    cross, out = fold.cross(), []
    for setting in settings:
        started = time.perf_counter()
        machine = fold.fit(*setting)
        score = fold.accuracy(fold.decoder(machine), machine.margins_gram(cross))
        out.append((score, machine.gap_, time.perf_counter() - started))
    return out


def _left_out(
    problem: Problem, part: Part, settings: list[tuple[Any, Any]]
) -> list[tuple[float, float, float]]:
    """Return leave-one-out accuracy, gap and seconds of every setting."""
    fold, out = _Fold(problem, part), []
    for setting in settings:
        started = time.perf_counter()
        machine = fold.fit(*setting)
        margins = machine.loo_margins(fold.factorised, fold.targets)
        score = fold.accuracy(fold.decoder(machine), margins)
        out.append((score, machine.gap_, time.perf_counter() - started))
    return out
