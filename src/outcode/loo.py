"""Leave-one-out error of the whole multiclass rule: a bound from one training, and the value.

Removing row i moves the margin of machine s on that row by at most alpha_is G_ii, against the
row's own sign ([PPF04] Lemma 1.1):  f_s - alpha_is G_ii m_ys <= m_ys-side of f_s^i <= f_s. So the
scores under the margins shifted by that much decide whether the row can become an error.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.utils import gen_batches
from sklearn.utils.validation import check_is_fitted

from outcode import dichotomies, machines
from outcode._checks import Array, row_weights

#: The shift is lengthened by this share, so that rounding cannot make the bound too small.
ROUNDING = 1e-9
#: Scores closer than this share of their size are a tie.
TIE = 1e-12


@dataclass(frozen=True)
class LooBound:
    """An upper bound of the leave-one-out error.

    ``error`` is the (weighted) share of ``flags``, the rows that may be wrong when they are left
    out; ``margins`` (n_samples,) the multiclass margins g(x_i, y_i) of the trained rule; ``U``
    (n_samples, n_classes) the largest loss of margin against each class, -inf for the row's own:
    row i is flagged when g(x_i, y_i) <= max_q U_q(x_i). ``exact`` says that the margins left out
    were known in closed form, so that nothing is lost.
    """

    error: float
    flags: Array
    margins: Array
    U: Array
    exact: bool = False


@dataclass(frozen=True)
class LooError:
    """The leave-one-out error.

    ``error`` is the (weighted) share of ``flags``, the rows predicted wrongly when left out;
    ``margins`` (n_samples,) their multiclass margins g^i(x_i, y_i) (below 0: wrong, 0: a tie);
    ``held_out`` (n_samples, n_dichotomies) the machines' margins on the row left out.
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

    a tie counting as an error. What the decoder learned from data is held fixed, and so is C. It
    holds for machines solved exactly, with the bias in the kernel or without one, and costs
    O(n_samples n_classes n_dichotomies).

    Least-squares machines know the margins left out in closed form: these are used instead, with
    any decoder, and the result is the leave-one-out error itself, ties counting as errors.

    Parameters
    ----------
    clf : fitted OutputCodeClassifier with kernel machines

    Examples
    --------
    >>> from outcode import OutputCodeClassifier
    >>> from sklearn.datasets import load_iris
    >>> clf = OutputCodeClassifier(decoder="linear").fit(*load_iris(return_X_y=True))
    >>> bool(bound(clf).error >= 1 - clf.score(*load_iris(return_X_y=True)))
    True
    """
    check_is_fitted(clf, "decoder_")
    exact = hasattr(clf.machine_, "loo_margins_")
    if not exact:
        _check_covered(clf)
    n, n_classes = len(clf.labels_), len(clf.code_)
    margins, flags, U = np.empty(n), np.empty(n, dtype=bool), np.empty((n, n_classes))
    for rows in gen_batches(n, max(1, 2**22 // clf.code_.size)):
        left_out = clf.machine_.loo_margins_[rows] if exact else _shifted(clf, rows)
        scores = clf.decoder_.scores(left_out)
        advantage = _against_others(scores, clf.labels_[rows])
        flags[rows] = advantage.min(axis=1) <= TIE * np.abs(scores).max(axis=1)
        scores = clf.decoder_.scores(clf.machine_.training_margins_[rows])
        margins[rows] = _against_others(scores, clf.labels_[rows]).min(axis=1)
        U[rows] = margins[rows, None] - advantage
    return LooBound(_share(flags, clf.sample_weight_), flags, margins, U, exact)


def exact(clf: Any, X: Any, y: Any, sample_weight: Any = None) -> LooError:
    """Return the leave-one-out error of a fitted classifier, by training again without each row.

    All trainings share one Gram matrix and start from the solution with all rows; a row that is no
    support vector of any column needs none. C, the code and what the decoder learned from data
    stay as they are, as in :func:`bound`. Least-squares machines need no training at all.

    Parameters
    ----------
    clf : fitted OutputCodeClassifier
    X, y, sample_weight : what it was fitted on
    """
    check_is_fitted(clf, "decoder_")
    _check_same_rows(clf, X, y, sample_weight)
    X = clf._check_rows(X)
    held_out = _held_out(clf, X)
    scores = clf.decoder_.scores(held_out, X)
    flags = np.argmax(scores, axis=1) != clf.labels_
    margins = _against_others(scores, clf.labels_).min(axis=1)
    return LooError(_share(flags, clf.sample_weight_), flags, margins, held_out)


def _shifted(clf: Any, rows: slice) -> Array:
    """Return the margins of some rows, each moved against its own sign as far as it can."""
    machine = clf.machine_
    diagonal = machine.gram_diagonal_[rows] + (1.0 if machine.bias == "kernel" else 0.0)
    shift = (1.0 + ROUNDING) * machine.dual_coef_[rows] * diagonal[:, None]
    return machine.training_margins_[rows] - shift  # dual_coef = alpha m_y


def _against_others(scores: Array, labels: Array) -> Array:
    """Return the score of a row's own class less that of each other; infinity for its own."""
    own = np.arange(len(scores)), labels
    difference = scores[own][:, None] - scores
    difference[own] = np.inf
    return difference


def _share(flags: Array, weight: Array) -> float:
    return float(weight @ flags / weight.sum())


def _held_out(clf: Any, X: Any) -> Array:
    machine = clf.machine_
    if hasattr(machine, "loo_margins_"):
        return np.asarray(machine.loo_margins_)
    targets, weight = dichotomies.targets(clf.labels_, clf.code_), clf.sample_weight_
    source, fold = X, np.arange(len(targets))
    if hasattr(machine, "fit_gram"):
        source = machines.resolve(machine).gram(X, targets, weight, n_jobs=clf.n_jobs)
        fold[(machine.dual_coef_ == 0).all(axis=1)] = -1  # no support vector: nothing changes
    return np.asarray(
        machine.held_out_margins(
            source, targets, fold, weight, n_jobs=clf.n_jobs, verbose=clf.verbose
        )
    )


def _check_covered(clf: Any) -> None:
    machine, decoder = clf.machine_, clf.decoder_
    needed = "dual_coef_", "training_margins_", "gram_diagonal_", "bias"
    missing = [name for name in needed if not hasattr(machine, name)]
    if missing:
        raise ValueError(
            f"The leave-one-out bound needs the dual solution of a kernel machine, but "
            f"{type(machine).__name__} has no {', '.join(missing)}: use machine='svm', or "
            f"loo.exact."
        )
    if not getattr(decoder, "monotone", False):
        raise ValueError(
            f"The leave-one-out bound covers decoders that sum a non-increasing loss of each "
            f"margin (linear, hinge, exponential, logistic, hamming, likelihood), not {decoder!r}: "
            f"use one of these (clf.with_decoder), or loo.exact."
        )
    if machine.bias == "free":
        warnings.warn(
            "The leave-one-out theory does not cover a free bias: the number can be below the "
            "leave-one-out error. Use bias='kernel' for a bound.",
            stacklevel=3,
        )


def _check_same_rows(clf: Any, X: Any, y: Any, sample_weight: Any) -> None:
    y = np.asarray(y)
    if len(y) != len(clf.labels_) or not np.array_equal(clf.classes_[clf.labels_], y):
        raise ValueError("X and y must be the rows the classifier was fitted on, in their order.")
    if sample_weight is not None:
        weight = clf.machine_.weigh(y, row_weights(sample_weight, len(y)))
        if not np.allclose(weight, clf.sample_weight_):
            raise ValueError("sample_weight must be the one the classifier was fitted with.")
