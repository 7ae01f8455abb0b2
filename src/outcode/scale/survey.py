"""The first pass over the blocks: classes, labels, the spread of the features, means of classes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any

import numpy as np
from scipy import sparse

from outcode._checks import Array
from outcode.scale.engine import Engine, Sums
from outcode.scale.sources import Block, BlockError, Loader, Source


@dataclass(frozen=True)
class Survey:
    """What one pass tells of the data.

    Attributes
    ----------
    classes : sorted labels
    labels : (n_samples,) class index of each row, in the order of the blocks
    lengths : (n_blocks,) rows of each block
    weight : (n_classes,) sum of the weights of each class
    means : (n_classes, n_features) mean of the rows of each class
    variance : variance of all values, as gamma="scale" takes it
    """

    classes: Array
    labels: Array
    lengths: Array
    weight: Array
    means: Array
    variance: float


def survey(engine: Engine, source: Source) -> Survey:
    """Read every block once."""
    glances = engine.records(glance, source)
    width = _common_width(glances)
    classes = _all_classes([seen[0] for seen in glances], source)
    weight, sums = np.zeros(len(classes)), np.zeros((len(classes), width))
    labels = []
    for names, codes, total, mass, _ in glances:
        if len(codes):
            place = np.searchsorted(classes, names)
            labels.append(place[codes].astype(np.min_scalar_type(len(classes))))
            weight[place] += mass
            sums[place] += total
    means = sums / np.maximum(weight, 1e-300)[:, None]
    lengths = np.array([len(seen[1]) for seen in glances])
    variance = _merged_variance([seen[4] for seen in glances if seen[4][0] > 0])
    return Survey(classes, np.concatenate(labels), lengths, weight, means, variance)


def glance(block: Block) -> Sums:
    """Return labels, their places, sums and weights per label, and (count, mean, squares)."""
    assert block.y is not None
    names, codes = np.unique(_sortable(block), return_inverse=True)
    w = np.ones(len(block)) if block.weight is None else block.weight
    pick = sparse.csr_matrix((w, (codes.ravel(), np.arange(len(block)))), (len(names), len(block)))
    total = pick @ block.X
    total = total.toarray() if sparse.issparse(total) else np.asarray(total)
    return names, codes.ravel().astype(np.int32), total, pick.sum(axis=1).A1, _spread(block.X, w)


def _sortable(block: Block) -> Array:
    y = block.y
    assert y is not None
    if y.dtype != object:
        return y
    kinds = {type(label).__name__ for label in y}
    if len(kinds) > 1:
        raise block.error(f"the labels mix types ({', '.join(sorted(kinds))}).")
    return np.array(y.tolist()) if len(y) else y.astype(str)


def _spread(X: Any, w: Array) -> Array:
    """Return weight, mean and weighted sum of squares about the mean of all values."""
    if not X.shape[0] or not w.sum():
        return np.zeros(3)
    share = w / (w.sum() * X.shape[1])
    mean = float(share @ np.asarray(X.sum(axis=1)).ravel())
    if sparse.issparse(X):
        squares = float(share @ np.asarray(X.multiply(X).sum(axis=1)).ravel()) - mean**2
    else:
        squares = float(share @ ((X - mean) ** 2).sum(axis=1))
    return np.array([w.sum(), mean, w.sum() * squares])


def _merged_variance(spreads: Iterable[Array]) -> float:
    """Merge weights, means and squares without cancellation (Chan, Golub & LeVeque 1983)."""
    weight = mean = squares = 0.0
    for w, m, s in spreads:
        gap, both = m - mean, weight + w
        squares += s + gap**2 * weight * w / both
        mean += gap * w / both
        weight = both
    return squares / weight if weight else 0.0


def _all_classes(names: list[Array], source: Source) -> Array:
    present = {i: part for i, part in enumerate(names) if len(part)}
    text = {i: part.dtype.kind in "US" for i, part in present.items()}
    if len(set(text.values())) > 1:
        words = next(i for i, is_text in text.items() if is_text)
        numbers = next(i for i, is_text in text.items() if not is_text)
        raise BlockError(
            f"The labels are text in {_named(source, words)} ({present[words][0]!s}) and numbers "
            f"in {_named(source, numbers)} ({present[numbers][0]!s}): write them in one way."
        )
    classes = np.unique(np.concatenate(list(present.values())))
    if classes.dtype.kind in "US":
        _refuse_twice(classes)
    return classes


def _named(source: Source, number: int) -> str:
    """Return a block in words, with its file where it has one."""
    load = next(islice(iter(source.loaders()), number, None))
    path = getattr(getattr(load, "cut", None), "path", None)
    return f"block {number}" if path is None else f"{path}, block {number}"


def _refuse_twice(classes: Array) -> None:
    """Refuse labels that are the same number written in two ways, such as 1 and 1.0."""
    known: dict[float, str] = {}
    for label in classes.tolist():
        try:
            value = float(label)
        except ValueError:
            continue
        if value in known:
            raise BlockError(
                f"The labels {known[value]!r} and {label!r} are one number written in two ways: "
                f"write it the same in all files."
            )
        known[value] = label


def _common_width(glances: list[Sums]) -> int:
    """Return the number of columns of all blocks, or an error that names the first other one."""
    widths = {i: seen[2].shape[1] for i, seen in enumerate(glances) if len(seen[1])}
    if not widths:
        raise BlockError("There are no rows in these blocks.")
    first = next(iter(widths.values()))
    for i, width in widths.items():
        if width != first:
            raise BlockError(f"Block {i} has {width} columns, but the first has {first}.")
    return int(first)


# --- blocks whose rows know their class ---


@dataclass(frozen=True)
class Encoded:
    """Read a block, number its rows by class and weigh them by class."""

    load: Loader
    classes: Array
    weights: Array | None = None

    @property
    def place(self) -> str | None:
        """Where the block comes from."""
        return getattr(self.load, "place", None)

    def __call__(self) -> Block:
        block = self.load()
        assert block.y is not None
        labels = np.searchsorted(self.classes, _sortable(block))
        labels = np.minimum(labels, len(self.classes) - 1)
        if len(block) and not np.array_equal(self.classes[labels], _sortable(block)):
            row = int(np.argmax(self.classes[labels] != _sortable(block)))
            raise block.error(
                f"the label {block.y[row]!r} was not found in the first pass over the data.", row
            )
        if self.weights is None:
            return replace(block, group=labels)
        own = 1.0 if block.weight is None else block.weight
        return replace(block, group=labels, weight=own * self.weights[labels])


@dataclass(frozen=True)
class EncodedSource:
    """A source whose blocks number their rows by class and weigh them by class."""

    source: Source
    classes: Array
    weights: Array | None = None

    def loaders(self) -> Iterator[Encoded]:
        """Return the readers."""
        for load in self.source.loaders():
            yield Encoded(load, self.classes, self.weights)


# --- some rows of all blocks ---


@dataclass(frozen=True)
class Pick:
    """Return the rows asked for that are in a block."""

    rows: dict[int, Array]

    def __call__(self, block: Block) -> Block:
        wanted = self.rows.get(block.number, np.empty(0, dtype=np.intp))
        return block.take(wanted)


@dataclass(frozen=True)
class Dropped:
    """Read a block without some of its rows."""

    load: Loader
    rows: Array

    def __call__(self) -> Block:
        block = self.load()
        return block.take(np.setdiff1d(np.arange(len(block)), self.rows))


@dataclass(frozen=True)
class Without:
    """The blocks of a source without some rows, given by block."""

    source: Source
    rows: dict[int, Array]

    def loaders(self) -> Iterator[Loader]:
        """Return the readers."""
        for i, load in enumerate(self.source.loaders()):
            yield Dropped(load, self.rows[i]) if i in self.rows else load


def by_block(lengths: Array, rows: Array) -> dict[int, Array]:
    """Return the rows of each block, from sorted positions in the whole."""
    ends = np.cumsum(lengths)
    block = np.searchsorted(ends, rows, side="right")
    return {int(b): rows[block == b] - (ends[b] - lengths[b]) for b in np.unique(block)}


def joined(blocks: Iterable[Block]) -> Block:
    """Return the rows of some blocks as one."""
    parts = [block for block in blocks if len(block)]
    X = [part.X for part in parts]
    rows = sparse.vstack(X, format="csr") if sparse.issparse(X[0]) else np.vstack(X)
    y, group = _all([part.y for part in parts]), _all([part.group for part in parts])
    return Block(rows, y, group, _all([part.weight for part in parts]))


def _all(parts: list[Array | None]) -> Array | None:
    known = [part for part in parts if part is not None]
    return np.concatenate(known) if len(known) == len(parts) else None
