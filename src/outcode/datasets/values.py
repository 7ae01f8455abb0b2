"""Columns from Python values, as JSON gives them: numbers, flags and texts, chunk by chunk."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from outcode.datasets.cells import text_of
from outcode.datasets.sources import Source

CHUNK = 10_000


class ValueColumns:
    """Collects records; a column that a record lacks is missing there."""

    def __init__(self, source: Source) -> None:
        self.source = source
        self.n_rows = 0
        self._names: dict[str, None] = {}
        self._rows: list[dict[str, Any]] = []
        self._chunks: list[dict[str, Any]] = []

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the columns, in the order in which they came up."""
        return tuple(self._names)

    def add(self, record: dict[str, Any]) -> None:
        """Add one row."""
        self.n_rows += 1
        self._rows.append(record)
        if not record.keys() <= self._names.keys():
            self._names |= dict.fromkeys(record)
            self.source.limits.table(self.n_rows, len(self._names), self.source.name)
        if len(self._rows) == CHUNK:
            self._close()

    def _close(self) -> None:
        """Turn the chunk of rows collected so far into arrays."""
        self.source.limits.table(self.n_rows, len(self._names), self.source.name)
        rows, self._rows = self._rows, []
        self._chunks.append({name: typed([row.get(name) for row in rows]) for name in self._names})

    def arrays(self) -> list[Any]:
        """Return the columns, each of one type."""
        self._close()
        sizes = [len(next(iter(chunk.values()), ())) for chunk in self._chunks]
        pairs = list(zip(self._chunks, sizes, strict=True))
        return [_joined([chunk.pop(n, pa.nulls(k)) for chunk, k in pairs]) for n in self._names]


def typed(cells: list[Any]) -> Any:
    """Return values as an array of numbers or flags if they are all such, else of text."""
    kinds = {type(cell) for cell in cells} - {type(None)}
    if kinds <= {int, float}:
        return pa.array([None if cell is None else _real(cell) for cell in cells], pa.float64())
    if kinds == {bool}:
        return pa.array(cells, pa.bool_())
    return pa.array(map(text_of, cells), pa.string())


def _real(value: float) -> float:
    try:
        return float(value)
    except OverflowError:
        return float("inf")


def _joined(chunks: list[Any]) -> Any:
    """Return chunks as one array: text if their types differ."""
    kinds = {chunk.type for chunk in chunks if len(chunk) != chunk.null_count}
    if len(kinds) > 1:
        chunks = [pa.array(map(text_of, chunk.to_pylist()), pa.string()) for chunk in chunks]
        return pa.chunked_array(chunks)
    kind = kinds.pop() if kinds else pa.null()
    alike = [chunk if chunk.type == kind else pa.nulls(len(chunk), kind) for chunk in chunks]
    return pa.chunked_array(alike, type=kind)
