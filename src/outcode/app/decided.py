"""What `predict` answers beside the label: the classes a row may have, and why it has its own."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from outcode import conformal
from outcode._checks import Array
from outcode.capabilities import HasSteps, can
from outcode.words import percent

#: Between the classes of a set.
SEPARATOR = " | "


def classifier_and_rows(fitted: Any, table: Any) -> tuple[Any, Any]:
    """Return the classifier at the end of a pipeline, and the rows as it takes them."""
    if not can(fitted, HasSteps):
        return getattr(fitted, "best_estimator_", fitted), table
    rows = fitted[:-1].transform(table)
    return getattr(fitted[-1], "best_estimator_", fitted[-1]), rows


def sets(fitted: Any, table: Any, coverage: float) -> Array:
    """Return the classes each row may have, (n_rows, n_classes) bool."""
    clf, rows = classifier_and_rows(fitted, table)
    calibration = conformal.calibration_of(clf.rule_)
    if calibration is None:
        raise ValueError(
            "This model keeps no held-out rows, which sets of classes need: fit one whose decoder "
            "has probabilities, for example --method ovo+likelihood."
        )
    method = "lac" if calibration.kind == "probabilities" else "rank"
    return np.asarray(clf.predict_set(rows, coverage, method))


def set_texts(sets: Array, classes: Array) -> list[str]:
    """Return each set as text, the classes in their order."""
    return [SEPARATOR.join(str(c) for c in classes[inside]) for inside in sets]


def reasons(fitted: Any, table: Any) -> Iterator[str]:
    """Yield why each row has its class, in one line."""
    clf, rows = classifier_and_rows(fitted, table)
    for i in range(rows.shape[0]):
        yield " ".join(str(clf.explain(rows[i : i + 1])).splitlines())


def coverage_text(sets: Array, truth: Array, classes: Array) -> str:
    """Return how many sets hold the true class, of rows whose class is known to the model."""
    names = classes.astype(str)
    known = np.array([label is not None and str(label) in names for label in truth], dtype=bool)
    if not known.any():
        return "No row has a class that the model knows."
    labels = np.array([int(np.argmax(names == str(label))) for label in truth[known]])
    found = conformal.summary(sets[known], labels)
    share = percent(found.coverage)
    return f"Sets: {share} hold the true class, with {found.size:.2f} classes on average."
