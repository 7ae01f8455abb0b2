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
from outcode._checks import Array, positive
from outcode.machines.all_classes import SHIFTS, AllClasses, Solve, both_classes
from outcode.machines.common import as_rows
from outcode.machines.kernel import KernelParameters, Task
from outcode.parallel import single_blas
from outcode.saved import Optional, reals
from outcode.solvers import spoc
from outcode.solvers.spoc import Solution

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


class CrammerSinger(CrammerSingerParameters, AllClasses):
    """Multiclass support vectors: one vector M_r per class, all learned in one problem (SPOC).

    Minimises  beta/2 sum_r |M_r|^2 + sum_i c_i xi_i  subject to  M_{y_i}.x_i - M_r.x_i >= 1 - xi_i
    for every r != y_i ([CS02] Eq. 31), c_i the weight of row i. It learns the classes of the
    one-vs-all code: the margin of column r is M_r.x, and with two classes, which have a single
    column, M_1.x - M_0.x, the support vector machine with C = 2 / beta.

    Parameters
    ----------
    kernel : str or callable, default="rbf"
        One of "rbf", "linear", "poly", "laplacian", "exponential", "sigmoid", "precomputed" or a
        function; beyond 2,000 rows "linear" keeps M instead of a Gram matrix.
    gamma : float, array-like of shape (n_features,) or {"scale", "auto"}, default="scale"
        "scale" (1 / (d var X)), "auto" (1 / d), a positive number or a number >= 0 for each
        feature.
    degree : int, default=3
        Degree of the polynomial kernel.
    coef0 : float, default=0.0
        Constant of the polynomial and the sigmoid kernel.
    class_weight : dict, "balanced" or None, default=None
        Weights of the *user's* classes.
    max_memory : float or None, default=None
        Bytes the Gram matrix may take; None is half of what is free.
    dtype : dtype or None, default=None
        Type of the Gram matrix; None is float64 up to 5,000 rows and float32 beyond.
    beta : float, default=1.0
        Weight of the norm; a larger one gives a smoother machine. Searches over C take 1 / C.
    bias : {"none", "kernel"}, default="none"
        With "none" there is no bias, as in the paper; with "kernel" 1 is added to the kernel: a
        bias per class.
    tol : float, default=1e-3
        Largest violation of the optimality conditions, in units of the required lead 1.
    max_iter : int, default=10_000_000
        Steps, one sample each; a small problem takes at most 20,000 per row.

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

    called = "SPOC"
    saved = {
        **AllClasses.saved,
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

    @property
    def scale(self) -> float:  # type: ignore[override]  # a number all the same
        """Beta: M_r = 1/beta sum_i tau_ir x_i."""
        return positive(self.beta, "beta")

    def solver(self, task: Task, labels: Array) -> Solve:
        b = dichotomies.margin_requirements(labels, max(2, int(labels.max()) + 1))
        features = task.gram.matrix is None and task.gram.kernel.linear
        solver: Any = spoc.solve_linear if features else spoc.solve
        rows = task.gram.rows.values if features else task.gram
        options = {
            "beta": self.scale,
            "shift": SHIFTS[self.bias],
            "tol": positive(self.tol, "tol"),
            "max_iter": min(self.max_iter, MOST_PASSES * len(labels)),
            "n_jobs": task.n_jobs,
        }

        def solve(weight: Array, start: Any) -> Solution:
            if start is not None and start[1] is None and not features:
                start = None  # of another Gram matrix: what tau gives on this one is not known
            return solver(rows, labels, b, weight, start=start, **options)

        return solve

    def remember(self, solution: Any, gram: grams.Gram) -> None:
        self.tau_, self.norm2_ = solution.tau, solution.norm2
        self.gram_diagonal_ = gram.diagonal
        if gram.kernel.linear:
            rows = self.support_rows_.values
            self.coef_ = np.ascontiguousarray((rows.T @ self.dual_coef_[self.pooled_]).T)

    def margins(self, X: Any) -> Array:
        check_is_fitted(self, "tau_")
        coef = getattr(self, "coef_", None)
        if coef is None:
            return super().margins(X)
        with single_blas():
            return np.asarray(as_rows(X) @ coef.T) + self.bias_

    def formula(self, x: Any) -> Any:
        coef = getattr(self, "coef_", None)
        return super().formula(x) if coef is None else x @ coef.T + self.bias_

    def packed(self) -> Mapping[str, Any]:
        values = super().packed()
        if getattr(self, "coef_", None) is None:
            return values
        cut = {name: values[name][:0] for name in ("dual_coef_", "use", "rows")}
        return {**values, **cut, "n_train_": 0}  # M is all that prediction needs: no row is kept

    def unpack(self, values: dict[str, Any]) -> None:
        super().unpack(values)
        self.tau_ = both_classes(self.dual_coef_) * self.beta


def _entries_per_row(X: Any) -> float:
    return X.nnz / X.shape[0] if sparse.issparse(X) else float(X.shape[1])


NAMES = {"spoc": CrammerSinger}
