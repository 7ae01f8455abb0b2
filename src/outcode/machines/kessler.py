"""Kessler's construction as a machine: every row beats every other class. [EPY08] section 2"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import check_is_fitted

from outcode._checks import Array, positive, row_weights, warn
from outcode.machines.common import as_targets
from outcode.machines.crammer_singer import class_of
from outcode.machines.kernel import KernelMachine, KernelParameters, as_store
from outcode.progress import progress
from outcode.solvers import kessler as solver


@dataclass(eq=False, repr=False)
class KesslerParameters(KernelParameters):
    """The parameters of :class:`Kessler`."""

    C: float = field(default=1.0, kw_only=True)
    tol: float = field(default=1e-3, kw_only=True)
    max_iter: int = field(default=1000, kw_only=True)


class Kessler(KesslerParameters, KernelMachine):
    """One vector w_r per class, learned from difference vectors: Kessler's construction.

    A row x of class i and every other class j make a vector with x in block i and -x in block j of
    n_classes blocks; a support vector machine without a bias has all of them on its positive side
    (Duda & Hart 1973, section 5.12.1; [EPY08] section 2). It minimises

        1/2 sum_r |w_r|^2 + sum_i C_i sum_{j != y_i} max(0, 1 - (w_{y_i} - w_j) . x_i),

    on dual variables of pairs of a row and a class: the difference vectors are never built.
    *Constraint classification* (Har-Peled, Roth & Zimak 2003) adds the negative of each vector with
    the label -1; without a bias that counts every pair twice, and the machine with C / 2 is the
    same.

    It learns the classes of the one-vs-all code: the margin of column r is w_r . x, and with two
    classes, which have a single column, w_1 . x - w_0 . x. There is no bias: a linear kernel
    wants a column of ones among the features.

    Parameters
    ----------
    kernel : "rbf", "linear", "poly", "laplacian", "exponential", "sigmoid", "precomputed" or a
        function
    gamma : number, "scale" (1 / (d var X)) or "auto" (1 / d)
    degree, coef0 : of the polynomial and the sigmoid kernel
    C : upper bound of each dual variable
    tol : largest violation of the optimality conditions, in units of the required lead 1
    class_weight : weights of the *user's* classes, a dict or "balanced"
    max_memory : bytes the Gram matrix may take; None is half of what is free
    dtype : of the Gram matrix; None is float64 up to 5,000 rows and float32 beyond
    max_iter : passes over all rows

    Attributes
    ----------
    pair_coef_ : (n_samples, n_classes) alpha_ij, 0 for the class of the row
    objective_, gap_ : primal value, and its relative distance to the dual value
    n_iter_ : passes
    training_margins_ : (n_samples, n_dichotomies)

    Examples
    --------
    Three classes on a line, which no machine of one class against the others separates:

    >>> from outcode import OutputCodeClassifier
    >>> X, y = [[-1.0, 1.0], [0.0, 1.0], [1.0, 1.0]], [0, 1, 2]
    >>> machine = Kessler(kernel="linear", C=100)
    >>> OutputCodeClassifier("ova", machine, "linear").fit(X, y).predict(X).tolist()
    [0, 1, 2]
    """

    left_out = (*KernelMachine.left_out, "pair_coef_")

    def fit_gram(
        self,
        gram: Any,
        targets: Any,
        sample_weight: Any = None,
        *,
        n_jobs: int | None = None,
        verbose: int = 0,
        start: Any = None,
    ) -> Kessler:
        """Train all classes on a Gram matrix or store, from the solution of ``start`` if given."""
        gram = as_store(gram)
        targets = as_targets(targets, len(gram))
        pairs = None if start is None else vars(start).get("pair_coef_")
        solution = self._solve(gram, targets, row_weights(sample_weight, len(gram)), pairs)
        _warn_unconverged([solution], self.tol)
        self.pair_coef_, self.gap_, self.n_iter_ = solution.alpha, solution.gap, solution.n_iter
        self.objective_, self.gram_diagonal_ = solution.objective, gram.diagonal
        self.training_margins_ = _columns(solution.scores, targets)
        self.dual_coef_ = _columns(solution.coef, targets)
        self.bias_ = np.zeros(targets.shape[1])
        self.expand(gram, np.ones_like(targets))
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
        check_is_fitted(self, "pair_coef_")
        gram = as_store(gram)
        targets, weight = as_targets(targets, len(gram)), row_weights(sample_weight, len(gram))
        out, numbers = self.training_margins_.copy(), np.unique(fold[fold >= 0])
        solved = []
        with progress("folds", len(numbers), verbose) as report:
            for f in numbers:
                held = fold == f
                part = np.where(held, 0.0, weight)
                solved.append(self._solve(gram, targets, part, self.pair_coef_))
                out[held] = _columns(solved[-1].scores, targets)[held]
                report.advance()
        _warn_unconverged(solved, self.tol)
        return out

    def row_order(self, targets: Array) -> Array | None:
        return None

    def _solve(
        self, gram: Any, targets: Array, weight: Array, start: Array | None
    ) -> solver.Solution:
        return solver.solve(
            gram,
            class_of(targets, weight),
            positive(self.C, "C") * weight,
            max(2, targets.shape[1]),
            tol=positive(self.tol, "tol"),
            max_iter=self.max_iter,
            start=start,
        )


def _columns(scores: Array, targets: Array) -> Array:
    """Return a column per class as the code has them: one for two classes."""
    return scores[:, 1:] - scores[:, :1] if targets.shape[1] == 1 else scores


def _warn_unconverged(solved: list[solver.Solution], tol: float) -> None:
    early = [solution for solution in solved if not solution.converged]
    if early:
        worst = max(early, key=lambda solution: solution.violation)
        warn(
            f"{len(early)} of {len(solved)} machines stopped early: the largest violation of the "
            f"optimality conditions is {worst.violation:.2g} (tol={tol:g}), the relative duality "
            f"gap {worst.gap:.2g}. Raise max_iter, or scale the features.",
            ConvergenceWarning,
        )


NAMES = {"kessler": Kessler}
