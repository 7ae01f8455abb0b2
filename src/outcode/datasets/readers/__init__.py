"""Readers: one file per format, found by what is in this folder.

A reader is a function of a :class:`~outcode.datasets.sources.Source` and :class:`Options` that
returns what it :class:`Found`; the decorator :func:`reader` says which files it is for.
"""

from __future__ import annotations

import pkgutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any

from outcode._checks import Array
from outcode.datasets.sources import Source
from outcode.datasets.table import DataError, Finding


@dataclass(frozen=True)
class Options:
    """How a file is to be read, where what it shows would mislead, and what of it.

    Attributes
    ----------
    drop, keep : names of columns to leave out, or the only ones to keep
    types : kinds of columns by name: "number", "category", "date" or "text"
    sample : number of rows to draw, as many of each class as its share, always the same
    bins : number of classes of equal size into which a numeric target is cut
    encoding, delimiter : of a text file, if those found are wrong
    decimal, thousands : marks in numbers, if those found are wrong
    sheet : of a workbook, by name or by position from 0; a file of an archive, by name
    """

    drop: tuple[str, ...] = ()
    keep: tuple[str, ...] = ()
    types: Mapping[str, str] = field(default_factory=dict)
    sample: int | None = None
    bins: int | None = None
    encoding: str | None = None
    delimiter: str | None = None
    decimal: str | None = None
    thousands: str | None = None
    sheet: str | int | None = None

    def __post_init__(self) -> None:
        if self.decimal not in (None, ".", ","):
            raise DataError(f"The decimal mark is '.' or ',', got {self.decimal!r}.")
        if self.thousands is not None and (len(self.thousands) > 1 or self.thousands.isalnum()):
            raise DataError(f"The thousands mark is one character, got {self.thousands!r}.")
        if self.thousands and self.thousands == self.decimal:
            raise DataError(f"Decimals and thousands have the same mark, {self.decimal!r}.")
        for name, least in (("sample", 2), ("bins", 2)):
            if (value := getattr(self, name)) is not None and value < least:
                raise DataError(f"{name} is {value}: give at least {least}.")


@dataclass(frozen=True)
class Found:
    """What a reader found: columns as the file holds them, kinds yet to be inferred.

    Attributes
    ----------
    names : of the columns
    columns : pyarrow arrays of one length: text, numbers, booleans, dates
    kinds : of columns whose kind the format declares
    about : what was inferred, in plain sentences
    findings : what to look at
    missing : how the format writes a missing cell
    comma : whether numbers of the file may be expected to have a decimal comma
    sparse, labels : of a sparse file, the CSR matrix and the label of each row
    """

    names: tuple[str, ...]
    columns: list[Any]
    kinds: Mapping[str, str] = field(default_factory=dict)
    about: tuple[str, ...] = ()
    findings: tuple[Finding, ...] = ()
    missing: str = "empty"
    comma: bool = False
    sparse: Any = None
    labels: Array | None = None


Read = Callable[[Source, Options], Found]
Looks = Callable[[bytes], bool]


@dataclass(frozen=True)
class Reader:
    """A format: how its files' names end, how their first bytes look, and how they are read.

    The bytes of a ``binary`` format decide before the name does.
    """

    read: Read
    suffixes: tuple[str, ...]
    looks: Looks
    binary: bool


#: The readers by the names of their functions.
READERS: dict[str, Reader] = {}


def reader(
    *suffixes: str, looks: Looks = lambda head: False, binary: bool = False
) -> Callable[[Read], Read]:
    """Return a decorator that makes a function the reader of files whose names end so."""

    def enter(read: Read) -> Read:
        READERS[read.__name__] = Reader(read, suffixes, looks, binary)
        return read

    return enter


for _module in pkgutil.iter_modules(__path__):
    import_module(f"{__name__}.{_module.name}")


#: First bytes of files that hold no table we read, what they are, and what to do.
FOREIGN = {
    b"version https://git-lfs": (
        "a Git LFS pointer, not the file itself",
        "git lfs pull fetches it",
    ),
    b"<!doctype html": ("a web page", "fetch the file itself, often behind a link called raw"),
    b"<html": ("a web page", "fetch the file itself, often behind a link called raw"),
    b"insert into": ("SQL", "save the table as CSV"),
    b"create table": ("SQL", "save the table as CSV"),
    b"<?xml": ("XML", "save it as CSV"),
    b"%pdf": ("a PDF", "save the table as CSV"),
    b"sqlite format 3": ("an SQLite database", "save the table as CSV"),
    b"\x89hdf": ("an HDF5 file", "save the table as CSV or Parquet"),
    b"\x93numpy": ("a NumPy array", "save it as CSV with the class as a column"),
    b"\x80": ("a pickle, which can run any program", "save the table as CSV or Parquet"),
    b"rdx": ("R's data", "save the table by write.csv"),
    b"$fl2": ("an SPSS file", "save it as CSV"),
    b"<stata_dta>": ("a Stata file", "save it as CSV"),
    b"7z\xbc\xaf": ("a 7-Zip archive", "unpack it"),
    b"rar!": ("a RAR archive", "unpack it"),
}


def _refuse_foreign(source: Source, head: bytes) -> None:
    start = head.lstrip(b"\xef\xbb\xbf \t\r\n").lower()
    found = next((FOREIGN[magic] for magic in FOREIGN if start.startswith(magic)), None)
    if head[257:262] == b"ustar":
        found = "a tar archive", "unpack it"
    if found:
        raise DataError(f"{source.name} is {found[0]}: {found[1]}.")


def reader_of(source: Source) -> Read:
    """Return the reader of a file: by its first bytes, by its name, else as delimited text."""
    head = source.data[:4096]
    _refuse_foreign(source, head)
    for one in READERS.values():
        if one.binary and one.looks(head):
            return one.read
    for one in READERS.values():
        if source.suffix in one.suffixes:
            return one.read
    for one in READERS.values():
        if one.looks(head):
            return one.read
    return READERS["delimited"].read
