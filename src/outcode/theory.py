"""Generalisation bounds as numbers: of [CS02] Section 7 for a fitted SPOC, of [EPY08] Section 4.

[CS02]: a matrix M gives a machine w_rs = M_r - M_s for each pair of classes (Eq. 48), and with them
the decision graph of Platt, Cristianini & Shawe-Taylor (2000), whose bounds carry over. They
suppose that every training row is classified correctly; otherwise they say nothing (infinity).

[EPY08]: the single binary problem is a machine with a learned kernel, for which Srebro & Ben-David
(2006) bound the error by the share of small margins; c such errors bound the multiclass error.

All hold with probability at least 1 - delta, and are far above 1 on data of any usual size: what
they are good for is comparing machines.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.optimize import brentq
from scipy.special import rel_entr
from scipy.stats import norm
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from outcode._checks import Array, lookup, positive

#: Iterations of the smallest enclosing ball.
MAX_ITER = 100_000
#: Margins tried when none is given: sqrt(R) / 2^j, j below this.
HALVINGS = 40


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


# --- one binary problem ---


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


# --- stability ---


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


# --- radii and leads ---


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
