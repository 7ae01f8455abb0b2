"""How much each feature, by itself, says about the classes."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse

from outcode._checks import Array

#: Bins of equal weight that a feature is cut into.
BINS = 8
#: Added to the share of every feature: what says nothing alone may say much with others.
FLOOR = 0.02
#: Cells that are sorted: of more columns fewer rows are looked at, but at least ROWS.
CELLS, ROWS = 2**22, 200


def feature_scale(X: Any, labels: Array, weight: Array) -> Array:
    """Return a factor for each feature: the root of its share of explained variance.

    A feature is cut into bins of equal weight. Its share is R^2 of the class indicators given the
    bin (the decrease of the Gini index), adjusted for the number of bins, less what the best of as
    many features without any relation to the classes would have, and at least ``FLOOR``. The mean
    of the squared factors is 1.

    Parameters
    ----------
    X : (n_samples, n_features) dense or CSR
    labels, weight : (n_samples,)

    Examples
    --------
    >>> labels = np.repeat([0, 1], 50)
    >>> X = np.column_stack([labels + np.linspace(0, 0.9, 100), np.arange(100) % 7])
    >>> feature_scale(X, labels, np.ones(100)).round(2).tolist()
    [1.4, 0.2]
    """
    rows = np.flatnonzero(weight > 0)
    most = max(ROWS, CELLS // X.shape[1])
    rows = rows[:: -(-len(rows) // most)]
    weight = weight[rows]
    classes = np.eye(int(labels.max()) + 1)[labels[rows]] * weight[:, None]
    share, noise = _shares(X[rows], classes, weight)
    luck = noise * np.sqrt(2.0 * np.log(max(len(share), 2)))
    kept = np.maximum(share - luck, 0.0) + FLOOR
    return np.asarray(np.sqrt(kept / kept.mean()))


def _shares(X: Any, classes: Array, weight: Array) -> tuple[Array, float]:
    """Return the adjusted R^2 of the class indicators given each column's bin, and its deviation.

    The deviation is that of a feature without relation to the classes: (W - 1) (q - 1) R^2 is
    about chi-squared with (bins - 1) (q - 1) degrees of freedom.
    """
    total, prior = weight.sum(), classes.sum(axis=0)
    bins = _bins(X, weight)
    explained, used = np.zeros(bins.shape[1]), np.zeros(bins.shape[1])
    for number in range(BINS):
        inside = (bins == number).astype(np.float64)
        mass, counts = weight @ inside, inside.T @ classes
        explained += (counts**2).sum(axis=1) / np.maximum(mass, 1e-300)
        used += mass > 0
    chance = (prior**2).sum() / total
    share = (explained - chance) / max(total - chance, 1e-300)
    adjusted = 1.0 - (1.0 - share) * (total - 1.0) / np.maximum(total - used, 1.0)
    free = max(int((prior > 0).sum()) - 1, 1)
    noise = float(np.sqrt(2.0 * max(used.max() - 1.0, 1.0) / free) / max(total - 1.0, 1.0))
    return adjusted, noise


def _bins(X: Any, weight: Array) -> Array:
    """Return the bin of every cell: equal values, and equal weights, stand in the same."""
    X = X.toarray() if sparse.issparse(X) else X
    order = np.argsort(X, axis=0, kind="stable")
    ranked, w = np.take_along_axis(X, order, axis=0), weight[order]
    upto = np.cumsum(w, axis=0)
    first = np.ones(ranked.shape, dtype=bool)
    first[1:] = ranked[1:] != ranked[:-1]
    last = np.roll(first, -1, axis=0)  # the row before the next value; the last row closes too
    start = np.maximum.accumulate(np.where(first, upto - w, 0.0), axis=0)
    stop = np.minimum.accumulate(np.where(last, upto, np.inf)[::-1], axis=0)[::-1]
    place = (start + stop) / (2.0 * upto[-1])
    bins = np.empty(X.shape, dtype=np.int8)
    np.put_along_axis(bins, order, np.minimum(place * BINS, BINS - 1).astype(np.int8), axis=0)
    return bins
