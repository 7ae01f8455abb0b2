"""One sigmoid for all columns, and one temperature: two numbers that cannot overfit.

The functions take a stack of margins (n_settings, n_samples, n_dichotomies), so that a search
calibrates all its settings in the same few array operations.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import expit

from outcode._checks import Array, positive
from outcode.decoders.common import Decoder
from outcode.decoders.likelihood import softmax
from outcode.formula import floats
from outcode.parallel import single_blas
from outcode.saved import Number
from outcode.training import Training

#: Newton steps at most, and the relative step at which they stop.
STEPS, STOP = 50, 1e-6
#: The slope and 1 / T are sought between these.
LIMITS = 1e-4, 1e4
#: Exponents are held within this, so that no exponential overflows.
LARGEST = 700.0


@dataclass(frozen=True)
class Calibration:
    """What held-out margins say of each setting.

    ``slope``, ``inverse_temperature``, ``loss`` (n_settings,): A, b = 1 / T and the smoothed log
    loss there; ``scores`` (n_settings, n_samples, n_classes); ``row_loss`` (n_settings, n_samples)
    """

    slope: Array
    inverse_temperature: Array
    loss: Array
    scores: Array
    row_loss: Array


def calibrate(
    margins: Array, code: Array, labels: Array, weight: Array, stop: float = STOP
) -> Calibration:
    """Fit the slope and the temperature of every setting.

    Parameters
    ----------
    margins : (n_settings, n_samples, n_dichotomies) on rows the machines were not trained on
    code : (n_classes, n_dichotomies)
    labels, weight : (n_samples,)
    """
    slope = shared_slope(margins, code[labels], weight, stop)
    scores = codeword_scores(margins, code, slope)
    return Calibration(slope, *temperatures(scores, labels, weight, stop))


def shared_slope(margins: Array, signs: Array, weight: Array, stop: float = STOP) -> Array:
    """Fit P(O_s = m | f_s) = 1 / (1 + exp(-A m f_s)), the same A > 0 for every column.

    Problem    min_A  sum_i w_i sum_{s: t_is != 0} (1 - e) l(A t_is f_is) + e l(-A t_is f_is),
               l(z) = log(1 + exp(-z)), e = 1 / (W + 2), W the sum of the weights: without e
               separable margins have no finite optimum
    Algorithm  Newton within a bracket; the problem is convex in A

    Parameters
    ----------
    margins : (n_settings, n_samples, n_dichotomies)
    signs : (n_samples, n_dichotomies) code[labels]
    weight : (n_samples,)
    """
    used = np.flatnonzero(signs)
    z = margins.reshape(len(margins), signs.size).take(used, axis=1) * signs.ravel()[used]
    w = (weight / weight.sum())[used // signs.shape[1]]
    zw, rest = z * w, 1.0 / (weight.sum() + 2.0)
    zzw = z * zw

    def slopes(A: Array) -> tuple[Array, Array]:
        p = 1.0 / (1.0 + np.exp(np.minimum(A[:, None] * z, LARGEST)))  # P(-1) of each cell
        first = rest * zw.sum(axis=1) - np.einsum("ki,ki->k", zw, p)
        return first, np.einsum("ki,ki->k", zzw, p - p * p)

    return _root(slopes, np.full(len(margins), 3.0), stop)


def codeword_scores(margins: Array, code: Array, slope: Array) -> Array:
    """Return sum_{s: m_qs != 0} log P(O_s = m_qs | f_s), (n_settings, n_samples, n_classes).

    With log P(-1) = log P(+1) - A f. Where every class has one +1 and else -1, as in one-vs-all,
    this is A f_s of its column and a constant for each row, which is left out.
    """
    if (code != 0).all() and ((code > 0).sum(axis=1) == 1).all():
        own = slope[:, None, None] * margins[..., code.argmax(axis=1)]
        return np.asarray(own)
    return log_codewords(slope[:, None, None] * margins, code)


def log_codewords(z: Array, code: Array) -> Array:
    """Return the same from z = A f, for arrays of any number of axes."""
    plus = np.minimum(z, 0.0) - np.log1p(np.exp(-np.abs(z)))
    return plus @ np.abs(code.T.astype(np.float64)) - z @ (code.T < 0).astype(float)


def temperatures(
    scores: Array, labels: Array, weight: Array, stop: float = STOP
) -> tuple[Array, Array, Array, Array]:
    """Fit p proportional to exp(b scores); return b, the log loss, the scores and its rows.

    The true class counts for 1 - e and the others share e = 1 / (W + 2), so that rows that are all
    right give a finite b, and a log loss that says how many rows there were.
    """
    n, n_classes = scores.shape[1:]
    w, rest = weight / weight.sum(), 1.0 / (weight.sum() + 2.0)
    Z = np.ascontiguousarray(scores.swapaxes(1, 2))  # sums over classes add whole rows
    Z -= Z.max(axis=1, keepdims=True)
    own = Z[:, labels, np.arange(n)]
    aim = (1.0 - rest) * own + rest * (Z.sum(axis=1) - own) / max(n_classes - 1, 1)

    def slopes(b: Array) -> tuple[Array, Array]:
        p = np.exp(b[:, None, None] * Z)
        total = p.sum(axis=1)
        p *= Z
        mean = p.sum(axis=1) / total
        p *= Z
        return (mean - aim) @ w, (p.sum(axis=1) / total - mean**2) @ w

    b = _root(slopes, np.ones(len(Z)), stop)
    row_loss = np.log(np.exp(b[:, None, None] * Z).sum(axis=1)) - b[:, None] * aim
    return b, row_loss @ w, scores, row_loss


def _root(slopes: Callable[[Array], tuple[Array, Array]], start: Array, stop: float) -> Array:
    """Return where the derivatives of convex functions vanish: Newton within brackets."""
    x, low, high = start, np.full_like(start, LIMITS[0]), np.full_like(start, LIMITS[1])
    for _ in range(STEPS):
        first, second = slopes(x)
        low, high = np.where(first < 0, x, low), np.where(first < 0, high, x)
        new = x - first / np.maximum(second, 1e-300)
        new = np.where((low < new) & (new < high), new, np.sqrt(low * high))
        if np.all(np.abs(new - x) <= stop * x):
            return new
        x = new
    return x


class SharedSigmoid(Decoder):
    """Probability of each codeword under one sigmoid for all columns, and one temperature.

    scores_q = sum_{s: m_qs != 0} log P(O_s = m_qs | f_s) with P(O_s = m | f_s) = 1 / (1 + exp(-A m
    f_s)), probabilities proportional to exp(scores / T). A and T are fitted on held-out margins.
    Over the one-vs-all code this is the softmax of the margins, with one temperature.

    Parameters
    ----------
    folds : int or None, default=3
        Number of folds that the held-out margins come from; None leaves out one row at a time, for
        machines that know these margins (least squares).
    slope : float or None, default=None
        A where it is known already; None fits both A and T.
    temperature : float or None, default=None
        T where it is known already; None fits both A and T.

    Attributes
    ----------
    slope_ : A
    temperature_ : T

    Examples
    --------
    >>> from outcode import OutputCodeClassifier
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> clf = OutputCodeClassifier("ovo", "ls", "shared").fit(X, y)
    >>> clf.predict_proba(X[:1]).argmax(axis=1) == clf.predict(X[:1])
    array([ True])
    """

    saved = {
        **Decoder.saved,
        "slope_": Number(low=1e-9),
        "temperature_": Number(low=1e-9),
    }
    monotone = True

    def __init__(
        self, folds: int | None = 3, *, slope: float | None = None, temperature: float | None = None
    ) -> None:
        self.folds = folds
        self.slope = slope
        self.temperature = temperature

    def fit(self, training: Training) -> SharedSigmoid:
        super().fit(training)
        if self.slope is not None and self.temperature is not None:
            self.slope_ = positive(self.slope, "slope")
            self.temperature_ = positive(self.temperature, "temperature")
            return self
        folds = self.folds
        margins = training.machine.loo_margins_ if folds is None else training.crossfit(folds)
        weight = scored(training.labels, training.sample_weight)
        with single_blas():
            found = calibrate(margins[None], self.code_, training.labels, weight)
        self.slope_ = float(found.slope[0])
        self.temperature_ = 1.0 / float(found.inverse_temperature[0])
        return self

    def scores(self, margins: Array, X: Any = None) -> Array:
        with single_blas():
            return log_codewords(self.slope_ * floats(margins), self.code_)

    def terms(self, margins: Array, X: Any = None) -> Array:
        """Return what each column adds to each score: log P(O_s = m_qs | f_s), 0 where m is 0."""
        z = self.slope_ * np.asarray(margins)[:, None, :] * self.code_
        return np.where(self.code_ != 0, -np.logaddexp(0.0, -z), 0.0)

    def slopes(self, margins: Array) -> Array:
        """Return the derivatives of the scores by the margins."""
        z = self.slope_ * np.asarray(margins)[:, None, :] * self.code_
        return self.slope_ * self.code_ * expit(-z)

    def proba(self, margins: Array, X: Any = None) -> Array:
        """Return the (n_samples, n_classes) probabilities; the largest is that of ``scores``."""
        return softmax(self.scores(margins, X), self.temperature_)


def scored(labels: Array, weight: Array) -> Array:
    """Return the weights of the rows that can be predicted when they are left out.

    A class's only row cannot: it counts for nothing, unless all classes are like that.
    """
    counts = np.bincount(labels[weight > 0], minlength=labels.max() + 1)
    known = np.where(counts[labels] > 1, weight, 0.0)
    return known if known.any() else weight


NAMES: dict[str, Callable[[], Decoder]] = {"shared": SharedSigmoid}
