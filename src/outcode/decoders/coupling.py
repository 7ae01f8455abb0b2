"""Probabilities coupled from the columns' own: pairs, and the Bradley-Terry model of any code."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse
from scipy.special import expit
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import gen_batches

from outcode._checks import Array, lookup, warn
from outcode.decoders.common import Decoder
from outcode.decoders.likelihood import Sigmoids
from outcode.formula import FormulaError, symbolic
from outcode.parallel import single_blas
from outcode.solvers import pairs
from outcode.training import Training

#: The columns' probabilities are held within [CLIP, 1 - CLIP], and so no class has less.
CLIP = 1e-12
#: Scores are rounded to this many decimals: a solver's last digits must not decide exact ties.
DECIMALS = 10
#: Numbers in the largest temporary array.
BLOCK = 2**17
#: Largest gradient of the Bradley-Terry model at which it counts as solved, and as failed.
GRADIENT_GOAL, GRADIENT_FAILED = 1e-10, 1e-6
#: Smallest log p relative to the largest.
FLOOR = -250.0


def log_scores(p: Array) -> Array:
    """Return log p, no p below CLIP, without the digits that are the solver's rounding."""
    held = np.maximum(p, CLIP)
    return np.round(np.log(held / held.sum(axis=1, keepdims=True)), DECIMALS)


# --- pairwise coupling ---


class Opposed:
    """The two classes i, j that each column opposes, as places i k + j of k x k matrices.

    ``count`` (k^2,) says how many columns there are for each pair.
    """

    def __init__(self, code: Array) -> None:
        k = self.n_classes = len(code)
        self.first, self.second = np.argmax(code > 0, axis=0), np.argmax(code < 0, axis=0)
        self.code = code
        self.there, self.back = self.first * k + self.second, self.second * k + self.first
        size = {"minlength": k * k}
        self.count = np.bincount(self.there, **size) + np.bincount(self.back, **size)


class PairwiseCoupling(Sigmoids):
    """Couple the probabilities r_ij = P(i | i or j) of all pairs into p_1, ..., p_k.

    "wu-lin-weng": min_p sum_{i != j} (r_ji p_i - r_ij p_j)^2 with sum p = 1 (Wu, Lin & Weng 2004,
    second method). "hastie-tibshirani": min_p sum_{i < j} KL(r_ij || p_i / (p_i + p_j)) (Hastie &
    Tibshirani 1998, every pair with the same weight). scores = log p.

    Parameters
    ----------
    method : {"wu-lin-weng", "hastie-tibshirani"}, default="wu-lin-weng"
        What is minimised, as above.
    folds : int, default=3
        Number of folds that the held-out margins come from.
    temperature : bool, default=False
        Fit one number T on the held-out margins and give p^(1/T), renormalised.

    Attributes
    ----------
    slope_, offset_ : (n_dichotomies,) the sigmoids, as in :class:`Likelihood`
    temperature_ : T, 1 when not asked for

    Examples
    --------
    >>> from outcode import OutputCodeClassifier
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> clf = OutputCodeClassifier("ovo", "ls", PairwiseCoupling(), random_state=0).fit(X, y)
    >>> clf.predict_proba(X[::50]).argmax(axis=1).tolist()
    [0, 1, 2]
    """

    def __init__(
        self, method: str = "wu-lin-weng", folds: int = 3, *, temperature: bool = False
    ) -> None:
        self.method = method
        self.folds = folds
        self.temperature = temperature

    def fit(self, training: Training) -> PairwiseCoupling:
        lookup(METHODS, self.method, "method")
        return super().fit(training)

    def check_code(self, code: Array) -> None:
        sides = np.stack([(code > 0).sum(axis=0), (code < 0).sum(axis=0)])
        if np.any(sides != 1):
            column = int(np.argmax(np.any(sides != 1, axis=0)))
            raise ValueError(
                f"Pairwise coupling needs columns with one class on each side, as in 'ovo'; column "
                f"{column} has {sides[0, column]} against {sides[1, column]} classes. Use the "
                f"decoder 'bradley-terry', which takes any code."
            )
        super().check_code(code)

    @property
    def opposed(self) -> Opposed:
        """The classes of each column, made when first asked for."""
        known = vars(self).get("_opposed")
        if known is None or known.code is not self.code_:
            known = self._opposed = Opposed(self.code_)
        return known

    def scores(self, margins: Array, X: Any = None) -> Array:
        if symbolic(margins):
            return self._formula(self.exponents(margins))
        k, out = len(self.code_), np.empty((len(margins), len(self.code_)))
        with single_blas():
            for batch in gen_batches(max(1, len(margins)), max(1, BLOCK // k**2)):
                z = self.exponents(margins[batch])
                out[batch] = log_scores(METHODS[self.method](z, self.opposed))
        return out

    def _formula(self, z: Any) -> Any:
        if self.method != "wu-lin-weng":
            raise FormulaError("it is solved by iteration: use PairwiseCoupling('wu-lin-weng')")
        return log_scores(_eliminated(_pair_formula(z, self.code_), len(self.code_)))


def _pair_formula(z: Any, code: Array) -> Any:
    """Return :func:`pair_probabilities` of symbolic rows as rows of k^2 numbers."""
    k, (i, j) = len(code), (np.argmax(code > 0, axis=0), np.argmax(code < 0, axis=0))
    pair = np.concatenate([i * k + j, j * k + i])  # of every entry of P(+1) and of P(-1)
    order = np.argsort(pair, kind="stable")
    count = np.bincount(pair[order], minlength=k * k)
    first = np.cumsum(count) - count
    both = np.hstack([expit(-z), expit(z), 0.0 * z[:, :1]])
    total: Any = 0.0
    for nth in range(count.max()):  # the nth column of each pair, or the 0 behind them
        at = np.where(nth < count, np.append(order, 0)[np.minimum(first + nth, len(order))], -1)
        total = total + both.take(np.where(at < 0, len(order), at))
    return total / np.maximum(count, 1)


def _eliminated(r: Any, k: int) -> Any:
    """Return :func:`wu_lin_weng` of symbolic rows: Gauss-Jordan steps, the pivots are positive."""
    turned = np.arange(k * k).reshape(k, k).T.ravel()
    squares = (r * r).take(turned).reshape(-1, k, k).sum(axis=2)
    Q = (1.0 - r * r.take(turned)).reshape(-1, k, k)
    Q = np.where(np.eye(k), 1.0 + squares[:, None, :], Q)
    flat = (Q @ np.eye(k, k + 1) + np.eye(k + 1)[k]).reshape(-1, k * (k + 1))  # e behind Q
    places = np.arange(k * (k + 1)).reshape(k, k + 1)
    for s in range(k):
        row = flat.take(places[s]) / flat.take(places[s, s : s + 1])
        others = flat.take(places[:, s]) - np.eye(k)[s]
        product = others[:, :, None] * row[:, None, :]
        flat = flat - product.reshape(-1, k * (k + 1))
    p = flat.take(places[:, k])
    return p / p.sum(axis=1, keepdims=True)


def pair_probabilities(z: Array, opposed: Opposed) -> Array:
    """Return r (n_samples, k, k), r[:, i, j] = P(i | i or j), the mean over the pair's columns."""
    k, there, back, count = opposed.n_classes, opposed.there, opposed.back, opposed.count
    r = np.zeros((len(z), k * k))
    if count.max() <= 1:
        r[:, there], r[:, back] = expit(-z), expit(z)
        return r.reshape(-1, k, k)
    np.add.at(r.T, there, expit(-z).T)
    np.add.at(r.T, back, expit(z).T)
    return (r / np.maximum(count, 1)).reshape(-1, k, k)


def wu_lin_weng(r: Array) -> Array:
    """Return the p of the second method of Wu, Lin & Weng (2004), one k x k system per sample.

    At the optimum Q p is constant, with Q_ii = sum_j r_ji^2 and Q_ij = -r_ji r_ij,
    so p is proportional to (Q + e e')^-1 e. That matrix is positive definite for every r in [0, 1]:
    a vector with r_ji x_i = r_ij x_j for all pairs has no two signs.
    """
    k = r.shape[1]
    Q = 1.0 - r * r.transpose(0, 2, 1)
    diagonal = np.arange(k)
    Q[:, diagonal, diagonal] = 1.0 + np.einsum("nij,nij->nj", r, r)
    p = np.linalg.solve(Q, np.ones((len(r), k, 1)))[..., 0]
    return p / p.sum(axis=1, keepdims=True)


def hastie_tibshirani(r: Array) -> Array:
    """Return the p of Hastie & Tibshirani (1998): the Bradley-Terry model of one-vs-one."""
    i, j = np.triu_indices(r.shape[1], 1)
    side = np.arange(r.shape[1])[:, None]
    code = (side == i).astype(np.int8) - (side == j).astype(np.int8)
    return np.exp(bradley_terry(r[:, i, j], r[:, j, i], code))


def _by_squares(z: Array, opposed: Opposed) -> Array:
    """Return :func:`wu_lin_weng` of the columns' exponents, without an array of k x k if it can."""
    if opposed.count.max() > 1:
        return wu_lin_weng(pair_probabilities(z, opposed))
    p, solved = pairs.couple(z, opposed.first, opposed.second, opposed.n_classes)
    if not solved.all():
        p[~solved] = wu_lin_weng(pair_probabilities(z[~solved], opposed))
    return p


def _by_likelihood(z: Array, opposed: Opposed) -> Array:
    return hastie_tibshirani(pair_probabilities(z, opposed))


#: From the exponents of the columns, see :meth:`Sigmoids.exponents`, to p.
METHODS: dict[str, Callable[[Array, Opposed], Array]] = {
    "wu-lin-weng": _by_squares,
    "hastie-tibshirani": _by_likelihood,
}


# --- the generalised Bradley-Terry model ---


class BradleyTerry(Sigmoids):
    """Couple the columns of any code by the generalised Bradley-Terry model.

    min_p  -sum_s [ r_s log(q_s+ / q_s) + (1 - r_s) log(q_s- / q_s) ],  q_s = q_s+ + q_s-, with
    q_s+ and q_s- the sums of p over the classes where column s is +1 and -1, and r_s = P(O_s = +1)
    (Huang, Weng & Lin 2006, every column with the same weight). scores = log p.

    Parameters
    ----------
    folds : int, default=3
        Number of folds that the held-out margins come from.
    temperature : bool, default=False
        Fit one number T on the held-out margins and give p^(1/T), renormalised.

    Attributes
    ----------
    slope_, offset_ : (n_dichotomies,) the sigmoids, as in :class:`Likelihood`
    temperature_ : T, 1 when not asked for

    Examples
    --------
    >>> from outcode import OutputCodeClassifier
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> clf = OutputCodeClassifier("ova", "ls", BradleyTerry(), random_state=0).fit(X, y)
    >>> clf.predict_proba(X[::50]).argmax(axis=1).tolist()
    [0, 1, 2]
    """

    def __init__(self, folds: int = 3, *, temperature: bool = False) -> None:
        self.folds = folds
        self.temperature = temperature

    def scores(self, margins: Array, X: Any = None) -> Array:
        z = self.exponents(margins)
        if symbolic(z):
            raise FormulaError(
                "it is solved by iteration: use 'coupling', 'likelihood' or 'shared'"
            )
        with single_blas():
            return log_scores(np.exp(bradley_terry(expit(-z), expit(z), self.code_)))


def bradley_terry(plus: Array, minus: Array, code: Array, *, max_iter: int = 300) -> Array:
    """Return log p (n_samples, n_classes) of the generalised Bradley-Terry model.

    Problem    see :class:`BradleyTerry`; in theta = log p it has no constraint, and its gradient
               g_i = p_i dL/dp_i vanishes exactly where the KKT conditions hold or p_i is 0
    Algorithm  Newton in theta, damped by Levenberg and Marquardt against the scale D + N of the
               multiplicative updates of Huang, Weng & Lin (2006): with much damping a step goes
               their way, with little it is Newton's. The updates alone take of the order of 1/p
               steps to bring a class down to probability p, Newton's take log(1/p)
    Stopping   max_i |g_i| <= 1e-10; a ConvergenceWarning if more than 1e-6 is left

    Parameters
    ----------
    plus, minus : (n_samples, n_dichotomies) r_s and 1 - r_s
    code : (n_classes, n_dichotomies)
    """
    model = Model.of(code)
    out = np.empty((len(plus), len(code)))
    residual = 0.0
    rows = max(1, BLOCK // max(len(code) ** 2, code.shape[1]))
    for batch in gen_batches(max(1, len(plus)), rows):
        r = np.clip(plus[batch], CLIP, 1.0 - CLIP), np.clip(minus[batch], CLIP, 1.0 - CLIP)
        out[batch], left = _descend(model, *r, max_iter)
        residual = max(residual, left)
    if residual > GRADIENT_FAILED:
        warn(
            f"The Bradley-Terry model stopped after {max_iter} steps with a gradient of "
            f"{residual:.2g}.",
            ConvergenceWarning,
        )
    return out


@dataclass(frozen=True)
class Model:
    """Which classes are on the sides of each column, and which pairs of classes share a side."""

    sides: tuple[Array, Array]  # two (n_classes, n_dichotomies) of 0 and 1: +1 and -1
    pairs: tuple[Any, Any, Any]  # three (n_dichotomies, n_classes^2): both in +1, in -1, in either

    @classmethod
    def of(cls, code: Array) -> Model:
        sides = (code > 0).astype(np.float64), (code < 0).astype(np.float64)
        plus, minus, either = (_shared(side) for side in (*sides, sides[0] + sides[1]))
        return cls(sides, (plus, minus, either))

    def sums(self, p: Array) -> tuple[Array, Array]:
        return p @ self.sides[0], p @ self.sides[1]

    def value(self, theta: Array, plus: Array, minus: Array) -> Array:
        """Return the objective of each sample."""
        q_plus, q_minus = self.sums(np.exp(theta))
        total = np.log(q_plus + q_minus)
        return (plus * (total - np.log(q_plus)) + minus * (total - np.log(q_minus))).sum(axis=1)

    def derivatives(self, theta: Array, plus: Array, minus: Array) -> tuple[Array, Array, Array]:
        """Return the gradient D - N in theta, the scale D + N, and the Hessian.

        N_i / p_i and D_i / p_i are numerator and denominator of the multiplicative update.
        """
        p = np.exp(theta)
        q_plus, q_minus = self.sums(p)
        one, a, b = 1.0 / (q_plus + q_minus), plus / q_plus, minus / q_minus
        D = p * (one @ (self.sides[0] + self.sides[1]).T)
        N = p * (a @ self.sides[0].T + b @ self.sides[1].T)
        in_plus, in_minus, either = self.pairs
        shared = (a / q_plus) @ in_plus + (b / q_minus) @ in_minus - one**2 @ either
        hessian = p[:, :, None] * p[:, None, :] * shared.reshape(len(p), p.shape[1], p.shape[1])
        diagonal = np.arange(p.shape[1])
        hessian[:, diagonal, diagonal] += D - N
        return D - N, D + N, hessian


def _shared(side: Array) -> Any:
    """Return for each pair of classes whether both are on this side of each column."""
    both = (side.T[:, :, None] * side.T[:, None, :]).reshape(side.shape[1], -1)
    return sparse.csr_array(both) if both.mean() < 0.2 else both


def _descend(model: Model, plus: Array, minus: Array, max_iter: int) -> tuple[Array, float]:
    """Return log p and the largest gradient left, all samples in step until each has converged."""
    theta = np.zeros((len(plus), len(model.sides[0])))
    value, damping = model.value(theta, plus, minus), np.full(len(plus), 0.5)
    active, residual = np.arange(len(plus)), 0.0
    for _ in range(max_iter):
        gradient, scale, hessian = model.derivatives(theta[active], plus[active], minus[active])
        worst = np.abs(gradient).max(axis=1)
        late = worst > GRADIENT_GOAL
        active = active[late]
        residual = float(worst.max(initial=0.0))
        if not len(active):
            break
        step = _damped_step(gradient[late], scale[late], hessian[late], damping[active])
        trial = _shift(theta[active] + step)
        found = model.value(trial, plus[active], minus[active])
        better = found <= value[active] + 1e-15 * (1.0 + np.abs(value[active]))
        moved = active[better]
        theta[moved], value[moved] = trial[better], found[better]
        damping[active] = np.clip(damping[active] * np.where(better, 0.2, 3.0), 1e-14, 1e9)
    p = np.exp(theta)
    return theta - np.log(p.sum(axis=1, keepdims=True)), residual


def _damped_step(gradient: Array, scale: Array, hessian: Array, damping: Array) -> Array:
    """Return -(H + damping diag(scale))^-1 g, solved with the diagonal scaled to one."""
    root = np.sqrt(scale)
    outer = root[:, :, None] * root[:, None, :]
    # H e = 0, as only ratios of p matter: the second term fills that direction, which is not used
    system = hessian / outer + outer / scale.sum(axis=1)[:, None, None]
    diagonal = np.arange(scale.shape[1])
    system[:, diagonal, diagonal] += damping[:, None]
    right = (gradient / root)[..., None]
    try:
        solved = np.linalg.solve(system, right)
    except np.linalg.LinAlgError:  # exactly singular: possible only while H is indefinite
        solved = np.linalg.pinv(system) @ right
    return -solved[..., 0] / root


def _shift(theta: Array) -> Array:
    """Make the largest log p of each row 0, and hold the others where exp(2 theta) is finite."""
    return np.maximum(theta - theta.max(axis=1, keepdims=True), FLOOR)


NAMES: dict[str, Callable[[], Decoder]] = {
    "coupling": PairwiseCoupling,
    "bradley-terry": BradleyTerry,
}
