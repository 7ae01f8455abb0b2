"""Which class gets which codeword: similar classes similar codewords.

With many classes and few columns a wrong column should cost little: classes whose means are near
one another get codewords that differ in few columns, so that columns split groups of similar
classes (a tree of class means, left to right, against a tree of codewords, left to right).
"""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.utils import check_random_state

from outcode._checks import Array
from outcode.codes.common import (
    Code,
    all_dense_columns,
    check_learnable,
    column_count,
    distinct_columns,
    is_pairwise,
)


class Similar(Code):
    """A code for many classes in which similar classes have similar codewords.

    Random +1/-1 columns, their rows dealt to the classes by the class means: with k classes k / 5
    columns are enough where one-vs-all trains k.

    Parameters
    ----------
    n_columns : int or None
        None is k / 5, at least 10 log2 k, at most 2^(k-1) - 1.

    Examples
    --------
    >>> X = np.arange(16.0)[:, None]
    >>> Similar().matrix(8, X, np.repeat(np.arange(8), 2), rng=0).shape
    (8, 30)
    """

    def __init__(self, n_columns: int | None = None) -> None:
        self.n_columns = n_columns

    def matrix(
        self,
        n_classes: int,
        X: Any = None,
        labels: Array | None = None,
        machine: Any = None,
        rng: np.random.RandomState | None = None,
    ) -> Array:
        if is_pairwise(machine):
            raise ValueError("Similar needs rows, not a kernel matrix: take another code.")
        X, labels = check_learnable(self, n_classes, X, labels)
        usual = max(n_classes / 5, 10 * np.log2(n_classes))
        most = 2 ** min(n_classes - 1, 60) - 1
        n_columns = column_count(self.n_columns, usual, n_classes, most)
        code = _random(n_classes, n_columns, check_random_state(rng))
        counts = np.bincount(labels, minlength=n_classes)
        sums = np.zeros((n_classes, X.shape[1]))
        for j in range(X.shape[1]):
            column = X[:, [j]].toarray().ravel() if hasattr(X, "toarray") else X[:, j]
            sums[:, j] = np.bincount(labels, weights=column, minlength=n_classes)
        return assign(code, sums / counts[:, None])


def _random(n_classes: int, n_columns: int, rng: np.random.RandomState) -> Array:
    """Return different random columns in which no two rows are equal."""
    if n_classes <= 12:
        every = all_dense_columns(n_classes)
        pool = [every[:, np.sort(rng.permutation(every.shape[1])[:n_columns])] for _ in range(100)]
        return max(pool, key=lambda code: len(np.unique(code, axis=0)))
    code = np.empty((n_classes, 0), dtype=np.int8)
    while code.shape[1] < n_columns or len(np.unique(code, axis=0)) < n_classes:
        more = np.where(rng.random_sample((n_classes, n_columns)) < 0.5, -1, 1).astype(np.int8)
        code = distinct_columns(np.hstack([code[:, : n_columns // 2], more]))[:, :n_columns]
    return code


def preorder(points: Array) -> Array:
    """Return the points in the order of the leaves of a tree that splits them in halves.

    A node is split at the median of its points along their direction of largest spread, and its
    halves are turned so that near ends meet.

    >>> preorder(np.array([[0.0], [9.0], [1.0], [10.0]])).tolist()
    [0, 2, 1, 3]
    """
    points = np.asarray(points, dtype=np.float64)
    order: list[int] = []
    nodes = [np.arange(len(points))]
    while nodes:
        node = nodes.pop()
        if len(node) <= 2:
            order.extend(_along(points, node, order).tolist())
            continue
        line = _along(points, node, order)
        half = len(line) // 2
        nodes += [line[half:], line[:half]]
    return np.array(order, dtype=np.intp)


def _along(points: Array, node: Array, before: list[int]) -> Array:
    """Return a node's points along their largest spread, the end near the last point first."""
    centred = points[node] - points[node].mean(axis=0)
    if not np.any(centred):
        return node
    direction = _largest_spread(centred)
    line = node[np.argsort(centred @ direction, kind="stable")]
    if not before:
        return line if line[0] == node.min() or line[-1] != node.min() else line[::-1]
    ends = np.linalg.norm(points[[line[0], line[-1]]] - points[before[-1]], axis=1)
    return line if ends[0] <= ends[1] else line[::-1]


def _largest_spread(centred: Array) -> Array:
    """Return the first principal direction by power steps from the column of largest variance."""
    direction = np.zeros(centred.shape[1])
    direction[np.argmax((centred**2).sum(axis=0))] = 1.0
    for _ in range(30):
        direction = centred.T @ (centred @ direction)
        direction /= np.linalg.norm(direction)
    return direction


def assign(code: Array, means: Array) -> Array:
    """Return the rows of a code dealt to the classes so that similar classes have similar rows.

    Parameters
    ----------
    code : (n_classes, n_dichotomies)
    means : (n_classes, n_features) means of the classes

    Examples
    --------
    >>> code = np.array([[1, 1], [-1, -1], [1, -1], [-1, 1]], dtype=np.int8)
    >>> assigned = assign(code, np.array([[0.0], [1.0], [8.0], [9.0]]))
    >>> sorted(map(tuple, assigned.tolist())) == sorted(map(tuple, code.tolist()))
    True
    """
    if len(code) != len(means):
        raise ValueError(f"The code has {len(code)} rows, but there are {len(means)} class means.")
    out = np.empty_like(code)
    out[preorder(means)] = code[preorder(code)]
    return out


def cost(code: Array, means: Array) -> float:
    """Return how badly the distances of codewords follow those of class means, from -1 (well) to 1.

    The negative correlation between both over all pairs of classes.
    """
    upper = np.triu_indices(len(code), 1)
    wide = code.astype(np.float64)
    between = (wide**2).sum(axis=1)[:, None] + (wide**2).sum(axis=1) - 2 * wide @ wide.T
    squares = (means**2).sum(axis=1)
    apart = squares[:, None] + squares - 2 * means @ means.T
    return -float(np.corrcoef(between[upper], np.sqrt(np.maximum(apart[upper], 0.0)))[0, 1])


NAMES: dict[str, type[Code]] = {"similar": Similar}
