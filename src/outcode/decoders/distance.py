"""Decoders by the distance of the margins to each codeword."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from outcode import losses
from outcode._checks import Array
from outcode.decoders.common import Decoder, Sides, in_blocks, loss_terms, times
from outcode.parallel import single_blas
from outcode.saved import reals
from outcode.scores import settled
from outcode.training import Training


class Hamming(Decoder):
    """Count the columns that disagree; m = 0 or f = 0 counts 1/2.

    [PPF04] Eq. 1.

    Examples
    --------
    >>> from outcode import OutputCodeClassifier
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> clf = OutputCodeClassifier("ovo", decoder=Hamming()).fit(X, y)
    >>> clf.decision_function(X[:1]).tolist()
    [[-0.5, -1.5, -2.5]]
    """

    monotone = True
    best_of_each = Decoder.best_by_code

    def scores(self, margins: Array, X: Any = None) -> Array:
        return -disagreements(margins, self.sides)

    def terms(self, margins: Array, X: Any = None) -> Array:
        """Return what each column adds to each score."""
        return loss_terms(losses.zero_one, margins, self.code_)


def disagreements(margins: Array, sides: Sides) -> Array:
    """Return sum_s (1 - m_qs sign f_s) / 2, the Hamming distance of every row and codeword."""
    with single_blas():
        votes = in_blocks(lambda f: times(sides.signed, np.sign(f)), margins, len(sides.code))
    return (sides.code.shape[1] - votes) / 2.0


class Euclidean(Decoder):
    """Distance |m_q - f| of the margins to the codeword.

    Examples
    --------
    >>> from outcode import OutputCodeClassifier
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> clf = OutputCodeClassifier("ova", decoder=Euclidean()).fit(X, y)
    >>> clf.predict(X[::50]).tolist()
    [0, 1, 2]
    """

    best_of_each = Decoder.best_by_code

    def scores(self, margins: Array, X: Any = None) -> Array:
        return -np.sqrt(_squared_distance(margins, self.code_, 1.0))


class AttenuatedEuclidean(Decoder):
    """Distance to the codeword over its entries that are not 0 (Pujol, Escalera & Radeva 2008).

    Examples
    --------
    >>> from outcode import OutputCodeClassifier
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> clf = OutputCodeClassifier("ovo", decoder=AttenuatedEuclidean()).fit(X, y)
    >>> clf.predict(X[::50]).tolist()
    [0, 1, 2]
    """

    best_of_each = Decoder.best_by_code

    def scores(self, margins: Array, X: Any = None) -> Array:
        return -np.sqrt(_squared_distance(margins, self.code_, 0.0))


def _squared_distance(margins: Array, code: Array, zeros: float) -> Array:
    """Return sum_s (m_qs - f_s)^2, an entry m_qs = 0 counted ``zeros`` times; nothing cancels."""
    f = np.clip(margins, -losses.SQUARE_LIMIT, losses.SQUARE_LIMIT)
    plus, minus, none = ((code == sign).astype(np.float64).T for sign in (1, -1, 0))
    return (f - 1.0) ** 2 @ plus + (f + 1.0) ** 2 @ minus + zeros * (f**2 @ none)


class InverseHamming(Decoder):
    """Solve for the class weights that explain the observed Hamming distances.

    scores = D pinv(Delta), with Delta the Hamming distances between codewords and D those of the
    row to each codeword (Escalera, Pujol & Radeva 2010).

    Examples
    --------
    >>> from outcode import OutputCodeClassifier
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> clf = OutputCodeClassifier("ovo", decoder=InverseHamming()).fit(X, y)
    >>> clf.decoder_.inverse_.shape
    (3, 3)
    """

    saved = {**Decoder.saved, "inverse_": reals("n_classes", "n_classes")}
    best_of_each = Decoder.best_by_code

    def fit(self, training: Training) -> InverseHamming:
        super().fit(training)
        between = disagreements(self.code_.astype(np.float64), self.sides)
        self.inverse_ = np.linalg.pinv(between)
        return self

    def scores(self, margins: Array, X: Any = None) -> Array:
        return settled(disagreements(margins, self.sides) @ self.inverse_.T)


NAMES: dict[str, Callable[[], Decoder]] = {
    "hamming": Hamming,
    "euclidean": Euclidean,
    "aed": AttenuatedEuclidean,
    "ihd": InverseHamming,
}
