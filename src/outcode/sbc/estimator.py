"""The classifier: the steps of fit, and scores. [EPY08]"""

from __future__ import annotations

import warnings
from functools import cache
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.base import BaseEstimator
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted, validate_data

from outcode import codes, decoders
from outcode._checks import (
    Array,
    class_labels,
    lookup,
    positive,
    require_classes,
    row_weights,
)
from outcode.decoders.likelihood import fit_temperature, softmax
from outcode.machines.kernel import KernelMachine
from outcode.parallel import single_blas, thread_map
from outcode.progress import progress
from outcode.sbc.extensions import (
    CLASS_KERNELS,
    EXTENSIONS,
    as_extensions,
    as_weights,
    prior_weights,
)
from outcode.scores import ByScores
from outcode.solvers import sbc as sbc_solver


class Expansion(KernelMachine):
    """The Gram store of the training rows, and sum_j K(x_j, x) coef_j + bias for new ones."""

    def __init__(
        self,
        kernel: Any = "rbf",
        gamma: Any = "scale",
        *,
        degree: int = 3,
        coef0: float = 0.0,
        class_weight: Any = None,
        max_memory: float | None = None,
        dtype: Any = None,
    ) -> None:
        self.kernel = kernel
        self.gamma = gamma
        self.degree = degree
        self.coef0 = coef0
        self.class_weight = class_weight
        self.max_memory = max_memory
        self.dtype = dtype

    def remember(self, coef: Array, bias: float, dtype: Any) -> None:
        """Keep the expansion over the rows that take part in it."""
        self.dual_coef_, self.bias_ = coef, np.full(coef.shape[1], bias)
        self.pool(np.ones(coef.shape, dtype=np.int8), dtype)


def _has_temperature(clf: SingleBinaryClassifier) -> bool:
    if clf.folds is None:
        raise AttributeError(
            "Probabilities need the temperature of held-out scores: give folds=3 before fitting."
        )
    return True


class SingleBinaryClassifier(ByScores, BaseEstimator):
    """All classes in one binary problem. [EPY08]

    Minimises  1/2 |w|^2 + sum_i C_i sum_r max(0, 1 - y_ir (w . phi_r(x_i) + b))  (Eq. 1), y_ir = +1
    if r is the class of row i and -1 otherwise, phi_r(x_i) . phi_s(x_j) = K_x(x_i, x_j) K_M(r, s)
    (Eq. 5-6). The score of class r is h(z_r) of Eq. 9, and the largest wins. The dual is LIBSVM's
    on the explicit kernel of all copies, which is never built: memory is that of the Gram matrix of
    the rows, and rows on demand if that is too large, too.

    Parameters
    ----------
    extension : "kernel" (K_M learned as a combination of c basis kernels, Algorithm 2), "identity",
        "single", "ecoc" (a copy per column of a code, marked by its number), a (n_classes, l)
        matrix of feature extensions M, or (n, n_classes, l): n of them, combined as by "kernel"
    kernel : "rbf", "linear", "poly", "laplacian", "sigmoid", "precomputed" or a function
    gamma : number, "scale" (1 / (d var X)) or "auto" (1 / d)
    degree, coef0 : of the polynomial and the sigmoid kernel
    class_kernel : how extensions become K_M: "rbf" (Eq. 5), "linear" (M M'; with extension
        "identity" and kernel "linear" Kessler's construction) or "precomputed" (they are K_M)
    class_gamma : gamma of the class kernel; None is that of the sample kernel (1 if it has none)
    C : upper bound of each alpha (the paper's C / (cm))
    radius : R, largest sum of the kernel weights; "sqrt" is the root of the number of rows (the sum
        of their sample weights)
    weights : of the basis kernels: "learned", "prior" (R times the share of each class, a single
        solve) or an array
    update : "paper" (Algorithm 2) or "alternating", which goes to the minimum over the weights
    code, decoder : of "ecoc": a code and the decoder that reads it, "euclidean" or "hamming"
    folds : None, or the number of folds whose held-out scores set the temperature of
        ``predict_proba``; the kernel weights are those of all rows
    tol : largest violation of the optimality conditions
    kernel_tol : "paper": largest relative change of the weights; "alternating": largest relative
        gap to the minimum
    class_weight : weights of the classes, a dict or "balanced"
    max_memory : bytes the Gram matrix may take; None is half of what is free
    dtype : of the Gram matrix; None is float64 up to 5,000 rows and float32 beyond
    max_iter, max_updates : steps of one solve, and updates of the kernel weights
    n_jobs : threads of Gram, folds; None is all cores. The model does not depend on it
    random_state : seed of the code and the folds
    verbose : show the updates and folds done

    Attributes
    ----------
    classes_ : the sorted labels
    class_kernel_ : (n_classes, n_classes) K_M; with "ecoc" of the columns of the code
    kernel_weights_ : (n,) mu; 1 for a single extension
    kernel_bound_ : largest K_M(r, r) of any weights with the same sum
    labels_ : (n_samples,) class indices of the training rows
    dual_coef_ : (n_samples, n_classes) y_ir alpha_ir; with "ecoc" one per column of the code
    bias_ : b
    support_ : rows with a copy of alpha > 0
    objective_, gap_ : primal objective of the machine and its relative duality gap
    objective_path_ : g_d (Eq. 2) after each solve
    kernel_gap_ : relative gap of the objective to its minimum over the weights; NaN for one kernel
    n_iter_, n_updates_ : steps, and updates of the weights
    code_ : (n_classes, n_columns) targets of the copies of each class
    temperature_ : of the probabilities, when ``folds`` is given

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> clf = SingleBinaryClassifier("identity", C=10).fit(X, y)
    >>> clf.decision_function(X).shape, clf.class_kernel_.shape
    ((150, 3), (3, 3))
    """

    def __init__(
        self,
        extension: Any = "kernel",
        kernel: Any = "rbf",
        *,
        gamma: float | str = "scale",
        degree: int = 3,
        coef0: float = 0.0,
        class_kernel: str = "rbf",
        class_gamma: float | None = None,
        C: float = 1.0,
        radius: float | str = "sqrt",
        weights: Any = "learned",
        update: str = "paper",
        code: Any = "bch",
        decoder: Any = "euclidean",
        folds: int | None = None,
        tol: float = 1e-3,
        kernel_tol: float = 1e-3,
        class_weight: Any = None,
        max_memory: float | None = None,
        dtype: Any = None,
        max_iter: int = 10_000_000,
        max_updates: int = 50,
        n_jobs: int | None = None,
        random_state: Any = None,
        verbose: int = 0,
    ) -> None:
        self.extension = extension
        self.kernel = kernel
        self.gamma = gamma
        self.degree = degree
        self.coef0 = coef0
        self.class_kernel = class_kernel
        self.class_gamma = class_gamma
        self.C = C
        self.radius = radius
        self.weights = weights
        self.update = update
        self.code = code
        self.decoder = decoder
        self.folds = folds
        self.tol = tol
        self.kernel_tol = kernel_tol
        self.class_weight = class_weight
        self.max_memory = max_memory
        self.dtype = dtype
        self.max_iter = max_iter
        self.max_updates = max_updates
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.pairwise = self._precomputed
        tags.input_tags.sparse = not self._precomputed
        return tags

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> SingleBinaryClassifier:
        """Solve the single binary problem, learning its class kernel if asked."""
        X, y = validate_data(self, X, y, **self._rules(X))
        self.classes_, labels = class_labels(y)
        self.labels_ = labels
        given = row_weights(sample_weight, len(y))
        names = ("kernel", "gamma", "degree", "coef0", "class_weight", "max_memory", "dtype")
        self.machine_ = Expansion(**{name: getattr(self, name) for name in names})
        weight = self.machine_.weigh(y, given)
        require_classes(self.classes_, labels, weight)
        rng = check_random_state(self.random_state)
        self._encode(X, labels, rng)
        targets = self.code_[labels]
        gram = self.machine_.gram(X, np.ones((len(y), 1)), given, n_jobs=self.n_jobs)
        problem = sbc_solver.begin(gram, targets, positive(self.C, "C") * weight)
        basis = self._basis()
        with single_blas():
            learned = self._learn(problem, basis, np.bincount(labels, weights=given))
        self._remember(problem, learned)
        self.kernel_bound_ = float(learned.weights.sum() * basis.diagonal(0, 1, 2).max())
        self._read(X, labels, weight, problem, int(rng.randint(2**31 - 1)))
        return self

    @available_if(_has_temperature)
    def predict_proba(self, X: Any) -> Array:
        """Return the (n_samples, n_classes) probabilities; their largest is what predict says."""
        return softmax(self._scores(X), self.temperature_)

    def margins(self, X: Any) -> Array:
        """Return h(z_r) of [EPY08] Eq. 9 for every copy, (n_samples, n_columns)."""
        check_is_fitted(self, "dual_coef_")
        X = validate_data(self, X, reset=False, **self._rules(X))
        return self.machine_.margins(X)

    def _scores(self, X: Any) -> Array:
        return self._decode(self.margins(X), X)

    def _decode(self, margins: Array, X: Any) -> Array:
        return margins if self.decoder_ is None else np.asarray(self.decoder_.scores(margins, X))

    # --- the steps of fit ---

    @property
    def _precomputed(self) -> bool:
        return isinstance(self.kernel, str) and self.kernel == "precomputed"

    def _rules(self, X: Any) -> dict[str, Any]:
        """How rows are checked at the door."""
        if sparse.issparse(X) and self._precomputed:
            raise ValueError("A precomputed kernel matrix cannot be sparse: give K.toarray().")
        kinds = [np.float64, np.float32] if self._precomputed else np.float64
        return {"accept_sparse": False if self._precomputed else "csr", "dtype": kinds}

    def _encode(self, X: Any, labels: Array, rng: np.random.RandomState) -> None:
        """Set the targets of the copies, +1 for the own class, or a code's."""
        n = len(self.classes_)
        self.code_ = (2 * np.eye(n) - 1).astype(np.int8)
        if isinstance(self.extension, str) and self.extension == "ecoc":
            self.code_ = codes.resolve(self.code, n, self.classes_, X, labels, None, rng)

    def _basis(self) -> Array:
        """Return the class kernels to combine, (n, n_columns, n_columns)."""
        n_columns = self.code_.shape[1]
        if isinstance(self.extension, str):
            extensions = lookup(EXTENSIONS, self.extension, "extension")(n_columns)
        else:
            extensions = as_extensions(self.extension, n_columns)
        kind = lookup(CLASS_KERNELS, self.class_kernel, "class_kernel")
        gamma = self._class_gamma()
        return np.stack([kind(M, gamma) for M in extensions])

    def _class_gamma(self) -> float:
        if self.class_gamma is not None:
            return positive(self.class_gamma, "class_gamma")
        if not isinstance(self.gamma, str):
            return positive(self.gamma, "gamma")
        return 1.0 if self.machine_.kernel_ is None else float(self.machine_.kernel_.gamma)

    def _learn(self, problem: sbc_solver.Problem, basis: Array, mass: Array) -> sbc_solver.Learned:
        limits = sbc_solver.Limits(
            positive(self.tol, "tol"),
            self.max_iter,
            positive(self.kernel_tol, "kernel_tol"),
            self.max_updates,
        )
        lookup(sbc_solver.UPDATES, self.update, "update")
        if len(basis) == 1:
            return sbc_solver.fixed_kernel(problem, basis, np.ones(1), limits)
        radius = np.sqrt(mass.sum()) if self.radius == "sqrt" else positive(self.radius, "radius")
        if not isinstance(self.weights, str):
            return sbc_solver.fixed_kernel(
                problem, basis, as_weights(self.weights, len(basis)), limits
            )
        if lookup({"learned": False, "prior": True}, self.weights, "weights"):
            return sbc_solver.fixed_kernel(
                problem, basis, prior_weights(mass, len(basis), radius), limits
            )
        with progress("kernel updates", self.max_updates, self.verbose) as report:
            return sbc_solver.learn_kernel(problem, basis, radius, self.update, limits, report)

    def _remember(self, problem: sbc_solver.Problem, learned: sbc_solver.Learned) -> None:
        self.dual_coef_ = np.ascontiguousarray(problem.s.T)
        self.class_kernel_, self.kernel_weights_ = learned.class_kernel, learned.weights
        self.bias_, self.gap_ = learned.solution.bias, learned.solution.gap
        self.objective_, self.objective_path_ = learned.solution.objective, learned.path
        self.kernel_gap_, self.n_iter_ = learned.gap, learned.n_iter
        self.n_updates_ = len(learned.path) - 1
        self.support_ = np.flatnonzero(self.dual_coef_.any(axis=1))
        self.training_margins_ = (learned.class_kernel @ problem.F).T + self.bias_
        with single_blas():
            coef = self.dual_coef_ @ self.class_kernel_
        self.machine_.remember(coef, self.bias_, problem.gram.dtype)
        self._warn(learned)

    def _warn(self, learned: sbc_solver.Learned) -> None:
        solution = learned.solution
        if not solution.converged:
            _warn_early(
                f"The machine stopped early: the largest violation of the optimality conditions is "
                f"{solution.violation:.2g} (tol={self.tol:g}), the relative duality gap "
                f"{solution.gap:.2g}. Raise max_iter, ask for dtype='float64', or scale the "
                f"features."
            )
        if learned.left > self.kernel_tol:
            what = "change" if self.update == "paper" else "gap to the minimum"
            _warn_early(
                f"The kernel weights stopped early after {self.n_updates_} updates: their "
                f"relative {what} is {learned.left:.2g} (kernel_tol={self.kernel_tol:g}), the "
                f"objective at most {100 * learned.gap:.2g} % above its minimum. Use "
                f"update='alternating', or raise max_updates."
            )

    def _read(
        self, X: Any, labels: Array, weight: Array, problem: sbc_solver.Problem, seed: int
    ) -> None:
        """Fit what reads classes off the margins: the decoder of a code, and the temperature."""
        alone = np.bincount(labels, weights=weight > 0)[labels] < 2
        solved: list[sbc_solver.Solution] = []

        @cache
        def held_out(folds: int) -> Array:
            fold = _folds(labels, folds, np.random.RandomState(seed))
            margins, solutions = self._held_out(problem, np.where(alone, -1, fold), folds)
            solved.extend(solutions)
            return margins

        self.decoder_ = None
        if isinstance(self.extension, str) and self.extension == "ecoc":
            training = decoders.Training(self.code_, labels, X, self, weight, held_out)
            self.decoder_ = decoders.resolve(self.decoder).fit(training)
        if self.folds is not None:
            scores = self._decode(held_out(self.folds), X)
            self.temperature_ = fit_temperature(scores, labels, np.where(alone, 0.0, weight))
        self._warn_held_out(solved)

    def _held_out(
        self, problem: sbc_solver.Problem, fold: Array, folds: int
    ) -> tuple[Array, list[sbc_solver.Solution]]:
        """Return the margins of each row under a machine without its fold; -1 is never left out."""
        out: Array = self.training_margins_.copy()

        def task(f: int) -> sbc_solver.Solution:
            rows = np.flatnonzero(fold == f)
            part = problem.without(rows)
            solution = sbc_solver.solve(part, self.class_kernel_, self.tol, self.max_iter)
            out[rows] = (self.class_kernel_ @ part.F[:, rows]).T + solution.bias
            report.advance()
            return solution

        with progress("folds", folds, self.verbose) as report:
            return out, thread_map(task, range(folds), self.n_jobs)

    def _warn_held_out(self, solved: list[sbc_solver.Solution]) -> None:
        early = [solution for solution in solved if not solution.converged]
        if early:
            _warn_early(
                f"{len(early)} of {len(solved)} machines that hold out a fold stopped early: their "
                f"largest violation of the optimality conditions is "
                f"{max(solution.violation for solution in early):.2g} (tol={self.tol:g}), and the "
                f"probabilities rest on them. Raise max_iter, or scale the features."
            )


def _folds(labels: Array, folds: int, rng: np.random.RandomState) -> Array:
    """Number the rows 0..folds-1 so that each class is spread evenly."""
    if folds < 2:
        raise ValueError(f"folds must be at least 2, got {folds}.")
    order = rng.permutation(len(labels))
    order = order[np.argsort(labels[order], kind="stable")]
    fold = np.empty(len(labels), dtype=np.intp)
    fold[order] = np.arange(len(labels)) % folds
    return fold


def _warn_early(message: str) -> None:
    warnings.warn(message, ConvergenceWarning, stacklevel=5)
