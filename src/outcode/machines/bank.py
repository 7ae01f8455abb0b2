"""Any scikit-learn binary classifier as a machine."""

from __future__ import annotations

from typing import Any

import joblib
import numpy as np
from sklearn.base import clone
from sklearn.utils import get_tags
from sklearn.utils.validation import check_is_fitted, has_fit_parameter

from outcode._checks import Array, row_weights
from outcode.machines.common import Machine, as_targets, check_signs
from outcode.parallel import n_threads
from outcode.progress import progress


class Bank(Machine):
    """Any scikit-learn binary classifier, cloned once per column.

    Its margin is ``decision_function`` if it has one, else the probability of +1 minus 1/2.

    Parameters
    ----------
    estimator : estimator object
        A binary classifier with ``fit`` and ``decision_function`` or ``predict_proba``.

    Examples
    --------
    >>> from sklearn.linear_model import LogisticRegression
    >>> X, targets = np.array([[0.0], [1.0]]), np.array([[-1], [1]])
    >>> Bank(LogisticRegression()).fit(X, targets).margins(X).round(2).tolist()
    [[-0.22], [0.22]]
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
        targets = as_targets(targets, n)
        weight = row_weights(sample_weight, n)
        check_signs(targets, weight)
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
        """Return margins of each row under machines trained without its fold (-1: none)."""
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


def _binary_margin(estimator: Any, X: Any) -> Array:
    if hasattr(estimator, "decision_function"):
        return np.asarray(estimator.decision_function(X), dtype=np.float64).ravel()
    if hasattr(estimator, "predict_proba"):
        return np.asarray(estimator.predict_proba(X), dtype=np.float64)[:, 1] - 0.5
    raise ValueError(
        f"{type(estimator).__name__} has neither decision_function nor predict_proba: "
        f"its margins are missing."
    )
