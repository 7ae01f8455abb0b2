"""Encoded columns as formulas: numbers, and categories given by their place among the values."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from outcode._checks import Array
from outcode.datasets import scales
from outcode.formula import FormulaError


def encoded(columns: Sequence[Any], x: Any) -> Any:
    """Return what the columns of an encoder become, of symbolic rows with a number for each."""
    strange = next((c for c in columns if c.kind not in FORMULAS or c.topics), None)
    if strange is not None:
        how = "by its letters" if strange.kind == "nominal" else f"as a {strange.kind}"
        raise FormulaError(f"the column {strange.name!r} is encoded {how}")
    cells = [(c, x.take([j])) for j, c in enumerate(columns)]
    return np.hstack([part for c, cell in cells for part in FORMULAS[c.kind](c, cell)])


def _numeric_formula(column: Any, x: Any) -> Iterator[Any]:
    holes = scales.holes(x)
    if column.scale:
        if len(column.knots) > 2:
            raise FormulaError(f"the column {column.name!r} is transformed by quantiles")
        filled = scales.bent(np.where(holes, column.fill, x), column.knots)
        yield (filled - column.shift[0]) / column.scale[0]
    if column.indicator:
        yield holes


def _nominal_formula(column: Any, x: Any) -> Iterator[Any]:
    holes = scales.holes(x)
    if column.values:
        fill = column.values.index(str(column.fill))
        yield _same(np.where(holes, float(fill), x), np.arange(len(column.values)))
    if column.indicator:
        yield holes


def _same(x: Any, numbers: Array) -> Any:
    return (x >= numbers) * (x <= numbers)


FORMULAS: dict[str, Callable[[Any, Any], Iterator[Any]]] = {
    "numeric": _numeric_formula,
    "nominal": _nominal_formula,
}
