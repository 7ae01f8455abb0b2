"""Tables with too many rows for an exact machine: the best setting on landmarks."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.utils import check_random_state

from outcode import kernels
from outcode._checks import Array
from outcode.classifier import OutputCodeClassifier
from outcode.machines import Nystrom
from outcode.scale import choice
from outcode.scale.landmarks import stratified
from outcode.scale.sources import Arrays

#: Landmarks of the machine.
LANDMARKS = 1000


def on_landmarks(
    code: Any,
    kernel: Any,
    scale: Array | None,
    X: Any,
    y: Array,
    weight: Array,
    n_jobs: int | None = None,
) -> tuple[OutputCodeClassifier, float | None]:
    """Return a classifier on landmarks, trained on all rows, and its gamma.

    Its width and C are chosen on a sample. ``scale`` are factors of the features, if they have any:
    gamma is then that of the features times these factors.
    """

    def fitted(machine: Nystrom, X: Any, y: Array, weight: Array) -> OutputCodeClassifier:
        model = OutputCodeClassifier(code, machine, "likelihood", n_jobs=n_jobs, random_state=0)
        return model.fit(Arrays(X, y, weight=None if (weight == 1.0).all() else weight))

    machine = Nystrom(LANDMARKS, kernel, "loo", C="cv")
    if scale is None:
        model = fitted(machine, X, y, weight)
        return model, gamma_of(model)
    labels = np.unique(y, return_inverse=True)[1]
    rows = stratified(labels, min(len(labels), choice.SAMPLE_ROWS), check_random_state(0))
    sample = fitted(machine, X[rows] * scale, y[rows], weight[rows])
    gamma = gamma_of(sample)
    each = (gamma or 1.0) * scale ** (1.0 / kernels.named(kernel).stretch)
    return fitted(Nystrom(LANDMARKS, kernel, each, C=sample.machine_.C_), X, y, weight), gamma


def gamma_of(model: OutputCodeClassifier) -> float | None:
    """Return the gamma of a fitted landmark machine, None for a mixture."""
    return getattr(model.machine_.features_.kernel, "gamma", None)
