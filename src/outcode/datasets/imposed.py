"""Columns of new rows as the kind they had in training, whatever the file makes of them."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from outcode._checks import Array
from outcode.datasets.cells import NO_NUMBER, STRAY, as_nominal, floats, is_missing, is_number
from outcode.datasets.table import DataError, prefix


def as_numbers(
    column: Array, name: str, source: str = "", marks: str = "", *, strict: bool = False
) -> Array:
    """Return a column as numbers, read with the marks of the training file; text is a DataError.

    A few words are taken as missing, unless ``strict``.
    """
    if column.dtype == float:
        return column
    cells = as_nominal(column).tolist()
    plain = floats(cells) if marks in ("", ".") else None
    values = _marked(cells, marks) if plain is None else plain
    if values is None and not strict:
        values = _without_words(cells, name, source, marks)
    if values is not None:
        return values
    row = next(i for i, c in enumerate(cells) if not is_missing(c) and _marked([c], marks) is None)
    raise _misfit(name, source, row, cells[row], "a number", "numeric")


def _without_words(cells: list[Any], name: str, source: str, style: str) -> Array | None:
    """Return numbers with a few words as missing, as in training, and say so."""
    words = [i for i, cell in enumerate(cells) if not is_missing(cell) and not is_number(cell)]
    if not 0 < len(words) <= STRAY * len(cells):
        return None
    kept = list(cells)
    for i in words:
        kept[i] = None
    values = _marked(kept, style)
    if values is not None:
        warnings.warn(
            f"{prefix(source)}column {name!r}: {len(words)} of {len(cells)} cells are not numbers "
            f"and taken as missing, the first in row {words[0] + 1}: {cells[words[0]][:40]!r}.",
            stacklevel=2,
        )
    return values


def as_dates(column: Array, name: str, source: str = "") -> Array:
    """Return a column as dates; what is no date is a DataError."""
    if column.dtype.kind == "M":
        return column
    cells = as_nominal(column).tolist()
    known = [i for i, cell in enumerate(cells) if not is_missing(cell)]
    found = np.full(len(cells), np.datetime64("NaT"), dtype="datetime64[s]")
    if known:
        found[known] = _dates([cells[i] for i in known], name, source, known)
    return found


def _dates(words: list[str], name: str, source: str, rows: list[int]) -> Array:
    from outcode.datasets import marks

    plain = floats(words)
    days = None if plain is None else marks.day_numbers(np.append(plain, 20000101.0))
    if days is not None:
        return days[:-1]
    read = marks.dates(words)
    if read is not None:
        return read[0]
    at = next((i for i, word in enumerate(words) if marks.dates([word]) is None), 0)
    raise _misfit(name, source, rows[at], words[at], "a date written like the others", "a date")


def _marked(cells: list[Any], style: str) -> Array | None:
    """Return numbers read with these marks, or with those their own writing shows."""
    try:
        import pyarrow as pa
        import pyarrow.compute as pc

        from outcode.datasets import marks
    except ImportError:
        return None
    texts = pa.array([None if _no_number(cell) else cell for cell in cells], pa.string())
    if style == ":":
        return marks.clock(texts)
    texts = pc.replace_substring_regex(texts, marks.BOUND, r"\1")
    own = marks.evidence(texts)
    ways = [style[:1] or ".", marks.decimal_mark(own, own, style[:1] == ",")]
    for decimal in ways if own[ways[0]] or not own[ways[1]] else ways[::-1]:
        values: Array | None = marks.numbers(texts, decimal)[0]
        if values is not None:
            return values
    return None


def _no_number(cell: str | None) -> bool:
    """Say whether a cell of a column of numbers is missing."""
    return is_missing(cell) or str(cell).strip().lower() in NO_NUMBER


def _misfit(name: str, source: str, row: int, cell: str, what: str, kind: str) -> DataError:
    shown = repr(cell if len(cell) <= 40 else cell[:37] + "...")
    return DataError(
        f"{prefix(source)}row {row + 1}, column {name!r}: {shown} is not {what}, but the column "
        f"was {kind} when the model was fitted. Correct the cell, or leave it empty if the value "
        "is missing."
    )
