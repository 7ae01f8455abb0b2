"""Seconds that trials of least squares and the final training will take, going by those before."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from outcode._checks import Array
from outcode.selection.landscape import Trial

#: Beyond this many rows the final machine is a support vector machine; where time is short it is
#: least squares on landmarks: one for each column, but from 100 to 500, to 2,000.
LEAST_SQUARES_ROWS, FEWEST, LANDMARKS = 8000, (100, 500), 2000


@dataclass(frozen=True)
class Costs:
    """A factorisation of n rows costs n^3, each of S columns 6 n^2; scores cost n times a constant.

    ``solving``: seconds of one of these operations, ``scoring``: seconds of scores for each row,
    both the slowest yet; ``columns``: S. Landmarks cost 4 n m (m + S).
    """

    solving: float
    scoring: float
    columns: int

    @classmethod
    def of(cls, trials: Sequence[Trial], columns: int) -> Costs:
        """Return the costs that the trials of least squares show."""
        unit, own = cls(1.0, 0.0, columns), [t for t in trials if t.machine == "ls"]
        solving = max(float(t.solving / unit.trial(t.n_rows)) for t in own)
        return cls(solving, max((t.seconds - t.solving) / t.n_rows for t in own), columns)

    def trial(self, n: int | Array) -> float | Array:
        """Return the seconds of a trial on n rows."""
        return self.solving * (n**3 + 6.0 * n**2 * self.columns) + self.scoring * n

    def landmarks(self, n: int, m: int | Array) -> float | Array:
        """Return the seconds of training least squares on m landmarks."""
        return 4.0 * self.solving * n * m * (m + self.columns)

    def training(self, n: int) -> float:
        """Return the seconds of the final training that is least expensive, of those wanted."""
        if n > LEAST_SQUARES_ROWS:
            return float(self.landmarks(n, self.fewest))
        return float(min(self.trial(n), self.landmarks(n, LANDMARKS)))

    @property
    def fewest(self) -> int:
        """The number of landmarks that are used even where there is no time for them."""
        return int(np.clip(self.columns, *FEWEST))

    def rows(self, fewest: int, most: int, trials: int, seconds: float) -> int:
        """Return the number of rows, between two, on which so many trials take so many seconds."""
        sizes = np.arange(fewest, max(fewest, most) + 1)
        return int(fewest + np.count_nonzero(trials * self.trial(sizes[1:]) <= seconds))

    def most_landmarks(self, n: int, seconds: float) -> int:
        """Return the number of landmarks that there is time for."""
        numbers = np.arange(self.fewest + 1, LANDMARKS + 1)
        return self.fewest + int(np.count_nonzero(self.landmarks(n, numbers) <= seconds))
