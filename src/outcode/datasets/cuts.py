"""Parts of files that can be read on their own: bytes between line ends, rows of a row group."""

from __future__ import annotations

import glob
import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from outcode.datasets.table import DataError

#: Bytes of text in one part.
PART_BYTES = 2**23
#: Rows of a row group in one part: pandas writes groups of a million rows.
PART_ROWS = 2**16
#: Bytes after which a quoted cell that does not end is taken for a stray quote.
LONGEST_CELL = 2**20
PARQUET = (".parquet", ".pq")


@dataclass(frozen=True)
class Cut:
    """A part of a file: ``span`` is bytes (start, stop), rows (row group, start, stop) or ().

    ``first`` are the rows of the file before it, ``number`` its place among all parts, and
    ``stamp`` the time at which the file was changed.
    """

    path: str
    span: tuple[int, ...]
    first: int
    number: int
    stamp: int

    @property
    def place(self) -> str:
        """Where it is, in words that change when the file does."""
        return f"{self.path}:{'-'.join(map(str, self.span))}@{self.stamp}"

    def bytes(self) -> bytes:
        """Return the text of the part."""
        with open(self.path, "rb") as file:
            file.seek(self.span[0])
            return file.read(self.span[1] - self.span[0])

    def arrow(self) -> Any:
        """Return the rows of a row group as a table of pyarrow."""
        group, start, stop = self.span
        return _row_group(self.path, group, self.stamp).slice(start, stop - start)


def found_files(path: Any, suffixes: Sequence[str]) -> Iterator[str]:
    """Yield the files that a name, folder, pattern or list of them stands for.

    Of a folder those whose names end in one of ``suffixes``, in the order of their names, without
    the ones that begin with a dot or an underscore.
    """
    if not isinstance(path, str | os.PathLike):
        for one in path:
            yield from found_files(one, suffixes)
        return
    name = os.fspath(path)
    if Path(name).is_dir():
        inside = sorted(entry.path for entry in os.scandir(name) if entry.name[0] not in "._")
        yield from (file for file in inside if file.lower().endswith(tuple(suffixes)))
    elif Path(name).exists():
        yield name
    elif glob.has_magic(name):
        yield from sorted(glob.glob(name, recursive=True))
    else:
        raise DataError(f"{name}: there is no such file.")


def is_parquet(path: str) -> bool:
    """Return whether a file's name says that it is Parquet."""
    return path.lower().endswith(PARQUET)


def parquet() -> Any:
    """Return the module that reads Parquet files."""
    try:
        from pyarrow import parquet
    except ImportError:
        raise DataError(
            "Parquet files need the package pyarrow: pip install 'outcode[dask]'."
        ) from None
    return parquet


def row_spans(path: str) -> Iterator[tuple[tuple[int, ...], int]]:
    """Yield (row group, first row, last row) of a Parquet file, and the rows before them."""
    with parquet().ParquetFile(path) as file:
        sizes = [file.metadata.row_group(i).num_rows for i in range(file.metadata.num_row_groups)]
    before = 0
    for group, size in enumerate(sizes):
        for start in range(0, size, PART_ROWS):
            yield (group, start, min(start + PART_ROWS, size)), before + start
        before += size


@lru_cache(maxsize=2)
def _row_group(path: str, group: int, stamp: int) -> Any:
    """Read a row group; its parts are asked for one after the other."""
    with parquet().ParquetFile(path) as file:
        return file.read_row_group(group)


def text_spans(path: str, start: int | None = None) -> Iterator[tuple[tuple[int, ...], int]]:
    """Yield bytes between line ends, about ``PART_BYTES`` each, and the rows before them.

    ``start`` is where the rows begin, by default after the first line. A part does not end inside
    a quoted cell.
    """
    with open(path, "rb") as file:
        if start is None:
            file.readline()
            start = file.tell()
        file.seek(start)
        rows = 0
        while chunk := file.read(PART_BYTES):
            chunk = _whole_rows(chunk + file.readline(), file)
            yield (start, start + len(chunk)), rows
            start += len(chunk)
            rows += chunk.count(b"\n")


def _whole_rows(chunk: bytes, file: Any) -> bytes:
    """Return the part with the lines that close the quote it ends in, if they come soon."""
    if chunk.count(b'"') % 2 == 0:
        return chunk
    place, more = file.tell(), b""
    while len(more) < LONGEST_CELL and (line := file.readline()):
        more += line
        if line.count(b'"') % 2:
            return chunk + more
    file.seek(place)
    return chunk


def cut(path: str, spans: Iterable[tuple[tuple[int, ...], int]], number: int) -> Iterator[Cut]:
    """Yield the parts of a file, numbered from ``number`` on."""
    try:
        stamp = os.stat(path).st_mtime_ns
    except OSError:
        stamp = 0  # reading it will say what is wrong
    for i, (span, first) in enumerate(spans):
        yield Cut(path, span, first, number + i, stamp)
