"""How one column of a table becomes numbers, as plain values: what a model file holds of it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from outcode._checks import Array
from outcode.datasets import scales

DAY = 86_400
_CIRCLES = {"month": 12.0, "weekday": 7.0, "hour": 24.0}


def date_parts(days: Array) -> dict[str, Array]:
    """Return what dates (in days since 1970-01-01, a Thursday) may tell, as numbers.

    Examples
    --------
    >>> parts = date_parts(np.array([0.25]))
    >>> parts["year"], parts["day"], parts["weekday cos"].round(3)
    (array([1970.]), array([1.]), array([-0.901]))
    """
    moments = np.floor(days * DAY).astype("datetime64[s]")
    months = moments.astype("datetime64[M]")
    whole = moments.astype("datetime64[D]")
    counted = {
        "month": months.astype(int) % 12,
        "weekday": (np.floor(days) + 3) % 7,  # Monday is 0
        "hour": (days - np.floor(days)) * 24,
    }
    parts = {
        "elapsed": days,
        "year": moments.astype("datetime64[Y]").astype(float) + 1970,
        "day": (whole - months).astype(float) + 1,
    }
    for name, period in _CIRCLES.items():
        angle = 2 * np.pi * counted[name] / period
        parts |= {f"{name} sin": np.sin(angle), f"{name} cos": np.cos(angle)}
    return parts


@dataclass(frozen=True)
class EncodedColumn:
    """The encoding of one column, as plain values that can be written to a file.

    Parameters
    ----------
    name : str
        Name of the column.
    kind : {"numeric", "nominal", "date", "text"}
        Kind of the column.
    fill : float or str, default=0.0
        The training rows' median (a date in days), or most frequent value, for a missing cell.
    indicator : bool, default=False
        Whether a column of 0 and 1 marks the cells that are missing.
    values : tuple of str, default=()
        Of a nominal column, the values with a column of 0 and 1 of their own. Of a date, the parts
        that vary (year, month, ...).
    shift : tuple of float, default=()
        A number x becomes (x - shift) / scale, one pair for each number.
    scale : tuple of float, default=()
        The divisor that belongs to each shift.
    knots : tuple of float, default=()
        Where a heavy-tailed number is bent, see :mod:`outcode.datasets.scales`.
    topics : int, default=0
        How many numbers the words of a text, or the letters of a name, become.
    marks : str, default=""
        Decimal and thousands mark of the numbers in the file it was fitted on.
    """

    name: str
    kind: str
    fill: float | str = 0.0
    indicator: bool = False
    values: tuple[str, ...] = ()
    shift: tuple[float, ...] = ()
    scale: tuple[float, ...] = ()
    knots: tuple[float, ...] = ()
    topics: int = 0
    marks: str = ""

    @property
    def consistent(self) -> bool:
        """Whether it has the numbers its kind needs."""
        bent = len(self.knots) in (0, 2, scales.KNOTS) and sorted(self.knots) == list(self.knots)
        if len(self.shift) != len(self.scale) or not all(self.scale) or not bent:
            return False
        parts = len(self.values) if self.kind == "date" else 0
        known = set(self.values) <= set(date_parts(np.zeros(1))) if parts else True
        most = 1 if self.kind == "numeric" else parts
        return len(self.scale) <= most and known and (not parts or len(self.scale) == parts)

    @property
    def n_outputs(self) -> int:
        """How many columns it becomes; no name is made."""
        own = self.scale if self.kind == "numeric" else self.values
        return len(own) + self.topics + self.indicator

    @property
    def outputs(self) -> list[str]:
        """Names of the columns it becomes."""
        if self.kind == "numeric":
            own = [self.name] * len(self.scale)
        elif self.kind == "date":
            own = [f"{self.name}.{part}" for part in self.values]
        else:
            own = [f"{self.name}={value}" for value in self.values]
        own += [f"{self.name}~{i + 1}" for i in range(self.topics)]
        return own + [f"{self.name}=missing"] * self.indicator

    @property
    def words(self) -> str:
        """What it becomes, in words."""
        bent = {0: "", 2: ", with logarithmic tails"}.get(
            len(self.knots), ", transformed to quantiles"
        )
        own = {
            "numeric": f"a number{bent}, scaled" if self.scale else "",
            "date": f"a date: {', '.join(self.values)}" if self.values else "",
            "nominal": f"{len(self.values)} values as 0 or 1" if self.values else "",
            "text": "",
        }[self.kind]
        letters = "words" if self.kind == "text" else "letters"
        topics = f"{self.topics} numbers from its {letters}" if self.topics else ""
        fill = f"{self.fill:.6g}" if isinstance(self.fill, float) else self.fill[:40]
        fill = f"{np.datetime64(round(float(self.fill)), 'D')}" if self.kind == "date" else fill
        missing = f"missing values become {fill}" if self.kind != "text" else ""
        missing += (
            (", with an indicator" if missing else "an indicator of missing values")
            if self.indicator
            else ""
        )
        return "; ".join(filter(None, (own, topics, missing)))
