"""From class scores to a class: what every classifier here does the same way."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import ClassifierMixin

from outcode._checks import Array
from outcode.formula import symbolic


def settled(values: Array) -> Array:
    """Return numbers rounded, in place, to 40 bits of the largest in their row.

    BLAS sums a row in another order when other rows come with it. Margins or scores that are equal
    but for such rounding must decode to the same class whatever rows are predicted together.
    """
    grain = 1.5 * 2.0**12 * np.minimum(np.abs(values).max(axis=1, keepdims=True), 1e300)
    values += grain  # what lies below its last bit is lost
    values -= grain
    return values


def put_ahead(values: Any, winner: Any) -> Any:
    """Put the winner one unit in the last place ahead where rounding has lost its lead.

    ``values`` (n_samples, n_classes) are changed in place; in a formula they stay as they are.
    """
    if symbolic(values):
        return values
    rows = np.flatnonzero(np.argmax(values, axis=1) != winner)
    values[rows, winner[rows]] = np.nextafter(values[rows].max(axis=1), np.inf)
    return values


class ByScores(ClassifierMixin):
    """A classifier whose ``_scores(X)`` are (n_samples, n_classes), larger is better."""

    classes_: Array

    def decision_function(self, X: Any) -> Array:
        """Return the (n_samples, n_classes) scores; for two classes (n_samples,), > 0: class 1."""
        scores = self._scores(X)
        return scores[:, 1] - scores[:, 0] if len(self.classes_) == 2 else scores

    def predict(self, X: Any) -> Array:
        """Return the class with the largest score, the first of equals."""
        best = np.argmax(self._scores(X), axis=1)
        return self.classes_[best]

    def _scores(self, X: Any) -> Array:
        raise NotImplementedError(f"{type(self).__name__} must define _scores()")
