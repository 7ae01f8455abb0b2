"""Formulas: the operations that code on arrays does, recorded for other runtimes.

A :class:`Symbol` stands for an array of rows whose number is not known. Functions written with
NumPy's elementwise functions, products with known matrices and sums over the last axis run on it
as on an array, and return a symbol that knows how it was computed. So the formula of a kernel or a
decoder is its own code, and a new one is exported without a line more. What has no formula (a
loop until convergence, a question about the values) raises :class:`FormulaError`.

The vocabulary is the table ``OPERATORS``, one line each for ONNX, NumPy and C, and a few operators
on whole rows: ``matmul``, ``sum``, ``max``, ``argmax``, ``take``, ``reshape``, ``join`` and
``city_block``. Truth values are the numbers 0 and 1.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.spatial.distance import cdist

from outcode._checks import Array

#: Elementwise operators: the one of ONNX, and expressions of NumPy and of C.
OPERATORS: dict[str, tuple[str, str, str]] = {
    "add": ("Add", "{} + {}", "{} + {}"),
    "subtract": ("Sub", "{} - {}", "{} - {}"),
    "multiply": ("Mul", "{} * {}", "{} * {}"),
    "divide": ("Div", "{} / {}", "{} / {}"),
    "power": ("Pow", "{} ** {}", "pow({}, {})"),
    "maximum": ("Max", "np.maximum({}, {})", "fmax({}, {})"),
    "minimum": ("Min", "np.minimum({}, {})", "fmin({}, {})"),
    "negative": ("Neg", "-{}", "-{}"),
    "absolute": ("Abs", "np.abs({})", "fabs({})"),
    "exp": ("Exp", "np.exp({})", "exp({})"),
    "log": ("Log", "np.log({})", "log({})"),
    "sqrt": ("Sqrt", "np.sqrt({})", "sqrt({})"),
    "tanh": ("Tanh", "np.tanh({})", "tanh({})"),
    "sign": ("Sign", "np.sign({})", "(double)(({0} > 0) - ({0} < 0))"),
    "rint": ("Round", "np.rint({})", "rint({})"),
    "greater": ("Greater", "1.0 * ({} > {})", "(double)({} > {})"),
    "greater_equal": ("GreaterOrEqual", "1.0 * ({} >= {})", "(double)({} >= {})"),
    "less": ("Less", "1.0 * ({} < {})", "(double)({} < {})"),
    "less_equal": ("LessOrEqual", "1.0 * ({} <= {})", "(double)({} <= {})"),
    "equal": ("Equal", "1.0 * ({} == {})", "(double)({} == {})"),
    "where": ("Where", "np.where({} > 0, {}, {})", "({} > 0 ? {} : {})"),
}
#: Operators whose answer is true or false.
COMPARISONS = ("greater", "greater_equal", "less", "less_equal", "equal")


class FormulaError(ValueError):
    """Something cannot be written as a formula of fixed length."""


class Symbol:
    """An array of rows in a formula: ``shape`` is that of one row.

    Examples
    --------
    >>> f = symbol(3)
    >>> loss = np.maximum(0.0, 1.0 - f)
    >>> loss.name, loss.shape, (loss @ np.ones((3, 5))).shape
    ('maximum', (3,), (5,))
    """

    __array_priority__ = 1000.0

    def __init__(self, name: str, parts: Sequence[Any], shape: tuple[int, ...]) -> None:
        self.name, self.parts, self.shape = name, tuple(parts), shape

    @property
    def ndim(self) -> int:
        """How many axes the array has, the rows among them."""
        return len(self.shape) + 1

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **options: Any) -> Symbol:
        options.pop("out", None)  # a symbol is never written over
        options.pop("casting", None)
        if method != "__call__" or options:
            raise FormulaError(f"{ufunc.__name__}.{method} has no formula")
        return elementwise(ufunc.__name__, *inputs)

    def __array_function__(self, function: Any, types: Any, args: Any, kwargs: Any) -> Any:
        known: dict[str, Any] = {
            "where": where, "hstack": hstack, "clip": Symbol.clip, "argmax": Symbol.argmax,
            "round": Symbol.round,
        }  # fmt: skip
        if function.__name__ not in known:
            raise FormulaError(f"numpy.{function.__name__} has no formula")
        return known[function.__name__](*args, **kwargs)

    def __add__(self, other: Any) -> Symbol:
        return elementwise("add", self, other)

    def __radd__(self, other: Any) -> Symbol:
        return elementwise("add", other, self)

    def __sub__(self, other: Any) -> Symbol:
        return elementwise("subtract", self, other)

    def __rsub__(self, other: Any) -> Symbol:
        return elementwise("subtract", other, self)

    def __mul__(self, other: Any) -> Symbol:
        return elementwise("multiply", self, other)

    __rmul__ = __mul__

    def __truediv__(self, other: Any) -> Symbol:
        return elementwise("divide", self, other)

    def __rtruediv__(self, other: Any) -> Symbol:
        return elementwise("divide", other, self)

    def __pow__(self, other: Any) -> Symbol:
        return elementwise("power", self, other)

    def __neg__(self) -> Symbol:
        return elementwise("negative", self)

    def __abs__(self) -> Symbol:
        return elementwise("absolute", self)

    def __invert__(self) -> Symbol:
        return 1.0 - self

    def __lt__(self, other: Any) -> Symbol:
        return elementwise("less", self, other)

    def __le__(self, other: Any) -> Symbol:
        return elementwise("less_equal", self, other)

    def __gt__(self, other: Any) -> Symbol:
        return elementwise("greater", self, other)

    def __ge__(self, other: Any) -> Symbol:
        return elementwise("greater_equal", self, other)

    def __matmul__(self, matrix: Any) -> Symbol:
        matrix = dense(matrix)
        if not self.shape or matrix.ndim != 2 or len(matrix) != self.shape[-1]:
            raise FormulaError(f"rows of shape {self.shape} have no product with {matrix.shape}")
        if (scaled := _scaled(self)) is not None:
            return scaled[0] @ (matrix * scaled[1])
        return Symbol("matmul", (self, constant(matrix)), (*self.shape[:-1], matrix.shape[1]))

    def __getitem__(self, key: Any) -> Symbol:
        """Return new axes for None, and some entries of the last axis for an array of places."""
        keys = key if isinstance(key, tuple) else (key,)
        if not isinstance(keys[0], slice) or keys[0] != slice(None):
            raise FormulaError("a formula cannot select some of the rows")
        found, shape, left = self, [], list(self.shape)
        for part in keys[1:]:
            if part is None:
                shape.append(1)
            elif isinstance(part, slice) and part == slice(None):
                shape.append(left.pop(0))
            elif len(left) == 1:
                found = found.take(np.atleast_1d(np.arange(left.pop())[part]))
                shape += [] if isinstance(part, int) else [found.shape[-1]]
            else:
                raise FormulaError(f"the index {key!r} has no formula")
        return found.reshape(-1, *shape, *left)

    def __len__(self) -> int:
        raise FormulaError("it asks for the number of rows")

    def __bool__(self) -> bool:
        raise FormulaError("it asks for values before they are known")

    def __iter__(self) -> Iterator[Any]:
        raise FormulaError("it goes through the rows one by one")

    def __array__(self, *dtype: Any, **copy: Any) -> Any:
        raise FormulaError("it turns rows into an array before they are known")

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        raise FormulaError(f"{name} of an array has no formula")

    def reshape(self, *shape: int) -> Symbol:
        """Return rows of another shape; the first number, -1, stands for the rows."""
        return self if shape[1:] == self.shape else Symbol("reshape", (self,), shape[1:])

    def take(self, places: Any) -> Symbol:
        """Return some entries of the last axis."""
        places = np.asarray(places)
        return Symbol("take", (self, constant(places)), (*self.shape[:-1], len(places)))

    def sum(self, axis: int = -1, keepdims: bool = False) -> Symbol:
        return self._reduced("sum", axis, keepdims)

    def max(self, axis: int = -1, keepdims: bool = False) -> Symbol:
        return self._reduced("max", axis, keepdims)

    def argmax(self, axis: int = -1) -> Symbol:
        return self._reduced("argmax", axis, False)

    def clip(self, low: float, high: float) -> Symbol:
        return elementwise("minimum", elementwise("maximum", self, low), high)

    def round(self, decimals: int = 0) -> Symbol:
        size = 10.0**decimals
        return elementwise("rint", self * size) / size

    def city_block(self, rows: Any) -> Symbol:
        """Return sum_j |x_j - z_j| to each of the known rows z."""
        rows = dense(rows)
        return Symbol("city_block", (self, constant(rows)), (len(rows),))

    def _reduced(self, name: str, axis: int, keepdims: bool) -> Symbol:
        if axis not in (-1, len(self.shape)) or not self.shape:
            raise FormulaError(f"{name} is taken over the last axis, not over axis {axis}")
        found = Symbol(name, (self,), (*self.shape[:-1], 1))
        return found if keepdims else found.reshape(-1, *self.shape[:-1])


def symbol(n_features: int) -> Symbol:
    """Return the input of a formula: rows of so many numbers."""
    return Symbol("input", (), (n_features,))


def symbolic(value: Any) -> bool:
    """Return whether a value is a symbol, and code on it is recorded."""
    return isinstance(value, Symbol)


def floats(values: Any) -> Any:
    """Return an array in float64, and a symbol as it is."""
    return values if symbolic(values) else np.asarray(values, dtype=np.float64)


@dataclass(frozen=True, eq=False)
class Constant:
    """Numbers that are known."""

    value: Array

    @property
    def shape(self) -> tuple[int, ...]:
        return self.value.shape


def constant(value: Any) -> Constant:
    return Constant(np.ascontiguousarray(value))


def dense(matrix: Any) -> Array:
    """Return known rows as an array, also sparse ones."""
    return np.asarray(matrix.toarray() if hasattr(matrix, "toarray") else matrix)


def elementwise(name: str, *inputs: Any) -> Symbol:
    """Return an operator of symbols and known numbers, which are broadcast as arrays are."""
    if name in COMPOSED:
        return COMPOSED[name](*inputs)
    if name not in OPERATORS:
        raise FormulaError(f"numpy.{name} has no formula")
    if name == "power" and np.ndim(inputs[1]) == 0 and float(inputs[1]) == 2.0:
        return elementwise("multiply", inputs[0], inputs[0])
    rows = max(len(x.shape) for x in inputs if symbolic(x))
    parts = [_part(x, rows) for x in inputs]
    found = Symbol(name, parts, np.broadcast_shapes(*(part.shape for part in parts)))
    scaled = _scaled(found)
    if scaled is not None and scaled[0].name == "matmul" and scaled[0].shape == found.shape:
        left, matrix = scaled[0].parts
        return Symbol("matmul", (left, constant(matrix.value * scaled[1])), found.shape)
    return found


def _scaled(found: Symbol) -> tuple[Symbol, float] | None:
    """Return a symbol and the one number it is multiplied by, None if it is something else.

    Such a factor goes into the matrix of a product: runtimes that join the two (onnxruntime) keep
    it in float32 only.
    """
    if found.name not in ("multiply", "divide"):
        return None
    left, right = found.parts
    if found.name == "multiply" and isinstance(left, Constant):
        left, right = right, left
    if isinstance(left, Constant) or isinstance(right, Symbol):
        return None
    factor = right.value.ravel()
    if not len(factor) or np.any(factor != factor[0]):
        return None
    return left, float(factor[0] if found.name == "multiply" else 1.0 / factor[0])


def _part(value: Any, rows: int) -> Symbol | Constant:
    """Return an input with as many axes, the rows left out, as the others have, or fewer."""
    if isinstance(value, Symbol):
        if len(value.shape) != rows:
            raise FormulaError("arrays of different numbers of axes are put together")
        return value
    known = np.asarray(value, dtype=np.float64)
    while known.ndim > rows:
        if len(known) != 1:
            raise FormulaError("a known array has an entry for every row")
        known = known[0]
    return constant(known)


def where(condition: Any, yes: Any, no: Any) -> Symbol:
    return elementwise("where", condition, yes, no)


def hstack(parts: Sequence[Symbol]) -> Symbol:
    """Return columns beside each other."""
    return Symbol("join", parts, (sum(part.shape[0] for part in parts),))


def _log_sum(a: Any, b: Any) -> Any:
    larger, smaller = np.maximum(a, b), np.minimum(a, b)
    return larger + np.log(1.0 + np.exp(smaller - larger))


def _expm1(x: Any) -> Any:
    """Return exp(x) - 1 = 2 t / (1 - t) with t = tanh(x / 2), exact for small x <= 0."""
    t = np.tanh(x / 2.0)
    return 2.0 * t / (1.0 - t)


#: Functions that are made of operators.
COMPOSED: dict[str, Callable[..., Any]] = {
    "logaddexp": _log_sum,
    "log1p": lambda x: np.log(1.0 + x),
    "expm1": _expm1,
    "expit": lambda x: 1.0 / (1.0 + np.exp(-x)),
    "copysign": lambda x, y: np.abs(x) * np.where(y >= 0.0, 1.0, -1.0),
    "arcsinh": lambda x: np.sign(x) * np.log(np.abs(x) + np.sqrt(x * x + 1.0)),
    "square": lambda x: x * x,
    "matmul": Symbol.__matmul__,
    "bitwise_and": lambda x, y: x * y,
    "invert": lambda x: 1.0 - x,
}


def steps(outputs: Sequence[Symbol]) -> list[Symbol]:
    """Return every symbol that some symbols are computed from, each after its parts."""
    found: dict[int, Symbol] = {}
    todo = list(outputs)
    while todo:
        last = todo[-1]
        new = [p for p in last.parts if isinstance(p, Symbol) and id(p) not in found]
        if new:
            todo.extend(new)
        else:
            found.setdefault(id(todo.pop()), last)
    return list(found.values())


def merged(outputs: Sequence[Symbol]) -> list[Symbol]:
    """Return the same formulas with everything that is computed alike computed once."""
    known: dict[Any, Any] = {}
    same: dict[int, Any] = {}

    def one(part: Any) -> Any:
        if isinstance(part, Constant):
            value = part.value
            return known.setdefault((value.shape, value.dtype.str, value.tobytes()), part)
        return same[id(part)]

    for step in steps(outputs):
        parts = [one(part) for part in step.parts]
        key = step.name, step.shape, *map(id, parts)
        same[id(step)] = known.setdefault(key, Symbol(step.name, parts, step.shape))
    return [same[id(output)] for output in outputs]


def evaluated(outputs: Mapping[str, Symbol], x: Array) -> dict[str, Array]:
    """Return formulas by name, computed for known rows.

    Examples
    --------
    >>> f = symbol(2)
    >>> evaluated({"sum": np.maximum(f, 0.0).sum(axis=1)}, np.array([[1.0, -2.0]]))
    {'sum': array([1.])}
    """
    known: dict[int, Any] = {}
    for step in steps(list(outputs.values())):
        parts = [p.value if isinstance(p, Constant) else known[id(p)] for p in step.parts]
        known[id(step)] = _value(step, parts, x)
    return {name: known[id(output)] for name, output in outputs.items()}


def _value(step: Symbol, parts: list[Any], x: Array) -> Any:
    if step.name in OPERATORS:
        if step.name == "where":
            parts[0] = parts[0] > 0
        return getattr(np, step.name)(*parts) * 1.0  # truth values are numbers
    others: dict[str, Callable[..., Any]] = {
        "input": lambda: x,
        "matmul": np.matmul,
        "sum": lambda a: a.sum(axis=-1, keepdims=True),
        "max": lambda a: a.max(axis=-1, keepdims=True),
        "argmax": lambda a: a.argmax(axis=-1)[..., None],
        "reshape": lambda a: a.reshape(len(x), *step.shape),
        "take": lambda a, places: a[..., places],
        "join": lambda *a: np.concatenate(a, axis=-1),
        "city_block": lambda a, rows: cdist(a, rows, "cityblock"),
    }
    return others[step.name](*parts)
