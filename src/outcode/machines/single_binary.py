"""The single binary classifier as a machine: one problem for the copies of all columns. [EPY08]

Every training row x_i makes one copy (i, r) per column of the code, with the column's target; one
support vector machine with a free bias learns all of them. The kernel of two copies is the sample
kernel times the class kernel (Eq. 5-6),

    K((i, r), (j, s)) = K_x(x_i, x_j) K_M(r, s),

so that K = K_x (x) K_M, of which only the two factors are ever held: memory grows with m^2, not
(cm)^2. What is one-vs-all when K_M is diagonal becomes a joint problem when it is not; K_M comes
from a matrix of feature extensions M, one row per column, or is learned (Algorithm 2).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from outcode import gram as grams
from outcode._checks import Array, lookup, positive, warn
from outcode.machines.class_kernels import (
    CLASS_KERNELS,
    EXTENSIONS,
    as_extensions,
    as_weights,
    prior_weights,
)
from outcode.machines.common import Solved, warn_early
from outcode.machines.kernel import KernelMachine, KernelParameters, Task
from outcode.parallel import single_blas
from outcode.progress import progress
from outcode.saved import reals
from outcode.solvers import sbc


@dataclass(eq=False, repr=False)
class ExtensionParameter:
    """The parameter that comes first."""

    extension: Any = "kernel"


@dataclass(eq=False, repr=False)
class SingleBinaryParameters(KernelParameters, ExtensionParameter):
    """The parameters of :class:`SingleBinary`."""

    class_kernel: str = field(default="rbf", kw_only=True)
    class_gamma: float | None = field(default=None, kw_only=True)
    C: float = field(default=1.0, kw_only=True)
    radius: float | str = field(default="sqrt", kw_only=True)
    weights: Any = field(default="learned", kw_only=True)
    update: str = field(default="paper", kw_only=True)
    tol: float = field(default=1e-3, kw_only=True)
    kernel_tol: float = field(default=1e-3, kw_only=True)
    max_iter: int = field(default=10_000_000, kw_only=True)
    max_updates: int = field(default=1000, kw_only=True)


class SingleBinary(SingleBinaryParameters, KernelMachine):
    """All columns in one binary problem [EPY08].

    Minimises  1/2 |w|^2 + sum_i C_i sum_r max(0, 1 - y_ir (w . phi_r(x_i) + b))  (Eq. 1), y_ir the
    target of row i in column r (+1 for its own class and -1 otherwise with one-vs-all),
    phi_r(x_i) . phi_s(x_j) = K_x(x_i, x_j) K_M(r, s) (Eq. 5-6). The margin of column r is h(z_r) of
    Eq. 9. The dual is LIBSVM's on the explicit kernel of all copies, which is never built: memory
    is that of the Gram matrix of the rows, and rows on demand if that is too large, too.

    Parameters
    ----------
    extension : {"kernel", "direct", "identity", "single"} or array-like, default="kernel"
        "kernel" (K_M learned as a combination of a basis kernel per column, Algorithm 2), "direct"
        (K_M itself, any positive semidefinite matrix of trace at most R), "identity", "single", a
        (n_columns, l) matrix of feature extensions M, or (n, n_columns, l): n of them, combined as
        by "kernel".
    kernel : str or callable, default="rbf"
        One of "rbf", "linear", "poly", "laplacian", "exponential", "sigmoid", "precomputed" or a
        function.
    gamma : float, array-like of shape (n_features,) or {"scale", "auto"}, default="scale"
        "scale" (1 / (d var X)), "auto" (1 / d), a positive number or a number >= 0 for each
        feature, which needs a ``class_gamma``.
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
    class_kernel : {"rbf", "linear", "precomputed"}, default="rbf"
        How extensions become K_M: "rbf" (Eq. 5), "linear" (M M') or "precomputed" (they are K_M).
    class_gamma : float or None, default=None
        Gamma of the class kernel; None is that of the sample kernel (1 if it has none).
    C : float, default=1.0
        Upper bound of each alpha (the paper's C / (cm)).
    radius : float or "sqrt", default="sqrt"
        R, largest sum of the kernel weights, or trace of K_M with "direct"; "sqrt" is the root of
        the number of rows (the sum of their weights).
    weights : {"learned", "prior"} or array-like, default="learned"
        Weights of the basis kernels: "learned", "prior" (R times the share of each class, a single
        solve) or an array.
    update : {"paper", "alternating"}, default="paper"
        "paper" is Algorithm 2; "alternating" goes to the minimum over the weights.
    tol : float, default=1e-3
        Largest violation of the optimality conditions.
    kernel_tol : float, default=1e-3
        With "paper" the largest relative change of the weights; with "alternating" and "direct" the
        largest relative gap to the minimum.
    max_iter : int, default=10_000_000
        Steps of one solve.
    max_updates : int, default=1000
        Updates of the kernel weights.

    Attributes
    ----------
    class_kernel_ : (n_columns, n_columns) K_M
    kernel_weights_ : (n,) mu; 1 for a single extension; with "direct" the entries of K_M on and
        above its diagonal
    kernel_bound_ : largest K_M(r, r) of any weights with the same sum
    copy_coef_ : (n_samples, n_columns) y_ir alpha_ir
    dual_coef_, bias_ : copy_coef_ @ class_kernel_, and b for every column
    objective_, gap_ : primal objective of the machine and its relative duality gap
    objective_path_ : g_d (Eq. 2) after each solve
    kernel_gap_ : relative gap of the objective to its minimum over the weights; NaN for one kernel
    n_iter_, n_updates_ : steps, and updates of the weights
    training_margins_ : (n_samples, n_columns)

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from outcode import OutputCodeClassifier
    >>> X, y = load_iris(return_X_y=True)
    >>> clf = OutputCodeClassifier("ova", SingleBinary("identity", C=10), "softmax").fit(X, y)
    >>> clf.machine_.class_kernel_.shape
    (3, 3)
    """

    #: The tolerances that are looser in a training that only ranks settings, and how many times.
    trial_tolerances: ClassVar[tuple[str, ...]] = ("tol", "kernel_tol")
    trial_slack: ClassVar[float] = 10.0
    saved = {
        **KernelMachine.saved,
        "class_kernel_": reals("n_dichotomies", "n_dichotomies"),
        "kernel_weights_": reals("n_kernels"),
        "copy_coef_": reals("n_rows", "n_dichotomies"),
    }

    def row_order(self, targets: Array) -> Array | None:
        return None

    def train(self, task: Task, start: Any) -> None:
        gram, targets, weight = task.gram, task.targets, task.weight
        problem = sbc.begin(gram, targets, positive(self.C, "C") * weight)
        basis = self._basis(targets.shape[1], gram)
        with single_blas():
            mu = None
            if start is not None:
                problem.start_from(start.copy_coef_.T)
                if self.update == "paper":  # a weight of 0 would stay 0 with "alternating"
                    mu = start.kernel_weights_
            mass, total = weight @ (targets > 0), weight.sum()
            learned = self._learn(problem, basis, mass, total, mu, task.verbose)
        self._remember(problem, learned)
        sum_of_weights = learned.weights.sum()
        if self._is_direct():
            sum_of_weights = float(np.trace(learned.class_kernel)) * len(learned.class_kernel)
        self.kernel_bound_ = float(sum_of_weights * basis.diagonal(0, 1, 2).max())
        self.expand(gram, np.ones_like(targets))

    def holding_out(self, task: Task) -> Callable[[Array], Solved]:
        """Return a function from rows to margins without them; the class kernel is that of all."""
        problem = sbc.begin(task.gram, task.targets, positive(self.C, "C") * task.weight)
        problem.set_rows(np.arange(len(task.gram)), self.copy_coef_.T)

        def leave_out(rows: Array) -> Solved:
            part = problem.without(rows)
            solution = sbc.solve(part, self.class_kernel_, self.tol, self.max_iter)
            return (self.class_kernel_ @ part.F).T + solution.bias, solution

        return leave_out

    def packed(self) -> Mapping[str, Any]:
        values = super().packed()
        if not values:
            return values
        return {**values, "copy_coef_": np.ascontiguousarray(self.copy_coef_[self.kept_])}

    # --- the class kernel ---

    def _basis(self, n_columns: int, gram: grams.Gram) -> Array:
        """Return the class kernels to combine, (n, n_columns, n_columns)."""
        if isinstance(self.extension, str):
            extensions = lookup(EXTENSIONS, self.extension, "extension")(n_columns)
        else:
            extensions = as_extensions(self.extension, n_columns)
        name = "linear" if self._is_direct() else self.class_kernel
        kind = lookup(CLASS_KERNELS, name, "class_kernel")
        gamma = self._class_gamma(gram)
        return np.stack([kind(M, gamma) for M in extensions])

    def _is_direct(self) -> bool:
        return isinstance(self.extension, str) and self.extension == "direct"

    def _class_gamma(self, gram: grams.Gram) -> float:
        if self.class_gamma is not None:
            return positive(self.class_gamma, "class_gamma")
        if not isinstance(self.gamma, str):
            return positive(self.gamma, "gamma")
        return float(gram.kernel.gamma) if gram.kernel.has_gamma else 1.0

    def _learn(
        self,
        problem: sbc.Problem,
        basis: Array,
        mass: Array,
        total: float,
        mu: Array | None,
        verbose: int,
    ) -> sbc.Learned:
        limits = sbc.Limits(
            positive(self.tol, "tol"),
            self.max_iter,
            positive(self.kernel_tol, "kernel_tol"),
            self.max_updates,
        )
        lookup(sbc.UPDATES, self.update, "update")
        radius = np.sqrt(total) if self.radius == "sqrt" else positive(self.radius, "radius")
        if self._is_direct():
            with progress("kernel updates", self.max_updates, verbose) as report:
                return sbc.learn_class_kernel(problem, radius, limits, report)
        if len(basis) == 1:
            return sbc.fixed_kernel(problem, basis, np.ones(1), limits)
        if not isinstance(self.weights, str):
            return sbc.fixed_kernel(problem, basis, as_weights(self.weights, len(basis)), limits)
        if lookup({"learned": False, "prior": True}, self.weights, "weights"):
            prior = prior_weights(mass, len(basis), radius)
            return sbc.fixed_kernel(problem, basis, prior, limits)
        with progress("kernel updates", self.max_updates, verbose) as report:
            return sbc.learn_kernel(problem, basis, radius, self.update, limits, report, mu)

    def _remember(self, problem: sbc.Problem, learned: sbc.Learned) -> None:
        self.copy_coef_ = np.ascontiguousarray(problem.s.T)
        self.class_kernel_, self.kernel_weights_ = learned.class_kernel, learned.weights
        self.gap_, self.objective_ = learned.solution.gap, learned.solution.objective
        self.objective_path_, self.kernel_gap_ = learned.path, learned.gap
        self.n_iter_, self.n_updates_ = learned.n_iter, len(learned.path) - 1
        bias = learned.solution.bias
        self.training_margins_ = (learned.class_kernel @ problem.F).T + bias
        self.gram_diagonal_ = problem.gram.diagonal
        with single_blas():
            self.dual_coef_ = self.copy_coef_ @ self.class_kernel_
        self.bias_ = np.full(self.dual_coef_.shape[1], bias)
        self._warn(learned)

    def _warn(self, learned: sbc.Learned) -> None:
        warn_early(learned.solution, self.tol, "The machine")
        if learned.left > self.kernel_tol:
            paper = self.update == "paper" and not self._is_direct()
            what = "change" if paper else "gap to the minimum"
            warn(
                f"The kernel weights stopped early after {self.n_updates_} updates: their "
                f"relative {what} is {learned.left:.2g} (kernel_tol={self.kernel_tol:g}), the "
                f"objective at most {100 * learned.gap:.2g} % above its minimum. Use "
                f"update='alternating', or raise max_updates.",
                ConvergenceWarning,
            )


NAMES = {"sbc": SingleBinary}
