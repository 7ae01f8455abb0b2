"""From a table to the numbers a machine takes, fitted on the training rows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from typing import Any, Self

import numpy as np
from scipy import sparse as sp
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from outcode._checks import Array, lookup
from outcode.datasets import formulas, scales, tails, topics
from outcode.datasets.cells import MANY, as_nominal
from outcode.datasets.encoded import DAY, EncodedColumn, date_parts
from outcode.datasets.frames import as_table
from outcode.datasets.imposed import as_dates, as_numbers
from outcode.datasets.table import DataError, Table, absent

COLUMN_KINDS = ("numeric", "nominal", "date", "text")
MAX_VALUES = 200
#: Topics of a nominal column with many values.
NAME_TOPICS = 30
#: Total variance of the topics: a text counts as much as so many standardised numbers.
SPREAD = {"nominal": 1.0, "text": 4.0}


class TableEncoder(TransformerMixin, BaseEstimator):
    """Encode a table as numbers; the encoding is fitted on the training rows.

    A numeric column: missing cells (infinite ones and those beyond 1e150 too) get the median, then
    it is scaled. A date: days since 1970, year, month, day, weekday and hour, unless they are
    constant; month, weekday and hour as sine and cosine. A nominal column: one column of 0 and 1
    per
    value; a missing cell gets the most frequent value; a value not seen in training gets zeros;
    with more than 40 values, up to 30 numbers encode the letters of the values, so that similar
    names get similar numbers. Free text: up to ``topics`` numbers, see
    :mod:`outcode.datasets.topics`. A column with missing cells gets an indicator column, unless
    very few are missing or another column has them in the same rows. Constant columns are left out.

    Parameters
    ----------
    scale : "standard" (mean 0, deviation 1), "unit" (0 to 1) or None
        For numeric columns. A sparse table stays sparse: its columns are divided by their largest
        absolute value, for either.
    max_values : int
        A nominal column with more values keeps the most frequent ones; the others get zeros.
    topics : int
        Largest number of features for a free text.
    tails : None, "log", "quantile" or "auto"
        Transformation of numbers with more than 20 values before scaling: a logarithm of the
        distance from the median in both directions, or the normal quantiles of their ranks. "auto"
        takes what has clearly fewer leave-one-out errors on the training rows, if any number has
        heavy tails; it needs the classes, see :mod:`outcode.datasets.tails`.

    Attributes
    ----------
    columns_ : tuple of EncodedColumn
    idf_, topics_ : (n_embedded, n_buckets), (n_topics, n_buckets) float32
        Weights and directions of the columns with topics, one after the other.
    sparse_scale_ : (n_features_in_,) array, or None if the table was not sparse
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
    sparse_scale_: Array | None = None

    def __init__(
        self,
        scale: str | None = "standard",
        max_values: int = MAX_VALUES,
        topics: int = 100,
        tails: str | None = None,
    ) -> None:
        self.scale = scale
        self.max_values = max_values
        self.topics = topics
        self.tails = tails

    def fit(self, X: Any, y: Any = None) -> Self:
        """Learn fills, values and scales from the training rows (Table, frame or 2-D array)."""
        lookup(scales.SCALES, str(self.scale), "scale")
        lookup({**scales.TAILS, "auto": None}, str(self.tails), "treatment of tails")
        table = as_table(X)
        _refuse_empty(table)
        if self.tails == "auto" and table.sparse is None:
            found = tails.preferred(table, y, ("log", "quantile"), self._in_way)
            return self._fit(table, found)
        return self._fit(table, None if self.tails == "auto" else self.tails)

    def _in_way(self, table: Table, way: str | None) -> Array:
        """Return rows as numbers, free text left out, which no treatment of tails changes."""
        rest = table.without(
            n for n, k in zip(table.names, table.kinds, strict=True) if k == "text"
        )
        return np.asarray(TableEncoder(self.scale, MANY, 0, way).fit(rest).transform(rest))

    def _fit(self, table: Table, way: str | None) -> Self:
        self.n_features_in_ = len(table.names)
        self.feature_names_in_ = np.array(table.names, dtype=object)
        self.columns_, self.sparse_scale_ = (), None
        self.idf_, self.topics_ = np.empty((2, 0, topics.BUCKETS), dtype=np.float32)
        if table.sparse is not None:
            self.sparse_scale_ = _largest(table.sparse, self.scale)
        else:
            self._fit_columns(table, way)
        if not len(self.get_feature_names_out()):
            raise DataError(
                f"None of the {len(table.names)} columns varies over the training rows (n_samples "
                f"= {table.n_rows}): there is nothing to learn from."
            )
        return self

    def _fit_columns(self, table: Table, way: str | None) -> None:
        indicated = _indicated(table)
        bases = [
            EncodedColumn(name, kind, indicator=name in indicated, marks=table.marks.get(name, ""))
            for name, kind in zip(table.names, table.kinds, strict=True)
        ]
        learned = [
            self._column(base, cells, way) for base, cells in zip(bases, table.columns, strict=True)
        ]
        self.columns_ = tuple(column for column, _, _ in learned if column.outputs)
        kept = [(idf, found) for _, idf, found in learned if len(found)]
        if kept:
            self.idf_ = np.stack([idf for idf, _ in kept])
            self.topics_ = np.vstack([found for _, found in kept])

    def _column(
        self, base: EncodedColumn, cells: Array, way: str | None
    ) -> tuple[EncodedColumn, Array, Array]:
        """Return a column, and the weights and directions of its topics."""
        kind = base.kind
        none = np.empty((0, topics.BUCKETS), dtype=np.float32)
        if kind == "numeric":
            return _numeric(base, cells, self.scale, way), none, none
        if kind == "date":
            return _date(base, cells, self.scale), none, none
        most = self.topics if kind == "text" else min(self.topics, NAME_TOPICS)
        if kind == "nominal":
            base = _nominal(base, cells, self.max_values)
            if len(base.values) <= MANY or not self.topics:
                return base, none, none
        counts = topics.counted(cells)
        idf = topics.weights(counts)
        most = min(most, max(2, len(cells) // 5))
        found = topics.projection(topics.weighted(counts, idf), most, SPREAD[kind])
        return replace(base, topics=len(found)), idf, found

    def transform(self, X: Any) -> Any:
        """Return the rows as float64 (n_rows, n_outputs): CSR if fitted on a sparse table."""
        check_is_fitted(self, "columns_")
        table = as_table(X)
        self._same_width(X, table)
        if self.sparse_scale_ is not None:
            return _divided(table, self.feature_names_in_, self.sparse_scale_)
        if table.sparse is not None:
            table = _dense_table(table, [column.name for column in self.columns_])
        table = table.select(column.name for column in self.columns_)
        parts = [self._encoded(*item, table.source) for item in self._with_topics(table)]
        return np.hstack(parts)

    def _with_topics(self, table: Table) -> Iterator[tuple[EncodedColumn, Array, Array, Array]]:
        """Yield each column with its cells and its part of the topics."""
        at = row = 0
        for column, cells in zip(self.columns_, table.columns, strict=True):
            idf = self.idf_[row] if column.topics else self.idf_[:0]
            yield column, cells, idf, self.topics_[at : at + column.topics]
            at, row = at + column.topics, row + bool(column.topics)

    def _encoded(
        self, column: EncodedColumn, cells: Array, idf: Array, found: Array, source: str
    ) -> Array:
        parts, holes = _ENCODERS[column.kind](column, cells, source)
        if column.topics:
            rows = topics.weighted(topics.counted(as_nominal(cells)), idf)
            parts = np.hstack([parts, rows @ found.T.astype(np.float64)])
        if column.indicator:
            parts = np.hstack([parts, holes[:, None]])
        return parts

    def _same_width(self, X: Any, table: Table) -> None:
        named = isinstance(X, Table) or hasattr(X, "columns")
        expected = getattr(self, "n_features_in_", None)
        if not named and expected is not None and len(table.names) != expected:
            raise DataError(
                f"X has {len(table.names)} features, but TableEncoder is expecting {expected} "
                "features as input: give the columns of the training rows."
            )

    def formula(self, x: Any) -> Any:
        """Return the encoded columns of symbolic rows, for numbers and categories.

        A row holds the columns of ``columns_`` as numbers: NaN where a cell is missing, and of a
        category its place among ``values``, -1 for another value.
        """
        check_is_fitted(self, "columns_")
        if self.sparse_scale_ is not None:
            kept = np.flatnonzero(self.sparse_scale_ > 0)
            return x.take(kept) / self.sparse_scale_[kept]
        return formulas.encoded(self.columns_, x)

    def get_feature_names_out(self, input_features: Any = None) -> Array:
        """Return the names of the columns of `transform`."""
        check_is_fitted(self, "columns_")
        if self.sparse_scale_ is not None:
            return self.feature_names_in_[self.sparse_scale_ > 0]
        return np.array([n for column in self.columns_ for n in column.outputs], dtype=object)

    def explain(self) -> list[tuple[str, str]]:
        """Return a description of the encoding of each column.

        Examples
        --------
        >>> from outcode.datasets import as_table
        >>> X = np.array([["red", 1.0], ["blue", 2.0], [None, 3.0]], dtype=object)
        >>> for column, words in TableEncoder().fit(as_table(X)).explain():
        ...     print(f"{column}: {words}")
        x0: 2 values as 0 or 1; missing values become blue, with an indicator
        x1: a number, scaled; missing values become 2
        """
        check_is_fitted(self, "columns_")
        if self.sparse_scale_ is not None:
            return [(str(name), "a number, scaled") for name in self.get_feature_names_out()]
        became = {column.name: column.words for column in self.columns_}
        names = map(str, self.feature_names_in_)
        return [(name, became.get(name, "left out: it does not vary")) for name in names]

    @property
    def n_features_out_(self) -> int:
        """How many columns `transform` gives."""
        check_is_fitted(self, "columns_")
        if self.sparse_scale_ is not None:
            return int(np.count_nonzero(self.sparse_scale_ > 0))
        return sum(column.n_outputs for column in self.columns_)

    def unused(self, X: Any) -> tuple[str, ...]:
        """Return the columns of X that `transform` does not look at."""
        check_is_fitted(self, "columns_")
        sparse = self.sparse_scale_ is not None
        used = set(self.get_feature_names_out()) if sparse else {c.name for c in self.columns_}
        return tuple(name for name in as_table(X).names if name not in used)

    def unseen(self, X: Any) -> dict[str, list[str]]:
        """Return the values of nominal columns of X that no training row had, by column."""
        check_is_fitted(self, "columns_")
        table = as_table(X)
        new: dict[str, list[str]] = {}
        for column in self.columns_:
            if column.kind != "nominal" or column.name not in table.names:
                continue
            cells = as_nominal(table.columns[table.names.index(column.name)])
            known = {None, column.fill, *column.values}
            if strange := sorted(set(cells.tolist()) - known) if len(known) > 2 else []:
                new[column.name] = strange
        return new

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


def _indicated(table: Table) -> set[str]:
    """Return the columns whose missing cells say something of their own."""
    chosen: dict[bytes, str] = {}
    for name, column in zip(table.names, table.columns, strict=True):
        holes = scales.holes(column) if column.dtype == float else absent(column)
        many = holes.sum() > (0.01 * len(holes) if len(holes) >= 100 else 0)
        if many and not holes.all():
            chosen.setdefault(np.packbits(holes).tobytes(), name)
    return set(chosen.values())


# --- numbers ---


def _numeric(
    base: EncodedColumn, column: Array, scale: str | None, tails: str | None
) -> EncodedColumn:
    holes = scales.holes(column)
    if holes.all():
        return base
    fill = float(np.median(column[~holes]))
    filled = np.where(holes, fill, column)
    knots = scales.TAILS[str(tails)](column[~holes])
    shift, width = scales.SCALES[str(scale)](scales.bent(filled, knots))
    if not width:
        return replace(base, fill=fill)
    return replace(base, fill=fill, knots=knots, shift=(shift,), scale=(width,))


def _encode_numeric(column: EncodedColumn, cells: Array, source: str) -> tuple[Array, Array]:
    cells = as_numbers(cells, column.name, source, column.marks)
    holes = scales.holes(cells)
    if not column.scale:
        return np.empty((len(cells), 0)), holes
    x = scales.bent(np.where(holes, column.fill, cells), column.knots)
    return ((x - column.shift[0]) / column.scale[0])[:, None], holes


# --- dates ---


def _days(column: Array) -> Array:
    """Return dates as days since 1970, NaN where missing."""
    return np.where(np.isnat(column), np.nan, column.astype(np.int64) / DAY)


def _date(base: EncodedColumn, column: Array, scale: str | None) -> EncodedColumn:
    days = _days(column)
    if np.isnan(days).all():
        return base
    fill = float(np.nanmedian(days))
    parts = date_parts(np.where(np.isnan(days), fill, days))
    varying = {name: part for name, part in parts.items() if np.ptp(part) > 1e-9}
    # on a circle all points are as far from the middle: there is nothing to scale
    ways = {n: _round(scale) if n[-3:] in ("sin", "cos") else str(scale) for n in varying}
    pairs = [scales.SCALES[ways[name]](part) for name, part in varying.items()]
    shift, width = zip(*pairs, strict=True) if pairs else ((), ())
    return replace(base, fill=fill, values=tuple(varying), shift=shift, scale=width)


def _round(scale: str | None) -> str:
    return "circle" if scale == "unit" else "None"


def _encode_date(column: EncodedColumn, cells: Array, source: str) -> tuple[Array, Array]:
    days = _days(as_dates(cells, column.name, source))
    holes = np.isnan(days)
    parts = date_parts(np.where(holes, column.fill, days))
    if not column.values:
        return np.empty((len(cells), 0)), holes
    found = np.column_stack([parts[name] for name in column.values])
    return (found - np.array(column.shift)) / np.array(column.scale), holes


# --- words ---


def _nominal(base: EncodedColumn, column: Array, max_values: int) -> EncodedColumn:
    counts = Counter(column.tolist())
    counts.pop(None, 0)
    ordered = sorted(counts, key=lambda value: (-counts[value], value))
    if not ordered:
        return replace(base, fill="")
    if len(ordered) == 1:
        return replace(base, fill=ordered[0])
    return replace(base, fill=ordered[0], values=tuple(sorted(ordered[:max_values])))


def _encode_nominal(column: EncodedColumn, cells: Array, source: str) -> tuple[Array, Array]:
    words = as_nominal(cells)
    at: dict[Any, int] = {value: j for j, value in enumerate(column.values)}
    at[None] = at.get(column.fill, -1)
    place = np.array([at.get(cell, -1) for cell in words.tolist()], dtype=np.intp)
    out = np.zeros((len(words), len(column.values)))
    rows = np.flatnonzero(place >= 0)
    out[rows, place[rows]] = 1.0
    return out, absent(words)


def _encode_text(column: EncodedColumn, cells: Array, source: str) -> tuple[Array, Array]:
    return np.empty((len(cells), 0)), absent(as_nominal(cells))


_ENCODERS = {
    "numeric": _encode_numeric,
    "date": _encode_date,
    "nominal": _encode_nominal,
    "text": _encode_text,
}


# --- sparse tables ---


def _largest(block: Any, scale: str | None) -> Array:
    """Return the largest absolute value of each column (1 where it is not to be scaled)."""
    largest = np.asarray(abs(block).max(axis=0).todense()).ravel()
    return np.where(largest > 0, largest if scale else 1.0, 0.0)


def _divided(table: Table, names: Array, scale: Array) -> Any:
    kept = scale > 0
    if table.sparse is None:
        pairs = zip(table.columns, table.names, strict=True)
        numeric = [as_numbers(cells, name, table.source) for cells, name in pairs]
        table = replace(table, columns=(), sparse=sp.csr_matrix(np.column_stack(numeric)))
    block = _widened(table, names[kept].tolist()).sparse
    return sp.csr_matrix(block @ sp.diags_array(1.0 / scale[kept]))


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
