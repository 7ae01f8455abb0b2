"""Prediction sets: the classes that a row may belong to, with a chosen coverage.

A method gives every row and class a strangeness s(x, k). Calibration rows, whose class y is known
and which the machines were not trained on, give s(x_i, y_i). The set of a new row holds

    { k : s(x, k) <= q },   q the ceil((n + 1) coverage)-th smallest of the n numbers s(x_i, y_i)

(Vovk, Gammerman & Shafer 2005). With ``per_class`` the q of class k comes from the calibration
rows of class k alone.

What is guaranteed. With rows the classifier has not seen (:func:`split`), the set of a new row
from the same source holds its class with probability at least ``coverage``, whatever the data and
however poor the classifier; with ``per_class`` this holds for the rows of each class. It is an
average over calibration sets: one set of n rows gives a coverage that differs from it by about
sqrt(coverage (1 - coverage) / n). With held-out training rows (:func:`cross`, and decoders that
were fitted on held-out margins) the strangeness comes from machines trained without a fold, the
prediction from the machine trained on all rows, and the decoder's few numbers were fitted on the
same margins: coverage is then close to nominal where leaving out a fold changes little, without a
guarantee. Machines that know their leave-one-out margins (least squares) are calibrated on those.

Every method is a function of the numbers of one row, so calibration rows and new rows stay
exchangeable. Equal strangeness counts as inside the set (conservative). Where a method spreads
ties by a random number (APS, RAPS) that number is computed from the content of the row: the same
row always has the same set.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from outcode._checks import Array, class_indices, lookup, share
from outcode.capabilities import HasProbabilities, KnowsLeftOut, can, rule_of
from outcode.folds import row_keys
from outcode.saved import LeftOut, Saved, Word, reals, wholes
from outcode.training import Rule, held_out_margins

Method = Callable[[Array], Array]

# --- strangeness: (n_samples, n_classes) -> (n_samples, n_classes) ---


def lac(proba: Array) -> Array:
    """Return 1 - p_k: the smallest sets on average (Sadinle, Lei & Wasserman 2019).

    Parameters
    ----------
    proba : ndarray of shape (n_samples, n_classes)
        Probabilities of the classes.

    Returns
    -------
    ndarray of shape (n_samples, n_classes)
        The strangeness of every row and class.

    Examples
    --------
    >>> lac(np.array([[0.75, 0.25]])).tolist()
    [[0.25, 0.75]]
    """
    return 1.0 - proba


def aps(proba: Array) -> Array:
    """Return the probability before class k, and a random part of its own.

    s_k = sum_{j before k} p_j + u p_k (Romano, Sesia & Candès 2020): sets grow with the difficulty
    of the row. u in [0, 1) is computed from the row's probabilities.

    Parameters
    ----------
    proba : ndarray of shape (n_samples, n_classes)
        Probabilities of the classes.

    Returns
    -------
    ndarray of shape (n_samples, n_classes)
        The strangeness of every row and class.

    Examples
    --------
    >>> strange = aps(np.array([[0.7, 0.2, 0.1]]))[0]
    >>> bool(strange[0] < 0.7 <= strange[1] < 0.9 <= strange[2])
    True
    """
    order, place = _ordered(proba)
    p = np.take_along_axis(proba, order, axis=1)
    strange = np.cumsum(p, axis=1) - p + _uniform(proba) * p
    return np.take_along_axis(strange, place, axis=1)


def raps(proba: Array, penalty: float = 0.05, free: int = 2) -> Array:
    """Return :func:`aps` with a ``penalty`` for every class after the first ``free``.

    Angelopoulos, Bates, Malik & Jordan (2021): fewer very large sets.

    Parameters
    ----------
    proba : ndarray of shape (n_samples, n_classes)
        Probabilities of the classes.
    penalty : float, default=0.05
        Added for every class after the first ``free``.
    free : int, default=2
        Number of classes without a penalty.

    Returns
    -------
    ndarray of shape (n_samples, n_classes)
        The strangeness of every row and class.

    Examples
    --------
    >>> proba = np.array([[0.7, 0.2, 0.1]])
    >>> (raps(proba) - aps(proba)).round(2).tolist()
    [[0.0, 0.0, 0.05]]
    """
    return aps(proba) + penalty * np.maximum(0, _ordered(proba)[1] + 1 - free)


def rank(scores: Array) -> Array:
    """Return the number of classes before class k; within a rank, by the distance to the leader.

    The leader itself is ordered by its lead over the second. It needs no probabilities: only the
    order of scores within a row, and of gaps among rows, counts.

    Parameters
    ----------
    scores : ndarray of shape (n_samples, n_classes)
        Scores of the classes.

    Returns
    -------
    ndarray of shape (n_samples, n_classes)
        The strangeness of every row and class.

    Examples
    --------
    >>> rank(np.array([[2.0, 5.0, 4.0]])).astype(int).tolist()
    [[2, 0, 1]]
    """
    order, place = _ordered(scores)
    ordered = np.take_along_axis(scores, order, axis=1)
    gap = ordered[:, :1] - ordered
    gap[:, 0] = -gap[:, 1]
    within = 0.5 + 0.5 * gap / (1.0 + np.abs(gap))
    return place + np.take_along_axis(within, place, axis=1)


#: Methods by name, and whether they need probabilities.
METHODS: dict[str, tuple[Method, bool]] = {
    "lac": (lac, True),
    "aps": (aps, True),
    "raps": (raps, True),
    "rank": (rank, False),
}


def _checked(method: Method, values: Array) -> Array:
    """Return what a function of the user gives, or an error unless it is one number per class."""
    strange = np.asarray(method(values))
    if strange.shape != values.shape:
        raise ValueError(
            f"method returned an array of shape {strange.shape} for values of shape "
            f"{values.shape}: it must return one number per row and class."
        )
    return strange


def _ordered(values: Array) -> tuple[Array, Array]:
    """Return the classes of each row by falling value, and the place of each class among them."""
    order = np.argsort(-values, axis=1, kind="stable")
    return order, np.argsort(order, axis=1, kind="stable")


def _uniform(values: Array) -> Array:
    """Return a number in [0, 1) per row, (n_samples, 1), computed from what the row holds."""
    return (row_keys(values, len(values)) >> np.uint64(11))[:, None] * 2.0**-53


# --- calibration ---


@dataclass
class Calibration(Saved):
    """Class values of rows that the machines were not trained on, and their true classes.

    Parameters
    ----------
    values : ndarray of shape (n_rows, n_classes)
        Probabilities, or scores where the decoder has none.
    labels : ndarray of shape (n_rows,)
        Class indices.
    how : {"split", "cross"}
        Whether the rows are new ones or held-out training rows.
    kind : {"probabilities", "scores"}
        What the values are.

    Examples
    --------
    >>> values = np.array([[0.9, 0.1], [0.2, 0.8], [0.6, 0.4]])
    >>> calibration = Calibration(values, np.array([0, 1, 0]), "split", "probabilities")
    >>> calibration.sets(np.array([[0.55, 0.45], [0.95, 0.05]]), coverage=0.75).tolist()
    [[True, False], [True, False]]
    """

    room = "calibration"
    bare = True
    saved = {
        "values": reals("n_calibration", "n_classes"),
        "labels": wholes("n_calibration", high="n_classes"),
        "how": Word(("split", "cross")),
        "kind": Word(("probabilities", "scores")),
    }

    values: Array
    labels: Array
    how: str
    kind: str

    def strangeness(self, method: Any) -> Array:
        """Return s(x_i, y_i), (n_rows,)."""
        strange = self.method(method)(self.values)
        return np.asarray(strange[np.arange(len(self.labels)), self.labels])

    def method(self, method: Any) -> Method:
        """Return the method of a name, or an error if it needs probabilities and has none."""
        if callable(method):
            return partial(_checked, method)
        found, needs_probabilities = lookup(METHODS, method, "method")
        if needs_probabilities and self.kind == "scores":
            raise ValueError(
                f"method={method!r} needs probabilities, but the decoder gives only scores: use "
                f"method='rank', or a decoder with probabilities such as 'softmax'."
            )
        return found

    def thresholds(self, coverage: float, method: Any, per_class: bool = False) -> Array:
        """Return q of each class, (n_classes,); infinite where there are too few rows."""
        strange, k = self.strangeness(method), self.values.shape[1]
        if not per_class:
            return np.full(k, quantile(strange, coverage))
        return np.array([quantile(strange[self.labels == q], coverage) for q in range(k)])

    def sets(
        self,
        values: Array,
        coverage: float = 0.9,
        method: Any = "lac",
        *,
        per_class: bool = False,
        allow_empty: bool = False,
    ) -> Array:
        """Return the sets of rows with these values, (n_samples, n_classes) bool."""
        thresholds = self.thresholds(coverage, method, per_class)
        inside = self.method(method)(values) <= thresholds
        if not allow_empty:
            empty = np.flatnonzero(~inside.any(axis=1))
            inside[empty, values[empty].argmax(axis=1)] = True
        return inside


def quantile(strange: Array, coverage: float) -> float:
    """Return the ceil((n + 1) coverage)-th smallest number, infinity if there are fewer.

    Parameters
    ----------
    strange : ndarray of shape (n,)
        Strangeness of the calibration rows.
    coverage : float
        Between 0 and 1.

    Returns
    -------
    float
        The threshold q.

    Examples
    --------
    >>> quantile(np.arange(9.0), 0.9), quantile(np.arange(8.0), 0.9)
    (8.0, inf)
    """
    place = int(np.ceil(round((len(strange) + 1) * share(coverage, "coverage"), 9)))
    return float(np.sort(strange)[place - 1]) if place <= len(strange) else np.inf


def class_values(rule: Rule, margins: Array, X: Any = None) -> Array:
    """Return probabilities of the classes, or scores where the decoder has none.

    Parameters
    ----------
    rule : Rule
        The rule of a fitted classifier.
    margins : ndarray of shape (n_samples, n_dichotomies)
        Margins of the machines on the rows.
    X : array-like of shape (n_samples, n_features) or None, default=None
        The rows, for decoders that compare them with the training rows.

    Returns
    -------
    ndarray of shape (n_samples, n_classes)
        Probabilities or scores.

    Examples
    --------
    >>> from outcode import OutputCodeClassifier
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> clf = OutputCodeClassifier("ovo", "ls", "softmax").fit(X, y)
    >>> bool((class_values(clf.rule_, clf.margins(X)) == clf.predict_proba(X)).all())
    True
    """
    read = rule.proba if can(rule.decoder, HasProbabilities) else rule.scores
    return read(margins, X)


def calibration_of(rule: Rule) -> Calibration | None:
    """Return the calibration a rule was given, or the one its held-out margins make, or None.

    Parameters
    ----------
    rule : Rule
        The rule of a fitted classifier.

    Returns
    -------
    Calibration or None
        None where no row was held out.

    Examples
    --------
    >>> from outcode import OutputCodeClassifier
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> calibration_of(OutputCodeClassifier(machine="ls").fit(X, y).rule_).how
    'cross'
    """
    if rule.calibration is not None or rule.decoder.looks_at_rows:
        return rule.calibration
    margins, held = _held_out(rule)
    if not np.any(held):
        return None
    return _calibration(rule, margins[held], rule.problem.labels[held], "cross")


def _held_out(rule: Rule) -> tuple[Array, Array]:
    """Return margins of training rows that were held out for them, and which rows were."""
    problem = rule.problem
    if rule.held_out:
        margins, fold = rule.held_out_margins
        return margins, fold >= 0
    if isinstance(problem.labels, LeftOut) or not can(rule.machine, KnowsLeftOut):
        return np.empty((0, 0)), np.zeros(0, dtype=bool)
    counted = problem.weight > 0  # a class's only row cannot be predicted without it
    counts = np.bincount(problem.labels[counted], minlength=len(problem.code))
    return rule.machine.loo_margins_, counted & (counts[problem.labels] > 1)


def require_calibration(clf: Any) -> Calibration:
    """Return the calibration of a classifier, or say how to get one.

    Parameters
    ----------
    clf : OutputCodeClassifier
        Fitted classifier.

    Returns
    -------
    Calibration
        That of its rule; an error says how to get one where there is none.

    Examples
    --------
    >>> from outcode import OutputCodeClassifier
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> require_calibration(OutputCodeClassifier(machine="ls").fit(X, y)).values.shape
    (150, 3)
    """
    found = calibration_of(rule_of(clf, "A calibration"))
    if found is None:
        raise ValueError(
            "This classifier has no held-out rows to calibrate on: fit it with a decoder that "
            "has probabilities (decoder='softmax'), or use conformal.split(clf, X_new, y_new) "
            "with rows it was not trained on, or conformal.cross(clf, X_train)."
        )
    return found


def split(clf: Any, X: Any, y: Any) -> Any:
    """Return the classifier calibrated on rows it was not trained on: coverage is guaranteed.

    Parameters
    ----------
    clf : OutputCodeClassifier
        Fitted classifier.
    X : array-like of shape (n_rows, n_features)
        Rows it was not trained on.
    y : array-like of shape (n_rows,)
        Their labels.

    Returns
    -------
    OutputCodeClassifier
        A copy with the calibration; the classifier that was given does not change.

    Examples
    --------
    >>> from outcode import OutputCodeClassifier
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> clf = OutputCodeClassifier("ovo").fit(X[::2], y[::2])
    >>> clf = split(clf, X[1::2], y[1::2])
    >>> clf.predict_set(X, coverage=0.95, method="rank").shape
    (150, 3)
    """
    rule = rule_of(clf, "A calibration")
    rows, labels = clf.validated(X), class_indices(y, clf.classes_)
    if rows.shape[0] != len(labels):
        raise ValueError(f"X has {rows.shape[0]} rows, but y has {len(labels)} labels.")
    values = class_values(rule, rule.margins(rows), rows)
    return _with(clf, Calibration(values, labels, "split", _kind(rule)))


def cross(clf: Any, X: Any, folds: int = 5) -> Any:
    """Return the classifier calibrated on its training rows, each held out in its fold.

    Parameters
    ----------
    clf : OutputCodeClassifier
        Fitted classifier.
    X : array-like of shape (n_samples, n_features)
        The training rows, in their order.
    folds : int, default=5
        Number of folds: the machine is trained this many times.

    Returns
    -------
    OutputCodeClassifier
        A copy with the calibration; the classifier that was given does not change.

    Examples
    --------
    >>> from outcode import OutputCodeClassifier
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> clf = cross(OutputCodeClassifier("ovo", "ls").fit(X, y), X, folds=3)
    >>> clf.predict_set(X, coverage=0.9, method="rank").shape
    (150, 3)
    """
    rule = rule_of(clf, "A calibration")
    if rule.decoder.looks_at_rows:
        raise ValueError(
            f"{type(rule.decoder).__name__} compares each row with the training rows nearest to "
            f"it, so training rows cannot calibrate it: use conformal.split with new rows."
        )
    problem = clf.posed(X)
    fold = problem.folds(folds)
    margins = held_out_margins(problem, rule.machine, fold, n_jobs=clf.n_jobs, verbose=clf.verbose)
    held = fold >= 0
    return _with(clf, _calibration(rule, margins[held], problem.labels[held], "cross"))


def _with(clf: Any, calibration: Calibration) -> Any:
    other = copy.copy(clf)
    other.rule_ = replace(clf.rule_, calibration=calibration)
    return other


def _calibration(rule: Rule, margins: Array, labels: Array, how: str) -> Calibration:
    return Calibration(class_values(rule, margins), labels, how, _kind(rule))


def _kind(rule: Rule) -> str:
    return "probabilities" if can(rule.decoder, HasProbabilities) else "scores"


# --- how good sets are ---


@dataclass(frozen=True)
class SetSummary:
    """Coverage and size of prediction sets on rows of known class.

    Parameters
    ----------
    coverage : float
        Share of rows whose set holds their class.
    class_coverage : ndarray of shape (n_classes,)
        The same among the rows of each class.
    size : float
        Mean number of classes in a set.
    single : float
        Share of sets with one class.
    empty : float
        Share of sets with no class.
    """

    coverage: float
    class_coverage: Array
    size: float
    single: float
    empty: float


def summary(sets: Array, labels: Array) -> SetSummary:
    """Return coverage and size of sets, given the class indices of their rows.

    Parameters
    ----------
    sets : ndarray of shape (n_samples, n_classes)
        Which classes each set holds, bool.
    labels : ndarray of shape (n_samples,)
        Class indices of the rows.

    Returns
    -------
    SetSummary
        Coverage and size.

    Examples
    --------
    >>> sets = np.array([[True, False], [True, True], [False, True]])
    >>> found = summary(sets, np.array([0, 0, 0]))
    >>> round(found.coverage, 2), round(found.size, 2)
    (0.67, 1.33)
    """
    held, size = sets[np.arange(len(labels)), labels], sets.sum(axis=1)
    count = np.bincount(labels, minlength=sets.shape[1])
    with np.errstate(invalid="ignore"):  # a class without rows: NaN
        own = np.bincount(labels, weights=held, minlength=sets.shape[1]) / count
    shares = float(size.mean()), float((size == 1).mean()), float((size == 0).mean())
    return SetSummary(float(held.mean()), own, *shares)
