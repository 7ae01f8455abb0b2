"""Margins of kernel machines: one product over the pooled support rows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, ClassVar

import numpy as np
from sklearn.utils import check_array
from sklearn.utils.validation import check_is_fitted

from outcode import gram as grams
from outcode import kernels
from outcode._checks import Array
from outcode.machines.common import Machine
from outcode.parallel import single_blas, thread_map
from outcode.saved import (
    KernelKind,
    Kind,
    Optional,
    RowsKind,
    Whole,
    Word,
    flags,
    reals,
    set_attributes,
    wholes,
)
from outcode.scores import settled


@dataclass(frozen=True)
class _Group:
    """Support rows ``start:stop`` that all take part in the same columns."""

    start: int
    stop: int
    columns: Any
    coef: Array


class Expansion(Machine):
    """A machine whose margins are ``cross @ dual_coef + bias`` over its support rows.

    Training sets ``dual_coef_`` (n_samples, n_dichotomies) and ``bias_`` (n_dichotomies,) and
    calls :meth:`expand`, which takes kernel, origin and support rows from the Gram store.
    """

    dual_coef_: Array
    bias_: Array
    kernel_: kernels.Kernel
    origin_: Array | None
    support_: Array
    support_rows_: kernels.Rows

    #: ``use`` numbers the set of columns that each support row takes part in.
    saved: ClassVar[Mapping[str, Kind]] = {
        "kernel_": KernelKind(),
        "gram_dtype_": Word(("float32", "float64")),
        "n_train_": Whole(0),
        "bias_": reals("n_dichotomies"),
        "dual_coef_": reals("n_rows", "n_dichotomies"),
        "sets": flags("n_sets", "n_dichotomies"),
        "use": wholes("n_rows", high="n_sets"),
        "rows": RowsKind("n_rows", "n_features"),
        "origin_": Optional(reals("n_features")),
    }
    left_out: ClassVar[tuple[str, ...]] = ("training_margins_", "gram_diagonal_")

    def margins(self, X: Any) -> Array:
        """Return ``cross @ dual_coef + bias`` over the pooled support vectors."""
        check_is_fitted(self, "dual_coef_")
        if self.kernel_.given:
            return self.margins_gram(X)
        kernel, rows = self.kernel_, self.kernel_.prepare(as_rows(X), self.origin_)
        out = np.empty((len(rows), len(self.bias_)))

        def block(cut: slice) -> None:
            cross = kernel.block(rows[cut], self.support_rows_, self.gram_dtype_)
            out[cut] = self._combine(cross)

        thread_map(block, grams.cross_blocks(len(rows), len(self.support_rows_)))
        return out

    def margins_gram(self, cross: Any) -> Array:
        """Return the margins from kernel values (n_test, n_train) against the training rows."""
        check_is_fitted(self, "dual_coef_")
        cross = check_array(cross, dtype=[np.float64, np.float32])
        if cross.shape[1] != self.n_train_:
            raise ValueError(
                f"The kernel matrix has {cross.shape[1]} columns, but the machine was trained on "
                f"{self.n_train_} rows: give kernel values against every training row."
            )
        with single_blas():
            return self._combine(cross[:, self.pooled_])

    def expand(self, gram: grams.Gram, targets: Array) -> None:
        """Keep what prediction needs of the Gram store: the kernel and the support rows."""
        self.kernel_, self.origin_ = gram.kernel, gram.origin
        self.gram_dtype_, self.n_train_ = gram.dtype, len(gram)
        self.support_ = np.flatnonzero((self.dual_coef_ != 0).any(axis=1))
        self._pool(targets)
        self.support_rows_ = gram.support(self.pooled_)

    def weight_products(self) -> Array:
        """Return W'W = A'KA, (n_dichotomies, n_dichotomies), A the dual coefficients."""
        if self.kernel_.given:
            raise ValueError(
                "A precomputed kernel leaves no rows to compare: the products of weight vectors "
                "need a kernel other than 'precomputed'."
            )
        rows, coef = self.support_rows_, self.dual_coef_[self.pooled_]
        total = np.zeros((len(self.bias_),) * 2)
        with single_blas():
            for cut in grams.cross_blocks(len(rows), len(rows)):
                total += coef[cut].T @ (self.kernel_.block(rows[cut], rows) @ coef)
        return (total + total.T) / 2.0

    def _pool(self, targets: Array) -> None:
        """Order the support rows by the columns they take part in, so that zeros cost nothing."""
        self.pooled_, groups = _groups(targets, self.support_)
        self.groups_ = [
            _Group(a, b, columns, self._coef(self.pooled_[a:b], columns))
            for a, b, columns in groups
        ]

    def _coef(self, rows: Array, columns: Any) -> Array:
        return np.ascontiguousarray(self.dual_coef_[rows][:, columns], dtype=self.gram_dtype_)

    def _combine(self, cross: Array) -> Array:
        margins = np.tile(self.bias_, (len(cross), 1))
        for group in self.groups_:
            margins[:, group.columns] += cross[:, group.start : group.stop] @ group.coef
        return settled(margins)

    # --- files ---

    def packed(self) -> Mapping[str, Any]:
        """Return the support rows and what belongs to them."""
        if not hasattr(self, "groups_"):
            return {}
        sets = np.zeros((max(1, len(self.groups_)), len(self.bias_)), dtype=np.uint8)
        use = np.zeros(len(self.pooled_), dtype=np.int64)
        for number, group in enumerate(self.groups_):
            sets[number, group.columns] = 1
            use[group.start : group.stop] = number
        return {
            **vars(self),
            "gram_dtype_": np.dtype(self.gram_dtype_).name,
            "n_train_": self.n_train_ if self.kernel_.given else len(self.pooled_),
            "dual_coef_": np.ascontiguousarray(self.dual_coef_[self.pooled_]),
            "sets": sets,
            "use": use,
            "rows": self.support_rows_,
        }

    def unpack(self, values: dict[str, Any]) -> None:
        """Become what training on the support rows alone would give."""
        sets, use, rows = (values.pop(name) for name in ("sets", "use", "rows"))
        self.origin_ = values.pop("origin_")
        self.gram_dtype_ = np.dtype(values.pop("gram_dtype_"))
        set_attributes(self, values)
        self.support_rows_ = rows
        if self.kernel_.given:
            self._spread(np.asarray(rows.values), sets, use)
        else:
            self.n_train_, self.support_ = len(rows), np.arange(len(rows))
            self._pool(sets[use])

    def _spread(self, places: Array, sets: Array, use: Array) -> None:
        """Put the support rows of a precomputed kernel back among all training rows."""
        shape = self.n_train_, len(self.bias_)
        if len(np.unique(places)) < len(places) or places.max(initial=0) >= self.n_train_:
            raise ValueError("support rows stand twice, or beyond the training rows")
        dual_coef, targets = np.zeros(shape), np.zeros(shape, dtype=np.uint8)
        dual_coef[places], targets[places] = self.dual_coef_, sets[use]
        self.dual_coef_, self.support_ = dual_coef, np.sort(places)
        self._pool(targets)


def as_rows(X: Any) -> Any:
    """Return rows as kernels take them: float64, dense or CSR."""
    if isinstance(X, np.ndarray) and X.dtype == np.float64 and X.ndim == 2:
        return X  # validated already
    return check_array(X, accept_sparse="csr", dtype=np.float64)


def class_order(targets: Array) -> Array | None:
    """Return an order that puts rows used by the same columns together; None without zeros."""
    if (targets != 0).all():
        return None
    return np.argsort(_usage(targets)[1], kind="stable")


def _usage(targets: Array) -> tuple[Array, Array]:
    """Return one row of each kind, a kind being the columns that use a row, and each row's kind."""
    used = np.packbits(targets != 0, axis=1)
    keys = used.view(np.dtype((np.void, used.shape[1]))).ravel()
    _, first, kind = np.unique(keys, return_index=True, return_inverse=True)
    return first, kind.ravel()


def _groups(targets: Array, support: Array) -> tuple[Array, list[tuple[int, int, Any]]]:
    """Return the support rows sorted by the columns that use them, and where each group stands."""
    if (targets[support] != 0).all():
        return support, [(0, len(support), slice(None))]
    first, kind = _usage(targets[support])
    pooled = support[np.argsort(kind, kind="stable")]
    columns = [np.flatnonzero(targets[support[i]]) for i in first]
    places = pairwise([0, *np.cumsum(np.bincount(kind)).tolist()])
    return pooled, [(a, b, c) for (a, b), c in zip(places, columns, strict=True)]
