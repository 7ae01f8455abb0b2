"""How a delimited text is laid out, from its first rows: delimiter, titles, names of columns."""

from __future__ import annotations

import csv
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import accumulate
from typing import Any

from outcode.datasets.cells import is_missing, is_number

DELIMITERS = {"\t": "tab", ";": "semicolon", "|": "bar", ",": "comma", " ": "blanks"}
RARE = "~^:"  # taken where no other delimiter splits a line
WIDE = "  "  # cells two blanks or more apart, which may hold single blanks
ROLES = frozenset(["class", "meta", "ignore", "i", "weight"])  # in the third row of Orange's files


@dataclass
class Row:
    """The cells of a row, and the line of the file after it."""

    cells: list[str]
    line: int


def rows_of(lines: Sequence[str], delimiter: str, quote: str = '"') -> list[Row]:
    """Return the rows of the sample that are not blank; it may end inside a quoted cell."""
    fed = (" ".join(line.split()) for line in lines) if delimiter == " " else lines
    parsed = csv.reader(fed, delimiter=delimiter, quotechar=quote, skipinitialspace=True)
    rows: list[Row] = []
    with suppress(csv.Error):  # a cell may be longer than the csv module allows
        rows.extend(Row(row, parsed.line_num) for row in parsed if any(map(str.strip, row)))
    return rows or [Row(line.split(delimiter), i + 1) for i, line in enumerate(lines)]


_SINGLE = re.compile(r"(?:^|[\t;|,])\s*'[^'\n]*'\s*(?=[\t;|,\r\n]|$)")


def quote_of(lines: Sequence[str]) -> str:
    """Return the quotes around cells: single ones if most lines have them and none has double."""
    single = sum(bool(_SINGLE.search(line)) for line in lines)
    return "'" if 2 * single > len(lines) and not any('"' in line for line in lines) else '"'


def sniff(lines: Sequence[str], quote: str = '"') -> str:
    r"""Return the delimiter that splits most lines alike, a comma if none does.

    Where several do, the one a text is least likely to hold: tab, semicolon, bar, comma.

    Examples
    --------
    >>> sniff(["x;y\n", "1,5;2,25\n"])
    ';'
    """
    widths = {delimiter: _widths(lines, delimiter, quote) for delimiter in "\t;|," + RARE}
    best = max("\t;|,", key=lambda delimiter: _agreement(widths[delimiter]))
    none = _agreement(widths[best]) == (0.0, 0)
    spaced = 2 * sum("  " in line for line in lines) > len(lines) or len(widths[best]) > 1
    if none or (best == "\t" and spaced):
        blanks = [way for way in (" ", WIDE) if _aligned(lines, way)]
        rare = [way for way in RARE if len(widths[way]) == 1 and 1 not in widths[way]]
        best = [*blanks, *rare, ","][0] if none else [*blanks, best][0]
    return best


def _widths(lines: Sequence[str], delimiter: str, quote: str) -> Counter[int]:
    return Counter(len(row.cells) for row in rows_of(lines, delimiter, quote))


def _agreement(widths: Counter[int]) -> tuple[float, int]:
    """Return the share of rows of the usual width, and that width; (0, 0) if it is one cell."""
    if not widths:
        return 0.0, 0
    width, count = widths.most_common(1)[0]
    share = round(count / widths.total(), 1)
    return (0.0, 0) if width == 1 else (share, 0 if share == 1.0 else width)


def _aligned(lines: Sequence[str], way: str) -> bool:
    """Say whether blanks split all rows alike, into numbers too; a header may lack one cell."""
    if way == WIDE:
        lines, way = tabbed("".join(lines).encode()).decode().splitlines(), "\t"
    rows = [row.cells for row in rows_of(lines, way)]
    widths = {len(row) for row in rows[1:]}
    if len(widths) != 1 or widths == {1} or len(rows[0]) not in (width := max(widths), width - 1):
        return False
    return any(map(is_number, rows[-1]))


def tabbed(data: Any) -> bytes:
    """Return the text with tabs for two blanks or more, none of them at the ends of lines."""
    return re.sub(rb"[ \t]{2,}", b"\t", trimmed(data))


def trimmed(data: Any) -> bytes:
    return re.sub(rb"(?m)^[ \t]+|[ \t]+(?=[\r\n]|$)", b"", data)


# --- names, and rows that are none ---


@dataclass(frozen=True)
class Layout:
    """The names of the columns, and how many lines come before the first row of data."""

    names: tuple[str, ...] = ()
    skipped: int = 0
    about: tuple[str, ...] = ()
    header: bool = False


def lay_out(rows: list[Row], *about: str) -> Layout:
    """Find the names of the columns among the first rows: titles, header, units."""
    if not rows:
        return Layout()
    said = list(about)
    width = Counter(len(row.cells) for row in rows).most_common(1)[0][0]
    start = next(i for i, row in enumerate(rows) if not _is_title(row.cells, width))
    if start:
        lines = "line is" if start == 1 else f"{start} lines are"
        shown = ", ".join(filter(None, rows[0].cells))[:60]
        said.append(f"The first {lines} not part of the table: {shown!r}.")
    first, body = rows[start].cells, [r.cells for r in rows[start + 1 :] if len(r.cells) == width]
    header = has_header([first, *body]) if len(first) == width else not _numeric(first)
    skipped = rows[start].line if header else rows[start - 1].line if start else 0
    if header:
        names = _fitted(_without_marks(first), width, body, said)
        for row in _second_headers(rows[start + 1 :], body):
            skipped = row.line
            names, how = _joined(names, [cell.strip() for cell in row.cells])
            said.append(f"Line {row.line} is a second header, {how}: {', '.join(row.cells)}.")
        if any(map(is_number, names)):
            said.append("The first row is taken as names, though some of them are numbers.")
    else:
        names = [""] * width
        said.append(
            f"The first row looks like data, not names: the columns are named c1 to c{width}."
        )
    return Layout(distinct_names(names, said), skipped, tuple(said), header)


def _is_title(cells: list[str], width: int) -> bool:
    """Say whether a row has too few cells to name columns, or one at the left of empty ones."""
    alone = bool(cells[0].strip()) and not any(map(str.strip, cells[1:]))
    return len(cells) < min(width, max(2, width - 1)) or (width > 2 and alone)


def _numeric(cells: list[str]) -> bool:
    return 2 * sum(map(is_number, cells)) > sum(map(bool, cells))


def _joined(names: list[str], second: list[str]) -> tuple[list[str], str]:
    """Return the names from two rows, and how the second is used.

    It is units if the first names every column; else it holds the names, after those of groups of
    columns if it repeats itself.

    Examples
    --------
    >>> _joined(["a", "", "b", ""], ["x", "y", "x", "y"])[0]
    ['a x', 'a y', 'b x', 'b y']
    """
    if len(set(names) - {""}) == len(names) or not all(second):
        return names, "not data"
    if len(set(second)) == len(second):
        return second, "which names the columns"
    groups = accumulate(names, lambda group, name: str(name or group))
    return [f"{group} {name}" for group, name in zip(groups, second, strict=True)], "below groups"


def _without_marks(cells: list[str]) -> list[str]:
    """Return the names without blanks and the mark of a commented header."""
    return [cells[0].lstrip("#% ").strip(), *(cell.strip() for cell in cells[1:])]


def _fitted(names: list[str], width: int, body: list[list[str]], said: list[str]) -> list[str]:
    """Return as many names as the rows have cells."""
    if len(names) == width:
        return names
    if len(names) < width:
        if all(not cell.strip() for row in body for cell in row[len(names) :]):
            return names + [""] * (width - len(names))  # the rows end in delimiters
        said.append("The header has fewer cells than the rows: the first column has no name.")
        return [""] * (width - len(names)) + names
    if any(names[width:]):
        said.append(f"The header has more cells than the rows: {names[width:]} name no column.")
    return names[:width]


def _second_headers(rows: list[Row], body: list[list[str]]) -> Iterator[Row]:
    """Yield the rows below the header that hold words where all later rows hold numbers.

    And both rows of Orange's header: types, and which column is the class.
    """
    roles = {cell.strip() for cell in rows[1].cells} - {""} if len(rows) > 1 else set()
    if roles and roles <= ROLES and len(rows[1].cells) > 1:
        yield from rows[:2]
        return
    for depth in range(2):
        below = body[depth + 1 :]
        if len(below) < 3 or rows[depth].cells is not body[depth]:
            return
        pairs = zip(body[depth], zip(*below, strict=True), strict=True)
        words = [_is_word(cell) for cell, cells in pairs if _all_numbers(cells)]
        if not words or not all(words):
            return
        yield rows[depth]


def _is_word(cell: str) -> bool:
    return not is_number(cell) and not is_missing(cell)


def distinct_names(names: list[str], said: list[str]) -> tuple[str, ...]:
    """Return a name for every column, each another: a second "x" is "x (2)"."""
    seen: Counter[str] = Counter()
    found: list[str] = []
    for j, name in enumerate(names):
        own = name or f"c{j + 1}"
        seen[own] += 1
        found.append(own if seen[own] == 1 else f"{own} ({seen[own]})")
    twice = [name for name, count in seen.items() if count > 1]
    if twice:
        said.append(
            f"The name {twice[0]!r} stands {seen[twice[0]]} times: the others are numbered."
        )
    return tuple(found) if len(set(found)) == len(found) else tuple(distinct_names(found, []))


def has_header(rows: list[list[str]]) -> bool:
    """Say whether the first row holds names: not numbers above numbers, nor values seen below.

    Numbers above numbers are names if they count (0, 1, 2, ...) or if the texts beside
    them are not among those that recur below.

    Examples
    --------
    >>> has_header([["x", "class"], ["1", "a"]]), has_header([["2", "a"], ["1", "a"]])
    (True, False)
    """
    first, body = rows[0], [row for row in rows[1:] if len(row) == len(rows[0])]
    if not body:
        return not any(map(is_number, first))
    if _counting(first):
        return True
    pairs = list(zip(first, zip(*body, strict=True), strict=True))
    numeric = [cell for cell, below in pairs if _all_numbers(below[1:] or below)]
    texts = [(cell, below) for cell, below in pairs if not _all_numbers(below[1:] or below)]
    if not numeric:
        known = [cell in below for cell, below in _recurring(texts) or texts]
        return 2 * sum(known) < len(known)
    if any(map(_is_word, numeric)):
        return True
    recurring = _recurring(texts)
    return bool(recurring) and not any(cell in below for cell, below in recurring)


def _recurring(texts: list[tuple[str, tuple[str, ...]]]) -> list[tuple[str, tuple[str, ...]]]:
    return [(cell, below) for cell, below in texts if 2 * len(set(below)) <= len(below)]


def _counting(cells: list[str]) -> bool:
    """Say whether the cells are 0, 1, 2, ... or 1, 2, ... and perhaps a word: names after all."""
    digits = [cell for cell in cells if cell.isdecimal()]
    start = digits[:1] in (["0"], ["1"]) and int(digits[0])
    counted = [str(j + start) for j in range(len(digits))]
    return len(digits) >= max(3, len(cells) - 1) and cells[: len(digits)] == counted


def _all_numbers(cells: Sequence[str]) -> bool:
    present = [cell for cell in cells if not is_missing(cell)]
    return bool(present) and all(map(is_number, present))
