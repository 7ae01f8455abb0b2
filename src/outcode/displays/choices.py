"""Which method, which gamma: ranks over data sets, and the bound along gamma."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from outcode import statistics
from outcode._checks import Array
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

#: Colours of curves that are told apart; of more curves none is.
CURVES = (BLUE, "#2f855a", "#6b46c1", DARK, "#b83280", "#718096")


@dataclass
class CriticalDifferenceDisplay(Display):
    """Average ranks of methods over data sets; a bar joins methods that cannot be told apart.

    Parameters
    ----------
    nemenyi : :class:`outcode.statistics.Nemenyi`

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
        sets, methods = (
            list(dict.fromkeys(str(record[key]) for record in records))
            for key in ("dataset", "method")
        )
        values: dict[tuple[str, str], list[float]] = {}
        for record in records:
            value = record["metrics"].get(measure) if record["status"] == "ok" else None
            if value is not None:
                values.setdefault((record["dataset"], record["method"]), []).append(value)
        table = [[np.mean(values.get((d, m), [np.nan])) for m in methods] for d in sets]
        return cls.from_errors(table, methods, alpha=alpha)

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


@dataclass(frozen=True)
class Path:
    """The bound (n_gammas,) along ``gamma``, rising; ``name`` says of what."""

    name: str
    gamma: Array
    bound: Array


@dataclass
class BoundPathDisplay(Display):
    """The leave-one-out bound against gamma, and the gamma chosen. [PPF04]

    Parameters
    ----------
    paths : a curve per value of C, or per fold of a study
    """

    paths: tuple[Path, ...]

    @classmethod
    def from_estimator(cls, search: Any, X: Any = None, y: Any = None) -> BoundPathDisplay:
        """Take the bounds of a fitted LOOBoundSearch; the rows are not needed."""
        results = getattr(search, "results_", {})
        if "bound" not in results:
            raise ValueError("This is no fitted LOOBoundSearch: it has no bounds in results_.")
        rows = [(f"C = {C:g}", results["C"] == C) for C in np.unique(results["C"])]
        one = len(rows) == 1
        return cls(
            tuple(
                _path("bound" if one else name, results["gamma"][at], results["bound"][at])
                for name, at in rows
            )
        )

    @classmethod
    def from_records(
        cls, records: Records, *, method: str | None = None, dataset: str | None = None
    ) -> BoundPathDisplay:
        """Take the path of every fold of a study."""
        found = chosen(records, "path", method, dataset)
        return cls(
            tuple(
                _path(f"fold {i}", np.asarray(one["gamma"]), np.asarray(one["bound"]))
                for i, one in enumerate(found)
            )
        )

    def frame(self) -> Any:
        tables = [
            {"path": path.name, "gamma": path.gamma, "bound": path.bound} for path in self.paths
        ]
        return pandas().concat(map(pandas().DataFrame, tables), ignore_index=True)

    def _draw(self, ax: Any) -> None:
        many = len(self.paths) > len(CURVES)
        for i, path in enumerate(self.paths):
            style = {"color": BLUE, "alpha": 0.35} if many else {"color": CURVES[i]}
            ax.plot(path.gamma, path.bound, "o-", markersize=3, label=path.name, **style)
            best = int(np.argmin(path.bound))
            ax.plot(path.gamma[best], path.bound[best], "o", color=ORANGE, markersize=8, zorder=3,
                    markeredgecolor="white")  # fmt: skip
        ax.plot([], [], "o", color=ORANGE, label="least bound")
        ax.set_xscale("log")
        ax.set_ylim(bottom=0)
        open_sides(ax)
        if not many:
            legend(ax)
        mark(ax, "gamma", "leave-one-out bound", f"{len(self.paths)} folds" if many else "")


def _path(name: str, gamma: Array, bound: Array) -> Path:
    order = np.argsort(gamma, kind="stable")
    return Path(name, gamma[order].astype(float), bound[order].astype(float))
