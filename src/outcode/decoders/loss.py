"""Decoders by the loss of the margins against each codeword."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from outcode import losses
from outcode._checks import Array, lookup
from outcode.capabilities import available_if
from outcode.decoders.common import (
    Decoder,
    log_total_exponential,
    loss_slopes,
    loss_terms,
    total_loss,
)
from outcode.formula import floats
from outcode.saved import reals
from outcode.scores import settled
from outcode.training import Training


def is_sum(decoder: Any) -> bool:
    """Say whether the scores are sums over columns, or why not."""
    if decoder.loss == "exponential":
        raise AttributeError(
            "The scores of the exponential loss are logarithms of sums, not sums over columns."
        )
    return True


class LossBased(Decoder):
    """Sum of a loss of the margins against each codeword.

    d(m_q, f) = sum_s L(m_qs f_s) (Allwein, Schapire & Singer 2000; [PPF04] section II).

    The exponential loss is summed in log form, which keeps the order of the classes.

    Parameters
    ----------
    loss : {"linear", "hinge", "exponential", "logistic", ...}, default="hinge"
        L, a name of :mod:`outcode.losses`.

    Examples
    --------
    >>> from outcode import OutputCodeClassifier
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> clf = OutputCodeClassifier("ovo", decoder=LossBased("logistic")).fit(X, y)
    >>> clf.predict(X[::50]).tolist()
    [0, 1, 2]
    """

    best_of_each = Decoder.best_by_code

    def __init__(self, loss: str = "hinge") -> None:
        self.loss = loss

    @property
    def monotone(self) -> bool:  # type: ignore[override]  # here it depends on the loss
        """Whether the loss never increases."""
        return self.loss not in losses.RISING

    def fit(self, training: Training) -> LossBased:
        super().fit(training)
        self.loss_ = lookup(losses.LOSSES, self.loss, "loss")
        return self

    def scores(self, margins: Array, X: Any = None) -> Array:
        if self.loss == "exponential":
            return -log_total_exponential(margins, self.sides)
        return -total_loss(self.loss_, margins, self.sides)

    @available_if(is_sum)
    def terms(self, margins: Array, X: Any = None) -> Array:
        """Return what each column adds to each score."""
        return loss_terms(self.loss_, margins, self.code_)

    @available_if(is_sum)
    def slopes(self, margins: Array) -> Array:
        """Return the derivatives of the scores by the margins."""
        return loss_slopes(self.loss, margins, self.code_)

    def unpack(self, values: dict[str, Any]) -> None:
        super().unpack(values)
        self.loss_ = lookup(losses.LOSSES, self.loss, "loss")


class LossWeighted(Decoder):
    """Sum of a loss of the margins against each codeword, columns weighted by accuracy.

    d(m_q, f) = sum_s w_qs L(m_qs f_s), with w_qs the accuracy of column s on class q.

    The accuracy is taken on the training rows of class q, a margin of 0 counting as wrong; it is 0
    where the code is 0; the weights of a class sum to one, and are equal over its columns when it
    has no correct one (Escalera, Pujol & Radeva 2010).

    Parameters
    ----------
    loss : {"linear", "exponential"}, default="linear"
        L, the loss that is summed.
    outputs : {"margin", "sign"}, default="margin"
        What the loss takes: f as it is, or its sign. With "sign" only the sign of a margin counts
        ([LZCX16] Eq. 16 prints the sign).
    weights : {"accuracy", "column", "code"}, default="accuracy"
        Where w comes from. "column" takes the accuracy w_s of a column on all its training rows,
        w_qs = w_s abs(m_qs), scaled to sum to one: so the ECOC library by the same authors, which
        [LZCX16] used. "code" takes the weights the code was learned with in their place (ECOC-ONE
        has such).

    Examples
    --------
    >>> from outcode import OutputCodeClassifier
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> clf = OutputCodeClassifier("ovo", decoder=LossWeighted()).fit(X, y)
    >>> clf.decoder_.weights_.sum(axis=1).round(6).tolist()
    [1.0, 1.0, 1.0]
    """

    saved = {**Decoder.saved, "weights_": reals("n_classes", "n_dichotomies", low=0.0)}

    def __init__(
        self, loss: str = "linear", *, outputs: str = "margin", weights: str = "accuracy"
    ) -> None:
        self.loss = loss
        self.outputs = outputs
        self.weights = weights

    def fit(self, training: Training) -> LossWeighted:
        super().fit(training)
        lookup({"linear": None, "exponential": None}, self.loss, "loss")
        lookup(OUTPUTS, self.outputs, "outputs")
        self.weights_ = lookup(WEIGHTS, self.weights, "weights")(training)
        return self

    @property
    def entry_weights(self) -> Array:
        return self.weights_

    def scores(self, margins: Array, X: Any = None) -> Array:
        given = lookup(OUTPUTS, self.outputs, "outputs")(margins)
        if self.loss == "exponential":
            return -log_total_exponential(given, self.sides, self.weights_)
        return -total_loss(losses.linear, given, self.sides)

    def best(self, margins: Array, X: Any = None) -> Array:
        """Return the class with the largest score, the first of equals.

        Signs make sums of weights that are often equal, but for the order they are summed in.
        """
        scores = self.scores(margins, X)
        return np.argmax(settled(scores) if self.outputs == "sign" else scores, axis=1)

    @available_if(is_sum)
    def terms(self, margins: Array, X: Any = None) -> Array:
        """Return what each column adds to each score."""
        return loss_terms(losses.linear, margins, self.code_, self.weights_)

    @available_if(is_sum)
    def slopes(self, margins: Array) -> Array:
        """Return the derivatives of the scores by the margins."""
        return loss_slopes("linear", margins, self.code_, self.weights_)


def column_accuracy_weights(training: Training) -> Array:
    """Return the (n_classes, n_dichotomies) weights of :class:`LossWeighted`."""
    code = training.code.astype(np.float64)
    right = (training.margins * code[training.labels] > 0) * training.sample_weight[:, None]
    member = np.eye(len(code))[training.labels]
    return _shares((member.T @ right) * (code != 0), code)


def whole_column_weights(training: Training) -> Array:
    """Return for every class the accuracies of the columns it is in, each on all its rows."""
    targets = training.code[training.labels]
    right = training.sample_weight @ (training.margins * targets > 0)
    accuracy = right / (training.sample_weight @ (targets != 0))
    return _shares(accuracy * (training.code != 0), training.code)


def learned_weights(training: Training) -> Array:
    """Return the weights the code was learned with, for every class the columns it is in."""
    if training.column_weights is None:
        raise ValueError(
            "weights='code' needs a code that is learned with weights for its columns, such as "
            "'ecocone': use weights='accuracy' with this one."
        )
    return _shares(training.column_weights * (training.code != 0), training.code)


def _shares(weights: Array, code: Array) -> Array:
    """Scale the weights of each class to sum to one; equal over its columns if all are 0."""
    weights = np.where(weights.sum(axis=1, keepdims=True) > 0, weights, code != 0)
    return weights / weights.sum(axis=1, keepdims=True)


#: What is decoded, and where the weights come from.
OUTPUTS: dict[str, Callable[[Array], Array]] = {"margin": floats, "sign": np.sign}
WEIGHTS: dict[str, Callable[[Training], Array]] = {
    "accuracy": column_accuracy_weights,
    "column": whole_column_weights,
    "code": learned_weights,
}


NAMES: dict[str, Callable[[], Decoder]] = {
    "linear": lambda: LossBased("linear"),
    "hinge": lambda: LossBased("hinge"),
    "exponential": lambda: LossBased("exponential"),
    "logistic": lambda: LossBased("logistic"),
    "squared": lambda: LossBased("squared"),
    "llw": lambda: LossWeighted("linear"),
    "elw": lambda: LossWeighted("exponential"),
}
