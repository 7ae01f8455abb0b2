"""Blocks of rows: where they come from, and what a pass over the data sees of each.

A source has ``loaders()``: one function without arguments per block, in order, each returning a
:class:`Block`. A loader can be called again (a path and a row group, a slice of an array, a
partition), so a block that is lost is read again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import count
from typing import Any, Protocol

import numpy as np
from sklearn.utils import gen_batches

from outcode._checks import Array
from outcode.datasets.table import DataError

#: Values of a block of an array: 32 MB of float64.
BLOCK_VALUES = 2**22
#: Rows of a block of an array, at most.
BLOCK_ROWS = 16_384


class BlockError(DataError):
    """A block that cannot be used; the message names the source, the block and the row.

    Examples
    --------
    >>> try:
    ...     raise BlockError("block 2, row 5: the value is infinite.")
    ... except ValueError as error:
    ...     print(error)
    block 2, row 5: the value is infinite.
    """


@dataclass(frozen=True)
class Block:
    """Some rows of the data.

    ``y`` are the user's labels; ``group`` numbers the rows that every column of a code treats alike
    (rows of one class, or of one class in one fold); ``weight`` is None where all weights are 1;
    ``first`` is the place of the first row in its source; ``phi`` are features kept from a pass
    before.
    """

    X: Any
    y: Array | None = None
    group: Array | None = None
    weight: Array | None = None
    where: str = "X"
    number: int = 0
    first: int = 0
    phi: Array | None = None

    def __len__(self) -> int:
        return int(self.X.shape[0])

    def take(self, rows: Any) -> Block:
        """Return some of the rows."""
        parts = self.y, self.group, self.weight
        y, group, weight = (None if part is None else part[rows] for part in parts)
        return replace(self, X=self.X[rows], y=y, group=group, weight=weight, phi=None)

    def error(self, what: str, row: int | None = None) -> BlockError:
        """Return an error that says where it happened."""
        at = "" if row is None else f", row {self.first + row}"
        return BlockError(f"{self.where}, block {self.number}{at}: {what}")


Loader = Callable[[], Block]


class Source(Protocol):
    """Where blocks come from."""

    def loaders(self) -> Iterable[Loader]:
        """Return one function per block, in order, that reads it."""


@dataclass(frozen=True)
class Slice:
    """Read some rows of arrays in memory."""

    source: Arrays
    rows: slice
    number: int

    def __call__(self) -> Block:
        whole = Block(self.source.X, self.source.y, self.source.group, self.source.weight)
        return replace(whole.take(self.rows), number=self.number, first=self.rows.start)


@dataclass(frozen=True)
class Arrays:
    """Arrays in memory, cut into blocks whose size depends on the number of features alone."""

    X: Any
    y: Array | None = None
    group: Array | None = None
    weight: Array | None = None
    block_rows: int | None = None

    def loaders(self) -> Iterator[Slice]:
        """Return the slices."""
        n, d = self.X.shape
        rows = self.block_rows or min(BLOCK_ROWS, max(256, BLOCK_VALUES // max(d, 1)))
        return (Slice(self, cut, i) for i, cut in enumerate(gen_batches(n, rows)))


@dataclass(frozen=True)
class Grouped:
    """Read a block and put its rows into groups given."""

    load: Loader
    group: Array

    def __call__(self) -> Block:
        return replace(self.load(), group=self.group)


@dataclass(frozen=True)
class Regrouped:
    """The blocks of a source with other groups, (n_samples,) in the order of the blocks."""

    source: Source
    group: Array
    lengths: Array

    def loaders(self) -> Iterator[Grouped]:
        """Return the readers."""
        ends = np.cumsum(self.lengths)
        for load, stop, length in zip(self.source.loaders(), ends, self.lengths, strict=True):
            yield Grouped(load, self.group[stop - length : stop])


@dataclass(frozen=True)
class Thin:
    """Read every so many-th row of a block; these count for the others."""

    load: Loader
    every: int

    @property
    def place(self) -> str | None:
        """Where the block comes from."""
        place = getattr(self.load, "place", None)
        return None if place is None else f"{place}/{self.every}"

    def __call__(self) -> Block:
        block = self.load()
        some = block.take(slice(None, None, self.every))
        share = len(block) / max(len(some), 1)
        weight = np.ones(len(some)) if some.weight is None else some.weight
        return replace(some, weight=share * weight)


@dataclass(frozen=True)
class Thinned:
    """Every so many-th row of the blocks of a source, weighted to count for all."""

    source: Source
    every: int

    def loaders(self) -> Iterator[Thin]:
        """Return the readers."""
        return (Thin(load, self.every) for load in self.source.loaders())


@dataclass(frozen=True)
class Given:
    """Return a block that is in memory already."""

    block: Block

    def __call__(self) -> Block:
        return self.block


@dataclass(frozen=True)
class Blocks:
    """Blocks ``(X, y)`` or ``(X, y, weight)``: a list of them, or a function returning an iterator.

    A pass over the data goes through them once, and there are several passes: a generator, which
    can be read only once, is refused.
    """

    parts: Any
    labelled: bool = True

    def __post_init__(self) -> None:
        if not callable(self.parts) and iter(self.parts) is self.parts:
            raise ValueError(
                "These blocks can be read only once (a generator), but training reads them several "
                "times: give a list of blocks, or a function that returns a new generator."
            )

    def loaders(self) -> Iterator[Given]:
        """Return what gives the blocks, one after the other."""
        parts = self.parts() if callable(self.parts) else self.parts
        for i, part in zip(count(), parts, strict=False):
            yield Given(_given(part, i, self.labelled))


def _given(part: Any, number: int, labelled: bool) -> Block:
    if not labelled:
        return Block(np.asarray(part), where="blocks", number=number)
    if not isinstance(part, tuple | list) or len(part) not in (2, 3):
        raise BlockError(
            f"blocks, block {number}: a block is (X, y) or (X, y, weight), got "
            f"{type(part).__name__}."
        )
    X, y, weight = (*part, None)[:3]
    return checked(Block(_matrix(X), np.asarray(y), None, weight, "blocks", number))


def _matrix(X: Any) -> Any:
    return X if hasattr(X, "tocsr") else np.asarray(X)


def checked(block: Block) -> Block:
    """Return a block of finite float64 rows with a label each, or an error that says where."""
    X = block.X
    if X.ndim != 2:
        raise block.error(f"rows must form a matrix, got shape {X.shape}.")
    try:
        X = X.astype(np.float64, copy=False)
    except (TypeError, ValueError) as problem:
        raise block.error(f"{problem}; all columns must be numbers.", _first_text(X)) from None
    values = X.data if hasattr(X, "tocsr") else X
    if not np.isfinite(values).all():
        row = int(np.argmin(np.isfinite(X).all(axis=1))) if isinstance(X, np.ndarray) else None
        raise block.error("a value is missing, NaN or infinite.", row)
    if block.y is not None:
        _check_labels(block)
    return replace(block, X=X)


def _first_text(X: Array) -> int | None:
    for i, row in enumerate(X):
        try:
            row.astype(np.float64)
        except (TypeError, ValueError):
            return i
    return None


def _check_labels(block: Block) -> None:
    y = block.y
    assert y is not None
    if y.ndim != 1 or len(y) != len(block):
        raise block.error(f"{len(block)} rows, but labels of shape {y.shape}.")
    absent = [label is None or str(label) == "nan" for label in y.tolist()]
    if any(absent):
        raise block.error("the label is missing.", absent.index(True))
