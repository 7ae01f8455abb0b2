"""What every decoder shares: what it answers, and sums of losses."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
from scipy.special import logsumexp
from sklearn.base import BaseEstimator
from sklearn.utils import gen_batches

from outcode import losses
from outcode._checks import Array
from outcode.saved import Kind, Saved, signs
from outcode.solvers.store import cuts
from outcode.training import Training

#: Margins beyond this would overflow an exponential: sums are then taken in log form.
EXP_LIMIT = 300.0


class Decoder(Saved, BaseEstimator):
    """A way to read a class off the margins.

    ``monotone`` says whether its scores are -sum_s L_s(m_qs f_s), the same non-increasing L_s for
    every class: what the leave-one-out bounds ask for. Folds are held out for it until ``enough``
    samples have been.
    """

    room = "decoder"
    saved: ClassVar[Mapping[str, Kind]] = {"code_": signs("n_classes", "n_dichotomies")}
    monotone: bool = False
    enough: ClassVar[float] = np.inf

    def fit(self, training: Training) -> Any:
        """Learn what the decoder needs; the code at least."""
        self.code_ = training.code
        return self

    def scores(self, margins: Array, X: Any = None) -> Array:
        """Return the (n_samples, n_classes) scores."""
        raise NotImplementedError(f"{type(self).__name__} must define scores()")

    def best(self, margins: Array, X: Any = None) -> Array:
        """Return the class with the largest score, (n_samples,), the first of equals."""
        return np.argmax(self.scores(margins, X), axis=1)


def total_loss(
    loss: losses.Loss, margins: Array, code: Array, weight: Array | None = None
) -> Array:
    """Return sum_s w_qs L(m_qs f_s) for every row and class, in two products.

    An entry m_qs = 0 contributes L(0).
    """
    weight = np.ones(code.shape) if weight is None else weight
    plus, minus, zero = (weight * (code == sign) for sign in (1, -1, 0))
    constant = zero.sum(axis=1) * loss(np.zeros(1))[0]
    out = np.empty((len(margins), len(code)))
    for batch in row_blocks(margins):
        out[batch] = loss(margins[batch]) @ plus.T + loss(-margins[batch]) @ minus.T + constant
    return out


def row_blocks(margins: Array) -> list[slice]:
    """Cut rows so that what is computed from their margins stays in the cache."""
    return cuts(len(margins), max(1, 2**17 // max(1, margins.shape[1])))


def log_total_exponential(margins: Array, code: Array, weight: Array | None = None) -> Array:
    """Return log sum_s w_qs exp(-m_qs f_s), exact for margins of any size."""
    if not margins.size or np.abs(margins).max() <= EXP_LIMIT:
        return np.log(total_loss(losses.exponential, margins, code, weight))
    weight = np.ones(code.shape) if weight is None else weight
    out = np.empty((len(margins), len(code)))
    for batch in gen_batches(len(margins), max(1, 2**20 // code.size)):
        exponent = -margins[batch, None, :] * code
        out[batch] = logsumexp(exponent, b=weight, axis=2)
    return out
