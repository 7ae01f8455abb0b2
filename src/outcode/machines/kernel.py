"""Kernel machines: one Gram store for training, one product over pooled support rows to predict."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.utils import check_array, compute_class_weight
from sklearn.utils.validation import check_is_fitted

from outcode import gram as grams
from outcode import kernels
from outcode._checks import Array, row_weights
from outcode.machines.common import Machine
from outcode.parallel import single_blas, thread_map
from outcode.solvers.svm import layout as layouts


@dataclass(frozen=True)
class _Group:
    """Support rows ``start:stop`` that all take part in the same columns."""

    start: int
    stop: int
    columns: Any
    coef: Array


class KernelMachine(Machine):
    """A machine whose margins are ``cross @ dual_coef + bias``, on a Gram store shared by columns.

    A subclass has the kernel parameters ``kernel``, ``gamma``, ``degree``, ``coef0``,
    ``class_weight``, ``max_memory`` and ``dtype``, and defines ``fit_gram``, which sets
    ``dual_coef_`` (n_samples, n_dichotomies) and ``bias_`` and then calls ``pool``.
    """

    kernel: Any
    gamma: Any
    degree: int
    coef0: float
    class_weight: Any
    max_memory: float | None
    dtype: Any
    dual_coef_: Array
    bias_: Array

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

    def as_store(self, gram: Any) -> grams.Gram:
        """Return a Gram store as it is, a matrix as a store."""
        if isinstance(gram, grams.DenseGram | grams.RowGram):
            return gram
        self.kernel_ = None
        return grams.DenseGram(_square(gram))

    def margins(self, X: Any) -> Array:
        """Return ``cross @ dual_coef + bias`` over the pooled support vectors."""
        check_is_fitted(self, "bias_")
        if self.kernel_ is None:
            return self.margins_gram(X)
        return self._margins(self.kernel_.prepare(_as_rows(X), self.origin_))

    def _margins(self, rows: Any) -> Array:
        """Return the margins of rows made ready for the kernel."""
        kernel: Any = self.kernel_
        out = np.empty((len(rows), len(self.bias_)))

        def block(cut: slice) -> None:
            cross = kernel.block(rows[cut], self.support_rows_, self.gram_dtype_)
            out[cut] = self._combine(cross)

        width = max(len(self.support_rows_), len(self.bias_))
        thread_map(block, grams.cross_blocks(len(rows), width))
        return out

    def margins_gram(self, cross: Any) -> Array:
        """Return the margins from kernel values (n_test, n_train) against the training rows."""
        check_is_fitted(self, "bias_")
        cross = check_array(cross, dtype=[np.float64, np.float32])
        if cross.shape[1] != len(self.dual_coef_):
            raise ValueError(
                f"The kernel matrix has {cross.shape[1]} columns, but the machine was trained on "
                f"{len(self.dual_coef_)} rows: give kernel values against every training row."
            )
        with single_blas():
            return self._combine(cross[:, self.pooled_])

    def pool(self, targets: Array, dtype: Any) -> None:
        """Order the support rows by the columns they take part in, so that zeros cost nothing."""
        support = np.flatnonzero((self.dual_coef_ != 0).any(axis=1))
        pooled, groups = _groups(targets, support)
        self.hold(
            [
                (pooled[a:b], columns, self.dual_coef_[pooled[a:b]][:, columns])
                for a, b, columns in groups
            ],
            dtype,
        )

    def hold(self, groups: list[tuple[Array, Any, Array]], dtype: Any) -> None:
        """Keep support rows in groups: the rows, the columns they take part in, dual variables."""
        self.gram_dtype_ = dtype
        self.pooled_ = np.concatenate([rows for rows, _, _ in groups])
        self.support_ = np.sort(self.pooled_)
        places = pairwise([0, *np.cumsum([len(rows) for rows, _, _ in groups]).tolist()])
        self.groups_ = [
            _Group(a, b, columns, np.ascontiguousarray(coef, dtype=dtype))
            for (a, b), (_, columns, coef) in zip(places, groups, strict=True)
        ]
        if self.kernel_ is not None:
            self.support_rows_ = self.rows_[self.pooled_]
            del self.rows_

    def _combine(self, cross: Array) -> Array:
        if len(self.groups_) == 1 and len(self.bias_) == self.groups_[0].coef.shape[1]:
            return settled(cross @ self.groups_[0].coef + self.bias_)
        margins = np.tile(self.bias_[:, None], (1, len(cross)))  # one column after the other
        for group in self.groups_:
            margins[group.columns] += group.coef.T @ cross[:, group.start : group.stop].T
        return settled(margins.T)


def settled(margins: Array) -> Array:
    """Return margins rounded, in place, to 40 bits of the largest in their row.

    BLAS sums a row in another order when other rows come with it. Margins that are equal but for
    such rounding (those of support vectors, at exactly -1) must decode to the same class whatever
    rows are predicted together.
    """
    grain = 1.5 * 2.0**12 * np.minimum(np.abs(margins).max(axis=1, keepdims=True), 1e300)
    margins += grain  # what lies below its last bit is lost
    margins -= grain
    return margins


def _as_rows(X: Any) -> Any:
    if isinstance(X, np.ndarray) and X.dtype == np.float64 and X.ndim == 2:
        return X  # checked at the door
    return check_array(X, accept_sparse="csr", dtype=np.float64)


def _square(K: Any) -> Array:
    """Return a precomputed kernel matrix, or an error if it is none."""
    if sparse.issparse(K):
        raise ValueError("A precomputed kernel matrix cannot be sparse: give K.toarray().")
    K = check_array(K, dtype=[np.float64, np.float32])
    if K.shape[0] != K.shape[1]:
        raise ValueError(
            f"A precomputed kernel matrix must be square with a row and a column per training "
            f"row, got shape {K.shape}."
        )
    size = float(np.abs(K.diagonal()).max())
    for cut in grams.cross_blocks(len(K), len(K)):
        off = np.abs(K[cut] - K[:, cut].T)
        if off.max() > 1e-6 * max(size, 1e-300) + 1e-12:
            i, j = np.unravel_index(int(off.argmax()), off.shape)
            i = i + cut.start
            raise ValueError(
                f"A precomputed kernel matrix must be symmetric, but K[{i}, {j}] = {K[i, j]:g} "
                f"and K[{j}, {i}] = {K[j, i]:g}."
            )
    return np.ascontiguousarray(K)


def _class_order(targets: Array) -> Array | None:
    """Return an order that puts rows used by the same columns together; None without zeros."""
    first, kind = layouts.distinct(targets)
    if (targets[first] != 0).all():
        return None
    return np.argsort(layouts.usage(targets[first])[1][kind], kind="stable")


def _groups(targets: Array, support: Array) -> tuple[Array, list[tuple[int, int, Any]]]:
    """Return the support rows sorted by the columns that use them, and where each group stands."""
    if (targets != 0).all():
        return support, [(0, len(support), slice(None))]
    used, kind = layouts.usage(targets[support])
    pooled = support[np.argsort(kind, kind="stable")]
    columns = [np.flatnonzero(row) for row in used]
    places = pairwise([0, *np.cumsum(np.bincount(kind)).tolist()])
    return pooled, [(a, b, c) for (a, b), c in zip(places, columns, strict=True)]
