"""Workbooks (.xlsx, .xls, .ods), by python-calamine: one sheet is a table."""

from __future__ import annotations

import io
import re
import zipfile
from typing import Any

import python_calamine as calamine

from outcode.datasets.columns import listed
from outcode.datasets.readers import Found, Options, reader
from outcode.datasets.readers.delimited import Row, lay_out
from outcode.datasets.sources import BLOCK, Source
from outcode.datasets.table import DataError, unknown
from outcode.datasets.values import ValueColumns

SAMPLE_ROWS = 200
_REFERENCE = re.compile(rb"""\sr=["']([A-Z]{0,3})(\d{1,7})["']""")
#: Cells of a sheet that are within reach however small the file is.
AREA = 2_000_000


@reader(
    *(".xlsx", ".xlsm", ".xls", ".ods"),
    looks=lambda head: head.startswith((b"PK\x03\x04", b"\xd0\xcf\x11\xe0")),
    binary=True,
)
def workbook(source: Source, options: Options) -> Found:
    """Read a sheet: the first that holds rows, or the one asked for."""
    _refuse_wide(source)
    try:
        book = calamine.CalamineWorkbook.from_filelike(io.BytesIO(source.data))
        name, sheet = _chosen(book, options.sheet, source.name)
        rows = sheet.to_python(skip_empty_area=True)
    except (calamine.CalamineError, OSError, ValueError) as error:
        if isinstance(error, DataError):
            raise
        raise DataError(f"{source.name} is no workbook, or is damaged: {error}.") from None
    rows = [row for row in rows if any(cell != "" for cell in row)]
    if not rows:
        raise DataError(f"{source.name}: the sheet {name!r} is empty.")
    source.limits.table(len(rows), max(map(len, rows)), source.name)
    return _found(rows, source, _said(name, book.sheet_names))


def _said(name: str, names: list[str]) -> str:
    others = [other for other in names if other != name]
    more = f" The others are {listed(others)}." if others else ""
    return f"The sheet is {name!r}.{more}"


def _chosen(book: Any, sheet: str | int | None, file: str) -> tuple[str, Any]:
    names = book.sheet_names
    if sheet is None:
        found = ((name, book.get_sheet_by_name(name)) for name in names)
        return next(
            (pair for pair in found if pair[1].height > 1), (names[0], book.get_sheet_by_index(0))
        )
    if str(sheet) not in names and str(sheet).isdecimal() and int(sheet) < len(names):
        sheet = names[int(sheet)]
    if str(sheet) not in names:
        raise unknown(str(sheet), tuple(names), "sheet", file)
    return str(sheet), book.get_sheet_by_name(str(sheet))


def _found(rows: list[list[Any]], source: Source, said: str) -> Found:
    sample = [
        Row(["" if cell == "" else str(cell) for cell in row], i + 1)
        for i, row in enumerate(rows[:SAMPLE_ROWS])
    ]
    layout = lay_out(_titles_cut(sample), said)
    columns = ValueColumns(source)
    for row in rows[layout.skipped :]:
        cells = (None if cell == "" else cell for cell in row)
        columns.add(dict(zip(layout.names, cells, strict=True)))
    if not columns.n_rows:
        raise DataError(f"{source.name} has a header and no rows of data.")
    return Found(layout.names, columns.arrays(), about=layout.about, missing="empty")


def _titles_cut(sample: list[Row]) -> list[Row]:
    """Return the rows, those with one filled cell above a wider table as rows of one cell."""
    for row in sample:
        if len(row.cells) > 2 and sum(cell != "" for cell in row.cells) > 1:
            break
        row.cells = [cell for cell in row.cells if cell][:1]
    return sample


def _refuse_wide(source: Source) -> None:
    """Refuse a workbook with a cell so far out that the sheet would fill the memory."""
    if not source.data.startswith(b"PK"):
        return  # an old workbook has at most 65,536 rows of 256 cells
    with zipfile.ZipFile(io.BytesIO(source.data)) as archive:
        if "xl/workbook.bin" in archive.namelist():
            raise DataError(f"{source.name} is a binary workbook: save it as .xlsx.")
        for part in archive.namelist():
            if part.endswith(".xml"):
                with archive.open(part) as stream:
                    _check_extent(stream, source)


def _check_extent(stream: Any, source: Source) -> None:
    """Look for the farthest cell of a sheet, which may be far beyond those that are filled."""
    rows = columns = 1
    size, rest = 0, b""
    while block := stream.read(BLOCK):
        for letters, digits in _REFERENCE.findall(rest + block):
            rows, columns = max(rows, int(digits)), max(columns, _number(letters))
        size, rest = size + len(block), block[-64:]
    if rows * columns > AREA + size:
        raise DataError(
            f"{source.name}: a sheet reaches to row {rows}, column {columns}, but holds little: "
            "delete what is far from the table, or save it as CSV."
        )
    source.limits.table(rows, columns, source.name)


def _number(letters: bytes) -> int:
    """Return the column that letters stand for: A is 1, AA is 27."""
    number = 0
    for letter in letters:
        number = 26 * number + letter - 64
    return number
