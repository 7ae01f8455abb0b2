"""The class of least expected cost.

A cost matrix C holds in C[k, j] what it costs to predict class j for a row of class k, classes in
the order of ``classes_``. The decision is argmin_j sum_k p_k C[k, j] (Elkan 2001), the first of
equals; with C[k, j] = [k != j] it is the most probable class. If the probabilities are true, no
other decision costs less on average.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin, MetaEstimatorMixin, clone
from sklearn.utils.validation import check_is_fitted

from outcode._checks import Array, class_indices, class_labels, lookup, row_weights, same_length
from outcode.capabilities import PredictsProbabilities, require


def _zero_one(distance: Array) -> Array:
    return (distance > 0).astype(np.float64)


#: Costs by name: functions of |k - j|, the distance between the places of two classes.
COSTS: dict[str, Callable[[Array], Array]] = {
    "zero_one": _zero_one,
    "absolute": lambda distance: distance,
    "squared": lambda distance: distance**2,
}


def cost_matrix(cost: Any, n_classes: int) -> Array:
    """Return C, (n_classes, n_classes): rows are true classes, columns predicted ones.

    Parameters
    ----------
    cost : array-like or {"zero_one", "absolute", "squared"}
        Such a matrix, or its name; for ordered classes "absolute" is the distance of two classes
        and "squared" its square.
    n_classes : int
        Number of classes.

    Returns
    -------
    ndarray of shape (n_classes, n_classes)
        The costs.

    Examples
    --------
    >>> cost_matrix("absolute", 3).tolist()
    [[0.0, 1.0, 2.0], [1.0, 0.0, 1.0], [2.0, 1.0, 0.0]]
    """
    if isinstance(cost, str):
        place = np.arange(n_classes, dtype=np.float64)
        return lookup(COSTS, cost, "cost")(np.abs(place[:, None] - place))
    try:
        matrix = np.asarray(cost, dtype=np.float64)
    except (TypeError, ValueError):
        raise ValueError(f"cost must be a matrix of numbers or a name, got {cost!r}.") from None
    if matrix.shape != (n_classes, n_classes):
        raise ValueError(
            f"cost has shape {matrix.shape}, but there are {n_classes} classes: give a "
            f"({n_classes}, {n_classes}) matrix, cost[true, predicted], or 'absolute', 'squared'."
        )
    if not np.all(np.isfinite(matrix)):
        raise ValueError("cost holds NaN or infinity: give finite numbers.")
    if np.any(matrix < 0):
        raise ValueError(
            "cost holds negative numbers: costs must be at least 0. To express gains, add the same "
            "number to all entries of a row; the decisions do not depend on it."
        )
    return matrix


def expected_costs(proba: Array, cost: Any) -> Array:
    """Return sum_k p_k C[k, j] of every row and class j, (n_samples, n_classes).

    Parameters
    ----------
    proba : ndarray of shape (n_samples, n_classes)
        Probabilities of the classes.
    cost : array-like or {"zero_one", "absolute", "squared"}
        C, as for :func:`cost_matrix`.

    Returns
    -------
    ndarray of shape (n_samples, n_classes)
        The expected cost of predicting each class.

    Examples
    --------
    >>> expected_costs(np.array([[0.75, 0.25]]), [[0, 1], [4, 0]]).tolist()
    [[1.0, 0.75]]
    """
    if np.ndim(proba) != 2:
        raise ValueError(f"proba must be (n_samples, n_classes), got {np.ndim(proba)} dimensions.")
    return np.asarray(proba @ cost_matrix(cost, proba.shape[1]))


def predict(clf: Any, X: Any, cost: Any) -> Array:
    """Return the class of least expected cost, from the probabilities of any classifier.

    Parameters
    ----------
    clf : classifier
        Fitted, with ``predict_proba``.
    X : array-like of shape (n_samples, n_features)
        Rows to decide on.
    cost : array-like or {"zero_one", "absolute", "squared"}
        C, as for :func:`cost_matrix`.

    Returns
    -------
    ndarray of shape (n_samples,)
        The labels.

    Examples
    --------
    >>> from outcode import OutputCodeClassifier
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> clf = OutputCodeClassifier("ova", "ls", "softmax").fit(X, y)
    >>> miss = [[0, 1, 1], [1, 0, 1], [1, 20, 0]]  # taking class 2 for class 1 is expensive
    >>> int((clf.predict(X) == 2).sum()) < int((predict(clf, X, miss) == 2).sum())
    True
    """
    require(clf, PredictsProbabilities, "A decision by cost")
    return clf.classes_[expected_costs(clf.predict_proba(X), cost).argmin(axis=1)]


def mean_cost(y: Any, predicted: Any, cost: Any, classes: Array) -> float:
    """Return the mean of C[true, predicted] over rows.

    Parameters
    ----------
    y : array-like of shape (n_samples,)
        True labels.
    predicted : array-like of shape (n_samples,)
        Predicted labels.
    cost : array-like or {"zero_one", "absolute", "squared"}
        C, as for :func:`cost_matrix`.
    classes : ndarray of shape (n_classes,)
        The labels in the order of the matrix.

    Returns
    -------
    float
        The mean cost.

    Examples
    --------
    >>> mean_cost(["a", "b"], ["a", "a"], [[0, 1], [4, 0]], np.array(["a", "b"]))
    2.0
    """
    true, said = class_indices(y, classes), class_indices(predicted, classes)
    same_length(true, said, ("y", "predicted"))
    return float(cost_matrix(cost, len(classes))[true, said].mean())


def class_weights(cost: Any, classes: Any) -> dict[Any, float]:
    """Return weights proportional to the total cost of errors of each class.

    w_k = sum_j C[k, j] (Ting 2002), the way of machines without probabilities. Probabilities
    trained with these weights are those of the weighted rows: decide by cost from them only with
    :class:`CostSensitive`, which takes the weights off again.

    Parameters
    ----------
    cost : array-like or {"zero_one", "absolute", "squared"}
        C, as for :func:`cost_matrix`.
    classes : array-like of shape (n_classes,)
        The labels in the order of the matrix.

    Returns
    -------
    dict
        The weight of each label.

    Examples
    --------
    >>> class_weights([[0, 1], [3, 0]], ["a", "b"])
    {'a': 0.5, 'b': 1.5}
    """
    total = _class_costs(cost, len(classes))
    return dict(zip(np.asarray(classes).tolist(), (total / total.mean()).tolist(), strict=True))


def _class_costs(cost: Any, n_classes: int) -> Array:
    matrix = cost_matrix(cost, n_classes)
    total: Array = matrix.sum(axis=1) - matrix.diagonal()
    if np.any(total <= 0):
        raise ValueError(
            f"Errors of class {int(total.argmin())} cost nothing: weights need a cost for each."
        )
    return total


class CostSensitive(MetaEstimatorMixin, ClassifierMixin, BaseEstimator):
    """A classifier that predicts the class of least expected cost.

    Parameters
    ----------
    estimator : classifier
        With ``predict_proba``.
    cost : array-like or {"zero_one", "absolute", "squared"}, default="zero_one"
        Matrix (n_classes, n_classes), cost[true, predicted], or its name.
    train : bool, default=False
        Also weight training rows by the cost of errors of their class; the weights w_k are divided
        out of the estimated probabilities before the decision.

    Examples
    --------
    >>> from outcode import OutputCodeClassifier
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> clf = CostSensitive(OutputCodeClassifier("ovo", decoder="likelihood"), "absolute")
    >>> round(clf.fit(X, y).score(X, y), 2)
    0.98
    """

    def __init__(self, estimator: Any, cost: Any = "zero_one", *, train: bool = False) -> None:
        self.estimator = estimator
        self.cost = cost
        self.train = train

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> CostSensitive:
        """Fit the classifier, its rows weighed by cost if ``train``."""
        self.classes_, labels = class_labels(np.asarray(y))
        self.class_costs_ = np.ones(len(self.classes_))
        cost_matrix(self.cost, len(self.classes_))
        if self.train:
            weight = row_weights(sample_weight, len(labels))
            total = _class_costs(self.cost, len(self.classes_))
            self.class_costs_ = total / np.average(total[labels], weights=weight)
            sample_weight = weight * self.class_costs_[labels]
        given = {} if sample_weight is None else {"sample_weight": sample_weight}
        self.estimator_ = clone(self.estimator).fit(X, y, **given)
        require(self.estimator_, PredictsProbabilities, "A decision by cost")
        return self

    def predict_proba(self, X: Any) -> Array:
        """Return the (n_samples, n_classes) probabilities of the rows without cost weights."""
        check_is_fitted(self, "estimator_")
        proba = self.estimator_.predict_proba(X) / self.class_costs_
        return np.asarray(proba / proba.sum(axis=1, keepdims=True))

    def predict(self, X: Any) -> Array:
        """Return the class of least expected cost, the first of equals."""
        check_is_fitted(self, "estimator_")
        return predict(self, X, self.cost)


def fitted(clf: Any, cost: Any) -> CostSensitive:
    """Return a fitted classifier as one that decides by cost; nothing is trained again.

    Parameters
    ----------
    clf : classifier
        Fitted, with ``predict_proba``.
    cost : array-like or {"zero_one", "absolute", "squared"}
        C, as for :func:`cost_matrix`.

    Returns
    -------
    CostSensitive
        The classifier that decides by cost.

    Examples
    --------
    >>> from outcode import OutputCodeClassifier
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> clf = OutputCodeClassifier("ova", "ls", "softmax").fit(X, y)
    >>> bool((fitted(clf, "zero_one").predict(X) == clf.predict(X)).all())
    True
    """
    require(clf, PredictsProbabilities, "A decision by cost")
    cost_matrix(cost, len(clf.classes_))
    other = CostSensitive(clf, cost)
    other.estimator_, other.classes_ = clf, clf.classes_
    other.class_costs_ = np.ones(len(clf.classes_))
    return other
