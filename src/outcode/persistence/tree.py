"""Elements in a model file: a class by its name, its parameters, what it has learned.

The file names a class, a parameter or an attribute only to have it looked up in a table of ours:
nothing is imported, called or set by a name that comes from a file.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from outcode._checks import Array
from outcode.saved import CLASSES, LARGEST, Kind, LeftOut, Optional, Place, Saved, set_attributes

#: Whether the value of a parameter is one it can have.
Check = Callable[[Any], bool]


def _attributes(element: Any) -> Mapping[str, Any]:
    return vars(element)


@dataclass(frozen=True)
class Element:
    """A class a file may name: its room, what it has learned, and how to take that out and in.

    For classes of other libraries; ours declare the same themselves (:class:`outcode.saved.Saved`).
    """

    kind: type[Any]
    room: str
    state: Mapping[str, Kind] = field(default_factory=dict)
    pack: Callable[[Any], Mapping[str, Any]] = _attributes
    unpack: Callable[[Any, dict[str, Any]], None] = set_attributes
    left_out: tuple[str, ...] = ()
    bare: bool = False

    @classmethod
    def of(cls, kind: type[Saved]) -> Element:
        """Return what a class of ours declares."""
        verbs = kind.packed, kind.unpack
        return cls(kind, kind.room, kind.saved, *verbs, kind.left_out, kind.bare)

    def parameters(self, element: Any) -> dict[str, Any]:
        """Return the parameters of an object."""
        return {} if self.bare else element.get_params(deep=False)

    def names(self) -> list[str]:
        """Return the names of the parameters."""
        return [] if self.bare else self.kind._get_param_names()

    def make(self, params: dict[str, Any]) -> Any:
        """Return a fresh object."""
        return object.__new__(self.kind) if self.bare else self.kind(**params)


@dataclass(frozen=True)
class Tree:
    """Writes and reads elements: those of other libraries in ``foreign``, and all of ours.

    ``checks`` says what parameters may be: the same name means the same everywhere.
    """

    foreign: Mapping[str, Element]
    checks: Mapping[str, Check]

    def find(self, name: str) -> Element | None:
        """Return the class of a name, None if there is none."""
        if name in self.foreign:
            return self.foreign[name]
        return Element.of(CLASSES[name]) if name in CLASSES else None

    def known(self, value: Any, place: Place) -> Element:
        """Return the entry of an object's very class, or refuse to write it."""
        element = self.find(type(value).__name__)
        if element is None or type(value) is not element.kind or not element.room:
            owner = type(getattr(value, "estimator", value)).__name__
            raise place.fault(
                f"{owner} cannot be written to a model file, which holds outcode's own machines, "
                f"codes and decoders only, and nothing that would have to be imported by name"
            )
        return element

    def write(self, value: Any, rooms: tuple[str, ...], place: Place) -> dict[str, Any]:
        value = getattr(value, "best_estimator_", value)  # a search is its best estimator
        element = self.known(value, place)
        written = self.write_parameters(value, element, place)
        learned = element.pack(value)
        needed = [n for n, kind in element.state.items() if not isinstance(kind, Optional)]
        missing = [name for name in needed if name not in learned]
        if missing:
            raise place.fault(f"{type(value).__name__} is not fitted: it has no {missing[0]}")
        state = {
            name: kind.write(learned.get(name), place.at(name))
            for name, kind in element.state.items()
        }
        return {**written, "state": state}

    def read(self, item: Any, rooms: tuple[str, ...], place: Place) -> Any:
        place = place.within()
        fields = place.fields(item, "class", "params", "state")
        element, built = self.build(fields["class"], fields["params"], rooms, place)
        state = place.fields(fields["state"], *element.state)
        values = {
            name: kind.read(state[name], place.at(name)) for name, kind in element.state.items()
        }
        try:
            element.unpack(built, values)
            set_attributes(built, {name: LeftOut(name) for name in element.left_out})
        except (ValueError, TypeError, IndexError, ArithmeticError) as fault:
            raise place.fault(f"its parts do not fit together ({fault})") from None
        return built

    def write_parameters(self, value: Any, element: Element, place: Place) -> dict[str, Any]:
        """Return the class and the parameters of an element."""
        params = {
            name: Parameter(self).write(one, place.at(name))
            for name, one in element.parameters(value).items()
        }
        return {"class": type(value).__name__, "params": params}

    def build(
        self, name: Any, params: Any, rooms: tuple[str, ...], place: Place
    ) -> tuple[Element, Any]:
        """Return the entry of a class and a fresh object of it with these parameters."""
        element = self.find(name) if isinstance(name, str) else None
        if element is None or element.room not in rooms:
            raise place.fault(f"{str(name)[:60]!r} is not a known {' or '.join(rooms)}")
        if not isinstance(params, dict):
            raise place.fault("its parameters are missing")
        given = {key: Parameter(self).read(one, place.at(key)) for key, one in params.items()}
        for key, one in given.items():
            if key not in element.names():
                raise place.fault(f"unknown parameter {key[:60]!r}")
            if key in self.checks and not self.checks[key](one):
                raise place.fault(f"the parameter {key} cannot be {str(one)[:60]!r}")
        return element, element.make(given)


@dataclass(frozen=True)
class Parameter:
    """The value of a parameter: plain values, lists and tables of them, arrays, elements."""

    tree: Tree

    def write(self, value: Any, place: Place) -> Any:
        if isinstance(value, np.generic):
            value = value.item()
        if value is None or isinstance(value, bool | int | str):
            return value
        for kinds, verb in _VERBS:
            if isinstance(value, kinds):
                return verb(self, value, place)
        element = self.tree.known(value, place)
        return {"element": self.tree.write_parameters(value, element, place)}

    def read(self, item: Any, place: Place) -> Any:
        if item is None or isinstance(item, bool | str | float):
            return item
        if isinstance(item, int):
            return _whole(item, place)
        if isinstance(item, dict) and set(item) == {"tensor", "order"}:
            return place.take(item)
        if not isinstance(item, dict) or len(item) != 1:
            raise place.fault("not a value a parameter can have")
        ((kind, inner),) = item.items()
        return self._read(kind, inner, place)

    def _read(self, kind: str, inner: Any, place: Place) -> Any:
        if kind == "number" and inner in ("inf", "-inf", "nan"):
            return float(inner)
        if kind == "dtype" and inner in ("float32", "float64"):
            return np.dtype(inner)
        if kind in ("list", "tuple", "map") and isinstance(inner, list):
            items = [self.read(one, place.at(str(i))) for i, one in enumerate(inner)]
            return _table(items, place) if kind == "map" else items if kind == "list" else (*items,)
        if kind == "element":
            fields = place.fields(inner, "class", "params")
            found = fields["class"], fields["params"], ELEMENT_ROOMS, place.within()
            return self.tree.build(*found)[1]
        raise place.fault("not a value a parameter can have")


def _write_float(kind: Parameter, value: float, place: Place) -> Any:
    return value if np.isfinite(value) else {"number": str(value)}


def _write_array(kind: Parameter, value: Array, place: Place) -> Any:
    if value.dtype.kind not in "biuf":
        raise place.fault(f"an array of type {value.dtype} cannot be written")
    return place.put(value.astype(np.float64 if value.dtype.kind == "f" else np.int64))


def _write_type(kind: Parameter, value: Any, place: Place) -> Any:
    return {"dtype": np.dtype(value).name}


def _write_list(kind: Parameter, value: Any, place: Place) -> Any:
    items = [kind.write(one, place.at(str(i))) for i, one in enumerate(value)]
    return {"tuple" if isinstance(value, tuple) else "list": items}


def _write_table(kind: Parameter, value: dict[Any, Any], place: Place) -> Any:
    return {"map": _write_list(kind, list(value.items()), place)["list"]}


def _write_nothing(kind: Parameter, value: Any, place: Place) -> None:
    """A source of random numbers was for fitting."""


_VERBS: list[tuple[Any, Callable[[Parameter, Any, Place], Any]]] = [
    (float, _write_float),
    (np.ndarray, _write_array),
    (np.dtype, _write_type),
    (list | tuple, _write_list),
    (dict, _write_table),
    (np.random.RandomState | np.random.Generator, _write_nothing),
]
#: What may be given as a parameter.
ELEMENT_ROOMS = ("code", "machine", "decoder")


def _whole(item: int, place: Place) -> int:
    if abs(item) > LARGEST:
        raise place.fault("a whole number too large")
    return item


def _table(pairs: list[Any], place: Place) -> dict[Any, Any]:
    try:
        return dict(pairs)
    except (ValueError, TypeError):
        raise place.fault("not a table of names and values") from None
