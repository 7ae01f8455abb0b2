"""A pass over the blocks: by threads, with sums whose rounding does not depend on their number.

Sums are taken in a tree of fixed shape: blocks in order, eight at a time, eight of those sums at a
time, and so on. Which thread or worker computed a block, and when it finished, changes no bit.
"""

from __future__ import annotations

import sys
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, ClassVar, TypeVar

import numpy as np

from outcode._checks import Array
from outcode.parallel import n_threads, single_blas
from outcode.scale.checkpoints import Checkpoint, NoCheckpoint, State
from outcode.scale.sources import Block, Loader, Source

T = TypeVar("T")
#: What a pass adds up over the blocks.
Sums = tuple[Array, ...]
#: How many values a node of the tree of sums adds.
FAN = 8
#: Seconds after which the sums so far are kept, for a process that is killed.
KEEP_EVERY = 60.0


class Tree:
    """Sums of values given in order, in a tree in which each node adds eight."""

    def __init__(self, levels: Iterable[Sums | None] = (), counts: Iterable[int] = ()) -> None:
        self.levels: list[Sums | None] = list(levels)
        self.counts: list[int] = list(counts)

    def push(self, value: Sums, level: int = 0) -> None:
        """Take the next value; it is written to."""
        while level >= len(self.levels):
            self.levels.append(None)
            self.counts.append(0)
        self.levels[level] = value = added(self.levels[level], value)
        self.counts[level] += 1
        if self.counts[level] == FAN:
            self.levels[level], self.counts[level] = None, 0
            self.push(value, level + 1)

    def total(self) -> Sums:
        """Return the sum of all values, or an error if there are none."""
        total: Sums | None = None
        for value in self.levels:
            if value is not None:
                pairs = zip(value, total or (), strict=False)
                total = value if total is None else tuple(a + b for a, b in pairs)
        if total is None:
            raise ValueError("There are no blocks: give at least one block of rows.")
        return total


def added(first: Sums | None, second: Sums) -> Sums:
    """Add ``second`` to ``first``, which is written to."""
    if first is None:
        return second
    for a, b in zip(first, second, strict=True):
        np.add(a, b, out=a)
    return first


class Engine:
    """What carries out a pass; a subclass says how values are computed, in order.

    With a checkpoint the work of a pass that was interrupted is kept, and a pass that was finished
    before is not repeated.
    """

    checkpoint: Checkpoint
    verbose: int
    #: Whether passes can keep what they computed in memory for the next.
    shares_memory: ClassVar[bool] = False

    def total(self, leaf: Callable[[Block], Sums], source: Source) -> Sums:
        """Return the sum of ``leaf(block)`` over all blocks."""
        state, started = self.checkpoint.state(leaf, source), time.perf_counter()
        tree = Tree(*state.tree())
        try:
            kept = started
            for n_blocks, level, value in self.sums(leaf, _rest(source, state)):
                tree.push(value, level)
                state.done += n_blocks
                if time.perf_counter() - kept > KEEP_EVERY:
                    self.checkpoint.keep_tree(state, tree.levels, tree.counts)
                    kept = time.perf_counter()
        finally:
            self.checkpoint.keep_tree(state, tree.levels, tree.counts)
        if self.verbose:
            spent = time.perf_counter() - started
            what = getattr(leaf, "what", "pass")
            print(f"{what}: {state.done} blocks in {spent:.1f} s", file=sys.stderr)
        return tree.total()

    def each(self, leaf: Callable[[Block], T], source: Source) -> Iterator[T]:
        """Return ``leaf(block)`` of every block, in order."""
        return self.values(leaf, source.loaders())

    def records(self, leaf: Callable[[Block], Sums], source: Source) -> list[Sums]:
        """Return ``leaf(block)`` of every block as a list, kept like sums."""
        state = self.checkpoint.state(leaf, source)
        found = state.records()
        try:
            for value in self.values(leaf, _rest(source, state)):
                found.append(value)
                state.done += 1
        finally:
            self.checkpoint.keep_records(state, found)
        return found

    def sums(
        self, leaf: Callable[[Block], Sums], loaders: Iterable[Loader]
    ) -> Iterator[tuple[int, int, Sums]]:
        """Yield sums over the next blocks: how many blocks, their level in the tree, the sum."""
        return ((1, 0, value) for value in self.values(leaf, loaders))

    def values(self, leaf: Callable[[Block], T], loaders: Iterable[Loader]) -> Iterator[T]:
        """Yield ``leaf(block)`` of every block, in order."""
        raise NotImplementedError(f"{type(self).__name__} must define values()")


def _rest(source: Source, state: State) -> Iterator[Loader]:
    return islice(iter(source.loaders()), state.done, None)


@dataclass
class Threads(Engine):
    """Threads of this process; at most one block more than there are threads is in memory."""

    shares_memory = True

    n_jobs: int | None = None
    checkpoint: Checkpoint = field(default_factory=NoCheckpoint)
    verbose: int = 0

    def values(self, leaf: Callable[[Block], T], loaders: Iterable[Loader]) -> Iterator[T]:
        """Yield ``leaf(block)`` of every block, in order."""
        workers = n_threads(self.n_jobs)
        with single_blas():
            if workers == 1:
                yield from (leaf(load()) for load in loaders)
            else:
                yield from _threaded(leaf, iter(loaders), workers)


def _threaded(leaf: Callable[[Block], T], waiting: Iterator[Loader], workers: int) -> Iterator[T]:
    with ThreadPoolExecutor(workers) as pool:
        running = deque(pool.submit(run, leaf, load) for load in islice(waiting, workers + 1))
        try:
            while running:
                value = running.popleft().result()
                running.extend(pool.submit(run, leaf, load) for load in islice(waiting, 1))
                yield value
        finally:
            pool.shutdown(wait=True, cancel_futures=True)


def run(leaf: Callable[[Block], Any], load: Loader) -> Any:
    """Read a block and compute what a pass wants of it."""
    return leaf(load())
