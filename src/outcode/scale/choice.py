"""Width, C and number of landmarks by the exact leave-one-out error of the landmark model.

The error is that of one-vs-all least squares with the landmarks fixed, on a sample of the rows: one
eigendecomposition and one pass give it for every C. Few landmarks want a wider kernel than the
exact machine; the search finds it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from sklearn.utils import check_random_state

from outcode import kernels
from outcode._checks import Array, class_labels
from outcode.scale import landmarks, ridge, statistics
from outcode.scale.engine import Threads
from outcode.scale.features import Features
from outcode.scale.sources import Arrays

#: Rows of the sample that choices are made on, and of the one that C is chosen on.
SAMPLE_ROWS, COST_ROWS = 20_000, 10_000
#: Values of C tried.
VALUES_OF_C = (0.01, 0.1, 1.0, 10.0, 100.0)


@dataclass(frozen=True)
class Setting:
    """One setting and its leave-one-out error on the sample."""

    n_landmarks: int
    gamma: float
    C: float
    error: float
    residual: float
    seconds: float


@dataclass(frozen=True)
class Sample:
    """Rows with their classes, on which settings are compared."""

    X: Any
    labels: Array
    kernel: Callable[[float], kernels.Kernel]
    seed: int = 0
    n_jobs: int | None = None

    def errors(self, gamma: float, n_landmarks: int, values: Sequence[float]) -> list[Setting]:
        """Return the leave-one-out error for every C."""
        started = time.perf_counter()
        kernel, rng = self.kernel(gamma), check_random_state(self.seed)
        origin = kernel.origin(self.X)
        rows = kernel.prepare(self.X, origin)
        at = landmarks.candidates(self.labels, n_landmarks, rng)
        chosen = landmarks.pivots(kernel, rows[at], n_landmarks, rng)
        features = Features(kernel, rows[at][chosen.rows], origin, np.dtype(np.float32))
        code = 2 * np.eye(int(self.labels.max()) + 1, dtype=np.int8) - 1
        engine, source = Threads(self.n_jobs), Arrays(self.X, group=self.labels, block_rows=4096)
        sums = statistics.collect(engine, source, features, np.zeros(len(code), dtype=np.intp))
        errors = ridge.path_errors(
            engine, source, features, sums, code=code, values=np.array(values)
        )
        spent = (time.perf_counter() - started) / len(values)
        pairs = zip(values, errors, strict=True)
        return [Setting(n_landmarks, gamma, C, float(e), chosen.residual, spent) for C, e in pairs]

    def best_gamma(self, scale: float, n_landmarks: int, values: Sequence[float]) -> float:
        """Walk from ``scale`` by factors of 4, then 2, to the smallest error at any C given."""
        found: dict[float, float] = {}

        def error(power: float) -> float:
            if power not in found:
                tried = self.errors(scale * 2.0**power, n_landmarks, values)
                found[power] = min(setting.error for setting in tried)
            return found[power]

        at = 0.0
        for step in (2.0, 1.0):
            while True:
                better = min((at, at - step, at + step), key=error)
                if better == at or abs(better) > 12:
                    break
                at = better
        return scale * 2.0**at


def landmark_search(
    X: Any,
    y: Any,
    *,
    n_landmarks: Sequence[int] = (250, 500, 1000),
    gammas: Sequence[float] | None = None,
    values_of_C: Sequence[float] = VALUES_OF_C,
    kernel: Any = "rbf",
    random_state: int = 0,
    n_jobs: int | None = None,
) -> list[dict[str, float]]:
    """Return the leave-one-out error of landmark least squares for every setting, best first.

    Parameters
    ----------
    X : array-like of shape (n_samples, n_features)
        The rows. A stratified sample of 20,000 rows is used.
    y : array-like of shape (n_samples,)
        The labels.
    n_landmarks : sequence of int, default=(250, 500, 1000)
        Numbers of landmarks to try.
    gammas : sequence of float, default=None
        Values of gamma to try. None takes 1/16 to 4 times "scale".
    values_of_C : sequence of float
        Values of C to try.
    kernel : str or callable, default="rbf"
        Name of a kernel, or a function.
    random_state : int, default=0
        Seed of the sample and of the landmarks.
    n_jobs : int, default=None
        Number of threads.

    Returns
    -------
    list of dict
        ``n_landmarks``, ``gamma``, ``C``, ``error``, ``residual`` (share of the kernel's trace that
        the landmarks leave unexplained) and ``seconds``.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> table = landmark_search(X, y, n_landmarks=[20, 40])
    >>> table[0]["error"] <= table[-1]["error"]
    True
    """
    rows, labels = subsample(np.asarray(X), class_labels(np.asarray(y))[1], random_state)

    def of(gamma: float) -> kernels.Kernel:
        return kernels.resolve(kernel, rows, gamma=gamma)

    sample = Sample(rows, labels, of, random_state, n_jobs)
    scale = kernels.gamma_value("scale", rows)
    widths = [scale * 4.0**i for i in (-2, -1, 0, 1)] if gammas is None else gammas
    tried: Iterator[Setting] = (
        setting
        for m in n_landmarks
        for gamma in widths
        for setting in sample.errors(gamma, m, values_of_C)
    )
    return sorted(map(asdict, tried), key=lambda row: row["error"])


def subsample(X: Any, labels: Array, seed: int, size: int = SAMPLE_ROWS) -> tuple[Any, Array]:
    """Return a stratified sample of at most 20,000 rows, or so many."""
    if X.shape[0] <= size:
        return X, labels
    at = landmarks.stratified(labels, size, check_random_state(seed))
    return X[at], labels[at]


def held_out(labels: Array) -> Array:
    """Return which rows are left out: every third of a class, so that each has rows that stay.

    >>> held_out(np.array([0, 1, 0, 0])).tolist()
    [False, False, False, True]
    """
    order = np.argsort(labels, kind="stable")
    starts = np.flatnonzero(np.diff(labels[order], prepend=-1))
    rank = np.arange(len(labels)) - np.repeat(starts, np.diff(starts, append=len(labels)))
    out = np.empty(len(labels), dtype=bool)
    out[order] = rank % 3 == 2
    return out


def smallest(error: Callable[[float], float]) -> float:
    """Return the power of ten where an error is smallest, walking from 10; of equals the smaller.

    >>> smallest(lambda C: abs(C - 100.0))
    100.0
    """
    found = {power: error(10.0**power) for power in (0, 1, 2)}
    while True:
        best = min(found, key=lambda power: (found[power], power))
        beyond = best + 1 if best == max(found) else best - 1
        if beyond in found or not -2 <= beyond <= 4:
            return 10.0**best
        found[beyond] = error(10.0**beyond)
