"""Files and standard input as bytes in memory: unpacked, and within limits at every block."""

from __future__ import annotations

import bz2
import difflib
import gzip
import io
import lzma
import os
import stat
import sys
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO, Any, cast

from outcode.datasets.table import DataError

BLOCK = 2**20
#: What a packed file may unpack to, however small it is.
SMALL = 64 * 2**20
STDIN = "standard input"
#: What a table beside a README in an archive is called.
TABLES = (".csv", ".tsv", ".tab", ".json", ".jsonl", ".xlsx", ".xls", ".parquet", ".arff")
#: What it may be called where none is.
PLAIN = (".data", ".dat", ".txt", ".libsvm", ".svm", ".gz", ".bz2", ".xz", ".zst")
_PAPERS = ("readme", "license", "licence", "index", "metadata", "description")


@dataclass(frozen=True)
class Limits:
    """What a file may hold, after decompression; beyond it reading stops with an error.

    Parameters
    ----------
    bytes : int, default=2147483648
        Largest size in bytes.
    rows : int, default=5000000
        Largest number of rows.
    columns : int, default=20000
        Largest number of columns.
    classes : int, default=1000
        Largest number of classes.
    cells : int, default=200000000
        Largest number of rows times columns, or of the numbers of a sparse file.
    sparse_columns : int, default=1000000
        Largest number of features of a LIBSVM file.
    ratio : int, default=64
        A packed file may unpack to 64 MiB, or to this many times its size.
    """

    bytes: int = 2 * 2**30
    rows: int = 5_000_000
    columns: int = 20_000
    classes: int = 1_000
    cells: int = 200_000_000
    sparse_columns: int = 1_000_000
    ratio: int = 64

    def check(self, what: str, count: int, name: str) -> None:
        """Refuse a count beyond the limit of that name."""
        allowed: int = getattr(self, what)
        if count > allowed:
            raise DataError(
                f"{name}: more than {allowed:,} {what.replace('_', ' ')}, the limit. Give a "
                f"smaller file, or raise the limit: Limits({what}=...)."
            )

    def table(self, rows: int, columns: int, name: str) -> None:
        """Refuse a table that is too large in any way."""
        self.check("rows", rows, name)
        self.check("columns", columns, name)
        self.check("cells", rows * columns, name)


@dataclass(frozen=True)
class Source:
    """The unpacked bytes of a file; ``name`` stands in messages, ``suffix`` may tell the format."""

    name: str
    suffix: str
    data: bytes
    limits: Limits


def opened(
    path: str | os.PathLike[str] | IO[bytes], limits: Limits, member: object = None
) -> Source:
    """Return what a file holds, or standard input for "-", unpacked as often as it is packed.

    Of an archive of several tables it is the one of the name ``member``.
    """
    stream: Any = sys.stdin.buffer if str(path) == "-" else path
    if hasattr(stream, "read"):
        source = Source(STDIN, "", _bounded(stream, limits.bytes, STDIN, limits), limits)
    else:
        source = _from_file(existing(stream), limits)
    for _ in range(3):  # a zip of a gzip file, but no quine
        inner = _unpacked(source, member)
        if inner is source:
            break
        source = inner
    return source


def _from_file(file: Path, limits: Limits) -> Source:
    try:
        with file.open("rb") as stream:
            limits.check("bytes", os.fstat(stream.fileno()).st_size, file.name)
            data = stream.read()
    except OSError as error:
        raise DataError(f"{file.name} cannot be read: {error.strerror or error}.") from None
    return Source(file.name, file.suffix.lower(), data, limits)


def _bounded(stream: IO[bytes], most: int, name: str, limits: Limits) -> bytes:
    """Read a stream in blocks and refuse it as soon as it is too long."""
    blocks: list[bytes] = []
    size = 0
    while block := stream.read(BLOCK):
        blocks.append(block)
        size += len(block)
        limits.check("bytes", size, name)
        if size > most:
            raise DataError(
                f"{name} unpacks to more than {limits.ratio} times its size, like a file made to "
                "fill the memory. If you trust it, unpack it first."
            )
    return b"".join(blocks)


def existing(path: str | os.PathLike[str]) -> Path:
    """Return the path of a regular file, or an error that guesses the one meant."""
    given = Path(path)
    try:
        mode = given.stat().st_mode
    except FileNotFoundError:
        near = difflib.get_close_matches(given.name, _beside(given), n=1)
        hint = f" Did you mean {near[0]!r}?" if near else ""
        raise DataError(f"{given} does not exist.{hint}") from None
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise DataError(f"{str(path)!r} cannot be read: {reason}.") from None
    if stat.S_ISDIR(mode):
        raise DataError(f"{given} is a folder: give one of its files.")
    if not stat.S_ISREG(mode):
        raise DataError(f"{given} is a pipe or a device, not a file: send it to '-' instead.")
    return given


def _beside(given: Path) -> list[str]:
    try:
        return [entry.name for entry in given.parent.iterdir()]
    except OSError:
        return []


# --- what is packed ---


def _zstandard(stream: IO[bytes]) -> IO[bytes]:
    import pyarrow as pa

    return cast(IO[bytes], pa.CompressedInputStream(pa.PythonFile(stream, mode="r"), "zstd"))


_PACKED: dict[bytes, tuple[str, Callable[[IO[bytes]], Any]]] = {
    b"\x1f\x8b": ("gzip", lambda stream: gzip.GzipFile(fileobj=stream)),
    b"BZh": ("bzip2", bz2.BZ2File),
    b"\xfd7zXZ\x00": ("xz", lzma.LZMAFile),
    b"\x28\xb5\x2f\xfd": ("zstandard", _zstandard),
}
_FAULTS = (
    *(EOFError, zlib.error, lzma.LZMAError, OSError, ValueError, zipfile.BadZipFile),
    *(NotImplementedError, RuntimeError, IndexError),
)


def is_packed(head: bytes) -> bool:
    """Return whether the first bytes are those of a packed file."""
    return head.startswith((*_PACKED, b"PK\x03\x04"))


def _unpacked(source: Source, member: object) -> Source:
    """Return what a packed file holds, or the source itself if it is not packed."""
    most = max(SMALL, source.limits.ratio * len(source.data))
    for magic, (how, unpack) in _PACKED.items():
        if source.data.startswith(magic):
            with _said_damaged(source.name, how), unpack(io.BytesIO(source.data)) as stream:
                data = _bounded(stream, most, source.name, source.limits)
            return replace(source, suffix=_inner_suffix(source.name), data=data)
    if source.data.startswith(b"PK\x03\x04"):
        return _from_zip(source, most, member)
    return source


def _inner_suffix(name: str) -> str:
    return Path(Path(name).stem).suffix.lower()


@contextmanager
def _said_damaged(name: str, how: str) -> Iterator[None]:
    try:
        yield
    except DataError:
        raise
    except _FAULTS as error:
        raise DataError(
            f"{name}: the {how} data is damaged or cut off ({error}): fetch the file again."
        ) from None


def _from_zip(source: Source, most: int, wanted: object) -> Source:
    """Return one file of a zip archive; a workbook, itself an archive, is only measured."""
    with _said_damaged(source.name, "zip"), zipfile.ZipFile(io.BytesIO(source.data)) as archive:
        members = [m for m in archive.infolist() if not m.is_dir() and not _chaff(m.filename)]
        inside = {member.filename for member in members}
        if inside & {"xl/workbook.xml", "xl/workbook.bin", "mimetype"}:
            _measured(archive, members, most, source)
            return source
        named = [member for member in members if member.filename == wanted]
        tables = named or _tables(members, TABLES) or _tables(members, PLAIN)
        members = tables if len(tables) == 1 else members
        if len(members) != 1:
            raise DataError(
                f"{source.name} is an archive of {len(members)} files: choose one by its name "
                "(sheet=...), or unpack it. It holds "
                f"{', '.join(sorted(inside)[:5]) or 'nothing'}."
            )
        with archive.open(members[0]) as stream:
            data = _bounded(stream, most, source.name, source.limits)
    return replace(source, suffix=Path(members[0].filename).suffix.lower(), data=data)


def _tables(members: list[Any], suffixes: tuple[str, ...]) -> list[Any]:
    """Return the files of an archive whose names say that they hold a table."""
    paths = [(member, Path(member.filename.lower())) for member in members]
    return [m for m, path in paths if path.suffix in suffixes and not path.stem.startswith(_PAPERS)]


def _chaff(name: str) -> bool:
    return name.startswith("__MACOSX/") or name.endswith(".DS_Store")


def _measured(archive: Any, members: list[Any], most: int, source: Source) -> None:
    """Unpack a workbook's parts once and forget them: sizes written in an archive may lie."""
    left = most
    for member in members:
        with archive.open(member) as stream:
            while block := stream.read(BLOCK):
                left -= len(block)
                if left < 0:
                    _bounded(io.BytesIO(bytes(1)), 0, source.name, source.limits)
