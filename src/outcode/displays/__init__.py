"""Pictures, each with its numbers: ``from_estimator`` or ``from_records``, ``frame``, ``plot``.

Names of classes and methods are drawn as they stand: "$x$" is no formula here.
"""

from outcode.displays.choices import BoundPathDisplay, CriticalDifferenceDisplay, Path
from outcode.displays.coding import BitErrorDisplay, CodeDisplay, ColumnDisplay
from outcode.displays.common import Display
from outcode.displays.quality import ConfusionDisplay, ReliabilityDisplay
from outcode.displays.relations import RelationDisplay

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
]
