"""Machines: a Gram matrix and targets -> a dual solution and margins, all columns at once.

A machine has ``fit(X, targets)`` and ``margins(X)``. A kernel machine also works on a Gram store,
which all its columns share: ``gram(X)``, ``fit_gram(gram, targets)``, ``margins_gram(cross)`` and
``held_out_margins(gram, ...)``. Any scikit-learn binary classifier is a machine too, cloned once
per column by :class:`Bank`.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import joblib
import numpy as np
from scipy import sparse
from sklearn.base import BaseEstimator, clone, is_classifier
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_array, compute_class_weight, get_tags
from sklearn.utils.validation import check_is_fitted, has_fit_parameter

from outcode import duals, kernels
from outcode import gram as grams
from outcode._checks import Array, lookup, positive, row_weights
from outcode.parallel import n_threads, single_blas, thread_map
from outcode.progress import progress


class Machine(BaseEstimator):
    """Binary machines, one per column of a code, trained together."""

    def fit(
        self,
        X: Any,
        targets: Array,
        sample_weight: Any = None,
        *,
        n_jobs: int | None = None,
        verbose: int = 0,
    ) -> Any:
        """Train one machine per column on the rows whose target is not 0."""
        raise NotImplementedError(f"{type(self).__name__} must define fit()")

    def margins(self, X: Any) -> Array:
        """Return the (n_samples, n_dichotomies) margins."""
        raise NotImplementedError(f"{type(self).__name__} must define margins()")

    def weigh(self, y: Array, sample_weight: Array) -> Array:
        """Return the weight of each row once the machine's own class weights are in."""
        return sample_weight


@dataclass(frozen=True)
class _Group:
    """Support rows ``start:stop`` that all take part in the same columns."""

    start: int
    stop: int
    columns: Any
    coef: Array


class SVM(Machine):
    """Support vector machines on one shared Gram matrix.

    Column s minimises  1/2 |w_s|^2 + sum_i C_i max(0, 1 - t_is f_s(x_i))  over its own rows, with
    C_i = C times the weight of row i.

    Parameters
    ----------
    kernel : "rbf", "linear", "poly", "laplacian", "sigmoid", "precomputed" or a function
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

    def __init__(
        self,
        kernel: Any = "rbf",
        gamma: float | str = "scale",
        *,
        degree: int = 3,
        coef0: float = 0.0,
        C: float = 1.0,
        bias: str = "kernel",
        tol: float = 1e-3,
        class_weight: Any = None,
        max_memory: float | None = None,
        dtype: Any = None,
        max_iter: int = 10_000_000,
    ) -> None:
        self.kernel = kernel
        self.gamma = gamma
        self.degree = degree
        self.coef0 = coef0
        self.C = C
        self.bias = bias
        self.tol = tol
        self.class_weight = class_weight
        self.max_memory = max_memory
        self.dtype = dtype
        self.max_iter = max_iter

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.pairwise = self.kernel == "precomputed"
        tags.input_tags.sparse = self.kernel != "precomputed"
        return tags

    def fit(
        self,
        X: Any,
        targets: Array,
        sample_weight: Any = None,
        *,
        n_jobs: int | None = None,
        verbose: int = 0,
    ) -> SVM:
        gram = self.gram(X, targets, sample_weight, n_jobs=n_jobs)
        return self.fit_gram(gram, targets, sample_weight, n_jobs=n_jobs, verbose=verbose)

    def weigh(self, y: Array, sample_weight: Array) -> Array:
        if self.class_weight is None:
            return sample_weight
        classes = np.unique(y)
        weights = compute_class_weight(
            self.class_weight, classes=classes, y=y, sample_weight=sample_weight
        )
        return sample_weight * weights[np.searchsorted(classes, y)]

    def gram(
        self, X: Any, targets: Any, sample_weight: Any = None, *, n_jobs: int | None = None
    ) -> grams.Gram:
        """Return the Gram store of the training rows and remember how to compare new ones."""
        if self.kernel == "precomputed":
            self.kernel_ = None
            return grams.DenseGram(_square(X))
        X = _as_rows(X)
        weight = row_weights(sample_weight, X.shape[0])
        self.kernel_ = kernels.resolve(
            self.kernel, X, gamma=self.gamma, degree=self.degree, coef0=self.coef0, weight=weight
        )
        self.origin_ = self.kernel_.origin(X)
        self.rows_ = self.kernel_.prepare(X, self.origin_)
        order = _class_order(np.asarray(targets))
        return grams.gram(
            self.kernel_,
            self.rows_,
            dtype=self.dtype,
            max_memory=self.max_memory,
            order=order,
            n_jobs=n_jobs,
        )

    def fit_gram(
        self,
        gram: Any,
        targets: Any,
        sample_weight: Any = None,
        *,
        n_jobs: int | None = None,
        verbose: int = 0,
    ) -> SVM:
        """Train all columns on a Gram matrix or store."""
        if not isinstance(gram, grams.DenseGram | grams.RowGram):
            gram, self.kernel_ = grams.DenseGram(_square(gram)), None
        targets = _as_targets(targets, len(gram))
        weight = row_weights(sample_weight, len(gram))
        _check_signs(targets, weight)
        with progress("columns", targets.shape[1], verbose) as report:

            def column(s: int) -> duals.Solution:
                solution = self._column(gram, targets[:, s], weight)
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
                kept = np.where(fold == f, 0.0, weight)
                start = self.dual_coef_[:, s], self.training_margins_[:, s] - self._free_bias(s)
                solution = self._column(gram, targets[:, s], kept, start)
                out[fold == f, s] = solution.margins[fold == f]
                report.advance()

            thread_map(task, tasks, n_jobs)
        return out

    def margins(self, X: Any) -> Array:
        """Return ``cross @ dual_coef + bias`` over the pooled support vectors."""
        check_is_fitted(self, "dual_coef_")
        if self.kernel_ is None:
            return self.margins_gram(X)
        rows = self.kernel_.prepare(_as_rows(X), self.origin_)
        out = np.empty((len(rows), len(self.bias_)))

        def block(cut: slice) -> None:
            cross = self.kernel_.block(rows[cut], self.support_rows_, self.gram_dtype_)
            out[cut] = self._combine(cross)

        cuts = grams.cross_blocks(len(rows), len(self.support_rows_), None)
        if len(cuts) == 1:
            block(cuts[0])
        else:
            thread_map(block, cuts)
        return out

    def margins_gram(self, cross: Any) -> Array:
        """Return the margins from kernel values (n_test, n_train) against the training rows."""
        check_is_fitted(self, "dual_coef_")
        cross = check_array(cross, dtype=[np.float64, np.float32])
        if cross.shape[1] != len(self.dual_coef_):
            raise ValueError(
                f"The kernel matrix has {cross.shape[1]} columns, but the machine was trained on "
                f"{len(self.dual_coef_)} rows: give kernel values against every training row."
            )
        with single_blas():
            return self._combine(cross[:, self.pooled_])

    def _column(
        self,
        gram: grams.Gram,
        target: Array,
        weight: Array,
        start: tuple[Array, Array] | None = None,
    ) -> duals.Solution:
        order = slice(None) if gram.order is None else gram.order
        y = target[order].astype(np.float64)
        box = np.where(y != 0, positive(self.C, "C") * weight[order], 0.0)
        if start is not None:
            start = start[0][order], start[1][order]
        lookup(duals.BIASES, self.bias, "bias")
        return duals.solve(
            gram,
            y,
            box,
            bias=self.bias,
            tol=positive(self.tol, "tol"),
            max_iter=self.max_iter,
            start=start,
        )

    def _free_bias(self, s: int) -> float:
        return float(self.bias_[s]) if self.bias == "free" else 0.0

    def _remember(
        self, gram: grams.Gram, targets: Array, solutions: Sequence[duals.Solution]
    ) -> None:
        order = slice(None) if gram.order is None else gram.order
        self.dual_coef_ = np.empty(targets.shape, order="F")
        self.training_margins_ = np.empty(targets.shape, order="F")
        self.gram_diagonal_ = np.empty(len(gram))
        self.gram_diagonal_[order] = gram.diagonal
        self.gram_dtype_ = gram.dtype
        for s, solution in enumerate(solutions):
            self.dual_coef_[order, s] = solution.dual_coef
            self.training_margins_[order, s] = solution.margins
        self.bias_ = np.array([solution.bias for solution in solutions])
        self.norm2_ = np.array([solution.norm2 for solution in solutions])
        self.objective_ = np.array([solution.objective for solution in solutions])
        self.gap_ = np.array([solution.gap for solution in solutions])
        self.n_iter_ = np.array([solution.n_iter for solution in solutions])
        self.support_ = np.flatnonzero((self.dual_coef_ != 0).any(axis=1))
        self._pool(targets)
        _warn_unconverged(solutions, self.tol)

    def _pool(self, targets: Array) -> None:
        """Order the support rows by the columns they take part in, so that zeros cost nothing."""
        self.pooled_, groups = _groups(targets, self.support_)
        self.groups_ = [
            _Group(a, b, columns, self._coef(self.pooled_[a:b], columns))
            for a, b, columns in groups
        ]
        if self.kernel_ is not None:
            self.support_rows_ = self.rows_[self.pooled_]
            del self.rows_

    def _coef(self, rows: Array, columns: Any) -> Array:
        return np.ascontiguousarray(self.dual_coef_[rows][:, columns], dtype=self.gram_dtype_)

    def _combine(self, cross: Array) -> Array:
        margins = np.tile(self.bias_, (len(cross), 1))
        for group in self.groups_:
            margins[:, group.columns] += cross[:, group.start : group.stop] @ group.coef
        return margins


class Bank(Machine):
    """Any scikit-learn binary classifier, cloned once per column.

    Its margin is ``decision_function`` if it has one, else the probability of +1 minus 1/2.
    """

    def __init__(self, estimator: Any) -> None:
        self.estimator = estimator

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags = get_tags(self.estimator).input_tags
        return tags

    def fit(
        self,
        X: Any,
        targets: Array,
        sample_weight: Any = None,
        *,
        n_jobs: int | None = None,
        verbose: int = 0,
    ) -> Bank:
        n = X.shape[0]
        targets = _as_targets(targets, n)
        weight = row_weights(sample_weight, n)
        _check_signs(targets, weight)
        if sample_weight is not None and not has_fit_parameter(self.estimator, "sample_weight"):
            if not np.all(weight == weight.max()):
                raise ValueError(
                    f"{type(self.estimator).__name__} takes no sample_weight: leave the weights "
                    f"out, or use a machine that takes them."
                )
            sample_weight = None
        self.used_ = [
            np.flatnonzero((targets[:, s] != 0) & (weight > 0)) for s in range(targets.shape[1])
        ]
        with progress("columns", targets.shape[1], verbose) as report:

            def column(s: int) -> Any:
                rows = self.used_[s]
                extra = {} if sample_weight is None else {"sample_weight": weight[rows]}
                fitted = clone(self.estimator).fit(self._take(X, rows), targets[rows, s], **extra)
                report.advance()
                return fitted

            parallel = joblib.Parallel(n_jobs=n_threads(n_jobs), prefer="threads")
            self.estimators_ = parallel(joblib.delayed(column)(s) for s in range(targets.shape[1]))
        self.training_margins_ = self.margins(X)
        return self

    def margins(self, X: Any) -> Array:
        check_is_fitted(self, "estimators_")
        pairs = zip(self.estimators_, self.used_, strict=True)
        if self._pairwise():
            return np.column_stack([_binary_margin(e, X[:, rows]) for e, rows in pairs])
        return np.column_stack([_binary_margin(e, X) for e, _ in pairs])

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
        """Return margins of each row under machines trained without its fold; -1 is never left out."""
        out = self.training_margins_.copy()
        for f in np.unique(fold[fold >= 0]):
            test, train = np.flatnonzero(fold == f), np.flatnonzero(fold != f)
            weight = None if sample_weight is None else sample_weight[train]
            machine = clone(self).fit(
                self._take(X, train), targets[train], weight, n_jobs=n_jobs, verbose=verbose
            )
            out[test] = machine.margins(X[np.ix_(test, train)] if self._pairwise() else X[test])
        return out

    def _pairwise(self) -> bool:
        return bool(get_tags(self.estimator).input_tags.pairwise)

    def _take(self, X: Any, rows: Array) -> Any:
        return X[np.ix_(rows, rows)] if self._pairwise() else X[rows]


def resolve(machine: Any) -> Machine:
    """Return a fresh machine from a name, a machine or a scikit-learn classifier."""
    if isinstance(machine, str):
        return lookup(MACHINES, machine, "machine")()
    if isinstance(machine, type):
        raise ValueError(f"machine is the class {machine.__name__}: give an object, with ().")
    if hasattr(machine, "margins"):
        return clone(machine)
    if hasattr(machine, "fit") and is_classifier(machine):
        return Bank(clone(machine))
    raise ValueError(
        f"machine must be a name ({', '.join(map(repr, MACHINES))}), a machine with fit() and "
        f"margins(), or a scikit-learn classifier; got {machine!r}."
    )


def _binary_margin(estimator: Any, X: Any) -> Array:
    if hasattr(estimator, "decision_function"):
        return np.asarray(estimator.decision_function(X), dtype=np.float64).ravel()
    if hasattr(estimator, "predict_proba"):
        return np.asarray(estimator.predict_proba(X), dtype=np.float64)[:, 1] - 0.5
    raise ValueError(
        f"{type(estimator).__name__} has neither decision_function nor predict_proba: "
        f"its margins are missing."
    )


def _as_rows(X: Any) -> Any:
    if isinstance(X, np.ndarray) and X.dtype == np.float64 and X.ndim == 2:
        return X  # checked at the door
    return check_array(X, accept_sparse="csr", dtype=np.float64)


def _square(K: Any) -> Array:
    """Return a precomputed kernel matrix, or an error if it is none."""
    if sparse.issparse(K):
        raise ValueError("A precomputed kernel matrix must be dense: give K.toarray().")
    K = check_array(K, dtype=[np.float64, np.float32])
    if K.shape[0] != K.shape[1]:
        raise ValueError(
            f"A precomputed kernel matrix must be square with a row and a column per training "
            f"row, got shape {K.shape}."
        )
    size = float(np.abs(K.diagonal()).max())
    for cut in grams.cross_blocks(len(K), len(K), 1):
        off = np.abs(K[cut] - K[:, cut].T)
        if off.max() > 1e-6 * max(size, 1e-300) + 1e-12:
            i, j = np.unravel_index(int(off.argmax()), off.shape)
            i = i + cut.start
            raise ValueError(
                f"A precomputed kernel matrix must be symmetric, but K[{i}, {j}] = {K[i, j]:g} "
                f"and K[{j}, {i}] = {K[j, i]:g}."
            )
    return np.ascontiguousarray(K)


def _as_targets(targets: Any, n_samples: int) -> Array:
    targets = np.asarray(targets)
    if targets.ndim != 2 or len(targets) != n_samples or not np.isin(targets, (-1, 0, 1)).all():
        raise ValueError(
            f"targets must be a ({n_samples}, n_dichotomies) matrix of +1, -1 and 0, got shape "
            f"{targets.shape}."
        )
    return targets.astype(np.int8)


def _check_signs(targets: Array, weight: Array) -> None:
    used = targets[weight > 0]
    bad = ~((used > 0).any(axis=0) & (used < 0).any(axis=0))
    if bad.any():
        raise ValueError(
            f"Column {int(np.argmax(bad))} has rows of one sign only once rows of zero weight are "
            f"dropped: every column needs rows of both signs."
        )


def _class_order(targets: Array) -> Array | None:
    """Return an order that puts rows of the same targets together; None when no target is 0."""
    if (targets != 0).all():
        return None
    packed = np.ascontiguousarray(targets.astype(np.int8))
    keys = packed.view(np.dtype((np.void, packed.shape[1]))).ravel()
    _, inverse = np.unique(keys, return_inverse=True)
    return np.argsort(inverse, kind="stable")


def _groups(targets: Array, support: Array) -> tuple[Array, list[tuple[int, int, Any]]]:
    """Return the support rows sorted by the columns that use them, and where each group stands."""
    if (targets != 0).all():
        return support, [(0, len(support), slice(None))]
    used = np.packbits(targets[support] != 0, axis=1)
    keys = used.view(np.dtype((np.void, used.shape[1]))).ravel()
    _, first, inverse = np.unique(keys, return_index=True, return_inverse=True)
    pooled = support[np.argsort(inverse, kind="stable")]
    stops = np.cumsum(np.bincount(inverse))
    columns = [np.flatnonzero(targets[support[i]]) for i in first]
    starts = np.concatenate([[0], stops[:-1]])
    return pooled, [(int(a), int(b), c) for a, b, c in zip(starts, stops, columns, strict=True)]


def _warn_unconverged(solutions: Sequence[duals.Solution], tol: float) -> None:
    late = [solution for solution in solutions if not solution.converged]
    if late:
        worst = max(late, key=lambda solution: solution.violation)
        warnings.warn(
            f"{len(late)} of {len(solutions)} columns stopped early: the largest violation of the "
            f"optimality conditions is {worst.violation:.2g} (tol={tol:g}), the relative duality "
            f"gap {worst.gap:.2g}. Raise max_iter, ask for dtype='float64', or scale the features.",
            ConvergenceWarning,
            stacklevel=3,
        )


MACHINES: dict[str, type[Machine]] = {"svm": SVM}
