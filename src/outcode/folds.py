"""Folds: rows -> numbers of folds, by what a row holds.

The same row always falls into the same fold, so that a repeated row and a row of weight 2 give the
same folds, and no row is held out while its copy is trained on. Every function that holds rows out
takes its folds from here.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.model_selection import check_cv

from outcode._checks import Array

#: Odd multipliers of a 64-bit hash (splitmix64).
STEP, FIRST, SECOND = 0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB


def content_folds(
    X: Any,
    labels: Array,
    folds: int,
    weight: Array | None = None,
    *,
    pairwise: bool = False,
) -> Array:
    """Number the rows 0..folds-1, each class spread evenly and equal rows together.

    A class with a single distinct row, and rows of weight 0, are never held out: their number is
    -1. Distinct rows of a class are dealt out in turn, so that every class that is held out in
    part is trained on in part.

    Parameters
    ----------
    X : (n_samples, n_features) rows, dense or sparse; with ``pairwise`` their kernel matrix; None
        to go by place
    labels : (n_samples,) class of each row
    folds : number of folds
    weight : (n_samples,) or None
    """
    folds = _checked(folds)
    key, counted = row_keys(X, len(labels), pairwise), np.ones(len(labels), dtype=bool)
    counted = counted if weight is None else weight > 0
    distinct = [
        (rows, *np.unique(key[rows], return_inverse=True))
        for q in np.unique(labels[counted])
        if len(rows := np.flatnonzero(counted & (labels == q)))
    ]
    fold, offset = np.full(len(labels), -1), 0
    for rows, values, rank in distinct:
        if len(values) > 1:
            fold[rows] = (rank.ravel() + offset) % folds
            offset += len(values)
    return fold


def splits(
    cv: Any, X: Any, y: Array, weight: Array | None = None, *, pairwise: bool = False
) -> list[tuple[Array, Array]]:
    """Return (train, test) rows: content folds for a number, else as scikit-learn splits."""
    if isinstance(cv, int | np.integer) and not isinstance(cv, bool):
        labels = np.unique(y, return_inverse=True)[1].ravel()
        fold = content_folds(X, labels, int(cv), weight, pairwise=pairwise)
        numbers: Iterable[int] = np.unique(fold[fold >= 0]).tolist()
        found = [(np.flatnonzero(fold != f), np.flatnonzero(fold == f)) for f in numbers]
        if not found:
            raise ValueError("No class has two different rows: there is nothing to hold out.")
        return found
    return list(check_cv(cv, y, classifier=True).split(X, y))


def distinct_rows(
    X: Any, weight: Array, labels: Array | None = None, *, pairwise: bool = False
) -> tuple[Array, Array]:
    """Return the first of each set of equal rows (and labels) that count, and their total weights.

    The rows are in the order of their content, so that it does not matter where they stood.
    """
    counted = np.flatnonzero(weight > 0)
    key = row_keys(X, len(weight), pairwise)[counted]
    if labels is not None:
        key = key ^ _mixed(labels[counted].astype(np.uint64) + np.uint64(1))
    _, first, which = np.unique(key, return_index=True, return_inverse=True)
    return counted[first], np.bincount(which.ravel(), weights=weight[counted])


def _checked(folds: Any) -> int:
    whole = isinstance(folds, int | np.integer) and not isinstance(folds, bool)
    if not whole or folds < 2:
        raise ValueError(f"folds must be an integer of at least 2, got {folds!r}.")
    return int(folds)


# --- a number per row that depends on what the row holds alone ---


def row_keys(X: Any, n: int, pairwise: bool = False) -> Array:
    """Return a 64-bit number per row, equal for equal rows, dense or sparse; by place without X."""
    if X is None:
        return _mixed(np.arange(n, dtype=np.uint64) + np.uint64(1))
    if sparse.issparse(X):
        return _sparse_keys(X)
    X = np.asarray(X)
    if X.dtype.kind not in "biuf":
        return np.array([zlib.crc32(repr(row).encode()) for row in X.tolist()], dtype=np.uint64)
    return _set_keys(X) if pairwise else _dense_keys(X)


def _dense_keys(X: Array) -> Array:
    bits = _bits(X)
    multipliers = _mixed(np.arange(1, X.shape[1] + 1, dtype=np.uint64)) | np.uint64(1)
    with np.errstate(over="ignore"):
        return _mixed((_mixed(bits) * multipliers).sum(axis=1, dtype=np.uint64))


def _sparse_keys(X: Any) -> Array:
    X = sparse.csr_matrix(X, copy=True)
    X.sum_duplicates()
    multipliers = _mixed(X.indices.astype(np.uint64) + np.uint64(1)) | np.uint64(1)
    with np.errstate(over="ignore"):
        terms = np.append(_mixed(_bits(X.data)) * multipliers, np.uint64(0))
        total = np.concatenate([[np.uint64(0)], np.cumsum(terms, dtype=np.uint64)])
        return _mixed(total[X.indptr[1:]] - total[X.indptr[:-1]])


def _set_keys(K: Array) -> Array:
    """Return keys of the set of values in each row: a repeated row repeats values, adds none."""
    values = np.sort(K, axis=1)
    new = np.ones(values.shape, dtype=bool)
    new[:, 1:] = values[:, 1:] != values[:, :-1]
    with np.errstate(over="ignore"):
        return _mixed((_mixed(_bits(values)) * new).sum(axis=1, dtype=np.uint64))


def _bits(values: Array) -> Array:
    """Return float64 numbers as whole numbers, 0 for 0 and for -0."""
    return (np.ascontiguousarray(values, dtype=np.float64) + 0.0).view(np.uint64)


def _mixed(bits: Array) -> Array:
    """Return well-mixed bits (splitmix64); 0 stays 0."""
    with np.errstate(over="ignore"):
        mixed = bits * np.uint64(STEP)
        mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(FIRST)
        mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(SECOND)
        return mixed ^ (mixed >> np.uint64(31))
