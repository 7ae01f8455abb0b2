"""Blocks of tables with columns of any kind, as numbers by an encoder fitted on a sample."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from outcode._checks import Array
from outcode.datasets import Table, TableEncoder
from outcode.datasets.blocks import TablePart, labels, same_columns
from outcode.datasets.imposed import as_dates, as_numbers
from outcode.scale.sources import Block, Loader, Source


@dataclass(frozen=True)
class EncodedPart:
    """Read a part of a file, its rows as numbers and the class of each as text."""

    part: TablePart
    names: tuple[str, ...]
    target: str
    encoder: TableEncoder
    digest: str

    @property
    def place(self) -> str:
        """Where the block comes from and what is made of it; changes when the file does."""
        return f"{self.part.cut.place}#{self.digest}"

    def __call__(self) -> Block:
        from outcode.datasets.kinds import as_text

        part = self.part
        found = part.found(numbers(self.encoder))
        same_columns(found.names, self.names, part)
        y = labels(found, self.target, part)
        with part.explained():
            X = self.encoder.transform(_strict(as_text(found, part.where), self.encoder))
        return Block(X, y.astype(str), None, None, part.cut.path, part.cut.number, part.cut.first)


def _strict(table: Table, encoder: TableEncoder) -> Table:
    """Return a table with its numbers and dates read; a word among them is an error."""
    known = {c.name: c for c in encoder.columns_ if c.kind in ("numeric", "date")}

    def read(name: str, cells: Array) -> Array:
        if name not in known or cells.dtype != object:
            return cells
        if known[name].kind == "date":
            return as_dates(cells, name, table.source, strict=True)
        return as_numbers(cells, name, table.source, known[name].marks, strict=True)

    columns = tuple(map(read, table.names, table.columns))
    pairs = zip(table.names, table.kinds, strict=True)
    kinds = tuple(known[name].kind if name in known else kind for name, kind in pairs)
    return replace(table, columns=columns, kinds=kinds)


def numbers(encoder: TableEncoder) -> frozenset[str]:
    """Return the columns that a file may hold as plain numbers."""
    columns = encoder.columns_
    return frozenset(c.name for c in columns if c.kind == "numeric" and c.marks in ("", "."))


@dataclass(frozen=True)
class Tables:
    """Parts of files with the same columns as blocks of numbers.

    ``names`` are the columns of the files, ``target`` that of the classes; ``encoder`` is fitted.
    With ``spread`` an active Dask client's workers read them, else threads.
    """

    parts: Sequence[TablePart]
    names: tuple[str, ...]
    target: str
    encoder: TableEncoder
    spread: bool = False

    def loaders(self) -> Iterator[EncodedPart]:
        """Return the readers."""
        digest = self._digest()
        for part in self.parts:
            yield EncodedPart(part, self.names, self.target, self.encoder, digest)

    def _digest(self) -> str:
        content = hashlib.sha256(repr((self.names, self.target, self.encoder.columns_)).encode())
        for array in (self.encoder.idf_, self.encoder.topics_):
            content.update(np.ascontiguousarray(array).tobytes())
        return content.hexdigest()[:16]


# --- rows encoded once ---


@dataclass(frozen=True)
class StoredLoader:
    """Read a block's numbers from a file of a folder, written when it is read the first time."""

    load: Loader
    folder: Path

    @property
    def place(self) -> str | None:
        """Where the block comes from."""
        return getattr(self.load, "place", None)

    def __call__(self) -> Block:
        file = self.folder / f"{hashlib.sha256(str(self.place).encode()).hexdigest()[:32]}.npz"
        if file.exists():
            with np.load(file, allow_pickle=False) as kept:
                number, first = (int(i) for i in kept["at"])
                where = str(kept["where"])
                return Block(kept["X"], kept["y"], None, None, where, number, first)
        block = self.load()
        assert block.y is not None
        unfinished = file.with_suffix(".part.npz")
        at = np.array([block.number, block.first])
        np.savez(unfinished, X=block.X, y=block.y, at=at, where=np.array(block.where))
        unfinished.replace(file)
        return block


@dataclass(frozen=True)
class Stored:
    """The blocks of a source, their numbers kept in files of a folder between passes."""

    source: Source
    folder: Path

    def loaders(self) -> Iterator[StoredLoader]:
        """Return the readers."""
        self.folder.mkdir(parents=True, exist_ok=True)
        return (StoredLoader(load, self.folder) for load in self.source.loaders())
