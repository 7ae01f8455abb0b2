"""One machine on rows x followed by a feature extension M_r per column. [EPY08] Example 2.1"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse
from sklearn.base import clone
from sklearn.utils import get_tags
from sklearn.utils.validation import check_is_fitted

from outcode._checks import Array, lookup, row_weights
from outcode.machines.class_kernels import as_extensions, identity, single
from outcode.machines.common import Machine, as_targets
from outcode.machines.svm import SVM


class Concatenated(Machine):
    """One machine for all columns, on copies of the rows with feature extensions appended.

    Row x_i makes a copy (x_i, M_r) per column r it takes part in, with the column's target, and one
    binary machine learns all copies ([EPY08] section 2). The margin of column r is that of the copy
    (x, M_r). For the Gaussian kernel this is :class:`SingleBinary`, whose kernel is a product and
    needs no copies; here the kernel may be any, the linear one of Example 2.1 for instance.

    Parameters
    ----------
    machine : Machine or None, default=None
        A machine on rows; None is a linear SVM with a free bias.
    extension : {"identity", "single"} or array-like of shape (n_columns, l), default="identity"
        The extensions M: "identity" (M = I), "single" (M_r = r) or a matrix with a row per column.

    Attributes
    ----------
    machine_ : fitted, of a single column
    extensions_ : (n_columns, l) M

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from outcode import OutputCodeClassifier
    >>> X, y = load_iris(return_X_y=True)
    >>> machine = Concatenated(SVM(kernel="poly", degree=2, coef0=1.0, bias="free"))
    >>> clf = OutputCodeClassifier("ova", machine, "linear").fit(X, y)
    >>> clf.margins(X).shape, clf.machine_.machine_.dual_coef_.shape
    ((150, 3), (450, 1))
    """

    room = ""  # it cannot be written to a model file: its machine has a column, its code several

    def __init__(self, machine: Any = None, extension: Any = "identity") -> None:
        self.machine = machine
        self.extension = extension

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags = get_tags(self._inner()).input_tags
        return tags

    def weigh(self, y: Array, sample_weight: Array) -> Array:
        return np.asarray(self._inner().weigh(y, sample_weight))

    def fit(
        self,
        X: Any,
        targets: Array,
        sample_weight: Any = None,
        *,
        n_jobs: int | None = None,
        verbose: int = 0,
    ) -> Concatenated:
        inner = self._inner()
        if get_tags(inner).input_tags.pairwise:
            raise ValueError(
                "Extensions are appended to the rows, so the kernel cannot be precomputed: give "
                "rows."
            )
        targets = as_targets(targets, X.shape[0])
        self.extensions_ = self._extensions(targets.shape[1])
        rows, columns = np.nonzero(targets)
        copies = _joined(X[rows], self.extensions_[columns])
        weight = row_weights(sample_weight, X.shape[0])[rows]
        signs = targets[rows, columns][:, None]
        self.machine_ = inner.fit(copies, signs, weight, n_jobs=n_jobs, verbose=verbose)
        self.training_margins_ = self.margins(X)
        return self

    def margins(self, X: Any) -> Array:
        check_is_fitted(self, "machine_")
        count = X.shape[0]
        copies = [_joined(X, np.tile(M, (count, 1))) for M in self.extensions_]
        return np.column_stack([self.machine_.margins(rows)[:, 0] for rows in copies])

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
        """Return margins of each row under a machine trained without its fold (-1: none)."""
        out = self.training_margins_.copy()
        weight = row_weights(sample_weight, X.shape[0])
        for f in np.unique(fold[fold >= 0]):
            train, test = np.flatnonzero(fold != f), np.flatnonzero(fold == f)
            part = X[train], targets[train], weight[train]
            machine = clone(self).fit(*part, n_jobs=n_jobs, verbose=verbose)
            out[test] = machine.margins(X[test])
        return out

    def _inner(self) -> Any:
        return SVM(kernel="linear", bias="free") if self.machine is None else clone(self.machine)

    def _extensions(self, n_columns: int) -> Array:
        if isinstance(self.extension, str):
            return np.asarray(lookup(EXTENSIONS, self.extension, "extension")(n_columns)[0])
        return as_extensions(self.extension, n_columns)[0]


def _joined(X: Any, extensions: Array) -> Any:
    """Return the rows with their extensions behind them."""
    if sparse.issparse(X):
        return sparse.hstack([X, sparse.csr_matrix(extensions)], format="csr")
    return np.hstack([np.asarray(X, dtype=np.float64), extensions])


EXTENSIONS = {"identity": identity, "single": single}
