"""Bounds of a fitted SingleBinaryClassifier: [EPY08] Section 4."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.optimize import brentq
from scipy.special import rel_entr
from scipy.stats import norm
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from outcode._checks import Array, positive

#: Margins tried when none is given: sqrt(R) / 2^j, j below this.
HALVINGS = 40


@dataclass(frozen=True)
class MarginBound:
    """The bound of a single binary problem and its parts.

    Parameters
    ----------
    bound : float
        The bound n_classes (``margin_error`` + ``slack``).
    margin : float
        The margin gamma.
    margin_error : float
        Share of drawn copies with y w.phi(z) / |w| < gamma.
    slack : float
        The root of Q.
    radius : float
        Largest K(z, z) that the kernel family allows, R.
    n_kernels : int
        Number of kernels, n.
    """

    bound: float
    margin: float
    margin_error: float
    slack: float
    radius: float
    n_kernels: int


def sbc_bound(
    clf: Any,
    *,
    margin: float | None = None,
    delta: float = 0.05,
    diagonal: float | None = None,
    random_state: Any = None,
) -> MarginBound:
    """Return the risk bound of a fitted SingleBinaryClassifier ([EPY08] Lemma 4.1).

    With probability at least 1 - delta the multiclass error is at most  c l_gamma + c sqrt(Q):
    l_gamma is the share of small margins among m copies, one drawn for each row, and Q is that of
    :func:`learned_kernel_slack`.

    The lemma prints h for what its source, Theorem 2 of Srebro & Ben-David (2006), states for
    |w| = 1 and no bias. So h is divided by |w|, and b is left out, which changes no argmax. gamma
    has to be chosen before the data are seen; ``margin=None`` takes the best of
    gamma_j = sqrt(R) / 2^j, j = 0, 1, ..., each held to delta / ((j + 1) (j + 2)), which sum to
    delta.

    It says that few classes, many rows, a small R and large margins are good, in one number. It
    does not estimate the error: sqrt(Q) c > 1 for any machine whatsoever with fewer than two
    million rows (c = 2; five million for c = 3), so that there it proves nothing.

    Parameters
    ----------
    clf : SingleBinaryClassifier
        Fitted classifier, not with ``extension="ecoc"``, whose copies are not one per class. Every
        row counts once, whatever its weight.
    margin : float, default=None
        The margin gamma. None takes the best of several.
    delta : float, default=0.05
        Probability with which the bound may fail.
    diagonal : float, default=None
        Largest K_x(x, x) there can be. None is 1, for the kernels "rbf" and "laplacian".
    random_state : int, RandomState or None, default=None
        Seed of the copies drawn.

    Returns
    -------
    MarginBound
        The bound and its parts.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from outcode import SingleBinaryClassifier
    >>> X, y = load_iris(return_X_y=True)
    >>> found = sbc_bound(SingleBinaryClassifier(C=10).fit(X, y), random_state=0)
    >>> found.n_kernels, found.bound > 1
    (3, True)
    """
    check_is_fitted(clf, "rule_")
    m, c = clf.training_margins_.shape
    if clf.code_.shape[0] != c or (isinstance(clf.extension, str) and clf.extension == "ecoc"):
        raise ValueError(
            "The bound is for one copy per class: it does not apply to extension='ecoc'."
        )
    R = clf.kernel_bound_ * _diagonal(clf.machine_.kernel_, diagonal)
    drawn = check_random_state(random_state).randint(c, size=m)
    margins = normalised_margins(clf)[np.arange(m), drawn]
    n = len(clf.kernel_weights_)
    if margin is not None:
        return _margin_bound(margins, R, n, c, positive(margin, "margin"), delta)
    steps = range(HALVINGS)
    tried = [
        _margin_bound(margins, R, n, c, np.sqrt(R) / 2**j, delta / ((j + 1) * (j + 2)))
        for j in steps
    ]
    return min(tried, key=lambda found: found.bound)


@dataclass(frozen=True)
class PacBayesBound:
    """The PAC-Bayes bound of a single binary problem and its parts.

    Parameters
    ----------
    bound : float
        Bound on the error of the machine itself, twice ``gibbs``.
    gibbs : float
        Bound on the error of a machine drawn around it.
    drawn_error : float
        Bound on the training error of drawn machines.
    length : float
        How far from 0 they are drawn, mu.
    """

    bound: float
    gibbs: float
    drawn_error: float
    length: float


def pac_bayes_bound(clf: Any, *, delta: float = 0.05) -> PacBayesBound:
    """Return the PAC-Bayes bound of a SingleBinaryClassifier with one class kernel.

    [EPY08] section 4.1, footnote 5: for n = 1 the bound of McAllester (2007) applies, with a
    logarithmic dependence on the number of classes. Draw v from N(mu w / |w|, I) and classify by
    argmax_r v.phi_r(x). It errs at (x, y) with a probability of at most

        sum_{r != y} P(v.(phi_y - phi_r) <= 0) = sum_r Phi(-mu g_r),
        g_r = w.(phi_y - phi_r) / (|w| |phi_y - phi_r|).

    With the prior N(0, I) the divergence is mu^2 / 2, and with probability at least 1 - delta
    kl(training error | error) <= (mu^2 / 2 + log(2 sqrt(m) / delta)) / m (Maurer 2004). Where w
    itself errs, a drawn v errs with a probability of at least 1/2, so that the error of w is at
    most twice as large. mu^2 = 2, 4, 8, ... are tried, each held to its share of delta. With
    margins g_r >= g and mu^2 = 2 log(c m) / g^2 the sum is below 1 / m: classes enter by their
    logarithm.

    The class kernel must not depend on the data: not learned, and not the class distribution.

    Parameters
    ----------
    clf : SingleBinaryClassifier
        Fitted classifier with a single class kernel. Every row counts once, whatever its weight.
    delta : float, default=0.05
        Probability with which the bound may fail.

    Returns
    -------
    PacBayesBound
        The bound and its parts.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from outcode import SingleBinaryClassifier
    >>> X, y = load_iris(return_X_y=True)
    >>> clf = SingleBinaryClassifier("identity", C=10).fit(X, y)
    >>> pac_bayes_bound(clf).bound < sbc_bound(clf, random_state=0).bound
    True
    """
    check_is_fitted(clf, "rule_")
    if len(clf.kernel_weights_) != 1 or clf.code_.shape[0] != clf.training_margins_.shape[1]:
        raise ValueError(
            "The PAC-Bayes bound is for one class kernel that was not learned, and one copy per "
            "class: use extension='identity' or 'single', or sbc_bound."
        )
    if not 0 < delta < 1:
        raise ValueError(f"delta must lie between 0 and 1, got {delta!r}.")
    leads, m = pair_leads(clf), len(clf.labels_)
    tried = []
    for j in range(HALVINGS):
        length, part = np.sqrt(2.0 ** (j + 1)), delta / ((j + 1) * (j + 2))
        drawn = float(np.minimum(1.0, norm.cdf(-length * leads).sum(axis=1)).mean())
        room = (length**2 / 2.0 + np.log(2.0 * np.sqrt(m) / part)) / m
        gibbs = kl_inverse(drawn, room)
        tried.append(PacBayesBound(2.0 * gibbs, gibbs, drawn, float(length)))
    return min(tried, key=lambda found: found.bound)


def pair_leads(clf: Any) -> Array:
    """Return the normalised lead of the true class over every other, infinite for itself.

        w.(phi_y - phi_r) / (|w| |phi_y - phi_r|)

    Parameters
    ----------
    clf : SingleBinaryClassifier
        Fitted classifier with a single class kernel.

    Returns
    -------
    ndarray of shape (n_samples, n_classes)
        The leads on the training rows.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from outcode import SingleBinaryClassifier
    >>> X, y = load_iris(return_X_y=True)
    >>> pair_leads(SingleBinaryClassifier("identity").fit(X, y)).shape
    (150, 3)
    """
    f, labels, K = clf.training_margins_ - clf.bias_, clf.labels_, clf.class_kernel_
    length = np.sqrt(max(float((clf.dual_coef_ * f).sum()), 1e-300))
    square = np.diag(K)[labels][:, None] + np.diag(K) - 2.0 * K[labels]
    size = np.sqrt(np.maximum(clf.machine_.gram_diagonal_[:, None] * square, 1e-300))
    leads = (f[np.arange(len(f)), labels][:, None] - f) / (length * size)
    leads[np.arange(len(f)), labels] = np.inf
    return np.asarray(leads)


def kl_inverse(error: float, room: float) -> float:
    """Return the largest q with kl(error | q) <= room, the divergence of two Bernoulli variables.

    Parameters
    ----------
    error : float
        Error rate seen.
    room : float
        Largest divergence allowed.

    Returns
    -------
    float
        The largest error rate q.

    Examples
    --------
    >>> round(kl_inverse(0.0, 0.1), 6), round(1 - float(np.exp(-0.1)), 6)
    (0.095163, 0.095163)
    """

    def excess(q: float) -> float:
        return float(rel_entr(error, q) + rel_entr(1.0 - error, 1.0 - q)) - room

    top = 1.0 - 1e-15
    if error >= top or excess(top) <= 0:
        return 1.0
    return float(brentq(excess, max(error, 1e-300), top, xtol=1e-12))


def normalised_margins(clf: Any) -> Array:
    """Return y_ir w.phi_r(x_i) / |w| of every copy, without the bias.

    Parameters
    ----------
    clf : SingleBinaryClassifier
        Fitted classifier.

    Returns
    -------
    ndarray of shape (n_samples, n_classes)
        The margins on the training rows.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from outcode import SingleBinaryClassifier
    >>> X, y = load_iris(return_X_y=True)
    >>> normalised_margins(SingleBinaryClassifier().fit(X, y)).shape
    (150, 3)
    """
    f = clf.training_margins_ - clf.bias_
    norm = np.sqrt(max(0.0, float((clf.dual_coef_ * f).sum())))
    return np.asarray(clf.code_[clf.labels_] * f / max(norm, 1e-300))


def learned_kernel_slack(m: int, radius: float, n: int, margin: float, delta: float) -> float:
    """Return sqrt(Q), the cost of learning the kernel ([EPY08] Lemma 4.1).

    Q = 8/m (2 + 256 R/gamma^2 log(gamma e m / (8 sqrt R)) log(128 m R / gamma^2) - log delta
    + n log(128 e m^3 R / (gamma^2 n))), for m rows, n basis kernels and K(z, z) <= R. Infinite
    where gamma e m <= 8 sqrt R: the formula needs its logarithms positive.

    Parameters
    ----------
    m : int
        Number of training rows.
    radius : float
        Largest K(z, z), R.
    n : int
        Number of basis kernels.
    margin : float
        The margin gamma.
    delta : float
        Probability with which the bound may fail.

    Returns
    -------
    float
        The root of Q.

    Examples
    --------
    >>> round(learned_kernel_slack(10_000_000, 1.0, 1, 1.0, 0.05), 3)
    0.254
    """
    if not 0 < delta < 1:
        raise ValueError(f"delta must lie between 0 and 1, got {delta!r}.")
    ratio = radius / margin**2
    first = np.log(np.e * m / 8.0) - 0.5 * np.log(ratio)
    if first <= 0:
        return np.inf
    covering = 256.0 * ratio * first * np.log(128.0 * m * ratio)
    kernels = n * (np.log(128.0 * np.e * ratio / n) + 3.0 * np.log(m))
    return float(np.sqrt(8.0 / m * (2.0 + covering - np.log(delta) + kernels)))


def consistency_margin(proba: Array) -> float:
    """Return min_x max_r P(r | x) - 1/2; the SBC loss is consistent if > 0 ([EPY08] Lemma 4.2).

    The expected loss at x is sum_r (1 - P(r|x)) (1 + f_r)_+ + P(r|x) (1 - f_r)_+ (Eq. B.2), least
    at f_r = 1 where P(r|x) > 1/2 and at -1 where it is smaller. If no class has more than half,
    all f_r are -1, and the argmax need not be the most probable class.

    It speaks of the minimiser over all functions and of infinitely many rows; the machine itself is
    regularised. Probabilities at some rows can only refute the condition, not prove it for all x,
    and estimated ones not even that.

    Parameters
    ----------
    proba : array-like of shape (n_samples, n_classes)
        Probabilities of the classes at some rows.

    Returns
    -------
    float
        The smallest lead of the most probable class over 1/2.

    Examples
    --------
    >>> round(consistency_margin([[0.9, 0.1, 0.0], [0.2, 0.2, 0.6]]), 6)
    0.1
    """
    proba = np.asarray(proba, dtype=np.float64)
    whole = proba.ndim == 2 and proba.size > 0 and np.all(proba >= 0)
    if not (whole and np.allclose(proba.sum(axis=1), 1.0, rtol=0.0, atol=1e-6)):
        raise ValueError(
            f"proba must be (n_samples, n_classes) probabilities whose rows sum to 1, got shape "
            f"{proba.shape}."
        )
    return float(proba.max(axis=1).min() - 0.5)


def _margin_bound(
    margins: Array, radius: float, n: int, n_classes: int, margin: float, delta: float
) -> MarginBound:
    error = float(np.mean(margins < margin))
    slack = learned_kernel_slack(len(margins), radius, n, margin, delta)
    return MarginBound(n_classes * (error + slack), margin, error, slack, radius, n)


def _diagonal(kernel: Any, diagonal: float | None) -> float:
    if diagonal is not None:
        return positive(diagonal, "diagonal")
    if not kernel.unit:
        raise ValueError(
            f"The bound needs the largest K(x, x) there can be, which the kernel "
            f"{type(kernel).__name__} does not tell: give diagonal."
        )
    return 1.0
