"""outcode: learn many classes with binary machines on one shared kernel matrix.

Names are imported when first used, so that ``outcode --help`` answers at once.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from outcode._version import __version__ as __version__

if TYPE_CHECKING:
    from outcode import (
        codes,
        conformal,
        datasets,
        decisions,
        decoders,
        design,
        dichotomies,
        displays,
        explain,
        export,
        kernels,
        loo,
        losses,
        machines,
        metrics,
        persistence,
        selection,
        statistics,
        theory,
    )
    from outcode.app import papers, report, study
    from outcode.classifier import SPOC, OutputCodeClassifier, SingleBinaryClassifier
    from outcode.dichotomies import diagnose
    from outcode.persistence import load, save
    from outcode.selection import OutputCodeClassifierCV


#: Where each public object lives; every other public name is a room.
_HOMES = {
    "OutputCodeClassifier": "classifier",
    "OutputCodeClassifierCV": "selection",
    "SPOC": "classifier",
    "SingleBinaryClassifier": "classifier",
    "diagnose": "dichotomies",
    "load": "persistence",
    "save": "persistence",
}

#: Public modules of the application.
_IN_APP = ("papers", "report", "study")

__all__ = [
    "SPOC",
    "OutputCodeClassifier",
    "OutputCodeClassifierCV",
    "SingleBinaryClassifier",
    "codes",
    "conformal",
    "datasets",
    "decisions",
    "decoders",
    "design",
    "diagnose",
    "dichotomies",
    "displays",
    "explain",
    "export",
    "kernels",
    "load",
    "loo",
    "losses",
    "machines",
    "metrics",
    "papers",
    "persistence",
    "report",
    "save",
    "selection",
    "statistics",
    "study",
    "theory",
]


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(import_module(f"outcode.{_HOMES[name]}"), name)
    if name in _IN_APP:
        return import_module(f"outcode.app.{name}")
    if name in __all__:
        return import_module(f"outcode.{name}")
    raise AttributeError(f"module 'outcode' has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
