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
        self._cells: dict[str, list[Any]] = {}
        self._done: dict[str, list[Any]] = {}

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the columns, in the order in which they came up."""
        return tuple(self._cells)

    def add(self, record: dict[str, Any]) -> None:
        """Add one row."""
        start = self.n_rows % CHUNK
        for name, value in record.items():
            cells = self._cells.get(name)
            if cells is None:
                self._cells[name] = cells = []
                self._done[name] = [pa.nulls(self.n_rows - start)] if self.n_rows > start else []
                self.source.limits.table(self.n_rows + 1, len(self._cells), self.source.name)
            if len(cells) < start:
                cells.extend([None] * (start - len(cells)))
            cells.append(value)
        self.n_rows += 1
        if self.n_rows % CHUNK == 0:
            self.source.limits.table(self.n_rows, len(self._cells), self.source.name)
            self._close(CHUNK)

    def _close(self, size: int) -> None:
        """Turn the chunk of rows collected so far into arrays."""
        for name, cells in self._cells.items():
            cells.extend([None] * (size - len(cells)))
            self._done[name].append(typed(cells))
            self._cells[name] = []

    def arrays(self) -> list[Any]:
        """Return the columns, each of one type."""
        self.source.limits.table(self.n_rows, len(self._cells), self.source.name)
        self._close(self.n_rows % CHUNK)
        return [_joined(self._done.pop(name)) for name in self._cells]


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
    if len(kinds) <= 1:
        kind = kinds.pop() if kinds else pa.null()
        return pa.chunked_array([_nulls(c, kind) for c in chunks], type=kind)
    words = [pa.array(map(text_of, chunk.to_pylist()), pa.string()) for chunk in chunks]
    return pa.chunked_array(words)


def _nulls(chunk: Any, kind: Any) -> Any:
    return chunk if chunk.type == kind else pa.nulls(len(chunk), kind)
