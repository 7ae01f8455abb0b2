"""What predictions are worth: which classes are confused, and whether probabilities hold."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from outcode import metrics, results
from outcode._checks import Array, class_indices
from outcode.capabilities import PredictsProbabilities, can
from outcode.displays.common import (
    BLUE,
    DARK,
    GREY,
    ORANGE,
    PLAIN,
    Display,
    Records,
    chosen,
    class_names,
    legend,
    mark,
    mark_x,
    mark_y,
    numbered,
    open_sides,
    pandas,
    pyplot,
    unwrapped,
)
from outcode.words import percent

#: Numbers are written into a confusion matrix of up to this many classes.
WRITTEN = 30


@dataclass
class ConfusionDisplay(Display):
    """The confusion matrix: rows are true classes, columns predicted ones.

    Parameters
    ----------
    count : ndarray of shape (n_classes, n_classes)
        Number of rows of each true class (row) and predicted class (column).
    names : tuple of str
        Names of the classes.

    Examples
    --------
    >>> ConfusionDisplay(np.array([[5, 2], [0, 4]]), ("a", "b")).pairs()
      true predicted  rows  share
    0    a         b     2   0.29
    """

    count: Array
    names: tuple[str, ...]

    @classmethod
    def from_estimator(cls, clf: Any, X: Any, y: Any) -> ConfusionDisplay:
        """Predict test rows."""
        classes = unwrapped(clf)[0].classes_
        labels = class_indices(y, classes)
        predicted = class_indices(clf.predict(X), classes)
        return cls(metrics.confusion(labels, predicted, len(classes)), class_names(clf))

    @classmethod
    def from_records(
        cls,
        records: Records,
        *,
        method: str | None = None,
        dataset: str | None = None,
        class_names: Sequence[str] | None = None,
    ) -> ConfusionDisplay:
        """Add up the folds of a study."""
        parts = [chosen(records, name, method, dataset) for name in ("labels", "predicted")]
        names = numbered(class_names, 1 + max(max(one) for part in parts for one in part))
        return cls(results.confusion(parts, len(names)), names)

    def frame(self) -> Any:
        return pandas().DataFrame(
            self.count,
            index=pandas().Index(self.names, name="true"),
            columns=pandas().Index(self.names, name="predicted"),
        )

    def pairs(self, n: int = 10) -> Any:
        """Return the most frequent confusions as a table, the share is that of the true class."""
        wrong = np.where(np.eye(len(self.count), dtype=bool), 0, self.count)
        order = np.argsort(-wrong, axis=None, kind="stable")[:n]
        true, predicted = np.unravel_index(order[wrong.flat[order] > 0], wrong.shape)
        rows = wrong[true, predicted]
        return pandas().DataFrame(
            {
                "true": [self.names[i] for i in true],
                "predicted": [self.names[i] for i in predicted],
                "rows": rows,
                "share": (rows / self.count[true].sum(axis=1)).round(2),
            }
        )

    def size(self) -> tuple[float, float]:
        side = float(np.clip(3.2 + 0.32 * len(self.count), 4.5, 12))
        return side + 0.6, side

    def _draw(self, ax: Any) -> None:
        share = self.count / np.maximum(self.count.sum(axis=1, keepdims=True), 1)
        ax.imshow(_colours(share), aspect="equal", interpolation="nearest")
        if len(share) <= WRITTEN:
            self._write(ax, share)
        mark_y(ax, self.names)
        mark_x(ax, self.names, rotate=True)
        ax.spines[:].set_visible(False)
        error = 1.0 - np.trace(self.count) / max(1, self.count.sum())
        mark(ax, "predicted", "true", f"{self.count.sum()} rows, error {percent(error)}")

    def _write(self, ax: Any, share: Array) -> None:
        largest = max(1, int(self.count.max()))
        font = min(10.0, 200.0 / len(share) / max(1, len(str(largest)) - 1) ** 0.5)
        for i, j in np.argwhere(self.count > 0):
            dark = share[i, j] > (0.6 if i == j else 0.25)
            ax.text(
                j, i, str(self.count[i, j]), ha="center", va="center", fontsize=font,
                color="white" if dark else DARK, **PLAIN,
            )  # fmt: skip


def _colours(share: Array) -> Array:
    """Return right rows in blue and wrong ones in orange, deeper where there are more."""
    right = np.eye(len(share), dtype=bool)[..., None]
    depth = np.where(right[..., 0], share, np.minimum(1.0, share / 0.5))
    maps = pyplot().get_cmap("Blues"), pyplot().get_cmap("Oranges")
    blue, orange = (colours(0.9 * depth) for colours in maps)
    out: Array = np.where(right, blue, orange)
    out[(share == 0) & ~right[..., 0]] = (1.0, 1.0, 1.0, 1.0)
    return out


@dataclass
class ReliabilityDisplay(Display):
    """Whether rows predicted with probability p are right in a share p of cases.

    Parameters
    ----------
    reliability : outcode.metrics.Reliability
        The bins, with their counts, mean probabilities and accuracies.

    Examples
    --------
    >>> proba = np.array([[0.9, 0.1], [0.4, 0.6]])
    >>> found = metrics.reliability(np.array([0, 1]), proba, bins=2)
    >>> ReliabilityDisplay(found).frame()["rows"].tolist()
    [0, 2]
    """

    reliability: metrics.Reliability

    @classmethod
    def from_estimator(cls, clf: Any, X: Any, y: Any, *, bins: int = 15) -> ReliabilityDisplay:
        """Predict test rows with their probabilities."""
        if not can(clf, PredictsProbabilities):
            raise ValueError(
                "This classifier gives no probabilities: use a decoder that has them, for example "
                "'likelihood'."
            )
        labels = class_indices(y, unwrapped(clf)[0].classes_)
        return cls(metrics.reliability(labels, clf.predict_proba(X), bins))

    @classmethod
    def from_records(
        cls, records: Records, *, method: str | None = None, dataset: str | None = None
    ) -> ReliabilityDisplay:
        """Add up the folds of a study, bin by bin."""
        return cls(results.reliability(chosen(records, "reliability", method, dataset)))

    def frame(self) -> Any:
        edges = np.linspace(0.0, 1.0, len(self.reliability.count) + 1)
        return pandas().DataFrame(
            {
                "from": edges[:-1],
                "to": edges[1:],
                "rows": self.reliability.count,
                "confidence": self.reliability.confidence,
                "accuracy": self.reliability.accuracy,
            }
        )

    def size(self) -> tuple[float, float]:
        return 5.0, 5.0

    def _draw(self, ax: Any) -> None:
        r, bins = self.reliability, len(self.reliability.count)
        share = r.count / max(1, r.count.sum())
        middle = (np.arange(bins) + 0.5) / bins
        ax.bar(middle, share, width=0.9 / bins, color=GREY, label="share of rows")
        ax.plot([0, 1], [0, 1], "--", color=DARK, linewidth=1, label="calibrated")
        there = r.count > 0
        ax.vlines(r.confidence[there], r.confidence[there], r.accuracy[there], color=ORANGE)
        ax.plot(r.confidence[there], r.accuracy[there], color=BLUE, linewidth=1)
        ax.scatter(
            r.confidence[there], r.accuracy[there], 10 + 150 * share[there], color=BLUE, zorder=3,
            label="accuracy (area: rows)",
        )  # fmt: skip
        ax.set(xlim=(0, 1.01), ylim=(0, 1.03), aspect="equal")
        open_sides(ax)
        legend(ax, loc="upper left")
        mark(ax, "probability of the predicted class", "accuracy",
             f"{r.count.sum()} rows, calibration error {r.calibration_error:.3f}")  # fmt: skip
