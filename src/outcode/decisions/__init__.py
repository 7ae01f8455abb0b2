"""Decisions from probabilities: the cheapest class, and whether to answer at all."""

from __future__ import annotations

from outcode.decisions.costs import (
    COSTS,
    CostSensitive,
    class_weights,
    cost_matrix,
    expected_costs,
    fitted,
    mean_cost,
    predict,
)
from outcode.decisions.rejection import (
    TRIED,
    Abstaining,
    RiskCoverage,
    abstaining,
    curve,
    decided,
    fit_threshold,
    risk_coverage,
)

__all__ = [
    "COSTS",
    "TRIED",
    "Abstaining",
    "CostSensitive",
    "RiskCoverage",
    "abstaining",
    "class_weights",
    "cost_matrix",
    "curve",
    "decided",
    "expected_costs",
    "fit_threshold",
    "fitted",
    "mean_cost",
    "predict",
    "risk_coverage",
]
