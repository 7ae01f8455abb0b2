"""Codes from the number of classes alone: against all, in pairs, every split, random, ordered."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np

from outcode._checks import Array
from outcode.codes.common import (
    Code,
    all_dense_columns,
    column_count,
    distinct_columns,
    two_classes,
)
from outcode.dichotomies import row_distances, separation

#: Beyond this many classes an exhaustive code has more columns than anyone can train.
EXHAUSTIVE_LIMIT = 15


class OneVsAll(Code):
    """One column per class: this class against all others.

    >>> OneVsAll().matrix(3)
    array([[ 1, -1, -1],
           [-1,  1, -1],
           [-1, -1,  1]], dtype=int8)
    """

    def draw(self, n_classes: int, rng: np.random.RandomState) -> Array:
        if n_classes == 2:
            return two_classes()
        return (2 * np.eye(n_classes) - 1).astype(np.int8)


class OneVsOne(Code):
    """One column per pair of classes; the other classes are not used by it.

    >>> OneVsOne().matrix(3)
    array([[ 1,  1,  0],
           [-1,  0,  1],
           [ 0, -1, -1]], dtype=int8)
    """

    def draw(self, n_classes: int, rng: np.random.RandomState) -> Array:
        if n_classes == 2:
            return two_classes()
        first, second = np.triu_indices(n_classes, 1)
        code = np.zeros((n_classes, len(first)), dtype=np.int8)
        code[first, np.arange(len(first))] = 1
        code[second, np.arange(len(first))] = -1
        return code


class Exhaustive(Code):
    """Every way to split the classes in two: 2^(k-1) - 1 columns (Dietterich & Bakiri 1995)."""

    def draw(self, n_classes: int, rng: np.random.RandomState) -> Array:
        if n_classes > EXHAUSTIVE_LIMIT:
            raise ValueError(
                f"An exhaustive code for {n_classes} classes has 2^{n_classes - 1} - 1 = "
                f"{2 ** (n_classes - 1) - 1:,} columns; it is offered up to {EXHAUSTIVE_LIMIT} "
                f"classes. Use 'dense' or 'bch' instead."
            )
        return all_dense_columns(n_classes)


class DenseRandom(Code):
    """Random +1/-1 columns; of many draws the one with the largest minimum row distance.

    ``n_columns=None`` takes ceil(10 log2 k) columns (Allwein, Schapire & Singer 2000), or all
    2^(k-1) - 1 there are.
    """

    def __init__(self, n_columns: int | None = None, n_draws: int = 1000) -> None:
        self.n_columns = n_columns
        self.n_draws = n_draws

    def draw(self, n_classes: int, rng: np.random.RandomState) -> Array:
        most = 2 ** (n_classes - 1) - 1
        n_columns = column_count(self.n_columns, 10 * np.log2(n_classes), n_classes, most)
        pool = all_dense_columns(n_classes) if n_classes <= 12 else None
        return _best_draw(_draw_dense, n_classes, n_columns, pool, self.n_draws, rng)


class SparseRandom(Code):
    """Random columns, each entry 0 with probability 1/2 and +1 or -1 with probability 1/4.

    ``n_columns=None`` takes ceil(15 log2 k) columns (Allwein, Schapire & Singer 2000), or all
    (3^k - 2^(k+1) + 1) / 2 there are. Of many draws the one with the largest minimum row
    distance, every pair of rows separated.
    """

    def __init__(self, n_columns: int | None = None, n_draws: int = 1000) -> None:
        self.n_columns = n_columns
        self.n_draws = n_draws

    def draw(self, n_classes: int, rng: np.random.RandomState) -> Array:
        most = (3**n_classes - 2 ** (n_classes + 1) + 1) // 2
        n_columns = column_count(self.n_columns, 15 * np.log2(n_classes), n_classes, most)
        pool = _all_ternary_columns(n_classes) if n_classes <= 7 else None
        return _best_draw(_draw_sparse, n_classes, n_columns, pool, self.n_draws, rng)


class Ordinal(Code):
    """For ordered classes: column j asks whether the class lies above j (Frank & Hall 2001).

    >>> Ordinal().matrix(3)
    array([[-1, -1],
           [ 1, -1],
           [ 1,  1]], dtype=int8)
    """

    def draw(self, n_classes: int, rng: np.random.RandomState) -> Array:
        above = np.arange(n_classes)[:, None] > np.arange(n_classes - 1)
        return np.where(above, 1, -1).astype(np.int8)


def _all_ternary_columns(n_classes: int) -> Array:
    """Every +1/-1/0 column with both signs once, up to sign."""
    columns = np.array(list(product((1, 0, -1), repeat=n_classes)), dtype=np.int8).T
    both = (columns > 0).any(axis=0) & (columns < 0).any(axis=0)
    columns = columns[:, both]
    leading = columns[(columns != 0).argmax(axis=0), np.arange(columns.shape[1])]
    return columns[:, leading > 0]


def _draw_dense(n_classes: int, n_columns: int, rng: np.random.RandomState) -> Array:
    return (2 * rng.randint(2, size=(n_classes, n_columns)) - 1).astype(np.int8)


def _draw_sparse(n_classes: int, n_columns: int, rng: np.random.RandomState) -> Array:
    return np.array([0, 0, 1, -1], dtype=np.int8)[rng.randint(4, size=(n_classes, n_columns))]


def _best_draw(
    draw: Any, n_classes: int, n_columns: int, pool: Array | None, n_draws: int, rng: Any
) -> Array:
    """Of many codes drawn, return the one whose closest two rows are farthest apart."""
    best, best_distance = None, -1.0
    upper = np.triu_indices(n_classes, 1)
    # a draw costs k^2 columns operations: fewer draws when there are very many classes
    n_draws = max(20, min(n_draws, int(3e9 / (n_classes**2 * n_columns))))
    for _ in range(n_draws):
        code = _candidate(draw, n_classes, n_columns, pool, rng)
        if code is None or separation(code)[upper].min() == 0:
            continue
        distance = row_distances(code)[upper].min()
        if distance > best_distance:
            best, best_distance = code, distance
        if pool is not None and pool.shape[1] == n_columns:
            break
    if best is None:
        raise ValueError(
            f"None of {n_draws} random codes with {n_columns} columns separates every pair of "
            f"{n_classes} classes: ask for more columns (n_columns) or more draws (n_draws)."
        )
    return best


def _candidate(
    draw: Any, n_classes: int, n_columns: int, pool: Array | None, rng: np.random.RandomState
) -> Array | None:
    """Draw columns with both signs, none twice and none the negative of another."""
    if pool is not None:
        return _pooled(draw, n_classes, n_columns, pool, rng)
    code = distinct_columns(draw(n_classes, n_columns, rng))
    for _ in range(100):
        missing = n_columns - code.shape[1]
        if missing <= 0:
            return code[:, :n_columns]
        more = draw(n_classes, missing + 2, rng)
        code = distinct_columns(np.hstack([code, more]))
    return None


def _pooled(
    draw: Any, n_classes: int, n_columns: int, pool: Array, rng: np.random.RandomState
) -> Array:
    """Draw without replacement from all columns, as often as ``draw`` would have met each."""
    used = (pool != 0).sum(axis=0)
    # P(column) under draw: 1/4 for each sign and 1/2 for each zero; flat for a pool without zeros
    weight = 0.5 ** used.astype(float)
    chosen = rng.choice(pool.shape[1], size=n_columns, replace=False, p=weight / weight.sum())
    return pool[:, chosen]


NAMES: dict[str, type[Code]] = {
    "ova": OneVsAll,
    "ovo": OneVsOne,
    "exhaustive": Exhaustive,
    "dense": DenseRandom,
    "sparse": SparseRandom,
    "ordinal": Ordinal,
}
