"""The methods a study compares, by name: "code+decoder[+machine]", and a few words.

``"ovo+likelihood"`` is an :class:`~outcode.OutputCodeClassifier` with that code and decoder on
support vector machines, ``"bch+llw+ls"`` one on least-squares machines; any name in
``codes.CODES``, ``decoders.DECODERS`` and ``machines.MACHINES`` will do. The words are the keys of
:data:`METHODS`. Every method comes with its own choice of gamma (and C), made inside each training
fold; its title says how.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any

from sklearn.multiclass import OneVsRestClassifier
from sklearn.svm import SVC

from outcode import codes, decoders, machines
from outcode._checks import lookup
from outcode.app.study.searches import GammaSearchCV, MachineBoundSearch, powers
from outcode.classifier import SPOC, OutputCodeClassifier, SingleBinaryClassifier
from outcode.selection import KernelSearchCV, LOOBoundSearch


@dataclass(frozen=True, eq=False)
class Method:
    """A classifier with a name; what is fitted is a clone of ``estimator``."""

    name: str
    estimator: Any
    title: str = ""
    baseline: bool = False

    def description(self) -> dict[str, Any]:
        """Return the method's entry in a study's meta dict."""
        return {
            "name": self.name,
            "title": self.title,
            "baseline": self.baseline,
            "estimator": " ".join(self.estimator.__repr__(N_CHAR_MAX=2000).split()),
        }


@dataclass(frozen=True)
class Grid:
    """What is searched: ``factors`` of gamma and values of ``C`` by folds; gamma at ``C_bound`` by
    leave-one-out bound. ``fast``: a decoder that has no bound, or that is itself fitted on folds,
    takes the gamma that the bound chooses for its machines."""

    factors: tuple[float, ...]
    C: tuple[float, ...]
    folds: int = 3
    fast: bool = False
    C_bound: float = 10.0

    def words(self) -> str:
        """What is searched by folds, in words."""
        return f"gamma of {len(self.factors)}, {_values('C', self.C)}, by {self.folds} folds"


GRIDS = {
    "quick": Grid(powers(4, range(-1, 2)), (10.0,), fast=True),
    "standard": Grid(powers(4, range(-2, 3)), (1.0, 10.0, 100.0)),
    "full": Grid(powers(2, range(-5, 6)), (0.1, 1.0, 10.0, 100.0, 1000.0), folds=5),
}

#: Methods of each preset, best known first; those a data set does not allow are skipped there.
PRESETS = {
    "quick": (
        *("ova+hinge", "ovo+hinge", "ovo+likelihood", "dense+likelihood"),
        *("ova+drm", "spoc", "svc", "ovr-svc"),
    ),
    "standard": (
        *("ova+hinge", "ova+likelihood", "ova+llw", "ova+srm", "ova+drm"),
        *("ovo+hinge", "ovo+hamming", "ovo+likelihood", "ovo+coupling", "ovo+ddag"),
        *("dense+hinge", "dense+likelihood", "sparse+hinge", "bch+likelihood"),
        *("ova+hinge+ls", "dense+hinge+ls", "spoc", "svc", "ovr-svc"),
    ),
}
#: Codes learned from the data, in the full preset where they exist.
LEARNED = "decoc", "forest", "ecocone", "jecoc"


def methods(names: Iterable[str], grid: str = "standard") -> list[Method]:
    """Return the methods of these names; ``grid`` is how much is searched, as in the presets.

    >>> [method.title for method in methods(["ovo+likelihood"])]
    ['ovo code, likelihood decoder, svm; gamma of 11 by leave-one-out bound, C = 10']
    """
    chosen = lookup(GRIDS, grid, "grid")
    return [_method(name, chosen) for name in names]


def preset(name: str, n_rows: int, n_classes: int) -> list[Method]:
    """Return the methods of a preset, for data of this size.

    "quick" is eight methods on a small grid, "standard" about twenty, "full" every decoder on the
    common codes and every learned code. Beyond 5,000 rows less is searched.

    >>> [method.name for method in preset("quick", 150, 3) if method.baseline]
    ['svc', 'ovr-svc']
    """
    grid = lookup(GRIDS, name, "preset")
    if n_rows > 5000:
        grid = replace(grid, factors=powers(4, range(-1, 2)), C=grid.C[len(grid.C) // 2 :][:2])
    names = PRESETS[name] if name in PRESETS else _everything(n_classes)
    return [_method(each, grid) for each in names]


def baselines(grid: str = "standard") -> list[Method]:
    """Return the two methods a user knows from scikit-learn."""
    return methods(["svc", "ovr-svc"], grid)


def _everything(n_classes: int) -> list[str]:
    """Return the names of the full preset."""
    dense = ["exhaustive"] if n_classes <= 7 else ["dense", "bch"]
    fixed = ["ova", "ovo", *dense, "sparse"]
    pairs = {"coupling", "ddag"}
    crossed = [
        f"{code}+{decoder}"
        for code in fixed
        for decoder in decoders.DECODERS
        if code == "ovo" or decoder not in pairs
    ]
    learned = [f"{code}+hinge" for code in LEARNED if code in codes.CODES]
    others = [f"{code}+hinge+{machine}" for code in fixed for machine in _other_machines()]
    return [*crossed, *learned, *others, *METHODS]


def _other_machines() -> list[str]:
    return [name for name in machines.MACHINES if name != "svm"]


def _method(name: str, grid: Grid) -> Method:
    if name in METHODS:
        return METHODS[name](grid)
    parts = name.split("+")
    if len(parts) not in (2, 3):
        _unknown(name)
    code, decoder, machine = (*parts, "svm")[:3]
    lookup(codes.CODES, code, "code")
    lookup(decoders.DECODERS, decoder, "decoder")
    search, words = _search(_classifier(code, decoder, machine, grid), grid)
    return Method(name, search, f"{code} code, {decoder} decoder, {machine}; {words}")


def _unknown(name: str) -> None:
    """Say what a name may be."""
    if name in codes.CODES:
        raise ValueError(f"{name!r} names a code only: add a decoder, such as '{name}+hinge'.")
    if name in decoders.DECODERS:
        raise ValueError(
            f"{name!r} names a decoder only: put a code before it, as in 'ova+{name}'."
        )
    try:
        lookup(METHODS, name, "method")
    except ValueError as error:
        raise ValueError(
            f"{error} Or 'code+decoder' or 'code+decoder+machine', such as 'ovo+likelihood'."
        ) from None


def _classifier(code: str, decoder: str, machine: str, grid: Grid) -> OutputCodeClassifier:
    element = lookup(machines.MACHINES, machine, "machine")()
    if "C" in element.get_params():
        element.set_params(C=grid.C_bound)
    return OutputCodeClassifier(code, element, decoder)


def _search(clf: OutputCodeClassifier, grid: Grid) -> tuple[Any, str]:
    """Return the classifier within its search, and what is searched in words."""
    if not hasattr(clf.machine, "fit_gram"):
        return clf, "no parameter is searched"
    known_c = getattr(clf.machine, "C", None)
    at = "" if known_c is None else f", C = {known_c:g}"
    decoder, in_kernel = decoders.resolve(clf.decoder), _bias(clf) == "kernel"
    if grid.fast and in_kernel and (not decoder.monotone or hasattr(decoder, "folds")):
        return MachineBoundSearch(clf), f"gamma of 11 by leave-one-out bound of its machines{at}"
    if in_kernel and decoder.monotone:
        return LOOBoundSearch(clf), f"gamma of 11 by leave-one-out bound{at}"
    values = None if known_c is None else grid.C
    also = "" if values is None else f", {_values('C', values)},"
    return KernelSearchCV(clf, Cs=values, cv=grid.folds), f"gamma of 11{also} by {grid.folds} folds"


def _bias(clf: OutputCodeClassifier) -> str | None:
    """Return the bias of the machine, None if it has none: the bounds ask for "kernel"."""
    return getattr(clf.machine, "bias", None)


def _values(name: str, values: tuple[float, ...]) -> str:
    if len(values) == 1:
        return f"{name} = {values[0]:g}"
    return f"{name} of {', '.join(f'{value:g}' for value in values)}"


def _svc(grid: Grid) -> Method:
    search = GammaSearchCV(SVC(), factors=grid.factors, other={"C": grid.C}, cv=grid.folds)
    return Method("svc", search, f"scikit-learn SVC (one-vs-one); {grid.words()}", baseline=True)


def _ovr_svc(grid: Grid) -> Method:
    search = GammaSearchCV(
        OneVsRestClassifier(SVC()),
        "estimator__gamma",
        factors=grid.factors,
        other={"estimator__C": grid.C},
        cv=grid.folds,
    )
    title = f"scikit-learn OneVsRestClassifier(SVC); {grid.words()}"
    return Method("ovr-svc", search, title, baseline=True)


def _spoc(grid: Grid) -> Method:
    other = {"beta": tuple(1.0 / C for C in grid.C)}
    search = GammaSearchCV(SPOC(), factors=grid.factors, other=other, cv=grid.folds)
    return Method("spoc", search, f"SPOC, all classes in one machine; {grid.words()}, beta = 1/C")


def _sbc(grid: Grid) -> Method:
    clf = SingleBinaryClassifier()
    search = GammaSearchCV(clf, factors=grid.factors, other={"C": grid.C}, cv=grid.folds)
    return Method("sbc", search, f"single binary classifier; {grid.words()}")


METHODS: dict[str, Callable[[Grid], Method]] = {
    "spoc": _spoc,
    "sbc": _sbc,
    "svc": _svc,
    "ovr-svc": _ovr_svc,
}
