"""outcode: learn many classes with binary machines on one shared kernel matrix."""

from outcode import (
    codes,
    datasets,
    decoders,
    design,
    dichotomies,
    kernels,
    loo,
    losses,
    machines,
    selection,
    statistics,
    theory,
)
from outcode.classifier import OutputCodeClassifier
from outcode.dichotomies import diagnose
from outcode.sbc import SingleBinaryClassifier
from outcode.spoc import SPOC

__version__ = "0.1.0"

__all__ = [
    "SPOC",
    "OutputCodeClassifier",
    "SingleBinaryClassifier",
    "codes",
    "datasets",
    "decoders",
    "design",
    "diagnose",
    "dichotomies",
    "kernels",
    "loo",
    "losses",
    "machines",
    "selection",
    "statistics",
    "theory",
]
