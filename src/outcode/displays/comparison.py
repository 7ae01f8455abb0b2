"""Which method, which gamma: ranks over data sets, and the bound along gamma."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from outcode import results, statistics
from outcode._checks import lookup
from outcode.displays.common import (
    BLUE,
    DARK,
    GREY,
    ORANGE,
    PLAIN,
    Display,
    Records,
    chosen,
    legend,
    mark,
    open_sides,
    pandas,
    short,
)
from outcode.metrics import METRICS
from outcode.results import Path, path

#: Colours of curves that are told apart; of more curves none is.
CURVES = (BLUE, "#2f855a", "#6b46c1", DARK, "#b83280", "#718096")


@dataclass
class CriticalDifferenceDisplay(Display):
    """Average ranks of methods over data sets; a bar joins what is not significantly different.

    Parameters
    ----------
    nemenyi : outcode.statistics.Nemenyi
        The average ranks and their critical difference.

    References
    ----------
    [D06] Fig. 1.

    Examples
    --------
    >>> errors = [[0.1, 0.2, 0.3]] * 7
    >>> CriticalDifferenceDisplay.from_errors(errors, ["A", "B", "C"]).frame()
       rank  best_p
    A   1.0    1.00
    B   2.0    0.15
    C   3.0    0.00
    """

    nemenyi: Any

    @classmethod
    def from_errors(
        cls, errors: Any, names: Sequence[str], *, alpha: float = 0.05
    ) -> CriticalDifferenceDisplay:
        """Rank the methods of an (n_datasets, n_methods) table, lower is better."""
        return cls(statistics.nemenyi(errors, names, alpha=alpha))

    @classmethod
    def from_records(
        cls, records: Records, *, measure: str = "error", alpha: float = 0.05
    ) -> CriticalDifferenceDisplay:
        """Average a measure over the folds of each data set; one never measured is left out."""
        lookup(METRICS, measure, "measure")
        methods = list(dict.fromkeys(str(record["method"]) for record in records))
        of: dict[str, list[Any]] = {}
        for record in records:
            of.setdefault(record["dataset"], []).append(record)
        tables = (results.fold_table(mine, methods, measure) for mine in of.values())
        means = [results.dataset_means(table) for table in tables]
        lower = METRICS[measure].lower_is_better
        return cls(statistics.nemenyi(means, methods, alpha=alpha, lower_is_better=lower))

    def frame(self) -> Any:
        ranks = self.nemenyi.ranks
        best = int(np.argmin(ranks.average))
        table = {"rank": ranks.average, "best_p": self.nemenyi.p_values[best].round(2)}
        return pandas().DataFrame(table, index=list(ranks.names)).sort_values("rank", kind="stable")

    def size(self) -> tuple[float, float]:
        rows = (len(self.nemenyi.ranks.names) + 1) // 2
        return 8.0, 1.5 + 0.28 * rows + 0.16 * len(self.nemenyi.groups)

    def _draw(self, ax: Any) -> None:
        ranks = self.nemenyi.ranks
        order = np.argsort(ranks.average, kind="stable")
        k, half = len(order), (len(order) + 1) // 2
        low, high = 1.0, float(max(2, k))
        bars = 0.55 * len(self.nemenyi.groups)
        for place, i in enumerate(order):
            left = place < half
            depth = 1.0 + bars + (place if left else k - 1 - place)
            self._name(ax, ranks.names[i], float(ranks.average[i]), depth, left)
        self._bars(ax)
        ax.plot([low, high], [0, 0], color=DARK, linewidth=1.2)
        for rank in range(1, int(high) + 1, 1 + k // 20):
            ax.plot([rank, rank], [0, -0.18], color=DARK, linewidth=1)
            ax.text(rank, -0.3, str(rank), ha="center", va="bottom", fontsize="small")
        self._difference(ax, low)
        margin = self._margin(ax) * (high - low)
        ax.set(xlim=(low - margin, high + margin), ylim=(half + bars + 0.6, -2.1))
        ax.set_axis_off()

    def _margin(self, ax: Any) -> float:
        """Return the room the longest name needs, as a share of the axis between them."""
        width = ax.figure.get_figwidth()
        longest = max(len(short(name)) for name in self.nemenyi.ranks.names)
        room = min(0.4 * width, 0.08 * (longest + 7))
        return float(room / (width - 2 * room))

    def _name(self, ax: Any, name: str, rank: float, depth: float, left: bool) -> None:
        k = max(2, len(self.nemenyi.ranks.names))
        end = 1.0 - 0.03 * (k - 1) if left else k + 0.03 * (k - 1)
        ax.plot([rank, rank, end], [0, depth, depth], color=GREY, linewidth=1, zorder=0)
        ax.plot(rank, 0, "o", color=BLUE, markersize=4)
        text = f"{short(name)}  {rank:.2f}" if left else f"{rank:.2f}  {short(name)}"
        ax.text(end, depth, text, ha="right" if left else "left", va="center",
                fontsize="medium", **PLAIN)  # fmt: skip

    def _bars(self, ax: Any) -> None:
        ranks = self.nemenyi.ranks
        place = {name: float(rank) for name, rank in zip(ranks.names, ranks.average, strict=True)}
        for i, group in enumerate(self.nemenyi.groups):
            ends = place[group[0]], place[group[-1]]
            ax.plot(ends, [0.55 * (i + 1)] * 2, color=ORANGE, linewidth=4, solid_capstyle="round")

    def _difference(self, ax: Any, low: float) -> None:
        cd = self.nemenyi.critical_difference
        ax.plot([low, low + cd], [-1.35, -1.35], color=DARK, linewidth=1.2, marker="|")
        ax.text(low + cd / 2, -1.5, f"critical difference {cd:.2f}", ha="center", va="bottom",
                fontsize="small")  # fmt: skip


@dataclass
class BoundPathDisplay(Display):
    """The leave-one-out bound against gamma, and the gamma chosen ([PPF04]).

    Parameters
    ----------
    paths : tuple of Path
        A curve per value of C, or per fold of a study.

    Examples
    --------
    >>> path = Path("C = 1", np.array([0.1, 1.0]), np.array([0.3, 0.2]))
    >>> BoundPathDisplay((path,)).frame()
        path  gamma  bound
    0  C = 1    0.1    0.3
    1  C = 1    1.0    0.2
    """

    paths: tuple[Path, ...]

    @classmethod
    def from_estimator(cls, search: Any, X: Any = None, y: Any = None) -> BoundPathDisplay:
        """Take the bounds of a fitted LOOBoundSearch; the rows are not needed."""
        table = getattr(search, "results_", {})
        if "bound" not in table:
            raise ValueError("This is not a fitted LOOBoundSearch: it has no bounds in results_.")
        rows = [(f"C = {C:g}", table["C"] == C) for C in np.unique(table["C"])]
        one = len(rows) == 1
        return cls(
            tuple(
                path("bound" if one else name, table["gamma"][at], table["bound"][at])
                for name, at in rows
            )
        )

    @classmethod
    def from_records(
        cls, records: Records, *, method: str | None = None, dataset: str | None = None
    ) -> BoundPathDisplay:
        """Take the path of every fold of a study."""
        found = chosen(records, "path", method, dataset)
        folds = (path(f"fold {i}", p["gamma"], p["bound"]) for i, p in enumerate(found))
        return cls(tuple(folds))

    def frame(self) -> Any:
        tables = [{"path": p.name, "gamma": p.gamma, "bound": p.bound} for p in self.paths]
        return pandas().concat(map(pandas().DataFrame, tables), ignore_index=True)

    def _draw(self, ax: Any) -> None:
        many = len(self.paths) > len(CURVES)
        for i, curve in enumerate(self.paths):
            style = {"color": BLUE, "alpha": 0.35} if many else {"color": CURVES[i]}
            ax.plot(curve.gamma, curve.bound, "o-", markersize=3, label=curve.name, **style)
            best = curve.chosen
            ax.plot(curve.gamma[best], curve.bound[best], "o", color=ORANGE, markersize=8, zorder=3,
                    markeredgecolor="white")  # fmt: skip
        ax.plot([], [], "o", color=ORANGE, label="least bound")
        ax.set_xscale("log")
        ax.set_ylim(bottom=0)
        open_sides(ax)
        if not many:
            legend(ax)
        mark(ax, "gamma", "leave-one-out bound", f"{len(self.paths)} folds" if many else "")
