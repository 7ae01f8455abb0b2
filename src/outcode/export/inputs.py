"""What the input of an exported model holds, and rows as it takes them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from outcode._checks import Array
from outcode.datasets import TableEncoder
from outcode.datasets.cells import as_nominal
from outcode.datasets.frames import as_table
from outcode.datasets.imposed import as_numbers
from outcode.datasets.scales import holes
from outcode.formula import dense


@dataclass(frozen=True)
class Column:
    """A number of a row.

    ``kind`` is "number", "category" (its place among ``values``) or "feature" (of an encoder).
    """

    name: str
    kind: str
    values: tuple[str, ...] = ()
    missing: bool = False

    def as_dict(self) -> dict[str, Any]:
        """Return it as JSON holds it."""
        own = {"values": list(self.values)} if self.kind == "category" else {}
        return {"name": self.name, "kind": self.kind, "missing": self.missing, **own}

    def __str__(self) -> str:
        hole = ", NaN if missing" if self.missing else ""
        if self.kind == "category" and not self.values:
            return f"{self.name}: any number, NaN if missing"
        if self.kind != "category":
            return f"{self.name}: {self.kind}{hole}"
        places = ", ".join(f"{value!r} = {i}" for i, value in enumerate(self.values[:5]))
        more = ", ..." if len(self.values) > 5 else ""
        return f"{self.name}: {places}{more}, -1 for another value{hole}"


def named(estimator: Any) -> tuple[Column, ...]:
    """Return the columns of an estimator that takes numbers."""
    default = [f"x{j}" for j in range(estimator.n_features_in_)]
    names = getattr(estimator, "feature_names_in_", default)
    return tuple(Column(str(name), "number") for name in names)


def of_table(encoder: TableEncoder) -> tuple[Column, ...]:
    """Return the columns of a table that an encoder looks at."""
    if encoder.sparse_scale_ is not None:
        return named(encoder)
    kinds = {"nominal": "category"}
    return tuple(
        Column(c.name, kinds.get(c.kind, "number"), c.values if c.kind == "nominal" else (), True)
        for c in encoder.columns_
    )


def numbers(X: Any) -> Array:
    """Return rows of numbers as a dense float64 array."""
    return np.ascontiguousarray(dense(X), dtype=np.float64)


def table_numbers(encoder: TableEncoder, X: Any) -> Array:
    """Return the rows of a table as numbers: categories by their places, NaN where missing."""
    table = as_table(X)
    if table.sparse is not None or encoder.sparse_scale_ is not None:
        return numbers(table.sparse if table.sparse is not None else np.column_stack(table.columns))
    cells = table.select(column.name for column in encoder.columns_).columns
    pairs = zip(encoder.columns_, cells, strict=True)
    return np.column_stack([_numbers(column, cell, table.source) for column, cell in pairs])


def _numbers(column: Any, cells: Array, source: str) -> Array:
    if column.kind == "numeric":
        found = as_numbers(cells, column.name, source, column.marks)
        return np.where(holes(found), np.nan, found)
    place = {value: float(j) for j, value in enumerate(column.values)}
    words = as_nominal(cells).tolist()
    return np.array([np.nan if word is None else place.get(word, -1.0) for word in words])
