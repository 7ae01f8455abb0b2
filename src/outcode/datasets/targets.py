"""The target: guessed by its name, cut into classes if it is a number, and drawn from fairly."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import replace
from itertools import islice, pairwise
from typing import Any

import numpy as np

from outcode._checks import Array
from outcode.datasets.cells import as_nominal, objects, text_of
from outcode.datasets.table import DataError, Dataset

#: A column that is taken for want of a better one has no more values.
FEW_VALUES = 20
#: Names of columns that hold the class in most files that have them.
NAMES = frozenset(
    ["class", "classes", "target", "label", "labels", "species", "category", "outcome", "diagnosis"]
)


def guessed(names: Sequence[str], columns: Sequence[Any]) -> tuple[int, str]:
    """Return the position of the target and why: the one obvious name, else the last column.

    A last column that is empty, or the same in every row, is passed over. If the last holds another
    value in nearly every row, the first or else the last one with few values is taken.

    Examples
    --------
    >>> guessed(["Species", "width"], [])
    (0, ', by its name; give the target if it is another')
    """
    obvious = [j for j, name in enumerate(names) if _last_word(name) in NAMES]
    back = range(len(columns) - 1, -1, -1)
    varying = list(islice((j for j in back if _n_values(columns[j]) > 1), 2))
    last = varying[0] if len(varying) == 2 else len(names) - 1
    if len(obvious) == 1 and obvious[0] != last:
        return obvious[0], ", by its name; give the target if it is another"
    if not obvious and columns and not _may_be_class(columns[last]):
        found = next((j for j in (0, *back) if _may_be_class(columns[j], FEW_VALUES)), last)
        if found != last:
            place = "first" if found == 0 else "last"
            return found, f", the {place} column of few values; give the target if it is another"
    return last, "" if last == len(names) - 1 else ", the last column that varies"


def _last_word(name: str) -> str:
    """Return the last part of a name like "place.city"."""
    return name.rpartition(".")[2].strip().lower()


def _n_values(column: Any, rows: int = 10_000) -> int:
    """Return how many values the first rows of a column have, missing ones apart."""
    values = column.slice(0, rows).unique().to_pylist()
    return len({str(value).strip() for value in values if text_of(value) is not None})


def _may_be_class(column: Any, most: int | None = None) -> bool:
    """Say whether the values of a column recur: it is no quantity, identifier or text."""
    n_rows = min(len(column), 1000)
    n_values = _n_values(column, 1000)
    few = n_rows <= 20 or 2 * n_values <= n_rows
    return few and (most is None or 1 < n_values <= most)


def as_labels(column: Array) -> Array:
    """Return a column as class names; whole numbers lose their decimal point.

    Parameters
    ----------
    column : ndarray of shape (n_rows,)
        The cells of the column, None where one is missing.

    Returns
    -------
    ndarray of shape (n_rows,)
        The names of the classes, None where a cell is missing.

    Examples
    --------
    >>> as_labels(np.array(["1.0", None, "2"], dtype=object)).tolist()
    ['1', None, '2']
    """
    cells = as_nominal(column)
    values = {cell: cell for cell in cells.tolist() if cell is not None}
    if not any("." in value for value in values):
        return cells
    try:
        named = {value: text_of(float(value)) for value in values}
    except ValueError:
        return cells
    return objects(named.get(cell) for cell in cells.tolist())


def in_bins(
    labels: Array, bins: int, source: str, target: str, about: tuple[str, ...]
) -> dict[str, Any]:
    """Return numeric labels cut into so many classes of about equal size, and what to say."""
    try:
        values = np.array([np.nan if cell is None else float(cell) for cell in labels.tolist()])
    except ValueError:
        raise DataError(
            f"{source}: the target {target!r} is not a number in every row: leave the bins out."
        ) from None
    known = values[np.isfinite(values)]
    if not len(known):
        raise DataError(f"{source}: the target {target!r} holds no finite number.")
    cuts = np.unique(np.quantile(known, np.linspace(0, 1, bins + 1)[1:-1]))
    names = _bin_names([float(f"{cut:.6g}") for cut in cuts])
    places = np.searchsorted(cuts, values, side="left")
    found = objects(
        names[place] if np.isfinite(value) else None
        for place, value in zip(places.tolist(), values.tolist(), strict=True)
    )
    said = f"The target is cut into {len(names)} classes: {'; '.join(names)}."
    return {"labels": found, "about": (*about, said)}


def _bin_names(cuts: list[float]) -> list[str]:
    """Return names that sort as the numbers do."""
    words = [text_of(cut) for cut in cuts]
    if not words:
        return ["all"]
    middle = [f"over {low} to {high}" for low, high in pairwise(words)]
    named = [f"up to {words[0]}", *middle, f"over {words[-1]}"]
    width = len(str(len(named)))
    return [f"{i + 1:0{width}d}: {name}" for i, name in enumerate(named)]


def sampled(data: Dataset, n_rows: int, seed: int = 0) -> Dataset:
    """Return a stratified sample of a data set.

    A class keeps two rows at least, so that there may be more. Of a data set that is itself a
    sample of files, the test rows all stay.

    Parameters
    ----------
    data : Dataset
        The data set to sample from.
    n_rows : int
        Number of rows to keep.
    seed : int, default=0
        Seed of the sample.

    Returns
    -------
    Dataset
        The sample, or the data set itself if it is no larger.

    Examples
    --------
    >>> from outcode.datasets import load
    >>> sampled(load("iris"), 30).table.n_rows
    30
    """
    if n_rows >= len(data.y):
        return data
    kept = np.zeros(len(data.y), dtype=bool)
    if data.rest is not None and data.split is not None:
        kept = data.split == "test"
    some = np.flatnonzero(~kept)
    labels = np.unique(data.y[some], return_inverse=True)[1]
    rng, quota = np.random.RandomState(seed), _quota(np.bincount(labels), n_rows)
    order = rng.permutation(len(labels))
    taken = [some[order[labels[order] == q][:n]] for q, n in enumerate(quota)]
    rows = np.sort(np.concatenate([*taken, np.flatnonzero(kept)]))
    told = f"A sample of {len(rows):,} of {len(data.y):,} rows, each class as frequent as in all."
    return replace(
        data,
        table=data.table.take(rows),
        y=data.y[rows],
        split=None if data.split is None else data.split[rows],
        hash="" if data.rest is None else _hash_of(data, rows),  # of what is taken
        about=(*data.about, told),
    )


def _hash_of(data: Dataset, rows: Array) -> str:
    """Return the hash of some rows of a sample: of the files and of which rows these are."""
    return hashlib.sha256(data.hash.encode() + rows.tobytes()).hexdigest()


def _quota(counts: Array, n: int) -> list[int]:
    """Return how many rows of each class make n in the same shares, two at least where it has them.

    >>> _quota(np.array([80, 19, 1]), 10)
    [7, 2, 1]
    """
    exact = counts * n / counts.sum()
    quota = np.maximum(np.floor(exact).astype(int), np.minimum(counts, 2))
    for q in np.argsort(-(exact - quota), kind="stable"):
        quota[q] += (quota.sum() < n) and (quota[q] < counts[q])
    while quota.sum() > n and quota.max() > 2:
        quota[quota.argmax()] -= 1
    return quota.tolist()
