"""How much each column of a table matters to a fitted classifier: permutation on held-out rows.

The cells of one column are exchanged among rows that were not trained on; the error that this adds
is the column's influence (Breiman 2001, Section 10). Columns that say the same cover for each
other.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from outcode._checks import Array
from outcode.datasets import TableEncoder

#: Columns looked at, permutations of each, and rows that are predicted for all of them together.
MOST_COLUMNS, REPEATS, MOST_ROWS = 100, 3, 20_000


def influences(
    clf: Any, encoder: TableEncoder, X: Any, labels: Array, seed: int
) -> dict[str, float]:
    """Return the error that permuting a column adds, by column; {} for a sparse or wide table.

    Parameters
    ----------
    clf : fitted on what ``encoder`` made of the training rows
    X : (n_rows, n_outputs) array, the held-out rows as ``encoder`` made them
    labels : (n_rows,) their classes
    """
    columns = encoder.columns_
    if not 1 < len(columns) <= MOST_COLUMNS or len(labels) < 2:
        return {}
    rng = np.random.RandomState(seed)
    most = max(30, MOST_ROWS // (REPEATS * len(columns)))
    rows = np.sort(rng.permutation(len(labels))[:most])
    X, labels = X[rows], labels[rows]
    orders = [rng.permutation(len(rows)) for _ in range(REPEATS)]
    base = np.mean(np.asarray(clf.predict(X)) != labels)
    ends = np.cumsum([column.n_outputs for column in columns])
    parts = zip(columns, ends - [column.n_outputs for column in columns], ends, strict=True)
    return {
        column.name: float(_error(clf, X, labels, slice(start, end), orders) - base)
        for column, start, end in parts
    }


def _error(clf: Any, X: Array, labels: Array, part: slice, orders: list[Array]) -> Any:
    """Return the error with a part of the features permuted, over all orders in one prediction."""
    mixed = np.tile(X, (len(orders), 1))
    mixed[:, part] = np.vstack([X[order, part] for order in orders])
    return np.mean(np.asarray(clf.predict(mixed)) != np.tile(labels, len(orders)))
