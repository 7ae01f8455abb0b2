"""Cells: what counts as missing, what is a number, and columns from the cells' text or objects."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from numbers import Real
from typing import Any

import numpy as np

from outcode._checks import Array
from outcode.datasets.table import DataError, prefix

MISSING = frozenset(
    ["", "NA", "N/A", "#N/A", "NaN", "nan", "NAN", "?", "null", "NULL", "None", "-"]
)
# "None" and "-" may well be the name of a class
MISSING_LABEL = MISSING - {"None", "-"}
SAID = "empty, NA, N/A, NaN, ?, null, None or -"

# beyond it, squares overflow: as good as infinite
HUGE = 1e150

NUMBER = re.compile(r"[+-]?((\d+(\.\d*)?|\.\d+)([eE][+-]?\d+)?|inf(inity)?|nan)", re.I | re.A)


def is_number(cell: str) -> bool:
    """Say whether a cell is a number, with a decimal point and nothing between the digits."""
    return NUMBER.fullmatch(cell.strip()) is not None


def numbers(cells: Sequence[str | None]) -> Array | None:
    """Return the cells as float64 (missing is NaN), or None if one of them is not a number."""
    values = _floats(cells)
    if values is None:
        return None
    # float() also reads 1_000 and digits of other scripts, which are no numbers here
    joined = "".join(filter(None, cells))
    if "_" not in joined and joined.isascii():
        return values
    return None if any(map(_is_text, cells)) else values


def _floats(cells: Sequence[Any]) -> Array | None:
    try:
        return np.fromiter(map(float, cells), np.float64, len(cells))
    except (ValueError, TypeError):  # a missing cell, or text
        pass
    try:
        return np.array([np.nan if is_missing(cell) else float(cell) for cell in cells])
    except ValueError:
        return None


def is_missing(cell: str | None) -> bool:
    """Say whether a cell is missing."""
    return cell is None or cell in MISSING or cell.strip() in MISSING


def texts(
    cells: Iterable[str], known: dict[str, str], missing: frozenset[str] = MISSING
) -> list[str | None]:
    """Return the cells without outer blanks, missing as None; equal cells share one string."""
    stripped = map(str.strip, cells)
    return [None if cell in missing else known.setdefault(cell, cell) for cell in stripped]


def objects(values: Iterable[Any]) -> Array:
    """Return an object array of the values, one cell each."""
    listed = list(values)
    array = np.empty(len(listed), dtype=object)
    array[:] = listed
    return array


def text_of(value: Any) -> str | None:
    """Return a value as the text a file would hold: 3.0 is "3", missing is None."""
    if value is None or type(value).__name__ in ("NAType", "NaTType"):
        return None
    if isinstance(value, (float, np.floating)):
        if np.isnan(value):
            return None
        return str(int(value)) if float(value).is_integer() else repr(float(value))
    text = str(value).strip()
    return None if text in MISSING else text


def column_of(values: Array) -> Array:
    """Return any 1-D array as a column: numbers as float64, all else as text.

    Booleans, dates and categories are text; an object array is numeric if all it holds is numbers.
    """
    if values.dtype.kind in "iuf":
        return values.astype(np.float64)
    if values.dtype.kind in "bmM":
        return _dates_and_flags(values)
    present = [v for v in values.tolist() if text_of(v) is not None]
    if present and all(
        isinstance(v, Real) and not isinstance(v, (bool, np.bool_)) for v in present
    ):
        return np.array([np.nan if text_of(v) is None else float(v) for v in values.tolist()])
    return objects(map(text_of, values.tolist()))


def _dates_and_flags(values: Array) -> Array:
    holes = np.isnat(values) if values.dtype.kind in "mM" else np.zeros(len(values), bool)
    words = values.astype(str).tolist()
    return objects(None if hole else word for hole, word in zip(holes, words, strict=True))


def as_numeric(column: Array, name: str, source: str = "") -> Array:
    """Return a column as numbers; text in it is a DataError with its row."""
    if column.dtype != object:
        return column
    values = numbers(column.tolist())
    if values is not None:
        return values
    row = next(i for i, cell in enumerate(column.tolist()) if _is_text(cell))
    raise DataError(
        f"{prefix(source)}row {row + 1}, column {name!r}: {_short(column[row])} is not a number, "
        f"but the column was numeric when the model was fitted.{_advice(column[row])}"
    )


def as_nominal(column: Array) -> Array:
    """Return a column as text."""
    return column if column.dtype == object else objects(map(text_of, column.tolist()))


def _is_text(cell: str | None) -> bool:
    return not is_missing(cell) and not is_number(cell or "")


def _advice(cell: str) -> str:
    how = separators(cell)
    if how:
        return f" It has {how}: write it with a decimal point and no separators."
    return " Correct the cell, or leave it empty if the value is missing."


def _short(cell: str) -> str:
    return repr(cell if len(cell) <= 40 else cell[:37] + "...")


DECIMAL_COMMA = re.compile(r"[+-]?\d+,\d+([eE][+-]?\d+)?", re.A)
THOUSANDS = re.compile(r"[+-]?\d{1,3}([,'\u2019 \u00a0\u202f]\d{3})+(\.\d*)?", re.A)
POINTS = re.compile(r"[+-]?\d{1,3}(\.\d{3})+(,\d*)", re.A)


def separators(cell: str) -> str:
    """Say how a cell would be a number: "a decimal comma", "thousands separators", or ""."""
    if THOUSANDS.fullmatch(cell) or POINTS.fullmatch(cell):
        return "thousands separators"
    return "a decimal comma" if DECIMAL_COMMA.fullmatch(cell) else ""
