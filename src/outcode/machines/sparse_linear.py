"""Linear machines with few features: the l1 forms of [LZCX16] Eq. 1"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse
from scipy.optimize import linprog
from sklearn import linear_model
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import check_is_fitted

from outcode._checks import Array, lookup, positive, row_weights, warn
from outcode.machines.common import Machine, as_rows, as_targets, check_signs
from outcode.parallel import single_blas, thread_map
from outcode.saved import reals
from outcode.scores import settled


class SparseLinear(Machine):
    """Linear machines with an l1 penalty, hinge or squared loss ([LZCX16] Eq. 1).

    Column l minimises over w and b, on its own rows, N_l the sum of their weights c_i,

        1/N_l sum_i c_i loss(t_il (w.x_i + b)) + lambda1 |w|_1,

    loss(z) = max(0, 1 - z) ("hinge", a linear program, solved by HiGHS) or (1 - z)^2 ("squared",
    the lasso, by coordinate descent). Many entries of w are 0: the column does not use that
    feature. With V(w) = 1/2 |w|^2 in its place Eq. 1 is :class:`SVM` (hinge, C = 1 / (N lambda1))
    and :class:`LeastSquares`; with the relation between columns (Eq. 3 and 4) it is :class:`Joint`,
    with the hinge loss ``SingleBinary("direct")``. The paper names these forms and leaves them.
    Features should be of like scale.

    Parameters
    ----------
    loss : {"hinge", "squared"}, default="hinge"
        The loss.
    lambda1 : float, default=0.01
        Weight of the sum of absolute weights.
    tol : float, default=1e-6
        Relative duality gap to stop at.
    max_iter : int, default=100_000
        Rounds of coordinate descent.

    Attributes
    ----------
    coef_ : (n_features, n_dichotomies) w
    bias_, objective_, gap_ : (n_dichotomies,) bias, objective, and its relative duality gap
    training_margins_ : (n_samples, n_dichotomies)

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from outcode import OutputCodeClassifier
    >>> X, y = load_iris(return_X_y=True)
    >>> clf = OutputCodeClassifier("ova", SparseLinear(lambda1=0.05)).fit(X, y)
    >>> clf.machine_.coef_.shape, bool((clf.machine_.coef_ == 0).any())
    ((4, 3), True)
    """

    saved = {"coef_": reals("n_features", "n_dichotomies"), "bias_": reals("n_dichotomies")}
    left_out = ("training_margins_",)

    def __init__(
        self,
        loss: str = "hinge",
        lambda1: float = 0.01,
        *,
        tol: float = 1e-6,
        max_iter: int = 100_000,
    ) -> None:
        self.loss = loss
        self.lambda1 = lambda1
        self.tol = tol
        self.max_iter = max_iter

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags

    def fit(
        self,
        X: Any,
        targets: Array,
        sample_weight: Any = None,
        *,
        n_jobs: int | None = None,
        verbose: int = 0,
    ) -> SparseLinear:
        X = as_rows(X)
        targets = as_targets(targets, X.shape[0])
        weight = row_weights(sample_weight, X.shape[0])
        check_signs(targets, weight)
        solve = lookup(SOLVERS, self.loss, "loss")
        limits = positive(self.lambda1, "lambda1"), positive(self.tol, "tol"), self.max_iter

        def column(s: int) -> _Solved:
            rows = np.flatnonzero((targets[:, s] != 0) & (weight > 0))
            mass = weight[rows] / weight[rows].sum()
            with single_blas():
                return solve(X[rows], targets[rows, s].astype(np.float64), mass, *limits)

        found = thread_map(column, range(targets.shape[1]), n_jobs)
        self.coef_ = np.column_stack([one.w for one in found])
        self.bias_ = np.array([one.b for one in found])
        self.objective_ = np.array([one.objective for one in found])
        self.gap_ = np.array([one.gap for one in found])
        self.training_margins_ = self.margins(X)
        _warn_gap(self.gap_, self.tol)
        return self

    def margins(self, X: Any) -> Array:
        check_is_fitted(self, "coef_")
        with single_blas():
            return settled(np.asarray(as_rows(X) @ self.coef_) + self.bias_)

    def gradients(self, X: Any) -> Array:
        """Return the derivatives of the margins by the features, the same for every row."""
        return np.tile(self.coef_.T, (X.shape[0], 1, 1))

    def held_out_margins(
        self,
        X: Any,
        targets: Array,
        fold: Array,
        sample_weight: Any = None,
        *,
        n_jobs: int | None = None,
        verbose: int = 0,
    ) -> Array:
        """Return margins of each row under machines trained without its fold (-1: none)."""
        out, weight = self.training_margins_.copy(), row_weights(sample_weight, X.shape[0])
        for f in np.unique(fold[fold >= 0]):
            kept = np.where(fold == f, 0.0, weight)
            machine = clone(self).fit(X, targets, kept, n_jobs=n_jobs, verbose=verbose)
            out[fold == f] = machine.training_margins_[fold == f]
        return out


@dataclass(frozen=True)
class _Solved:
    """The weights and bias of one column, its objective and relative duality gap."""

    w: Array
    b: float
    objective: float
    gap: float


def _hinge(X: Any, t: Array, mass: Array, lambda1: float, tol: float, max_iter: int) -> _Solved:
    """Solve min mass.xi + lambda1 sum (p + q)  s.t.  t (X (p - q) + b) + xi >= 1; p, q, xi >= 0.

    The dual is max sum a, 0 <= a <= mass, t.a = 0, |X'(t a)|_inf <= lambda1.
    """
    n, d = X.shape
    signed = sparse.diags_array(t) @ sparse.csr_matrix(X)
    A = sparse.hstack([-signed, signed, -t[:, None], -sparse.identity(n)], format="csc")
    costs = np.concatenate([np.full(2 * d, lambda1), [0.0], mass])
    bounds = [(0, None)] * (2 * d) + [(None, None)] + [(0, None)] * n
    found = linprog(costs, A_ub=A, b_ub=-np.ones(n), bounds=bounds, method="highs")
    if found.x is None:
        raise ValueError(
            f"The linear program of a column was not solved: scale the features first, for example "
            f"with sklearn.preprocessing.StandardScaler. ({found.message})"
        )
    w, b = found.x[:d] - found.x[d : 2 * d], float(found.x[2 * d])
    loss = float(mass @ np.maximum(0.0, 1.0 - t * (X @ w + b)))
    objective = loss + lambda1 * float(np.abs(w).sum())
    dual = np.clip(-found.ineqlin.marginals, 0.0, mass)
    most = float(np.abs(signed.T @ dual).max(initial=0.0))
    lower = float(dual.sum()) * min(1.0, lambda1 / max(most, 1e-300))
    return _Solved(w, b, objective, max(0.0, objective - lower) / max(objective, 1e-300))


def _squared(X: Any, t: Array, mass: Array, lambda1: float, tol: float, max_iter: int) -> _Solved:
    """Solve the lasso: min sum_i mass_i (t_i - w.x_i - b)^2 + lambda1 |w|_1.

    With e the errors, the dual of half of it is max sum mass t' u - mass u^2 / 2 over |X'(mass u)|
    <= lambda1 / 2, sum mass u = 0; u = e, shortened, bounds it.
    """
    lasso = linear_model.Lasso(alpha=lambda1 / 2.0, tol=tol, max_iter=max_iter)
    lasso.fit(X, t, sample_weight=mass * len(t))
    w = np.asarray(lasso.coef_, dtype=np.float64)
    b = float(mass @ (t - X @ w))
    error = t - X @ w - b
    objective = float(mass @ error**2) + lambda1 * float(np.abs(w).sum())
    most = float(np.abs(X.T @ (mass * error)).max(initial=0.0))
    u = error * min(1.0, lambda1 / 2.0 / max(most, 1e-300))
    lower = float(mass @ (2.0 * t * u - u**2))
    return _Solved(w, b, objective, max(0.0, objective - lower) / max(objective, 1e-300))


SOLVERS: dict[str, Callable[..., _Solved]] = {"hinge": _hinge, "squared": _squared}


def _warn_gap(gap: Array, tol: float) -> None:
    late = gap > 100.0 * tol
    if late.any():
        warn(
            f"{late.sum()} of {len(gap)} columns stopped early, at most {100 * gap.max():.2g} % "
            f"above the optimum: raise max_iter, or scale the features.",
            ConvergenceWarning,
        )
