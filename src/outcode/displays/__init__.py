"""Pictures, each with its numbers: ``from_estimator`` or ``from_records``, ``frame``, ``plot``.

Names of classes and methods are drawn as they stand: "$x$" is no formula here.
"""

from outcode.displays.codes import BitErrorDisplay, CodeDisplay, ColumnDisplay
from outcode.displays.common import Display
from outcode.displays.comparison import BoundPathDisplay, CriticalDifferenceDisplay
from outcode.displays.decisions import RiskCoverageDisplay
from outcode.displays.predictions import ConfusionDisplay, ReliabilityDisplay
from outcode.displays.relations import RelationDisplay
from outcode.results import Path

__all__ = [
    "BitErrorDisplay",
    "BoundPathDisplay",
    "CodeDisplay",
    "ColumnDisplay",
    "ConfusionDisplay",
    "CriticalDifferenceDisplay",
    "Display",
    "Path",
    "RelationDisplay",
    "ReliabilityDisplay",
    "RiskCoverageDisplay",
]
