"""Cells: what counts as missing, what is a number, and columns from the cells' objects."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Sequence
from itertools import islice
from numbers import Real
from typing import Any

import numpy as np

from outcode._checks import Array

MISSING = frozenset(
    [
        *("", "NA", "N/A", "n/a", "#N/A", "<NA>", "NaN", "nan", "NAN", "NaT", "?", "null", "NULL"),
        *("None", "-", "--", "---", ".", "#VALUE!", "#DIV/0!", "#REF!", "#NUM!", "#NAME?"),
    ]
)
# "None" and "-" may well be the name of a class
MISSING_LABEL = MISSING - {"None", "-", "--", "---", "."}
SAID = "empty, NA, n/a, NaN, ?, ., -, --, null or None"
#: Words, in lower case, that stand for a missing number, but may be a category.
NO_NUMBER = frozenset(
    [
        *("none", "missing", "unknown", "unk", "not available", "not known", "nil", "na", "n.a."),
        *("n.a", "nd", "n.d.", "n.d", "no data", "undefined", "not measured", "k.a.", "*", "x"),
    ]
)

#: Share of the cells of a column of numbers that may be words.
STRAY = 0.05
# beyond it, squares overflow: as good as infinite
HUGE = 1e150

# with a decimal point or comma, perhaps marks between thousands, perhaps a currency or percent
_DIGITS = (
    r"\d+([.,]\d*)?|[.,]\d+|\d{1,3}([.,'\u2019 \u00a0\u202f]\d{3})+([.,]\d*)?"
    r"|\d{1,2}(,\d\d)+,\d{3}([.]\d*)?"  # 12,34,567
)
#: Before a number, besides $, € and £.
CURRENCIES = (
    r"USD|EUR|GBP|CHF|JPY|CNY|INR|AUD|CAD|SEK|NOK|DKK|PLN|BRL|US\$|R\$|Rs\.?|Fr\.|kr\.?|[¥₹₽₩₺]"
)
NUMBER = re.compile(
    rf"([$€£]|{CURRENCIES})?\s?[+-]?[$€£]?(({_DIGITS})([eE][+-]?\d+)?|inf(inity)?|nan)\s?[%€$£+]?",
    re.I | re.A,
)


def is_number(cell: str) -> bool:
    """Say whether a cell is a number in one of the ways people write them."""
    return NUMBER.fullmatch(cell.strip()) is not None


def is_missing(cell: str | None) -> bool:
    """Say whether a cell is missing."""
    return cell is None or cell in MISSING or cell.strip() in MISSING


def floats(cells: Sequence[Any]) -> Array | None:
    """Return plain numbers as float64 (missing is NaN), or None if a cell is no plain number."""
    try:
        values = [np.nan if is_missing(cell) else float(cell) for cell in cells]
    except ValueError:
        return None
    # float() also reads 1_000 and digits of other scripts, which are not numbers here
    joined = "".join(filter(None, cells))
    return np.array(values) if "_" not in joined and joined.isascii() else None


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
    """Return any 1-D array as a column: numbers as float64, dates as datetime64, else text.

    Booleans and categories are text; an object array is numeric if all it holds is numbers.
    """
    if values.dtype.kind in "iuf":
        return values.astype(np.float64)
    if values.dtype.kind == "M":
        return values.astype("datetime64[s]")
    if values.dtype.kind == "m":
        days = values.astype("timedelta64[s]").astype(np.float64) / 86_400
        return np.where(np.isnat(values), np.nan, days)
    present = [v for v in values.tolist() if text_of(v) is not None]
    if present and all(
        isinstance(v, Real) and not isinstance(v, (bool, np.bool_)) for v in present
    ):
        return np.array([np.nan if text_of(v) is None else float(v) for v in values.tolist()])
    return objects(map(text_of, values.tolist()))


def as_nominal(column: Array) -> Array:
    """Return a column as text."""
    if column.dtype.kind == "M":
        words = np.char.replace(column.astype(str), "T00:00:00", "").tolist()
        holes = np.isnat(column).tolist()
        return objects(None if hole else word for hole, word in zip(holes, words, strict=True))
    return column if column.dtype == object else objects(map(text_of, column.tolist()))


#: Text has more different values than this, and this many words on average; of fewer rows, more.
MANY, WORDS, WORDY = 40, 2.5, 6.0


def are_texts(values: Collection[str | None], n_rows: int) -> bool:
    """Say whether different values are sentences or names of several words, not categories."""
    few = len(values) <= MANY
    if (2 if few else 10) * len(values) < n_rows:
        return False
    sample = [value for value in islice(values, 2000) if value]
    words = sum(len(value.split()) for value in sample)
    return bool(sample) and words >= (WORDY if few else WORDS) * len(sample)
