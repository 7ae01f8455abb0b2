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
    two_classes,
)
from outcode.dichotomies import separation
from outcode.parallel import single_blas

#: Operations spent on measuring random codes, less than a second of work; entries at a time.
WORK, BATCH = 3e9, 2**20
#: Random columns to choose from, for each column of a code.
SAMPLE = 20
#: Up to this many classes all columns of +1 and -1, and all with zeros, are to choose from.
DENSE_LIMIT, TERNARY_LIMIT = 12, 7
#: Beyond this many classes an exhaustive code has more columns than anyone can train.
EXHAUSTIVE_LIMIT = 15


class OneVsAll(Code):
    """One column per class: this class against all others.

    Examples
    --------
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

    Examples
    --------
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

    def extended(
        self, code: Array, places: Array, n_classes: int, rng: np.random.RandomState
    ) -> Array:
        larger = self.draw(n_classes, rng)
        own = np.flatnonzero((larger[places] != 0).sum(axis=0) == 2)
        larger[np.ix_(places, own)] = code  # the one column of two classes has the other sign
        return larger


class Exhaustive(Code):
    """Every way to split the classes in two: 2^(k-1) - 1 columns (Dietterich & Bakiri 1995).

    Examples
    --------
    >>> Exhaustive().matrix(3)
    array([[ 1,  1,  1],
           [-1, -1,  1],
           [-1,  1, -1]], dtype=int8)
    """

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

    Parameters
    ----------
    n_columns : int or None, default=None
        Number of columns; None takes ceil(10 log2 k) (Allwein, Schapire & Singer 2000), or all
        2^(k-1) - 1 there are.
    n_draws : int, default=1000
        Number of random codes to choose from, fewer where measuring them takes long.

    Examples
    --------
    >>> DenseRandom(n_columns=6).matrix(4, rng=0).shape
    (4, 6)
    """

    def __init__(self, n_columns: int | None = None, n_draws: int = 1000) -> None:
        self.n_columns = n_columns
        self.n_draws = n_draws

    def draw(self, n_classes: int, rng: np.random.RandomState) -> Array:
        most = 2 ** (n_classes - 1) - 1
        n_columns = column_count(self.n_columns, 10 * np.log2(n_classes), n_classes, most)
        pool = all_dense_columns(n_classes) if n_classes <= DENSE_LIMIT else None
        return _best_draw(_draw_dense, n_classes, n_columns, pool, self.n_draws, rng)


class SparseRandom(Code):
    """Random columns, each entry 0 with probability 1/2 and +1 or -1 with probability 1/4.

    Of many draws the one with the largest minimum row distance is kept, every pair of rows
    separated.

    Parameters
    ----------
    n_columns : int or None, default=None
        Number of columns; None takes ceil(15 log2 k) (Allwein, Schapire & Singer 2000), or all (3^k
        - 2^(k+1) + 1) / 2 there are.
    n_draws : int, default=1000
        Number of random codes to choose from, fewer where measuring them takes long.

    Examples
    --------
    >>> SparseRandom(n_columns=8).matrix(4, rng=0).shape
    (4, 8)
    """

    def __init__(self, n_columns: int | None = None, n_draws: int = 1000) -> None:
        self.n_columns = n_columns
        self.n_draws = n_draws

    def draw(self, n_classes: int, rng: np.random.RandomState) -> Array:
        most = (3**n_classes - 2 ** (n_classes + 1) + 1) // 2
        n_columns = column_count(self.n_columns, 15 * np.log2(n_classes), n_classes, most)
        pool = _all_ternary_columns(n_classes) if n_classes <= TERNARY_LIMIT else None
        return _best_draw(_draw_sparse, n_classes, n_columns, pool, self.n_draws, rng)


class Ordinal(Code):
    """For ordered classes: column j asks whether the class lies above j (Frank & Hall 2001).

    Examples
    --------
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
    return 2 * rng.randint(2, size=(n_classes, n_columns), dtype=np.int8) - 1


def _draw_sparse(n_classes: int, n_columns: int, rng: np.random.RandomState) -> Array:
    entries = rng.randint(4, size=(n_classes, n_columns), dtype=np.int8)
    return np.array([0, 0, 1, -1], dtype=np.int8)[entries]


def _best_draw(
    draw: Any, n_classes: int, n_columns: int, pool: Array | None, n_draws: int, rng: Any
) -> Array:
    """Of many codes drawn, return the one whose closest two rows are farthest apart.

    A code is a choice among columns that differ from each other: all there are, or a random
    sample. Many codes are measured at once, and fewer when there are many classes: the largest
    product of two rows costs k^2 n_columns operations, WORK in all.
    """
    pool = _sample(draw, n_classes, n_columns, rng) if pool is None else pool
    n_draws = min(n_draws, max(5, int(WORK / (n_classes**2 * n_columns))))
    if pool.shape[1] == n_columns:
        n_draws = 1
    columns, weight = pool.T.astype(np.float32), _chances(pool)
    best, closest, batch = None, np.inf, max(1, BATCH // (n_classes * max(n_classes, n_columns)))
    for first in range(0, n_draws, batch):
        count = min(batch, n_draws - first)
        keys = rng.exponential(size=(count, pool.shape[1])) / weight
        chosen = np.argpartition(keys, n_columns - 1, axis=1)[:, :n_columns]
        with single_blas():  # small products: the threads of BLAS would wait for each other
            products = _largest_products(columns[chosen])
        for b in np.argsort(products, kind="stable"):
            if products[b] >= closest:
                break
            if _separates(pool[:, chosen[b]]):
                best, closest = pool[:, chosen[b]], products[b]
                break
    if best is None:
        raise ValueError(
            f"None of {n_draws} random codes with {n_columns} columns separates every pair of "
            f"{n_classes} classes: ask for more columns (n_columns) or more draws (n_draws)."
        )
    return best


def _sample(draw: Any, n_classes: int, n_columns: int, rng: np.random.RandomState) -> Array:
    """Draw many columns with both signs, none twice and none the negative of another."""
    code = np.empty((n_classes, 0), dtype=np.int8)
    for _ in range(1000):
        code = _distinct(np.hstack([code, draw(n_classes, SAMPLE * n_columns, rng)]))
        if code.shape[1] >= n_columns:
            break
    return code


def _distinct(code: Array) -> Array:
    """Drop columns with one sign only, and those whose random projection, up to sign, is not new.

    Equal columns have equal projections; different ones hardly ever do, and one less is no loss.
    """
    code = code[:, (code.max(axis=0) > 0) & (code.min(axis=0) < 0)]
    line = np.random.RandomState(0).randint(2**40, size=len(code))
    _, first = np.unique(np.abs(line @ code.astype(np.int64)), return_index=True)
    return code[:, np.sort(first)]


def _chances(pool: Array) -> Array:
    """Return how often a random draw would meet each column, in a pool of all columns with zeros.

    P(column): 1/4 for each sign and 1/2 for each zero. A random sample holds it already.
    """
    used = (pool != 0).sum(axis=0)
    every = len(pool) <= TERNARY_LIMIT and used.min() < len(pool)
    return 0.5**used if every else np.ones(pool.shape[1])


def _largest_products(codes: Array) -> Array:
    """Return, for each code (n_columns, n_classes), the largest product of two of its rows.

    Rows r and q of a code of n columns are (n - r.q) / 2 apart, a zero counting 1/2.
    """
    products = codes.transpose(0, 2, 1) @ codes
    diagonal = np.arange(codes.shape[2])
    products[:, diagonal, diagonal] = -np.inf
    return products.max(axis=(1, 2))


def _separates(code: Array) -> bool:
    """Say whether every two rows have opposite signs in some column."""
    opposed = separation(code)
    return bool(opposed[np.triu_indices(len(code), 1)].min() > 0)


NAMES: dict[str, type[Code]] = {
    "ova": OneVsAll,
    "ovo": OneVsOne,
    "exhaustive": Exhaustive,
    "dense": DenseRandom,
    "sparse": SparseRandom,
    "ordinal": Ordinal,
}
