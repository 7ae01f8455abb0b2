"""SPOC as a machine: all columns of the one-vs-all code solved together. [CS02]"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.utils.validation import check_is_fitted

from outcode import dichotomies, kernels
from outcode import gram as grams
from outcode._checks import Array, lookup, positive, row_weights
from outcode.machines.common import as_targets, warn_early
from outcode.machines.expansion import as_rows
from outcode.machines.kernel import KernelMachine, KernelParameters, as_store
from outcode.parallel import single_blas
from outcode.progress import progress
from outcode.saved import Optional, reals
from outcode.solvers import spoc
from outcode.solvers.spoc import Solution

#: What is added to the kernel.
SHIFTS = {"none": 0.0, "kernel": 1.0}
#: Most steps per row: what has not converged by then is ill-conditioned.
MOST_PASSES = 20_000
#: More rows than this are learned without a Gram matrix when the kernel is linear.
LINEAR_ROWS = 2000


@dataclass(eq=False, repr=False)
class CrammerSingerParameters(KernelParameters):
    """The parameters of :class:`CrammerSinger`."""

    beta: float = field(default=1.0, kw_only=True)
    bias: str = field(default="none", kw_only=True)
    tol: float = field(default=1e-3, kw_only=True)
    max_iter: int = field(default=10_000_000, kw_only=True)


class CrammerSinger(CrammerSingerParameters, KernelMachine):
    """Multiclass support vectors: one vector M_r per class, all learned in one problem (SPOC).

    Minimises  beta/2 sum_r |M_r|^2 + sum_i c_i xi_i  subject to  M_{y_i}.x_i - M_r.x_i >= 1 - xi_i
    for every r != y_i ([CS02] Eq. 31), c_i the weight of row i. It learns the classes of the
    one-vs-all code: the margin of column r is M_r.x, and with two classes, which have a single
    column, M_1.x - M_0.x, the support vector machine with C = 2 / beta.

    Parameters
    ----------
    kernel : "rbf", "linear", "poly", "laplacian", "exponential", "sigmoid", "precomputed" or a
        function; beyond 2,000 rows "linear" keeps M instead of a Gram matrix
    gamma : number, "scale" (1 / (d var X)) or "auto" (1 / d)
    degree, coef0 : of the polynomial and the sigmoid kernel
    beta : weight of the norm; a larger one gives a smoother machine. Searches over C take 1 / C
    bias : "none" (the paper's) or "kernel" (1 is added to the kernel: a bias per class)
    tol : largest violation of the optimality conditions, in units of the required lead 1
    class_weight : weights of the *user's* classes, a dict or "balanced"
    max_memory : bytes the Gram matrix may take; None is half of what is free
    dtype : of the Gram matrix; None is float64 up to 5,000 rows and float32 beyond
    max_iter : steps, one sample each; a small problem takes at most 20,000 per row

    Attributes
    ----------
    tau_ : (n_samples, n_classes) dual variables, tau_ir <= c_i [r = y_i], rows sum to 0
    coef_ : (n_dichotomies, n_features), for the linear kernel only
    objective_, dual_objective_, gap_ : primal and dual value, their difference over the primal
    norm2_ : (n_classes,) squared norms of M_r, the bias included
    n_iter_ : steps
    training_margins_ : (n_samples, n_dichotomies)

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from outcode import OutputCodeClassifier
    >>> X, y = load_iris(return_X_y=True)
    >>> clf = OutputCodeClassifier("ova", "spoc", "likelihood").fit(X, y)
    >>> clf.predict_proba(X).shape
    (150, 3)
    """

    saved = {
        **KernelMachine.saved,
        "coef_": Optional(reals("n_dichotomies", "n_features")),
    }

    def setting(self, gamma: float | None, C: float | None) -> dict[str, float]:
        given = {"gamma": gamma, "beta": None if C is None else 1.0 / C}
        return {name: value for name, value in given.items() if value is not None}

    @property
    def cost(self) -> float | None:
        """1 / beta."""
        return 1.0 / self.beta

    def gram(
        self, X: Any, targets: Any, sample_weight: Any = None, *, n_jobs: int | None = None
    ) -> grams.Gram:
        """Return the Gram store; of a linear kernel and many rows only the rows are kept."""
        if kernels.named(self.kernel).linear:
            X = as_rows(X)
            if X.shape[0] > max(LINEAR_ROWS, _entries_per_row(X)):
                return grams.features(X)
        return super().gram(X, targets, sample_weight, n_jobs=n_jobs)

    def fit_gram(
        self,
        gram: Any,
        targets: Any,
        sample_weight: Any = None,
        *,
        n_jobs: int | None = None,
        verbose: int = 0,
        start: Any = None,
    ) -> CrammerSinger:
        """Train all classes on a Gram matrix or store, from the solution of ``start`` if given."""
        gram = as_store(gram)
        targets = as_targets(targets, len(gram))
        problem = _Classes.of(self, gram, targets, row_weights(sample_weight, len(gram)), n_jobs)
        solution = problem.solve(problem.mass, _solution_of(start, self.beta))
        warn_early(solution, self.tol, "SPOC")
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
        check_is_fitted(self, "tau_")
        gram = as_store(gram)
        targets = as_targets(targets, len(gram))
        problem = _Classes.of(self, gram, targets, row_weights(sample_weight, len(gram)), n_jobs)
        out, numbers = self.training_margins_.copy(), np.unique(fold[fold >= 0])
        start = _solution_of(self, self.beta)
        with progress("folds", len(numbers), verbose) as report:
            for f in numbers:
                held = fold == f
                if self.tau_[held].any():  # without support vectors nothing changes
                    scores = problem.solve(np.where(held, 0.0, problem.mass), start).scores
                    out[held] = as_columns(scores, targets.shape[1])[held]
                report.advance()
        return out

    def margins(self, X: Any) -> Array:
        check_is_fitted(self, "tau_")
        coef = getattr(self, "coef_", None)
        if coef is None:
            return super().margins(X)
        with single_blas():
            return np.asarray(as_rows(X) @ coef.T) + self.bias_

    def packed(self) -> Mapping[str, Any]:
        values = super().packed()
        if getattr(self, "coef_", None) is None:
            return values
        cut = {name: values[name][:0] for name in ("dual_coef_", "use", "rows")}
        return {**values, **cut, "n_train_": 0}  # M is all that prediction needs: no row is kept

    def unpack(self, values: dict[str, Any]) -> None:
        super().unpack(values)
        two = self.dual_coef_.shape[1] == 1
        self.tau_ = both_classes(self.dual_coef_ / 2 if two else self.dual_coef_) * self.beta

    def _remember(self, solution: Solution, gram: grams.Gram, targets: Array) -> None:
        self.tau_ = solution.tau
        columns = targets.shape[1]
        self.training_margins_ = as_columns(solution.scores, columns)
        self.dual_coef_ = as_columns(solution.tau / self.beta, columns)
        self.bias_ = SHIFTS[self.bias] * self.dual_coef_.sum(axis=0)
        self.objective_, self.dual_objective_ = solution.objective, solution.dual_objective
        self.gap_, self.norm2_, self.n_iter_ = solution.gap, solution.norm2, solution.n_iter
        self.gram_diagonal_ = gram.diagonal
        self.expand(gram, np.ones_like(targets))
        if gram.kernel.linear:
            rows = self.support_rows_.values
            self.coef_ = np.ascontiguousarray((rows.T @ self.dual_coef_[self.pooled_]).T)


@dataclass(frozen=True)
class _Classes:
    """The problem of all classes on a Gram store, or on the rows of a linear kernel."""

    machine: CrammerSinger
    gram: grams.Gram
    labels: Array
    mass: Array
    n_jobs: int | None

    @classmethod
    def of(
        cls, machine: CrammerSinger, gram: grams.Gram, targets: Array, mass: Array, n_jobs: Any
    ) -> _Classes:
        lookup(SHIFTS, machine.bias, "bias")
        labels = class_of(targets, mass)
        if gram.order is not None:
            raise ValueError("This Gram store has its rows sorted for a code: build one without.")
        return cls(machine, gram, labels, mass, n_jobs)

    def solve(self, mass: Array, start: tuple[Array, Array | None] | None) -> Solution:
        """Return the optimum for some weights, from (tau, K tau) of a solution or nothing."""
        machine, beta = self.machine, positive(self.machine.beta, "beta")
        b = dichotomies.margin_requirements(self.labels, max(2, int(self.labels.max()) + 1))
        features = self.gram.matrix is None and self.gram.kernel.linear
        solver: Any = spoc.solve_linear if features else spoc.solve
        rows = self.gram.rows.values if features else self.gram
        if start is not None and start[1] is None and not features:
            start = None  # of another Gram matrix: what tau gives on this one is not known
        return solver(
            rows,
            self.labels,
            b,
            mass,
            beta=beta,
            shift=SHIFTS[machine.bias],
            tol=positive(machine.tol, "tol"),
            max_iter=min(machine.max_iter, MOST_PASSES * len(self.labels)),
            start=start,
            n_jobs=self.n_jobs,
        )


def class_of(targets: Array, weight: Array) -> Array:
    """Return the class of each row of one-vs-all targets; an error for those of another code."""
    labels = targets.argmax(axis=1) if targets.shape[1] > 1 else (targets[:, 0] > 0).astype(int)
    counted = weight > 0
    own = (targets > 0).sum(axis=1)
    several = targets.shape[1] > 1
    if (targets == 0).any() or (several and np.any(own[counted] != 1)):
        raise ValueError(
            "This machine learns all classes at once and needs a column per class: use code='ova'."
        )
    if len(np.unique(labels[counted])) < max(2, targets.shape[1]):
        raise ValueError("Every class needs a row of positive weight.")
    return labels


def both_classes(values: Array) -> Array:
    """Return a column per class: the single column of two classes has the opposite beside it."""
    return np.hstack([-values, values]) if values.shape[1] == 1 else values


def as_columns(scores: Array, columns: int) -> Array:
    """Return a column per class as the code has them: one for two classes."""
    return scores[:, 1:] - scores[:, :1] if columns == 1 else scores


def _scores(margins: Array) -> Array:
    """Return M_r.x of the training rows; sum_r M_r = 0, so that two classes have opposite ones."""
    return both_classes(margins / 2) if margins.shape[1] == 1 else margins


def _solution_of(start: Any, beta: float) -> tuple[Array, Array | None] | None:
    """Return tau and K tau with which M = K tau / beta is that of a machine to start from."""
    if start is None:
        return None
    margins, tau = start.training_margins_, start.tau_ * (beta / start.beta)
    return tau, None if margins is None else _scores(margins) * beta


def _entries_per_row(X: Any) -> float:
    return X.nnz / X.shape[0] if sparse.issparse(X) else float(X.shape[1])


NAMES = {"spoc": CrammerSinger}
