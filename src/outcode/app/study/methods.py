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

from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.multiclass import OneVsRestClassifier
from sklearn.svm import SVC

from outcode import codes, decoders, machines
from outcode._checks import lookup
from outcode.app.study.searches import GammaSearchCV, MachineBoundSearch, powers
from outcode.capabilities import MadeOfElements, TrainsOnGram, can
from outcode.classifier import SPOC, OutputCodeClassifier, SingleBinaryClassifier
from outcode.selection import LOOBoundSearch, OutputCodeClassifierCV


@dataclass(frozen=True, eq=False)
class Method:
    """A classifier with a name; what is fitted is a clone of ``estimator``.

    Parameters
    ----------
    name : str
        Name of the method in records and tables.
    estimator : estimator
        The classifier.
    title : str, default=""
        The method in words.
    baseline : bool, default=False
        Whether it is a method of scikit-learn to compare with.
    growth : float, default=2.0
        Its time grows about as this power of the rows.
    """

    name: str
    estimator: Any
    title: str = ""
    baseline: bool = False
    growth: float = 2.0

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
    """What is searched by cross-validation: ``factors`` of gamma and values of ``C``, on ``folds``.

    ``fast``: a decoder that is itself fitted on folds, or on neighbours, takes the gamma and C that
    are best for its machines under hinge decoding. ``bound``: gamma by leave-one-out bound instead
    of folds, at the middle C.
    """

    factors: tuple[float, ...]
    C: tuple[float, ...]
    folds: int = 3
    fast: bool = False
    bound: bool = False

    @property
    def middle(self) -> float:
        """The C where none is searched."""
        return self.C[len(self.C) // 2]

    def words(self, cost: bool = True) -> str:
        """What is searched by folds, in words."""
        also = f" and {_values('C', self.C)}" if cost else ""
        return f"gamma of {len(self.factors)}{also} by {self.folds} folds, more at the edge"


GRIDS = {
    "quick": Grid(powers(4, range(-1, 2)), (1.0, 10.0, 100.0), fast=True),
    "standard": Grid(powers(4, range(-2, 3)), (1.0, 10.0, 100.0)),
    "full": Grid(powers(2, range(-5, 6)), (0.1, 1.0, 10.0, 100.0, 1000.0), folds=5),
    "bound": Grid(powers(2, range(-5, 6)), (10.0,), bound=True),
}

#: The method that `outcode fit` trains unless told otherwise.
DEFAULT = "tuned"
#: What a user would take without this library; they join every study.
BASELINES = "svc", "ovr-svc", "random-forest", "hist-boosting"

#: Methods of each preset, best known first; those a data set does not allow are skipped there.
PRESETS = {
    "quick": (
        *("tuned", "ova+hinge", "ovo+hinge", "ovo+likelihood", "dense+likelihood"),
        *("ova+drm", "spoc", *BASELINES),
    ),
    "standard": (
        *("tuned", "ova+hinge", "ova+likelihood", "ova+llw", "ova+srm", "ova+drm"),
        *("ovo+hinge", "ovo+hamming", "ovo+likelihood", "ovo+coupling", "ovo+ddag"),
        *("dense+hinge", "dense+likelihood", "sparse+hinge", "bch+likelihood"),
        *("ova+hinge+ls", "dense+hinge+ls", "spoc", *BASELINES),
    ),
}
#: Trees of the random forest.
TREES = 500
#: Codes learned from the data, in the full preset where they exist.
LEARNED = "decoc", "forest", "ecocone", "jecoc"


def methods(names: Iterable[str], grid: str = "standard", n_rows: int = 0) -> list[Method]:
    """Return the methods of these names.

    Parameters
    ----------
    names : iterable of str
        Names such as "ovo+likelihood" (code, decoder and possibly machine) or a key of ``METHODS``.
    grid : {"quick", "standard", "full"}, default="standard"
        How much is searched, as in the presets.
    n_rows : int, default=0
        Number of rows of the data. Beyond 5,000 less is searched.

    Returns
    -------
    list of Method
        One method for each name.

    Examples
    --------
    >>> [method.title for method in methods(["ovo+likelihood"])]
    ['ovo code, likelihood decoder, svm; gamma of 5 and C of 1, 10, 100 by 3 folds, more at the \
edge']
    """
    chosen = _grid(grid, n_rows)
    return [_method(name, chosen) for name in names]


def _grid(name: str, n_rows: int) -> Grid:
    grid = lookup(GRIDS, name, "grid")
    if n_rows <= 5000:
        return grid
    return replace(grid, factors=powers(4, range(-1, 2)), C=grid.C[len(grid.C) // 2 :][:2])


def preset(name: str, n_rows: int, n_classes: int) -> list[Method]:
    """Return the methods of a preset, for data of this size.

    "quick" is eleven methods on a small grid, "standard" about twenty, "full" every decoder on the
    common codes and every learned code. Beyond 5,000 rows less is searched.

    Parameters
    ----------
    name : {"quick", "standard", "full"}
        Name of the preset.
    n_rows : int
        Number of rows of the data.
    n_classes : int
        Number of classes of the data.

    Returns
    -------
    list of Method
        The methods.

    Examples
    --------
    >>> [method.name for method in preset("quick", 150, 3) if method.baseline]
    ['svc', 'ovr-svc', 'random-forest', 'hist-boosting']
    """
    lookup(GRIDS, name, "preset")
    return methods(PRESETS.get(name) or _everything(n_classes), name, n_rows)


def baselines(grid: str = "standard") -> list[Method]:
    """Return the baseline methods of scikit-learn.

    Parameters
    ----------
    grid : {"quick", "standard", "full"}, default="standard"
        How much is searched, as in the presets.

    Returns
    -------
    list of Method
        The methods.

    Examples
    --------
    >>> [method.name for method in baselines()]
    ['svc', 'ovr-svc', 'random-forest', 'hist-boosting']
    """
    return methods(BASELINES, grid)


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
    return [name for name in machines.MACHINES if name not in ("svm", *METHODS)]


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
        element.set_params(C=grid.middle)
    return OutputCodeClassifier(code, element, decoder)


def _search(clf: OutputCodeClassifier, grid: Grid) -> tuple[Any, str]:
    """Return the classifier within its search, and what is searched in words."""
    if not can(clf.machine, TrainsOnGram):
        return _refitting_search(clf, grid)
    costly = "C" in clf.machine.get_params()
    if grid.bound and getattr(clf.machine, "bias", None) == "kernel":
        at = f", C = {grid.middle:g}" if costly else ""
        if decoders.resolve(clf.decoder).monotone:
            return LOOBoundSearch(clf), f"gamma of 11 by leave-one-out bound{at}"
        return MachineBoundSearch(clf), f"gamma of 11 by leave-one-out bound of its machines{at}"
    decoder = decoders.resolve(clf.decoder)
    proxy = grid.fast and (not decoder.monotone or "folds" in decoder.get_params())
    search = GammaSearchCV(
        clf,
        "machine__gamma",
        "machine__C" if costly else None,
        factors=grid.factors,
        costs=grid.C,
        cv=grid.folds,
        shared=True,
        searched={"decoder": "hinge"} if proxy else None,
    )
    return search, grid.words(costly) + (", under hinge decoding" if proxy else "")


def _refitting_search(clf: OutputCodeClassifier, grid: Grid) -> tuple[Any, str]:
    """Return a search that fits again for every setting, for machines without a Gram matrix."""
    if "machine__gamma" not in clf.get_params():
        return clf, "no parameter is searched"
    given: dict[str, Any] = {"factors": grid.factors, "costs": grid.C, "cv": grid.folds}
    return GammaSearchCV(clf, "machine__gamma", "machine__C", **given), grid.words()


def _by_folds(clf: Any, grid: Grid, gamma: str = "gamma", cost: str = "C") -> GammaSearchCV:
    shared = can(clf, MadeOfElements)
    return GammaSearchCV(
        clf, gamma, cost, factors=grid.factors, costs=grid.C, cv=grid.folds, shared=shared
    )


def _shared(clf: Any, grid: Grid) -> GammaSearchCV:
    """Return the search of a classifier that learns all classes at once, without probabilities."""
    given: dict[str, Any] = {"factors": grid.factors, "costs": grid.C, "cv": grid.folds}
    return GammaSearchCV(clf, shared=True, searched={"folds": None}, **given)


def _values(name: str, values: tuple[float, ...]) -> str:
    if len(values) == 1:
        return f"{name} = {values[0]:g}"
    return f"{name} of {', '.join(f'{value:g}' for value in values)}"


def _svc(grid: Grid) -> Method:
    title = f"scikit-learn SVC (one-vs-one); {grid.words()}"
    return Method("svc", _by_folds(SVC(), grid), title, baseline=True)


def _ovr_svc(grid: Grid) -> Method:
    search = _by_folds(OneVsRestClassifier(SVC()), grid, "estimator__gamma", "estimator__C")
    title = f"scikit-learn OneVsRestClassifier(SVC); {grid.words()}"
    return Method("ovr-svc", search, title, baseline=True)


def _forest(grid: Grid) -> Method:
    clf = RandomForestClassifier(n_estimators=TREES)
    title = f"scikit-learn RandomForestClassifier, {TREES} trees; no parameter is searched"
    return Method("random-forest", clf, title, baseline=True, growth=1.0)


def _boosting(grid: Grid) -> Method:
    title = "scikit-learn HistGradientBoostingClassifier; no parameter is searched"
    clf = HistGradientBoostingClassifier()
    return Method("hist-boosting", clf, title, baseline=True, growth=1.0)


def _tuned(grid: Grid) -> Method:
    title = "the tuned classifier: kernel, width, C, code and machine by held-out rows"
    return Method("tuned", OutputCodeClassifierCV(), title)


def on_landmarks(n_landmarks: int = 1000, n_classes: int = 0) -> Method:
    """Return the method that trains a landmark machine on files larger than memory.

    Parameters
    ----------
    n_landmarks : int, default=1000
        Number of landmarks.
    n_classes : int, default=0
        Number of classes of the data, which decides the code.

    Returns
    -------
    Method
        The method "landmarks".

    Examples
    --------
    >>> on_landmarks(500).title
    'ova code, likelihood decoder, 500 landmarks; gamma and C on a sample'
    """
    machine = machines.MACHINES["nystrom"](n_landmarks, gamma="loo", C="cv")
    code = "ova" if n_classes <= 200 else "similar"
    title = f"{code} code, likelihood decoder, {n_landmarks:,} landmarks; gamma and C on a sample"
    clf = OutputCodeClassifier(code, machine, "likelihood")
    return Method("landmarks", clf, title, growth=1.0)


def _landmarks(grid: Grid) -> Method:
    return on_landmarks()


def _spoc(grid: Grid) -> Method:
    title = f"SPOC, all classes in one machine; {grid.words()}, beta = 1/C"
    return Method("spoc", _shared(SPOC(), grid), title)


def _sbc(grid: Grid) -> Method:
    return Method(
        "sbc",
        _shared(SingleBinaryClassifier(), grid),
        f"single binary classifier; {grid.words()}",
    )


#: Methods that are no combination of code, decoder and machine.
METHODS: dict[str, Callable[[Grid], Method]] = {
    "tuned": _tuned,
    "landmarks": _landmarks,
    "spoc": _spoc,
    "sbc": _sbc,
    "svc": _svc,
    "ovr-svc": _ovr_svc,
    "random-forest": _forest,
    "hist-boosting": _boosting,
}
