"""How far leaving a row out can move margins: [PPF04] section IV-B."""

from __future__ import annotations

from typing import Any

import numpy as np

from outcode._checks import Array


def margin_stability(code: Any, C: Any = 1.0, kappa: Any = 1.0) -> Array:
    """Return how far leaving a row out can move its multiclass margins ([PPF04] section IV-B).

    Of a row of class y against class q, with K(x, x) <= kappa (the 1 of ``bias="kernel"`` included)
    and alpha <= C, by Theorem 4.1 the linear margin (m_y - m_q).f falls by at most

        C kappa sum_s m_ys (m_ys - m_qs).

    The largest entry is 4 C kappa for one-vs-all, Q C kappa for Q classes in pairs and 2 d C kappa
    for a dense code whose codewords differ in at most d columns (the paper prints 2C, (Q - 1)C and
    (S - 1)C).

    Parameters
    ----------
    code : array-like of shape (n_classes, n_dichotomies)
        Code matrix of +1, -1 and 0.
    C : float or array-like of shape (n_dichotomies,), default=1.0
        Upper bound of alpha, one for all columns or one for each.
    kappa : float or array-like of shape (n_dichotomies,), default=1.0
        Upper bound of K(x, x), one for all columns or one for each.

    Returns
    -------
    ndarray of shape (n_classes, n_classes)
        The largest fall of the margin of class y (row) against class q (column); 0 on the diagonal.

    Examples
    --------
    >>> from outcode.codes import code_matrix
    >>> float(margin_stability(code_matrix("ova", 5), C=2.0).max())
    8.0
    >>> float(margin_stability(code_matrix("ovo", 5)).max())
    5.0
    """
    M = np.asarray(code, dtype=np.float64)
    if M.ndim != 2:
        raise ValueError(f"code must be (n_classes, n_dichotomies), got shape {M.shape}.")
    reach = np.asarray(C, dtype=np.float64) * np.asarray(kappa, dtype=np.float64)
    if not np.all(np.isfinite(reach)) or np.any(reach <= 0):
        raise ValueError("C and kappa must be positive numbers, or one for each column.")
    each = np.broadcast_to(reach, M.shape[1])
    return np.asarray((M[:, None, :] * (M[:, None, :] - M)) @ each)
