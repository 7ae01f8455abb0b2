"""outcode: learn many classes with binary machines on one shared kernel matrix."""

from outcode import (
    codes,
    datasets,
    decoders,
    dichotomies,
    kernels,
    loo,
    losses,
    machines,
    selection,
    statistics,
)
from outcode.classifier import OutputCodeClassifier
from outcode.dichotomies import diagnose

__version__ = "0.1.0"

__all__ = [
    "OutputCodeClassifier",
    "codes",
    "datasets",
    "decoders",
    "diagnose",
    "dichotomies",
    "kernels",
    "loo",
    "losses",
    "machines",
    "selection",
    "statistics",
]
