"""Machines that learn one vector per class, all in one problem, over the one-vs-all code."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np

from outcode import gram as grams
from outcode._checks import Array, lookup
from outcode.machines.common import Solved, warn_early
from outcode.machines.kernel import KernelMachine, Task

#: What is added to the kernel.
SHIFTS = {"none": 0.0, "kernel": 1.0}

#: The weight of each row, and (coefficients, their scores) to start from -> a solution.
Solve = Callable[[Array, Any], Any]


class AllClasses(KernelMachine):
    """One vector w_r per class; the margin of column r is w_r.x, of two classes (w_1 - w_0).x.

    A subclass defines :meth:`solver`, whose solutions have ``tau`` and ``scores`` (n_samples,
    n_classes), w_r = sum_i tau_ir x_i divided by :attr:`scale`.
    """

    bias: str
    tol: float
    #: How the machine is called in warnings.
    called: ClassVar[str]
    #: What the dual variables are divided by.
    scale = 1.0
    parallel_folds = False  # the classes are what runs in parallel
    #: How many times its tolerance a training may have that only ranks settings in a search.
    trial_slack: ClassVar[float] = 10.0

    def solver(self, task: Task, labels: Array) -> Solve:
        """Return a function from weights of the rows and a start to a solution."""
        raise NotImplementedError(f"{type(self).__name__} must define solver()")

    def remember(self, solution: Any, gram: grams.Gram) -> None:
        """Keep what else the machine tells of its solution."""

    def warn(self, solution: Any) -> None:
        """Warn if a solution stopped early, or with a large gap."""
        warn_early(solution, self.tol, self.called)

    def train(self, task: Task, start: Any) -> None:
        solution = self._solver(task)(task.weight, self._start(start))
        self.warn(solution)
        columns = task.targets.shape[1]
        self.training_margins_ = _columns(solution.scores, columns)
        self.dual_coef_ = _columns(solution.tau / self.scale, columns)
        self.bias_ = SHIFTS[self.bias] * self.dual_coef_.sum(axis=0)
        self.objective_, self.dual_objective_ = solution.objective, solution.dual_objective
        self.gap_, self.n_iter_ = solution.gap, solution.n_iter
        self.expand(task.gram, np.ones_like(task.targets))
        self.remember(solution, task.gram)

    def holding_out(self, task: Task) -> Callable[[Array], Solved]:
        solve, start = self._solver(task), self._start(self)

        def leave_out(rows: Array) -> Solved:
            if not self.dual_coef_[rows].any():  # without support vectors nothing changes
                return self.training_margins_, None
            solution = solve(task.without(rows), start)
            return _columns(solution.scores, task.targets.shape[1]), solution

        return leave_out

    def _solver(self, task: Task) -> Solve:
        lookup(SHIFTS, self.bias, "bias")
        labels = _class_of(task.targets, task.weight)
        if task.gram.order is not None:
            raise ValueError("This Gram store has its rows sorted for a code: build one without.")
        return self.solver(task, labels)

    def _start(self, machine: Any) -> tuple[Array, Array | None] | None:
        """Return tau and K tau of a fitted machine, for the scale of this one."""
        if machine is None:
            return None
        coef, margins = machine.dual_coef_, machine.training_margins_
        tau = both_classes(coef) * self.scale
        return tau, None if margins is None else both_classes(margins) * self.scale


def _class_of(targets: Array, weight: Array) -> Array:
    """Return the class of each row of one-vs-all targets; an error for those of another code."""
    several, counted = targets.shape[1] > 1, weight > 0
    labels = targets.argmax(axis=1) if several else (targets[:, 0] > 0).astype(int)
    own = (targets > 0).sum(axis=1)
    if (targets == 0).any() or (several and np.any(own[counted] != 1)):
        raise ValueError(
            "This machine learns all classes at once and needs a column per class: use code='ova'."
        )
    if len(np.unique(labels[counted])) < max(2, targets.shape[1]):
        raise ValueError("Every class needs a row of positive weight.")
    return labels


def both_classes(values: Array) -> Array:
    """Return a column per class; sum_r w_r = 0, so that two classes have opposite ones."""
    return np.hstack([-values, values]) / 2 if values.shape[1] == 1 else values


def _columns(scores: Array, columns: int) -> Array:
    """Return a column per class as the code has them: one for two classes."""
    return scores[:, 1:] - scores[:, :1] if columns == 1 else scores
