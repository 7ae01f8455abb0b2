"""What `predict` answers beside the label: the classes a row may have, and why it has its own."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from outcode import conformal, decisions
from outcode._checks import Array
from outcode.capabilities import HasSteps, can
from outcode.words import percent

#: Between the classes of a set.
SEPARATOR = " | "
NOTHING_HELD_OUT = (
    "This model has no held-out rows, but {} them: fit a model whose decoder has probabilities, "
    "for example --method ovo+likelihood."
)


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
        raise ValueError(NOTHING_HELD_OUT.format("prediction sets need"))
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


def set_counts(sets: Array, truth: Array, classes: Array) -> dict[str, int]:
    """Return how many rows have a class known to the model, sets that hold it, and their sizes."""
    names = classes.astype(str)
    known = np.array([label is not None and str(label) in names for label in truth], dtype=bool)
    place = {name: q for q, name in enumerate(names)}
    labels = np.array([place[str(label)] for label in truth[known]], dtype=np.intp)
    held = sets[np.flatnonzero(known), labels]
    return {"rows": int(known.sum()), "held": int(held.sum()), "sizes": int(sets[known].sum())}


def coverage_text(counts: Mapping[str, int]) -> str:
    """Return how many sets hold the true class, of rows whose class is known to the model."""
    if not counts["rows"]:
        return "No row has a class that the model knows."
    share, size = percent(counts["held"] / counts["rows"]), counts["sizes"] / counts["rows"]
    return f"Sets: {share} hold the true class, with {size:.2f} classes on average."


def abstaining(fitted: Any, error: float) -> decisions.Abstaining:
    """Return the classifier with a threshold that keeps the error among answered rows low."""
    clf = getattr(fitted[-1], "best_estimator_", fitted[-1]) if can(fitted, HasSteps) else fitted
    if conformal.calibration_of(clf.rule_) is None:
        raise ValueError(NOTHING_HELD_OUT.format("abstaining needs"))
    return decisions.abstaining(clf, error)


def answers(careful: decisions.Abstaining, fitted: Any, table: Any) -> tuple[Array, Array]:
    """Return the class of each row, None where it is not answered, and which rows are."""
    labels, answered = careful.decide(classifier_and_rows(fitted, table)[1])
    said = labels.astype(object)
    said[~answered] = None
    return said, answered
