"""A table of numeric and nominal columns, and a data set: a table with a label for each row."""

from __future__ import annotations

import difflib
import hashlib
import json
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
from scipy import sparse as sp

from outcode._checks import Array, lookup


class DataError(ValueError):
    """An error in the data; the message names the file, row and column, and what to do.

    Examples
    --------
    >>> from outcode.datasets import load
    >>> try:
    ...     load("iris", data_dir="nowhere")
    ... except DataError as error:
    ...     print(error)
    nowhere holds no datasets.json: it is not a data folder.
    """


@dataclass(frozen=True)
class Finding:
    """Something a user should know about the data; ``docs/data.md`` explains the codes.

    Parameters
    ----------
    code : str
        Code of the finding.
    message : str
        The finding in plain words.
    columns : tuple of str, default=()
        Names of the columns it is about.
    """

    code: str
    message: str
    columns: tuple[str, ...] = ()

    def __str__(self) -> str:
        return f"{self.code} {self.message}"


@dataclass(frozen=True, eq=False)
class Table:
    """Columns with names and kinds.

    A "numeric" column is float64, NaN where a cell is missing; a "date" column is datetime64[s];
    "nominal" (categories) and "text" columns are object arrays of str, None where a cell is
    missing.

    Parameters
    ----------
    names : tuple of str
        Names of the columns.
    kinds : tuple of str
        Kind of each column: "numeric", "date", "nominal" or "text".
    columns : tuple of ndarray, default=()
        The columns. A sparse table has none.
    sparse : sparse matrix of shape (n_rows, n_columns), default=None
        CSR matrix of the numbers of a sparse table, none of them missing.
    source : str, default=""
        Where the table came from; errors name it.
    marks : mapping of str to str
        Decimal and thousands marks of the columns that were read from text.

    Examples
    --------
    >>> table = Table(("x", "colour"), ("numeric", "nominal"),
    ...               (np.array([1.0, np.nan]), np.array(["red", None], dtype=object)))
    >>> table.n_rows, table.missing
    (2, 2)
    >>> table.select(["colour", "x"]).kinds
    ('nominal', 'numeric')
    """

    names: tuple[str, ...]
    kinds: tuple[str, ...]
    columns: tuple[Array, ...] = ()
    sparse: Any = None
    source: str = field(default="", compare=False)
    marks: Mapping[str, str] = field(default_factory=dict, compare=False)

    def __post_init__(self) -> None:
        widths = {len(self.names), len(self.kinds), self._width}
        if len(widths) > 1 or len({len(column) for column in self.columns}) > 1:
            raise ValueError(
                "A table needs one name and kind per column, and columns of one length."
            )
        distinct(self.names, self.source)

    @property
    def _width(self) -> int:
        return len(self.columns) if self.sparse is None else int(self.sparse.shape[1])

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        if self.sparse is not None:
            return int(self.sparse.shape[0])
        return len(self.columns[0]) if self.columns else 0

    @cached_property
    def missing(self) -> int:
        """Number of missing cells."""
        return sum(int(absent(column).sum()) for column in self.columns)

    def take(self, rows: Array) -> Table:
        """Return the table of some rows: indices, or a mask."""
        if self.sparse is not None:
            return replace(self, sparse=self.sparse[rows])
        return replace(self, columns=tuple(column[rows] for column in self.columns))

    def select(self, names: Iterable[str]) -> Table:
        """Return the columns of these names in this order; one that is missing is a DataError."""
        at = {name: j for j, name in enumerate(self.names)}
        wanted = tuple(names)
        if lacking := [name for name in wanted if name not in at]:
            raise self._lacks(lacking, set(wanted))
        order = [at[name] for name in wanted]
        kinds = tuple(self.kinds[j] for j in order)
        if self.sparse is not None:
            return replace(self, names=wanted, kinds=kinds, sparse=self.sparse[:, order])
        columns = tuple(self.columns[j] for j in order)
        return replace(self, names=wanted, kinds=kinds, columns=columns)

    def without(self, names: Iterable[str]) -> Table:
        """Return the table without the columns of these names."""
        out = set(names)
        return self.select(name for name in self.names if name not in out) if out else self

    def _lacks(self, names: list[str], wanted: set[str]) -> DataError:
        """Return the error that names the missing columns, and those they may be here."""
        known = self.names
        others = {name.strip().lower(): name for name in known if name not in wanted}
        pairs = [
            (name, difflib.get_close_matches(name.strip().lower(), others, n=1))
            for name in names[:5]
        ]
        near = ", ".join(f"{others[found[0]]!r} for {name!r}" for name, found in pairs if found)
        more = f" and {len(names) - 5} more" if len(names) > 5 else ""
        count = "Column" if len(names) == 1 else f"{len(names)} columns:"
        verb = "is" if len(names) == 1 else "are"
        shown = ", ".join(map(repr, known[:10])) + (", ..." if len(known) > 10 else "")
        return DataError(
            f"{prefix(self.source)}{count} {', '.join(map(repr, names[:5]))}{more} {verb} missing."
            f"{f' Did you mean {near}?' if near else ''} The columns are {shown}."
        )


def absent(column: Array) -> Array:
    """Return the mask of the missing cells of a column."""
    if column.dtype == object:
        return np.array([cell is None for cell in column.tolist()], dtype=bool)
    return np.isnan(column)  # NaT, too


def distinct(names: tuple[str, ...], source: str = "") -> None:
    """Refuse names that occur twice, with their positions."""
    if len(set(names)) == len(names):
        return
    twice = Counter(names).most_common(1)[0][0]
    places = [str(j + 1) for j, name in enumerate(names) if name == twice]
    shown = ", ".join(places[:5]) + (", ..." if len(places) > 5 else "")
    raise DataError(
        f"{prefix(source)}The column name {twice!r} occurs {len(places)} times (columns {shown}): "
        "give every column its own name."
    )


def unknown(name: str, known: tuple[str, ...], kind: str, source: str = "") -> DataError:
    """Return the error that lists what is known (the nearest ten of many) and guesses."""
    near = known if len(known) <= 40 else difflib.get_close_matches(name, known, n=10, cutoff=0.0)
    try:
        lookup(dict.fromkeys(near), name, kind)
    except ValueError as error:
        return DataError(f"{prefix(source)}{error}")
    raise AssertionError(f"{name!r} is known")


def prefix(source: str) -> str:
    """Return the beginning of a message about a file."""
    return f"{source}: " if source else ""


@dataclass(frozen=True, eq=False)
class Dataset:
    """A table and the class of each row.

    Parameters
    ----------
    name : str
        Name of the data set.
    table : Table or ndarray of shape (n_rows, n_columns)
        The features.
    y : ndarray of str of shape (n_rows,)
        The class of each row.
    split : ndarray of shape (n_rows,), default=None
        "train" or "test" for each row where the original files define it.
    source : str, default=""
        Where the data set came from, in words.
    hash : str, default=""
        The sha256 of the table and the labels, whatever the file's name and compression.
    findings : tuple of Finding, default=()
        What a user should know about the data.
    about : tuple of str, default=()
        Plain sentences on what was inferred.
    rest : object, default=None
        Further rows, in blocks, beside a table that is a sample of them.

    Examples
    --------
    >>> data = Dataset("tiny", np.array([[1.0, 2.0], [3.0, 4.0]]), np.array(["a", "b"]))
    >>> data.feature_names, data.X.shape, data.hash[:8]
    (('x0', 'x1'), (2, 2), 'a25c5d9f')
    """

    name: str
    table: Table
    y: Array
    split: Array | None = None
    source: str = ""
    hash: str = ""
    findings: tuple[Finding, ...] = ()
    about: tuple[str, ...] = ()
    rest: Any = None

    def __post_init__(self) -> None:
        if not isinstance(self.table, Table):
            object.__setattr__(self, "table", from_numbers(self.table))
        if len(self.y) != self.table.n_rows:
            raise ValueError(f"{len(self.y)} labels, but {self.table.n_rows} rows.")
        if not self.hash:
            object.__setattr__(self, "hash", content_hash(self.table, self.y))

    @cached_property
    def _encoded(self) -> tuple[Any, tuple[str, ...]]:
        if self.table.sparse is not None:
            return self.table.sparse, self.table.names
        triples = zip(self.table.names, self.table.kinds, self.table.columns, strict=True)
        parts = [_whole(name, kind, column) for name, kind, column in triples]
        return np.hstack([part for part, _ in parts]), tuple(n for _, names in parts for n in names)

    @property
    def X(self) -> Any:  # noqa: N802  # the papers' letter
        """All rows as numbers, at once: nominal columns one-hot (missing is a value of its own),
        missing numbers the median of the column, dates and text as :class:`TableEncoder` has them.
        To learn from some rows and predict others, fit a :class:`TableEncoder` on the first.
        """
        return self._encoded[0]

    @property
    def feature_names(self) -> tuple[str, ...]:
        """Names of the columns of X."""
        return self._encoded[1]


def _whole(name: str, kind: str, column: Array) -> tuple[Array, list[str]]:
    """Return a column as numbers, with their names."""
    if kind in ("date", "text"):
        from outcode.datasets.encoding import TableEncoder

        encoder = TableEncoder(scale=None).fit(Table((name,), (kind,), (column,)))
        table = Table((name,), (kind,), (column,))
        return encoder.transform(table), list(encoder.get_feature_names_out())
    if column.dtype == object:
        cells = np.array(["" if cell is None else cell for cell in column])
        values = np.unique(cells)
        matrix = (cells[:, None] == values).astype(np.float64)
        return matrix, [f"{name}={value or 'missing'}" for value in values.tolist()]
    holes = np.isnan(column)
    middle = np.median(column[~holes]) if not holes.all() else 0.0
    return np.where(holes, middle, column)[:, None], [name]


def from_numbers(X: Any) -> Table:
    """Return a 2-D array or sparse matrix of numbers as a table with the names x0, x1, ..."""
    if X.ndim != 2:
        raise DataError(
            f"Expected a table of rows and columns, got an array of shape {X.shape}. Reshape your "
            "data to (n_rows, n_columns)."
        )
    names = tuple(f"x{j}" for j in range(X.shape[1]))
    kinds = ("numeric",) * len(names)
    if sp.issparse(X):
        return Table(names, kinds, sparse=sp.csr_matrix(X, dtype=np.float64))
    return Table(names, kinds, tuple(np.asarray(X, dtype=np.float64).T.copy()))


def content_hash(table: Table, y: Array) -> str:
    """Return the sha256 (hex) of names, kinds, cells and labels, the same on every platform."""
    digest = hashlib.sha256(_json([table.names, table.kinds]))
    for column in table.columns:
        digest.update(_column_bytes(column))
    if table.sparse is not None:
        block = table.sparse.sorted_indices()
        for part, dtype in ((block.indptr, "<i8"), (block.indices, "<i8"), (block.data, "<f8")):
            digest.update(part.astype(dtype).tobytes())
    digest.update(_json(np.asarray(y).astype(str).tolist()))
    return digest.hexdigest()


def _column_bytes(column: Array) -> bytes:
    if column.dtype == object:
        return _json(column.tolist())
    if column.dtype.kind == "M":
        return column.astype("<i8").tobytes()
    # one NaN and one zero: their bits differ between platforms and parsers
    return np.where(np.isnan(column), np.nan, column + 0.0).astype("<f8").tobytes()


def _json(value: Any) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()
