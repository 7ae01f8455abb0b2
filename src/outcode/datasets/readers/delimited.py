"""Delimited text: csv, tsv and their relatives. The layout is found here, pyarrow parses."""

from __future__ import annotations

import csv
import io
import re
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any

import pyarrow as pa
from pyarrow import csv as arrow_csv

from outcode.datasets.cells import MISSING, SAID, is_missing, is_number
from outcode.datasets.encodings import as_utf8
from outcode.datasets.readers import Found, Options, reader
from outcode.datasets.sources import BLOCK, Source
from outcode.datasets.table import DataError, Finding

DELIMITERS = {"\t": "tab", ";": "semicolon", "|": "bar", ",": "comma", " ": "blanks"}
WIDE = "  "  # cells two blanks or more apart, which may hold single blanks
ROLES = frozenset(["class", "meta", "ignore", "i", "weight"])  # in the third row of Orange's files
LONGEST_ROW = 32 * 2**20
#: Bytes parsed at a time, if no row is longer.
PARSED = 2**22
SAMPLE_ROWS = 200
SAMPLE_BYTES = 2**18
#: Beyond this share of rows of another width, the file is laid out in another way.
RAGGED = 0.05


@reader(".csv", ".tsv", ".tab")
def delimited(source: Source, options: Options) -> Found:
    """Read a table of text whose cells are separated by one character, or by blanks."""
    source, about = as_utf8(source, options.encoding)
    plan = planned(source, options)
    layout = plan.layout
    n_lines = max(source.data.count(b"\n"), source.data.count(b"\r")) - layout.skipped
    source.limits.table(n_lines, len(layout.names), source.name)
    found = plan.read(source.data, source.name)
    return replace(found, about=(*about, *layout.about))


def planned(source: Source, options: Options) -> Plan:
    """Return how a text in UTF-8 is laid out, from its first rows."""
    _refuse_endless(source)
    sample = _sample(source)
    delimiter = _one_character(options.delimiter) or sniff(sample)
    wide = delimiter == WIDE
    if wide:
        sample, delimiter = _sample(replace(source, data=_tabbed(source.data))), "\t"
    layout = lay_out(_rows(sample, delimiter), _said(delimiter))
    if not layout.names:
        raise DataError(f"{source.name} is empty: give a file with a header and rows.")
    return Plan(layout, delimiter, any(f'{delimiter} "' in line for line in sample), wide)


@dataclass(frozen=True)
class Plan:
    """How a file is laid out: names of the columns, delimiter, whether quotes follow blanks.

    In a ``wide`` file several blanks are the delimiter; they are read as a tab.
    """

    layout: Layout
    delimiter: str
    blanks: bool = False
    wide: bool = False

    def start(self, data: bytes) -> int:
        """Return the place of the first row of data."""
        at = 0
        for _ in range(self.layout.skipped):
            end = _LINE_END.search(data, at)
            at = len(data) if end is None else end.end()
        return at

    def read(self, data: bytes, name: str) -> Found:
        """Return the columns of a whole file."""
        return self.rows(memoryview(data)[self.start(data) :], name)

    def rows(self, body: memoryview, name: str, numbers: Collection[str] = ()) -> Found:
        """Return the columns of some rows; ``numbers`` are tried as plain numbers first."""
        body = self._cleaned(body)
        columns, findings = _plain(body, self, numbers), ()
        if columns is None:
            columns, findings = _parse(body, self.layout, self.delimiter, name)
        return Found(
            self.layout.names, columns, findings=findings, missing=SAID, comma=self.delimiter == ";"
        )

    def _cleaned(self, body: memoryview) -> memoryview:
        """Return the text as pyarrow takes it."""
        if self.wide:
            return memoryview(_tabbed(body))
        if self.delimiter == " ":
            return memoryview(re.sub(rb"[ \t]+", b" ", _trimmed(body)))
        if self.blanks:
            mark = self.delimiter.encode()
            return memoryview(re.sub(re.escape(mark) + rb' +"', mark + b'"', body))
        return body


_LINE_END = re.compile(rb"\r\n|\n|\r")


def _refuse_endless(source: Source) -> None:
    head = source.data[: LONGEST_ROW + 1]
    if len(head) > LONGEST_ROW and b"\n" not in head and b"\r" not in head:
        raise DataError(
            f"{source.name}: a line is longer than {LONGEST_ROW // 2**20} MiB: this is not a table "
            "of rows, or its line ends are lost."
        )


def _one_character(delimiter: str | None) -> str | None:
    if delimiter is not None and (len(delimiter) != 1 or delimiter in '"\r\n'):
        raise DataError(f"A delimiter is one character, got {delimiter!r}.")
    return delimiter


def _said(delimiter: str) -> str:
    return f"Cells are separated by {DELIMITERS.get(delimiter, repr(delimiter))}."


def _sample(source: Source) -> list[str]:
    """Return the first lines with their ends, the last one whole."""
    head = source.data[:SAMPLE_BYTES].decode("utf-8", errors="ignore")
    lines = list(islice(io.StringIO(head, newline=""), SAMPLE_ROWS))
    return lines[:-1] if len(lines) > 1 and len(source.data) > SAMPLE_BYTES else lines


@dataclass
class Row:
    """The cells of a row, and the line of the file after it."""

    cells: list[str]
    line: int


def _rows(lines: Sequence[str], delimiter: str) -> list[Row]:
    """Return the rows of the sample that are not blank; it may end inside a quoted cell."""
    fed = (" ".join(line.split()) for line in lines) if delimiter == " " else lines
    parsed = csv.reader(fed, delimiter=delimiter, skipinitialspace=True)
    rows: list[Row] = []
    with suppress(csv.Error):  # a cell may be longer than the csv module allows
        rows.extend(Row(row, parsed.line_num) for row in parsed if any(map(str.strip, row)))
    return rows or [Row(line.split(delimiter), i + 1) for i, line in enumerate(lines)]


def sniff(lines: Sequence[str]) -> str:
    r"""Return the delimiter that splits most lines alike, a comma if none does.

    Where several do, the one a text is least likely to hold: tab, semicolon, bar, comma.

    Examples
    --------
    >>> sniff(["x;y\n", "1,5;2,25\n"])
    ';'
    """
    best = max("\t;|,", key=lambda delimiter: _agreement(lines, delimiter))
    none = _agreement(lines, best) == (0.0, 0)
    if none or (best == "\t" and 2 * sum("  " in line for line in lines) > len(lines)):
        blanks = [way for way in (" ", WIDE) if _aligned(lines, way)]
        best = blanks[0] if blanks else "," if none else best
    return best


def _agreement(lines: Sequence[str], delimiter: str) -> tuple[float, int]:
    """Return the share of rows of the usual width, and that width; (0, 0) if it is one cell."""
    widths = Counter(len(row.cells) for row in _rows(lines, delimiter))
    if not widths:
        return 0.0, 0
    width, count = widths.most_common(1)[0]
    share = round(count / widths.total(), 1)
    return (0.0, 0) if width == 1 else (share, 0 if share == 1.0 else width)


def _aligned(lines: Sequence[str], way: str) -> bool:
    """Say whether blanks split all rows alike, into numbers too; a header may lack one cell."""
    if way == WIDE:
        lines, way = _tabbed("".join(lines).encode()).decode().splitlines(), "\t"
    rows = [row.cells for row in _rows(lines, way)]
    widths = {len(row) for row in rows[1:]}
    if len(widths) != 1 or widths == {1} or len(rows[0]) not in (width := max(widths), width - 1):
        return False
    return any(map(is_number, rows[-1]))


def _tabbed(data: Any) -> bytes:
    """Return the text with tabs for two blanks or more, none of them at the ends of lines."""
    return re.sub(rb"[ \t]{2,}", b"\t", _trimmed(data))


def _trimmed(data: Any) -> bytes:
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
    start = next(i for i, row in enumerate(rows) if len(row.cells) >= min(width, max(2, width - 1)))
    if start:
        said.append(f"The first {start} lines are a title, not rows.")
    first, body = rows[start].cells, [r.cells for r in rows[start + 1 :] if len(r.cells) == width]
    header = len(first) != width or has_header([first, *body])
    skipped = rows[start].line if header else rows[start - 1].line if start else 0
    if header:
        names = _fitted(_without_marks(first), width, body, said)
        for row in _second_headers(rows[start + 1 :], body):
            skipped = row.line
            said.append(f"Line {row.line} is a second header, not data: {', '.join(row.cells)}.")
        if any(map(is_number, names)):
            said.append("The first row is taken as names, though some of them are numbers.")
    else:
        names = [""] * width
        said.append(
            f"The first row looks like data, not names: the columns are named c1 to c{width}."
        )
    return Layout(_distinct(names, said), skipped, tuple(said), header)


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


def _distinct(names: list[str], said: list[str]) -> tuple[str, ...]:
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
    return tuple(found) if len(set(found)) == len(found) else tuple(_distinct(found, []))


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
        return not all(cell in below for cell, below in texts)
    if any(map(_is_word, numeric)):
        return True
    recurring = [(cell, below) for cell, below in texts if 2 * len(set(below)) <= len(below)]
    return bool(recurring) and not any(cell in below for cell, below in recurring)


def _counting(cells: list[str]) -> bool:
    """Say whether the cells are 0, 1, 2, ... or 1, 2, ... and perhaps a word: names after all."""
    digits = [cell for cell in cells if cell.isdecimal()]
    start = digits[:1] in (["0"], ["1"]) and int(digits[0])
    counted = [str(j + start) for j in range(len(digits))]
    return len(digits) >= max(3, len(cells) - 1) and cells[: len(digits)] == counted


def _all_numbers(cells: Sequence[str]) -> bool:
    present = [cell for cell in cells if not is_missing(cell)]
    return bool(present) and all(map(is_number, present))


# --- the rows, by pyarrow ---


def _plain(body: memoryview, plan: Plan, numbers: Collection[str]) -> Any:
    """Return the columns with these as plain numbers, None where a cell is not one."""
    if not numbers:
        return None
    names = plan.layout.names
    keys = [str(j) for j in range(len(names))]
    pairs = zip(keys, names, strict=True)
    try:
        return arrow_csv.read_csv(
            pa.BufferReader(body),
            arrow_csv.ReadOptions(column_names=keys, use_threads=False, block_size=PARSED),
            arrow_csv.ParseOptions(delimiter=plan.delimiter, newlines_in_values=True),
            arrow_csv.ConvertOptions(
                column_types={k: pa.float64() if n in numbers else pa.string() for k, n in pairs},
                null_values=sorted(MISSING),
            ),
        ).columns
    except pa.ArrowInvalid:
        return None


def _parse(body: memoryview, layout: Layout, delimiter: str, name: str) -> Any:
    """Return the columns as text and what was set aside.

    Where a quote is not closed and cells cannot hold the delimiter, quotes are characters.
    """
    if not bytes(body[:BLOCK]).strip():
        raise DataError(f"{name} has a header and no rows of data.")
    parsed = _Pass(layout, delimiter, name)
    found, fault = parsed.run(body, '"')
    if fault:
        parsed = _Pass(layout, delimiter, name)
        found, again = parsed.run(body, False)
        if again or parsed.ragged or delimiter == ",":
            raise DataError(fault)
    if not found.num_rows:
        raise DataError(f"{name} has a header and no rows of data.")
    return found.columns, parsed.findings(found.num_rows)


class _Pass:
    """One pass of pyarrow over the rows; those of another width are set aside."""

    def __init__(self, layout: Layout, delimiter: str, name: str) -> None:
        self.layout, self.delimiter, self.name = layout, delimiter, name
        self.ragged: list[Any] = []

    def run(self, body: memoryview, quote: str | bool) -> tuple[Any, str]:
        """Return the table of texts, and the fault if quotes make no sense."""
        try:
            found = self._read(body, quote, PARSED)
        except pa.ArrowInvalid as error:
            if "straddl" not in str(error):
                return None, self._malformed(str(error).splitlines()[0], 0)
            self.ragged.clear()
            try:
                found = self._read(body, quote, LONGEST_ROW)
            except pa.ArrowInvalid as longer:
                return None, self._malformed(str(longer).splitlines()[0], 0)
        return found, self._open_quote(found, body) if quote else ""

    def _read(self, body: memoryview, quote: str | bool, size: int) -> Any:
        keys = [str(j) for j in range(len(self.layout.names))]
        return arrow_csv.read_csv(
            pa.BufferReader(body),
            arrow_csv.ReadOptions(column_names=keys, use_threads=False, block_size=size),
            arrow_csv.ParseOptions(
                delimiter=self.delimiter, quote_char=quote, newlines_in_values=True,
                invalid_row_handler=self._set_aside,
            ),
            arrow_csv.ConvertOptions(column_types=dict.fromkeys(keys, pa.string())),
        )  # fmt: skip

    def _set_aside(self, row: Any) -> str:
        if row.actual_columns == 1 and not row.text.strip():
            return "skip"
        self.ragged.append(row)
        return "skip"

    def _open_quote(self, found: Any, body: memoryview) -> str:
        """Return the fault if a quote has taken in lines that are rows of their own."""
        for row in self.ragged[:10]:
            if row.text.count("\n") > 5:
                return self._malformed("a quote is not closed", row.number)
        if found.num_rows and bytes(body[-LONGEST_ROW:]).count(b'"') % 2:
            last = [str(column[-1]).strip() for column in found.columns]
            if any("\n" in cell or "\r" in cell for cell in last):
                return self._malformed("a quote is not closed", found.num_rows)
        return ""

    def _malformed(self, why: str, row: int) -> str:
        where = f", row {row} (line {self.layout.skipped + row})" if row else ""
        return (
            f"{self.name}{where}: {why}. A quote may be open or out of place: quote whole cells "
            'and write a quote inside a cell as "".'
        )

    def findings(self, n_rows: int) -> tuple[Finding, ...]:
        """Return what to say of rows of another width, or refuse them if they are many."""
        if not self.ragged:
            return ()
        first, many = self.ragged[0], len(self.ragged)
        width = len(self.layout.names)
        what = "the header has" if self.layout.header else "the first row has"
        where = f"row {first.number} (line {self.layout.skipped + first.number})"
        cells = f"found {first.actual_columns} cells, expected {width} as {what}"
        if many > max(1, RAGGED * n_rows):
            kind = DELIMITERS.get(self.delimiter, "delimiter")
            raise DataError(
                f"{self.name}, {where}: {cells}, and {many - 1} more such rows. A {kind} inside a "
                "cell needs quotes around the cell; a missing cell is left empty."
            )
        rows = "1 row is" if many == 1 else f"{many} rows are"
        return (Finding("OD015", f"{rows} set aside, first {where}: {cells}."),)
