"""Files as blocks: row groups of Parquet, parts of CSV; a file, a folder, a pattern or a list."""

from __future__ import annotations

import csv
import hashlib
import io
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from outcode._checks import Array
from outcode.datasets.cuts import Cut, cut, found_files, is_parquet, parquet, row_spans, text_spans
from outcode.datasets.table import DataError
from outcode.scale.sources import Block, BlockError, checked

SUFFIXES = (".csv", ".tsv", ".parquet", ".pq")


@dataclass(frozen=True)
class Part:
    """Read a part of a file: rows of a row group, or the bytes between two line ends."""

    cut: Cut
    target: str | None
    names: tuple[str, ...]

    @property
    def place(self) -> str:
        """Where the block comes from and what is read of it; changes when the file does."""
        wanted = repr((self.target, self.names)).encode()
        return f"{self.cut.place}#{hashlib.sha256(wanted).hexdigest()[:16]}"

    def __call__(self) -> Block:
        part = self.cut
        read = _parquet_columns if is_parquet(part.path) else _csv_columns
        empty = Block(np.empty((0, 0)), where=part.path, number=part.number, first=part.first)
        try:
            columns = read(self)
        except (OSError, ValueError) as problem:
            raise empty.error(f"cannot be read ({_line(problem)}).") from None
        self._same_columns(columns, empty)
        y = None if self.target is None else columns.pop(self.target)
        X = _numbers(columns, self.names, empty)
        return checked(Block(X, y, None, None, part.path, part.number, part.first))

    def _same_columns(self, columns: dict[str, Array], block: Block) -> None:
        wanted = {*self.names, *([] if self.target is None else [self.target])}
        if missing := sorted(wanted - set(columns)):
            raise block.error(f"column {missing[0]!r} is missing; the first file has it.")
        more = sorted(set(columns) - wanted)
        if more and self.target is not None:
            raise block.error(f"column {more[0]!r} is not in the first file.")
        for name in more:  # such as a target that nobody asked for
            columns.pop(name)


@dataclass(frozen=True)
class Files:
    """CSV and Parquet files with the same columns, as blocks."""

    parts: tuple[Part, ...]
    names: tuple[str, ...]

    def loaders(self) -> Iterator[Part]:
        """Return the parts, file after file."""
        return iter(self.parts)


def files(path: Any, target: str | None, names: tuple[str, ...] | None = None) -> Files:
    """Return the blocks of the files that ``path`` names: a file, folder, pattern or list of them.

    ``target`` is the column of the labels, None to read rows to predict, whose columns ``names``
    then are.
    """
    try:
        found = list(found_files(path, SUFFIXES))
    except DataError as problem:
        raise BlockError(str(problem)) from None
    if not found:
        raise BlockError(f"{path}: no CSV or Parquet file is there.")
    header = _names(found[0])
    if target is not None and target not in header:
        raise BlockError(f"{found[0]}: there is no column {target!r} (columns: {_list(header)}).")
    names = names or tuple(name for name in header if name != target)
    parts: list[Part] = []
    for file in found:
        parts += (Part(part, target, names) for part in cut(file, _spans(file), len(parts)))
    return Files(tuple(parts), names)


def _spans(path: str) -> Iterable[tuple[tuple[int, ...], int]]:
    """Return where each block begins and ends, and the rows before it."""
    try:
        if is_parquet(path):
            return list(row_spans(path))
        return list(text_spans(path)) or [((0, 0), 0)]  # without rows: its header may be wrong
    except (OSError, ValueError):
        return [((0, 0, 1), 0)]  # reading it will say what is wrong, once its turn comes


def _line(problem: Exception) -> str:
    return str(problem).splitlines()[0] if str(problem) else type(problem).__name__


def _list(names: Iterable[str]) -> str:
    shown = list(names)
    return ", ".join(shown[:10]) + (", ..." if len(shown) > 10 else "")


def _names(path: str) -> tuple[str, ...]:
    try:
        if is_parquet(path):
            return tuple(parquet().ParquetFile(path).schema_arrow.names)
        with open(path, newline="", encoding="utf-8-sig") as file:
            return tuple(next(csv.reader(file, delimiter=_delimiter(path)), ()))
    except (OSError, ValueError) as problem:
        raise BlockError(f"{path}: cannot be read ({_line(problem)}).") from None


# --- Parquet ---


def _parquet_columns(part: Part) -> dict[str, Array]:
    table = part.cut.arrow()
    return {name: _values(table.column(name)) for name in table.column_names}


def _values(column: Any) -> Array:
    import pyarrow as pa

    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    return np.asarray(column.to_numpy())


# --- CSV ---


def _delimiter(path: str) -> str:
    """Return the mark that separates most names of the first line."""
    with open(path, encoding="utf-8-sig") as file:
        return max(",;\t|", key=file.readline().count)


def _csv_columns(part: Part) -> dict[str, Array]:
    header, raw = _names(part.cut.path), part.cut.bytes()
    return _fast_csv(raw, header, part) or _plain_csv(raw.decode("utf-8"), header, part)


def _fast_csv(raw: bytes, header: tuple[str, ...], part: Part) -> dict[str, Array] | None:
    """Return the columns by pyarrow; None where it is not there or a cell is not as expected."""
    try:
        import pyarrow as pa
        from pyarrow import csv as arrow
    except ImportError:
        return None
    kinds = {name: pa.string() if name == part.target else pa.float64() for name in header}
    try:
        table = arrow.read_csv(
            pa.BufferReader(raw),
            read_options=arrow.ReadOptions(column_names=list(header), use_threads=False),
            parse_options=arrow.ParseOptions(
                delimiter=_delimiter(part.cut.path), newlines_in_values=True
            ),
            convert_options=arrow.ConvertOptions(column_types=kinds, strings_can_be_null=True),
        )
    except pa.ArrowException:
        return None
    return {name: _values(table.column(name)) for name in header}


def _plain_csv(text: str, header: tuple[str, ...], part: Part) -> dict[str, Array]:
    rows = list(csv.reader(io.StringIO(text), delimiter=_delimiter(part.cut.path)))
    rows = [row for row in rows if row]
    short = [i for i, row in enumerate(rows) if len(row) != len(header)]
    if short:
        raise ValueError(
            f"row {part.cut.first + short[0]} has {len(rows[short[0]])} cells, "
            f"the header {len(header)}"
        )
    cells = np.array(rows, dtype=object).reshape(len(rows), len(header))
    columns = {name: cells[:, j] for j, name in enumerate(header)}
    if part.target in columns:
        labels = columns[part.target]
        labels[labels == ""] = None
    return columns


def _numbers(columns: dict[str, Array], names: tuple[str, ...], block: Block) -> Array:
    """Return the columns as one float64 matrix, or an error that names column and row."""
    n = len(next(iter(columns.values()))) if columns else 0
    X = np.empty((n, len(names)))
    for j, name in enumerate(names):
        if columns[name].dtype.kind in "mM":
            raise block.error(
                f"column {name!r} holds dates, not numbers: leave it out, or use `outcode fit`, "
                f"which encodes them."
            )
        try:
            X[:, j] = columns[name]
        except (TypeError, ValueError):
            row, value = _no_number(columns[name])
            raise block.error(
                f"column {name!r} holds {value!r}, which is not a number.", row
            ) from None
    return X


def _no_number(column: Array) -> tuple[int, Any]:
    for i, value in enumerate(column.tolist()):
        try:
            float(value)
        except (TypeError, ValueError):
            return i, value
    return 0, column[0]
