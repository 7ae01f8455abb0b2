"""Delimited text: csv, tsv and their relatives. The layout is found here, pyarrow parses."""

from __future__ import annotations

import io
import re
from collections.abc import Collection
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any

import pyarrow as pa
from pyarrow import csv as arrow_csv

from outcode.datasets.cells import MISSING, SAID
from outcode.datasets.columns import count
from outcode.datasets.encodings import as_utf8
from outcode.datasets.layout import (
    DELIMITERS,
    WIDE,
    Layout,
    lay_out,
    quote_of,
    rows_of,
    sniff,
    tabbed,
    trimmed,
)
from outcode.datasets.readers import Found, Options, reader
from outcode.datasets.sources import BLOCK, Limits, Source
from outcode.datasets.table import DataError, Finding

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
    quote = quote_of(sample)
    delimiter = _one_character(options.delimiter) or sniff(sample, quote)
    wide = delimiter == WIDE
    if wide:
        sample, delimiter = _sample(replace(source, data=tabbed(source.data))), "\t"
    layout = lay_out(rows_of(sample, delimiter, quote), _said(delimiter))
    if not layout.names:
        raise DataError(f"{source.name} is empty: give a file with a header and rows.")
    blanks = any(f"{delimiter} {quote}" in line for line in sample)
    return Plan(layout, delimiter, quote, blanks, wide)


@dataclass(frozen=True)
class Plan:
    """How a file is laid out: columns, delimiter, quotes, and whether these follow blanks.

    In a ``wide`` file several blanks are the delimiter; they are read as a tab.
    """

    layout: Layout
    delimiter: str
    quote: str = '"'
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
            columns, findings = _parse(body, self, name)
        return Found(
            self.layout.names, columns, findings=findings, missing=SAID, comma=self.delimiter == ";"
        )

    def strictly(
        self, data: bytes, where: str, encoding: str | None, numbers: Collection[str]
    ) -> Found:
        """Return the columns of a part of a file, in which a row of another width is an error."""
        source, _ = as_utf8(Source(where, "", data, Limits()), encoding)
        found = self.rows(memoryview(source.data), where, numbers)
        if found.findings:
            raise DataError(f"{where}: {found.findings[0].message.partition(': ')[2]}")
        return found

    def _cleaned(self, body: memoryview) -> memoryview:
        """Return the text as pyarrow takes it."""
        if self.wide:
            return memoryview(tabbed(body))
        if self.delimiter == " ":
            return memoryview(re.sub(rb"[ \t]+", b" ", trimmed(body)))
        if self.blanks:
            mark, quote = self.delimiter.encode(), self.quote.encode()
            return memoryview(re.sub(re.escape(mark) + b" +" + quote, mark + quote, body))
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


# --- the rows, by pyarrow ---


def _table(body: memoryview, plan: Plan, quote: str, size: int, **options: Any) -> Any:
    """Return the rows as a table of pyarrow: of texts, unless other types are given."""
    keys = [str(j) for j in range(len(plan.layout.names))]
    types = dict.fromkeys(keys, pa.string()) | options.pop("types", {})
    return arrow_csv.read_csv(
        pa.BufferReader(body),
        arrow_csv.ReadOptions(column_names=keys, use_threads=False, block_size=size),
        arrow_csv.ParseOptions(
            delimiter=plan.delimiter, quote_char=quote or False, newlines_in_values=True,
            invalid_row_handler=options.pop("handler", None),
        ),
        arrow_csv.ConvertOptions(column_types=types, **options),
    )  # fmt: skip


def _plain(body: memoryview, plan: Plan, numbers: Collection[str]) -> Any:
    """Return the columns with these as plain numbers, None where a cell is not one."""
    if not numbers:
        return None
    types = {str(j): pa.float64() for j, name in enumerate(plan.layout.names) if name in numbers}
    try:
        missing = sorted(MISSING)
        return _table(body, plan, plan.quote, PARSED, types=types, null_values=missing).columns
    except pa.ArrowInvalid:
        return None


def _parse(body: memoryview, plan: Plan, name: str) -> Any:
    """Return the columns as text and what was set aside.

    Where a quote is not closed and cells cannot hold the delimiter, quotes are characters.
    """
    if not bytes(body[:BLOCK]).strip():
        raise DataError(f"{name} has a header and no rows of data.")
    parsed = _Pass(plan, name)
    found, fault = parsed.run(body, plan.quote)
    if fault:
        parsed = _Pass(plan, name)
        found, again = parsed.run(body, "")
        if again or parsed.ragged or plan.delimiter == ",":
            raise DataError(fault)
    if not found.num_rows:
        raise DataError(f"{name} has a header and no rows of data.")
    return found.columns, parsed.findings(found.num_rows)


class _Pass:
    """One pass of pyarrow over the rows; those of another width are set aside."""

    def __init__(self, plan: Plan, name: str) -> None:
        self.plan, self.layout, self.name = plan, plan.layout, name
        self.ragged: list[Any] = []

    def run(self, body: memoryview, quote: str) -> tuple[Any, str]:
        """Return the table of texts, and the fault if quotes make no sense."""
        for size in (PARSED, LONGEST_ROW):
            self.ragged.clear()
            try:
                found = _table(body, self.plan, quote, size, handler=self._set_aside)
            except pa.ArrowInvalid as error:
                fault = str(error).splitlines()[0]
                if size == LONGEST_ROW or "straddl" not in fault:
                    return None, self._malformed(fault, 0)
            else:
                return found, self._open_quote(found, body, quote) if quote else ""
        raise AssertionError("the larger size decides")

    def _set_aside(self, row: Any) -> str:
        if row.actual_columns == 1 and not row.text.strip():
            return "skip"
        self.ragged.append(row)
        return "skip"

    def _open_quote(self, found: Any, body: memoryview, quote: str) -> str:
        """Return the fault if a quote has taken in lines that are rows of their own."""
        for row in self.ragged[:10]:
            if row.text.count("\n") > 5:
                return self._malformed("a quote is not closed", row.number)
        if found.num_rows and bytes(body[-LONGEST_ROW:]).count(quote.encode()) % 2:
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
        what = "the header" if self.layout.header else "the first row"
        width = f"{what} has {len(self.layout.names)}"
        where = f"row {first.number} (line {self.layout.skipped + first.number})"
        n = first.actual_columns
        cells = f"{n} cell" if n == 1 else f"{n} cells"
        if many > max(1, RAGGED * n_rows):
            kind = DELIMITERS.get(self.plan.delimiter, "delimiter")
            raise DataError(
                f"{self.name}, {where} has {cells}, but {width}, and {many - 1} more such rows. A "
                f"{kind} inside a cell needs quotes around the cell; a missing cell is left empty."
            )
        message = f"{count(many, 'row')} ignored: {where} has {cells}, but {width}."
        return (Finding("OD015", message),)
