"""Abstaining: a row is answered where its confidence lies above a threshold.

The threshold is fitted on rows that the machines were not trained on, such that the error among
answered rows is at most the chosen one. The risk-coverage curve shows that error for every share of
answered rows.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.stats import beta

from outcode import conformal
from outcode._checks import Array, class_indices, lookup, same_length, share, warn
from outcode.capabilities import PredictsProbabilities, can
from outcode.decisions.costs import COSTS, expected_costs

#: Thresholds that are tried when the error is to hold with a chosen confidence.
TRIED = 20


def decided(values: Array, by: Any = "margin") -> tuple[Array, Array]:
    """Return the class index and the confidence of every row from its class values.

    Parameters
    ----------
    values : ndarray of shape (n_samples, n_classes)
        Probabilities or scores of the classes.
    by : {"margin", "probability"} or cost, default="margin"
        What confidence is: the lead of the largest value over the second, the largest value, or for
        a cost, minus the expected cost of the cheapest class, which is then the decision.

    Returns
    -------
    tuple of ndarray of shape (n_samples,)
        The class indices and the confidences.

    Examples
    --------
    >>> labels, confidence = decided(np.array([[0.25, 0.75], [1.0, 0.0]]))
    >>> labels.tolist(), confidence.tolist()
    ([1, 0], [0.5, 1.0])
    """
    if isinstance(by, str) and by == "margin":
        two = np.partition(values, -2, axis=1)[:, -2:]
        return values.argmax(axis=1), two[:, 1] - two[:, 0]
    if isinstance(by, str) and by == "probability":
        return values.argmax(axis=1), values.max(axis=1)
    if isinstance(by, str):
        lookup({"margin": None, "probability": None, **COSTS}, by, "by")
    costs = expected_costs(values, by)
    return costs.argmin(axis=1), -costs.min(axis=1)


def _class_values(clf: Any, X: Any, by: Any) -> Array:
    """Return probabilities, or the scores of a classifier that has none."""
    if can(clf, PredictsProbabilities):
        return np.asarray(clf.predict_proba(X))
    _check_scores(by)
    scores = np.asarray(clf.decision_function(X))
    return scores if scores.ndim == 2 else np.column_stack([-scores, scores]) / 2.0


def _check_scores(by: Any) -> None:
    if not (isinstance(by, str) and by == "margin"):
        raise ValueError(
            f"Abstaining by {by!r} needs probabilities, but this classifier has only scores: use "
            f"by='margin', or a decoder with probabilities such as 'softmax'."
        )


@dataclass(frozen=True)
class Abstaining:
    """A fitted classifier that answers only where it is confident enough.

    Parameters
    ----------
    estimator : classifier
        The fitted classifier.
    by : {"margin", "probability"} or cost
        What confidence is, see :func:`decided`.
    threshold : float
        A row is answered where its confidence is larger.
    share : float
        Share of the rows the threshold was fitted on that are answered.
    error : float
        Share of those that are wrong.
    bound : float
        What the error stays below with the chosen confidence; NaN without one.

    Examples
    --------
    >>> from outcode import OutputCodeClassifier
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> clf = OutputCodeClassifier("ova", "ls", "softmax").fit(X, y)
    >>> Abstaining(clf, "probability", 2.0, 0.0, 0.0, np.nan).predict(X[:2], refused="?").tolist()
    ['?', '?']
    """

    estimator: Any
    by: Any
    threshold: float
    share: float
    error: float
    bound: float

    def decide(self, X: Any) -> tuple[Array, Array]:
        """Return the class of every row, and which rows are answered, (n_samples,) each."""
        labels, confidence = decided(_class_values(self.estimator, X, self.by), self.by)
        return self.estimator.classes_[labels], confidence > self.threshold

    def predict(self, X: Any, refused: Any = None) -> Array:
        """Return the class of the rows that are answered, ``refused`` for the others."""
        labels, answered = self.decide(X)
        out = labels.astype(object)
        out[~answered] = refused
        return out


def abstaining(
    clf: Any,
    error: float,
    by: Any = "margin",
    *,
    confidence: float | None = 0.9,
    X: Any = None,
    y: Any = None,
) -> Abstaining:
    """Return the classifier with a threshold that keeps the error among answered rows low.

    Parameters
    ----------
    clf : classifier
        Fitted; any classifier if ``X`` and ``y`` are given.
    error : float
        Largest share of wrong labels among answered rows.
    by : {"margin", "probability"} or cost, default="margin"
        What confidence is, see :func:`decided`.
    confidence : float or None, default=0.9
        The error of new rows is at most ``error`` with this probability over the draw of the rows
        the threshold is fitted on: 20 thresholds are tried, each with the upper limit of Clopper &
        Pearson (1934) at (1 - confidence) / 20. None asks only that the share of errors among these
        rows is at most ``error``; that of new rows is above it about as often as below.
    X : array-like of shape (n_rows, n_features) or None, default=None
        Rows the classifier was not trained on. Without them the held-out rows of its own
        calibration are used, for which the statement on new rows is approximate (see
        :mod:`outcode.conformal`).
    y : array-like of shape (n_rows,) or None, default=None
        Labels of these rows.

    Returns
    -------
    Abstaining
        The classifier with its threshold.

    Examples
    --------
    >>> from outcode import OutputCodeClassifier
    >>> from sklearn.datasets import load_digits
    >>> X, y = load_digits(return_X_y=True)
    >>> clf = OutputCodeClassifier("ova", "ls", "softmax").fit(X[:900], y[:900])
    >>> labels, answered = abstaining(clf, error=0.02).decide(X[900:])
    >>> bool((labels != y[900:])[answered].mean() < (labels != y[900:]).mean())
    True
    """
    values, labels = _fitting_rows(clf, X, y, by)
    said, sure = decided(values, by)
    share(error, "error")
    if confidence is not None:
        share(confidence, "confidence")
    found = fit_threshold(sure, said != labels, error, confidence)
    if found[0] == np.inf:
        warn(
            f"No threshold keeps the error among answered rows at {error:g}: no row is answered. "
            f"Ask for a larger error or a smaller confidence, or give more rows."
        )
    return Abstaining(clf, by, *found)


def _fitting_rows(clf: Any, X: Any, y: Any, by: Any) -> tuple[Array, Array]:
    if (X is None) != (y is None):
        raise ValueError("X and y go together: give rows with their labels, or neither.")
    if X is not None:
        values, labels = _class_values(clf, X, by), class_indices(y, clf.classes_)
        same_length(values, labels, ("X", "y"))
        return values, labels
    calibration = conformal.require_calibration(clf)
    if calibration.kind == "scores":
        _check_scores(by)
    return calibration.values, calibration.labels


def fit_threshold(
    sure: Array, wrong: Array, error: float, confidence: float | None
) -> tuple[float, float, float, float]:
    """Return the lowest threshold that keeps the error, the share answered, its error and bound.

    The rows above the threshold T = sure_(m), an order statistic, are independent draws from the
    rows above T: their errors are binomial, whatever T is.

    Parameters
    ----------
    sure : ndarray of shape (n,)
        Confidence of each row.
    wrong : ndarray of shape (n,)
        Whether its label is wrong, bool.
    error : float
        Largest share of wrong labels among answered rows.
    confidence : float or None
        Probability that the error of new rows is at most ``error``; None asks it of these rows
        alone.

    Returns
    -------
    tuple of float
        The threshold, the share answered, its error and the bound of that.

    Examples
    --------
    >>> sure, wrong = np.array([0.9, 0.8, 0.7, 0.6]), np.array([False, False, False, True])
    >>> fit_threshold(sure, wrong, 0.1, None)
    (0.6, 0.75, 0.0, nan)
    """
    n = len(sure)
    tried = np.append(np.sort(sure)[_places(n, confidence)], -np.inf)
    best = np.inf, 0.0, 0.0, np.nan
    for T in np.unique(tried)[::-1]:
        answered = sure > T
        count, errors = int(answered.sum()), int(wrong[answered].sum())
        bound = np.nan if confidence is None else _upper(errors, count, (1 - confidence) / TRIED)
        if count and (errors / count if confidence is None else bound) <= error:
            best = float(T), count / n, errors / count, bound
    return best


def _places(n: int, confidence: float | None) -> Array:
    """Return the order statistics to try: all, or with a confidence a few chosen beforehand."""
    return np.arange(n) if confidence is None else n * np.arange(1, TRIED) // TRIED


def _upper(errors: int, count: int, risk: float) -> float:
    """Return the upper limit of Clopper & Pearson: P(at most ``errors`` of ``count``) = risk."""
    return 1.0 if errors == count else float(beta.ppf(1.0 - risk, errors + 1, count - errors))


# --- the risk-coverage curve ---


@dataclass(frozen=True)
class RiskCoverage:
    """Error among the answered rows against their share, one point per threshold.

    Rows of equal confidence are answered together.

    Parameters
    ----------
    coverage : ndarray of shape (n_points,)
        Share of rows answered, rising to 1.
    error : ndarray of shape (n_points,)
        Share of those that are wrong.
    threshold : ndarray of shape (n_points,)
        The lowest confidence that is answered.
    """

    coverage: Array
    error: Array
    threshold: Array

    @property
    def area(self) -> float:
        """Mean error over all shares of answered rows; smaller is better."""
        return float(np.diff(self.coverage, prepend=0.0) @ self.error)


def risk_coverage(clf: Any, X: Any, y: Any, by: Any = "margin") -> RiskCoverage:
    """Return the risk-coverage curve of a fitted classifier on test rows.

    Parameters
    ----------
    clf : classifier
        Fitted classifier.
    X : array-like of shape (n_samples, n_features)
        Test rows.
    y : array-like of shape (n_samples,)
        Their labels.
    by : {"margin", "probability"} or cost, default="margin"
        What confidence is, see :func:`decided`.

    Returns
    -------
    RiskCoverage
        The curve.

    Examples
    --------
    >>> from outcode import OutputCodeClassifier
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> clf = OutputCodeClassifier("ova", "ls", "softmax").fit(X[::2], y[::2])
    >>> found = risk_coverage(clf, X[1::2], y[1::2])
    >>> bool(found.area < found.error[-1])
    True
    """
    said, sure = decided(_class_values(clf, X, by), by)
    labels = class_indices(y, clf.classes_)
    same_length(said, labels, ("X", "y"))
    return curve(sure, said != labels)


def curve(sure: Array, wrong: Array) -> RiskCoverage:
    """Return the curve from the confidence of each row and whether it is wrong.

    Parameters
    ----------
    sure : ndarray of shape (n,)
        Confidence of each row.
    wrong : ndarray of shape (n,)
        Whether its label is wrong, bool.

    Returns
    -------
    RiskCoverage
        The curve.

    Examples
    --------
    >>> found = curve(np.array([0.9, 0.5, 0.7, 0.5]), np.array([False, True, False, True]))
    >>> found.coverage.tolist(), found.error.tolist()
    ([0.25, 0.5, 1.0], [0.0, 0.0, 0.5])
    """
    order = np.argsort(-sure, kind="stable")
    sure, errors = sure[order], np.cumsum(wrong[order])
    last = np.flatnonzero(np.append(sure[1:] != sure[:-1], True))
    return RiskCoverage((last + 1) / len(sure), errors[last] / (last + 1), sure[last])
