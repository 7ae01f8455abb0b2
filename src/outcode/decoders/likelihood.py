"""Probabilities from margins: one sigmoid per column, and the likelihood of each codeword.

Every decoder here answers ``scores`` and ``proba`` with the same winner in each row, rounding
included: the probabilities are computed from the scores, and where rounding ties or swaps the
largest of them the winner of the scores is put one unit in the last place ahead.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
from scipy.optimize import minimize_scalar
from scipy.special import expit, logsumexp
from sklearn.exceptions import ConvergenceWarning

from outcode._checks import Array, lookup, twin, warn
from outcode.decoders.common import Decoder, apart, in_blocks
from outcode.dichotomies import separation
from outcode.formula import floats
from outcode.parallel import single_blas
from outcode.saved import Number, reals
from outcode.scores import put_ahead
from outcode.solvers import sigmoids
from outcode.training import PathTrainings, Training, Used

#: A f + B is held within this, so that a sum over columns stays finite.
EXPONENT_LIMIT = 1e300
#: Largest gradient of the mean log-likelihood at which the fit of a sigmoid counts as failed.
GRADIENT_FAILED = 1e-5
#: Natural logarithms between which a temperature is sought.
LOG_TEMPERATURES = (-7.0, 7.0)


# --- one sigmoid per column ---


def smoothed(plus: Array, minus: Array) -> tuple[Array, Array]:
    """Return Platt's targets (W+ + 1) / (W+ + 2) and 1 / (W- + 2), W the total weight of a side.

    The hard targets 1 and 0 have no finite optimum when the margins are separable.

    >>> [target.round(2).tolist() for target in smoothed(np.array([2.0]), np.array([1.0]))]
    [[0.75], [0.33]]
    """
    return (plus + 1.0) / (plus + 2.0), 1.0 / (minus + 2.0)


def hard(plus: Array, minus: Array) -> tuple[Array, Array]:
    """Return 1 and 0, the targets of [PPF04] Eq. 5."""
    return np.ones_like(plus), np.zeros_like(minus)


TARGETS: dict[str, Callable[[Array, Array], tuple[Array, Array]]] = {
    "smoothed": smoothed,
    "hard": hard,
}


def fit_sigmoids(used: Used, weight: Array, targets: str = "smoothed") -> tuple[Array, Array]:
    """Fit the sigmoid of each column on the rows it uses; return A and B (n_dichotomies,) each.

    Parameters
    ----------
    used : margins of rows the machines were not trained on
    weight : (n_samples,)
    targets : "smoothed" or "hard"
    """
    one = used.values[None], used.signs, used.columns, weight[None, used.rows]
    A, B = fit_sigmoids_of_each(*one, targets)
    return A[0], B[0]


def fit_sigmoids_of_each(
    margins: Array, sign: Array, column: Array, weight: Array, targets: str = "smoothed"
) -> tuple[Array, Array]:
    """Fit the sigmoids of several machines; return A and B (n_machines, n_columns) each.

    Parameters
    ----------
    margins : (n_machines, n_entries) of the rows that each column uses, column after column
    sign, column : (n_entries,) sign of the row of an entry, and its column
    weight : (n_machines, n_entries)
    targets : "smoothed" or "hard"
    """
    make, used = lookup(TARGETS, targets, "targets"), weight > 0
    shape = len(weight), int(column[-1]) + 1
    problem = (np.arange(shape[0])[:, None] * shape[1] + column)[used]
    f, w, positive = margins[used], weight[used], np.broadcast_to(sign > 0, used.shape)[used]
    count = partial(np.bincount, problem, minlength=shape[0] * shape[1])
    high, low = make(count(w * positive), count(w * ~positive))
    out = np.empty((shape[0] * shape[1], 3))
    offset = np.concatenate([[0], np.cumsum(count())])
    sigmoids.fit_columns(f, np.where(positive, high[problem], low[problem]), w, offset, out)
    A, B, left = out.T.reshape(3, *shape)
    warn_unfitted(left.max(axis=0))
    return A, B


def warn_unfitted(left: Array) -> None:
    """Warn if a column's sigmoid has a gradient left."""
    if left.max() > GRADIENT_FAILED:
        s = int(np.argmax(left))
        warn(
            f"The sigmoid of column {s} stopped early: a gradient of {left[s]:.2g} is left.",
            ConvergenceWarning,
        )


# --- from scores to probabilities ---


def softmax(scores: Array, temperature: float = 1.0) -> Array:
    """Return exp(scores / T), each row made to sum to one; the largest score stays the largest."""
    power = np.exp((scores - scores.max(axis=1, keepdims=True)) / temperature)
    proba: Array = put_ahead(power / power.sum(axis=1, keepdims=True), np.argmax(scores, axis=1))
    return proba


def log_loss(log_proba: Array, labels: Array, weight: Array, temperature: float = 1.0) -> float:
    """Return the weighted mean of -log p_y, with p proportional to exp(log_proba / T)."""
    tempered = log_proba / temperature
    loss = logsumexp(tempered, axis=1) - tempered[np.arange(len(labels)), labels]
    return float(weight @ loss / weight.sum())


def fit_temperature(log_proba: Array, labels: Array, weight: Array) -> float:
    """Return the T > 0 with the smallest log loss (Guo et al. 2017), 1 if none is smaller.

    The log loss is convex in 1/T, so it has one valley in log T.
    """
    shifted = log_proba - log_proba.max(axis=1, keepdims=True)
    shifted = np.maximum(shifted, -1e6)  # one absurd row must not overflow the sum
    found = minimize_scalar(
        lambda log_t: log_loss(shifted, labels, weight, np.exp(log_t)),
        bounds=LOG_TEMPERATURES,
        method="bounded",
        options={"xatol": 1e-6},
    )
    gain = log_loss(shifted, labels, weight) - found.fun
    return float(np.exp(found.x)) if gain > 0 else 1.0


# --- decoders ---


class Sigmoids(Decoder):
    """A decoder on P(O_s = m | f_s) = 1 / (1 + exp(m (A_s f_s + B_s))), fitted held out.

    A subclass has the parameters ``folds`` and ``temperature`` and defines ``scores`` as
    logarithms of numbers proportional to the probabilities, and ``check_code`` for what it asks
    of a code.
    """

    saved = {
        **Decoder.saved,
        "slope_": reals("n_dichotomies", high=0.0),
        "offset_": reals("n_dichotomies"),
        "temperature_": Number(low=1e-9),
    }
    folds: int
    temperature: bool | None
    targets: str = "smoothed"

    def unpack(self, values: dict[str, Any]) -> None:
        super().unpack(values)
        self.check_code(self.code_)

    def fit(self, training: Training) -> Any:
        """Fit a sigmoid per column on held-out margins, and the temperature if asked."""
        super().fit(training)
        self.check_code(training.code)
        used, weight = training.crossfit_used(self.folds), training.sample_weight
        self.slope_, self.offset_ = fit_sigmoids(used, weight, self.targets)
        self.temperature_ = 1.0
        if self.tempered(training.code):
            log_proba = self.log_proba(training.crossfit(self.folds), training.X)
            self.temperature_ = fit_temperature(log_proba, training.labels, weight)
        return self

    def tempered(self, code: Array) -> bool:
        """Return whether a temperature is fitted."""
        return bool(self.temperature)

    def check_code(self, code: Array) -> None:
        """Raise an error if this decoder cannot read the code."""
        together = separation(code) == 0
        if np.count_nonzero(together) > len(code):  # more than each class with itself
            first, second = np.nonzero(np.triu(together, 1))
            raise ValueError(
                f"No column of the code separates classes {first[0]} and {second[0]}, so their "
                f"probabilities cannot be estimated: use a code with a column in which they have "
                f"opposite signs."
            )

    def exponents(self, margins: Array) -> Array:
        """Return A_s f_s + B_s, (n_samples, n_dichotomies), finite for every finite margin."""
        with np.errstate(over="ignore"):
            z = floats(margins) * self.slope_ + self.offset_
        return np.clip(z, -EXPONENT_LIMIT, EXPONENT_LIMIT)

    def log_proba(self, margins: Array, X: Any = None) -> Array:
        """Return logarithms of the probabilities before temperature, up to a constant per row."""
        return self.scores(margins, X)

    def proba(self, margins: Array, X: Any = None) -> Array:
        """Return the (n_samples, n_classes) probabilities; the largest is that of ``scores``."""
        return softmax(self.scores(margins, X), self.temperature_)


class Likelihood(Sigmoids):
    """Probability of each codeword under independent column sigmoids.

    scores_q = sum_{s: m_qs != 0} log P(O_s = m_qs | f_s) ([PPF04] Eq. 3 without alpha, Eq. 4), with
    P(O_s = m | f_s) = 1 / (1 + exp(m (A_s f_s + B_s))) fitted on held-out margins (Eq. 5). Entries
    0 are ignored.

    Parameters
    ----------
    folds : int, default=3
        Number of folds that the held-out margins come from.
    targets : {"smoothed", "hard"}, default="smoothed"
        Platt's targets, or the paper's, which diverge on separable margins.
    invalid : {"renormalise", "uniform"}, default="renormalise"
        Treatment of the probability of codewords that belong to no class. "renormalise" removes it
        and gives the posterior among valid codewords; "uniform" is the paper's Eq. 3: every class
        gets alpha = (1
        - sum_q prod_q) / Q, which dominates when there are many columns.
    temperature : bool or None, default=None
        Fit one number T on the held-out margins and give p^(1/T), renormalised. None does so if two
        classes are separated by more than one column: the product of their sigmoids assumes
        independent columns and is overconfident. False is the paper's
        form, which one-vs-one and ``invalid="uniform"`` have by default.

    Attributes
    ----------
    slope_, offset_ : (n_dichotomies,) A_s <= 0 and B_s
    temperature_ : T, 1 when not asked for

    Examples
    --------
    >>> from outcode import OutputCodeClassifier
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> clf = OutputCodeClassifier("ovo", decoder="likelihood", random_state=0).fit(X, y)
    >>> clf.predict_proba(X[:1]).argmax(axis=1) == clf.predict(X[:1])
    array([ True])
    """

    monotone = True

    def __init__(
        self,
        folds: int = 3,
        targets: str = "smoothed",
        *,
        invalid: str = "renormalise",
        temperature: bool | None = None,
    ) -> None:
        self.folds = folds
        self.targets = targets
        self.invalid = invalid
        self.temperature = temperature

    def tempered(self, code: Array) -> bool:
        if self.temperature is not None:
            return bool(self.temperature)
        return self.invalid == "renormalise" and bool(separation(code).max() > 1)

    def fit(self, training: Training) -> Likelihood:
        lookup({"renormalise": None, "uniform": None}, self.invalid, "invalid")
        return super().fit(training)

    def best_of_each(
        self, trainings: PathTrainings, margins: Sequence[Array], X: Sequence[Any]
    ) -> list[Array]:
        self.check_code(trainings.code)
        held_out = trainings.held_out_entries(self.folds, self.enough)
        slope, offset = fit_sigmoids_of_each(*held_out, self.targets)
        read = twin(self)
        read.code_, read.slope_, read.offset_ = trainings.code, np.ones(1), np.zeros(1)
        z = [f * A + B for f, A, B in zip(margins, slope, offset, strict=True)]
        return apart(read.best(np.concatenate(z)), margins)

    def scores(self, margins: Array, X: Any = None) -> Array:
        def losses(margins: Array) -> Array:
            z = self.exponents(margins)
            both = np.log1p(np.exp(-np.abs(z)))  # log(1 + e^z) = max(z, 0) + this
            return self.sides.total(np.maximum(z, 0.0) + both, np.maximum(-z, 0.0) + both)

        with single_blas():
            return -in_blocks(losses, margins, len(self.code_))

    def terms(self, margins: Array, X: Any = None) -> Array:
        """Return what each column adds to each score: log P(O_s = m_qs | f_s), 0 where m is 0."""
        z = self.exponents(margins)[:, None, :]
        return np.where(self.code_ != 0, -np.logaddexp(0.0, self.code_ * z), 0.0)

    def slopes(self, margins: Array) -> Array:
        """Return the derivatives of the scores by the margins."""
        z = self.exponents(margins)[:, None, :]
        return -self.code_ * self.slope_ * expit(self.code_ * z)

    def log_proba(self, margins: Array, X: Any = None) -> Array:
        scores = self.scores(margins, X)
        if self.invalid == "renormalise":
            return scores
        with np.errstate(divide="ignore"):  # no mass on invalid codewords: log 0
            return np.logaddexp(scores, np.log(_invalid_share(scores)))

    def proba(self, margins: Array, X: Any = None) -> Array:
        if self.invalid == "renormalise":
            return super().proba(margins, X)
        scores = self.scores(margins, X)
        if self.temperature_ == 1.0:
            proba = np.exp(scores) + _invalid_share(scores)
        else:
            proba = softmax(self.log_proba(margins, X), self.temperature_)
        # products far below alpha vanish in the sum: the winner must not
        return put_ahead(proba, np.argmax(scores, axis=1))


def _invalid_share(scores: Array) -> Array:
    """Return alpha = (1 - sum_q prod_q) / Q of each row, (n_samples, 1). [PPF04] Eq. 3"""
    valid = np.exp(scores).sum(axis=1, keepdims=True)
    return np.maximum(1.0 - valid, 0.0) / scores.shape[1]


NAMES: dict[str, Callable[[], Decoder]] = {"likelihood": Likelihood}
