"""What predictions and probabilities are worth: errors, proper scores, calibration.

``labels`` and ``predicted`` are class indices, ``proba`` has one column per class.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from outcode._checks import Array


def error(labels: Array, predicted: Array) -> float:
    """Return the share of rows predicted wrong."""
    return float(np.mean(labels != predicted))


def confusion(labels: Array, predicted: Array, n_classes: int) -> Array:
    """Return the (n_classes, n_classes) counts: rows are true classes, columns predicted ones."""
    cells = np.bincount(labels * n_classes + predicted, minlength=n_classes**2)
    return cells.reshape(n_classes, n_classes)


def balanced_error(labels: Array, predicted: Array) -> float:
    """Return one minus the mean recall over the classes that have rows."""
    present = np.unique(labels)
    return float(np.mean([np.mean(predicted[labels == q] != q) for q in present]))


def log_loss(labels: Array, proba: Array) -> float:
    """Return the mean of -log p(true class), probabilities held above 1e-15."""
    chosen = proba[np.arange(len(labels)), labels]
    return float(-np.mean(np.log(np.maximum(chosen, 1e-15))))


def brier(labels: Array, proba: Array) -> float:
    """Return the mean squared distance of the probabilities from the true class's unit vector."""
    truth = labels[:, None] == np.arange(proba.shape[1])
    return float(np.mean(np.sum((proba - truth) ** 2, axis=1)))


@dataclass(frozen=True)
class Reliability:
    """Rows by the probability of their predicted class, in equal bins of (0, 1].

    ``count`` rows, their mean ``confidence`` and their ``accuracy``, all (n_bins,); NaN where a bin
    is empty.
    """

    count: Array
    confidence: Array
    accuracy: Array

    @property
    def calibration_error(self) -> float:
        """Mean gap between confidence and accuracy, bins weighted by their rows."""
        gap = np.abs(self.confidence - self.accuracy)[self.count > 0]
        return float(np.sum(gap * self.count[self.count > 0]) / np.sum(self.count))


def reliability(labels: Array, proba: Array, bins: int = 15) -> Reliability:
    """Return the reliability diagram of the predicted class."""
    confidence, right = proba.max(axis=1), proba.argmax(axis=1) == labels
    number = np.minimum((confidence * bins).astype(int), bins - 1)
    count = np.bincount(number, minlength=bins)
    with np.errstate(invalid="ignore"):
        means = [np.bincount(number, v, minlength=bins) / count for v in (confidence, right)]
    return Reliability(count, *means)
