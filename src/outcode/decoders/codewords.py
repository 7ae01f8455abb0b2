"""The probability of a class given the codeword, learned from data. [PPF04] sections III and VI"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from outcode._checks import Array, positive, warn
from outcode.decoders.common import Decoder
from outcode.decoders.likelihood import Sigmoids
from outcode.parallel import single_blas
from outcode.saved import reals, signs
from outcode.training import Training

#: With up to so many columns every codeword has a row in the table, else the commonest.
ALL_WORDS, MOST_WORDS = 6, 512
#: The table is within this many nats per row of the best one, or it is said.
TOL, MAX_ITER = 1e-4, 2000


class LearnedCodewords(Sigmoids):
    """P(Y = q | f) = sum_k P(Y = q | O = o_k) P(O = o_k | f), both factors learned.

    [PPF04] fixes P(Y = q | o): 1 for the class whose codeword o is, 1 / Q for each class where it
    is none's, and says that it "could be left unspecified and learned from data". Here it is a
    table T that maximises the likelihood of the held-out margins under a Dirichlet prior worth
    ``strength`` rows per codeword, with the paper's table as its mean,

        sum_i c_i log sum_k T_{k y_i} P(o_k | f_i) + strength sum_kq T0_kq log T_kq,

    a concave problem: expectation maximisation goes to its optimum, and how far it is away at most
    is known. P(o_k | f) is the product of a sigmoid per column, fitted as in :class:`Likelihood`.
    Codewords are all signs of a few columns; of many columns the commonest among the held-out
    margins, and the rest is left out. So errors that always come together are learned as such.

    Parameters
    ----------
    folds : int, default=3
        Number of folds that the held-out margins come from.
    strength : float, default=1.0
        Number of rows that the paper's table is worth for each codeword.

    Attributes
    ----------
    words_ : (n_words, n_dichotomies) the codewords o_k
    table_ : (n_words, n_classes) P(Y = q | o_k)
    slope_, offset_ : (n_dichotomies,) of the sigmoids
    gap_ : nats per row by which the table is below the optimum at most

    Examples
    --------
    >>> from outcode import OutputCodeClassifier
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> clf = OutputCodeClassifier("ova", decoder=LearnedCodewords()).fit(X, y)
    >>> clf.decoder_.table_.shape, bool(np.allclose(clf.decoder_.table_.sum(axis=1), 1.0))
    ((8, 3), True)
    """

    saved = {
        **Sigmoids.saved,
        "words_": signs("n_words", "n_dichotomies"),
        "table_": reals("n_words", "n_classes", low=0.0, high=1.0),
    }
    temperature = False

    def __init__(self, folds: int = 3, strength: float = 1.0) -> None:
        self.folds = folds
        self.strength = strength

    def fit(self, training: Training) -> LearnedCodewords:
        super().fit(training)
        margins, weight = training.crossfit(self.folds), training.sample_weight
        self.words_ = codewords(margins[weight > 0], self.code_)
        prior = positive(self.strength, "strength") * fixed_table(self.words_, self.code_)
        with single_blas():
            shares = self.word_shares(margins)
            self.table_, self.gap_ = learned_table(shares, training.labels, weight, prior)
        if self.gap_ > TOL:
            warn(
                f"The table of codewords stopped early: at most {self.gap_:.2g} nats per row below "
                f"the optimum (asked: {TOL:g}).",
                ConvergenceWarning,
            )
        return self

    def word_shares(self, margins: Array) -> Array:
        """Return P(O = o_k | f) among the codewords known, (n_samples, n_words)."""
        z = self.exponents(margins)
        both = np.log1p(np.exp(-np.abs(z)))  # log(1 + e^z) = max(z, 0) + this
        plus, minus = (self.words_ > 0).astype(np.float64), (self.words_ < 0).astype(np.float64)
        cost = (np.maximum(z, 0.0) + both) @ plus.T + (np.maximum(-z, 0.0) + both) @ minus.T
        share = np.exp(-cost - (-cost).max(axis=1, keepdims=True))
        return share / share.sum(axis=1, keepdims=True)

    def scores(self, margins: Array, X: Any = None) -> Array:
        with single_blas():
            proba = self.word_shares(margins) @ self.table_
        return np.log(np.maximum(proba, 1e-300))


def codewords(margins: Array, code: Array) -> Array:
    """Return the codewords of a table: all of them, or the commonest signs of the margins."""
    n_columns = code.shape[1]
    if n_columns <= ALL_WORDS:
        bits = (np.arange(2**n_columns)[:, None] >> np.arange(n_columns)) & 1
        return (2 * bits - 1).astype(np.int8)
    seen = np.where(margins >= 0, 1, -1).astype(np.int8)
    words, counts = np.unique(seen, axis=0, return_counts=True)
    return words[np.sort(np.argsort(-counts, kind="stable")[:MOST_WORDS])]


def fixed_table(words: Array, code: Array) -> Array:
    """Return [PPF04]'s P(Y = q | o): 1 for the class with that codeword, 1 / Q if there is none.

    An entry 0 of the code may be +1 or -1 in the codeword.

    >>> fixed_table(np.array([[1, -1], [1, 1]]), np.array([[1, -1], [-1, 1]])).tolist()
    [[1.0, 0.0], [0.5, 0.5]]
    """
    valid = (words.astype(int) @ code.T.astype(int)) == np.count_nonzero(code, axis=1)
    found = valid.any(axis=1, keepdims=True)
    return np.where(found, valid / np.maximum(valid.sum(axis=1, keepdims=True), 1), 1 / len(code))


def learned_table(shares: Array, labels: Array, weight: Array, prior: Array) -> tuple[Array, float]:
    """Return the table of largest posterior by expectation maximisation, and its gap per row.

    Problem    max over rows T_k on the simplex  sum_i c_i log sum_k R_ik T_{k y_i}
               + sum_kq prior_kq log T_kq
    Algorithm  T_kq in proportion to prior_kq + sum_{i: y_i = q} c_i R_ik T_kq / p_i,
               p_i = sum_k R_ik T_{k y_i}
    Stopping   concave, so with g the gradient the optimum is at most sum_k max_q g_kq - sum_kq
               T_kq g_kq above
    """
    total, n_classes = float(weight.sum()), prior.shape[1]
    rows = [np.flatnonzero((labels == q) & (weight > 0)) for q in range(n_classes)]
    parts = [np.ascontiguousarray(shares[own]) for own in rows]
    T = (prior / prior.sum(axis=1, keepdims=True) + 1.0 / n_classes) / 2.0
    gap = np.inf
    for _ in range(MAX_ITER):
        g = np.empty_like(T)
        for q, (part, own) in enumerate(zip(parts, rows, strict=True)):
            g[:, q] = part.T @ (weight[own] / np.maximum(part @ T[:, q], 1e-300))
        g += np.divide(prior, T, out=np.zeros_like(T), where=prior > 0)
        mass = T * g
        gap = float(g.max(axis=1).sum() - mass.sum()) / total
        if gap <= TOL:
            break
        T = mass / mass.sum(axis=1, keepdims=True)
    return T, gap


NAMES: dict[str, Callable[[], Decoder]] = {"codewords": LearnedCodewords}
