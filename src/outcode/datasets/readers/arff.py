"""ARFF files, Weka's format: declared attributes, quoted cells, dense and sparse rows."""

from __future__ import annotations

import io
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any

import pyarrow as pa

from outcode.datasets.encodings import as_utf8
from outcode.datasets.layout import distinct_names
from outcode.datasets.readers import Found, Options, reader
from outcode.datasets.sources import Source
from outcode.datasets.table import DataError, unknown

#: Lines that KEEL's files have besides, which name columns declared before.
KEEL = ("@input", "@inputs", "@output", "@outputs")
CHUNK_ROWS = 50_000
CHUNK_CELLS = 1_000_000

_QUOTED = r"""'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*\""""
_CELL = re.compile(rf"\s*(?:({_QUOTED})|([^,]*))\s*(,|$)?", re.S)
_ENTRY = re.compile(rf"\s*(\d{{1,9}})\s+(?:({_QUOTED})\s*|([^,]*))(?:,|$)", re.S)
_ATTRIBUTE = re.compile(
    rf"@attribute\s+(?:({_QUOTED})\s*|([^\s{{]+)(?=[\s{{])\s*)(\S.*)$", re.I | re.S
)
_NUMBER = re.compile(r"[+-]?((\d+(\.\d*)?|\.\d+)([eE][+-]?\d+)?|inf(inity)?|nan)", re.I | re.A)
_ESCAPE = re.compile(r"\\(.)", re.S)
_WEIGHT = re.compile(r",\s*\{[\d.eE+-]+\}$")
_BLANKS = re.compile(rf"\s+(?=(?:[^'\"]|{_QUOTED})*$)")
_CONTROL = {"n": "\n", "t": "\t", "r": "\r"}


@dataclass(frozen=True)
class Attribute:
    """One declared column; ``values`` are those of a nominal one, None if any text will do."""

    name: str
    kind: str
    values: dict[str, str] | None = None

    @property
    def zero(self) -> float | str | None:
        """What a cell left out of a sparse row holds: 0, or the first declared value."""
        if self.kind == "numeric":
            return 0.0
        return next(iter(self.values), None) if self.values else None

    def array(self, cells: Sequence[Any]) -> Any:
        """Return cells as a pyarrow array; text is coded, so that a quoted NA stays a value."""
        if self.kind == "numeric":
            return pa.array(cells, pa.float64())
        words = pa.array(cells, pa.string())
        return words if self.kind == "date" else words.dictionary_encode()


_LOOKS = re.compile(rb"(?:\s|%[^\n]*\n)*@relation\b", re.I)


@reader(".arff", looks=lambda head: bool(_LOOKS.match(head)))
def arff(source: Source, options: Options) -> Found:
    """Read an ARFF file as columns of the declared kinds; only an unquoted ? is missing."""
    source, about = as_utf8(source, options.encoding)
    lines = _content(source)
    attributes = _header(lines, source)
    rows = _Rows(source.name, attributes)
    columns: list[list[Any]] = [[] for _ in attributes]
    size = max(1, min(CHUNK_ROWS, CHUNK_CELLS // len(attributes)))
    n_rows = 0
    while chunk := [rows.parse(line, number) for number, line in islice(lines, size)]:
        for parts, attribute, cells in zip(
            columns, attributes, zip(*chunk, strict=True), strict=True
        ):
            parts.append(attribute.array(cells))
        n_rows += len(chunk)
        source.limits.table(n_rows, len(attributes), source.name)
    if not n_rows:
        raise DataError(f"{source.name} has attributes and no rows of data.")
    kinds = {a.name: "nominal" for a in attributes if a.values is not None}
    whole = [pa.chunked_array(parts).unify_dictionaries() for parts in columns]
    return Found(tuple(a.name for a in attributes), whole, kinds, about, missing="?")


def _content(source: Source) -> Iterator[tuple[int, str]]:
    """Yield the lines that are neither blank nor comments, with their numbers."""
    text = io.TextIOWrapper(io.BytesIO(source.data), "utf-8-sig")
    for number, line in enumerate(text, 1):
        stripped = line.strip()
        if stripped and not stripped.startswith("%"):
            yield number, stripped


def _header(lines: Iterator[tuple[int, str]], file: Source) -> list[Attribute]:
    """Read the declarations up to @data."""
    found: list[Attribute] = []
    for number, line in lines:
        keyword = line.split(None, 1)[0].lower()
        if keyword == "@data":
            break
        if keyword == "@attribute":
            found.append(_attribute(line, f"{file.name}, line {number}"))
            file.limits.check("columns", len(found), file.name)
        elif keyword not in ("@relation", *KEEL):
            raise DataError(
                f"{file.name}, line {number}: expected @relation, @attribute or @data, found "
                f"{line[:40]!r}. Is this an ARFF file?"
            )
    else:
        raise DataError(f"{file.name} has no @data line: the file is cut off, or is not ARFF.")
    if len(found) < 2:
        raise DataError(f"{file.name} declares {len(found)} attributes: a table needs two or more.")
    names = distinct_names([attribute.name for attribute in found], [])
    return [replace(one, name=name) for one, name in zip(found, names, strict=True)]


def _attribute(line: str, where: str) -> Attribute:
    match = _ATTRIBUTE.match(line)
    if match is None:
        raise DataError(f"{where}: expected '@attribute name type', found {line[:60]!r}.")
    quoted, plain, declared = match.groups()
    name = unquoted(quoted) if quoted else plain
    word = re.split(r"[\s\[]", declared, maxsplit=1)[0].lower()  # KEEL has real[0.0, 1.0]
    if declared.startswith("{"):
        return Attribute(name, "nominal", _values(declared, where))
    if word in ("numeric", "real", "integer"):
        return Attribute(name, "numeric")
    if word in ("string", "date"):
        return Attribute(name, word)
    if word == "relational":
        raise DataError(
            f"{where}: attribute {name!r} is relational, a table inside a table, which is not read."
            " Flatten it into ordinary attributes first."
        )
    raise DataError(
        f"{where}: attribute {name!r} has the unknown type {declared[:40]!r}: expected numeric, "
        "real, integer, string, date or {a, b, ...}."
    )


def _values(declared: str, where: str) -> dict[str, str]:
    if not declared.endswith("}"):
        raise DataError(f"{where}: the list of values is not closed by a brace.")
    cells = split(declared[1:-1], where)
    return {cell: cell for cell in cells if cell is not None}


def unquoted(text: str) -> str:
    r"""Return a quoted text without its quotes and escapes.

    Examples
    --------
    >>> unquoted(r"'it\'s'")
    "it's"
    """
    return _ESCAPE.sub(lambda match: _CONTROL.get(match[1], match[1]), text[1:-1])


def split(line: str, where: str) -> list[str | None]:
    """Return the cells of a row between commas; an unquoted ? (or nothing) is missing.

    Examples
    --------
    >>> split("1, 'a, b', ?, '?'", "here")
    ['1', 'a, b', None, '?']
    """
    if not ("'" in line or '"' in line):
        cells = [cell.strip() for cell in line.split(",")]
        return [None if cell in ("?", "") else cell for cell in cells]
    found: list[str | None] = []
    at, more = 0, True
    while more:
        match: Any = _CELL.match(line, at)
        quoted, plain, end = match.groups()
        cell = unquoted(quoted) if quoted else plain.strip()
        if not quoted and cell.startswith(("'", '"')):
            raise DataError(f"{where}: the quote that opens at {cell[:30]!r} is not closed.")
        if end is None:
            raise DataError(f"{where}: expected a comma after the quoted cell {cell[:30]!r}.")
        found.append(None if not quoted and cell in ("?", "") else cell)
        at, more = match.end(), end == ","
    return found


@dataclass(frozen=True)
class _Rows:
    """Turns lines into rows of numbers and texts."""

    name: str
    attributes: list[Attribute]

    def parse(self, line: str, number: int) -> list[Any]:
        where = f"{self.name}, line {number}"
        if line.startswith("{"):
            return self._sparse(line, where)
        cells = split(self._plain(line), where)
        if len(cells) != len(self.attributes):
            raise DataError(
                f"{where}: expected {len(self.attributes)} cells, one for each attribute, found "
                f"{len(cells)}. Put quotes around a cell that holds a comma; a missing cell is '?'."
            )
        return [_cell(a, cell, where) for a, cell in zip(self.attributes, cells, strict=True)]

    def _plain(self, line: str) -> str:
        """Return a row without its weight, and with commas if blanks separate its cells."""
        line = _WEIGHT.sub("", line)
        return line if "," in line or len(self.attributes) < 2 else _BLANKS.sub(",", line)

    def _sparse(self, line: str, where: str) -> list[Any]:
        row = [attribute.zero for attribute in self.attributes]
        for index, cell in _entries(line, where):
            if index >= len(row):
                raise DataError(
                    f"{where}: index {index}, but the attributes are 0 to {len(row) - 1}."
                )
            row[index] = _cell(self.attributes[index], cell, where)
        return row


def _entries(line: str, where: str) -> Iterator[tuple[int, str | None]]:
    """Yield index and cell of the entries of a sparse row."""
    body = line[1:].rstrip()
    if not body.endswith("}"):
        raise DataError(f"{where}: the sparse row is not closed by a brace.")
    body, at = body[:-1].strip(), 0
    seen: set[int] = set()
    while at < len(body):
        match = _ENTRY.match(body, at)
        if match is None:
            raise DataError(
                f"{where}: expected 'index value' in the sparse row at {body[at:][:30]!r}."
            )
        index, plain = int(match[1]), (match[3] or "").strip()
        if index in seen:
            raise DataError(f"{where}: index {index} occurs twice in the sparse row.")
        seen.add(index)
        yield index, unquoted(match[2]) if match[2] else (None if plain in ("?", "") else plain)
        at = match.end()


def _cell(attribute: Attribute, cell: str | None, where: str) -> float | str | None:
    if attribute.kind == "numeric":
        if cell is None:
            return None
        if not _NUMBER.fullmatch(cell):
            raise DataError(
                f"{where}, column {attribute.name!r}: {cell[:40]!r} is not a number, but the "
                "attribute is numeric. A missing cell is '?'."
            )
        return float(cell)
    if cell is None or attribute.values is None:
        return cell
    if cell not in attribute.values:
        error = unknown(cell[:100], tuple(attribute.values), "value", where)
        raise DataError(f"{error} The attribute {attribute.name!r} declares its values.")
    return attribute.values[cell]
