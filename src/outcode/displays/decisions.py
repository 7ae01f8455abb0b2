"""What abstaining buys: error among the answered rows against their share."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from outcode import decisions
from outcode.displays.common import BLUE, GREY, Display, mark, open_sides, pandas
from outcode.words import percent


@dataclass
class RiskCoverageDisplay(Display):
    """Error among the rows that are answered, the most confident first.

    Parameters
    ----------
    curve : outcode.decisions.RiskCoverage
        Coverage, error and threshold of each point.

    Examples
    --------
    >>> import numpy as np
    >>> found = decisions.curve(np.array([0.9, 0.5]), np.array([False, True]))
    >>> RiskCoverageDisplay(found).frame()
       coverage  error  threshold
    0       0.5    0.0        0.9
    1       1.0    0.5        0.5
    """

    curve: decisions.RiskCoverage

    @classmethod
    def from_estimator(cls, clf: Any, X: Any, y: Any, *, by: Any = "margin") -> RiskCoverageDisplay:
        """Predict test rows; ``by`` is "margin", "probability" or a cost."""
        clf = getattr(clf, "best_estimator_", clf)
        return cls(decisions.risk_coverage(clf, X, y, by))

    def frame(self) -> Any:
        names = "coverage", "error", "threshold"
        return pandas().DataFrame({name: getattr(self.curve, name) for name in names})

    def _draw(self, ax: Any) -> None:
        coverage, error = self.curve.coverage, self.curve.error
        ax.axhline(error[-1], color=GREY, linewidth=1)
        ax.step(coverage, error, where="pre", color=BLUE)
        ax.set(xlim=(0, 1.01), ylim=(0, 1.15 * max(error.max(), 1e-3)))
        open_sides(ax)
        area, whole = percent(self.curve.area), percent(error[-1])
        mark(ax, "share of rows answered", "error among them",
             f"error of all rows {whole}, mean over the curve {area}")  # fmt: skip
