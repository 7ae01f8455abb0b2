"""What is done to heavy-tailed numbers, chosen by leave-one-out error on the training rows.

A kernel least squares machine f = K a, (K + lambda I) a = y, has the leave-one-out predictions
y_i - a_i / C_ii, C = (K + lambda I)^-1 (Cawley & Talbot 2003), at the cost of one inverse.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.linalg import inv
from scipy.spatial.distance import pdist, squareform

from outcode._checks import Array
from outcode.datasets.table import Table
from outcode.parallel import single_blas

#: Rows that decide, and the ratio of tail to middle from which numbers have heavy tails.
ROWS, HEAVY = 600, 4.0
#: Widths about the median distance, and the regularisation.
WIDTHS, RIDGE = (0.5, 2.0), 0.1


def heavy(column: Array) -> bool:
    """Say whether the first or last percent of numbers is far out, in interquartile ranges.

    Examples
    --------
    >>> x = np.linspace(-3, 3, 100)
    >>> heavy(x), heavy(np.exp(2 * x))
    (False, True)
    """
    present = column[np.isfinite(column)]
    if len(present) < 20:
        return False
    first, low, middle, high, last = np.quantile(present, [0.01, 0.25, 0.5, 0.75, 0.99])
    return bool(max(last - middle, middle - first) > HEAVY * (high - low) > 0)


def preferred(
    table: Table, y: Any, ways: tuple[str, ...], encode: Callable[[Table, str | None], Array]
) -> str | None:
    """Return the way with the fewest leave-one-out errors, None unless one is clearly better.

    Parameters
    ----------
    table, y : training rows and their classes
    ways : to try beside None
    encode : rows as numbers, in a way
    """
    pairs = zip(table.kinds, table.columns, strict=True)
    if y is None or not any(kind == "numeric" and heavy(column) for kind, column in pairs):
        return None
    rows = np.sort(np.random.RandomState(0).permutation(table.n_rows)[:ROWS])
    few, labels = table.take(rows), np.unique(np.asarray(y)[rows], return_inverse=True)[1]
    plain, best = wrong_left_out(encode(few, None), labels), None
    fewest = plain
    for way in ways:
        wrong = wrong_left_out(encode(few, way), labels)
        clear = np.sqrt(np.sum(wrong != plain))  # the standard deviation of the difference
        if wrong.sum() < min(fewest.sum(), plain.sum() - clear):
            fewest, best = wrong, way
    return best


def wrong_left_out(X: Array, labels: Array) -> Array:
    """Return which rows a kernel least squares machine errs on when they are left out."""
    squares = squareform(pdist(X, "sqeuclidean"))
    targets = 2.0 * (labels[:, None] == np.arange(labels.max() + 1)) - 1.0
    typical = float(np.median(squares[squares > 0])) if np.any(squares > 0) else 1.0
    found = [_wrong(np.exp(-squares / (typical * w)), targets, labels) for w in WIDTHS]
    return min(found, key=np.sum)


def _wrong(kernel: Array, targets: Array, labels: Array) -> Array:
    with single_blas():
        inverse = inv(kernel + 1.0 + RIDGE * np.eye(len(kernel)), check_finite=False)
        left_out = targets - (inverse @ targets) / np.diag(inverse)[:, None]
    return np.asarray(left_out.argmax(axis=1) != labels)
