"""Files within limits: one quick pass counts bytes and lines before anything is parsed."""

from __future__ import annotations

import codecs
import difflib
import gzip
import io
import os
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import IO, cast

from outcode.datasets.table import DataError

BLOCK = 2**20
LONGEST_LINE = 32 * 2**20


@dataclass(frozen=True)
class Limits:
    """What a file may hold, after decompression; beyond it reading stops with an error.

    A small gzip file can hold gigabytes. ``cells`` counts rows times columns, or the numbers of a
    sparse file; ``sparse_columns`` is the largest feature index of a LIBSVM file.
    """

    bytes: int = 2 * 2**30
    rows: int = 5_000_000
    columns: int = 20_000
    classes: int = 1_000
    cells: int = 200_000_000
    sparse_columns: int = 1_000_000

    def check(self, what: str, count: int, name: str) -> None:
        """Refuse a count beyond the limit of that name."""
        allowed: int = getattr(self, what)
        if count > allowed:
            raise DataError(
                f"{name}: more than {allowed:,} {what.replace('_', ' ')}, the limit. Give a "
                f"smaller file, or raise the limit: Limits({what}=...)."
            )


@dataclass(frozen=True)
class TextFile:
    """A text file, plain or gzip, that has passed :func:`scan`."""

    path: Path
    encoding: str
    limits: Limits

    @property
    def name(self) -> str:
        """The file's name, for messages."""
        return self.path.name

    def lines(self) -> Iterator[str]:
        """Yield the lines with their ends."""
        try:
            with unpacked(self.path) as raw:
                text = io.TextIOWrapper(raw, encoding=self.encoding, newline="")
                yield from iter(partial(text.readline, LONGEST_LINE), "")
        except UnicodeDecodeError:
            raise self._undecodable() from None
        except (LookupError, UnicodeError) as error:
            raise DataError(f"{self.name}: encoding {self.encoding!r}: {error}.") from None

    def _undecodable(self) -> DataError:
        offset, line, byte = _first_fault(self.path, self.encoding)
        said = "UTF-8" if self.encoding == "utf-8-sig" else self.encoding
        return DataError(
            f"{self.name}, line {line}: byte {offset} (0x{byte:02x}) is not {said}. Save the file "
            "as UTF-8, or give its encoding (try encoding='latin-1')."
        )


def _first_fault(path: Path, encoding: str) -> tuple[int, int, int]:
    """Return offset, line and value of the first byte that cannot be decoded."""
    decoder = codecs.getincrementaldecoder(encoding.removesuffix("-sig"))()
    seen, line = 0, 1
    with unpacked(path) as raw:
        while True:
            block = raw.read(BLOCK)
            try:
                line += decoder.decode(block, final=not block).count("\n")
            except UnicodeDecodeError as error:
                kept = len(error.object) - len(block)
                line += error.object[: error.start].count(b"\n")
                return seen - kept + error.start, line, error.object[error.start]
            seen += len(block)
            if not block:
                raise AssertionError("the file changed while it was read")


@contextmanager
def unpacked(path: Path) -> Iterator[IO[bytes]]:
    """Open a file for reading bytes, through gzip if it is compressed; faults are DataErrors."""
    try:
        with path.open("rb") as plain:
            packed = plain.read(2) == b"\x1f\x8b"
            plain.seek(0)
            if packed:
                with gzip.GzipFile(fileobj=plain) as unzipped:
                    yield cast(IO[bytes], unzipped)
            else:
                yield plain
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise DataError(
            f"{path.name}: the gzip data is damaged or cut off ({error}): fetch the file again."
        ) from None
    except OSError as error:
        raise DataError(f"{path.name} cannot be read: {error.strerror or error}.") from None


def existing(path: str | os.PathLike[str]) -> Path:
    """Return the path of a file that exists, or an error that guesses the one meant."""
    given = Path(path)
    try:
        if given.is_file():
            return given
        beside = [p.name for p in given.parent.iterdir()] if given.parent.is_dir() else []
    except (OSError, ValueError) as error:
        raise DataError(f"{str(path)!r} cannot be read: {error}.") from None
    if given.is_dir():
        raise DataError(f"{given} is a folder: give one of its files.")
    near = difflib.get_close_matches(given.name, beside, n=1)
    hint = f" Did you mean {near[0]!r}?" if near else ""
    raise DataError(f"{given} does not exist.{hint}")


def scan(path: Path, limits: Limits, encoding: str | None = None) -> TextFile:
    """Count bytes and lines and look for what no text file holds, a block at a time."""
    with unpacked(path) as raw:
        head = raw.read(BLOCK)
        _refuse_other_formats(head, path.name)
        chosen = _encoding(head, encoding, path.name)
        wide = codecs.lookup(chosen).name.startswith(("utf-16", "utf-32"))
        # names and comments take lines too; rows are counted again when they are parsed
        budget = limits.rows + limits.columns + 1_000
        total = lines = run = 0
        block = head
        while block:
            _refuse_nul(block, total, path.name, wide)
            total += len(block)
            lines += max(block.count(b"\n"), block.count(b"\r"))
            last = max(block.rfind(b"\n"), block.rfind(b"\r"))
            run = run + len(block) if last < 0 else len(block) - last - 1
            limits.check("bytes", total, path.name)
            limits.check("rows", limits.rows if lines <= budget else lines, path.name)
            if run > LONGEST_LINE:
                raise DataError(
                    f"{path.name}: a line is longer than {LONGEST_LINE // 2**20} MiB: this is not "
                    "a table of rows, or its line ends are lost."
                )
            block = raw.read(BLOCK)
    if not head.strip(b"\xef\xbb\xbf \t\r\n"):
        raise DataError(f"{path.name} is empty: give a file with a header and rows.")
    return TextFile(path, chosen, limits)


def _refuse_nul(block: bytes, before: int, name: str, wide: bool) -> None:
    if wide or b"\0" not in block:
        return
    raise DataError(
        f"{name}: byte {before + block.index(0)} is NUL: this is not a text file in UTF-8. Save it "
        "as CSV in UTF-8, or give its encoding (try encoding='utf-16')."
    )


def _encoding(head: bytes, given: str | None, name: str) -> str:
    if given is None:
        wide = head.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))
        return "utf-16" if wide else "utf-8-sig"
    try:
        b"a".decode(given, errors="replace")
    except LookupError as error:
        raise DataError(
            f"{name}: {error}; known ones are utf-8, latin-1, cp1252, utf-16."
        ) from None
    return "utf-8-sig" if codecs.lookup(given).name == "utf-8" else given


_OTHERS = {
    b"PK\x03\x04": "a zip archive or an Excel workbook: unpack it, or save the sheet as CSV",
    b"\xd0\xcf\x11\xe0": "an old Excel workbook: save the sheet as CSV",
    b"PAR1": "a Parquet file: give it a name that ends in .parquet",
    b"\x89HDF": "an HDF5 file: export the table as CSV",
    b"%PDF": "a PDF: export the table as CSV",
    b"BZh": "compressed by bzip2: unpack it, or use gzip",
    b"\xfd7zXZ": "compressed by xz: unpack it, or use gzip",
    b"SQLite": "an SQLite database: export the table as CSV",
}


def _refuse_other_formats(head: bytes, name: str) -> None:
    for magic, what in _OTHERS.items():
        if head.startswith(magic):
            raise DataError(f"{name} is {what}.")
