"""Tables of delimited text: csv, tsv and their relatives, read in chunks of rows."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import islice

import numpy as np

from outcode._checks import Array
from outcode.datasets.cells import (
    MISSING,
    MISSING_LABEL,
    is_missing,
    is_number,
    numbers,
    objects,
    texts,
)
from outcode.datasets.files import LONGEST_LINE, TextFile
from outcode.datasets.table import DataError, distinct

DELIMITERS = {"\t": "tab", ";": "semicolon", "|": "bar", ",": "comma", " ": "blanks"}
LONGEST_ROW = LONGEST_LINE
SAMPLE_ROWS = 200
SAMPLE_CHARACTERS = 2**18
CHUNK_CELLS = 100_000  # the strings of a chunk should fit the cache


@dataclass(frozen=True)
class Layout:
    """How the file is laid out: delimiter, column names, and whether its first row is a header."""

    file: TextFile
    delimiter: str
    names: tuple[str, ...]
    header: bool

    @property
    def about(self) -> tuple[str, ...]:
        """What was inferred, in words."""
        said = [f"Cells are separated by {DELIMITERS.get(self.delimiter, repr(self.delimiter))}."]
        if self.header and any(map(is_number, self.names)):
            said.append("The first row is taken as names, though some of them are numbers.")
        if not self.header:
            said.append(
                f"The first row looks like data, not names: the columns are named c1 to "
                f"c{len(self.names)}."
            )
        return tuple(said)

    def rows(self) -> Iterator[list[str]]:
        """Yield the rows of data, blank lines left out."""
        found = _filled(self._reader())
        return islice(found, int(self.header), None)

    def _reader(self) -> Parsed:
        return Parsed(self.file.lines(), self.delimiter)

    def line_of(self, row: int) -> int:
        """Return the line of the file on which a row (from 0) ends."""
        reader = self._reader()
        for _ in islice(_filled(reader), row + 1 + int(self.header)):
            pass
        return reader.line


class Parsed:
    """Rows of cells: quotes must close, blanks after a delimiter do not count.

    The csv module bounds a cell only by a setting of the whole process, which others change; an
    open quote would take the rest of the file into memory.
    """

    def __init__(self, lines: Iterable[str], delimiter: str) -> None:
        self.characters = 0
        fed = self._fed(lines, delimiter == " ")
        self.reader = csv.reader(fed, delimiter=delimiter, skipinitialspace=True, strict=True)

    def _fed(self, lines: Iterable[str], blanks: bool) -> Iterator[str]:
        for line in lines:
            self.characters += len(line)
            if self.characters > LONGEST_ROW:
                raise csv.Error(f"a row has more than {LONGEST_ROW:,} characters")
            yield " ".join(line.split()) if blanks else line

    def __iter__(self) -> Iterator[list[str]]:
        for row in self.reader:
            yield row
            self.characters = 0

    @property
    def line(self) -> int:
        """The line of the file reached so far."""
        return int(self.reader.line_num)


def _filled(rows: Iterable[list[str]]) -> Iterator[list[str]]:
    return (row for row in rows if len(row) > 1 or (row and row[0].strip()))


def layout(file: TextFile, delimiter: str | None = None) -> Layout:
    """Find the delimiter and the header from the first rows."""
    if delimiter is not None and (len(delimiter) != 1 or delimiter in '"\r\n'):
        raise DataError(f"A delimiter is one character, got {delimiter!r}.")
    sample = _sample(file)
    chosen = delimiter or sniff(sample)
    first = _first_rows(sample, chosen, file)
    if not first:
        raise DataError(f"{file.name} is empty: give a file with a header and rows.")
    file.limits.check("columns", len(first[0]), file.name)
    header = has_header(first)
    if header:
        names = tuple(cell.strip() or f"c{j + 1}" for j, cell in enumerate(first[0]))
    else:
        names = tuple(f"c{j + 1}" for j in range(len(first[0])))
    distinct(names, file.name)
    return Layout(file, chosen, names, header)


def _sample(file: TextFile) -> list[str]:
    taken: list[str] = []
    size = 0
    for line in islice(file.lines(), SAMPLE_ROWS):
        taken.append(line)
        size += len(line)
        if size > SAMPLE_CHARACTERS:
            break
    return taken


def _first_rows(lines: list[str], delimiter: str, file: TextFile) -> list[list[str]]:
    rows: list[list[str]] = []
    reader = Parsed(lines, delimiter)
    try:
        rows.extend(_filled(reader))
    except csv.Error as error:  # the sample may end inside a quoted cell
        if not rows and "unexpected end" not in str(error):
            raise _malformed(file.name, reader.line, error) from None
    return rows


def sniff(lines: Sequence[str]) -> str:
    r"""Return the delimiter that splits all lines alike, a comma if none does.

    Where several do, the one a text is least likely to hold: tab, semicolon, bar, comma.

    Examples
    --------
    >>> sniff(["x;y\n", "1,5;2,25\n"])
    ';'
    """
    best = max("\t;|,", key=lambda delimiter: _agreement(lines, delimiter))
    if _agreement(lines, best) > (0.0, 0):
        return best
    return " " if _clearly_blanks(lines) else ","


def _agreement(lines: Sequence[str], delimiter: str) -> tuple[float, int]:
    """Return the share of rows as wide as the first, and how wide; (0, 0) if it is one cell."""
    widths: list[int] = []
    with suppress(csv.Error):  # the sample may end inside a quoted cell
        widths.extend(len(row) for row in _filled(Parsed(lines, delimiter)))
    if not widths or widths[0] == 1:
        return 0.0, 0
    share = widths.count(widths[0]) / len(widths)
    return share, 0 if share == 1.0 else widths[0]


def _clearly_blanks(lines: Sequence[str]) -> bool:
    rows = [line.split() for line in lines if line.strip()]
    widths = {len(row) for row in rows}
    return len(rows) > 1 and len(widths) == 1 and widths != {1} and any(map(is_number, rows[-1]))


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
    numeric = [cell for cell, below in pairs if _all_numbers(below)]
    texts = [(cell, below) for cell, below in pairs if not _all_numbers(below)]
    if not numeric:
        return not all(cell in below for cell, below in texts)
    if any(not is_number(cell) and not is_missing(cell) for cell in numeric):
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


@dataclass
class _Pass:
    """One pass over the rows: numeric columns as numbers, until one turns out to be text."""

    layout: Layout
    text: frozenset[int]
    skip: frozenset[int]
    target: int | None
    parts: dict[int, list[Array]] = field(default_factory=dict)
    known: dict[int, dict[str, str]] = field(default_factory=dict)
    late: set[int] = field(default_factory=set)
    n_rows: int = 0

    def run(self) -> _Pass:
        for chunk in _chunks(self.layout):
            for j, cells in enumerate(zip(*chunk, strict=True)):
                if j not in self.skip and j not in self.late:
                    self._add(j, cells)
            self.n_rows += len(chunk)
            self._within_limits()
        return self

    def _add(self, j: int, cells: tuple[str, ...]) -> None:
        if j not in self.text and j not in self.known:
            values = numbers(cells)
            if values is not None:
                self.parts.setdefault(j, []).append(values)
                return
            if self.n_rows:  # its first rows are gone as text: read it again
                self.late.add(j)
                self.parts.pop(j)
                return
        known = self.known.setdefault(j, {})
        missing = MISSING_LABEL if j == self.target else MISSING
        self.parts.setdefault(j, []).append(objects(texts(cells, known, missing)))

    def _within_limits(self) -> None:
        limits, name = self.layout.file.limits, self.layout.file.name
        limits.check("rows", self.n_rows, name)
        limits.check("cells", self.n_rows * len(self.layout.names), name)
        # a text that occurs once takes some four times the memory of a number
        limits.check("cells", 4 * sum(map(len, self.known.values())), name)


def _chunks(layout: Layout) -> Iterator[list[list[str]]]:
    """Yield lists of rows, all of one width."""
    width = len(layout.names)
    size = max(1, CHUNK_CELLS // width)
    rows = layout.rows()
    done = 0
    while True:
        chunk: list[list[str]] = []
        try:
            chunk.extend(islice(rows, size))
        except csv.Error as error:
            raise _malformed_row(layout, done + len(chunk), error) from None
        if not chunk:
            return
        if set(map(len, chunk)) != {width}:
            raise _ragged(layout, chunk, done)
        yield chunk
        done += len(chunk)


def _ragged(layout: Layout, chunk: list[list[str]], done: int) -> DataError:
    width = len(layout.names)
    at = next(i for i, row in enumerate(chunk) if len(row) != width)
    row = done + at
    what = "the header has" if layout.header else "the first row has"
    return DataError(
        f"{layout.file.name}, row {row + 1} (line {layout.line_of(row)}): found {len(chunk[at])} "
        f"cells, expected {width} as {what}. A {DELIMITERS.get(layout.delimiter, 'delimiter')} "
        "inside a cell needs quotes around the cell; a missing cell is left empty."
    )


def _malformed_row(layout: Layout, row: int, error: csv.Error) -> DataError:
    reader = layout._reader()
    with suppress(csv.Error):
        for _ in reader:
            pass
    return _malformed(layout.file.name, reader.line, error, f" (after row {row})")


def _malformed(name: str, line: int, error: csv.Error, where: str = "") -> DataError:
    return DataError(
        f"{name}, line {line}{where}: {error}. A quote may be open or out of place: quote whole "
        'cells and write a quote inside a cell as "".'
    )


def columns(
    layout: Layout, *, text: Iterable[int] = (), skip: Iterable[int] = (), target: int | None = None
) -> list[Array]:
    """Return the columns that are not skipped, in order: float64 where all cells are numbers.

    Columns of ``text``, and the target, are read as text whatever they hold.
    """
    always = frozenset(text) | ({target} if target is not None else frozenset())
    first = _Pass(layout, always, frozenset(skip), target).run()
    if not first.n_rows:
        raise DataError(f"{layout.file.name} has a header and no rows of data.")
    parts = first.parts
    if first.late:
        others = frozenset(range(len(layout.names))) - first.late
        parts = {**parts, **_Pass(layout, frozenset(first.late), others, None).run().parts}
    return [np.concatenate(parts.pop(j)) for j in sorted(parts)]
