"""The leave-one-out bound made smooth, and its gradient by a gamma for each feature. [PPF04] VI

The bound counts row i where, under the margins shifted as far as leaving it out can move them,

    F_is = f_s(x_i) - b_is G_ii,        b_is = alpha_is m_ys,

its own class does not win. A step becomes the probability of another class among scores divided by
the softness T (a softmax): 1 - p_y, p_q = exp(s_q(F_i) / T) / sum_r exp(s_r(F_i) / T). It is at
least 1/2 where the bound counts the row, so that twice the mean is a bound too, and tends to the
bound as T tends to 0.

The gradient. Let P_is be the derivative of the mean by F_is, K the kernel with the 1 of the bias.
Where the rows at 0, at C and between stay what they are, the free dual variables (those between) of
column s solve K_FF b_F + K_FC b_C = m_F, so that a change dK of the kernel changes them by
-K_FF^-1 (dK b)_F and no others. With v_F = K_FF^-1 (K P_s - G P_s)_F, v = 0 elsewhere,

    d mean = sum_s (P_s - v_s)' dK b_s - sum_is P_is b_is dG_ii,

a sum over pairs of rows with weights W = sum_s (P_s - v_s) b_s' (Chapelle et al. 2002 for two
classes). One product of W with the rows gives the derivatives by all gammas.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.linalg import LinAlgError, cho_factor, cho_solve

from outcode._checks import Array, positive
from outcode.capabilities import (
    HasDuals,
    HasGammaGradient,
    HasKernel,
    HasSlopes,
    LeavesOut,
    require,
)
from outcode.decoders.likelihood import softmax
from outcode.training import Rule

WHO = "The smoothed bound"
#: Dual variables this share of C away from 0 and C are free.
FREE = 1e-7
#: Added to the diagonal of the free rows' matrix, in units of its largest entry.
RIDGE = 1e-12


@dataclass(frozen=True)
class SmoothBound:
    """The smoothed bound and its gradient.

    Parameters
    ----------
    error : float
        The (weighted) mean of 1 - p_y.
    rows : ndarray of shape (n_samples,)
        The value 1 - p_y of each row.
    gradient : ndarray of shape (n_features,)
        Derivatives of the error by the gamma of each feature.
    """

    error: float
    rows: Array
    gradient: Array


def smooth_bound(clf: Any, X: Any, *, softness: float = 1.0) -> SmoothBound:
    """Return the smoothed leave-one-out bound of a fitted classifier, with its gradient.

    What the decoder learned is held fixed, as in the bound itself. The gradient is exact where no
    dual variable is about to reach 0 or C, for machines solved exactly.

    Parameters
    ----------
    clf : OutputCodeClassifier
        Fitted, with an SVM on the kernel "rbf", the bias in the kernel or none, and a decoder with
        derivatives that the bound covers.
    X : array-like of shape (n_samples, n_features)
        The rows it was fitted on.
    softness : float, default=1.0
        T; the smaller, the nearer to the bound.

    Returns
    -------
    SmoothBound
        The bound, its value for each row, and its gradient.

    Examples
    --------
    >>> from outcode import OutputCodeClassifier
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> clf = OutputCodeClassifier(decoder="linear").fit(X, y)
    >>> smooth_bound(clf, X).gradient.shape
    (4,)
    """
    problem = clf.posed(X)
    return smoothed(clf.rule_, problem.store, problem.X, positive(softness, "softness"))


def smoothed(rule: Rule, gram: Any, X: Array, softness: float) -> SmoothBound:
    """Return the smoothed bound of a rule on the Gram store of its training rows."""
    check_smooth(rule)
    require(gram.kernel, HasGammaGradient, WHO)
    machine, weight = rule.machine, rule.problem.weight
    shift = 1.0 if machine.bias == "kernel" else 0.0
    K = gram.between(*[np.arange(len(gram))] * 2).astype(np.float64)
    G = np.diag(K)[:, None] + shift
    left_out = machine.training_margins_ - machine.dual_coef_ * G
    rows, P = _probabilities(rule, left_out, softness)
    share = weight / weight.sum()
    W = pair_weights(K + shift, G, machine, share[:, None] * P, weight)
    gradient = gram.kernel.gamma_gradient(np.asarray(X, dtype=np.float64), W * K)
    return SmoothBound(float(share @ rows), rows, gradient)


def check_smooth(rule: Rule) -> None:
    """Raise an error if a rule has no smoothed bound with a gradient."""
    for protocol in (HasDuals, LeavesOut, HasKernel):
        require(rule.machine, protocol, WHO)
    require(rule.decoder, HasSlopes, WHO)
    if not rule.decoder.monotone:
        raise ValueError(
            f"{WHO} covers decoders that sum a non-increasing loss of each margin, not "
            f"{rule.decoder!r}: use 'linear', 'logistic', 'hinge' or 'likelihood'."
        )
    if rule.machine.bias == "free":
        raise ValueError(f"{WHO} does not hold with a free bias: use bias='kernel' or 'none'.")


def _probabilities(rule: Rule, margins: Array, softness: float) -> tuple[Array, Array]:
    """Return 1 - p_y of every row, and its derivatives by the margins (n_samples, n_columns)."""
    labels, own = rule.problem.labels, np.arange(len(margins))
    p = softmax(rule.scores(margins), softness)
    by_scores = p[own, labels][:, None] * p / softness  # p_y p_q / T, and for y itself
    by_scores[own, labels] -= p[own, labels] / softness  # -p_y (1 - p_y) / T
    slopes = np.asarray(rule.decoder.slopes(margins), dtype=np.float64)
    return 1.0 - p[own, labels], np.einsum("iq,iqs->is", by_scores, slopes)


def pair_weights(K: Array, G: Array, machine: Any, P: Array, weight: Array) -> Array:
    """Return W = sum_s (P_s - v_s) b_s', the weight of each pair of rows in the gradient."""
    coef, box = machine.dual_coef_, float(machine.C) * weight[:, None]
    free = (np.abs(coef) > FREE * box) & (np.abs(coef) < (1.0 - FREE) * box)
    pulled, V = K @ P - G * P, np.zeros_like(P)
    for s in range(P.shape[1]):
        rows = np.flatnonzero(free[:, s])
        if len(rows):
            V[rows, s] = _solved(K[np.ix_(rows, rows)], pulled[rows, s])
    return (P - V) @ coef.T


def _solved(K: Array, side: Array) -> Array:
    """Return K^-1 side; of a singular K the solution of least length."""
    try:
        return np.asarray(cho_solve(cho_factor(K + RIDGE * K.max() * np.eye(len(K))), side))
    except LinAlgError:
        return np.asarray(np.linalg.lstsq(K, side)[0])
