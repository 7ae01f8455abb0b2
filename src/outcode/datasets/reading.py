"""Reading a file into a data set: the target, the kinds, what is left out and why."""

from __future__ import annotations

import os
from dataclasses import replace
from typing import IO, TYPE_CHECKING, Any

import numpy as np
from scipy import sparse as sp

from outcode.datasets.cleaning import Raw, finish
from outcode.datasets.sources import Limits, opened
from outcode.datasets.table import DataError, Dataset, Table, unknown
from outcode.datasets.targets import as_labels, guessed, in_bins, sampled

if TYPE_CHECKING:
    from outcode.datasets.readers import Found, Options

DENSE_SHARE = 0.3
DENSE_CELLS = 2_000_000
#: Beyond so many different labels a target is looked at as a number.
MANY_CLASSES = 20


def read(
    path: str | os.PathLike[str],
    target: str | int | None = None,
    *,
    limits: Limits = Limits(),  # noqa: B008  # frozen
    **options: Any,
) -> Dataset:
    """Read a table with the class of each row.

    Delimited text, JSON, workbooks, Parquet, Feather, ARFF and LIBSVM, each also packed by gzip,
    bzip2, xz, zstandard or as the one file of a zip archive.

    Parameters
    ----------
    path : the file, or "-" for standard input
        Its first bytes or the end of its name tell the format.
    target : column of the classes
        By name, or by position from 0 (negative from the end). None is the one column with a name
        like "class", "target" or "label", else the last.
    limits : Limits
        What the file may hold once unpacked.
    **options : of :class:`~outcode.datasets.readers.Options`
        ``drop``, ``keep``, ``types``, ``sample``, ``bins``, ``encoding``, ``delimiter``,
        ``decimal``, ``thousands``, ``sheet``.

    Returns
    -------
    Dataset
        ``about`` describes what was detected, ``findings`` possible problems.

    Raises
    ------
    DataError
        With file, row, column, the reason and what to do.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder, "plants.csv")
    ...     _ = path.write_text("height,colour,class\\n1.5,red,a\\n2.5,blue,b\\n3.5,red,a\\n")
    ...     data = read(path)
    >>> data.table.names, data.y.tolist()
    (('height', 'colour'), ['a', 'b', 'a'])
    """
    name, found, chosen = _found(path, limits, options)
    data = labelled(name, found, target, chosen, limits)
    return data if chosen.sample is None else sampled(data, chosen.sample)


def labelled(
    name: str, found: Found, target: str | int | None, options: Options, limits: Limits
) -> Dataset:
    """Return what a reader found in a file of this name as a table with the class of each row."""
    raw = _sparse(name, found, target, options) if found.sparse is not None else None
    raw = raw or _dense(name, found, target, options)
    if options.bins is not None:
        raw = replace(raw, **in_bins(raw.labels, options.bins, raw.name, raw.target, raw.about))
    return finish(raw, limits)


def read_unlabelled(
    path: str | os.PathLike[str] | IO[bytes],
    *,
    limits: Limits = Limits(),  # noqa: B008  # frozen
    **options: Any,
) -> Table:
    """Read rows to predict.

    Cells of text stay text: a fitted encoder knows their kinds.

    Parameters
    ----------
    path : str, path-like or binary file
        The file to read.
    limits : Limits
        What the file may hold once unpacked.
    **options : dict
        Options of :class:`~outcode.datasets.readers.Options`, as in :func:`read`.

    Returns
    -------
    Table
        The rows.

    Examples
    --------
    >>> import io
    >>> read_unlabelled(io.BytesIO(b"height,colour\\n1.5,red\\n2.5,blue\\n")).names
    ('height', 'colour')
    """
    from outcode.datasets.kinds import as_text

    name, found, _ = _found(path, limits, options)
    if found.sparse is not None:
        kinds = ("numeric",) * len(found.names)
        return Table(found.names, kinds, sparse=found.sparse, source=name)
    return as_text(found, name)


def _found(
    path: str | os.PathLike[str] | IO[bytes], limits: Limits, options: dict[str, Any]
) -> tuple[str, Found, Options]:
    """Return the file's name, what its reader found, and the options."""
    try:
        from outcode.datasets.readers import Options, reader_of
    except ImportError as error:
        raise DataError(
            f'Reading files needs the package {error.name}: pip install "outcode[app]".'
        ) from None
    known = Options.__dataclass_fields__
    if wrong := [name for name in options if name not in known]:
        raise TypeError(f"Unknown option {wrong[0]!r}: the options are {', '.join(known)}.")
    chosen = Options(**options)
    source = opened(path, limits, chosen.sheet)
    if not source.data.strip(b"\xef\xbb\xbf \t\r\n"):
        raise DataError(f"{source.name} is empty: give a file with a header and rows.")
    found = reader_of(source)(source, chosen)
    return source.name, found, chosen


def _dense(name: str, found: Found, target: str | int | None, options: Options) -> Raw:
    """Split what was found into the target and the columns to learn from."""
    from outcode.datasets.kinds import as_table, labels_of, quantities

    if len(found.names) == 1:
        raise DataError(
            f"{name} has one column, {found.names[0]!r}: a table needs the class and at least one "
            f"more column. {' '.join(found.about)}"
            + " If another character separates the cells, give it (delimiter=...)."
            * any("separated" in said for said in found.about)
        )
    at, said = (
        guessed(found.names, found.columns)
        if target is None
        else (position(target, found.names, name), "")
    )
    kept = _kept(found.names, at, options, name)
    labels = labels_of(found.columns[at])
    if options.bins or len(set(labels.tolist())) > MANY_CLASSES:
        numbers = quantities(found.columns[at], found, options)
        labels = labels if numbers is None else as_labels(numbers)
    rest = replace(
        found,
        names=tuple(found.names[j] for j in kept),
        columns=[found.columns[j] for j in kept],
    )
    found.columns.clear()
    table, about, strays = as_table(rest, options, name)
    last = ", the last column" if at == len(found.names) - 1 and not said else ""
    chosen = f"The target is {found.names[at]!r}{last}{said}."
    return Raw(
        name, table, labels, found.names[at], found.missing, (*found.about, chosen, *about),
        (*found.findings, *strays),
    )  # fmt: skip


def _kept(names: tuple[str, ...], at: int, options: Options, source: str) -> list[int]:
    """Return the positions of the columns to learn from."""
    dropped = {position(name, names, source, "column to drop") for name in options.drop}
    if at in dropped:
        raise DataError(f"{source}: the target {names[at]!r} is among the columns to drop.")
    wanted = {position(name, names, source, "column to keep") for name in options.keep}
    for name in options.types:
        position(name, names, source, "column of a type")
    chosen = wanted or set(range(len(names)))
    return [j for j in range(len(names)) if j in chosen and j not in dropped and j != at]


def _sparse(name: str, found: Found, target: str | int | None, options: Options) -> Raw:
    if target is not None:
        raise DataError(
            f"{name}: a LIBSVM file has no column names; its target is the first entry of each "
            "line. Leave the target out."
        )
    kept = _kept(found.names, -1, options, name)
    names = tuple(found.names[j] for j in kept)
    block = found.sparse if len(kept) == len(found.names) else found.sparse[:, kept]
    table = Table(names, ("numeric",) * len(names), sparse=block, source=name)
    labels = found.labels if found.labels is not None else np.empty(0, object)
    return Raw(name, _dense_if_full(table), labels, "label", "", found.about)


def _dense_if_full(table: Table) -> Table:
    """Return the table with ordinary columns if it is small, or few of its cells are zero."""
    cells = table.n_rows * len(table.names)
    if cells > DENSE_CELLS and table.sparse.nnz < DENSE_SHARE * cells:
        return table
    return replace(
        table, columns=tuple(sp.csr_matrix(table.sparse).toarray().T.copy()), sparse=None
    )


def position(target: str | int, names: tuple[str, ...], source: str, kind: str = "target") -> int:
    """Return the position of a column given by name or position."""
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
