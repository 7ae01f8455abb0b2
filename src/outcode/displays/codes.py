"""The code as a picture, how hard each of its columns is, and how many columns err together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from outcode import dichotomies, results
from outcode._checks import Array
from outcode.displays.common import (
    BLUE,
    GREY,
    ORANGE,
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
    with_code,
    wrong_columns,
)

#: Cells up to this many a side are set apart by white lines.
GRID = 60
#: Bars up to this many have their number written above.
WRITTEN = 20


@dataclass
class CodeDisplay(Display):
    """The code matrix: a row per class, a column per dichotomy, and how far apart the rows are.

    Parameters
    ----------
    code : ndarray of shape (n_classes, n_dichotomies)
        The code matrix, of +1, -1 and 0.
    names : tuple of str
        Names of the classes.

    Examples
    --------
    >>> CodeDisplay(np.array([[1, -1], [-1, 1], [-1, -1]]), ("a", "b", "c")).frame()
       0  1
    a  1 -1
    b -1  1
    c -1 -1
    """

    code: Array
    names: tuple[str, ...]

    @classmethod
    def from_estimator(cls, clf: Any, X: Any = None, y: Any = None) -> CodeDisplay:
        """Take the code of a fitted classifier; the rows are not needed."""
        return cls(with_code(clf)[0].code_, class_names(clf))

    @classmethod
    def from_records(
        cls,
        records: Records,
        *,
        method: str | None = None,
        dataset: str | None = None,
        class_names: Sequence[str] | None = None,
    ) -> CodeDisplay:
        """Take the code that a study kept."""
        code = dichotomies.as_code(chosen(records, "code", method, dataset)[0])
        return cls(code, numbered(class_names, len(code)))

    def distances(self) -> Array:
        """Return the Hamming distance of each row to the nearest other, a zero counting 1/2."""
        between = dichotomies.row_distances(self.code)
        np.fill_diagonal(between, np.inf)
        nearest: Array = between.min(axis=1)
        return nearest

    def frame(self) -> Any:
        return pandas().DataFrame(self.code, index=list(self.names))

    def size(self) -> tuple[float, float]:
        k, n_columns = self.code.shape
        return float(np.clip(3.4 + 0.22 * n_columns, 5, 13)), float(np.clip(1.6 + 0.22 * k, 2.6, 9))

    def _draw(self, ax: Any) -> None:
        from matplotlib.colors import ListedColormap

        ax.imshow(
            self.code, ListedColormap([ORANGE, "#edf2f7", BLUE]), vmin=-1, vmax=1, aspect="auto",
            interpolation="nearest",
        )  # fmt: skip
        _grid(ax, self.code.shape)
        mark_y(ax, self.names)
        mark_x(ax, range(self.code.shape[1]))
        beside = ax.secondary_yaxis("right")
        mark_y(beside, [f"{distance:g}" for distance in self.distances()])
        beside.tick_params(length=0)
        beside.spines[:].set_visible(False)
        beside.set_ylabel("distance to the nearest row", fontsize="small")
        k, n_columns = self.code.shape
        title = f"{k} classes, {n_columns} columns, least distance {self.distances().min():g}"
        unused = ", grey: not used" if np.any(self.code == 0) else ""
        mark(ax, f"column (blue: +1, orange: -1{unused})", "", title)


def _grid(ax: Any, shape: tuple[int, ...]) -> None:
    if max(shape) > GRID:
        return
    ax.set_xticks(np.arange(shape[1] + 1) - 0.5, minor=True)
    ax.set_yticks(np.arange(shape[0] + 1) - 0.5, minor=True)
    ax.grid(which="minor", color="white", linewidth=1)
    ax.tick_params(which="minor", length=0)
    ax.spines[:].set_visible(False)


@dataclass
class ColumnDisplay(Display):
    """The error of each column on the rows it uses, and that of predicting the larger side.

    Parameters
    ----------
    error : ndarray of shape (n_dichotomies,)
        Share of the rows a column uses that its machine puts on the wrong side; a margin of 0 is
        wrong.
    positives : ndarray of shape (n_dichotomies,)
        Share of these rows that belong on the side +1.
    sides : tuple of str
        Which classes each column opposes, "" where that is not known.

    Examples
    --------
    >>> ColumnDisplay(np.array([0.1]), np.array([0.5]), ("a | b",)).frame()
       error  accuracy  positives  guess  sides
    0    0.1       0.9        0.5    0.5  a | b
    """

    error: Array
    positives: Array
    sides: tuple[str, ...]

    @classmethod
    def from_estimator(cls, clf: Any, X: Any, y: Any) -> ColumnDisplay:
        """Measure the columns of a fitted classifier on test rows."""
        targets, wrong = wrong_columns(clf, X, y)
        code, names = with_code(clf)[0].code_, class_names(clf)
        sides = tuple(results.opposed(column, names) for column in code.T)
        return cls(*results.column_shares(wrong, targets), sides)

    @classmethod
    def from_records(
        cls, records: Records, *, method: str | None = None, dataset: str | None = None
    ) -> ColumnDisplay:
        """Average the columns over the folds of a study that have as many columns as the first."""
        found = chosen(records, "columns", method, dataset)
        found = [one for one in found if len(one["error"]) == len(found[0]["error"])]
        error, positives = (
            np.nanmean(np.array([one[name] for one in found], dtype=float), axis=0)
            for name in ("error", "positives")
        )
        return cls(error, positives, ("",) * len(error))

    @property
    def guess(self) -> Array:
        """The error of always answering with the larger side, (n_dichotomies,)."""
        return np.minimum(self.positives, 1.0 - self.positives)

    def frame(self) -> Any:
        return pandas().DataFrame(
            {
                "error": self.error,
                "accuracy": 1.0 - self.error,
                "positives": self.positives,
                "guess": self.guess,
                "sides": self.sides,
            }
        )

    def size(self) -> tuple[float, float]:
        return float(np.clip(2 + 0.25 * len(self.error), 5, 13)), 4.0

    def _draw(self, ax: Any) -> None:
        columns = range(len(self.error))
        ax.bar(columns, self.guess, width=0.85, color=GREY, label="always the larger side")
        ax.bar(columns, self.error, width=0.5, color=BLUE, label="machine")
        few = len(columns) <= 8 and any(self.sides)
        mark_x(ax, self.sides if few else columns, rotate=few)
        ax.set_xlim(-0.7, len(columns) - 0.3)
        open_sides(ax)
        legend(ax, loc="lower right", bbox_to_anchor=(1, 1), ncols=2)
        mark(ax, "" if few else "column", "error on the rows it uses")


@dataclass
class BitErrorDisplay(Display):
    """How many columns are wrong on a row ([LZCX16] section 5, Fig. 3).

    A code whose rows are d apart corrects floor((d - 1) / 2) wrong columns in Hamming decoding;
    with zeros it may be fewer, because columns also give margins for classes that they do not use.
    Rows with more wrong columns can be misclassified.

    Parameters
    ----------
    count : ndarray of shape (most + 1,)
        Number of rows with 0, 1, 2, ... wrong columns.
    accuracy : ndarray of shape (n_dichotomies,), default=None
        Accuracy of each column on the rows it uses (Fig. 2). None if not known.
    corrected : int, default=None
        Number of wrong columns that the code corrects. None if not known.

    Examples
    --------
    >>> BitErrorDisplay(np.array([90, 8, 2]), corrected=1).frame()["share"].tolist()
    [0.9, 0.08, 0.02]
    """

    count: Array
    accuracy: Array | None = None
    corrected: int | None = None

    @classmethod
    def from_estimator(cls, clf: Any, X: Any, y: Any) -> BitErrorDisplay:
        """Count on test rows; a margin of 0 is wrong, an entry 0 of the code is neither."""
        targets, wrong = wrong_columns(clf, X, y)
        accuracy = 1.0 - results.column_shares(wrong, targets)[0]
        corrected = dichotomies.correction(with_code(clf)[0].code_)
        return cls(np.bincount(wrong.sum(axis=1)), accuracy, corrected)

    @classmethod
    def from_records(
        cls, records: Records, *, method: str | None = None, dataset: str | None = None
    ) -> BitErrorDisplay:
        """Add up the folds of a study."""
        return cls(results.bit_errors(chosen(records, "bit_errors", method, dataset)))

    def frame(self) -> Any:
        return (
            pandas()
            .DataFrame({"rows": self.count, "share": self.count / max(1, self.count.sum())})
            .rename_axis("wrong columns")
        )

    def _draw(self, ax: Any) -> None:
        share = self.count / max(1, self.count.sum())
        wrong = np.arange(len(share))
        beyond = np.zeros(len(share), bool) if self.corrected is None else wrong > self.corrected
        bars = ax.bar(wrong, share, color=np.where(beyond, ORANGE, BLUE))
        if len(share) <= WRITTEN:
            ax.bar_label(bars, [str(n) if n else "" for n in self.count], fontsize="small")
        if self.corrected is not None:
            right = f"at most {self.corrected}: the code corrects them"
            ax.bar(0, 0, color=BLUE, label=right if self.corrected else "none wrong")
            ax.bar(0, 0, color=ORANGE, label="more than the code corrects for sure")
            legend(ax)
        ax.xaxis.set_major_locator(pyplot().MaxNLocator(integer=True))
        ax.set_xlim(-0.6, max(1, len(share) - 1) + 0.6)
        open_sides(ax)
        mark(ax, "wrong columns", "share of rows", f"{self.count.sum()} rows")
