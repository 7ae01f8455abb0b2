"""From a table to the numbers a machine takes, fitted on the training rows."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
from scipy import sparse as sp
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from outcode._checks import Array, lookup
from outcode.datasets.cells import HUGE, as_nominal, as_numeric
from outcode.datasets.frames import as_table
from outcode.datasets.table import DataError, Table, absent

MAX_VALUES = 200


@dataclass(frozen=True)
class EncodedColumn:
    """How one column becomes numbers: text and floats only, so that it can be written to a file.

    Attributes
    ----------
    name : str
    kind : "numeric", "nominal", or "sparse" (a numeric column of a sparse table)
    fill : the training rows' median, or most frequent value; stands for a missing cell
    indicator : whether a column of 0 and 1 marks the cells that are missing
    values : of a nominal column, the values with a column of 0 and 1 of their own
    shift, scale : a number x becomes (x - shift) / scale; scale 0 leaves a constant column out
    """

    name: str
    kind: str
    fill: float | str = 0.0
    indicator: bool = False
    values: tuple[str, ...] = ()
    shift: float = 0.0
    scale: float = 1.0

    @property
    def outputs(self) -> list[str]:
        """Names of the columns it becomes."""
        if self.kind == "nominal":
            own = [f"{self.name}={value}" for value in self.values]
        else:
            own = [self.name] if self.scale else []
        return own + [f"{self.name}=missing"] * self.indicator


class TableEncoder(TransformerMixin, BaseEstimator):
    """Encode a table as numbers, with everything learned on the training rows.

    A numeric column: missing cells (infinite ones and those beyond 1e150 too) get the median, and
    an indicator column if the training rows have any; then it is scaled. A nominal column: one
    column of 0 and 1 per value; a missing cell gets the most frequent value and an indicator
    column; a value not seen in training gets zeros. Columns that would be constant on the training
    rows are left out.

    Parameters
    ----------
    scale : "standard" (mean 0, deviation 1), "unit" (0 to 1) or None
        For numeric columns. A sparse table stays sparse: its columns are divided by their largest
        absolute value, for either.
    max_values : int
        A nominal column with more values keeps the most frequent ones; the others get zeros.

    Attributes
    ----------
    columns_ : tuple of EncodedColumn
        All that `transform` uses.
    n_features_in_, feature_names_in_
        Number and names of the columns seen in `fit`.

    Examples
    --------
    >>> from outcode.datasets import Table
    >>> colours = np.array(["red", "blue", "red"], dtype=object)
    >>> table = Table(("x", "colour"), ("numeric", "nominal"),
    ...               (np.array([1.0, np.nan, 3.0]), colours))
    >>> encoder = TableEncoder("unit").fit(table)
    >>> encoder.get_feature_names_out().tolist()
    ['x', 'x=missing', 'colour=blue', 'colour=red']
    >>> encoder.transform(table)
    array([[0. , 0. , 0. , 1. ],
           [0.5, 1. , 1. , 0. ],
           [1. , 0. , 0. , 1. ]])
    """

    columns_: tuple[EncodedColumn, ...]

    def __init__(self, scale: str | None = "standard", max_values: int = MAX_VALUES) -> None:
        self.scale = scale
        self.max_values = max_values

    def fit(self, X: Any, y: Any = None) -> Self:
        """Learn fills, values and scales from the training rows (Table, frame or 2-D array)."""
        lookup(_SCALES, str(self.scale), "scale")
        table = as_table(X)
        _refuse_empty(table)
        self.n_features_in_ = len(table.names)
        self.feature_names_in_ = np.array(table.names, dtype=object)
        columns = self._sparse(table) if table.sparse is not None else self._dense(table)
        self.columns_ = tuple(column for column in columns if column.outputs)
        if not self.columns_:
            raise DataError(
                f"None of the {len(table.names)} columns varies over the training rows (n_samples "
                f"= {table.n_rows}): there is nothing to learn from."
            )
        return self

    def _dense(self, table: Table) -> list[EncodedColumn]:
        triples = zip(table.names, table.kinds, table.columns, strict=True)
        return [
            _numeric(name, column, self.scale)
            if kind == "numeric"
            else _nominal(name, column, self.max_values)
            for name, kind, column in triples
        ]

    def _sparse(self, table: Table) -> list[EncodedColumn]:
        largest = np.asarray(abs(table.sparse).max(axis=0).todense()).ravel()
        scales = np.where(largest > 0, largest if self.scale else 1.0, 0.0).tolist()
        pairs = zip(table.names, scales, strict=True)
        return [EncodedColumn(name, "sparse", scale=scale) for name, scale in pairs]

    def transform(self, X: Any) -> Any:
        """Return the rows as float64 (n_rows, n_outputs): CSR if fitted on a sparse table."""
        check_is_fitted(self, "columns_")
        table = as_table(X)
        self._same_width(X, table)
        if all(column.kind == "sparse" for column in self.columns_):
            return _divided(table, self.columns_)
        if table.sparse is not None:
            table = _dense_table(table, [column.name for column in self.columns_])
        table = table.select(column.name for column in self.columns_)
        out = np.zeros((table.n_rows, sum(len(column.outputs) for column in self.columns_)))
        start = 0
        for column, cells in zip(self.columns_, table.columns, strict=True):
            stop = start + len(column.outputs)
            _write(column, cells, out[:, start:stop], table.source)
            start = stop
        return out

    def _same_width(self, X: Any, table: Table) -> None:
        named = isinstance(X, Table) or hasattr(X, "columns")
        expected = getattr(self, "n_features_in_", None)
        if not named and expected is not None and len(table.names) != expected:
            raise DataError(
                f"X has {len(table.names)} features, but TableEncoder is expecting {expected} "
                "features as input: give the columns of the training rows."
            )

    def get_feature_names_out(self, input_features: Any = None) -> Array:
        """Return the names of the columns of `transform`."""
        check_is_fitted(self, "columns_")
        return np.array([n for column in self.columns_ for n in column.outputs], dtype=object)

    def unused(self, X: Any) -> tuple[str, ...]:
        """Return the columns of X that `transform` does not look at."""
        check_is_fitted(self, "columns_")
        used = {column.name for column in self.columns_}
        return tuple(name for name in as_table(X).names if name not in used)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.input_tags.sparse = True
        tags.input_tags.string = True
        tags.input_tags.categorical = True
        return tags


def _refuse_empty(table: Table) -> None:
    if not table.names:
        raise DataError(
            f"0 feature(s) (shape=({table.n_rows}, 0)) while a minimum of 1 is required: there is "
            "nothing to learn from."
        )
    if not table.n_rows:
        raise DataError("Found array with 0 sample(s): there are no rows to learn from.")


def _standard(x: Array) -> tuple[float, float]:
    # relative to the largest, so that the squares of small numbers do not vanish
    size = float(np.abs(x).max()) or 1.0
    shift, scale = float(np.mean(x / size)), float(np.std(x / size))
    return shift * size, scale * size if scale > 1e-14 else 0.0


def _unit(x: Array) -> tuple[float, float]:
    return float(x.min()), float(np.ptp(x))


def _unscaled(x: Array) -> tuple[float, float]:
    return 0.0, float(x.min() < x.max())


_SCALES = {"standard": _standard, "unit": _unit, "None": _unscaled}


def _numeric(name: str, column: Array, scale: str | None) -> EncodedColumn:
    holes = ~(np.abs(column) <= HUGE)
    if holes.all():
        return EncodedColumn(name, "numeric", scale=0.0)
    fill = float(np.median(column[~holes]))
    shift, width = _SCALES[str(scale)](np.where(holes, fill, column))
    return EncodedColumn(name, "numeric", fill, bool(holes.any()), (), shift, width)


def _nominal(name: str, column: Array, max_values: int) -> EncodedColumn:
    counts = Counter(column.tolist())
    missing = counts.pop(None, 0)
    ordered = sorted(counts, key=lambda value: (-counts[value], value))
    if not ordered:
        return EncodedColumn(name, "nominal", "")
    encoded = EncodedColumn(name, "nominal", ordered[0], missing > 0)
    if len(ordered) == 1:
        return encoded
    return replace(encoded, values=tuple(sorted(ordered[:max_values])))


def _write(column: EncodedColumn, cells: Array, out: Array, source: str) -> None:
    """Encode the cells of one column into its part of the result."""
    if column.kind == "nominal":
        cells = as_nominal(cells)
        holes = absent(cells)
        at: dict[Any, int] = {value: j for j, value in enumerate(column.values)}
        at[None] = at.get(column.fill, -1)
        place = np.array([at.get(cell, -1) for cell in cells.tolist()], dtype=np.intp)
        rows = np.flatnonzero(place >= 0)
        out[rows, place[rows]] = 1.0
    else:
        cells = as_numeric(cells, column.name, source)
        holes = ~(np.abs(cells) <= HUGE)
        if column.scale:
            out[:, 0] = (np.where(holes, column.fill, cells) - column.shift) / column.scale
    if column.indicator:
        out[:, -1] = holes


def _divided(table: Table, columns: tuple[EncodedColumn, ...]) -> Any:
    names = [column.name for column in columns]
    if table.sparse is None:
        pairs = zip(table.columns, table.names, strict=True)
        numeric = [as_numeric(cells, name, table.source) for cells, name in pairs]
        table = replace(table, columns=(), sparse=sp.csr_matrix(np.column_stack(numeric)))
    block = _widened(table, names).sparse
    return sp.csr_matrix(block @ sp.diags_array([1.0 / column.scale for column in columns]))


def _widened(table: Table, names: list[str]) -> Table:
    """Return these columns of a sparse table; a column it does not have is zero."""
    at = {name: j for j, name in enumerate(table.names)}
    zero = table.sparse.shape[1]
    block = sp.hstack([table.sparse, sp.csr_matrix((table.n_rows, 1))], format="csr")
    block = block[:, [at.get(name, zero) for name in names]]
    return Table(tuple(names), ("numeric",) * len(names), sparse=block, source=table.source)


def _dense_table(table: Table, names: list[str]) -> Table:
    columns = tuple(_widened(table, names).sparse.toarray().T)
    return Table(tuple(names), ("numeric",) * len(names), columns, source=table.source)
