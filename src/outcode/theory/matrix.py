"""Bounds of a fitted SPOC from the margins of its pairs of classes: [CS02] Section 7."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from outcode._checks import Array, lookup, positive

#: Iterations of the smallest enclosing ball.
MAX_ITER = 100_000


@dataclass(frozen=True)
class Bounds:
    """Margins and bounds of one machine.

    Parameters
    ----------
    pair_margins : ndarray of shape (n_classes, n_classes)
        Margins gamma_rs, infinite on the diagonal and 0 where a row of the pair is on the wrong
        side.
    inverse_margins : float
        The sum D = sum_{r<s} 1 / gamma_rs^2.
    norm_bound : float
        The bound k |M|^2 >= D, M scaled so that the smallest lead is 1 (Eq. 58).
    radius : float
        Radius R of a ball that holds all rows.
    ddag : float
        Bound of Theorem 4.
    matrix : float
        Bound of Corollary 2.
    classes : ndarray of shape (n_classes,)
        Bounds of Corollary 3.
    """

    pair_margins: Array
    inverse_margins: float
    norm_bound: float
    radius: float
    ddag: float
    matrix: float
    classes: Array


def bounds(
    clf: Any, K: Any = None, *, delta: float = 0.05, radius: float | str = "origin"
) -> Bounds:
    """Return the bounds of a fitted SPOC ([CS02] Theorem 4, Corollaries 2 and 3).

    Parameters
    ----------
    clf : SPOC
        Fitted classifier.
    K : array-like of shape (n_samples, n_samples), default=None
        Kernel values of the training rows, the 1 of ``bias="kernel"`` included. Not needed when
        ``radius`` is a number.
    delta : float, default=0.05
        Probability with which the bounds may fail.
    radius : {"origin", "ball"} or float, default="origin"
        R, of a ball that holds all rows: "origin" (about 0, max sqrt(K_ii)), "ball" (the smallest
        enclosing ball) or a number. They are of the training rows, as a stand-in for the unknown
        support of the distribution.

    Returns
    -------
    Bounds
        The margins of the pairs of classes and the bounds.

    Examples
    --------
    >>> from outcode.classifier import SPOC
    >>> X = np.array([[2.0, 0.0], [0.0, 2.0], [-2.0, -2.0]])
    >>> clf = SPOC("linear", beta=0.01, tol=1e-8, folds=None).fit(X, [0, 1, 2])
    >>> found = bounds(clf, X @ X.T)
    >>> found.inverse_margins <= found.norm_bound + 1e-6
    True
    """
    check_is_fitted(clf, "tau_")
    size = _radius(K, radius)
    scores, labels = clf.training_margins_, clf.labels_
    inner = clf.tau_.T @ scores / clf.beta  # M_r.M_s
    inner = (inner + inner.T) / 2.0
    margins = pair_margins(scores, labels, inner)
    lead = _smallest_leads(scores, labels)
    k, m = inner.shape[0], len(labels)
    norms, total = np.diag(inner), float(np.trace(inner))
    gammas = margins[np.triu_indices(k, 1)]
    D = float(np.sum(_inverse(gammas**2)))
    whole = float(k * total * _inverse(np.maximum(0.0, lead.min()) ** 2))
    each = (k * norms + total) * _inverse(np.maximum(0.0, lead) ** 2)
    return Bounds(
        pair_margins=margins,
        inverse_margins=D,
        norm_bound=whole,
        radius=size,
        ddag=ddag_bound(D, size, m, k * (k - 1) // 2, delta),
        matrix=ddag_bound(whole, size, m, k * (k - 1) // 2, delta),
        classes=np.array([ddag_bound(d, size, m, k - 1, delta) for d in each]),
    )


def ddag_bound(D: float, radius: float, m: int, nodes: int, delta: float) -> float:
    """Return the bound of a decision graph ([CS02] Theorem 4).

        130 R^2 / m (D log(4em) log(4m) + log(2 (2m)^nodes / delta))

    Corollary 2 is this with D = k |M|^2, Corollary 3 with D = k |M_r|^2 + |M|^2 and k - 1 nodes.
    Logarithms are natural; (2m)^nodes is never formed.

    Parameters
    ----------
    D : float
        Sum of 1 / margin^2 over the nodes.
    radius : float
        Radius R of a ball that holds all rows.
    m : int
        Number of training rows.
    nodes : int
        Number of nodes of the graph.
    delta : float
        Probability with which the bound may fail.

    Returns
    -------
    float
        The bound on the error.

    Examples
    --------
    >>> round(ddag_bound(2.0, 1.0, 1000, 3, 0.05), 1)
    23.5
    """
    if not 0 < delta < 1:
        raise ValueError(f"delta must lie between 0 and 1, got {delta!r}.")
    if not np.isfinite(D):
        return np.inf
    room = np.log(2.0) + nodes * np.log(2.0 * m) - np.log(delta)
    return float(130.0 * radius**2 / m * (D * np.log(4.0 * np.e * m) * np.log(4.0 * m) + room))


def pair_margins(scores: Array, labels: Array, inner: Array) -> Array:
    """Return the margin of each pair of classes ([CS02] Section 7).

    It is gamma_rs = min |w_rs.x| / |w_rs| over the rows of classes r and s.

    Parameters
    ----------
    scores : ndarray of shape (n_samples, n_classes)
        Scores M_r.x_i.
    labels : ndarray of shape (n_samples,)
        Class indices.
    inner : ndarray of shape (n_classes, n_classes)
        Inner products M_r.M_s.

    Returns
    -------
    ndarray of shape (n_classes, n_classes)
        The margins, symmetric; 0 where a row is on the wrong side, infinite on the diagonal.

    Examples
    --------
    >>> found = pair_margins(np.eye(2), np.array([0, 1]), np.eye(2))
    >>> float(found[0, 1].round(3)), float(found[0, 0])
    (0.707, inf)
    """
    k = len(inner)
    lead = np.full((k, k), np.inf)
    for r in range(k):
        rows = scores[labels == r]
        if len(rows):
            lead[r] = (rows[:, [r]] - rows).min(axis=0)
    lead = np.maximum(0.0, np.minimum(lead, lead.T))
    norms = np.diag(inner)
    distance = np.sqrt(np.maximum(0.0, norms[:, None] + norms - 2.0 * inner))
    np.fill_diagonal(lead, np.inf)
    return np.divide(lead, distance, out=np.where(lead > 0, np.inf, 0.0), where=distance > 0)


def enclosing_radius(K: Array, *, tol: float = 1e-6) -> float:
    """Return the radius of the smallest ball around rows with kernel values K.

    Problem: max over the simplex of sum_i alpha_i K_ii - alpha'K alpha, whose value is R^2.
    Algorithm: Frank-Wolfe with away steps and exact line search; mass goes to the row farthest
    from the centre, from the nearest of those that have some. Stopping: R^2 is known within the
    factor 1 + tol; the largest distance bounds it from above.

    Parameters
    ----------
    K : ndarray of shape (n_samples, n_samples)
        Kernel values of the rows.
    tol : float, default=1e-6
        Relative tolerance of R^2.

    Returns
    -------
    float
        The radius R.

    Examples
    --------
    >>> round(enclosing_radius(np.array([[4.0, -4.0], [-4.0, 4.0]])), 6)
    2.0
    """
    K = np.asarray(K, dtype=np.float64)
    diagonal, alpha = np.diag(K), np.zeros(len(K))
    alpha[0] = 1.0
    product = K[0].copy()
    for _ in range(MAX_ITER):
        size = float(alpha @ product)
        distance = diagonal - 2.0 * product + size
        i = int(np.argmax(distance))
        j = int(np.argmin(np.where(alpha > 0, distance, np.inf)))
        if distance[i] <= (1.0 + tol) * max(0.0, float(alpha @ diagonal) - size):
            break
        curve = max(K[i, i] + K[j, j] - 2.0 * K[i, j], 1e-300)
        step = min(float(alpha[j]), 0.5 * float(distance[i] - distance[j]) / curve)
        alpha[i] += step
        alpha[j] = max(0.0, alpha[j] - step)
        product += step * (K[i] - K[j])
    return float(np.sqrt(max(0.0, distance.max())))


def _radius(K: Any, radius: float | str) -> float:
    if not isinstance(radius, str):
        return positive(radius, "radius")
    lookup({"origin": None, "ball": None}, radius, "radius")
    if K is None:
        raise ValueError("The radius needs the kernel values of the training rows: give K.")
    K = np.asarray(K, dtype=np.float64)
    return enclosing_radius(K) if radius == "ball" else float(np.sqrt(np.diag(K).max()))


def _smallest_leads(scores: Array, labels: Array) -> Array:
    """Return, per class, the smallest lead in the pairs it is part of. (n_classes,)"""
    leads = np.full(scores.shape[1], np.inf)
    own = scores[np.arange(len(labels)), labels][:, None]
    lead = np.where(np.arange(scores.shape[1]) == labels[:, None], np.inf, own - scores)
    np.minimum.at(leads, labels, lead.min(axis=1))
    return np.minimum(leads, lead.min(axis=0))


def _inverse(values: Any) -> Any:
    """Return 1 / values, infinite where they are 0."""
    values = np.asarray(values, dtype=np.float64)
    return np.divide(1.0, values, out=np.full(values.shape, np.inf), where=values > 0)
