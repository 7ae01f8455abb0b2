"""Which rows every column of a code uses, one column after the other."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from outcode._checks import Array
from outcode.solvers.store import cuts

#: Entries of a code that are looked through at once.
BLOCK = 2**20


@dataclass(frozen=True)
class Layout:
    """The rows of every column, one column after the other.

    Attributes
    ----------
    order : (n,) which of the user's rows stands at each place of the store
    offset : (n_columns + 1,) column t has the entries offset[t] to offset[t + 1] - 1
    index : place in the store of each entry
    y : target of each entry, +1.0 or -1.0
    pieces : (3, n_pieces) entries come in pieces, the rows of one kind in one column: the kind,
        the column, and the first entry of each; rows are of a kind if the same columns use them
    kinds : places of the rows of each kind
    """

    order: Array
    offset: Array
    index: Array
    y: Array
    pieces: Array
    kinds: Sequence[Array]

    @property
    def shape(self) -> tuple[int, int]:
        """(n_samples, n_columns)"""
        return len(self.order), len(self.offset) - 1

    @cached_property
    def rows(self) -> Array:
        """The user's row of each entry."""
        return self.order[self.index]

    @cached_property
    def places(self) -> Array:
        """The place in the store of each of the user's rows."""
        return np.argsort(self.order)

    @cached_property
    def columns(self) -> Array:
        """The column of each entry."""
        return np.repeat(np.arange(self.shape[1]), np.diff(self.offset))

    def whole(self) -> bool:
        """Whether every column uses every row."""
        return len(self.index) == self.shape[0] * self.shape[1]

    def same(self, other: Layout) -> bool:
        """Whether another layout lists the same rows."""
        equal = np.array_equal(self.offset, other.offset)
        return equal and np.array_equal(self.rows, other.rows)

    def matrix(self, values: Array) -> Array:
        """Return values of the entries as a (n_samples, n_columns) matrix, 0 elsewhere."""
        out = np.zeros(self.shape, order="F")
        if self.whole():
            out[self.order] = values.reshape(self.shape[::-1]).T
        else:
            out[self.rows, self.columns] = values
        return out


def usage(code: Array) -> tuple[Array, Array]:
    """Return the (n_kinds, n_columns) ways of rows to take part in columns, and each row's kind."""
    used = code != 0
    bits = np.ascontiguousarray(np.packbits(used, axis=1))
    keys = bits.view(np.dtype((np.void, bits.shape[1]))).ravel()
    _, first, kind = np.unique(keys, return_index=True, return_inverse=True)
    return used[first], kind.ravel()


def layout(code: Array, labels: Array, order: Array | None = None) -> Layout:
    """List the rows that each column uses, ``code[labels]`` being the targets.

    Parameters
    ----------
    code : (n_kinds, n_columns) int8
    labels : (n_samples,) the row of ``code`` of each of the user's rows
    order : which of the user's rows stands at each place of the store
    """
    order = np.arange(len(labels)) if order is None else order
    used, kind = usage(code)
    label_at = labels[order]
    kind_at = kind[label_at]
    rows_of = np.bincount(kind_at, minlength=len(used))
    kinds = np.split(np.argsort(kind_at, kind="stable"), np.cumsum(rows_of)[:-1])
    some = cuts(used.shape[1], max(1, BLOCK // len(used)))
    entry = [np.flatnonzero(used[:, cut].T) + cut.start * len(used) for cut in some]
    column, which = np.divmod(np.concatenate(entry), len(used))  # quicker than nonzero
    size = rows_of[which]
    end = np.cumsum(size)
    count = np.bincount(column, weights=size, minlength=code.shape[1]).astype(np.intp)
    offset = np.concatenate([[0], np.cumsum(count)])
    index = np.concatenate([kinds[u] for u in which]) if len(which) else np.empty(0, np.intp)
    y = code[label_at[index], np.repeat(column, size)].astype(np.float64)
    return Layout(order, offset, index, y, np.stack([which, column, end - size]), kinds)
