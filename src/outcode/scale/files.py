"""Files as blocks: row groups of Parquet, parts of CSV; a file, a folder, a pattern or a list."""

from __future__ import annotations

import csv
import glob
import io
import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from outcode._checks import Array
from outcode.scale.sources import Block, BlockError, checked

#: Bytes of a CSV file read as one block.
PART_BYTES = 2**23
SUFFIXES = (".csv", ".tsv", ".parquet", ".pq")


@dataclass(frozen=True)
class Part:
    """Read a part of a file: a row group, or the bytes between two line ends."""

    path: str
    target: str | None
    names: tuple[str, ...]
    start: int
    stop: int
    first: int
    number: int
    stamp: int

    @property
    def place(self) -> str:
        """Where the block comes from, in words that change when the file does."""
        return f"{self.path}:{self.start}-{self.stop}@{self.stamp}"

    def __call__(self) -> Block:
        read = _parquet_columns if _is_parquet(self.path) else _csv_columns
        empty = Block(np.empty((0, 0)), where=self.path, number=self.number, first=self.first)
        try:
            columns = read(self)
        except (OSError, ValueError) as problem:
            raise empty.error(f"cannot be read ({_line(problem)}).") from None
        self._same_columns(columns, empty)
        y = None if self.target is None else columns.pop(self.target)
        X = _numbers(columns, self.names, empty)
        return checked(Block(X, y, None, None, self.path, self.number, self.first))

    def _same_columns(self, columns: dict[str, Array], block: Block) -> None:
        wanted = {*self.names, *([] if self.target is None else [self.target])}
        if missing := sorted(wanted - set(columns)):
            raise block.error(f"column {missing[0]!r} is missing; the first file has it.")
        if more := sorted(set(columns) - wanted):
            if self.target is None:
                columns.pop(more[0])  # a target that nobody asked for
                return self._same_columns(columns, block)
            raise block.error(f"column {more[0]!r} is not in the first file.")
        return None


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
    found = list(_found(path))
    if not found:
        raise BlockError(f"{path}: no CSV or Parquet file is there.")
    header = _names(found[0])
    if target is not None and target not in header:
        raise BlockError(f"{found[0]}: there is no column {target!r} (columns: {_list(header)}).")
    names = names or tuple(name for name in header if name != target)
    parts: list[Part] = []
    for file in found:
        stamp = os.stat(file).st_mtime_ns
        for start, stop, first in _cuts(file):
            parts.append(Part(file, target, names, start, stop, first, len(parts), stamp))
    return Files(tuple(parts), names)


def _found(path: Any) -> Iterator[str]:
    if not isinstance(path, str | os.PathLike):
        for one in path:
            yield from _found(one)
        return
    name = os.fspath(path)
    if Path(name).is_dir():
        inside = sorted(entry.path for entry in os.scandir(name))
        yield from (file for file in inside if _bare(file).endswith(SUFFIXES))
    elif glob.has_magic(name):
        yield from sorted(glob.glob(name))
    elif Path(name).exists():
        yield name
    else:
        raise BlockError(f"{name}: there is no such file.")


def _bare(path: str) -> str:
    return path.lower()


def _is_parquet(path: str) -> bool:
    return _bare(path).endswith((".parquet", ".pq"))


def _line(problem: Exception) -> str:
    return str(problem).splitlines()[0] if str(problem) else type(problem).__name__


def _list(names: Iterable[str]) -> str:
    shown = list(names)
    return ", ".join(shown[:10]) + (", ..." if len(shown) > 10 else "")


def _names(path: str) -> tuple[str, ...]:
    try:
        if _is_parquet(path):
            return tuple(_parquet().ParquetFile(path).schema_arrow.names)
        with open(path, newline="", encoding="utf-8") as file:
            return tuple(next(csv.reader(file, delimiter=_delimiter(path)), ()))
    except (OSError, ValueError) as problem:
        raise BlockError(f"{path}: cannot be read ({_line(problem)}).") from None


def _cuts(path: str) -> Iterator[tuple[int, int, int]]:
    """Yield where each block begins and ends, and its first row."""
    if not _is_parquet(path):
        yield from _csv_cuts(path)
        return
    try:
        about = _parquet().ParquetFile(path).metadata
    except (OSError, ValueError):
        yield 0, 1, 0  # reading it will say what is wrong, once its turn comes
        return
    first = 0
    for group in range(about.num_row_groups):
        yield group, group + 1, first
        first += about.row_group(group).num_rows


# --- Parquet ---


def _parquet() -> Any:
    try:
        from pyarrow import parquet
    except ImportError:
        raise BlockError(
            "Parquet files need the package pyarrow: pip install 'outcode[dask]'."
        ) from None
    return parquet


def _parquet_columns(part: Part) -> dict[str, Array]:
    with _parquet().ParquetFile(part.path) as file:
        table = file.read_row_group(part.start)
    return {name: _values(table.column(name)) for name in table.column_names}


def _values(column: Any) -> Array:
    import pyarrow as pa

    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    return np.asarray(column.to_numpy())


# --- CSV ---


def _delimiter(path: str) -> str:
    return "\t" if _bare(path).endswith(".tsv") else ","


def _csv_cuts(path: str) -> Iterator[tuple[int, int, int]]:
    """Yield bytes between line ends, about ``PART_BYTES`` each, and the rows before them."""
    with open(path, "rb") as file:
        file.readline()
        start, rows = file.tell(), 0
        while chunk := file.read(PART_BYTES):
            chunk += file.readline()
            yield start, start + len(chunk), rows
            start += len(chunk)
            rows += chunk.count(b"\n")


def _csv_columns(part: Part) -> dict[str, Array]:
    header = _names(part.path)
    with open(part.path, "rb") as file:
        file.seek(part.start)
        raw = file.read(part.stop - part.start)
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
            parse_options=arrow.ParseOptions(delimiter=_delimiter(part.path)),
            convert_options=arrow.ConvertOptions(column_types=kinds, strings_can_be_null=True),
        )
    except pa.ArrowException:
        return None
    return {name: _values(table.column(name)) for name in header}


def _plain_csv(text: str, header: tuple[str, ...], part: Part) -> dict[str, Array]:
    rows = list(csv.reader(io.StringIO(text), delimiter=_delimiter(part.path)))
    rows = [row for row in rows if row]
    short = [i for i, row in enumerate(rows) if len(row) != len(header)]
    if short:
        raise ValueError(
            f"row {part.first + short[0]} has {len(rows[short[0]])} cells, the header {len(header)}"
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
        try:
            X[:, j] = columns[name]
        except (TypeError, ValueError):
            row, value = _no_number(columns[name])
            raise block.error(
                f"column {name!r} holds {value!r}, which is no number.", row
            ) from None
    return X


def _no_number(column: Array) -> tuple[int, Any]:
    for i, value in enumerate(column.tolist()):
        try:
            float(value)
        except (TypeError, ValueError):
            return i, value
    return 0, column[0]
