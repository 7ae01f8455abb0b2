"""A description as a C header without dependencies, one row at a time."""

from __future__ import annotations

from itertools import accumulate
from typing import Any

import numpy as np

from outcode.export.description import Description
from outcode.formula import OPERATORS, Constant, Symbol, steps

PAGE = """/* A classifier, written by outcode {version}. C99, the C library's mathematics alone.

{about}

   double x[OUTCODE_COLUMNS], scores[OUTCODE_CLASSES], work[OUTCODE_WORK];
   int place = outcode_predict(x, scores, {none}, work);
   puts(outcode_classes[place]);

   The result is the place of the class predicted. scores and probabilities may be NULL{absent}.
   work is memory of the caller: calls with memory of their own may run at the same time. */
#ifndef OUTCODE_MODEL_H
#define OUTCODE_MODEL_H

#include <math.h>
#include <stddef.h>

#define OUTCODE_COLUMNS {n_columns}
#define OUTCODE_CLASSES {n_classes}
#define OUTCODE_WORK {work}

static const char *const outcode_classes[OUTCODE_CLASSES] = {{{classes}}};

{constants}

static int outcode_predict(const double *x, double *scores, double *probabilities, double *work) {{
{body}
}}

#endif
"""


def source(description: Description) -> str:
    """Return the text of the header."""
    found = [s for s in steps(list(description.outputs.values())) if s.name != "input"]
    sizes = [_size(step) for step in found]
    names = {id(step): f"(work + {at})" for step, at in zip(found, _places(sizes), strict=True)}
    constants: list[str] = []
    lines: list[str] = []
    for step in steps(list(description.outputs.values())):
        names.setdefault(id(step), "x")
        inputs = [_named(part, names, constants) for part in step.parts]
        if step.name != "input":
            lines += ["{", *(f"    {line}" for line in _loops(step, names[id(step)], inputs)), "}"]
    lines += _told(description, names)
    about = str(description).replace("*/", "* /").splitlines()
    return PAGE.format(
        version=description.metadata["outcode"],
        about="\n".join(f"   {line}" for line in about),
        none="probabilities" if description.proba is not None else "NULL",
        absent="" if description.proba is not None else "; this model has no probabilities",
        n_columns=len(description.columns),
        n_classes=len(description.classes),
        work=max(1, sum(sizes)),
        classes=", ".join(_text(str(label)) for label in description.classes),
        constants="\n".join(constants),
        body="\n".join(f"    {line}" for line in lines),
    )


def _places(sizes: list[int]) -> list[int]:
    return [0, *accumulate(sizes)][:-1]


def _size(step: Symbol) -> int:
    return int(np.prod(step.shape))


def _told(description: Description, names: dict[int, str]) -> list[str]:
    """Return the lines that copy the outputs."""
    wanted = {"scores": description.scores, "probabilities": description.proba}
    lines = [
        f"for (int i = 0; {to} && i < OUTCODE_CLASSES; i++) {to}[i] = {names[id(symbol)]}[i];"
        for to, symbol in wanted.items()
        if symbol is not None
    ]
    unused = [] if description.proba is not None else ["(void)probabilities;"]
    return [*unused, *lines, f"return (int){names[id(description.label)]}[0];"]


def _named(part: Any, names: dict[int, str], constants: list[str]) -> str:
    if isinstance(part, Constant) and id(part) not in names:
        whole = part.value.dtype.kind in "iub"
        name, kind = f"outcode_{len(constants)}", "int" if whole else "double"
        numbers = ",".join(map(_number, part.value.ravel().tolist()))
        constants.append(f"static const {kind} {name}[] = {{{numbers}}};")
        names[id(part)] = name
    return names[id(part)]


def _text(label: str) -> str:
    """Return a string of C: what is not printable ASCII as the octal numbers of its UTF-8 bytes."""
    plain = set(range(32, 127)) - set(b'"\\?')  # "?" may begin a trigraph
    return '"' + "".join(chr(b) if b in plain else f"\\{b:03o}" for b in label.encode()) + '"'


def _number(value: float) -> str:
    return {"inf": "INFINITY", "-inf": "-INFINITY", "nan": "NAN"}.get(repr(value), repr(value))


def _loops(step: Symbol, out: str, inputs: list[str]) -> list[str]:
    """Return the C that computes a step into ``out``."""
    if step.name in OPERATORS:
        return _elementwise(step, out, inputs)
    n = step.parts[0].shape[-1] if step.parts[0].shape else 1
    size, a = _size(step), inputs[0]
    outer, inner = size // max(1, step.shape[-1]) if step.shape else 1, (step.shape or (1,))[-1]
    rows = f"for (int i = 0; i < {outer}; i++)"
    best = f"{rows} {{ int b = 0; for (int k = 1; k < {n}; k++) if ({a}[i * {n} + k] > "
    others = {
        "matmul": [f"for (int i = 0; i < {size}; i++) {out}[i] = 0;",
                   f"{rows} for (int k = 0; k < {n}; k++) for (int j = 0; j < {inner}; j++)",
                   f"    {out}[i * {inner} + j] += {a}[i * {n} + k] * "
                   f"{inputs[-1]}[k * {inner} + j];"],
        "sum": [f"{rows} {{ double s = 0; for (int k = 0; k < {n}; k++) s += {a}[i * {n} + k]; "
                f"{out}[i] = s; }}"],
        "max": [f"{best}{a}[i * {n} + b]) b = k; {out}[i] = {a}[i * {n} + b]; }}"],
        "argmax": [f"{best}{a}[i * {n} + b]) b = k; {out}[i] = b; }}"],
        "reshape": [f"for (int i = 0; i < {size}; i++) {out}[i] = {a}[i];"],
        "take": [f"{rows} for (int j = 0; j < {inner}; j++)",
                 f"    {out}[i * {inner} + j] = {a}[i * {n} + {inputs[-1]}[j]];"],
        "city_block": [f"for (int j = 0; j < {inner}; j++) {{ double s = 0;",
                       f"    for (int k = 0; k < {n}; k++) {{ "
                       f"s += fabs({a}[k] - {inputs[-1]}[j * {n} + k]); }}",
                       f"    {out}[j] = s; }}"],
        "join": _joined(step, out, inputs),
    }  # fmt: skip
    return others[step.name]


def _joined(step: Symbol, out: str, inputs: list[str]) -> list[str]:
    sizes = [_size(part) if part.shape else 1 for part in step.parts]
    places = zip(inputs, sizes, _places(sizes), strict=True)
    return [f"for (int i = 0; i < {n}; i++) {out}[{at} + i] = {a}[i];" for a, n, at in places]


def _elementwise(step: Symbol, out: str, inputs: list[str]) -> list[str]:
    shape = step.shape or (1,)
    loops = "".join(f"for (int i{d} = 0; i{d} < {n}; i{d}++) " for d, n in enumerate(shape))
    pairs = zip(inputs, step.parts, strict=True)
    values = [f"{name}[{_index(part.shape, len(shape))}]" for name, part in pairs]
    at = _index(shape, len(shape))
    return [f"{loops}{out}[{at}] = {OPERATORS[step.name][2].format(*values)};"]


def _index(shape: tuple[int, ...], axes: int) -> str:
    """Return the place of an entry of an array that is broadcast to so many axes."""
    found, stride = [], 1
    for d, n in zip(reversed(range(axes)), reversed(shape), strict=False):
        if n > 1:
            found.append(f"i{d} * {stride}" if stride > 1 else f"i{d}")
        stride *= n
    return " + ".join(found) or "0"
