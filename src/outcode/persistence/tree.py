"""Elements in a model file: a class by its short name, its parameters, what it has learned.

The file names a class, a parameter or an attribute only to have it looked up in a table of ours:
nothing is imported, called or set by a name that comes from a file.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from outcode._checks import Array
from outcode.persistence.container import ModelError
from outcode.persistence.kinds import LARGEST, Kind, Optional, Place


def _attributes(element: Any) -> Mapping[str, Any]:
    return vars(element)


def set_attributes(element: Any, values: dict[str, Any]) -> None:
    """Give a fresh object what it has learned; what is None was not there."""
    for name, value in values.items():
        if value is not None:
            setattr(element, name, value)


@dataclass(frozen=True)
class LeftOut:
    """Stands for what a file does not keep, and says so to whoever wants its numbers."""

    name: str

    def _refuse(self, *_: Any, **__: Any) -> Any:
        raise ModelError(
            f"{self.name} is not known: this model was loaded from a file, which keeps only what "
            f"prediction needs. Do this with the fitted model, before it is saved."
        )

    __array__ = __len__ = __getitem__ = __iter__ = _refuse


@dataclass(frozen=True)
class Element:
    """A class a file may name: its room, what it has learned, and how to take that out and in.

    ``pack`` gives the values to write, ``unpack`` puts those read into a fresh object, and raises
    ValueError if they do not fit together. ``left_out`` names what others may ask for and a file
    does not keep. ``bare`` elements have no parameters to write.
    """

    kind: type[Any]
    room: str
    state: Mapping[str, Kind] = field(default_factory=dict)
    pack: Callable[[Any], Mapping[str, Any]] = _attributes
    unpack: Callable[[Any, dict[str, Any]], None] = set_attributes
    left_out: tuple[str, ...] = ()
    bare: bool = False

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
class Part:
    """An element of one of these rooms, with what it has learned."""

    rooms: tuple[str, ...]

    def write(self, value: Any, place: Place) -> dict[str, Any]:
        value = getattr(value, "best_estimator_", value)  # a search is its best estimator
        element = _known(value, place)
        written = _write_parameters(value, element, place)
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

    def read(self, item: Any, place: Place) -> Any:
        place = place.within()
        fields = place.fields(item, "class", "params", "state")
        element, built = _build(fields["class"], fields["params"], self.rooms, place)
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


@dataclass(frozen=True)
class Parts:
    """A few elements, one after the other."""

    room: str

    def write(self, value: Any, place: Place) -> list[Any]:
        part = Part((self.room,))
        return [part.write(one, place.at(str(i))) for i, one in enumerate(value)]

    def read(self, item: Any, place: Place) -> list[Any]:
        if not isinstance(item, list):
            raise place.fault("not a list of elements")
        return [Part((self.room,)).read(one, place.at(str(i))) for i, one in enumerate(item)]


@dataclass(frozen=True)
class Parameter:
    """The value of a parameter: plain values, lists and tables of them, arrays, elements."""

    def write(self, value: Any, place: Place) -> Any:
        if isinstance(value, np.generic):
            value = value.item()
        if value is None or isinstance(value, bool | int | str):
            return value
        for kinds, verb in _VERBS:
            if isinstance(value, kinds):
                return verb(value, place)
        return {"element": _write_parameters(value, _known(value, place), place)}

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
            return _build(fields["class"], fields["params"], ELEMENT_ROOMS, place.within())[1]
        raise place.fault("not a value a parameter can have")


def _write_float(value: float, place: Place) -> Any:
    return value if np.isfinite(value) else {"number": str(value)}


def _write_array(value: Array, place: Place) -> Any:
    if value.dtype.kind not in "biuf":
        raise place.fault(f"an array of type {value.dtype} cannot be written")
    return place.put(value.astype(np.float64 if value.dtype.kind == "f" else np.int64))


def _write_type(value: Any, place: Place) -> Any:
    return {"dtype": np.dtype(value).name}


def _write_list(value: Any, place: Place) -> Any:
    items = [Parameter().write(one, place.at(str(i))) for i, one in enumerate(value)]
    return {"tuple" if isinstance(value, tuple) else "list": items}


def _write_table(value: dict[Any, Any], place: Place) -> Any:
    return {"map": _write_list(list(value.items()), place)["list"]}


def _write_nothing(value: Any, place: Place) -> None:
    """A source of random numbers was for fitting."""


_VERBS: list[tuple[Any, Callable[[Any, Place], Any]]] = [
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


def _known(value: Any, place: Place) -> Element:
    """Return the entry of an object's very class, or refuse to write it."""
    element = place.table.get(type(value).__name__)
    if element is None or type(value) is not element.kind:
        owner = type(getattr(value, "estimator", value)).__name__
        raise place.fault(
            f"{owner} cannot be written to a model file, which holds outcode's own machines, codes "
            f"and decoders only, and nothing that would have to be imported by name"
        )
    return element


def _write_parameters(value: Any, element: Element, place: Place) -> dict[str, Any]:
    params = {
        name: Parameter().write(one, place.at(name))
        for name, one in element.parameters(value).items()
    }
    return {"class": type(value).__name__, "params": params}


def _build(name: Any, params: Any, rooms: tuple[str, ...], place: Place) -> tuple[Element, Any]:
    """Return the entry of a class and a fresh object of it with these parameters."""
    element = place.table.get(name) if isinstance(name, str) else None
    if element is None or element.room not in rooms:
        raise place.fault(f"{str(name)[:60]!r} is not a known {' or '.join(rooms)}")
    if not isinstance(params, dict):
        raise place.fault("its parameters are missing")
    given = {key: Parameter().read(one, place.at(key)) for key, one in params.items()}
    for key, one in given.items():
        if key not in element.names():
            raise place.fault(f"unknown parameter {key[:60]!r}")
        if key in place.checks and not place.checks[key](one):
            raise place.fault(f"the parameter {key} cannot be {str(one)[:60]!r}")
    return element, element.make(given)
