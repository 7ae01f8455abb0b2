"""Joint machines: all columns learned together with the relation between them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

from outcode import gram as grams
from outcode import kernels
from outcode._checks import Array, lookup, positive, warn
from outcode.machines.common import Solved, as_rows, as_targets, check_signs
from outcode.machines.kernel import KernelMachine, Task
from outcode.machines.least_squares import _products
from outcode.parallel import single_blas
from outcode.saved import reals
from outcode.solvers import jcl as joint

#: A relative residual of the linear system beyond this is said in a warning.
RESIDUAL_LIMIT = 1e-5
#: Bytes of working memory per squared row: the Gram, its centred copy and the eigenvectors. With
#: zeros in the code, one more and the eigenvectors of each column's own rows come on top.
BYTES_PER_ENTRY = 24


@dataclass(eq=False, repr=False)
class Joint(KernelMachine):
    """Least-squares machines of all columns and the relation between them ([LZCX16] JCL).

    Minimises Eq. 4 over W = [w_1 ... w_L], the biases b and the relation matrix M,

        sum_l 1/N_l sum_i c_i (t_il - f_l(x_i))^2 + lambda1/2 tr(W W') + lambda2/2 tr(W M^-1 W'),

    M >= 0, tr M = 1, where column l has its own rows (those with t_il not 0), N_l is the sum of
    their weights c_i and f_l(x) = w_l.phi(x) + b_l, until the duality gap is at most ``tol``. At
    the end W, b solve Eq. 10 for the relation found. The margins are the whole multi-task
    expansion, sums over all columns and rows: cross @ dual_coef + bias.

    One eigendecomposition of the kernel matrix (of the features, for a linear kernel with fewer
    features than rows) serves all iterations; :mod:`outcode.solvers.jcl` has the
    cases and their cost.

    Parameters
    ----------
    lambda1 : float, default=1e-4
        Weight of the squared lengths of all w_l.
    lambda2 : float, default=1e-4
        Weight of the term with the relation; towards 0 the columns become independent least-squares
        machines with C = 2 / (N_l lambda1) and a free bias.
    kernel : str or callable, default="rbf"
        One of "rbf", "linear", "poly", "laplacian", "exponential", "sigmoid", "precomputed" or a
        function.
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
        Bytes the fit may take; None is half of what is free.
    dtype : dtype or None, default=None
        Type of the Gram matrix; None is float64.
    solver : {"splitting", "alternation"}, default="splitting"
        "splitting" meets the loss (column by column) and the penalty (by singular values) in turn;
        "alternation" is the paper's, Eq. 10 and Eq. 15 in turn from M = I / L, which is slower and
        can stall above the optimum (with fewer features than columns it always does).
    max_iter : int, default=1000
        Iterations of the solver.
    tol : float, default=1e-3
        Relative duality gap to stop at.

    Attributes
    ----------
    relation_ : (n_dichotomies, n_dichotomies) M, positive semidefinite, trace 1
    objective_path_ : Eq. 4 each time it was looked at and lower; objective_ its last
    gap_ : relative duality gap of Eq. 4 with M minimised out, a convex problem with the squared
        trace norm of W: how far above its one optimum the objective is at most
    residual_ : relative residual of the optimality conditions of W and b (Eq. 7-10)
    n_iter_ : iterations of the solver
    dual_coef_ : (n_samples, n_dichotomies) V T of Eq. 7, less what the kernel maps to zero
    bias_, norm2_ : (n_dichotomies,) bias, squared norm of w
    training_margins_ : (n_samples, n_dichotomies) margins on the training rows

    Examples
    --------
    >>> machine = Joint(kernel="linear").fit([[-1.0], [1.0], [3.0]], [[-1, 1], [1, -1], [1, -1]])
    >>> machine.relation_.round(2).tolist()
    [[0.5, -0.5], [-0.5, 0.5]]
    """

    kernel: Any = field(default="rbf", kw_only=True)
    gamma: float | str = field(default="scale", kw_only=True)
    lambda1: float = 1e-4
    lambda2: float = 1e-4
    solver: str = field(default="splitting", kw_only=True)
    max_iter: int = field(default=1000, kw_only=True)
    tol: float = field(default=1e-3, kw_only=True)

    saved = {
        **KernelMachine.saved,
        "relation_": reals("n_dichotomies", "n_dichotomies"),
    }

    def gram(
        self, X: Any, targets: Any, sample_weight: Any = None, *, n_jobs: int | None = None
    ) -> grams.Gram:
        """Return the Gram store; of a linear kernel with few features only the rows are kept."""
        kind = kernels.named(self.kernel)
        if kind.linear and (X := as_rows(X)).shape[1] < X.shape[0]:
            # the biases absorb any shift, and centred rows leave less to cancel
            return grams.features(X, None if sparse.issparse(X) else X.mean(axis=0))
        return super().gram(X, targets, sample_weight, n_jobs=n_jobs)

    def value_type(self, n: int) -> np.dtype[Any]:
        return np.dtype(self.dtype or np.float64)

    def row_order(self, targets: Array) -> Array | None:
        return None

    def train(self, task: Task, start: Any) -> None:
        problem = self.factorise(task.gram, task.targets, task.weight)
        self.fit_factorised(problem, task.gram, task.targets, n_jobs=task.n_jobs)
        _warn_unconverged(self)

    def holding_out(self, task: Task) -> Callable[[Array], Solved]:
        """Return a function from rows to margins without them: a training of its own."""

        def leave_out(rows: Array) -> Solved:
            problem = self.factorise(task.gram, task.targets, task.without(rows))
            return self.margins_of(problem, task.gram, task.targets), None

        return leave_out

    def factorise(self, gram: Any, targets: Any, sample_weight: Any = None) -> joint.Problem:
        """Return what serves every lambda1 and lambda2: the decomposition, and the targets in it.

        ``gram`` is a store of :meth:`gram`, or a matrix.
        """
        task = Task.of(gram, targets, sample_weight)
        gram, targets, weight = task.gram, task.targets, task.weight
        check_signs(targets, weight)
        with single_blas():
            if gram.matrix is None:
                spectrum = joint.Spectrum.of_rows(_features(gram), weight)
            else:
                spectrum = joint.Spectrum.of_gram(gram.matrix, grams.places(gram), weight)
            return joint.problem_of(spectrum, targets[spectrum.rows])

    def fit_factorised(
        self, problem: joint.Problem, gram: Any, targets: Any, *, n_jobs: int | None = None
    ) -> Joint:
        """Train on what :meth:`factorise` returned for the same Gram store and targets.

        That the solver stops early is not said here: ``gap_`` shows it.
        """
        targets = as_targets(targets, len(gram))
        with single_blas():
            found = self._solve(problem)
            self._expand(found.round.W, problem, gram, targets, n_jobs)
            self._certify(found, problem, targets)
        self.expand(gram, np.ones_like(targets))  # every column sums over all rows
        return self

    def margins_of(self, problem: joint.Problem, gram: Any, targets: Any) -> Array:
        """Return the margins of all rows under machines trained on a factorised problem."""
        other = clone(self)
        with single_blas():
            other._expand(self._solve(problem).round.W, problem, gram, targets, 1)
        return other.training_margins_

    def loo_margins(self, problem: joint.Problem, targets: Any) -> Array:
        """Return margins of each row under W, b trained without it, the relation as it was learned.

        Closed form, for codes without zeros: the relation matrix of all rows is held fixed, what
        the row teaches W and b is taken out exactly. A row of weight 0 keeps its training margin.
        """
        if not isinstance(problem, joint.SharedRows):
            raise ValueError(
                "Leave-one-out in closed form needs a code without zeros: use folds, or "
                "loo.exact(), which trains again."
            )
        out, rows = self.training_margins_.copy(), problem.spectrum.rows
        with single_blas():
            T = self._coupling
            out[rows] = problem.leave_one_out(T, np.asarray(targets, dtype=np.float64)[rows])
        return out

    def _solve(self, problem: joint.Problem) -> joint.Solution:
        return lookup(joint.SOLVERS, self.solver, "solver")(
            problem,
            positive(self.lambda1, "lambda1"),
            positive(self.lambda2, "lambda2"),
            max_iter=max(1, int(positive(self.max_iter, "max_iter"))),
            tol=positive(self.tol, "tol"),
        )

    def _expand(
        self,
        W: Array,
        problem: joint.Problem,
        gram: grams.Gram,
        targets: Array,
        n_jobs: int | None,
    ) -> None:
        """W as coefficients of the rows, and the biases that are best for them."""
        spectrum = problem.spectrum
        self.dual_coef_ = np.zeros(targets.shape, order="F")
        self.dual_coef_[spectrum.rows] = spectrum.dual_coef(W)
        products = _gram_products(gram, self.dual_coef_, n_jobs)
        weight = (targets[spectrum.rows] != 0) * (spectrum.root**2)[:, None]
        error = weight * (targets - products)[spectrum.rows]
        self.bias_ = error.sum(axis=0) / weight.sum(axis=0)
        self.training_margins_ = products + self.bias_

    def _certify(self, found: joint.Solution, problem: joint.Problem, targets: Array) -> None:
        """Relation, objective and the residuals, from the margins as they came out."""
        rows, last = problem.spectrum.rows, found.round
        half = last.coupling.root()
        side = problem.gradient(targets[rows].astype(np.float64)) @ half
        G = problem.gradient((targets - self.training_margins_)[rows])
        length = max(float(np.linalg.norm(side)), np.finfo(float).tiny)
        self.residual_ = float(np.linalg.norm(last.half - G @ half)) / length
        self.relation_ = last.relation.matrix()
        self.objective_, self.objective_path_ = last.objective, found.path
        self.gap_, self.n_iter_ = found.gap, found.n_iter
        self.norm2_ = (last.W**2).sum(axis=0)
        self._coupling = last.coupling

    def check_memory(self, n: int, targets: Array) -> None:
        """Raise an error if the kernel matrix and its decompositions do not fit in memory."""
        used = np.count_nonzero(targets, axis=0).astype(np.int64)
        own = 0 if (used == n).all() else 8 * int(n**2 + (used**2).sum())
        grams.require_memory(
            BYTES_PER_ENTRY * n**2 + own,
            self.max_memory,
            f"Decomposing the kernel matrix of {n:,} rows",
            "raise max_memory, use fewer rows, kernel='linear', or machine='svm'",
        )


def _features(gram: Any) -> Array:
    """Return the dense rows of a store on a linear kernel."""
    if not gram.kernel.linear:
        raise ValueError(
            "Joint machines need the whole kernel matrix in memory: raise max_memory, use fewer "
            "rows, or use machine='svm'."
        )
    values = gram.rows.values
    return values.toarray() if sparse.issparse(values) else values


def _gram_products(gram: grams.Gram, coef: Array, n_jobs: int | None) -> Array:
    """Return K @ coef, by the features where there is no matrix."""
    if gram.matrix is not None:
        return _products(gram, coef, n_jobs)
    X = gram.rows.values
    return np.asarray(X @ (X.T @ coef))


def _warn_unconverged(machine: Joint) -> None:
    if machine.gap_ > machine.tol:
        warn(
            f"The {machine.solver} stopped early, at most "
            f"{100 * machine.gap_:.2g} % above the optimum (tol={machine.tol:g}): raise max_iter.",
            ConvergenceWarning,
        )
    if machine.residual_ > RESIDUAL_LIMIT:
        warn(
            f"The linear system is solved to a relative residual of {machine.residual_:.2g} only: "
            f"use a larger lambda1, scale the features, or ask for dtype='float64'.",
            ConvergenceWarning,
        )


NAMES = {"jcl": Joint}
