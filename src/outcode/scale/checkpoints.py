"""Work kept on disk: a pass that was interrupted continues where it stopped.

A pass is known by what it computes (a digest of its parameters); the blocks it has done are known
by where they came from (a file, its time of change, a part of it). If one of those has changed, the
pass begins again.
"""

from __future__ import annotations

import hashlib
import os
import pickle
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from outcode._checks import Array
from outcode.scale.sources import Source

Sums = tuple[Array, ...]


@dataclass
class State:
    """How far a pass has come."""

    source: Source
    key: str = ""
    done: int = 0
    kept: dict[str, Array] = field(default_factory=dict)

    def tree(self) -> tuple[list[Sums | None], list[int]]:
        """Return the levels and counts of a tree of sums."""
        counts = [int(c) for c in self.kept.get("counts", ())]
        return [_group(self.kept, level) for level in range(len(counts))], counts

    def records(self) -> list[Sums]:
        """Return the values of the blocks done."""
        return [_group(self.kept, i) or () for i in range(self.done)]


def _group(kept: dict[str, Array], number: int) -> Sums | None:
    found: list[Array] = []
    while (name := f"{number}_{len(found)}") in kept:
        found.append(kept[name])
    return tuple(found) or None


class Checkpoint:
    """Keeps the work of passes."""

    def state(self, leaf: Any, source: Source) -> State:
        """Return how far a pass has come."""
        raise NotImplementedError

    def keep_tree(self, state: State, levels: list[Sums | None], counts: list[int]) -> None:
        """Keep sums."""

    def keep_records(self, state: State, found: list[Sums]) -> None:
        """Keep values."""


class NoCheckpoint(Checkpoint):
    """Keeps nothing."""

    def state(self, leaf: Any, source: Source) -> State:
        """Return that nothing is done."""
        return State(source)


@dataclass
class Folder(Checkpoint):
    """Keeps the work of each pass in a file of a folder."""

    path: str | os.PathLike[str]

    def state(self, leaf: Any, source: Source) -> State:
        """Return how far the pass had come when it was last stopped."""
        state = State(source, hashlib.sha256(pickle.dumps(leaf)).hexdigest()[:32])
        file = self._file(state)
        if file.exists():
            with np.load(file, allow_pickle=False) as kept:
                arrays = {name: kept[name] for name in kept.files}
            done = len(arrays["places"])
            if np.array_equal(_places(source, done), arrays["places"]):
                state.done, state.kept = done, arrays
        return state

    def keep_tree(self, state: State, levels: list[Sums | None], counts: list[int]) -> None:
        """Write the sums so far."""
        self._write(state, levels, {"counts": np.array(counts, dtype=np.int64)})

    def keep_records(self, state: State, found: list[Sums]) -> None:
        """Write the values so far."""
        self._write(state, found, {})

    def _write(self, state: State, values: Any, more: dict[str, Array]) -> None:
        places = _places(state.source, state.done)
        if not state.done or len(places) < state.done:
            return  # blocks that cannot be told again
        arrays = {
            f"{i}_{j}": part for i, sums in enumerate(values) for j, part in enumerate(sums or ())
        }
        file = self._file(state)
        file.parent.mkdir(parents=True, exist_ok=True)
        unfinished = file.with_suffix(".part.npz")
        np.savez(unfinished, places=places, **{**arrays, **more})
        unfinished.replace(file)

    def _file(self, state: State) -> Path:
        return Path(self.path) / f"{state.key}.npz"


def _places(source: Source, count: int) -> Array:
    """Return where the first blocks come from, as text; fewer if some do not say."""
    found = (getattr(load, "place", None) for load in islice(source.loaders(), count))
    return np.array([place for place in found if place is not None], dtype=str)
