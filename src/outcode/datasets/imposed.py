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
    known = [i for i, cell in enumerate(cells) if not is_missing(cell)]
    odd = (i for i in known if _marked([cells[i]], marks) is None)
    other = (i for i in known if not _written(cells[i], marks))
    row = next(odd, next(other, known[0]))
    raise _misfit(name, source, row, cells[row], "a number", "numeric")


def _without_words(cells: list[Any], name: str, source: str, style: str) -> Array | None:
    """Return numbers with a few words as missing, as in training, and say so."""
    words = [i for i, cell in enumerate(cells) if not is_missing(cell) and not is_number(cell)]
    kept = _without_few(cells, words)
    values = _marked(kept, style) if kept else None
    if values is not None:
        _warn(cells, words, name, source, "numbers")
    return values


def _without_few(cells: list[Any], words: list[int]) -> list[Any] | None:
    """Return the cells with these as missing, or None unless they are few."""
    if not 0 < len(words) <= STRAY * len(cells):
        return None
    out = set(words)
    return [None if i in out else cell for i, cell in enumerate(cells)]


def _warn(cells: list[Any], words: list[int], name: str, source: str, what: str) -> None:
    warnings.warn(
        f"{prefix(source)}column {name!r}: {len(words)} of {len(cells)} cells are not {what} "
        f"and taken as missing, the first in row {words[0] + 1}: {cells[words[0]][:40]!r}.",
        stacklevel=2,
    )


def as_dates(column: Array, name: str, source: str = "", *, strict: bool = False) -> Array:
    """Return a column as dates; what is no date is a DataError.

    A few words are taken as missing, unless ``strict``.
    """
    if column.dtype.kind == "M":
        return column
    cells = [None if _no_number(cell) else cell for cell in as_nominal(column).tolist()]
    known = [i for i, cell in enumerate(cells) if cell is not None]
    found = np.full(len(cells), np.datetime64("NaT"), dtype="datetime64[s]")
    read = _dates([str(cells[i]) for i in known]) if known else None
    if known and read is None:
        known, read = _few_strays(cells, known, name, source, strict)
    if read is not None:
        found[known] = read
    return found


def _few_strays(
    cells: list[Any], known: list[int], name: str, source: str, strict: bool
) -> tuple[list[int], Array]:
    """Return which cells are dates, and those dates, if few are not."""
    words = [i for i in known if _dates([cells[i]]) is None]
    kept = None if strict else _without_few(cells, words)
    dates = sorted(set(known) - set(words))
    read = _dates([cells[i] for i in dates]) if kept else None
    if read is None:
        row = words[0] if words else known[0]
        raise _misfit(name, source, row, cells[row], "a date written like the others", "a date")
    _warn(cells, words, name, source, "dates")
    return dates, read


def _dates(words: list[str]) -> Array | None:
    """Return dates as they may be written in a file, or None if one is no date."""
    from outcode.datasets import marks

    plain = floats(words)
    if plain is not None:
        days = marks.day_numbers(np.append(plain, 20000101.0))
        return marks.stamps(plain) if days is None else days[:-1]
    read = marks.dates(words)
    return None if read is None else read[0]


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


def _written(cell: str, style: str) -> bool:
    """Say whether a number is written with these marks, not with others."""
    import pyarrow as pa

    from outcode.datasets import marks

    return marks.numbers(pa.array([cell]), style[:1] or ".")[0] is not None


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
