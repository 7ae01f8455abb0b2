"""Decoding by any closeness of the margins and the codewords. [CS02] section 2"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from outcode import kernels
from outcode._checks import Array
from outcode.decoders.common import Decoder
from outcode.formula import floats, symbolic
from outcode.parallel import single_blas
from outcode.saved import KernelKind
from outcode.training import Training

#: Larger margins count as this much: their powers must not overflow.
LARGEST = 1e50


class Closeness(Decoder):
    """Score a class by K(f(x), m_r), the closeness of the margins and its codeword.

    [CS02] predicts argmax_r K(h(x), M_r) for an inner-product function K. The inner product itself
    is linear loss-based decoding; "rbf" orders classes by the Euclidean distance. For codes of real
    numbers whose K is a kernel, :class:`ContinuousCode` learns the M_r in the space of that kernel.

    Parameters
    ----------
    kernel : {"poly", "linear", "rbf", "laplacian", ...} or callable, default="poly"
        Also "exponential" or "sigmoid"; a function takes two matrices and returns the closeness of
        their rows.
    gamma : float or array-like of shape (n_dichotomies,), default=1.0
        Of the kernel: a number, or one for each column.
    degree : int, default=3
        Of the polynomial kernel.
    coef0 : float, default=1.0
        Of the polynomial and the sigmoid kernel.

    Examples
    --------
    >>> from outcode import OutputCodeClassifier
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> clf = OutputCodeClassifier("ovo", decoder=Closeness("poly", degree=3, coef0=1.0)).fit(X, y)
    >>> clf.decision_function(X).shape
    (150, 3)
    """

    saved = {**Decoder.saved, "kernel_": KernelKind("n_dichotomies")}

    def __init__(
        self,
        kernel: Any = "poly",
        gamma: Any = 1.0,
        *,
        degree: int = 3,
        coef0: float = 1.0,
    ) -> None:
        self.kernel = kernel
        self.gamma = gamma
        self.degree = degree
        self.coef0 = coef0

    def fit(self, training: Training) -> Closeness:
        super().fit(training)
        if kernels.named(self.kernel).given:
            raise ValueError(
                "Closeness needs kernel values of new margins, so its kernel cannot be "
                "precomputed: give the name of a kernel."
            )
        shape: dict[str, Any] = {"gamma": self.gamma, "degree": self.degree, "coef0": self.coef0}
        self.kernel_ = kernels.resolve(self.kernel, self.code_.astype(np.float64), **shape)
        return self

    def scores(self, margins: Array, X: Any = None) -> Array:
        words = self.kernel_.prepare(self.code_.astype(np.float64))
        given = floats(margins)
        if not symbolic(given):
            given = np.clip(given, -LARGEST, LARGEST)
        with single_blas():
            values = self.kernel_.values(self.kernel_.prepare(given), words)
        return values if symbolic(values) else np.array(values)


NAMES: dict[str, Callable[[], Decoder]] = {"closeness": Closeness}
