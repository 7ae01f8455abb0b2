"""outcode: learn many classes with binary machines on one shared kernel matrix."""

from outcode import codes, decoders, dichotomies, kernels, loo, losses, machines, selection
from outcode.classifier import OutputCodeClassifier
from outcode.dichotomies import diagnose

__version__ = "0.1.0"

__all__ = [
    "OutputCodeClassifier",
    "codes",
    "decoders",
    "diagnose",
    "dichotomies",
    "kernels",
    "loo",
    "losses",
    "machines",
    "selection",
]
