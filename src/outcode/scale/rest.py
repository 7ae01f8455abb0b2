"""Rows of files beside a sample of them: what a machine on landmarks trains on in a study."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from outcode._checks import Array
from outcode.datasets import TableEncoder
from outcode.datasets.blocks import TablePart
from outcode.scale.sources import Arrays, Block, Loader
from outcode.scale.tables import Tables


@dataclass(frozen=True)
class Rest:
    """The rows of some files that are not in a sample.

    ``names`` are the columns of the files, ``target`` that of the classes, ``taken`` the rows of
    each part that are in the sample, ``n_rows`` the number of the others.
    """

    parts: Sequence[TablePart]
    names: tuple[str, ...]
    target: str
    taken: Mapping[int, Array]
    n_rows: int

    def beside(
        self, X: Any, labels: Array, encoder: TableEncoder, classes: Sequence[str]
    ) -> Together:
        """Return blocks of the rows given and of all others, labels as places in ``classes``."""
        others = Tables(self.parts, self.names, self.target, encoder)
        return Together(Arrays(X, labels), others, self.taken, np.array(classes))


@dataclass(frozen=True)
class Other:
    """Read a block without the rows of the sample, its classes as numbers."""

    load: Loader
    taken: Array
    classes: Array
    number: int

    def __call__(self) -> Block:
        block = self.load()
        block = block.take(np.setdiff1d(np.arange(len(block)), self.taken))
        assert block.y is not None
        places = np.minimum(np.searchsorted(self.classes, block.y), len(self.classes) - 1)
        known = np.flatnonzero(self.classes[places] == block.y)  # a class of one row is left out
        return replace(block.take(known), y=places[known], number=self.number)


@dataclass(frozen=True)
class Together:
    """Rows in memory and the blocks of others."""

    known: Arrays
    others: Tables
    taken: Mapping[int, Array]
    classes: Array

    def loaders(self) -> Iterator[Loader]:
        """Return the readers."""
        first = list(self.known.loaders())
        yield from first
        for i, load in enumerate(self.others.loaders(), len(first)):
            number = load.part.cut.number
            yield Other(load, self.taken.get(number, np.empty(0, int)), self.classes, i)
