"""What a model file holds of an element, declared beside its fitted attributes.

A class that can be saved derives from :class:`Saved` and names its fitted attributes in ``saved``,
each with its kind: type, range, and shape in symbols (every array of an element that says
"n_classes" must mean the same number). A kind has two verbs, ``write(value, place)``, which returns
what goes into the JSON document and puts arrays beside it, and ``read(item, place)``, which trusts
nothing. :mod:`outcode.persistence` walks these declarations.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Protocol

import numpy as np
from scipy import sparse

from outcode import kernels
from outcode._checks import Array

#: Elements in elements, lists in lists.
DEPTH = 12
#: Largest whole number in a document.
LARGEST = 2**53
#: Most columns of a sparse matrix: a width takes no bytes of a file, so nothing else bounds it.
MOST_COLUMNS = 2**26


class ModelError(ValueError):
    """A model cannot be written to a file, or a file holds no model this version can read.

    Examples
    --------
    >>> from outcode import load
    >>> try:
    ...     load("no-such-file.oc")
    ... except ModelError as error:
    ...     print("no-such-file.oc" in str(error))
    True
    """


class Kind(Protocol):
    """How a value is written, and checked when it is read."""

    def write(self, value: Any, place: Place) -> Any: ...

    def read(self, item: Any, place: Place) -> Any: ...


class Elements(Protocol):
    """What writes and reads an element of one of some rooms, with what it has learned."""

    def write(self, value: Any, rooms: tuple[str, ...], place: Place) -> Any: ...

    def read(self, item: Any, rooms: tuple[str, ...], place: Place) -> Any: ...


@dataclass(frozen=True)
class Place:
    """Where in a model we are: the arrays, the way here, and who writes and reads elements."""

    tensors: dict[str, Array]
    elements: Elements
    path: tuple[str, ...] = ()
    sizes: dict[str, int] = field(default_factory=dict)

    def at(self, name: str) -> Place:
        """Return the place of an attribute, in the same sizes."""
        if len(self.path) >= DEPTH:
            raise self.fault("elements are nested too deeply")
        return replace(self, path=(*self.path, name))

    def within(self) -> Place:
        """Return the same place with sizes of its own, those known so far among them."""
        return replace(self, sizes=dict(self.sizes))

    def fault(self, why: str) -> ModelError:
        return ModelError(f"{'.'.join(self.path) or 'the model'}: {why}.")

    def put(self, array: Array) -> dict[str, Any]:
        """Keep an array; its order in memory is kept too, as products round by it."""
        name = ".".join(self.path)
        columns = array.ndim == 2 and array.flags.f_contiguous and not array.flags.c_contiguous
        self.tensors[name] = np.ascontiguousarray(array.T if columns else array)
        return {"tensor": name, "order": "F" if columns else "C"}

    def take(self, item: Any) -> Array:
        """Return an array, once: no array of a file is used twice."""
        fields = self.fields(item, "tensor", "order")
        name, order = fields["tensor"], fields["order"]
        if not isinstance(name, str) or name not in self.tensors:
            raise self.fault("its numbers are not in the file")
        array = self.tensors.pop(name)
        if order not in ("C", "F") or (order == "F" and array.ndim != 2):
            raise self.fault(f"unknown order {order!r}")
        return array.T if order == "F" else array

    def fields(self, item: Any, *names: str) -> dict[str, Any]:
        """Return a JSON object that has exactly these names."""
        if not isinstance(item, dict) or set(item) != set(names):
            raise self.fault(f"expected an object of {', '.join(names)}")
        return item

    def fit(self, shape: tuple[int, ...], symbols: tuple[str, ...]) -> None:
        """Hold a shape against its symbols; a symbol seen first is known from now on."""
        known = [self.sizes.get(symbol) for symbol in symbols]
        wrong = any(k is not None and k != n for k, n in zip(known, shape, strict=False))
        if len(shape) != len(symbols) or wrong:
            named = ", ".join(
                symbol if k is None else f"{symbol} = {k}"
                for symbol, k in zip(symbols, known, strict=True)
            )
            raise self.fault(f"shape {shape} where ({named}) is needed")
        self.sizes.update(zip(symbols, shape, strict=True))


@dataclass(frozen=True)
class Numbers:
    """An array of one type and shape, its values within ``low`` and ``high``."""

    shape: tuple[str, ...]
    dtype: Any = np.float64
    low: float = -np.inf
    high: float | str = np.inf

    def write(self, value: Any, place: Place) -> Any:
        if np.asarray(value).dtype != self.dtype:
            raise place.fault(f"numbers of type {np.asarray(value).dtype} cannot be written")
        return place.put(np.asarray(value))

    def read(self, item: Any, place: Place) -> Array:
        array = place.take(item)
        if array.dtype != self.dtype:
            raise place.fault(f"numbers of type {array.dtype} where {np.dtype(self.dtype)} is due")
        place.fit(array.shape, self.shape)
        high = place.sizes[self.high] - 1 if isinstance(self.high, str) else self.high
        if not np.all(np.isfinite(array)) or np.any(array < self.low) or np.any(array > high):
            raise place.fault(f"numbers that are not finite, or outside of [{self.low}, {high}]")
        return array


def reals(*shape: str, low: float = -np.inf, high: float = np.inf) -> Numbers:
    """Finite float64 numbers."""
    return Numbers(shape, np.float64, low, high)


def wholes(*shape: str, low: float = 0, high: float | str = np.inf) -> Numbers:
    """int64 numbers; ``high`` may be a size, which they stay below."""
    return Numbers(shape, np.int64, low, high)


def signs(*shape: str) -> Numbers:
    """-1, 0 and +1."""
    return Numbers(shape, np.int8, -1, 1)


def flags(*shape: str) -> Numbers:
    """0 and 1."""
    return Numbers(shape, np.uint8, 0, 1)


@dataclass(frozen=True)
class Number:
    """One finite real number within ``low`` and ``high``."""

    low: float = -np.inf
    high: float = np.inf

    def write(self, value: Any, place: Place) -> float:
        return float(value)

    def read(self, item: Any, place: Place) -> float:
        real = isinstance(item, float) or (type(item) is int and abs(item) <= LARGEST)
        if not real or not np.isfinite(item) or not self.low <= item <= self.high:
            raise place.fault(f"not a number within [{self.low}, {self.high}]")
        return float(item)


@dataclass(frozen=True)
class Whole:
    """One whole number within ``low`` and ``high``; under a symbol it is a size."""

    low: int = 0
    symbol: str | None = None
    high: int = LARGEST

    def write(self, value: Any, place: Place) -> int:
        return int(value)

    def read(self, item: Any, place: Place) -> int:
        if type(item) is not int or not self.low <= item <= self.high:
            raise place.fault(f"not a whole number within [{self.low}, {self.high}]")
        if self.symbol:
            place.fit((item,), (self.symbol,))
        return item


@dataclass(frozen=True)
class Word:
    """One of a few words."""

    words: tuple[str, ...]

    def write(self, value: Any, place: Place) -> str:
        return str(value)

    def read(self, item: Any, place: Place) -> str:
        if not isinstance(item, str) or item not in self.words:
            raise place.fault(f"not one of {', '.join(self.words)}")
        return item


@dataclass(frozen=True)
class Optional:
    """A value, or nothing."""

    kind: Kind

    def write(self, value: Any, place: Place) -> Any:
        return None if value is None else self.kind.write(value, place)

    def read(self, item: Any, place: Place) -> Any:
        return None if item is None else self.kind.read(item, place)


@dataclass(frozen=True)
class Strings:
    """An object array of text, as scikit-learn keeps the names of columns."""

    symbol: str

    def write(self, value: Any, place: Place) -> list[str]:
        return [str(text) for text in value]

    def read(self, item: Any, place: Place) -> Array:
        if not isinstance(item, list) or not all(isinstance(text, str) for text in item):
            raise place.fault("not a list of text")
        place.fit((len(item),), (self.symbol,))
        return np.array(item, dtype=object)


#: Types of labels other than text of fixed width.
LABELS = (
    "bool",
    "object",
    "float32",
    "float64",
    *(f"{u}int{n}" for u in ("", "u") for n in (8, 16, 32, 64)),
)
#: Widest text that pads shorter labels: characters.
WIDEST = 4096
#: Bytes of all labels in memory, where each takes as much as the widest.
LABEL_BYTES = 64 * 2**20


@dataclass(frozen=True)
class Labels:
    """The user's classes, sorted: text of any script, whole numbers, booleans, numbers."""

    symbol: str

    def write(self, value: Any, place: Place) -> dict[str, Any]:
        items = value.tolist()
        kinds = {type(item) for item in items}
        if not kinds <= {str, int, float, bool} or len(kinds) != 1:
            names = ", ".join(sorted(kind.__name__ for kind in kinds))
            raise place.fault(f"labels of type {names} cannot be written: use text or numbers")
        width = value.dtype.itemsize // 4 if value.dtype.kind == "U" else 0
        return {"dtype": "text" if width else value.dtype.name, "width": width, "values": items}

    def read(self, item: Any, place: Place) -> Array:
        fields = place.fields(item, "dtype", "width", "values")
        values = fields["values"]
        if not isinstance(values, list) or len(values) < 2 or len({type(v) for v in values}) != 1:
            raise place.fault("not a list of at least two labels of one type")
        if type(values[0]) not in (str, int, float, bool):
            raise place.fault("labels are neither text nor numbers")
        try:
            labels = np.array(values, dtype=_label_type(fields, values, place))
        except (TypeError, OverflowError):
            raise place.fault("labels are not of their type") from None
        if labels.tolist() != values or not np.all(labels[1:] > labels[:-1]):
            raise place.fault("labels are not of their type, or not sorted and distinct")
        place.fit(labels.shape, (self.symbol,))
        return labels


def _label_type(fields: dict[str, Any], values: list[Any], place: Place) -> str:
    kind, width = fields["dtype"], fields["width"]
    if kind == "text" and isinstance(values[0], str) and type(width) is int:
        if len(values) * width * np.dtype("<U1").itemsize > LABEL_BYTES:
            raise place.fault(
                f"{len(values):,} labels as wide as the longest, {width:,} characters, take more "
                f"than {LABEL_BYTES // 2**20} MiB: use shorter labels"
            )
        if max(1, *map(len, values)) <= width <= max(WIDEST, *map(len, values)):
            return f"<U{width}"
    elif kind in LABELS and width == 0:
        return str(kind)
    raise place.fault(f"labels of unknown type {kind!r}, width {width!r}")


@dataclass(frozen=True)
class KernelKind:
    """A kernel of rows with so many ``columns``; null stands for values given by the user."""

    columns: str = "n_features"

    def write(self, value: Any, place: Place) -> Any:
        if value.given:
            return None
        own = {"scales": [float(scale) for scale in value.scales]} if value.scales else {}
        if value.mixes:
            return {"mixture": str(value), **own} if own else str(value)
        names = [name for name, kind in kernels.KERNELS.items() if type(value) is kind]
        if not names:
            why = "a kernel that is a function cannot be written: use a named kernel, or "
            raise place.fault(why + "kernel='precomputed'")
        numbers = {key: float(getattr(value, key)) for key in ("gamma", "degree", "coef0")}
        return {"name": names[0], **numbers, **own}

    def read(self, item: Any, place: Place) -> Any:
        if item is None:
            return kernels.Precomputed()
        if isinstance(item, str):
            return _mixture(item, place)
        if isinstance(item, dict) and "mixture" in item:
            f = place.fields(item, "mixture", "scales")
            return replace(_mixture(f["mixture"], place), scales=self._scales(f["scales"], place))
        own = ("scales",) if isinstance(item, dict) and "scales" in item else ()
        fields = place.fields(item, "name", "gamma", "degree", "coef0", *own)
        name = Word(tuple(kernels.KERNELS)).read(fields["name"], place)
        gamma = Number(low=0.0).read(fields["gamma"], place)
        degree = Number().read(fields["degree"], place)
        coef0 = Number().read(fields["coef0"], place)
        whole = int(degree) if degree.is_integer() else degree
        scales = self._scales(fields["scales"], place) if own else ()
        return kernels.KERNELS[name](gamma, whole, coef0, scales)  # type: ignore[arg-type]  # as given

    def _scales(self, items: Any, place: Place) -> tuple[float, ...]:
        if not isinstance(items, list) or not items:
            raise place.fault("not a list of scales")
        place.fit((len(items),), (self.columns,))
        return tuple(Number(low=0.0).read(one, place) for one in items)


def _mixture(item: Any, place: Place) -> kernels.Mixture:
    try:
        return kernels.Mixture.parse(str(item))
    except ValueError as error:
        raise place.fault(str(error)) from None


@dataclass(frozen=True)
class Matrix:
    """Rows of features, dense or CSR."""

    rows: str
    columns: str

    def write(self, value: Any, place: Place) -> Any:
        if not sparse.issparse(value):
            return {"dense": reals(self.rows, self.columns).write(value, place.at("dense"))}
        csr = sparse.csr_matrix(value)
        parts = {"data": csr.data, "indices": csr.indices, "indptr": csr.indptr}
        written = {name: place.at(name).put(part) for name, part in parts.items()}
        return {**written, "columns": csr.shape[1]}

    def read(self, item: Any, place: Place) -> Any:
        if isinstance(item, dict) and set(item) == {"dense"}:
            return reals(self.rows, self.columns).read(item["dense"], place.at("dense"))
        fields = place.fields(item, "data", "indices", "indptr", "columns")
        width = Whole(1, self.columns, MOST_COLUMNS).read(fields["columns"], place)
        data, indices, indptr = (
            place.at(name).take(fields[name]) for name in ("data", "indices", "indptr")
        )
        if not _is_csr(data, indices, indptr, width):
            raise place.fault("not a sparse matrix in CSR form with finite numbers")
        place.fit((len(indptr) - 1,), (self.rows,))
        return sparse.csr_matrix((data, indices, indptr), shape=(len(indptr) - 1, width))


def _is_csr(data: Array, indices: Array, indptr: Array, width: int) -> bool:
    """Whether compiled code may walk these arrays without leaving them."""
    if data.dtype != np.float64 or any(part.ndim != 1 for part in (data, indices, indptr)):
        return False
    if indices.dtype != indptr.dtype or indices.dtype not in (np.int32, np.int64):
        return False
    if not len(indptr) or len(data) != len(indices) or not np.all(np.isfinite(data)):
        return False
    if indptr[0] != 0 or indptr[-1] != len(data) or np.any(indptr[1:] < indptr[:-1]):
        return False
    return bool(np.all((indices >= 0) & (indices < width)))


@dataclass(frozen=True)
class RowsKind:
    """Rows made ready for a kernel, or their places among the rows of a given kernel matrix.

    Their lengths are kept: a sum of squares may round again.
    """

    rows: str
    columns: str

    def write(self, value: Any, place: Place) -> Any:
        if np.ndim(value.values) == 1:
            return {"places": wholes(self.rows).write(value.values, place.at("places"))}
        values = Matrix(self.rows, self.columns).write(value.values, place.at("values"))
        return {"values": values, "norms": reals(self.rows).write(value.norms, place.at("norms"))}

    def read(self, item: Any, place: Place) -> kernels.Rows:
        if isinstance(item, dict) and set(item) == {"places"}:
            below: float | str = self.columns if self.columns in place.sizes else np.inf
            places = wholes(self.rows, high=below).read(item["places"], place.at("places"))
            return kernels.Rows(places, np.zeros(len(places)))
        fields = place.fields(item, "values", "norms")
        values = Matrix(self.rows, self.columns).read(fields["values"], place.at("values"))
        norms = reals(self.rows, low=0.0).read(fields["norms"], place.at("norms"))
        return kernels.Rows(values, norms)


# --- elements ---


@dataclass(frozen=True)
class Part:
    """An element of one of these rooms, with what it has learned."""

    rooms: tuple[str, ...]

    def write(self, value: Any, place: Place) -> Any:
        return place.elements.write(value, self.rooms, place)

    def read(self, item: Any, place: Place) -> Any:
        return place.elements.read(item, self.rooms, place)


@dataclass(frozen=True)
class Parts:
    """A few elements, one after the other; the sizes named in ``own`` differ between them."""

    room: str
    own: tuple[str, ...] = ()

    def write(self, value: Any, place: Place) -> list[Any]:
        part = Part((self.room,))
        return [part.write(one, place.at(str(i))) for i, one in enumerate(value)]

    def read(self, item: Any, place: Place) -> list[Any]:
        if not isinstance(item, list):
            raise place.fault("not a list of elements")
        shared = {name: size for name, size in place.sizes.items() if name not in self.own}
        place = replace(place, sizes=shared)
        return [Part((self.room,)).read(one, place.at(str(i))) for i, one in enumerate(item)]


#: Every class a file may name, by its name.
CLASSES: dict[str, type[Saved]] = {}


class Saved:
    """A class that a model file may hold.

    ``saved`` says what it has learned, ``left_out`` what others may ask for and a file does not
    keep, ``room`` what it is ("code", "machine", "decoder", "model", ...). ``bare`` classes have no
    parameters. A class is known to files by its name; a name that is taken stays as it is.
    """

    room: ClassVar[str] = ""
    saved: ClassVar[Mapping[str, Kind]] = {}
    left_out: ClassVar[tuple[str, ...]] = ()
    bare: ClassVar[bool] = False

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        if CLASSES.setdefault(cls.__name__, cls).__module__ == cls.__module__:
            CLASSES[cls.__name__] = cls  # defined once more, as when a module is reloaded

    def packed(self) -> Mapping[str, Any]:
        """Return the values to write, by the names in ``saved``."""
        return vars(self)

    def unpack(self, values: dict[str, Any]) -> None:
        """Take the values read; raise ValueError if they do not fit together."""
        set_attributes(self, values)


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


def set_attributes(element: Any, values: dict[str, Any]) -> None:
    """Give a fresh object what it has learned; what is None was not there."""
    for name, value in values.items():
        if value is not None:
            setattr(element, name, value)
