"""The decision graph over pairs of classes (Platt, Cristianini & Shawe-Taylor 2000)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from outcode._checks import Array
from outcode.decoders.common import Decoder
from outcode.formula import symbolic
from outcode.saved import signs, wholes
from outcode.training import Training


class DecisionDAG(Decoder):
    """Keep a list of classes and strike the loser of the first against the last, until one is left.

    Needs a column for each pair of classes (the code "ovo"). A row asks n_classes - 1 machines. The
    score of a class is the round in which it was struck, and n_classes for the one that is left;
    a margin of 0 is won by the first. Which classes meet depends on their order, so unlike other
    decoders this one is not indifferent to it. [CS02] Section 7

    Examples
    --------
    >>> from outcode import OutputCodeClassifier
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> clf = OutputCodeClassifier("ovo", decoder="ddag").fit(X, y)
    >>> sorted(clf.decision_function(X[:1])[0].tolist())
    [1.0, 2.0, 3.0]
    """

    saved = {
        **Decoder.saved,
        "column_": wholes("n_classes", "n_classes", low=-1, high="n_dichotomies"),
        "sign_": signs("n_classes", "n_classes"),
    }

    def fit(self, training: Training) -> DecisionDAG:
        super().fit(training)
        self.column_, self.sign_ = _pairs(training.code)
        return self

    def scores(self, margins: Array, X: Any = None) -> Array:
        if symbolic(margins):
            return self._formula(margins)
        n, k = len(margins), len(self.code_)
        rows, first, last = np.arange(n), np.zeros(n, dtype=int), np.full(n, k - 1)
        scores = np.full((n, k), float(k))
        for struck in range(1, k):
            margin = margins[rows, self.column_[first, last]] * self.sign_[first, last]
            keep = margin >= 0
            scores[rows, np.where(keep, last, first)] = struck
            first, last = np.where(keep, first, first + 1), np.where(keep, last - 1, last)
        return scores

    def _formula(self, margins: Any) -> Any:
        """Return the scores as a formula: which of the pairs of each round a row comes to."""
        k, classes = len(self.code_), np.eye(len(self.code_))
        here, scores = 0.0 * margins[:, :1] + 1.0, 0.0
        for struck in range(1, k):
            first = np.arange(struck)
            last = first + k - struck
            sign = self.sign_[first, last].astype(np.float64)
            keep = here * (margins.take(self.column_[first, last]) * sign >= 0.0)
            leave = here - keep
            scores = scores + struck * (keep @ classes[last] + leave @ classes[first])
            # a pair (first, last) is followed by (first, last - 1) or by (first + 1, last)
            here = keep @ np.eye(struck, struck + 1) + leave @ np.eye(struck, struck + 1, 1)
        return scores + k * here


def _pairs(code: Array) -> tuple[Array, Array]:
    """Return the column of each pair of classes and the sign it gives the first of them."""
    k = len(code)
    column = np.full((k, k), -1)
    for s in np.flatnonzero(np.abs(code).sum(axis=0) == 2):
        members = np.flatnonzero(code[:, s])
        if len(members) == 2 and code[members, s].sum() == 0:
            column[members[0], members[1]] = column[members[1], members[0]] = s
    missing = np.argwhere(np.triu(column < 0, 1))
    if len(missing):
        q, r = missing[0]
        raise ValueError(
            f"The decision graph needs a column for each pair of classes, and no column has "
            f"classes {q} and {r} only: use code='ovo'."
        )
    return column, np.take_along_axis(code, np.maximum(column, 0), axis=1)


NAMES: dict[str, Callable[[], Decoder]] = {"ddag": DecisionDAG}
