"""How well a solver solved its problem: the one type that every solver's answer has."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


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
