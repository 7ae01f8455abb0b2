"""A description as one Python file that needs NumPy alone."""

from __future__ import annotations

import base64
import zlib
from typing import Any

import numpy as np

from outcode._checks import Array
from outcode.export.description import Description
from outcode.formula import OPERATORS, Constant, Symbol, steps

#: The file: what it is, its numbers, and the formulas.
PAGE = '''"""A classifier, written by outcode {version}. It needs NumPy alone.

{about}

predict(X) returns labels, scores(X) the class scores (n_rows, n_classes){proba}.
"""

import base64
import zlib

import numpy as np

CLASSES = {classes}
N_COLUMNS = {n_columns}
#: Rows computed at a time.
BLOCK = {block}


def _numbers(text, shape, kind):
    raw = zlib.decompress(base64.b85decode(text))
    return np.frombuffer(raw, dtype=kind).reshape(shape)


{constants}


def _city_block(x, rows):
    out = np.zeros((len(x), len(rows)))
    for j in range(x.shape[1]):
        out += np.abs(x[:, j : j + 1] - rows[:, j])
    return out


def _block(X):
    """Return {outputs} of some rows."""
{body}


def _computed(X):
    X = np.asarray(X, dtype=np.float64)
    if X.ndim != 2 or X.shape[1] != N_COLUMNS:
        raise ValueError(f"X must have the shape (n_rows, {{N_COLUMNS}}), got {{X.shape}}.")
    parts = [_block(X[i : i + BLOCK]) for i in range(0, max(1, len(X)), BLOCK)]
    return [np.concatenate(part) for part in zip(*parts)]


def predict(X):
    """Return the label of every row."""
    return np.array(CLASSES)[_computed(X)[0]]


def scores(X):
    """Return the score of every class, larger is better, (n_rows, n_classes)."""
    return _computed(X)[1]
'''
PROBA = '''

def predict_proba(X):
    """Return the probability of every class, (n_rows, n_classes)."""
    return _computed(X)[2]
'''


def source(description: Description) -> str:
    """Return the text of the file."""
    body, constants, widest = _body(description)
    page = PAGE.format(
        version=description.metadata["outcode"],
        about=str(description).replace("\\", "\\\\").replace('"""', "'''"),
        proba="" if description.proba is None else ",\npredict_proba(X) the probabilities",
        classes=repr(description.classes.tolist()),
        n_columns=len(description.columns),
        block=max(1, 2**20 // widest),
        constants="\n".join(constants),
        outputs=", ".join(description.outputs),
        body="\n".join(f"    {line}" for line in body),
    )
    return page + (PROBA if description.proba is not None else "")


def _body(description: Description) -> tuple[list[str], list[str], int]:
    """Return the lines of the formulas, those of the constants, and the widest row."""
    names: dict[int, str] = {}
    lines: list[str] = []
    constants: list[str] = []
    found = steps(list(description.outputs.values()))
    for step in found:
        inputs = [_named(part, names, constants) for part in step.parts]
        names[id(step)] = "X" if step.name == "input" else f"v{len(lines)}"
        if step.name != "input":
            lines.append(f"v{len(lines)} = {_expression(step, inputs)}")
    told = ", ".join(names[id(output)] for output in description.outputs.values())
    widest = max(int(np.prod(step.shape)) for step in found)
    return [*lines, f"return {told}"], constants, widest


def _named(part: Any, names: dict[int, str], constants: list[str]) -> str:
    if isinstance(part, Constant) and id(part) not in names:
        if part.value.ndim == 0:
            text = repr(float(part.value))
            names[id(part)] = f'float("{text}")' if "inf" in text or "nan" in text else f"({text})"
        else:
            names[id(part)] = f"C{len(constants)}"
            constants.append(f"C{len(constants)} = {_packed(part.value)}")
    return names[id(part)]


def _packed(value: Array) -> str:
    value = value.astype("<i8" if value.dtype.kind in "iub" else "<f8")
    text = base64.b85encode(zlib.compress(value.tobytes(), 9)).decode()
    return f"_numbers({text!r}, {value.shape!r}, {value.dtype.str!r})"


def _expression(step: Symbol, inputs: list[str]) -> str:
    if step.name in OPERATORS:
        return OPERATORS[step.name][1].format(*inputs)
    shape = "".join(f", {size}" for size in step.shape)
    others = {
        "matmul": "{0} @ {1}",
        "sum": "{0}.sum(axis=-1, keepdims=True)",
        "max": "{0}.max(axis=-1, keepdims=True)",
        "argmax": "{0}.argmax(axis=-1)[..., None]",
        "reshape": f"{{0}}.reshape(len(X){shape})",
        "take": "{0}[..., {1}]",
        "join": f"np.concatenate([{', '.join(inputs)}], axis=-1)",
        "city_block": "_city_block({0}, {1})",
    }
    return others[step.name].format(*inputs)
