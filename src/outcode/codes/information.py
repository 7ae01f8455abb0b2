"""How much a partition of the classes says about the data: quadratic mutual information.

With Parzen windows of width sigma, the quadratic mutual information between the rows and the two
sides of a partition ([T03]; the criterion of [PRV06]) is

    I = sum over both sides c of the integral of (p(x, c) - p(x) P(c))^2
      = V_in + V_all - 2 V_between,

sums of the interaction potentials exp(-|x_i - x_j|^2 / (4 sigma^2)) of pairs of rows (the constant
of the Gaussian is left out). Only sums over whole classes enter, so one (n_classes, n_classes)
matrix V is all that is needed of the data. With P_a the share of class a and

    U = V - P r' - r P' + (1'V1) P P',    r = V 1,

the information of a partition with signs s is I = s'Us / 2: moving one class costs O(n_classes),
whatever the number of rows.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.utils.sparsefuncs import inplace_column_scale, mean_variance_axis

from outcode._checks import Array, positive
from outcode.parallel import thread_map

#: Kernel values held at a time by one thread.
BLOCK_VALUES = 2**21


@dataclass(frozen=True)
class Potentials:
    """What a partition's information is computed from.

    ``values`` (n_classes, n_classes) are the potentials summed over each pair of classes and
    divided by n_samples^2; ``shares`` (n_classes,) is each class's share of the rows.
    """

    values: Array
    shares: Array

    def centred(self, classes: Array) -> Array:
        """Return the matrix U of the classes of one node, as if there were no others."""
        mass = self.shares[classes].sum()
        share, values = self.shares[classes] / mass, self.values[np.ix_(classes, classes)] / mass**2
        reach = np.outer(share, values.sum(axis=1))
        return values - reach - reach.T + values.sum() * np.outer(share, share)

    def information(self, column: Array) -> float:
        """Return the quadratic mutual information of a column of +1, -1 and 0 (class not used)."""
        classes = np.flatnonzero(column)
        signs = column[classes].astype(np.float64)
        return float(signs @ self.centred(classes) @ signs / 2)


def interaction_potentials(
    X: Any,
    labels: Array,
    *,
    width: float = 0.5,
    max_rows: int = 20_000,
    pairwise: bool = False,
    rng: np.random.RandomState,
) -> Potentials:
    """Return the class potentials of the rows.

    Features are scaled to unit variance (constant ones drop out, a missing value is the mean) and
    sigma^2 = width^2 m / 2, m the mean squared distance of two rows; ``width=0.5`` makes the kernel
    exp(-|x - z|^2 / n_features). If ``pairwise``, X is a Gram matrix and distances are those of its
    feature space. Beyond ``max_rows`` rows each class is thinned at random in proportion, at least
    one row kept; shares stay those of all rows.
    """
    kept = _thinned(labels, max_rows, rng)
    kept = kept[np.argsort(labels[kept], kind="stable")]
    rows = _gram_products(X, kept) if pairwise else _scaled_products(X, kept)
    sums = _class_sums(rows, np.bincount(labels[kept]), positive(width, "width"))
    if not np.isfinite(sums).all():
        raise ValueError(
            "X holds NaN, infinity or numbers too large to square: scale or drop them."
        )
    shares = np.bincount(labels) / len(labels)
    return Potentials(sums * np.outer(shares, shares), shares)


@dataclass(frozen=True)
class _Products:
    """Inner products of rows: ``of(a, b)`` for two slices, their squares, the mean distance."""

    squares: Array
    of: Callable[[slice, slice], Array]
    mean_distance: float


def _gram_products(gram: Any, kept: Array) -> _Products:
    """Inner products looked up in a Gram matrix."""
    gram = np.asarray(gram, dtype=np.float64)
    squares = gram[kept, kept]

    def of(a: slice, b: slice) -> Array:
        return gram[np.ix_(kept[a], kept[b])]

    mean = gram[kept].sum(axis=0)[kept].sum() / len(kept) ** 2
    return _Products(squares, of, 2 * max(float(squares.mean() - mean), 0.0))


def _scaled_products(X: Any, kept: Array) -> _Products:
    """Inner products of rows whose features have unit variance."""
    rows = standardised(X[kept])
    square = rows.multiply(rows) if sparse.issparse(rows) else rows * rows
    squares = np.asarray(square.sum(axis=1)).ravel()
    centre = np.asarray(rows.mean(axis=0)).ravel()

    def of(a: slice, b: slice) -> Array:
        product = rows[a] @ rows[b].T
        return product.toarray() if sparse.issparse(product) else product

    return _Products(squares, of, 2 * max(float(squares.mean() - centre @ centre), 0.0))


def standardised(X: Any) -> Any:
    """Return rows with features of variance 1, constant ones 0; dense rows are centred, too.

    A missing value is the mean of its feature, in sparse rows 0.
    """
    if sparse.issparse(X):
        rows = sparse.csr_matrix(X, dtype=np.float64, copy=True)
        rows.data[~np.isfinite(rows.data)] = 0.0
        variance = mean_variance_axis(rows, axis=0)[1]
        inplace_column_scale(rows, 1 / np.sqrt(np.where(variance > 0, variance, np.inf)))
        return rows
    rows = np.ma.masked_invalid(np.asarray(X, dtype=np.float64))
    size = np.abs(rows).max(axis=0).filled(0.0)
    rows = rows - rows.mean(axis=0)
    deviation = rows.std(axis=0).filled(0.0)
    # a constant feature leaves rounding errors, not a deviation
    return (rows / np.where(deviation > 1e-12 * size, deviation, np.inf)).filled(0.0)


def _thinned(labels: Array, max_rows: int, rng: np.random.RandomState) -> Array:
    """Return the numbers of all rows, or of about ``max_rows``, each class in proportion."""
    if len(labels) <= max_rows:
        return np.arange(len(labels))
    share = max_rows / len(labels)
    parts = []
    for q in range(int(labels.max()) + 1):
        rows = np.flatnonzero(labels == q)
        parts.append(rng.choice(rows, max(1, int(share * len(rows))), replace=False))
    return np.concatenate(parts)


def _class_sums(rows: _Products, counts: Array, width: float) -> Array:
    """Return the mean potential of each pair of classes; rows come class by class."""
    n, k = len(rows.squares), len(counts)
    scale = 2 * width**2 * rows.mean_distance or 1.0  # 4 sigma^2; rows all equal need no scale
    tall = max(1, min(512, BLOCK_VALUES // n))
    owner = np.repeat(np.arange(k), counts)

    def block(start: int) -> Array:
        """Potentials of some rows with themselves and, twice, with all later ones."""
        cut, later = slice(start, min(start + tall, n)), slice(start, n)
        values = _potentials(rows, cut, later, scale)
        values[:, cut.stop - start :] *= 2.0
        return _summed(values, owner[cut], owner[later], k)

    total = np.zeros((k, k))
    for part in thread_map(block, range(0, n, tall)):
        total += part
    return (total + total.T) / 2 / np.outer(counts, counts)


def _potentials(rows: _Products, cut: slice, later: slice, scale: float) -> Array:
    """Return exp(-|x - z|^2 / scale) of two runs of rows, in place of their inner products."""
    values = rows.of(cut, later)
    values *= 2
    values -= rows.squares[cut, None]
    values -= rows.squares[later]
    np.minimum(values, 0.0, out=values)  # cancellation may leave distances below zero
    values /= scale
    return np.exp(values, out=values)


def _summed(values: Array, rows: Array, columns: Array, n_classes: int) -> Array:
    """Sum a block by the class of its rows and of its columns, both sorted."""
    first_row = np.flatnonzero(np.diff(rows, prepend=-1))
    first_column = np.flatnonzero(np.diff(columns, prepend=-1))
    sums = np.add.reduceat(np.add.reduceat(values, first_column, axis=1), first_row, axis=0)
    out = np.zeros((n_classes, n_classes))
    out[np.ix_(rows[first_row], columns[first_column])] = sums
    return out


def floating_search(U: Array, allowed: Callable[[Array], bool] = lambda inside: True) -> Array:
    """Return the side (booleans, True inside) of a good partition: large t'Ut with 0 < sum t < n.

    Sequential forward floating search [PNK94]: the class that adds most comes in; then
    classes go out again as long as that beats the best side of the smaller size seen so far. The
    best ``allowed`` partition of all those tried is returned, or, if none was allowed, the best.
    """
    n = len(U)
    search = _Visited(U, allowed)
    record = np.full(n, -np.inf)
    inside = np.zeros(n, dtype=bool)
    while inside.sum() < n - 1:
        inside = search.step(inside, add=True)
        while inside.sum() > 1:
            record[inside.sum()] = max(record[inside.sum()], search.value(inside))
            fewer = search.step(inside, add=False)
            if search.value(fewer) <= record[fewer.sum()] + 1e-12 * np.trace(U):
                break
            inside = fewer
        record[inside.sum()] = max(record[inside.sum()], search.value(inside))
    return search.chosen if search.chosen is not None else search.fallback


class _Visited:
    """Every partition the search looked at, of which it keeps the best."""

    def __init__(self, U: Array, allowed: Callable[[Array], bool]) -> None:
        self.U = U
        self.allowed = allowed
        self.chosen: Array | None = None
        self.fallback = np.zeros(len(U), dtype=bool)
        self.best = self.best_fallback = -np.inf

    def value(self, inside: Array) -> float:
        return float(self.U[np.ix_(inside, inside)].sum())

    def step(self, inside: Array, *, add: bool) -> Array:
        """Move the one class that leaves the largest value, noting every partition on the way."""
        sign = 1.0 if add else -1.0
        change = sign * 2 * (self.U @ inside) + np.diagonal(self.U)
        movers = np.flatnonzero(~inside if add else inside)
        movers = movers[np.argsort(-change[movers], kind="stable")]
        for mover in movers.tolist():
            value = self.value(inside) + change[mover]
            if not self._note(_moved(inside, mover), value):
                break
        return _moved(inside, int(movers[0]))

    def _note(self, inside: Array, value: float) -> bool:
        """Keep a partition that is better; say whether a worse one could still be of use."""
        if value > self.best_fallback:
            self.best_fallback, self.fallback = value, inside
        if value <= self.best:
            return False
        if self.allowed(inside):
            self.best, self.chosen = value, inside
            return False
        return True


def _moved(inside: Array, mover: int) -> Array:
    out = inside.copy()
    out[mover] = ~out[mover]
    return out
