"""SPOC: all classes in one kernel machine. [CS02] Sections 5.2 and 6"""

from __future__ import annotations

import warnings
import zlib
from collections.abc import Callable
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted, validate_data

from outcode import kernels
from outcode._checks import (
    Array,
    class_labels,
    lookup,
    positive,
    require_classes,
    row_weights,
)
from outcode.decoders.likelihood import fit_temperature, softmax
from outcode.gram import Gram
from outcode.machines.kernel import KernelMachine
from outcode.parallel import single_blas
from outcode.scores import ByScores
from outcode.solvers import spoc as spoc_solver
from outcode.solvers.spoc import Solution

#: What is added to the kernel.
SHIFTS = {"none": 0.0, "kernel": 1.0}
#: More rows than this are learned without a Gram matrix when the kernel is linear.
LINEAR_ROWS = 2000
#: Folds are held out one after the other until this many rows have been.
HELD_OUT = 2000

#: (masses, tau and K tau to start from) -> solution
Solver = Callable[[Array, tuple[Array, Array] | None], Solution]


def _has_proba(clf: SPOC) -> bool:
    if clf.folds is None:
        raise AttributeError("SPOC(folds=None) fits no probabilities: give a number of folds.")
    return True


class SPOC(ByScores, KernelMachine):
    """One kernel machine for all classes: multiclass support vectors.

    Minimises  beta/2 sum_r |M_r|^2 + sum_i c_i xi_i  subject to  M_{y_i}.x_i - M_r.x_i >= 1 - xi_i
    for every r != y_i (Eq. 31), and predicts argmax_r M_r.x = argmax_r sum_i tau_ir K(x, x_i)
    (Eq. 30). c_i is the weight of row i. With two classes it is the support vector machine with
    C = 2 / beta, w = M_1 - M_2.

    Parameters
    ----------
    kernel : "rbf", "linear", "poly", "laplacian", "sigmoid", "precomputed" or a function; beyond
        2,000 rows "linear" keeps M instead of a Gram matrix, and scales to many rows
    gamma : number, "scale" (1 / (d var X)) or "auto" (1 / d)
    degree, coef0 : of the polynomial and the sigmoid kernel
    beta : weight of the norm; a larger one gives a smoother machine
    bias : "none" (the paper's) or "kernel" (1 is added to the kernel: a bias per class, which a
        linear kernel on rows that are not centred needs, and rare classes under a narrow kernel)
    tol : largest violation of the optimality conditions, in units of the required lead 1
    class_weight : weights of the classes, a dict or "balanced"
    folds : how many folds the held-out scores come from that the temperature of ``predict_proba``
        is fitted on; None fits no probabilities, and fitting is faster. Folds are held out until
        2,000 rows have been; equal rows are in the same fold
    max_memory : bytes the Gram matrix may take; None is half of what is free
    dtype : of the Gram matrix; None is float64 up to 5,000 rows and float32 beyond
    max_iter : steps, one sample each
    n_jobs : threads; None is all cores. The model does not depend on it

    Attributes
    ----------
    classes_ : the sorted labels
    tau_ : (n_samples, n_classes) dual variables, tau_ir <= c_i [r = y_i], rows sum to 0
    support_ : rows with a tau that is not 0, the support patterns
    coef_ : (n_classes, n_features) M, for the linear kernel only
    objective_, dual_objective_, gap_ : primal and dual value, their difference over the primal
    norm2_ : (n_classes,) squared norms of M_r, the bias included
    bias_ : (n_classes,) added to the scores, 0 without a bias
    training_margins_ : (n_samples, n_classes) M_r.x_i
    temperature_ : of the probabilities
    n_iter_ : steps

    Notes
    -----
    The optimal M is unique, tau is not (repeated rows, singular kernels). A row costs one step of
    [CS02] Figure 4; see :mod:`outcode.solvers.spoc`.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> clf = SPOC(kernel="rbf", gamma=0.5, beta=0.1).fit(X, y)
    >>> clf.decision_function(X).shape, round(clf.score(X, y), 2)
    ((150, 3), 0.99)
    """

    def __init__(
        self,
        kernel: Any = "rbf",
        gamma: float | str = "scale",
        *,
        degree: int = 3,
        coef0: float = 0.0,
        beta: float = 1.0,
        bias: str = "none",
        tol: float = 1e-3,
        class_weight: Any = None,
        folds: int | None = 5,
        max_memory: float | None = None,
        dtype: Any = None,
        max_iter: int = 10_000_000,
        n_jobs: int | None = None,
    ) -> None:
        self.kernel = kernel
        self.gamma = gamma
        self.degree = degree
        self.coef0 = coef0
        self.beta = beta
        self.bias = bias
        self.tol = tol
        self.class_weight = class_weight
        self.folds = folds
        self.max_memory = max_memory
        self.dtype = dtype
        self.max_iter = max_iter
        self.n_jobs = n_jobs

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> SPOC:  # type: ignore[override]  # no targets
        """Train on rows (or a precomputed kernel matrix) and labels."""
        X, y = validate_data(self, X, y, **self._rules(X))
        weight = self._start(y, sample_weight)
        if self.kernel == "linear" and X.shape[0] > max(LINEAR_ROWS, _entries_per_row(X)):
            self.kernel_, self.gram_dtype_ = kernels.Linear(), np.dtype(np.float64)
            return self._train(self._linear_solver(X), weight, X)
        store = self.gram(X, np.ones((len(y), 1)), weight, n_jobs=self.n_jobs)
        self.gram_dtype_ = store.dtype
        return self._train(self._gram_solver(store), weight, X)

    def fit_gram(  # type: ignore[override]  # labels, not the targets of columns
        self, gram: Any, y: Any, sample_weight: Any = None
    ) -> SPOC:
        """Train on a Gram matrix or store that others use too; predict with ``margins_gram``."""
        store = self.as_store(gram)
        weight = self._start(np.asarray(y), sample_weight)
        self.kernel_, self.gram_dtype_, self.n_features_in_ = None, store.dtype, len(store)
        return self._train(self._gram_solver(store), weight, None)

    @available_if(_has_proba)
    def predict_proba(self, X: Any) -> Array:
        """Return the (n_samples, n_classes) probabilities; their largest is what predict says."""
        return softmax(self._scores(X), self.temperature_)

    def margins(self, X: Any) -> Array:
        """Return the (n_samples, n_classes) scores M_r.x."""
        check_is_fitted(self, "tau_")
        if self.kernel != "linear" or self.kernel_ is None:
            return super().margins(X)
        with single_blas():
            return np.asarray(X @ self.coef_.T) + self.bias_

    # --- training ---

    def _start(self, y: Array, sample_weight: Any) -> Array:
        """Keep the classes and return the weight of each row."""
        self.classes_, self.labels_ = class_labels(y)
        weight = self.weigh(y, row_weights(sample_weight, len(y)))
        require_classes(self.classes_, self.labels_, weight)
        return weight

    def _linear_solver(self, X: Any) -> Solver:
        b = spoc_solver.margin_requirements(self.labels_, len(self.classes_))
        options = self._options()

        def solve(mass: Array, start: tuple[Array, Array] | None) -> Solution:
            return spoc_solver.solve_linear(X, self.labels_, b, mass, start=start, **options)

        return solve

    def _gram_solver(self, store: Gram) -> Solver:
        if store.order is not None:
            raise ValueError("This Gram store has its rows sorted for a code: build one without.")
        b = spoc_solver.margin_requirements(self.labels_, len(self.classes_))
        options = self._options()

        def solve(mass: Array, start: tuple[Array, Array] | None) -> Solution:
            return spoc_solver.solve(store, self.labels_, b, mass, start=start, **options)

        return solve

    def _options(self) -> dict[str, Any]:
        return {
            "beta": positive(self.beta, "beta"),
            "shift": lookup(SHIFTS, self.bias, "bias"),
            "tol": positive(self.tol, "tol"),
            "max_iter": self.max_iter,
            "n_jobs": self.n_jobs,
        }

    def _train(self, solve: Solver, weight: Array, X: Any) -> SPOC:
        solution = solve(weight, None)
        if not solution.converged:
            warnings.warn(
                f"SPOC stopped early: the largest violation of the optimality conditions is "
                f"{solution.violation:.2g} (tol={self.tol:g}), the relative duality gap "
                f"{solution.gap:.2g}. Raise max_iter, ask for dtype='float64', or scale the "
                f"features.",
                ConvergenceWarning,
                stacklevel=3,
            )
        self._remember(solution, X)
        if self.folds is not None:
            self.temperature_ = self._temperature(solve, weight, X)
        self._pool(X)
        return self

    def _remember(self, solution: Solution, X: Any) -> None:
        self.tau_, self.training_margins_ = solution.tau, solution.scores
        self.dual_coef_ = solution.tau / self.beta
        self.bias_ = SHIFTS[self.bias] * self.dual_coef_.sum(axis=0)
        self.objective_, self.dual_objective_ = solution.objective, solution.dual_objective
        self.gap_, self.norm2_, self.n_iter_ = solution.gap, solution.norm2, solution.n_iter

    def _pool(self, X: Any) -> None:
        """Keep what prediction needs: M for the linear kernel, else the support rows."""
        if self.kernel_ is not None and self.kernel == "linear":
            self.support_ = np.flatnonzero((self.tau_ != 0).any(axis=1))
            self.coef_ = np.ascontiguousarray((X.T @ self.dual_coef_).T)
            self.__dict__.pop("rows_", None)
            return
        self.pool(np.ones(self.tau_.shape, dtype=np.int8), self.gram_dtype_)

    def _temperature(self, solve: Solver, weight: Array, X: Any) -> float:
        """Fit the temperature on scores of rows under machines trained without them."""
        fold = content_folds(X, self.labels_, weight, self.folds)
        start = self.tau_, self.training_margins_ * self.beta
        scores, done = self.training_margins_.copy(), np.zeros(len(weight), dtype=bool)
        for f in range(fold.max() + 1):
            held = fold == f
            scores[held] = solve(np.where(held, 0.0, weight), start).scores[held]
            done |= held
            if np.count_nonzero(done) >= HELD_OUT:
                break
        if not done.any():
            return 1.0
        return fit_temperature(scores[done], self.labels_[done], weight[done])

    # --- rows ---

    def _scores(self, X: Any) -> Array:
        check_is_fitted(self, "tau_")
        return self.margins(validate_data(self, X, reset=False, **self._rules(X)))

    def _rules(self, X: Any) -> dict[str, Any]:
        if self.kernel == "precomputed":
            if sparse.issparse(X):
                raise ValueError("A precomputed kernel matrix cannot be sparse: give K.toarray().")
            return {"dtype": [np.float64, np.float32]}
        return {"accept_sparse": "csr", "dtype": np.float64}


def content_folds(X: Any, labels: Array, weight: Array, folds: int | None) -> Array:
    """Number the rows 0..folds-1, each class spread evenly and equal rows together.

    A row's place depends on its content alone: a repeated row, or the same row with a larger
    weight, gives the same folds. A class with one distinct row, and rows of weight 0, are never
    left out (-1).
    """
    if isinstance(folds, bool) or not isinstance(folds, int | np.integer) or folds < 2:
        raise ValueError(f"folds must be None or an integer of at least 2, got {folds!r}.")
    key = _row_keys(X, len(labels))
    fold = np.full(len(labels), -1)
    offset = 0
    for q in range(labels.max() + 1):
        rows = np.flatnonzero((labels == q) & (weight > 0))
        distinct, rank = np.unique(key[rows], return_inverse=True)
        if len(distinct) > 1:
            fold[rows] = (rank + offset) % folds
            offset += len(distinct)
    return fold


def _row_keys(X: Any, n: int) -> Array:
    """Return a number per row that only depends on what the row holds; on its place without X."""
    if X is None:
        return np.random.RandomState(0).permutation(n)
    if sparse.issparse(X):
        X = X.copy()
        X.sum_duplicates()
        cuts = [slice(a, b) for a, b in zip(X.indptr[:-1], X.indptr[1:], strict=True)]
        return np.array([zlib.crc32(X.data[c], zlib.crc32(X.indices[c])) for c in cuts])
    rows = np.ascontiguousarray(X)
    return np.array([zlib.crc32(row) for row in rows])


def _entries_per_row(X: Any) -> float:
    return X.nnz / X.shape[0] if sparse.issparse(X) else float(X.shape[1])
