"""Kernel machines: what they share in training, on one Gram store for all columns."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import Any

import numpy as np
from sklearn.utils import compute_class_weight

from outcode import gram as grams
from outcode import kernels
from outcode._checks import Array, row_weights
from outcode.machines.expansion import Expansion, as_rows, class_order


@dataclass(eq=False, repr=False)
class KernelParameters:
    """The parameters that all kernel machines share, and classifiers made of one.

    Parameters
    ----------
    kernel : "rbf", "linear", "poly", "laplacian", "exponential", "sigmoid", "precomputed" or a
        function
    gamma : number, "scale" (1 / (d var X)) or "auto" (1 / d)
    degree, coef0 : of the polynomial and the sigmoid kernel
    class_weight : weights of the *user's* classes, a dict or "balanced"
    max_memory : bytes the Gram matrix may take; None is half of what is free
    dtype : of the Gram matrix; None is float64 up to 5,000 rows and float32 beyond
    """

    kernel: Any = "rbf"
    gamma: float | str = "scale"
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


class KernelMachine(KernelParameters, Expansion):
    """A machine on a Gram store shared by all its columns.

    A subclass adds its parameters and defines ``fit_gram``, which sets ``dual_coef_`` and
    ``bias_`` and calls ``expand``.
    """

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
        raise NotImplementedError(f"{type(self).__name__} must define fit_gram()")

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
        """Return the Gram store of the training rows."""
        if kernels.named(self.kernel).given:
            return grams.given(X)
        X = as_rows(X)
        kernel = self.kernel_for(X, sample_weight)
        self.check_memory(X.shape[0], np.asarray(targets))
        origin = kernel.origin(X)
        return grams.gram(
            kernel,
            kernel.prepare(X, origin),
            origin=origin,
            dtype=self.value_type(X.shape[0]),
            max_memory=self.max_memory,
            order=self.row_order(np.asarray(targets)),
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

    def check_memory(self, n: int, targets: Array) -> None:
        """Raise an error if training n rows takes more memory than there is."""


def as_store(gram: Any) -> grams.Gram:
    """Return a Gram store as it is, a matrix as a store."""
    stores = grams.DenseGram | grams.RowGram
    return gram if isinstance(gram, stores) else grams.given(gram)
