"""What predictions and probabilities are worth: errors, proper scores, calibration.

``labels`` and ``predicted`` are class indices, ``proba`` has one column per class. :data:`METRICS`
at the foot is the one table that studies, the terminal and the report go through: a metric entered
there is measured, stored, shown and can be ranked by.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from outcode._checks import Array
from outcode.words import number, percent


def error(labels: Array, predicted: Array) -> float:
    """Return the share of wrong predictions.

    Parameters
    ----------
    labels : ndarray of shape (n_samples,)
        Indices of the true classes.
    predicted : ndarray of shape (n_samples,)
        Indices of the predicted classes.

    Returns
    -------
    float
        The error rate.

    Examples
    --------
    >>> error(np.array([0, 1, 1, 1]), np.array([0, 1, 1, 0]))
    0.25
    """
    return float(np.mean(labels != predicted))


def confusion(labels: Array, predicted: Array, n_classes: int) -> Array:
    """Return the counts of true and predicted classes.

    Parameters
    ----------
    labels : ndarray of shape (n_samples,)
        Indices of the true classes.
    predicted : ndarray of shape (n_samples,)
        Indices of the predicted classes.
    n_classes : int
        Number of classes.

    Returns
    -------
    ndarray of shape (n_classes, n_classes)
        The counts: rows are true classes, columns predicted ones.

    Examples
    --------
    >>> confusion(np.array([0, 1, 1]), np.array([0, 1, 0]), 2).tolist()
    [[1, 0], [1, 1]]
    """
    cells = np.bincount(labels * n_classes + predicted, minlength=n_classes**2)
    return cells.reshape(n_classes, n_classes)


def balanced_error(labels: Array, predicted: Array) -> float:
    """Return one minus the mean recall over the classes that have rows.

    Parameters
    ----------
    labels : ndarray of shape (n_samples,)
        Indices of the true classes.
    predicted : ndarray of shape (n_samples,)
        Indices of the predicted classes.

    Returns
    -------
    float
        The balanced error rate.

    Examples
    --------
    >>> balanced_error(np.array([0, 1, 1]), np.array([0, 1, 0]))
    0.25
    """
    present = np.unique(labels)
    return float(np.mean([np.mean(predicted[labels == q] != q) for q in present]))


def log_loss(labels: Array, proba: Array) -> float:
    """Return the mean of -log p(true class), probabilities held above 1e-15.

    Parameters
    ----------
    labels : ndarray of shape (n_samples,)
        Indices of the true classes.
    proba : ndarray of shape (n_samples, n_classes)
        Predicted probabilities of the classes.

    Returns
    -------
    float
        The mean logarithmic loss.

    Examples
    --------
    >>> round(log_loss(np.array([0, 1]), np.array([[0.9, 0.1], [0.2, 0.8]])), 4)
    0.1643
    """
    chosen = proba[np.arange(len(labels)), labels]
    return float(-np.mean(np.log(np.maximum(chosen, 1e-15))))


def brier(labels: Array, proba: Array) -> float:
    """Return the mean squared distance of the probabilities from the true class's unit vector.

    Parameters
    ----------
    labels : ndarray of shape (n_samples,)
        Indices of the true classes.
    proba : ndarray of shape (n_samples, n_classes)
        Predicted probabilities of the classes.

    Returns
    -------
    float
        The Brier score, between 0 and 2.

    Examples
    --------
    >>> round(brier(np.array([0, 1]), np.array([[0.9, 0.1], [0.2, 0.8]])), 4)
    0.05
    """
    truth = labels[:, None] == np.arange(proba.shape[1])
    return float(np.mean(np.sum((proba - truth) ** 2, axis=1)))


@dataclass(frozen=True)
class Reliability:
    """Rows by the probability of their predicted class, in equal bins of (0, 1].

    Parameters
    ----------
    count : ndarray of shape (n_bins,)
        Number of rows in each bin.
    confidence : ndarray of shape (n_bins,)
        Mean probability in each bin, NaN where it is empty.
    accuracy : ndarray of shape (n_bins,)
        Share of rows that are right in each bin, NaN where it is empty.
    """

    count: Array
    confidence: Array
    accuracy: Array

    @property
    def calibration_error(self) -> float:
        """Mean gap between confidence and accuracy, bins weighted by their rows."""
        return self._mean(np.abs(self.confidence - self.accuracy))

    @property
    def stated(self) -> float:
        """Mean probability of the predicted class."""
        return self._mean(self.confidence)

    @property
    def right(self) -> float:
        """Share of rows predicted right."""
        return self._mean(self.accuracy)

    def _mean(self, values: Array) -> float:
        used = self.count > 0
        return float(np.sum(values[used] * self.count[used]) / np.sum(self.count))


def reliability(labels: Array, proba: Array, bins: int = 15) -> Reliability:
    """Return the reliability diagram of the predicted class.

    Parameters
    ----------
    labels : ndarray of shape (n_samples,)
        Indices of the true classes.
    proba : ndarray of shape (n_samples, n_classes)
        Predicted probabilities of the classes.
    bins : int, default=15
        Number of bins.

    Returns
    -------
    Reliability
        The bins.

    Examples
    --------
    >>> proba = np.array([[0.9, 0.1], [0.2, 0.8], [0.6, 0.4]])
    >>> reliability(np.array([0, 1, 1]), proba, bins=2).count.tolist()
    [0, 3]
    """
    confidence, right = proba.max(axis=1), proba.argmax(axis=1) == labels
    number = np.minimum((confidence * bins).astype(int), bins - 1)
    count = np.bincount(number, minlength=bins)
    with np.errstate(invalid="ignore"):
        means = [np.bincount(number, v, minlength=bins) / count for v in (confidence, right)]
    return Reliability(count, *means)


def calibration_error(labels: Array, proba: Array) -> float:
    """Return the mean gap between stated probability and accuracy, over 15 bins.

    Parameters
    ----------
    labels : ndarray of shape (n_samples,)
        Indices of the true classes.
    proba : ndarray of shape (n_samples, n_classes)
        Predicted probabilities of the classes.

    Returns
    -------
    float
        The expected calibration error.

    Examples
    --------
    >>> proba = np.array([[0.9, 0.1], [0.2, 0.8], [0.6, 0.4]])
    >>> round(calibration_error(np.array([0, 1, 1]), proba), 4)
    0.3
    """
    return reliability(labels, proba).calibration_error


@dataclass(frozen=True)
class Metric:
    """A metric that studies measure.

    Parameters
    ----------
    key : str
        Name of the metric in records.
    label : str
        Name of the metric in tables.
    kind : {"percent", "number", "seconds", "count", "bytes"}
        How the metric is written.
    meaning : str
        What the metric is, in words.
    function : callable, default=None
        Called as ``function(labels, predicted)``, or ``function(labels, proba)`` where
        ``needs_proba``. A cost that the study measures itself has none.
    needs_proba : bool, default=False
        Whether the metric needs probabilities.
    lower_is_better : bool, default=True
        Whether lower values are better.
    brief : bool, default=False
        Whether the metric is on the terminal's leaderboard too.
    """

    key: str
    label: str
    kind: str
    meaning: str
    function: Callable[[Array, Array], float] | None = None
    needs_proba: bool = False
    lower_is_better: bool = True
    brief: bool = False

    def summary(self, values: Any) -> float:
        """Return the summary of several folds: the median of times, the mean of others."""
        return float(np.median(values) if self.kind == "seconds" else np.mean(values))

    def best(self, values: Iterable[float]) -> float:
        """Return the best of some values."""
        return min(values) if self.lower_is_better else max(values)

    def loss(self, value: float) -> float:
        """Return the value turned so that lower is better."""
        return value if self.lower_is_better else -value

    def written(self, value: float | None) -> str:
        """Return a value as it is written in sentences."""
        return percent(value) if self.kind == "percent" else number(value)

    def possible(self, value: float) -> float:
        """Return the nearest value the metric can have: none below 0, no share above 1."""
        return min(1.0 if self.kind == "percent" else np.inf, max(0.0, value))


def measured(labels: Array, predicted: Array, proba: Array | None) -> dict[str, float]:
    """Return the value of every metric that predictions, and probabilities if any, have.

    Parameters
    ----------
    labels : ndarray of shape (n_samples,)
        Indices of the true classes.
    predicted : ndarray of shape (n_samples,)
        Indices of the predicted classes.
    proba : ndarray of shape (n_samples, n_classes) or None
        Predicted probabilities of the classes, if any.

    Returns
    -------
    dict of str to float
        The values by the keys of the metrics.

    Examples
    --------
    >>> sorted(measured(np.array([0, 1]), np.array([0, 1]), None))
    ['balanced_error', 'error']
    """
    return {
        m.key: m.function(labels, proba if m.needs_proba else predicted)  # type: ignore[arg-type]
        for m in MEASURES.values()
        if m.function is not None and (proba is not None or not m.needs_proba)
    }


_TABLE = (
    Metric("error", "error", "percent", "share of test rows predicted wrong", error, brief=True),
    Metric(
        "balanced_error",
        "balanced error",
        "percent",
        "one minus the mean recall of classes",
        balanced_error,
    ),
    Metric(
        "log_loss",
        "log loss",
        "number",
        "mean of -log probability of the true class",
        log_loss,
        needs_proba=True,
        brief=True,
    ),
    Metric(
        "brier",
        "Brier",
        "number",
        "squared distance of the probabilities from the truth",
        brier,
        needs_proba=True,
    ),
    Metric(
        "calibration_error",
        "calibration error",
        "percent",
        "mean gap between stated probability and share right",
        calibration_error,
        needs_proba=True,
    ),
    Metric(
        "fit_seconds", "fit", "seconds", "median time to fit one fold, search included", brief=True
    ),
    Metric("predict_seconds", "predict", "seconds", "median time to predict a fold's test rows"),
    Metric("support_vectors", "support vectors", "count", "training rows the model keeps"),
    Metric("peak_memory", "memory", "bytes", "largest memory of a fold's process"),
)

#: Every metric by its key, in the order of the tables.
METRICS: dict[str, Metric] = {}
#: Those that predictions have: what a study can be ranked by.
MEASURES: dict[str, Metric] = {}


def enter(*metrics: Metric) -> None:
    """Register metrics.

    Parameters
    ----------
    *metrics : Metric
        The metrics to add.

    Examples
    --------
    >>> enter(METRICS["error"])
    >>> METRICS["error"].label
    'error'
    """
    METRICS.update({metric.key: metric for metric in metrics})
    MEASURES.update({metric.key: metric for metric in metrics if metric.function is not None})


enter(*_TABLE)
