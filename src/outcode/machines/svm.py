"""Support vector machines, every column on the same Gram matrix."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import check_is_fitted

from outcode import gram as grams
from outcode import kernels
from outcode._checks import Array, lookup, positive, row_weights, twin, warn
from outcode.dichotomies import distinct
from outcode.machines.common import as_targets, check_signs, warn_gap
from outcode.machines.growing import GrowingMachine
from outcode.machines.held_out import HeldOutMargins
from outcode.machines.kernel import as_store
from outcode.parallel import thread_map
from outcode.progress import progress
from outcode.solvers.svm import bank, products
from outcode.solvers.svm import columns as duals
from outcode.solvers.svm import layout as layouts

#: Beyond so many rows kernel values are float32 where violations of this size are allowed.
SINGLE_LIMIT, SINGLE_TOL = 2000, 1e-4


@dataclass(eq=False, repr=False)
class SVM(GrowingMachine):
    """Support vector machines on one shared Gram matrix.

    Column s minimises  1/2 |w_s|^2 + sum_i C_i max(0, 1 - t_is f_s(x_i))  over its own rows, with
    C_i = C times the weight of row i.

    Parameters
    ----------
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
        Bytes the Gram matrix may take; None is half of what is free.
    dtype : dtype or None, default=None
        Type of the Gram matrix; None is float32 beyond 2,000 rows, float64 up to there, and up to
        5,000 rows for a ``tol`` below 1e-4.
    C : float, default=1.0
        Upper bound of each alpha.
    bias : {"kernel", "free", "none"}, default="kernel"
        With "kernel" 1 is added to the kernel, which the leave-one-out theory needs; "free" is the
        unpenalised bias of LIBSVM.
    tol : float, default=1e-3
        Largest violation of the optimality conditions.
    max_iter : int, default=10_000_000
        Steps per column.

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

    takes_coded = True

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
        weight = row_weights(sample_weight, len(gram))
        layout = _layout(targets, gram, weight)
        begin = None if start is None else start.entries(layout)
        with progress("columns", layout.shape[1], verbose) as report:
            solutions = bank.solve(
                gram,
                layout,
                weight,
                bank.Problems.path([positive(self.C, "C")]),
                self.rule(),
                start=begin,
                n_jobs=n_jobs,
                advance=report.advance if verbose else None,
            )
        self._remember(gram, solutions)
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
        threads: dict[str, Any] = {"n_jobs": n_jobs, "verbose": verbose}
        return np.asarray(self.hold_out_used(gram, targets, fold, sample_weight, **threads))

    def hold_out_used(
        self,
        gram: grams.Gram,
        targets: Any,
        fold: Array,
        sample_weight: Any = None,
        *,
        n_jobs: int | None = None,
        verbose: int = 0,
    ) -> Any:
        """Return :meth:`held_out_margins`, or, for a code with zeros, what gives them when asked.

        It has at once the margins of the rows that a column uses.
        """
        check_is_fitted(self, "bias_")
        weight, folds = row_weights(sample_weight, len(gram)), np.unique(fold[fold >= 0])
        if not len(folds):  # no class has a row to spare
            return self.training_margins_.copy()
        layout = _layout(targets, gram, weight)
        with progress("columns", layout.shape[1], verbose) as report:
            solutions = bank.solve(
                gram,
                layout,
                np.where(fold == folds[:, None], 0.0, weight),
                bank.Problems.path([positive(self.C, "C")], len(folds)),
                self.rule(),
                start=self.entries(layout),
                n_jobs=n_jobs,
                advance=report.advance if verbose else None,
            )
        if not layout.whole() and not self.kernel_.given and "solutions_" in vars(self):
            each = [solutions.one(k) for k in range(len(folds))]
            return HeldOutMargins(self, _Held(gram), [*each, self.solutions_], fold)
        out = self.training_margins_.copy() if np.any(fold < 0) else np.empty(layout.shape)
        for k, f in enumerate(folds):
            rows = np.flatnonzero(fold == f)
            out[rows] = products.margins(gram, solutions, k, self.bias == "free", rows, n_jobs)
        return out

    def fit_path(
        self,
        gram: Any,
        targets: Any,
        weights: Array,
        values: Sequence[float],
        *,
        n_jobs: int | None = None,
        start: Any = None,
    ) -> Path:
        """Train all columns for several values of C and weights of the rows, on one Gram matrix.

        ``weights`` is (n_weightings, n_samples); ``start`` a path of the same targets and weights,
        of a Gram matrix whose rows stand in the same order.
        """
        gram, values, begin = as_store(gram), [positive(C, "C") for C in values], None
        if start is None:
            layout = _layout(targets, gram, weights)
        else:
            layout, begin = start.solutions.layout, (start.solutions.coef[: len(weights)], None)
        problems = bank.Problems.path(values, len(weights))
        args = gram, layout, weights, problems, self.rule()
        path = Path(self, gram, weights, values, bank.solve(*args, start=begin, n_jobs=n_jobs))
        path.warn()
        return path

    def entries(self, layout: layouts.Layout) -> tuple[Array, Array | None]:
        """Return dual variables and margins, a free bias left out, of the rows of each column."""
        known = vars(self).get("training_margins_", self) is not None
        mine = self.__dict__.get("solutions_")
        if mine is not None and mine.layout.same(layout):
            return mine.coef[0], mine.fitted[0] if known else None
        place = layout.rows, layout.columns
        if not known:
            return self.dual_coef_[place], None
        free = self.bias_[place[1]] if self.bias == "free" else 0.0
        return self.dual_coef_[place], self.training_margins_[place] - free

    @cached_property
    def dual_coef_(self) -> Array:  # type: ignore[override]  # it can be set all the same
        """(n_samples, n_dichotomies) alpha times target, made when it is first asked for."""
        solutions = self._solved("dual_coef_")
        return solutions.layout.matrix(solutions.coef[0])

    @cached_property
    def training_margins_(self) -> Array:
        """(n_samples, n_dichotomies) margins on the training rows, made when first asked for."""
        solutions = self._solved("training_margins_")
        if solutions.layout.whole():
            free = self.bias_ if self.bias == "free" else 0.0
            return solutions.layout.matrix(solutions.fitted[0]) + free
        gram = self.gram_.get()
        if gram is None:
            return self.ready_margins(self.training_rows_)
        return products.margins(gram, solutions, 0, self.bias == "free")

    def needs_whole(self, kernel: kernels.Kernel, X: Any, targets: Any) -> bool:
        """Large columns of few of the rows, as in one-vs-one, look at the squares of their rows."""
        if X.shape[0] <= grams.DOUBLE_LIMIT or sparse.issparse(X) or not kernel.as_near:
            return True
        code, label = distinct(targets)
        share = np.mean(np.bincount(label) @ (code != 0)) / X.shape[0]
        return bool(share > duals.SHRINK or share * X.shape[0] < bank.ON_DEMAND)

    def value_type(self, n: int) -> np.dtype[Any]:
        limit = SINGLE_LIMIT if self.tol >= SINGLE_TOL else grams.DOUBLE_LIMIT
        return grams.precision(n, self.dtype, limit)

    def _solved(self, name: str) -> bank.Solutions:
        if "solutions_" not in vars(self):
            raise AttributeError(f"This SVM has no attribute {name!r}: it is not trained.")
        solutions: bank.Solutions = self.solutions_
        return solutions

    def rule(self) -> duals.Rule:
        """Return the bias and when to stop."""
        lookup(duals.BIASES, self.bias, "bias")
        return duals.Rule(self.bias, positive(self.tol, "tol"), self.max_iter)

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
        check_is_fitted(self, "bias_")
        box = positive(self.C, "C") * row_weights(sample_weight, len(gram))
        order = np.arange(len(gram)) if gram.order is None else gram.order
        arrays, place = (targets, self.dual_coef_, self.training_margins_), grams.places(gram)[rows]

        def column(s: int) -> Array:
            y, dual_coef, margins = (a[order, s].astype(np.float64) for a in arrays)
            return duals.removals(gram, y, box[order], dual_coef, margins, place, self.bias)

        return np.stack(thread_map(column, range(targets.shape[1]), n_jobs), axis=2)

    def expanded(self, gram: grams.Gram, rows: Array) -> tuple[Array, Array]:
        """Return margins of some training rows by their sums, and the sums of absolute values."""
        K, coef = gram.between(rows, np.arange(len(gram))), self.dual_coef_
        return K @ coef + self.bias_, np.abs(K) @ np.abs(coef) + np.abs(self.bias_)

    def _remember(self, gram: grams.Gram, solutions: bank.Solutions) -> None:
        for name in ("dual_coef_", "training_margins_"):
            self.__dict__.pop(name, None)  # those of an earlier fit
        self.know(gram, solutions)
        self.training_rows_ = gram.support(np.arange(len(gram)))
        self.hold(gram, products.groups(solutions.layout, solutions.coef[0], gram.dtype))
        if self.kernel_.given:  # no other way to have them once the Gram matrix is gone
            _ = self.training_margins_
        _warn_unconverged(solutions.certificate[0, :, 4], self.gap_, self.tol)

    def know(self, gram: grams.Gram, solutions: bank.Solutions) -> None:
        """Take over a solution, without what prediction of new rows needs."""
        self.solutions_, self.kernel_ = solutions, gram.kernel
        self.gram_diagonal_ = gram.diagonal[solutions.layout.places]
        certificate = dict(zip(bank.CERTIFICATE, solutions.certificate[0].T.copy(), strict=True))
        self.bias_, self.norm2_ = certificate["bias"], certificate["norm2"]
        self.objective_, self.gap_ = certificate["objective"], certificate["gap"]
        self.n_iter_ = certificate["n_iter"].astype(np.int64)
        self.gram_ = _Held(gram)


@dataclass(frozen=True)
class Path:
    """Support vector machines for several values of C and weights of the rows, solved together.

    Problem c * n_weightings + k of the solutions is value c of C with weighting k.
    """

    machine: SVM
    gram: grams.Gram
    weights: Array
    values: Sequence[float]
    solutions: bank.Solutions

    def fitted(self, c: int, k: int) -> SVM:
        """Return the machine of a value of C and a weighting; it has margins on this Gram alone."""
        found, place = twin(self.machine), c * len(self.weights) + k
        found.C = self.values[c]
        found.know(self.gram, self.solutions.one(place))
        return found

    def margins(self, k: int, rows: Array) -> Array:
        """Return the (n_values, len(rows), n_dichotomies) margins with one weighting."""
        return self._margins(self.solutions, k, len(self.weights), rows)

    def margins_of_each(self, rows: Sequence[Array]) -> list[Array]:
        """Return the margins of some rows of each weighting, for every value of C in turn."""
        layout = self.solutions.layout
        if not layout.whole():
            found = [self.margins(k, some) for k, some in enumerate(rows)]
            return [margins[c] for c in range(len(self.values)) for margins in found]
        known = self.solutions.margins(self.machine.bias == "free")
        known = known.reshape(len(self.values), len(rows), *layout.shape[::-1])
        lengths = [len(some) for some in rows]
        which, ends = np.repeat(np.arange(len(rows)), lengths), np.cumsum(lengths)[:-1]
        parts = np.split(known[:, which, :, layout.places[np.concatenate(rows)]], ends)
        return [part[:, c] for c in range(len(self.values)) for part in parts]

    def held_out_margins(self, fold: Array, n_jobs: int | None = None) -> Array:
        """Return (n_values, n_weightings, n_samples, n_dichotomies) margins without a row's fold.

        ``fold`` (n_weightings, n_samples) numbers the folds; -1 for a row that is never left out,
        which has the margins of the path itself.
        """
        pairs = _pairs(fold)
        out = np.empty((len(self.values), len(self.weights), *self.solutions.layout.shape))
        for k, row in enumerate(fold):
            rows = np.flatnonzero(row < 0)
            out[:, k, rows] = self.margins(k, rows)
        solutions = self._without(fold, pairs, n_jobs) if pairs else None
        for j, (k, f) in enumerate(pairs):
            rows = np.flatnonzero(fold[k] == f)
            out[:, k, rows] = self._margins(solutions, j, len(pairs), rows)
        return out

    def held_out_entries(self, fold: Array, n_jobs: int | None = None) -> Array:
        """Return such margins of the rows that each column uses, as the solver lists them.

        They are (n_values, n_weightings, n_entries); those of other rows are not computed.
        """
        pairs, free, layout = _pairs(fold), self.machine.bias == "free", self.solutions.layout
        found = [self.solutions.margins(free)]
        found += [self._without(fold, pairs, n_jobs).margins(free)] if pairs else []
        parts = [part.reshape(len(self.values), -1, part.shape[1]) for part in found]
        place = np.tile(np.arange(len(fold))[:, None], len(layout.order))
        for j, (k, f) in enumerate(pairs):
            place[k, fold[k] == f] = len(fold) + j
        both = np.concatenate(parts, axis=1)
        return both[:, place[:, layout.rows], np.arange(both.shape[2])]

    def _without(self, fold: Array, pairs: Sequence[Any], n_jobs: int | None) -> bank.Solutions:
        """Solve every problem without some folds, from its solution at the first value of C."""
        begin = [k for k, _ in pairs]
        return bank.solve(
            self.gram,
            self.solutions.layout,
            np.stack([np.where(fold[k] == f, 0.0, self.weights[k]) for k, f in pairs]),
            bank.Problems.path(self.values, len(pairs)),
            self.machine.rule(),
            start=(self.solutions.coef[begin], self.solutions.fitted[begin]),
            n_jobs=n_jobs,
        )

    def warn(self) -> None:
        """Warn if a column stopped early."""
        certificate = self.solutions.certificate
        _warn_unconverged(
            certificate[..., 4].ravel(),
            certificate[..., 3].ravel(),
            self.machine.tol,
            trials=True,
        )

    def _margins(self, solutions: Any, k: int, width: int, rows: Array) -> Array:
        problems = np.arange(len(self.values)) * width + k
        free = self.machine.bias == "free"
        return products.path_margins(self.gram, solutions, problems, free, rows)


def _pairs(fold: Array) -> list[tuple[int, int]]:
    """Return every weighting and the numbers of its folds."""
    return [(k, f) for k, row in enumerate(fold) for f in np.unique(row[row >= 0]).tolist()]


class _Held:
    """A Gram store for as long as someone else holds it; gone in a copy."""

    def __init__(self, gram: grams.Gram | None = None) -> None:
        self.get: Callable[[], Any] = (lambda: None) if gram is None else weakref.ref(gram)

    def __reduce__(self) -> Any:
        return _Held, ()


def _layout(targets: Any, gram: grams.Gram, weight: Array) -> layouts.Layout:
    """Return the rows of each column; the targets are checked, one row of each kind."""
    if len(np.shape(targets)) != 2 or len(targets) != len(gram):
        as_targets(targets, len(gram))
    code, kind = distinct(targets)
    code = as_targets(code, len(code))
    for weighting in np.atleast_2d(weight):
        check_signs(code, np.bincount(kind, weights=weighting))
    return layouts.layout(code, kind, gram.order)


def _warn_unconverged(violation: Array, gap: Array, tol: float, trials: bool = False) -> None:
    """Warn of columns that stopped early, or ended with a large gap unless they are trials."""
    late = np.flatnonzero(violation > tol)
    if not len(late) and not trials:
        warn_gap(gap, tol)
    elif len(late):
        worst = late[np.argmax(violation[late])]
        warn(
            f"{len(late)} of {len(gap)} columns stopped early: the largest violation of the "
            f"optimality conditions is {violation[worst]:.2g} (tol={tol:g}), the relative "
            f"duality gap {gap[worst]:.2g}. Raise max_iter, ask for dtype='float64', or scale the "
            f"features.",
            ConvergenceWarning,
        )


NAMES = {"svm": SVM}
