"""Loss-based decoding of margins brought to [-1, 1]. [PPF04] section III"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from outcode._checks import Array
from outcode.capabilities import available_if
from outcode.decoders.common import Decoder
from outcode.decoders.loss import LossBased, is_sum
from outcode.formula import floats
from outcode.saved import reals
from outcode.training import Training


class Normalised(LossBased):
    """Loss-based decoding of margins scaled to [-1, 1] in each column.

    d(m_q, f) = sum_s L(m_qs g_s), g_s = f_s / max_i |f_s(x_i)| cut to [-1, 1].

    The "straightforward normalization in some interval" that [PPF04] section III sets beside
    likelihood decoding: columns whose machines give large margins no longer outweigh the others,
    but one far row sets the scale of a column. The largest margin is that on the training rows; the
    sign stays. Every loss falls on [-1, 1], so that the leave-one-out bound covers it.

    Parameters
    ----------
    loss : {"linear", "hinge", "exponential", "logistic", "squared"}, default="linear"
        L, the loss that is summed.

    Attributes
    ----------
    range_ : (n_dichotomies,) the largest margin of each column

    Examples
    --------
    >>> from outcode import OutputCodeClassifier
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> clf = OutputCodeClassifier("ovo", decoder=Normalised()).fit(X, y)
    >>> bool(np.abs(clf.decoder_.normalised(10 * clf.margins(X))).max() == 1.0)
    True
    """

    saved = {**LossBased.saved, "range_": reals("n_dichotomies", low=0.0)}
    monotone = True  # the losses are, whatever they do beyond 1

    def __init__(self, loss: str = "linear") -> None:
        super().__init__(loss)

    def fit(self, training: Training) -> Normalised:
        super().fit(training)
        largest = np.abs(training.margins[training.sample_weight > 0]).max(axis=0)
        self.range_ = np.where(largest > 0, largest, 1.0)
        return self

    def normalised(self, margins: Array) -> Array:
        """Return the margins over the largest of their column, cut to [-1, 1]."""
        return np.clip(floats(margins) / self.range_, -1.0, 1.0)

    def scores(self, margins: Array, X: Any = None) -> Array:
        return super().scores(self.normalised(margins))

    @available_if(is_sum)
    def terms(self, margins: Array, X: Any = None) -> Array:
        """Return what each column adds to each score."""
        return super().terms(self.normalised(margins))

    @available_if(is_sum)
    def slopes(self, margins: Array) -> Array:
        """Return the derivatives of the scores by the margins, 0 beyond the range of a column."""
        inside = (np.abs(margins) < self.range_) / self.range_
        return super().slopes(self.normalised(margins)) * inside[:, None, :]


NAMES: dict[str, Callable[[], Decoder]] = {"normalised": Normalised}
