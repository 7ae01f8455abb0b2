"""The kinds of columns: numbers, dates, categories and free text, inferred from the cells."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from outcode._checks import Array
from outcode.datasets import marks
from outcode.datasets.cells import (
    MISSING,
    MISSING_LABEL,
    NO_NUMBER,
    STRAY,
    are_texts,
    objects,
    text_of,
)
from outcode.datasets.columns import count
from outcode.datasets.readers import Found, Options
from outcode.datasets.table import DataError, Finding, Table, unknown
from outcode.datasets.targets import as_labels

#: What a user calls a kind, and its name in a table.
KINDS = {"number": "numeric", "category": "nominal", "date": "date", "text": "text"}


@dataclass(frozen=True)
class Context:
    """What one column's reading may take from the others, and from the user."""

    source: str
    options: Options
    file: Counter[str]
    comma: bool

    def decimal(self, column: Counter[str]) -> str:
        return self.options.decimal or marks.decimal_mark(column, self.file, self.comma)


@dataclass(frozen=True)
class Column:
    """A column as it is kept, its kind, and how its numbers or dates were written."""

    cells: Array
    kind: str
    marks: str = ""
    about: str = ""
    strays: Finding | None = None


def as_table(
    found: Found, options: Options, source: str
) -> tuple[Table, tuple[str, ...], tuple[Finding, ...]]:
    """Return what a reader found as a table, what was inferred, and what to look at."""
    kinds = {**found.kinds, **_asked(options.types, source)}
    seen = [marks.evidence(trimmed(marks.head(c))) if _is_text(c) else None for c in found.columns]
    context = Context(source, options, sum(filter(None, seen), Counter()), found.comma)
    columns: list[Column] = []
    for name, own in zip(found.names, seen, strict=True):
        raw = found.columns.pop(0)  # one at a time: a large file need not be there twice
        kind = kinds.get(name)
        column = (
            _typed(raw, kind) if own is None else _inferred(name, trimmed(raw), own, kind, context)
        )
        columns.append(column if kind else _stamped(column, name))
    table = Table(
        found.names,
        tuple(column.kind for column in columns),
        tuple(column.cells for column in columns),
        source=source,
        marks={n: c.marks for n, c in zip(found.names, columns, strict=True) if c.marks},
    )
    strays = tuple(
        replace(column.strays, message=f"{name}: {column.strays.message}", columns=(name,))
        for name, column in zip(found.names, columns, strict=True)
        if column.strays
    )
    return table, tuple(_said(found.names, columns)), strays


def as_text(found: Found, source: str) -> Table:
    """Return what a reader found with its text unread: a fitted encoder knows the kinds."""
    columns = [
        Column(_shared(trimmed(column)), "nominal") if _is_text(column) else _typed(column, None)
        for column in found.columns
    ]
    kinds = tuple(column.kind for column in columns)
    return Table(found.names, kinds, tuple(c.cells for c in columns), source=source)


def labels_of(column: Any) -> Array:
    """Return the classes of the rows as text, None where missing: 1.0 is "1"."""
    if not _is_text(column):
        return objects(map(text_of, _typed(column, "nominal").cells.tolist()))
    return as_labels(_shared(trimmed(column, MISSING_LABEL)))


def quantities(column: Any, found: Found, options: Options) -> Array | None:
    """Return a target of text as numbers, read like any column, or None if it is none."""
    if not _is_text(column):
        return None
    texts = trimmed(column)
    own = marks.evidence(texts)
    values: Array | None = _read_numbers(texts, own, Context("", options, own, found.comma))[0]
    return values


def _asked(types: Mapping[str, str], source: str) -> dict[str, str]:
    for kind in types.values():
        if kind not in KINDS:
            raise unknown(kind, tuple(KINDS), "type", source)
    return {name: KINDS[kind] for name, kind in types.items()}


def _is_text(column: Any) -> bool:
    return pa.types.is_string(column.type) or pa.types.is_large_string(column.type)


def trimmed(column: Any, missing: frozenset[str] = MISSING) -> Any:
    """Return the texts without outer blanks, missing ones as null."""
    texts = pc.utf8_trim_whitespace(column)
    holes = pc.is_in(texts, value_set=pa.array(sorted(missing), texts.type))
    return pc.if_else(holes, pa.scalar(None, texts.type), texts)


def _shared(texts: Any) -> Array:
    """Return texts as an object array in which equal cells share one string."""
    whole = texts.combine_chunks() if isinstance(texts, pa.ChunkedArray) else texts
    coded = whole if pa.types.is_dictionary(whole.type) else whole.dictionary_encode()
    words = objects([*map(_word, coded.dictionary.to_pylist()), None])
    return words[coded.indices.fill_null(len(words) - 1).to_numpy(zero_copy_only=False)]


def _word(value: Any) -> str | None:
    return value.strip() if isinstance(value, str) else text_of(value)


def _typed(column: Any, kind: str | None) -> Column:
    """Return a column whose type the format declares."""
    of = column.type
    if pa.types.is_null(of):
        return Column(np.full(len(column), np.nan), "numeric")
    if pa.types.is_timestamp(of) or pa.types.is_date(of):
        days = pc.cast(column, pa.timestamp("s"), safe=False)
        return Column(np.asarray(days.to_numpy(), dtype="datetime64[s]"), "date")
    if pa.types.is_duration(of) or pa.types.is_time(of):
        time = (pa.time32("ms"), "int32") if pa.types.is_time(of) else (pa.duration("ms"), "int64")
        return Column(
            _reals(pc.cast(column.cast(time[0], safe=False), time[1])) / 3.6e6, "numeric", ":"
        )
    if pa.types.is_integer(of) or pa.types.is_floating(of) or pa.types.is_decimal(of):
        values = _reals(column)
        if kind in ("nominal", "text"):
            return Column(objects(map(text_of, values.tolist())), kind)
        return Column(values, "numeric")
    if not pa.types.is_dictionary(of):
        column = pc.cast(column, pa.string())
        if pa.types.is_boolean(of):
            column = pc.utf8_capitalize(column)
    return _words(_shared(column), kind)


def _reals(column: Any) -> Array:
    return np.asarray(pc.cast(column, pa.float64(), safe=False).to_numpy(), dtype=np.float64)


def _stamped(column: Column, name: str) -> Column:
    """Return numbers that are seconds since 1970, by their size and the column's name, as dates."""
    if column.kind != "numeric" or not marks.STAMP.match(name):
        return column
    found = marks.stamps(column.cells)
    return column if found is None else Column(found, "date", about="seconds since 1970")


def _words(cells: Array, kind: str | None) -> Column:
    """Return text as categories or as free text."""
    if kind is None:
        kind = "text" if are_texts(dict.fromkeys(cells.tolist()), len(cells)) else "nominal"
    return Column(cells, kind)


def _inferred(
    name: str, texts: Any, own: Counter[str], kind: str | None, context: Context
) -> Column:
    """Return a column of text as what its cells are, or as the user says."""
    if kind is None and not own["."] and _are_codes(texts):
        return Column(_shared(texts), "nominal", about="codes")
    if kind in (None, "numeric"):
        read = _as_numbers(texts, own, context)
        if read is not None and (read.kind == "numeric" or kind is None):
            return read
    if kind in (None, "date"):
        read = _as_dates(texts)
        if read is not None:
            return read
    if kind in (None, "numeric") and (hours := marks.clock(texts)) is not None:
        return Column(hours, "numeric", ":")
    if kind in ("numeric", "date"):
        raise _misfit(name, texts, kind, context)
    return _words(_shared(texts), kind)


def _are_codes(texts: Any) -> bool:
    """Say whether all cells have as many digits, some of them zeros in front: 01234."""
    values = pc.drop_null(pc.unique(marks.head(texts)))
    if not len(values) or not pc.any(pc.match_substring_regex(values, r"^0\d{3,}$")).as_py():
        return False
    digits = pc.all(pc.utf8_is_decimal(values)).as_py()
    return bool(digits and len(pc.unique(pc.utf8_length(values))) == 1)


def _as_numbers(texts: Any, own: Counter[str], context: Context) -> Column | None:
    values, written = _read_numbers(texts, own, context)
    strays: Finding | None = None
    if values is None:
        texts, strays = _without_strays(texts)
        values, written = _read_numbers(texts, own, context) if strays else (None, "")
    if values is None or np.isnan(values).all():
        return None
    days = marks.day_numbers(values) if written == "." else None
    if days is not None:
        return Column(days, "date", about="%Y%m%d")
    clear = any(seen[mark] for seen in (own, context.file) for mark in ".,")
    doubtful = not clear and (own["?."] or own["?,"])
    return Column(values, "numeric", written, "doubtful" if doubtful else "", strays)


def _read_numbers(texts: Any, own: Counter[str], context: Context) -> tuple[Any, str]:
    decimal, thousands = context.decimal(own), context.options.thousands
    values, written = marks.numbers(texts, decimal, thousands)
    if values is None and not context.options.decimal:
        other = "," if decimal == "." else "."
        values, written = marks.numbers(texts, other, thousands)
    return values, written


def _without_strays(texts: Any) -> tuple[Any, Finding | None]:
    """Return a column of numbers with its few words as missing, and what to say of them.

    More words are missing numbers where they are all the same, or usual words for it.
    """
    plain = marks.unitless(texts)
    head = pc.match_substring_regex(plain.slice(0, 1000), marks.ANY_NUMBER)
    if 3 * (pc.sum(head).as_py() or 0) < len(head) - head.null_count:
        return texts, None
    bounds = pc.match_substring_regex(plain, marks.BOUND)
    freed = pc.replace_substring_regex(plain, marks.BOUND, r"\1")
    fits = pc.match_substring_regex(freed, marks.ANY_NUMBER)
    words = pc.filter(texts, pc.invert(fits))
    values = pc.unique(pc.filter(freed, fits))
    if len(values) <= 20 or (len(words) > STRAY * len(texts) and not _stand_for_missing(words)):
        return texts, None
    said = (
        _told(texts, pc.invert(fits), "not numeric and taken as missing"),
        _told(texts, pc.and_(bounds, fits), "written with < or > and read as the number"),
    )
    numbers = pc.if_else(bounds, freed, texts)
    finding = Finding("OD014", " ".join(filter(None, said)))
    return pc.if_else(fits, numbers, pa.scalar(None, texts.type)), finding


def _stand_for_missing(words: Any) -> bool:
    """Say whether words among numbers are all the same, or usual ones for a missing number."""
    different = {word.lower() for word in pc.unique(words.drop_null()).slice(0, 50).to_pylist()}
    return len(different - NO_NUMBER) <= 1


def _told(texts: Any, where: Any, what: str) -> str:
    """Return how many cells are so, and the first of them."""
    n = pc.sum(where).as_py()
    if not n:
        return ""
    row = pc.index(where, True).as_py()
    return f"{count(n, 'cell')} {what}, the first in row {row + 1}: {texts[row].as_py()[:40]!r}."


def _as_dates(texts: Any) -> Column | None:
    """Return a column of dates, a few words among them as missing, or None."""
    few = pc.drop_null(pc.unique(marks.head(texts))).slice(0, 50).to_pylist()
    if 2 * sum(map(marks.is_like_date, few)) <= len(few):
        return None
    whole = texts.combine_chunks() if isinstance(texts, pa.ChunkedArray) else texts
    coded = whole.dictionary_encode()
    words = coded.dictionary.to_pylist()
    fits = np.array([*map(marks.is_like_date, words), True])
    places = coded.indices.fill_null(len(words)).to_numpy(zero_copy_only=False)
    odd = ~fits[places]
    strange = pa.array([word for word, fit in zip(words, fits, strict=False) if not fit], "string")
    if odd.sum() > STRAY * len(texts) and not _stand_for_missing(strange):
        return None
    read = marks.dates([word for word, fit in zip(words, fits, strict=False) if fit])
    if read is None:
        return None
    days = np.full(len(fits), np.datetime64("NaT"), "datetime64[s]")
    days[np.flatnonzero(fits[:-1])] = read[0]
    told = _told(texts, pa.array(odd), "not a date and taken as missing")
    return Column(days[places], "date", "", read[1], Finding("OD014", told) if told else None)


def _misfit(name: str, texts: Any, kind: str, context: Context) -> DataError:
    """Return the error of a column that is not what the user says it is."""
    decimal = context.options.decimal or "."
    for row, cell in enumerate(texts.to_pylist()):
        if cell is None:
            continue
        one = pa.array([cell])
        if marks.numbers(one, decimal)[0] is None if kind == "numeric" else not marks.dates([cell]):
            what = "number" if kind == "numeric" else "date"
            return DataError(
                f"{context.source}, row {row + 1}, column {name!r}: {cell[:40]!r} is not a {what}, "
                "as the column's type asks. Correct the cell, or leave the type out."
            )
    return DataError(
        f"{context.source}: the dates of column {name!r} are not all written in the same way."
    )


def _said(names: tuple[str, ...], columns: list[Column]) -> Iterator[str]:
    """Yield how numbers and dates were read where it was not the plain way."""
    written: dict[str, list[str]] = {}
    for name, column in zip(names, columns, strict=True):
        if column.kind == "numeric" and column.marks not in ("", "."):
            written.setdefault(_marked(column.marks), []).append(name)
        if column.kind == "date" and column.about.startswith(
            ("%m/%d/", "%d/%m/", "%m-%d", "%d-%m")
        ):
            order = "month first" if column.about.startswith("%m") else "day first"
            written.setdefault(f"Dates are read with the {order}", []).append(name)
        if column.about == "seconds since 1970":
            written.setdefault("Numbers are read as seconds since 1970", []).append(name)
        if column.about == "codes":
            how = "Digits with zeros in front are read as categories"
            written.setdefault(how, []).append(name)
        if column.kind == "date" and " or " in column.about:
            written.setdefault(f"Dates are read as {column.about}", []).append(name)
    for how, where in written.items():
        more = f" and {len(where) - 5} more" if len(where) > 5 else ""
        yield f"{how}: {', '.join(where[:5])}{more}."
    for name, column in zip(names, columns, strict=True):
        if column.about == "doubtful":
            largest = np.nanmax(np.abs(column.cells))
            yield (
                f"The numbers of {name} have one mark before three digits and are read as up to "
                f"{largest:,.10g}; give the decimal mark if that is wrong."
            )


def _marked(used: str) -> str:
    if used == ":":
        return "Times like 7:30 are read as hours (7.5)"
    mark = {" ": "blank", "\u00a0": "blank", "\u202f": "blank"}.get(used[1:], repr(used[1:]))
    thousands = f" and {mark} between thousands" if used[1:] else ""
    return f"Numbers have {used[0]!r} before the decimals{thousands}"
