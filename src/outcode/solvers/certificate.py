"""How well a solver solved its problem: the one type that every solver's answer has."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from sklearn.exceptions import ConvergenceWarning

from outcode._checks import warn


@dataclass(frozen=True, kw_only=True)
class Certificate:
    """Objective, relative duality gap, largest violation of optimality, steps; of a column or all.

    None stands for what a machine does not tell.
    """

    objective: Any = None
    gap: Any = None
    violation: Any = None
    n_iter: Any = None
    converged: bool = True


def warn_early(certificate: Certificate, tol: float, who: str) -> None:
    """Warn if a solver stopped early, and say by how much."""
    if not certificate.converged:
        warn(
            f"{who} stopped early: the largest violation of the optimality conditions is "
            f"{certificate.violation:.2g} (tol={tol:g}), the relative duality gap "
            f"{certificate.gap:.2g}. Raise max_iter, ask for dtype='float64', or scale the "
            f"features.",
            ConvergenceWarning,
        )
