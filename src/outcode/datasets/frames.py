"""Tables from what people have in memory: frames, arrays, sparse matrices."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
from scipy import sparse as sp

from outcode._checks import Array
from outcode.datasets.cells import are_texts, column_of
from outcode.datasets.table import DataError, Table, distinct, from_numbers


def as_table(X: Any) -> Table:
    """Return a Table, a pandas or polars frame, a sparse matrix or a 2-D array as a table.

    Parameters
    ----------
    X : Table, data frame, sparse matrix or array-like of shape (n_rows, n_columns)
        The rows.

    Returns
    -------
    Table
        The same rows, with names and kinds of columns.

    Examples
    --------
    >>> as_table([[1.0, 2.0], [3.0, 4.0]]).names
    ('x0', 'x1')
    """
    if isinstance(X, Table):
        return X
    if hasattr(X, "columns"):
        return _from_frame(X)
    if sp.issparse(X):
        return from_numbers(X)
    rows = np.asarray(X)
    if rows.dtype.kind in "iufb" or rows.ndim != 2:
        return from_numbers(rows)
    if rows.dtype.kind == "c":
        raise DataError("Complex data not supported: give real numbers or text.")
    columns = tuple(column_of(column) for column in rows.astype(object).T)
    return table_of([f"x{j}" for j in range(rows.shape[1])], columns)


def _from_frame(frame: Any) -> Table:
    names = [str(name) for name in frame.columns]
    distinct(tuple(names))
    return table_of(names, tuple(column_of(frame[name].to_numpy()) for name in frame.columns))


def table_of(names: Iterable[str], columns: tuple[Array, ...], source: str = "") -> Table:
    """Return columns as a table, their kinds by their types."""
    return Table(tuple(names), tuple(map(_kind, columns)), columns, source=source)


def _kind(column: Array) -> str:
    if column.dtype == object:
        text = are_texts(dict.fromkeys(column.tolist()), len(column))
        return "text" if text else "nominal"
    return "date" if column.dtype.kind == "M" else "numeric"
