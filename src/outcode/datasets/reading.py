"""Reading a file into a data set: the format by its name, the target, what is left out and why."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from outcode.datasets import arff, delimited, libsvm, parquet
from outcode.datasets.cells import SAID, as_nominal
from outcode.datasets.cleaning import Raw, finish
from outcode.datasets.files import Limits, existing, scan, unpacked
from outcode.datasets.frames import table_of
from outcode.datasets.table import DataError, Dataset, Table, unknown


def read(
    path: str | os.PathLike[str],
    target: str | int | None = None,
    *,
    drop: Iterable[str] = (),
    limits: Limits = Limits(),  # noqa: B008  # frozen
    encoding: str | None = None,
    delimiter: str | None = None,
) -> Dataset:
    """Read a table with the class of each row: csv, tsv, arff, libsvm (each also .gz), parquet.

    Parameters
    ----------
    path : the file
        The end of its name tells the format, else its first line does.
    target : column of the classes
        By name, or by position from 0 (negative from the end); None is the last column.
    drop : names of columns to leave out
    limits : Limits
        What the file may hold once decompressed.
    encoding, delimiter : of delimited text, if UTF-8 and what the first rows show are wrong

    Returns
    -------
    Dataset
        With ``about``, what was inferred, and ``findings``, what to look at.

    Raises
    ------
    DataError
        With file, row, column, the reason and what to do.
    """
    file = existing(path)
    raw = _READERS[_format(file)](_Request(file, target, tuple(drop), limits, encoding, delimiter))
    return finish(raw, limits)


def read_unlabelled(
    path: str | os.PathLike[str],
    *,
    limits: Limits = Limits(),  # noqa: B008  # frozen
    encoding: str | None = None,
    delimiter: str | None = None,
) -> Table:
    """Read rows to predict. Delimited cells stay text: a fitted encoder knows their kinds."""
    file = existing(path)
    kind = _format(file)
    if kind == "parquet":
        return parquet.table(file, limits)
    text = scan(file, limits, encoding)
    if kind == "libsvm":
        return libsvm.read(text)[0]
    if kind == "arff":
        return arff.read(text)
    laid = delimited.layout(text, delimiter)
    cells = delimited.columns(laid, text=range(len(laid.names)))
    return table_of(laid.names, tuple(cells), text.name)


@dataclass(frozen=True)
class _Request:
    """What the user asked for."""

    file: Path
    target: str | int | None
    drop: tuple[str, ...]
    limits: Limits
    encoding: str | None
    delimiter: str | None


_SUFFIXES = {".arff": "arff", ".parquet": "parquet", ".pq": "parquet"} | dict.fromkeys(
    (".libsvm", ".svm", ".svmlight", ".scale", ".t"), "libsvm"
)


# one way to match each text, so that a hostile file costs no time
_LIBSVM = re.compile(
    rb"(?:#[^\n]*\n)*[^\s:,;#]+(?:[ \t]+(?:\d+|qid):[^\s:,]+)+[ \t]*(?:#[^\n]*)?(?:[\r\n]|$)"
)
_ARFF = re.compile(rb"(?:\s|%[^\n]*\n)*@relation\b", re.I)


def _format(file: Path) -> str:
    """Return the format a file's name tells, else what its first line looks like."""
    suffix = Path(file.name.lower().removesuffix(".gz")).suffix
    if suffix in (".csv", ".tsv"):
        return "delimited"
    if suffix in _SUFFIXES:
        return _SUFFIXES[suffix]
    with unpacked(file) as raw:
        head = raw.read(4096)
    if _LIBSVM.match(head):
        return "libsvm"
    return "arff" if _ARFF.match(head) else "delimited"


def _delimited(request: _Request) -> Raw:
    text = scan(request.file, request.limits, request.encoding)
    laid = delimited.layout(text, request.delimiter)
    if len(laid.names) == 1:
        raise DataError(
            f"{text.name} has one column, {laid.names[0]!r}, when it is split at "
            f"{delimited.DELIMITERS.get(laid.delimiter, laid.delimiter)}: a table needs the class "
            "and at least one more column. The delimiter may be another: give it (delimiter=...)."
        )
    at, dropped = _places(laid.names, request, text.name)
    cells = delimited.columns(laid, skip=dropped, target=at)
    kept = [j for j in range(len(laid.names)) if j not in dropped]
    labels = cells.pop(kept.index(at))
    table = table_of([laid.names[j] for j in kept if j != at], tuple(cells), text.name)
    about = (*laid.about, *_said(laid.names, at))
    return Raw(text.name, table, labels, laid.names[at], SAID, about)


def _whole(request: _Request) -> Raw:
    """Split a table whose format tells the kinds of its columns."""
    if _format(request.file) == "parquet":
        table = parquet.table(request.file, request.limits)
    else:
        table = arff.read(scan(request.file, request.limits, request.encoding))
    at, dropped = _places(table.names, request, table.source)
    rest = [name for j, name in enumerate(table.names) if j != at and j not in dropped]
    labels = as_nominal(table.columns[at])
    mark = "null" if _format(request.file) == "parquet" else "?"
    said = _said(table.names, at)
    return Raw(table.source, table.select(rest), labels, table.names[at], mark, said)


def _sparse(request: _Request) -> Raw:
    if request.target is not None:
        raise DataError(
            f"{request.file.name}: a LIBSVM file has no column names; its target is the first "
            "entry of each line. Leave the target out."
        )
    text = scan(request.file, request.limits, request.encoding)
    table, labels, about = libsvm.read(text)
    out = {position(name, table.names, text.name, "column to drop") for name in request.drop}
    if out:
        table = table.select(name for j, name in enumerate(table.names) if j not in out)
    return Raw(text.name, libsvm.dense_if_full(table), labels, "label", "", about)


_READERS = {"delimited": _delimited, "arff": _whole, "parquet": _whole, "libsvm": _sparse}


def _places(names: tuple[str, ...], request: _Request, source: str) -> tuple[int, frozenset[int]]:
    at = position(request.target, names, source, "target")
    dropped = {position(name, names, source, "column to drop") for name in request.drop}
    if at in dropped:
        raise DataError(f"{source}: the target {names[at]!r} is among the columns to drop.")
    return at, frozenset(dropped)


def position(
    target: str | int | None, names: tuple[str, ...], source: str, kind: str = "target"
) -> int:
    """Return the position of a column given by name or position; None is the last."""
    if target is None:
        return len(names) - 1
    if isinstance(target, str):
        if target in names:
            return names.index(target)
        if not target.removeprefix("-").isdecimal():
            raise unknown(target, names, f"{kind} column" if kind == "target" else kind, source)
    place = int(target)
    if not -len(names) <= place < len(names):
        raise DataError(
            f"{source}: there is no column {place} for the {kind}: the {len(names)} columns are 0 "
            f"to {len(names) - 1}, or -1 for the last."
        )
    return place % len(names)


def _said(names: Sequence[str], at: int) -> tuple[str, ...]:
    last = ", the last column" if at == len(names) - 1 else ""
    return (f"The target is {names[at]!r}{last}.",)
