"""Numbers and dates as people write them: decimal and thousands marks, day and month."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from outcode._checks import Array
from outcode.datasets.cells import CURRENCIES

#: Between thousands, besides the point or comma that is not the decimal mark.
_SPACES = "'\u2019 \u00a0\u202f"
_OTHER = {".": ",", ",": "."}
_EXPONENT = r"([eE][+-]?\d+)?"
#: Numbers that only this decimal mark explains: 0,5  12,25  1.234,5  1.234.567
_CLEAR = {
    d: rf"^[+-]?(\d+[{d}](\d{{1,2}}|\d{{4,}})|(0|\d{{4,}})?[{d}]\d+"
    rf"|\d{{1,3}}([{o}]\d{{3}})+[{d}]\d*|\d{{1,3}}([{o}]\d{{3}}){{2,}}"
    rf"|\d{{1,2}}([{o}]\d\d)+[{o}]\d{{3}}([{d}]\d*)?){_EXPONENT}$"
    for d, o in _OTHER.items()
}
#: Numbers in which this mark may stand before decimals or between thousands: 28,801
_DOUBTFUL = {d: rf"^[+-]?[1-9]\d{{0,2}}[{d}]\d{{3}}$" for d in _OTHER}
#: Any of them, and whole numbers.
ANY_NUMBER = (
    rf"^[+-]?[$€£]?\s?(\d{{1,3}}([.,{_SPACES}]\d{{2,3}})*[.,{_SPACES}]\d{{3}}|\d*)([.,]?\d+|\d[.,])"
    rf"{_EXPONENT}\s?[%€$£+]?$"
)
_UNITS = r"^([+-]?)[$€£]\s?|\s?[%€$£+]$"
#: Negative numbers: \u22123  (1.20)  4-
_NEGATIVE = ("^\u2212([$€£]?[\\d.,])", r"^\(([$€£]?[\d.,]*\d)\)$", r"^([\d.,]*\d)-$")
#: A number with a unit after it: 3504 lb, 19.5M, 12 kg/l
_WITH_UNIT = r"^[+-]?[\d.,]*\d\s?(?P<unit>[^\d\s]+)$"  # {1,8} takes long to compile
_IN_UNITS = '°²³/."'
#: A currency before a number: USD 12.50
_WITH_CURRENCY = rf"^(?P<unit>{CURRENCIES})\s?[+-]?[\d.,]*\d$"
#: A number with a bound before it: <0.5, >= 100
BOUND = r"^[<>≤≥]=?\s?([+-]?[\d.,]*\d.*)$"
_POWERS = {"k": "e3", "K": "e3", "M": "e6", "G": "e9", "B": "e9"}
_SAMPLE = 20_000


def evidence(texts: Any) -> Counter[str]:
    """Count what the numbers of a column show: "." and "," as decimal marks, "?." and "?,"."""
    values = pc.unique(head(texts))
    plain = _cast(values) is not None
    values = values if plain or _plain(values) else unitless(pc.unique(bare(values)))
    found: Counter[str] = Counter()
    for mark in "." if plain else _OTHER:
        found[mark] = _count(values, _CLEAR[mark])
        found["?" + mark] = _count(values, _DOUBTFUL[mark])
    round_ones = _count(values, r"^[+-]?[1-9]\d{0,2}\.\d\d0$")
    found["round"] = int(2 * round_ones > found["?."] > 0)
    return found


def head(texts: Any) -> Any:
    """Return the first rows, enough to see how numbers are written."""
    return texts.slice(0, _SAMPLE)


def _count(texts: Any, pattern: str) -> int:
    return int(pc.sum(pc.match_substring_regex(texts, pattern)).as_py() or 0)


def _plain(texts: Any) -> bool:
    """Say whether all cells are digits with nothing around them."""
    return bool(pc.all(pc.match_substring_regex(texts, r"^[+-]?[\d.,]*\d$")).as_py())


def bare(texts: Any) -> Any:
    """Return the texts without currency, percent and plus signs around numbers.

    A negative number may have its minus behind it, or stand in parentheses as accountants write it.

    Examples
    --------
    >>> bare(pa.array(["$5", "(1.20)", "\u22123", "4-"])).to_pylist()
    ['5', '-1.20', '-3', '-4']
    """
    for pattern in _NEGATIVE:
        texts = pc.replace_substring_regex(texts, pattern, r"-\1")
    return pc.replace_substring_regex(texts, _UNITS, r"\1")


def unitless(texts: Any) -> Any:
    """Return texts without the unit that all numbers with one share; k, M, G, B are powers of ten.

    A currency before the numbers is a unit, too.

    Examples
    --------
    >>> unitless(pa.array(["12 kg", "7 kg", None])).to_pylist()
    ['12', '7', None]
    >>> unitless(pa.array(["19M", "8.5k", "big"])).to_pylist()
    ['19e6', '8.5e3', 'big']
    >>> unitless(pa.array(["CHF 12.50", "CHF 8"])).to_pylist()
    ['12.50', '8']
    """
    values = pc.unique(head(texts))
    units = set(_units(values, _WITH_CURRENCY))
    if len(units) == 1:
        return pc.replace_substring_regex(texts, rf"^{re.escape(units.pop())}\s?", "")
    units = {text for text in _units(values, _WITH_UNIT) if _is_unit(text)}
    for unit in units if len(units) == 1 or units <= set(_POWERS) else ():
        pattern = rf"^([+-]?[\d.,]*\d)\s?{re.escape(unit)}$"
        texts = pc.replace_substring_regex(texts, pattern, rf"\1{_POWERS.get(unit, '')}")
    return texts


def _units(values: Any, pattern: str) -> list[str]:
    """Return the units of different cells, none if fewer than a tenth of them have one."""
    cells = pc.drop_null(pc.struct_field(pc.extract_regex(values, pattern), "unit"))
    found = [unit for unit in cells.to_pylist() if len(unit) <= 8]
    return found if 10 * len(found) > len(values) else []


def _is_unit(text: str) -> bool:
    # a pattern of all letters takes 20 ms to compile, for every column
    return all(letter.isalpha() or letter in _IN_UNITS for letter in text)


def decimal_mark(column: Counter[str], file: Counter[str], comma: bool) -> str:
    """Return the decimal mark of a column: by its own numbers, by the file's, by the delimiter.

    Where nothing else tells, 30.000 is thirty thousand if most such numbers end in 0.

    Examples
    --------
    >>> none = Counter()
    >>> decimal_mark(Counter({"?,": 3}), none, comma=True)
    ','
    >>> decimal_mark(Counter({"?.": 3, "round": 1}), none, comma=False)
    ','
    """
    for seen in (column, file):
        if bool(seen["."]) != bool(seen[","]):
            return "." if seen["."] else ","
    if column["?."] and not column["?,"]:
        return "," if column["round"] or file["?,"] else "."
    return "," if comma else "."


def numbers(texts: Any, decimal: str = ".", thousands: str | None = None) -> tuple[Any, str]:
    """Return texts as float64 (missing is NaN) and the marks they have, or None, "".

    The marks are the decimal mark, and the thousands mark if there is one: ",." for 1.234,5.

    Examples
    --------
    >>> values, marks = numbers(pa.array(["1.234,5", None, "30.000"]), ",")
    >>> values.tolist(), marks
    ([1234.5, nan, 30000.0], ',.')
    """
    if decimal == "." and not thousands:
        plain = _cast(texts)
        if plain is not None:
            return plain, "."
    stripped = texts if _plain(texts) else unitless(bare(texts))
    between = (_OTHER[decimal] + _SPACES) if thousands is None else thousands
    group = re.escape(between) if between else "'"
    whole = rf"\d{{1,3}}([{group}]\d{{3}})+|\d{{1,2}}([{group}]\d\d)+[{group}]\d{{3}}|\d*"
    shape = rf"^[+-]?({whole})([{decimal}]\d*)?{_EXPONENT}$"
    if not pc.all(pc.match_substring_regex(stripped, shape)).as_py():
        return None, ""
    joined = pc.replace_substring_regex(stripped, f"[{group}]", "")
    values = _cast(pc.replace_substring(joined, decimal, "."))
    used = next((mark for mark in between if _count(stripped, re.escape(mark))), "")
    seen = used or _count(stripped, re.escape(decimal))
    return values, "" if values is None else decimal + used if seen else "."


_CLOCK = r"^\d{1,3}:[0-5]\d(:[0-5]\d(\.\d+)?)?(\s?[AaPp][Mm])?$"


def clock(texts: Any) -> Array | None:
    """Return times of day and durations as hours (missing is NaN), or None if one is neither.

    Examples
    --------
    >>> clock(pa.array(["7:30", None, "00:00:36", "7:30 PM"])).tolist()
    [7.5, nan, 0.01, 19.5]
    """
    if (
        texts.null_count == len(texts)
        or not pc.all(pc.match_substring_regex(texts, _CLOCK)).as_py()
    ):
        return None
    return np.array([np.nan if cell is None else _hours(cell) for cell in texts.to_pylist()])


def _hours(cell: str) -> float:
    half = cell[-2:].lower()
    parts = cell.rstrip("AaPpMm ").split(":")
    hours = sum(float(part) / 60**k for k, part in enumerate(parts))
    return hours % 12 + 12 * (half == "pm") if half in ("am", "pm") else hours


def _cast(texts: Any) -> Array | None:
    try:
        found = pc.cast(texts, pa.float64())
    except pa.ArrowInvalid:
        return None
    return np.asarray(found.to_numpy(zero_copy_only=False), dtype=np.float64)


# --- dates ---

_DATES = (
    *("%Y/%m/%d", "%d.%m.%Y", "%m/%d/%Y", "%d/%m/%Y", "%m-%d-%Y", "%d-%m-%Y", "%d.%m.%y"),
    *("%m/%d/%y", "%d/%m/%y", "%d-%b-%Y", "%d-%b-%y", "%d %b %Y", "%d %B %Y", "%b %d, %Y"),
    *("%B %d, %Y", "%b %d %Y", "%a %b %d %Y", "%a, %d %b %Y"),
)
_MONTHS = ("%b-%y", "%b-%Y", "%b %Y", "%B %Y", "%m/%Y")
_TIMES = ("", " %H:%M", " %H:%M:%S", " %I:%M %p", " %I:%M:%S %p", " %H:%M:%S GMT")
_LETTERS = ("%a %b %d %H:%M:%S %Y", "%a %b %d %H:%M:%S %z %Y", "%a, %d %b %Y %H:%M:%S %z")
_WAYS = (*(day + time for time in _TIMES for day in _DATES), *_MONTHS, *_LETTERS)
MOST_WAYS = 3  # in one column
_ISO = re.compile(r"(?!0000|9999)\d{4}-\d{2}(-\d{2}([T ]\d{2}:\d{2}.*)?)?")
_ORDINAL = re.compile(r"(?<=\d)(st|nd|rd|th)\b")
_LIKE_DATE = re.compile(
    r"(?!0000|9999)("
    r"(\w{3},? )?(\d{1,4}[-/. ](\d{1,2}|[A-Za-z]{3,9})[-/. ]\d{2,4}|[A-Za-z]{3,9} \d{1,2},? \d{4})"
    r"( \d{1,2}:\d{2}(:\d{2})?( [AaPp][Mm]| GMT| [+-]\d{4})?)?"
    r"|[A-Za-z]{3,9}[- ](\d{2}|\d{4})|\d{1,2}/\d{4}"
    r"|\w{3} \w{3} \d{1,2} \d{2}:\d{2}:\d{2}( [+-]\d{4})? \d{4})"
)


def is_like_date(cell: str) -> bool:
    """Say whether a cell looks like a date in one of the ways people write them."""
    return bool(_ISO.fullmatch(cell) or _LIKE_DATE.fullmatch(_ORDINAL.sub("", cell)))


def dates(values: Sequence[str]) -> tuple[Array, str] | None:
    """Return dates as datetime64[s] and how they are written, or None if one of them is none.

    Examples
    --------
    >>> days, way = dates(["31.12.2020", "1.2.2021"])
    >>> days.astype("datetime64[D]").astype(str).tolist(), way
    (['2020-12-31', '2021-02-01'], '%d.%m.%Y')
    """
    head = values[:50]
    if not head or not all(map(is_like_date, head)):
        return None
    if any(map(_ORDINAL.search, head)):
        return dates([_ORDINAL.sub("", value) for value in values])
    iso = all(map(_ISO.fullmatch, head))
    for way in ("ISO8601",) if iso else _WAYS:
        if len(_parsed(head, way)) == len(head) and len(found := _parsed(values, way)):
            return found, way
    return _mixed(values)


def _mixed(values: Sequence[str]) -> tuple[Array, str] | None:
    """Return dates written in a few ways, those that explain most of them first."""
    words = np.array(values, dtype=object)
    left, used = np.full(len(words), True), list[str]()
    found = np.full(len(words), np.datetime64("NaT"), "datetime64[s]")
    while left.any() and len(used) < MOST_WAYS:
        shares = {way: _explained(words[left][:200], way) for way in ("ISO8601", *_WAYS)}
        used.append(max(shares, key=lambda way: shares[way]))
        found[left] = _coerced(words[left], used[-1])
        left = np.isnat(found)
    return None if left.any() else (found, " or ".join(used))


def _explained(values: Array, way: str) -> int:
    return int(np.sum(~np.isnat(_coerced(values, way))))


def _coerced(values: Sequence[str] | Array, way: str) -> Array:
    """Return the dates, NaT where one does not fit the format."""
    import pandas as pd

    found = pd.to_datetime(list(values), format=way, utc=True, errors="coerce")
    return np.asarray(found.tz_localize(None).to_numpy(), dtype="datetime64[s]")


def _parsed(values: Sequence[str], way: str) -> Array:
    """Return the dates, none if one does not fit the format."""
    found = _coerced(values, way)
    return found[:0] if np.isnat(found).any() else found


#: Names of columns whose large whole numbers are seconds since 1970, or thousandths of them.
STAMP = re.compile(r"(?i).*(time|date|epoch|created|updated|_at\b|\bts\b)")


def stamps(values: Array) -> Array | None:
    """Return whole numbers as seconds since 1970, 1980 to 2039, as dates, or None if one is not.

    Examples
    --------
    >>> stamps(np.array([1577836800.0, np.nan])).astype(str).tolist()
    ['2020-01-01T00:00:00', 'NaT']
    """
    present = values[~np.isnan(values)]
    unit = 1000 if len(present) and present[0] > 3e11 else 1
    low, high = unit * 315_532_800, unit * 2_208_988_800
    if not len(present) or np.any((present < low) | (present > high) | (present % 1 != 0)):
        return None
    found = np.full(len(values), np.datetime64("NaT"), dtype="datetime64[s]")
    found[~np.isnan(values)] = (present // unit).astype("datetime64[s]")
    return found


def day_numbers(values: Array) -> Array | None:
    """Return whole numbers like 20201231 or 20201231235959 as dates, or None if one is no date."""
    present = np.unique(values[~np.isnan(values)])
    if len(present) < 2 or np.any(present != np.floor(present)):
        return None
    timed = present[0] >= 19000101_000000 and present[-1] <= 21001231_235959
    if not timed and (present[0] < 19000101 or present[-1] > 21001231):
        return None
    words = [str(int(value)) for value in present]
    days = _parsed(words, "%Y%m%d%H%M%S" if timed else "%Y%m%d")
    if not len(days):
        return None
    found = np.full(len(values), np.datetime64("NaT"), dtype="datetime64[s]")
    known = ~np.isnan(values)
    found[known] = days[np.searchsorted(present, values[known])]
    return found
