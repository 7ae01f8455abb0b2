"""Tables with too many rows for an exact machine: the best setting on landmarks."""

from __future__ import annotations

from typing import Any

from outcode._checks import Array
from outcode.classifier import OutputCodeClassifier
from outcode.machines import Nystrom
from outcode.scale.sources import Arrays

#: Landmarks of the machine.
LANDMARKS = 1000


def on_landmarks(
    code: Any, kernel: Any, X: Any, y: Array, weight: Array, n_jobs: int | None = None
) -> OutputCodeClassifier:
    """Return a classifier on landmarks, its width and C chosen on a sample, trained on all rows."""
    machine = Nystrom(LANDMARKS, kernel, "loo", C="cv")
    model = OutputCodeClassifier(code, machine, "likelihood", n_jobs=n_jobs, random_state=0)
    return model.fit(Arrays(X, y, weight=None if (weight == 1.0).all() else weight))
