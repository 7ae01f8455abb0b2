"""Trials of least squares on one set of rows: kernels, widths, ridge values and codes.

One matrix of distances per kernel, one factorisation per width, ridge value and set of rows that
columns use; every trial has its exact leave-one-out margins, calibrated by one slope and one
temperature (:mod:`outcode.decoders.shared`).
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np

from outcode import decoders, kernels
from outcode._checks import Array
from outcode.capabilities import HasProbabilities, can
from outcode.decoders.shared import calibrate, scored
from outcode.selection.closed_form import Systems, grouped, loo_margins

#: Ridge values of the map.
RIDGES = 10.0 ** np.linspace(-6.0, 1.0, 7)
#: Relative step at which slopes and temperatures of trials stop.
COARSE = 1e-2
#: Rows that a class of a sample has at least, where there are that many.
EACH = 5
#: Accuracies within so many standard errors of the highest are not told apart.
SLACK = 1.0


@dataclass(frozen=True, kw_only=True)
class Trial:
    """One setting and what its held-out margins are worth.

    ``accuracy`` and ``loss`` (log loss after one slope and one temperature) are over held-out rows;
    ``row_loss`` (n_rows,) is the loss of each, for paired comparisons. ``solving`` are the seconds
    of the closed form, of all ``seconds``.
    """

    stage: str
    features: str
    machine: str
    kernel: Any
    gamma: float | None
    C: float
    code: Any
    n_rows: int
    accuracy: float
    balanced_accuracy: float
    loss: float
    slope: float
    temperature: float
    seconds: float
    row_loss: Array = field(repr=False, compare=False)
    ridge: float = 0.0
    solving: float = 0.0
    decoder: Any = "shared"


@dataclass
class Landscape:
    """Distinct rows with their labels, weights and codes, ready for trials.

    ``codes`` maps what the user gave to matrices; ``X`` is the kernel matrix itself for a
    precomputed kernel. ``scale`` (n_features,) multiplies the features of kernels of a distance.
    """

    X: Any
    labels: Array
    weight: Array
    codes: dict[Any, Array]
    stage: str = "map"
    scale: Array | None = None

    def __post_init__(self) -> None:
        self._distances: dict[str, Array] = {}
        self._medians: dict[str, float] = {}
        self._systems: dict[Any, list[Systems]] = {}

    def __len__(self) -> int:
        return len(self.labels)

    @cached_property
    def scored(self) -> Array:
        """Weights of the rows in held-out scores."""
        return scored(self.labels, self.weight)

    @cached_property
    def plain(self) -> Landscape:
        """The same rows with all features as they are."""
        return self if self.scale is None else replace(self, scale=None)

    @cached_property
    def scaled(self) -> Any:
        """The rows with every feature times its scale."""
        scale = () if self.scale is None else (*self.scale.tolist(),)
        return kernels.Kernel(scales=scale).scaled(self.X)

    def features(self, kernel: Any) -> str:
        """Say whether a kernel sees weighted features."""
        kind = kernels.named(kernel)
        seen = self.scale is not None and (kind.of_distance or kind.mixes)
        return "weighted" if seen else "plain"

    def like(self, trial: Trial) -> Landscape:
        """Return these rows with the features as a trial sees them."""
        return self if trial.features == "weighted" else self.plain

    def part(self, rows: Array, stage: str, pairwise: bool) -> Landscape:
        """Return the landscape of some of the rows."""
        X = self.X[rows][:, rows] if pairwise else self.X[rows]
        return Landscape(X, self.labels[rows], self.weight[rows], self.codes, stage, self.scale)

    def times(self, factors: Array) -> Landscape:
        """Return the same rows with every feature times a factor."""
        return replace(self, X=self.X * factors)

    def distances(self, kernel: str) -> Array:
        """Return the (n, n) distances of a kernel that is a function of one."""
        if kernel not in self._distances:
            self._distances[kernel] = between(kernel, self.scaled)
        return self._distances[kernel]

    def median(self, kernel: str) -> float:
        """Return the median distance of two different rows, 1 if there are none."""
        if kernel not in self._medians:
            distances = self.distances(kernel)
            some = distances[np.tri(len(distances), k=-1, dtype=bool)]
            some = some[some > 0]
            self._medians[kernel] = float(np.median(some)) if len(some) else 1.0
            kernels.check_spread(self._medians[kernel])
        return self._medians[kernel]

    def gram(self, kernel: Any, gamma: float | None) -> Array:
        """Return the kernel matrix."""
        kind = kernels.named(kernel)
        if kind.given:
            return np.asarray(self.X, dtype=np.float64)
        if kind.of_distance:
            matrix = self.distances(kernel) * -(gamma or 1.0)
            return np.asarray(np.exp(matrix, out=matrix))
        if kind.mixes:
            return kernels.Mixture.parse(kernel).combine(self.gram)
        plain = kernels.resolve(kernel, self.X)
        rows = plain.prepare(self.X, plain.origin(self.X))
        return plain.block(rows, rows)

    def trials(
        self,
        kernel: Any,
        gamma: float | None,
        code: Any,
        ridges: Array,
        gram: Array | None = None,
    ) -> list[Trial]:
        """Return a trial for each ridge value, in units of the mean K(x, x).

        A ridge value too small to make the kernel matrix positive definite gives none.
        """
        started = time.perf_counter()
        gram = self.gram(kernel, gamma) if gram is None else gram
        scale = max(float(gram.diagonal().mean()), 1e-300)
        matrix = self.codes[code]
        asked = time.perf_counter()
        margins = self.margins(gram, code, ridges * scale)
        solving = (time.perf_counter() - asked) / max(len(ridges), 1)
        usable = np.isfinite(margins).all(axis=(1, 2))
        margins, ridges = margins[usable], np.asarray(ridges)[usable]
        setting = {"machine": "ls", "kernel": kernel, "gamma": gamma, "code": code}
        trials = self.judged(margins, matrix, **setting, C=0.0, seconds=0.0)
        seconds = (time.perf_counter() - started) / max(len(ridges), 1)
        return [
            replace(trial, ridge=ridge, C=1.0 / (ridge * scale), seconds=seconds, solving=solving)
            for trial, ridge in zip(trials, ridges.tolist(), strict=True)
        ]

    def margins(self, gram: Array, code: Any, ridges: Array) -> Array:
        """Return the leave-one-out margins of a code's columns, (n_ridges, n, n_dichotomies)."""
        targets = self.codes[code][self.labels]
        if code not in self._systems:
            self._systems[code] = grouped(targets, self.weight)
        return loo_margins(gram, targets, ridges, self.weight, self._systems[code])

    def judged(self, margins: Array, matrix: Array, **setting: Any) -> list[Trial]:
        """Return trials from a stack of held-out margins (n_trials, n, n_dichotomies)."""
        found = calibrate(margins, matrix, self.labels, self.scored, COARSE)
        right = found.scores.argmax(axis=2) == self.labels
        accuracy = right @ self.scored / self.scored.sum()
        return [
            Trial(
                stage=self.stage,
                features=self.features(setting["kernel"]),
                n_rows=len(self),
                accuracy=float(accuracy[k]),
                balanced_accuracy=self._balanced(right[k]),
                loss=float(found.loss[k]),
                slope=float(found.slope[k]),
                temperature=1.0 / float(found.inverse_temperature[k]),
                row_loss=found.row_loss[k],
                **setting,
            )
            for k in range(len(margins))
        ]

    def decoded(self, trial: Trial, margins: Array, names: Sequence[Any]) -> list[Trial]:
        """Return the trial under other decoders, which are fitted on its held-out margins."""
        return [self._under(trial, margins, name) for name in names]

    def _under(self, trial: Trial, margins: Array, name: Any) -> Trial:
        if isinstance(name, str) and name == trial.decoder:
            return trial
        matrix, rows = self.codes[trial.code], np.arange(len(self))
        given = decoders.Training(matrix, self.labels, self.X, None, self.scored, lambda _: margins)
        decoder = decoders.resolve(name).fit(given)
        right = decoder.best(margins, self.X) == self.labels
        row_loss = np.full(len(self), np.nan)
        if can(decoder, HasProbabilities):
            row_loss = -np.log(np.maximum(decoder.proba(margins, self.X)[rows, self.labels], 1e-15))
        return replace(
            trial,
            decoder=name,
            accuracy=float(right @ self.scored / self.scored.sum()),
            balanced_accuracy=self._balanced(right),
            loss=float(row_loss @ self.scored / self.scored.sum()),
            row_loss=row_loss,
        )

    def _balanced(self, right: Array) -> float:
        mass = np.bincount(self.labels, self.scored)
        share = np.bincount(self.labels, self.scored * right)[mass > 0] / mass[mass > 0]
        return float(share.mean())


def between(kernel: str, X: Any) -> Array:
    """Return the distances that a kernel is a function of, (n, n)."""
    kind: Any = kernels.named(kernel)()
    rows = kind.prepare(X, kind.origin(X))
    distances = np.array(kind.distances(rows, rows))
    np.fill_diagonal(distances, 0.0)
    return distances


# --- which rows ---


def sample(labels: Array, size: int, rng: np.random.RandomState) -> Array:
    """Return ``size`` rows, every class in its share; small classes are not lost.

    Of more classes than can have :data:`EACH` rows only some are drawn: what is left out of a
    class of two rows is hardly ever recognised.
    """
    order, n_classes = rng.permutation(len(labels)), int(labels.max()) + 1
    place, most = np.empty(len(labels)), max(2, size // EACH)
    late = np.zeros(n_classes)
    if n_classes > most:
        late[rng.permutation(n_classes)[most:]] = 2.0
    for q in range(n_classes):
        rows = order[labels[order] == q]
        place[rows] = (np.arange(len(rows)) + 0.5) / max(len(rows), 1)
        place[rows[:2]] = -1.0
        place[rows] += late[q]
    return np.sort(np.argsort(place, kind="stable")[:size])


# --- which trial ---


def hopeless(trial: Trial, best: Trial, weight: Array, errors: float = 2.0) -> bool:
    """Return whether a trial loses to the best by so many standard errors, paired over rows."""
    w = weight / weight.sum()
    difference = trial.row_loss - best.row_loss
    mean = float(w @ difference)
    variance = float(w @ (difference - mean) ** 2) * float(w @ w)
    return mean > errors * np.sqrt(variance)


def preferred(trials: Sequence[Trial], scoring: str) -> Trial:
    """Return the best trial.

    For "neg_log_loss" the one with the smallest held-out log loss. For an accuracy the same among
    those within one standard error of the most accurate: differences below it are noise, and the
    log loss tells such settings apart.
    """
    if scoring == "neg_log_loss":
        return min(trials, key=lambda trial: np.inf if np.isnan(trial.loss) else trial.loss)
    best = max(getattr(trial, scoring) for trial in trials)
    n = max(trial.n_rows for trial in trials)
    slack = SLACK * np.sqrt(max(best * (1.0 - best), 1.0 / n) / n)
    near = [trial for trial in trials if getattr(trial, scoring) >= best - slack]
    return min(near, key=lambda trial: np.inf if np.isnan(trial.loss) else trial.loss)
