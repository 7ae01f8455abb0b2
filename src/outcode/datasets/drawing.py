"""A stratified sample of the rows of many blocks, and where the other rows are."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from outcode._checks import Array
from outcode.datasets.blocks import Sample, TablePart, alike, as_arrow, labels, same_columns
from outcode.datasets.sources import Limits
from outcode.datasets.table import Dataset


@dataclass(frozen=True)
class Drawn:
    """A stratified sample of all rows, and which rows of each part it took."""

    data: Dataset
    taken: dict[int, Array]
    n_taken: int
    n_rows: int


def drawn(
    given: Sequence[TablePart], seen: Sample, size: int, seed: int, n_jobs: int | None = None
) -> Drawn:
    """Read all blocks once and return a sample, each class as frequent as in all of them.

    A class keeps two rows at least. Each row has a random number; those with the smallest ones of
    each class are taken, so that a part need not keep more than its share.
    """
    import pyarrow as pa

    from outcode.datasets.reading import labelled
    from outcode.parallel import thread_map

    first = given[0].found()
    share = min(1.0, 4.0 * size / _many(given, len(first.columns[0])))
    found = thread_map(lambda part: _candidates(part, seen, share, seed), given, n_jobs or None)
    y = np.concatenate([labels[kept] for labels, kept, _, _ in found])
    chance = np.concatenate([numbers for _, _, numbers, _ in found])
    classes, counts = np.unique(np.concatenate([f[0] for f in found]), return_counts=True)
    picked = _stratified(np.searchsorted(classes, y), chance, counts, size)
    ends = np.cumsum([len(kept) for _, kept, _, _ in found])
    tables, taken = [], {}
    for part, (_, kept, _, table), end in zip(given, found, ends, strict=True):
        own = picked[end - len(kept) : end]
        tables.append(table.filter(pa.array(own)))
        taken[part.cut.number] = kept[own]
    joined = pa.concat_tables(alike(tables), promote_options="permissive")
    whole = replace(first, columns=[joined.column(name) for name in first.names], about=())
    data = labelled(seen.data.source, whole, seen.target, given[0].options, Limits(classes=10**6))
    return Drawn(data, taken, int(picked.sum()), int(counts.sum()))


def _many(given: Sequence[TablePart], in_one: int) -> int:
    """Return about how many rows there are: each file ends in a part like the first."""
    last = {part.cut.path: part.cut.first for part in given}
    return max(1, sum(last.values()) + in_one * len(last))


def _candidates(
    part: TablePart, seen: Sample, share: float, seed: int
) -> tuple[Array, Array, Array, Any]:
    """Return all labels of a part, the rows that may be drawn, their random numbers and cells."""
    found = part.found()
    same_columns(found.names, seen.names, part)
    y = labels(found, seen.target, part).astype(str)
    chance = np.random.RandomState([seed, part.cut.number]).random_sample(len(y))
    order = np.lexsort([chance, y])
    starts = np.flatnonzero(np.concatenate([[True], y[order][1:] != y[order][:-1]]))
    least = np.unique(np.concatenate([starts, starts + 1]))
    kept = np.union1d(np.flatnonzero(chance < share), order[least[least < len(y)]])
    return y, kept, chance[kept], as_arrow(found).take(kept)


def _stratified(codes: Array, chance: Array, counts: Array, size: int) -> Array:
    """Return which candidates are drawn: of each class its share, two at least."""
    quota = np.maximum(np.minimum(counts, 2), np.round(size * counts / counts.sum()).astype(int))
    order = np.lexsort([chance, codes])
    each = np.bincount(codes, minlength=len(counts))
    rank = np.arange(len(codes)) - np.repeat(np.cumsum(each) - each, each)
    out = np.zeros(len(codes), dtype=bool)
    out[order] = rank < np.repeat(quota, each)
    return out
