"""Kernel machines: what they share in training, on one Gram store for all columns."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass
from typing import Any, ClassVar

import numpy as np
from sklearn.base import clone
from sklearn.utils.validation import check_is_fitted

from outcode import gram as grams
from outcode import kernels
from outcode._checks import Array, row_weights
from outcode.machines.common import Solved, as_rows, as_targets, warn_held_out
from outcode.machines.expansion import Expansion, class_order
from outcode.parallel import thread_map
from outcode.progress import progress


@dataclass(eq=False, repr=False)
class KernelParameters:
    """The parameters that all kernel machines share, and classifiers made of one.

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
        Type of the Gram matrix; None is float64 up to 5,000 rows and float32 beyond.
    """

    kernel: Any = "rbf"
    gamma: Any = "scale"
    _: KW_ONLY
    degree: int = 3
    coef0: float = 0.0
    class_weight: Any = None
    max_memory: float | None = None
    dtype: Any = None

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()  # type: ignore[misc]  # of the estimator beside it
        pairwise = isinstance(self.kernel, str) and self.kernel == "precomputed"
        tags.input_tags.pairwise, tags.input_tags.sparse = pairwise, not pairwise
        return tags


@dataclass(frozen=True)
class Task:
    """What a kernel machine is trained on, checked: a Gram store, targets, weights of the rows."""

    gram: grams.Gram
    targets: Array
    weight: Array
    n_jobs: int | None = None
    verbose: int = 0

    @classmethod
    def of(cls, gram: Any, targets: Any, sample_weight: Any, **threads: Any) -> Task:
        """Return the task of a Gram store or matrix, or an error that says what is wrong."""
        gram = as_store(gram)
        n = len(gram)
        return cls(gram, as_targets(targets, n), row_weights(sample_weight, n), **threads)

    def without(self, rows: Array) -> Array:
        """Return the weights once some rows are left out."""
        weight = self.weight.copy()
        weight[rows] = 0.0
        return weight


class KernelMachine(KernelParameters, Expansion):
    """A machine on a Gram store shared by all its columns.

    A subclass adds its parameters and defines :meth:`train`, which sets ``dual_coef_``, ``bias_``
    and ``training_margins_`` and calls ``expand``, and :meth:`holding_out` if it knows a faster
    way to leave rows out than training again.

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
        Type of the Gram matrix; None is float64 up to 5,000 rows and float32 beyond.

    Examples
    --------
    A machine whose margin is a mean of kernel values, each with the sign of its row:

    >>> class Means(KernelMachine):
    ...     def train(self, task, start):
    ...         self.dual_coef_ = task.targets / len(task.gram)
    ...         self.bias_ = np.zeros(task.targets.shape[1])
    ...         self.expand(task.gram, task.targets)
    >>> machine = Means(kernel="linear").fit([[-1.0], [1.0]], np.array([[-1], [1]]))
    >>> machine.margins([[3.0]]).tolist()
    [[3.0]]
    """

    #: Whether the folds that are held out are trained at the same time.
    parallel_folds: ClassVar[bool] = True
    #: Whether targets may come as :class:`dichotomies.Coded`.
    takes_coded: ClassVar[bool] = False
    training_margins_: Any

    def train(self, task: Task, start: Any) -> None:
        """Train all columns."""
        raise NotImplementedError(f"{type(self).__name__} must define train()")

    def holding_out(self, task: Task) -> Callable[[Array], Solved]:
        """Return a function from rows to the margins of a machine trained without them."""

        def leave_out(rows: Array) -> Solved:
            machine = clone(self)
            machine.fit_gram(task.gram, task.targets, task.without(rows), n_jobs=1, start=self)
            return machine.training_margins_, None

        return leave_out

    def fit(
        self,
        X: Any,
        targets: Array,
        sample_weight: Any = None,
        *,
        n_jobs: int | None = None,
        verbose: int = 0,
    ) -> Any:
        gram = self.gram(X, targets, sample_weight, n_jobs=n_jobs)
        return self.fit_gram(gram, targets, sample_weight, n_jobs=n_jobs, verbose=verbose)

    def fit_gram(
        self,
        gram: Any,
        targets: Any,
        sample_weight: Any = None,
        *,
        n_jobs: int | None = None,
        verbose: int = 0,
        start: Any = None,
    ) -> Any:
        """Train all columns on a Gram matrix or store.

        ``start`` is a machine fitted to a similar problem on the same rows, where a machine that
        iterates begins.
        """
        self.train(Task.of(gram, targets, sample_weight, n_jobs=n_jobs, verbose=verbose), start)
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
        """Return margins of each row under machines trained without its fold.

        ``fold`` (n_samples,) numbers the folds, -1 for a row that is never left out. A machine that
        iterates starts each of them from the fitted solution.
        """
        check_is_fitted(self, "bias_")
        task = Task.of(gram, targets, sample_weight, n_jobs=n_jobs, verbose=verbose)
        return self.hold_out(task, fold)

    def hold_out(self, task: Task, fold: Array) -> Array:
        """Return the margins of all rows, each without its fold: one training after the other."""
        out, numbers = np.empty(task.targets.shape), np.unique(fold).tolist()
        leave_out = self.holding_out(task)
        with progress("folds", len(numbers), task.verbose) as report:

            def one(f: int) -> Any:
                held = np.flatnonzero(fold == f)
                margins, certificate = leave_out(held if f >= 0 else held[:0])
                out[held] = margins[held]
                report.advance()
                return certificate

            solved = thread_map(one, numbers, task.n_jobs if self.parallel_folds else 1)
        warn_held_out(solved, getattr(self, "tol", 0.0))
        return out

    def gram(
        self, X: Any, targets: Any, sample_weight: Any = None, *, n_jobs: int | None = None
    ) -> grams.Gram:
        """Return the Gram store of the training rows."""
        if kernels.named(self.kernel).given:
            return grams.given(X)
        X = as_rows(X)
        kernel = self.kernel_for(X, sample_weight)
        self.check_memory(X.shape[0], targets)
        origin = kernel.origin(X)
        return grams.gram(
            kernel,
            kernel.prepare(X, origin),
            origin=origin,
            dtype=self.value_type(X.shape[0]),
            max_memory=self.max_memory,
            order=self.row_order(targets),
            whole=self.needs_whole(kernel, X, targets),
            n_jobs=n_jobs,
        )

    def kernel_for(self, X: Any, sample_weight: Any = None) -> kernels.Kernel:
        """Return the kernel with its parameters as numbers."""
        weight = row_weights(sample_weight, X.shape[0])
        shape: dict[str, Any] = {"gamma": self.gamma, "degree": self.degree, "coef0": self.coef0}
        return kernels.resolve(self.kernel, X, weight=weight, **shape)

    def value_type(self, n: int) -> np.dtype[Any]:
        """Return the type of the kernel values of n rows."""
        return grams.precision(n, self.dtype)

    def row_order(self, targets: Array) -> Array | None:
        """Return the order in which rows stand in the Gram store, None for the user's."""
        return class_order(targets)

    def needs_whole(self, kernel: kernels.Kernel, X: Any, targets: Any) -> bool:
        """Return whether training looks at most of the Gram matrix."""
        return True

    def check_memory(self, n: int, targets: Array) -> None:
        """Raise an error if training n rows takes more memory than there is."""


def as_store(gram: Any) -> grams.Gram:
    """Return a Gram store as it is, a matrix as a store."""
    stores = grams.DenseGram | grams.RowGram
    return gram if isinstance(gram, stores) else grams.given(gram)
