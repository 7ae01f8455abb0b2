"""Codes of +1 and -1 for given machines. [CS02] Sections 2 to 4"""

from __future__ import annotations

from typing import Any

import numpy as np

from outcode._checks import Array, row_weights
from outcode.design.problem import class_indices, outputs

#: best_code_exhaustive enumerates at most this many codes.
EXHAUSTIVE_LIMIT = 2**20
#: Scores are equal if they differ by less than this share of the sizes that are summed.
TIE = 1e-12


def code_error(
    code: Array, H: Array, labels: Array, sample_weight: Any = None, closeness: Any = None
) -> float:
    """Return the expected error of a code, with ties broken at random.

    [CS02] Eq. 1. epsilon = 1 - (1 / m) sum_i [y_i in H(x_i)] / |H(x_i)|, where H(x) are all the
    classes whose codeword attains max_r K(h(x), M_r), up to the rounding of these sums; with
    weights their weighted mean.

    Parameters
    ----------
    code : array-like of shape (n_classes, n_columns)
        Any real numbers.
    H : array-like of shape (n_samples, n_columns)
        Outputs of the machines.
    labels : array-like of shape (n_samples,)
        Class indices.
    sample_weight : array-like of shape (n_samples,) or None, default=None
        Weights of the rows, 1 each when None.
    closeness : callable or None, default=None
        K, a function of H and the code that returns (n_samples, n_classes), larger for closer rows;
        None is the inner product.

    Returns
    -------
    float
        The error epsilon.

    Examples
    --------
    >>> code_error([[1], [-1], [-1]], [[1], [-1]], [0, 1])
    0.25
    >>> from sklearn.metrics.pairwise import rbf_kernel
    >>> code_error([[1.0], [3.0]], [[1.0], [2.5]], [0, 1], closeness=rbf_kernel)
    0.0
    """
    code, H = np.asarray(code, dtype=np.float64), outputs(H)
    labels, _ = class_indices(labels, len(H), len(code))
    if code.ndim != 2 or code.shape[1] != H.shape[1]:
        raise ValueError(
            f"code must have a column per column of H ({H.shape[1]}), got shape {code.shape}."
        )
    if closeness is None:
        winners = _winners(H @ code.T, np.abs(H) @ np.abs(code).T)
    else:
        scores = np.asarray(closeness(H, code), dtype=np.float64)
        winners = _winners(scores, np.abs(scores))
    right = winners[np.arange(len(H)), labels] / winners.sum(axis=1)
    weight = row_weights(sample_weight, len(H))
    return float(1.0 - weight @ right / weight.sum())


def _winners(scores: Array, sizes: Array) -> Array:
    """Return which scores are the largest of their row, ``sizes`` being the sums of |h_s m_rs|.

    h . M_r is a rounded sum: what is equal for exact numbers must not hang on its last bit.
    """
    slack = TIE * sizes.max(axis=1, keepdims=True)
    return np.asarray(scores >= scores.max(axis=1, keepdims=True) - slack)


def best_column(
    h: Array, labels: Array, *, n_classes: int | None = None, sample_weight: Any = None
) -> Array:
    """Return the column with the least error for one machine.

    [CS02] Theorem 1. With a_r^b the weight of the rows of class r that the machine calls b, and w^b
    the number of classes with u_r = b, the accuracy is sum_r a_r^{u_r} / w^{u_r} (Eq. 5). For each
    w^+ it is largest when the +1 go to the classes of largest a_r^+ / w^+ - a_r^- / w^- (Eq. 6).
    Costs O(m + k^2 log k). Among equally good columns the one with fewest +1 is returned, and these
    go to the lower class indices.

    Parameters
    ----------
    h : array-like of shape (n_samples,)
        Outputs of the machine, +1 or -1.
    labels : array-like of shape (n_samples,)
        Class indices.
    n_classes : int or None, default=None
        Length of the column; the largest label plus one when None.
    sample_weight : array-like of shape (n_samples,) or None, default=None
        Weights of the rows, 1 each when None.

    Returns
    -------
    ndarray of shape (n_classes,)
        The column, int8.

    Examples
    --------
    >>> best_column([1, 1, -1, -1], [0, 0, 1, 2]).tolist()
    [1, -1, -1]
    """
    h = np.asarray(h)
    if h.ndim != 1 or not np.isin(h, (-1, 1)).all():
        raise ValueError("h must hold +1 and -1 only, shape (n_samples,): give np.sign of margins.")
    labels, k = class_indices(labels, len(h), n_classes)
    weight = row_weights(sample_weight, len(h))
    plus, minus = (np.bincount(labels, weight * (h == sign), minlength=k) for sign in (1, -1))
    size = np.arange(1, k)[:, None]
    gain = plus / size - minus / (k - size)
    order = np.argsort(-gain, axis=1, kind="stable")
    chosen = np.arange(k) < size
    value = (np.take_along_axis(gain, order, axis=1) * chosen).sum(axis=1)
    value += minus.sum() / (k - size.ravel())
    best = int(np.argmax(value > value.max() - TIE * weight.sum()))
    column = np.full(k, -1, dtype=np.int8)
    column[order[best, : best + 1]] = 1
    return column


def best_code_exhaustive(
    H: Array, labels: Array, *, n_classes: int | None = None, sample_weight: Any = None
) -> Array:
    """Return a code of +1 and -1 with the least error, by trying them all.

    [CS02] Section 4. Finding it is NP-complete (Theorem 2), so this is for tiny problems: there are
    2^(n_classes n_columns) codes, and an error is raised beyond ``EXHAUSTIVE_LIMIT`` of them.

    Parameters
    ----------
    H : array-like of shape (n_samples, n_columns)
        Outputs of the machines, any real numbers.
    labels : array-like of shape (n_samples,)
        Class indices.
    n_classes : int or None, default=None
        Number of rows of the code; the largest label plus one when None.
    sample_weight : array-like of shape (n_samples,) or None, default=None
        Weights of the rows, 1 each when None.

    Returns
    -------
    ndarray of shape (n_classes, n_columns)
        The code, int8, the first of equals counting up from all -1.

    Examples
    --------
    >>> best_code_exhaustive([[1.0, 1.0], [-1.0, 1.0]], [0, 1]).tolist()
    [[1, -1], [-1, -1]]
    """
    H = outputs(H)
    labels, k = class_indices(labels, len(H), n_classes)
    if k * H.shape[1] > np.log2(EXHAUSTIVE_LIMIT):
        raise ValueError(
            f"{k} classes and {H.shape[1]} columns make 2^{k * H.shape[1]} codes, more than the "
            f"{EXHAUSTIVE_LIMIT:,} that are tried: the problem is NP-complete. Use best_column for "
            f"one column, or continuous_code."
        )
    words = 2 * _bits(H.shape[1]) - 1
    patterns, shares = _pattern_weights(H, labels, k, row_weights(sample_weight, len(H)))
    scores, sizes = patterns @ words.T, np.abs(patterns).sum(axis=1)
    best, accuracy = np.zeros(k, dtype=np.intp), -1.0
    for start in range(0, len(words) ** k, 2**12):
        stop = min(start + 2**12, len(words) ** k)
        picks = np.stack(np.unravel_index(np.arange(start, stop), (len(words),) * k), axis=1)
        found = _accuracies(picks, scores, sizes, shares)
        if found.max() > accuracy + TIE:
            best, accuracy = picks[np.argmax(found > found.max() - TIE)], found.max()
    return words[best].astype(np.int8)


def _accuracies(picks: Array, scores: Array, sizes: Array, shares: Array) -> Array:
    """Return the accuracy of codes whose rows are ``picks`` (n_codes, n_classes) of the words."""
    total = np.zeros(len(picks))
    for score, size, share in zip(scores, sizes, shares, strict=True):
        winners = _winners(score[picks], np.array([[size]]))
        total += (winners @ share) / winners.sum(axis=1)
    return total


def _pattern_weights(H: Array, labels: Array, k: int, weight: Array) -> tuple[Array, Array]:
    """Return the distinct rows of H and the share of each class among each of them."""
    patterns, inverse = np.unique(H, axis=0, return_inverse=True)
    shares = np.zeros((len(patterns), k))
    np.add.at(shares, (inverse.ravel(), labels), weight / weight.sum())
    return patterns, shares


def _bits(n: int) -> Array:
    """Return all the 2^n rows of n zeros and ones, counting up."""
    return (np.arange(2**n)[:, None] >> np.arange(n)[::-1]) & 1
