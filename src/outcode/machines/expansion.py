"""Margins of kernel machines: one product over the pooled support rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, ClassVar

import numpy as np
from scipy import sparse
from sklearn.utils import check_array
from sklearn.utils.validation import check_is_fitted

from outcode import gram as grams
from outcode import kernels
from outcode._checks import Array
from outcode.capabilities import HasGradient, require
from outcode.dichotomies import distinct
from outcode.machines.common import Machine, as_rows
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
from outcode.solvers.svm import layout as layouts

#: Support rows, the columns they take part in, and their dual variables there.
Grouped = tuple[Array, Any, Array]


@dataclass(frozen=True)
class _Group:
    """Support rows ``start:stop`` that all take part in the same columns.

    ``coef`` are their dual variables, (n_columns, n_rows).
    """

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
        check_is_fitted(self, "bias_")
        if self.kernel_.given:
            return self.margins_gram(X)
        return settled(self.ready_margins(self.kernel_.prepare(as_rows(X), self.origin_)))

    def formula(self, x: Any) -> Any:
        """Return the margins of symbolic rows, in float64."""
        check_is_fitted(self, "bias_")
        rows = self.kernel_.prepare(x, self.origin_)
        cross = self.kernel_.values(rows, self.support_rows_)
        return settled(cross @ self.dual_coef_[self.kept_] + self.bias_)

    def known_rows(self) -> Array:
        """Return rows as the machine takes them: its support rows, or some kernel values."""
        if self.kernel_.given:
            return np.random.default_rng(0).uniform(size=(100, self.n_train_))
        return self.kernel_.unprepared(self.support_rows_, self.origin_)

    def ready_margins(self, rows: kernels.Rows) -> Array:
        """Return the margins of rows made ready for the kernel, as they come out of the sums."""

        def block(cut: slice) -> Array:
            cross = self.kernel_.block(rows[cut], self.support_rows_, self.gram_dtype_)
            return self._combine(cross)

        found = thread_map(block, self.blocks(len(rows)))
        return found[0] if len(found) == 1 else np.concatenate(found)

    def blocks(self, n_rows: int) -> list[slice]:
        """Cut new rows so that their kernel values and margins stay in the cache."""
        return grams.cross_blocks(n_rows, max(len(self.support_rows_), len(self.bias_)))

    def pulls(self, X: Any) -> tuple[Array, Array]:
        """Return the numbers of the support rows and K(x, x_i) dual_coef_is of one new row x.

        The second is (n_support, n_dichotomies); its sum over support rows and the bias are the
        margins.
        """
        check_is_fitted(self, "bias_")
        if self.kernel_.given:
            return self.pooled_, np.asarray(X)[0, self.pooled_, None] * self.dual_coef_[
                self.pooled_
            ]
        rows = self.kernel_.prepare(as_rows(X), self.origin_)[:1]
        cross = self.kernel_.block(rows, self.support_rows_, self.gram_dtype_)
        return self.pooled_, cross.T * self.dual_coef_[self.pooled_]

    def gradients(self, X: Any) -> Array:
        """Return the derivatives of the margins by the features, (n, n_dichotomies, n_features)."""
        check_is_fitted(self, "bias_")
        require(self.kernel_, HasGradient, "A gradient of the margins")
        rows, coef = self.kernel_.prepare(as_rows(X), self.origin_), self.dual_coef_[self.pooled_]
        out = np.empty((len(rows), len(self.bias_), rows.values.shape[1]))
        with single_blas():
            for i in range(len(rows)):
                out[i] = self.kernel_.gradient(rows[i : i + 1], self.support_rows_, coef)  # type: ignore[attr-defined]  # HasGradient
        return np.asarray(self.kernel_.scaled(out))  # by the features as they were given

    def margins_gram(self, cross: Any) -> Array:
        """Return the margins from kernel values (n_test, n_train) against the training rows."""
        check_is_fitted(self, "bias_")
        cross = check_array(cross, dtype=[np.float64, np.float32])
        if cross.shape[1] != self.n_train_:
            raise ValueError(
                f"The kernel matrix has {cross.shape[1]} columns, but the machine was trained on "
                f"{self.n_train_} rows: give kernel values against every training row."
            )
        with single_blas():
            return settled(np.ascontiguousarray(self._combine(cross[:, self.pooled_])))

    def expand(self, gram: grams.Gram, targets: Array) -> None:
        """Keep what prediction needs of the Gram store: the kernel and the support rows."""
        support = np.flatnonzero((self.dual_coef_ != 0).any(axis=1))
        self.hold(gram, self._grouped(targets, support))

    def hold(self, gram: grams.Gram, groups: Sequence[Grouped]) -> None:
        """Keep support rows in groups: the rows, the columns they take part in, dual variables."""
        self.kernel_, self.origin_ = gram.kernel, gram.origin
        self.gram_dtype_, self.n_train_ = gram.dtype, len(gram)
        self._pool(groups)
        self.support_rows_ = gram.support(self.pooled_)

    def weight_products(self) -> Array:
        """Return W'W = A'KA, (n_dichotomies, n_dichotomies), A the dual coefficients."""
        if self.kernel_.given:
            raise ValueError(
                "A precomputed kernel leaves no rows to compare: the products of weight vectors "
                "need a kernel other than 'precomputed'."
            )
        rows, coef = self.support_rows_, self.dual_coef_[self.kept_]
        total = np.zeros((len(self.bias_),) * 2)
        with single_blas():
            for cut in grams.cross_blocks(len(rows), len(rows)):
                total += coef[cut].T @ (self.kernel_.block(rows[cut], rows) @ coef)
        return (total + total.T) / 2.0

    def _pool(self, groups: Sequence[Grouped]) -> None:
        """Put the support rows that the same columns use together, so that zeros cost nothing."""
        self.kept_ = np.concatenate([rows for rows, _, _ in groups])
        self._stand_at(self.kept_)
        places = pairwise([0, *np.cumsum([len(rows) for rows, _, _ in groups]).tolist()])
        self.groups_ = [
            _Group(a, b, columns, np.ascontiguousarray(coef.T, dtype=self.gram_dtype_))
            for (a, b), (_, columns, coef) in zip(places, groups, strict=True)
        ]
        self.parts_ = None if self._single() else _adding_up(self.groups_, len(self.bias_))

    def _single(self) -> bool:
        """Whether all support rows take part in all columns."""
        return len(self.groups_) == 1 and len(self.groups_[0].coef) == len(self.bias_)

    def _stand_at(self, places: Array) -> None:
        """Say where the support rows, in groups, stand among the training rows."""
        self.pooled_, self.support_ = places, np.sort(places)

    def _grouped(self, targets: Array, support: Array) -> list[Grouped]:
        """Return the support rows sorted by the columns that use them."""
        if (targets[support] != 0).all():
            return [(support, slice(None), self.dual_coef_[support])]
        used, kind = layouts.usage(targets[support])
        columns = [np.flatnonzero(row) for row in used]
        parts = [support[kind == u] for u in range(len(used))]
        pairs = zip(parts, columns, strict=True)
        return [(rows, some, self.dual_coef_[rows][:, some]) for rows, some in pairs]

    def _combine(self, cross: Array) -> Array:
        """Return the margins of kernel values against the support rows, in groups."""
        if self.parts_ is None:
            return cross @ self.groups_[0].coef.T + self.bias_
        parts = np.empty((self.parts_.shape[1], len(cross)), dtype=cross.dtype)
        first = 0
        for group in self.groups_:
            last = first + len(group.coef)
            np.matmul(group.coef, cross[:, group.start : group.stop].T, out=parts[first:last])
            first = last
        margins = self.parts_ @ parts
        margins += self.bias_[:, None]
        return np.asarray(margins.T)

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
            "dual_coef_": np.ascontiguousarray(self.dual_coef_[self.kept_]),
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
        self._pool(self._grouped(sets[use], np.arange(len(rows))))
        if not self.kernel_.given:
            self.n_train_ = len(rows)
            return
        places = np.asarray(rows.values)
        if len(np.unique(places)) < len(places) or places.max(initial=0) >= self.n_train_:
            raise ValueError("support rows stand twice, or beyond the training rows")
        self._stand_at(places[self.kept_])


def _adding_up(groups: Sequence[_Group], n_columns: int) -> Any:
    """Return the matrix of 0 and 1 that adds what the groups say to the columns they take part in.

    It is (n_columns, n_parts), the parts being the columns of the first group, of the second, ...
    """
    column = np.concatenate([np.arange(n_columns)[group.columns] for group in groups])
    places = column, np.arange(len(column))
    return sparse.csr_array((np.ones(len(column)), places), shape=(n_columns, len(column)))


def class_order(targets: Any) -> Array | None:
    """Return an order that puts rows used by the same columns together; None without zeros."""
    code, label = distinct(targets)
    if (code != 0).all():
        return None
    return np.argsort(layouts.usage(code)[1][label], kind="stable")
