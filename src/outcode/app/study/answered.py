"""What a fitted classifier is worth beyond its labels: sets of classes, and abstaining."""

from __future__ import annotations

from typing import Any

import numpy as np

from outcode import conformal, decisions
from outcode._checks import Array
from outcode.app.study.fitted import chosen
from outcode.capabilities import HasRule, can

#: Coverage of the prediction sets, and shares of answered rows at which the error is kept.
COVERAGE = 0.9
SHARES = tuple(s / 20 for s in range(1, 21))


def answered(clf: Any, X: Any, labels: Array, proba: Array | None) -> dict[str, Any]:
    """Return coverage and size of prediction sets, and the error by share of answered rows."""
    found: dict[str, Any] = {}
    if (sets := _sets(chosen(clf), X)) is not None and sets.shape[1] > labels.max():
        told = conformal.summary(sets, labels)
        found["sets"] = {
            "coverage": told.coverage, "size": told.size, "single": told.single,
            "asked": COVERAGE, "rows": len(labels),
        }  # fmt: skip
    if proba is not None:
        found["risk"] = {"rows": len(labels), "error": risks(proba, labels)}
    return found


def _sets(inner: Any, X: Any) -> Array | None:
    """Return the prediction sets of a classifier that keeps held-out rows."""
    kept = conformal.calibration_of(inner.rule_) if can(inner, HasRule) else None
    if kept is None:
        return None
    method = "lac" if kept.kind == "probabilities" else "rank"
    return np.asarray(inner.predict_set(X, COVERAGE, method))


def risks(proba: Array, labels: Array) -> list[float]:
    """Return the error among the surest rows, for each of ``SHARES``.

    >>> risks(np.array([[0.9, 0.1], [0.4, 0.6]]), np.array([0, 0]))[9::10]
    [0.0, 0.5]
    """
    said, sure = decisions.decided(proba, "margin")
    wrong = (said != labels)[np.argsort(-sure, kind="stable")]
    counts = np.maximum(1, np.round(np.array(SHARES) * len(wrong)).astype(int))
    return [float(wrong[:n].mean()) for n in counts]
