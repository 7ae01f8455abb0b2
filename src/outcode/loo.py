"""Leave-one-out error of the whole multiclass rule: bounds from one training, and the value.

Removing row i moves the margin of machine s on that row by at most alpha_is G_ii, against the
row's own sign ([PPF04] Lemma 1.1):  m_ys f_s - alpha_is G_ii <= m_ys f_s^i <= m_ys f_s. So the
scores under the margins shifted by that much decide whether the row can become an error. The
shift is much too long where other support vectors can take over the work of the one left out:
:func:`sharp_bound` shortens it, :func:`estimate` takes what is most likely.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.utils import gen_batches
from sklearn.utils.validation import check_is_fitted

from outcode._checks import Array, row_weights, warn
from outcode.capabilities import HasDuals, KnowsLeftOut, LeavesOut, TrainsOnGram, can, require
from outcode.training import Problem, Rule, held_out_margins

#: The shift is lengthened by this share, so that rounding cannot make the bound too small.
ROUNDING = 1e-9
#: Scores closer than this share of their size are a tie, and so are errors.
TIE = 1e-12
#: Rows sharpened at first; twice as many each time.
FIRST_ROWS = 64
#: Rows at most by which given rows are told from other ones.
CHECKED_ROWS = 256


@dataclass(frozen=True)
class LooBound:
    """An upper bound of the leave-one-out error.

    Parameters
    ----------
    error : float
        The (weighted) share of ``flags``.
    flags : ndarray of shape (n_samples,)
        The rows that may be wrong when they are left out, bool.
    margins : ndarray of shape (n_samples,)
        The multiclass margins g(x_i, y_i) of the trained rule.
    U : ndarray of shape (n_samples, n_classes)
        The largest loss of margin against each class, -inf for the row's own: row i is flagged when
        g(x_i, y_i) <= max_q U_q(x_i).
    exact : bool, default=False
        Whether the margins left out were known in closed form, so that the bound is the error
        itself.
    """

    error: float
    flags: Array
    margins: Array
    U: Array
    exact: bool = False


@dataclass(frozen=True)
class LooError:
    """The leave-one-out error.

    Parameters
    ----------
    error : float
        The (weighted) share of ``flags``.
    flags : ndarray of shape (n_samples,)
        The rows predicted wrongly when left out, bool.
    margins : ndarray of shape (n_samples,)
        Their multiclass margins g^i(x_i, y_i); below 0 is wrong, 0 a tie.
    held_out : ndarray of shape (n_samples, n_dichotomies)
        The machines' margins on the row left out.
    """

    error: float
    flags: Array
    margins: Array
    held_out: Array


def bound(clf: Any) -> LooBound:
    """Bound the leave-one-out error of a fitted classifier, without training again.

    [PPF04] Theorem 4.1 (linear decoding) and Corollary 4.1 (any non-increasing loss): row i is
    counted when

        sum_s L(m_ys f_s - alpha_is G_ii m_ys^2) >= min_{q != y} sum_s L(m_qs f_s - alpha_is G_ii
        m_ys m_qs),

    with ties counted as errors. The fitted parameters of the decoder and C are fixed. It holds for
    machines solved exactly, with the bias in the kernel or without one, and costs
    O(n_samples n_classes n_dichotomies).

    Least-squares machines have leave-one-out margins in closed form: these are used instead, with
    any decoder, and the result is the leave-one-out error itself, with ties counted as errors.

    Parameters
    ----------
    clf : OutputCodeClassifier or Rule
        Fitted classifier with kernel machines, or its rule.

    Returns
    -------
    LooBound
        The bound, and the rows it counts.

    Examples
    --------
    >>> from outcode import OutputCodeClassifier
    >>> from sklearn.datasets import load_iris
    >>> clf = OutputCodeClassifier(decoder="linear").fit(*load_iris(return_X_y=True))
    >>> bool(bound(clf).error >= 1 - clf.score(*load_iris(return_X_y=True)))
    True
    """
    rule = _rule(clf)
    if not (exact := can(rule.machine, KnowsLeftOut)):
        _check_covered(rule)
    labels, code = rule.problem.labels, rule.problem.code
    n = len(labels)
    margins, flags, U = np.empty(n), np.empty(n, dtype=bool), np.empty((n, len(code)))
    for rows in gen_batches(n, max(1, 2**22 // code.size)):
        left_out = rule.machine.loo_margins_[rows] if exact else _shifted(rule, rows)
        scores = rule.scores(rule.machine.training_margins_[rows])
        margins[rows] = _against_others(scores, labels[rows]).min(axis=1)
        flags[rows], U[rows] = _decoded(rule, rows, left_out, margins[rows])
    return LooBound(_share(flags, rule.problem.weight), flags, margins, U, exact)


def sharp_bound(clf: Any, X: Any) -> LooBound:
    """Bound the leave-one-out error of a fitted classifier much more closely than :func:`bound`.

    For every correctly classified row that :func:`bound` counts, the solver makes some steps
    without it, and a ball around the resulting point contains the machine trained without it
    (:func:`columns.removals`, with the proof). The shift of each margin is the smaller of
    that and [PPF04]'s alpha_is G_ii, so that the rows counted are some of those of :func:`bound`.
    It holds under the same conditions (machines solved exactly), for decoders that :func:`bound`
    covers, and takes the time of one to a few trainings.

    Parameters
    ----------
    clf : OutputCodeClassifier
        Fitted, with support vector machines, bias in the kernel or none.
    X : array-like of shape (n_samples, n_features)
        The rows it was fitted on.

    Returns
    -------
    LooBound
        The bound, and the rows it counts.

    Examples
    --------
    >>> from outcode import OutputCodeClassifier
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> clf = OutputCodeClassifier(decoder="linear").fit(X, y)
    >>> exact(clf, X, y).error <= sharp_bound(clf, X).error < bound(clf).error
    True
    """
    rule = _rule(clf)
    if not can(rule.machine, KnowsLeftOut):
        check_followed(rule.machine)
    found = bound(rule)
    return found if found.exact else sharpened(rule, found, _gram(rule, clf.posed(X)))


def sharpened(
    clf: Any,
    found: LooBound,
    gram: Any,
    *,
    estimated: bool = False,
    goal: float = 1.0,
    n_jobs: int | None = None,
) -> LooBound:
    """Sharpen a bound on the Gram store of the training rows, or estimate what it bounds.

    The rows most likely to stay go first; once those that do are more than the share ``goal`` of
    all, the rest is counted as it is. An exact error is returned as it is.

    Parameters
    ----------
    clf : OutputCodeClassifier or Rule
        Fitted classifier, or its rule.
    found : LooBound
        What :func:`bound` returned.
    gram : Gram
        Gram store of the training rows.
    estimated : bool, default=False
        Take the most likely shift of each margin instead of a bound of it.
    goal : float, default=1.0
        Share of rows counted beyond which the rest is not sharpened.
    n_jobs : int or None, default=None
        Number of threads; None is all cores.

    Returns
    -------
    LooBound
        The sharpened bound, or the estimate.

    Examples
    --------
    >>> from outcode import OutputCodeClassifier
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> clf = OutputCodeClassifier(decoder="linear").fit(X, y)
    >>> found = bound(clf)
    >>> sharpened(clf, found, clf.posed(X).store).error < found.error
    True
    """
    if found.exact:
        return found
    rule = _rule(clf)
    check_followed(rule.machine)
    flags, U, weight = found.flags.copy(), found.U.copy(), rule.problem.weight
    targets = rule.problem.targets
    rows = np.flatnonzero(flags & (found.margins > 0))
    rows = rows[np.argsort((found.margins - U.max(axis=1))[rows], kind="stable")]
    sure, size = float(weight[flags].sum() - weight[rows].sum()), FIRST_ROWS
    while len(rows) and sure <= (goal + TIE) * weight.sum():  # a tie is to be told
        part, rows, size = rows[:size], rows[size:], 2 * size
        falls = rule.machine.removals(gram, targets, part, weight, n_jobs=n_jobs)
        left_out = _shifted(rule, part, falls[int(estimated)] * targets[part])
        flags[part], U[part] = _decoded(rule, part, left_out, found.margins[part])
        sure += float(weight[part] @ flags[part])
    return LooBound(_share(flags, weight), flags, found.margins, U)


def estimate(clf: Any, X: Any) -> LooError:
    """Estimate the leave-one-out error of a fitted classifier, much faster than :func:`exact`.

    Every support vector is left out once, but the solver makes only some steps without it, over the
    support vectors and the rows that are likely to become support vectors
    (:func:`columns.removals`).
    C, the code and the fitted parameters of the decoder do not change. The result is an estimate,
    not a bound, and works with any decoder. With least-squares machines it is the error itself.

    Parameters
    ----------
    clf : OutputCodeClassifier
        Fitted, with support vector machines, bias in the kernel or none.
    X : array-like of shape (n_samples, n_features)
        The rows it was fitted on.

    Returns
    -------
    LooError
        The estimated error, and the rows it counts.

    Examples
    --------
    >>> from outcode import OutputCodeClassifier
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> clf = OutputCodeClassifier("ovo", decoder="euclidean").fit(X, y)
    >>> estimate(clf, X).error == exact(clf, X, y).error
    True
    """
    rule, problem = _rule(clf), clf.posed(X)
    machine, targets = rule.machine, problem.targets
    if can(machine, KnowsLeftOut):
        return _error(rule, np.asarray(machine.loo_margins_), problem.X)
    check_followed(machine)
    rows, held_out = machine.support_, machine.training_margins_.copy()
    args = _gram(rule, problem), targets, rows, problem.weight
    held_out[rows] -= machine.removals(*args, n_jobs=clf.n_jobs)[1] * targets[rows]
    return _error(rule, held_out, problem.X)


def exact(clf: Any, X: Any, y: Any, sample_weight: Any = None) -> LooError:
    """Return the leave-one-out error of a fitted classifier, by training again without each row.

    All trainings share one Gram matrix and start from the solution with all rows; a row that is not
    a support vector of any column needs no training. C, the code and the fitted parameters of the
    decoder do not change, as in :func:`bound`. Least-squares machines need no training at all.

    Parameters
    ----------
    clf : OutputCodeClassifier
        Fitted classifier.
    X : array-like of shape (n_samples, n_features)
        The rows it was fitted on.
    y : array-like of shape (n_samples,)
        Their labels.
    sample_weight : array-like of shape (n_samples,) or None, default=None
        Their weights; None is those it was fitted with.

    Returns
    -------
    LooError
        The error, and the rows predicted wrongly.

    Examples
    --------
    >>> from outcode import OutputCodeClassifier
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> clf = OutputCodeClassifier(machine="ls").fit(X, y)
    >>> found = exact(clf, X, y)
    >>> bool(found.error == found.flags.mean())
    True
    """
    rule = _rule(clf)
    _check_same_rows(rule, y, sample_weight)
    problem = clf.posed(X)
    held_out = _held_out(rule, problem, n_jobs=clf.n_jobs, verbose=clf.verbose)
    return _error(rule, held_out, problem.X)


def _rule(clf: Any) -> Rule:
    """Return the rule of a fitted classifier, or a rule as it is."""
    if isinstance(found := getattr(clf, "rule_", clf), Rule):
        return found
    check_is_fitted(clf, "rule_")
    raise ValueError(f"{type(clf).__name__} has no rule: give a fitted OutputCodeClassifier.")


def _error(rule: Rule, held_out: Array, X: Any) -> LooError:
    """Decode the margins of the rows left out."""
    scores, labels = rule.scores(held_out, X), rule.problem.labels
    flags = np.argmax(scores, axis=1) != labels
    margins = _against_others(scores, labels).min(axis=1)
    return LooError(_share(flags, rule.problem.weight), flags, margins, held_out)


def _shifted(rule: Rule, rows: Any, shift: Array | None = None) -> Array:
    """Return the margins of some rows, each moved against its own sign as far as it can."""
    machine = rule.machine
    if shift is None:
        diagonal = machine.gram_diagonal_[rows] + (1.0 if machine.bias == "kernel" else 0.0)
        # alpha_is G^s_ii with the sign of the row; one G_ii where all columns share a kernel
        shift = machine.dual_coef_[rows] * diagonal.reshape(len(diagonal), -1)
    return machine.training_margins_[rows] - (1.0 + ROUNDING) * shift


def _decoded(rule: Rule, rows: Any, left_out: Array, margins: Array) -> tuple[Array, Array]:
    """Return which rows can be wrong under the margins left out, and their U."""
    scores = rule.scores(left_out)
    advantage = _against_others(scores, rule.problem.labels[rows])
    flags = advantage.min(axis=1) <= TIE * np.abs(scores).max(axis=1)
    return flags, margins[:, None] - advantage


def _against_others(scores: Array, labels: Array) -> Array:
    """Return the score of a row's own class less that of each other; infinity for its own."""
    own = np.arange(len(scores)), labels
    difference = scores[own][:, None] - scores
    difference[own] = np.inf
    return difference


def _share(flags: Array, weight: Array) -> float:
    return float(weight @ flags / weight.sum())


def _held_out(rule: Rule, problem: Problem, **threads: Any) -> Array:
    machine = rule.machine
    if can(machine, KnowsLeftOut):
        return np.asarray(machine.loo_margins_)
    fold = np.arange(len(problem.labels))
    if can(machine, TrainsOnGram):
        fold[(machine.dual_coef_ == 0).all(axis=1)] = -1  # no support vector: nothing changes
    return held_out_margins(problem, machine, fold, **threads)


def _check_covered(rule: Rule) -> None:
    machine, decoder = rule.machine, rule.decoder
    require(machine, HasDuals, "The leave-one-out bound")
    if not decoder.monotone:
        raise ValueError(
            f"The leave-one-out bound covers decoders that sum a non-increasing loss of each "
            f"margin (linear, hinge, exponential, logistic, hamming, likelihood), not {decoder!r}: "
            f"use one of these (clf.with_decoder), or loo.exact."
        )
    if machine.bias == "free":
        warn(
            "The leave-one-out theory does not cover a free bias: the number can be below the "
            "leave-one-out error. Use bias='kernel' for a bound.",
        )


def check_followed(machine: Any) -> None:
    """Raise an error if a machine cannot be followed when a row is left out.

    Parameters
    ----------
    machine : machine
        The fitted machine.

    Examples
    --------
    >>> from outcode import machines
    >>> check_followed(machines.SVM())
    """
    require(machine, LeavesOut, "A leave-one-out estimate without retraining")
    if machine.bias == "free":
        raise ValueError(
            "The sharp bound and the estimate do not hold with a free bias: use bias='kernel' or "
            "'none', or loo.exact."
        )


def _gram(rule: Rule, problem: Problem) -> Any:
    """Return the Gram store of the training rows; an error if these give other margins."""
    gram, machine, n = problem.store, rule.machine, len(problem.labels)
    some = np.unique(np.linspace(0, n - 1, CHECKED_ROWS).astype(int))
    margins, size = machine.expanded(gram, some)
    off = np.abs(margins - machine.training_margins_[some])
    if (off > 1e-5 * size + 1e-12).any():
        raise ValueError("X must be the rows the classifier was fitted on, in their order.")
    return gram


def _check_same_rows(rule: Rule, y: Any, sample_weight: Any) -> None:
    y, problem = np.asarray(y), rule.problem
    known = len(y) == len(problem.labels) and np.array_equal(problem.classes[problem.labels], y)
    if not known:
        raise ValueError("X and y must be the rows the classifier was fitted on, in their order.")
    if sample_weight is not None:
        weight = rule.machine.weigh(y, row_weights(sample_weight, len(y)))
        if not np.allclose(weight, problem.weight):
            raise ValueError("sample_weight must be the one the classifier was fitted with.")
