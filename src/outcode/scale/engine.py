"""A pass over the blocks: by threads, with sums whose rounding does not depend on their number.

Sums are taken in a tree of fixed shape: blocks in order, eight at a time, eight of those sums at a
time, and so on. Which thread or worker computed a block, and when it finished, changes no bit.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, Protocol, TypeVar

from outcode._checks import Array
from outcode.parallel import n_threads, single_blas
from outcode.progress import Progress, Silent
from outcode.scale.sources import Block, Loader, Source

T = TypeVar("T")
#: What a pass adds up over the blocks.
Sums = tuple[Array, ...]
#: How many values a node of the tree of sums adds.
FAN = 8


class Tree:
    """Sums of values given in order, in a tree in which each node adds eight."""

    def __init__(self) -> None:
        self.levels: list[Sums | None] = []
        self.counts: list[int] = []

    def push(self, value: Sums, level: int = 0) -> None:
        """Take the next value; it is written to."""
        if level == len(self.levels):
            self.levels.append(None)
            self.counts.append(0)
        self.levels[level] = value = _added(self.levels[level], value)
        self.counts[level] += 1
        if self.counts[level] == FAN:
            self.levels[level], self.counts[level] = None, 0
            self.push(value, level + 1)

    def total(self) -> Sums:
        """Return the sum of all values, or an error if there are none."""
        total = None
        for value in self.levels:
            total = value if total is None else _added(value, total)
        if total is None:
            raise ValueError("There are no blocks: give at least one block of rows.")
        return total


def _added(first: Sums | None, second: Sums) -> Sums:
    if first is None:
        return second
    for a, b in zip(first, second, strict=True):
        a += b
    return first


class Engine(Protocol):
    """What carries out a pass."""

    def total(self, leaf: Callable[[Block], Sums], source: Source) -> Sums:
        """Return the sum of ``leaf(block)`` over all blocks."""

    def each(self, leaf: Callable[[Block], T], source: Source) -> Iterator[T]:
        """Return ``leaf(block)`` of every block, in order."""


@dataclass
class Threads:
    """Threads of this process; at most two blocks per thread are in memory."""

    n_jobs: int | None = None
    report: Progress = field(default_factory=Silent)

    def total(self, leaf: Callable[[Block], Sums], source: Source) -> Sums:
        """Return the sum of ``leaf(block)`` over all blocks."""
        tree = Tree()
        for value in self.each(leaf, source):
            tree.push(value)
        return tree.total()

    def each(self, leaf: Callable[[Block], T], source: Source) -> Iterator[T]:
        """Return ``leaf(block)`` of every block, in order."""
        with single_blas():
            for value in self._ordered(leaf, source.loaders()):
                self.report.advance()
                yield value

    def _ordered(self, leaf: Callable[[Block], T], loaders: Iterable[Loader]) -> Iterator[T]:
        workers = n_threads(self.n_jobs)
        if workers == 1:
            yield from (leaf(load()) for load in loaders)
            return
        with ThreadPoolExecutor(workers) as pool:
            waiting = iter(loaders)
            running = deque(pool.submit(_run, leaf, load) for load in islice(waiting, workers + 1))
            try:
                while running:
                    value = running.popleft().result()
                    running.extend(pool.submit(_run, leaf, load) for load in islice(waiting, 1))
                    yield value
            finally:
                pool.shutdown(wait=True, cancel_futures=True)


def _run(leaf: Callable[[Block], T], load: Loader) -> T:
    return leaf(load())
