"""Weston & Watkins' machine: all columns of the one-vs-all code solved together."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from outcode import gram as grams
from outcode._checks import Array, lookup, positive, row_weights
from outcode.machines.common import as_targets, warn_early
from outcode.machines.crammer_singer import SHIFTS, as_columns, both_classes, class_of
from outcode.machines.kernel import KernelMachine, KernelParameters, as_store
from outcode.progress import progress
from outcode.solvers import ww


@dataclass(eq=False, repr=False)
class WestonWatkinsParameters(KernelParameters):
    """The parameters of :class:`WestonWatkins`."""

    C: float = field(default=1.0, kw_only=True)
    bias: str = field(default="kernel", kw_only=True)
    tol: float = field(default=1e-3, kw_only=True)
    max_iter: int = field(default=10_000_000, kw_only=True)


class WestonWatkins(WestonWatkinsParameters, KernelMachine):
    """One vector w_r per class, all learned in one problem, every pair of classes counted.

    Minimises  1/2 sum_r |w_r|^2 + C sum_i c_i sum_{r != y_i} max(0, 1 - (w_{y_i} - w_r).x_i)
    (Weston & Watkins 1999), c_i the weight of row i: SPOC counts only the class that comes nearest,
    this machine every class that comes too near. Dogan, Glasmachers & Igel (2016) recommend it
    among the machines that learn all classes at once. It learns the classes of the one-vs-all
    code: the margin of column r is w_r.x, and with two classes, which have a single column,
    w_1.x - w_0.x, the support vector machine with twice this C.

    Parameters
    ----------
    kernel : "rbf", "linear", "poly", "laplacian", "exponential", "sigmoid", "precomputed" or a
        function
    gamma : number, "scale" (1 / (d var X)) or "auto" (1 / d)
    degree, coef0 : of the polynomial and the sigmoid kernel
    C : cost of errors
    bias : "kernel" (1 is added to the kernel: a bias per class) or "none"
    tol : largest violation of the optimality conditions, in units of the required lead 1
    class_weight : weights of the *user's* classes, a dict or "balanced"
    max_memory : bytes the Gram matrix may take; None is half of what is free
    dtype : of the Gram matrix; None is float64 up to 5,000 rows and float32 beyond
    max_iter : steps, one sample each

    Attributes
    ----------
    dual_coef_ : (n_samples, n_dichotomies) tau, minus alpha_ir and their sum for the own class
    objective_, dual_objective_, gap_ : primal and dual value, their difference over the primal
    n_iter_ : steps
    training_margins_ : (n_samples, n_dichotomies)

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from outcode import OutputCodeClassifier
    >>> X, y = load_iris(return_X_y=True)
    >>> clf = OutputCodeClassifier("ova", "ww", "softmax").fit(X, y)
    >>> clf.predict_proba(X).shape, bool(clf.machine_.gap_ < 1e-2)
    ((150, 3), True)
    """

    left_out = ("training_margins_",)

    def fit_gram(
        self,
        gram: Any,
        targets: Any,
        sample_weight: Any = None,
        *,
        n_jobs: int | None = None,
        verbose: int = 0,
        start: Any = None,
    ) -> WestonWatkins:
        """Train all classes on a Gram matrix or store, from the solution of ``start`` if given."""
        gram = as_store(gram)
        targets = as_targets(targets, len(gram))
        problem = _Classes.of(self, gram, targets, row_weights(sample_weight, len(gram)), n_jobs)
        solution = problem.solve(problem.box, None if start is None else _solution_of(start))
        warn_early(solution, self.tol, "Weston-Watkins")
        self._remember(solution, gram, targets)
        return self

    def held_out_margins(
        self,
        gram: Any,
        targets: Any,
        fold: Array,
        sample_weight: Any = None,
        *,
        n_jobs: int | None = None,
        verbose: int = 0,
    ) -> Array:
        """Return margins of each row under a machine trained without its fold (-1: none).

        The fitted solution is where each one starts.
        """
        check_is_fitted(self, "dual_coef_")
        gram = as_store(gram)
        targets = as_targets(targets, len(gram))
        problem = _Classes.of(self, gram, targets, row_weights(sample_weight, len(gram)), n_jobs)
        out, numbers = self.training_margins_.copy(), np.unique(fold[fold >= 0])
        start = _solution_of(self)
        with progress("folds", len(numbers), verbose) as report:
            for f in numbers:
                held = fold == f
                if self.dual_coef_[held].any():  # without support vectors nothing changes
                    scores = problem.solve(np.where(held, 0.0, problem.box), start).scores
                    out[held] = as_columns(scores, targets.shape[1])[held]
                report.advance()
        return out

    def _remember(self, solution: ww.Solution, gram: grams.Gram, targets: Array) -> None:
        columns = targets.shape[1]
        self.training_margins_ = as_columns(solution.scores, columns)
        self.dual_coef_ = as_columns(solution.tau, columns)
        self.bias_ = SHIFTS[self.bias] * self.dual_coef_.sum(axis=0)
        self.objective_, self.dual_objective_ = solution.objective, solution.dual_objective
        self.gap_, self.n_iter_ = solution.gap, solution.n_iter
        self.expand(gram, np.ones_like(targets))


@dataclass(frozen=True)
class _Classes:
    """The problem of all classes on a Gram store."""

    machine: WestonWatkins
    gram: grams.Gram
    labels: Array
    box: Array
    n_jobs: int | None

    @classmethod
    def of(
        cls, machine: WestonWatkins, gram: grams.Gram, targets: Array, mass: Array, n_jobs: Any
    ) -> _Classes:
        lookup(SHIFTS, machine.bias, "bias")
        labels, box = class_of(targets, mass), positive(machine.C, "C") * mass
        if gram.order is not None:
            raise ValueError("This Gram store has its rows sorted for a code: build one without.")
        return cls(machine, gram, labels, box, n_jobs)

    def solve(self, box: Array, start: tuple[Array, Array] | None) -> ww.Solution:
        """Return the optimum for some bounds, from (tau, K tau) of a solution or nothing."""
        return ww.solve(
            self.gram,
            self.labels,
            box,
            max(2, int(self.labels.max()) + 1),
            shift=SHIFTS[self.machine.bias],
            tol=positive(self.machine.tol, "tol"),
            max_iter=self.machine.max_iter,
            start=start,
            n_jobs=self.n_jobs,
        )


def _solution_of(machine: Any) -> tuple[Array, Array] | None:
    """Return tau and K tau; sum_r w_r = 0, so that two classes have opposite ones."""
    parts = machine.dual_coef_, machine.training_margins_
    if parts[1] is None:
        return None
    tau, scores = (both_classes(part / 2) if part.shape[1] == 1 else part for part in parts)
    return tau, scores


NAMES = {"ww": WestonWatkins}
