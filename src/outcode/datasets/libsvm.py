"""LIBSVM files: ``label index:value index:value ...``, indices from 1, what is not written is 0."""

from __future__ import annotations

from array import array
from math import isfinite

import numpy as np
from scipy import sparse as sp

from outcode._checks import Array
from outcode.datasets.cells import objects
from outcode.datasets.files import TextFile
from outcode.datasets.table import DataError, Table

DENSE_SHARE = 0.3
DENSE_CELLS = 2_000_000


def read(file: TextFile) -> tuple[Table, Array, tuple[str, ...]]:
    """Return the sparse table (columns f1, f2, ...), the labels as text, and what to say about it.

    A line without a label has the label None.
    """
    indices, values, ends, labels = array("q"), array("d"), array("q", [0]), []
    known: dict[str, str] = {}
    queries = 0
    for number, line in enumerate(file.lines(), 1):
        entries = line.partition("#")[0].split()
        if not entries:
            continue
        label = None if ":" in entries[0] else entries.pop(0).removeprefix("+")
        labels.append(None if label is None else known.setdefault(label, label))
        if entries and entries[0].startswith("qid:"):
            queries += 1
            del entries[0]
        _parse(entries, indices, values, f"{file.name}, line {number}")
        ends.append(len(values))
        file.limits.check("cells", len(values), file.name)
        file.limits.check("rows", len(labels), file.name)
        file.limits.check("sparse_columns", indices[-1] + 1 if indices else 0, file.name)
    if not values:
        raise DataError(f"{file.name} holds no 'index:value' entry: it is empty, or not LIBSVM.")
    said = (f"The query numbers (qid) of {queries} rows are not used.",) if queries else ()
    return _table(indices, values, ends, file.name), objects(labels), said


def _parse(entries: list[str], indices: array[int], values: array[float], where: str) -> None:
    """Add the entries of one line."""
    last = -1
    for entry in entries:
        index, colon, value = entry.partition(":")
        try:
            place, number = int(index) - 1, float(value)
        except ValueError:
            place, number, colon = 0, 0.0, ""
        if not colon or "_" in entry or not isfinite(number):
            raise DataError(
                f"{where}: expected 'index:value' with finite numbers, got {entry[:40]!r}."
            )
        if place < 0:
            raise DataError(f"{where}: index {place + 1}, but indices start at 1: add 1 to all.")
        if place <= last:
            raise DataError(
                f"{where}: index {place + 1} follows {last + 1}: they must increase along a line."
            )
        last = place
        indices.append(min(place, 2**62))
        values.append(number)


def _table(indices: array[int], values: array[float], ends: array[int], name: str) -> Table:
    columns = np.frombuffer(indices, dtype=np.int64)
    n_columns = int(columns.max()) + 1
    shape = (len(ends) - 1, n_columns)
    parts = (np.frombuffer(values), columns, np.frombuffer(ends, dtype=np.int64))
    names = tuple(f"f{j + 1}" for j in range(n_columns))
    block = sp.csr_matrix(parts, shape=shape)
    return Table(names, ("numeric",) * n_columns, sparse=block, source=name)


def dense_if_full(table: Table) -> Table:
    """Return the table with ordinary columns if it is small, or few of its cells are zero."""
    cells = table.n_rows * len(table.names)
    if cells > DENSE_CELLS and table.sparse.nnz < DENSE_SHARE * cells:
        return table
    columns = tuple(table.sparse.toarray().T.copy())
    return Table(table.names, table.kinds, columns, source=table.source)
