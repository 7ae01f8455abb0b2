"""Support vector machines, every column on the same Gram matrix."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import check_is_fitted

from outcode import gram as grams
from outcode._checks import Array, lookup, positive, row_weights, warn
from outcode.machines.common import as_targets, check_signs
from outcode.machines.kernel import KernelMachine, as_store
from outcode.parallel import thread_map
from outcode.progress import progress
from outcode.solvers.svm import columns as duals


@dataclass(eq=False, repr=False)
class SVM(KernelMachine):
    """Support vector machines on one shared Gram matrix.

    Column s minimises  1/2 |w_s|^2 + sum_i C_i max(0, 1 - t_is f_s(x_i))  over its own rows, with
    C_i = C times the weight of row i.

    Parameters
    ----------
    kernel : "rbf", "linear", "poly", "laplacian", "exponential", "sigmoid", "precomputed" or a
        function
    gamma : number, "scale" (1 / (d var X)) or "auto" (1 / d)
    degree, coef0 : of the polynomial and the sigmoid kernel
    C : upper bound of each alpha
    bias : "kernel" (1 is added to the kernel; what the leave-one-out theory needs), "free"
        (LIBSVM's) or "none"
    tol : largest violation of the optimality conditions
    class_weight : weights of the *user's* classes, a dict or "balanced"
    max_memory : bytes the Gram matrix may take; None is half of what is free
    dtype : of the Gram matrix; None is float64 up to 5,000 rows and float32 beyond
    max_iter : steps per column

    Attributes
    ----------
    dual_coef_ : (n_samples, n_dichotomies) alpha times target
    bias_, norm2_, objective_, gap_, n_iter_ : (n_dichotomies,) bias, squared norm of w (the bias
        included when it is in the kernel), primal objective, relative duality gap, steps
    support_ : rows that are a support vector of some column
    training_margins_ : (n_samples, n_dichotomies) margins on the training rows

    Examples
    --------
    >>> machine = SVM(kernel="linear", C=10).fit([[0.0], [1.0]], [[-1], [1]])
    >>> np.sign(machine.margins([[-1.0], [3.0]])).ravel().astype(int).tolist()
    [-1, 1]
    """

    C: float = field(default=1.0, kw_only=True)
    bias: str = field(default="kernel", kw_only=True)
    tol: float = field(default=1e-3, kw_only=True)
    max_iter: int = field(default=10_000_000, kw_only=True)

    def fit_gram(
        self,
        gram: Any,
        targets: Any,
        sample_weight: Any = None,
        *,
        n_jobs: int | None = None,
        verbose: int = 0,
        start: Any = None,
    ) -> SVM:
        """Train all columns on a Gram matrix or store, from the solution of ``start`` if given.

        The margins of ``start`` are those on this Gram matrix, or None.
        """
        gram = as_store(gram)
        targets = as_targets(targets, len(gram))
        weight = row_weights(sample_weight, len(gram))
        check_signs(targets, weight)
        with progress("columns", targets.shape[1], verbose) as report:

            def column(s: int) -> duals.Solution:
                begin = None if start is None else start.solution(s)
                solution = self._column(gram, targets[:, s], weight, begin)
                report.advance()
                return solution

            solutions = thread_map(column, range(targets.shape[1]), n_jobs)
        self._remember(gram, targets, solutions)
        return self

    def held_out_margins(
        self,
        gram: grams.Gram,
        targets: Array,
        fold: Array,
        sample_weight: Any = None,
        *,
        n_jobs: int | None = None,
        verbose: int = 0,
    ) -> Array:
        """Return margins of each row under machines trained without its fold.

        ``fold`` (n_samples,) numbers the folds, -1 for a row that is never left out; the fitted
        solution is where each one starts.
        """
        check_is_fitted(self, "dual_coef_")
        weight = row_weights(sample_weight, len(gram))
        out = self.training_margins_.copy()
        tasks = [(f, s) for f in np.unique(fold[fold >= 0]) for s in range(targets.shape[1])]
        with progress("folds x columns", len(tasks), verbose) as report:

            def task(pair: tuple[int, int]) -> None:
                f, s = pair
                test = fold == f
                if self.dual_coef_[test, s].any():  # without support vectors nothing changes
                    kept = np.where(test, 0.0, weight)
                    solution = self._column(gram, targets[:, s], kept, self.solution(s))
                    out[test, s] = solution.margins[test]
                report.advance()

            thread_map(task, tasks, n_jobs)
        return out

    def removals(
        self,
        gram: grams.Gram,
        targets: Array,
        rows: Array,
        sample_weight: Any = None,
        *,
        n_jobs: int | None = None,
    ) -> Array:
        """Bound and estimate how far each margin of some rows falls, on its own side, without it.

        Returns (2, len(rows), n_dichotomies) lengths, for a bias in the kernel or none: the bound,
        at most alpha_i G_ii ([PPF04] Lemma 1.1), and the estimate; see :func:`duals.removals`.
        """
        check_is_fitted(self, "dual_coef_")
        box = positive(self.C, "C") * row_weights(sample_weight, len(gram))
        order = np.arange(len(gram)) if gram.order is None else gram.order
        arrays, place = (targets, self.dual_coef_, self.training_margins_), grams.places(gram)[rows]

        def column(s: int) -> Array:
            y, dual_coef, margins = (a[order, s].astype(np.float64) for a in arrays)
            return duals.removals(gram, y, box[order], dual_coef, margins, place, self.bias)

        return np.stack(thread_map(column, range(targets.shape[1]), n_jobs), axis=2)

    def _column(
        self,
        gram: grams.Gram,
        target: Array,
        weight: Array,
        start: tuple[Array, Array | None] | None = None,
    ) -> duals.Solution:
        order = slice(None) if gram.order is None else gram.order
        y = target[order].astype(np.float64)
        box = np.where(y != 0, positive(self.C, "C") * weight[order], 0.0)
        if start is not None:
            start = start[0][order], None if start[1] is None else start[1][order]
        lookup(duals.BIASES, self.bias, "bias")
        solution = duals.solve(
            gram,
            y,
            box,
            bias=self.bias,
            tol=positive(self.tol, "tol"),
            max_iter=self.max_iter,
            start=start,
        )
        if gram.order is None:
            return solution
        dual_coef, margins = np.empty(len(gram)), np.empty(len(gram))
        dual_coef[order], margins[order] = solution.dual_coef, solution.margins
        return replace(solution, dual_coef=dual_coef, margins=margins)

    def solution(self, s: int) -> tuple[Array, Array | None]:
        """Return the dual variables of a column and its training margins without a free bias."""
        if self.training_margins_ is None:
            return self.dual_coef_[:, s], None
        free = self.bias_[s] if self.bias == "free" else 0.0
        return self.dual_coef_[:, s], self.training_margins_[:, s] - free

    def _remember(
        self, gram: grams.Gram, targets: Array, solutions: Sequence[duals.Solution]
    ) -> None:
        self.dual_coef_ = np.empty(targets.shape, order="F")
        self.training_margins_ = np.empty(targets.shape, order="F")
        self.gram_diagonal_ = np.empty(len(gram))
        self.gram_diagonal_[slice(None) if gram.order is None else gram.order] = gram.diagonal
        for s, solution in enumerate(solutions):
            self.dual_coef_[:, s] = solution.dual_coef
            self.training_margins_[:, s] = solution.margins
        self.bias_ = np.array([solution.bias for solution in solutions])
        self.norm2_ = np.array([solution.norm2 for solution in solutions])
        self.objective_ = np.array([solution.objective for solution in solutions])
        self.gap_ = np.array([solution.gap for solution in solutions])
        self.n_iter_ = np.array([solution.n_iter for solution in solutions])
        self.expand(gram, targets)
        _warn_unconverged(solutions, self.tol)


def _warn_unconverged(solutions: Sequence[duals.Solution], tol: float) -> None:
    late = [solution for solution in solutions if not solution.converged]
    if late:
        worst = max(late, key=lambda solution: solution.violation)
        warn(
            f"{len(late)} of {len(solutions)} columns stopped early: the largest violation of the "
            f"optimality conditions is {worst.violation:.2g} (tol={tol:g}), the relative duality "
            f"gap {worst.gap:.2g}. Raise max_iter, ask for dtype='float64', or scale the features.",
            ConvergenceWarning,
        )


NAMES = {"svm": SVM}
