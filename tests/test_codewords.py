"""Margins brought to [-1, 1], the learned table of codewords, and the stability of margins."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from scipy.optimize import minimize
from sklearn.datasets import load_digits, load_iris

from outcode import OutputCodeClassifier, codes, loo, theory
from outcode.decoders import LearnedCodewords, LossBased, Normalised
from outcode.decoders.codewords import fixed_table, learned_table
from outcode.machines import SVM

X, Y = load_iris(return_X_y=True)
X = X + 0.5 * np.random.RandomState(0).randn(*X.shape)


# --- margins in [-1, 1] ---


@pytest.mark.parametrize("loss", ["linear", "hinge", "exponential", "logistic", "squared"])
def test_normalised_margins_are_those_over_the_largest_of_their_column(loss):
    clf = OutputCodeClassifier("ovo", SVM(), Normalised(loss)).fit(X, Y)
    f, plain = clf.machine_.training_margins_, LossBased(loss)
    new = clf.margins(3.0 * X[:20])
    expected = np.empty(new.shape)
    for s in range(3):
        largest = max(abs(value) for value in f[:, s])
        for i in range(len(new)):
            expected[i, s] = min(1.0, max(-1.0, new[i, s] / largest))
    plain.code_, plain.loss_ = clf.code_, clf.decoder_.loss_
    np.testing.assert_allclose(clf.decoder_.scores(new), plain.scores(expected), atol=1e-12)


def test_the_bound_covers_normalised_margins_and_slopes_are_derivatives():
    for loss in ("linear", "squared", "logistic"):
        clf = OutputCodeClassifier("ova", SVM(C=5.0, tol=1e-8), Normalised(loss)).fit(X, Y)
        assert loo.bound(clf).error >= loo.exact(clf, X, Y).error
        f, step = clf.margins(X[:7]), 1e-6
        for s in range(3):
            up, down = (clf.decoder_.scores(f + sign * step * np.eye(3)[s]) for sign in (1, -1))
            slopes = clf.decoder_.slopes(f)[:, :, s]
            np.testing.assert_allclose((up - down) / (2 * step), slopes, atol=1e-5)


# --- P(class | codeword) ---


def test_the_fixed_table_is_the_papers_by_enumeration():
    code = codes.code_matrix("ovo", 3)
    words = np.array(list(product([-1, 1], repeat=3)))
    table = fixed_table(words, code)
    for word, row in zip(words, table, strict=True):
        valid = [all(m in (0, o) for m, o in zip(m_q, word, strict=True)) for m_q in code]
        expected = np.array(valid, float) if any(valid) else np.full(3, 1 / 3)
        np.testing.assert_allclose(row, expected / expected.sum())


def test_with_the_papers_table_it_is_equation_2_by_enumeration():
    """sum_k P(Y = q | o_k) prod_s P(O_s = o_ks | f_s) over all 2^S codewords."""
    clf = OutputCodeClassifier("ovo", SVM(), LearnedCodewords(strength=1e12)).fit(X, Y)
    decoder, margins = clf.decoder_, clf.margins(X[:10])
    proba = clf.predict_proba(X[:10])
    for f, row in zip(margins, proba, strict=True):
        expected = np.zeros(3)
        for word in product([-1, 1], repeat=3):
            z = decoder.slope_ * f + decoder.offset_
            chance = np.prod([1 / (1 + np.exp(o * v)) for o, v in zip(word, z, strict=True)])
            expected += chance * fixed_table(np.array([word]), clf.code_)[0]
        np.testing.assert_allclose(row, expected, atol=1e-6)
    paper = clf.with_decoder("likelihood", X)
    assert not np.allclose(paper.predict_proba(X[:10]), proba)  # that one renormalises


def test_the_table_is_the_optimum_of_a_generic_solver():
    rng = np.random.RandomState(1)
    shares = rng.dirichlet(np.ones(4), size=40)
    labels, weight = rng.randint(3, size=40), rng.uniform(0.5, 2.0, size=40)
    prior = 0.5 * np.array([[1, 0, 0], [0, 1, 0], [0, 0, 1], [1 / 3] * 3])
    table, gap = learned_table(shares, labels, weight, prior)

    def value(T):
        likelihood = weight @ np.log((shares @ T)[np.arange(40), labels])
        return likelihood + (prior * np.log(np.maximum(T, 1e-300))).sum()

    def loss(flat):
        logits = flat.reshape(4, 3)
        T = np.exp(logits - logits.max(axis=1, keepdims=True))
        return -value(T / T.sum(axis=1, keepdims=True))

    best = -min(minimize(loss, rng.randn(12), method="BFGS").fun for _ in range(5))
    assert value(table) >= best - gap * weight.sum() - 1e-6
    assert gap <= 1e-4
    np.testing.assert_allclose(table.sum(axis=1), 1.0)


@pytest.mark.parametrize("code", ["ova", "dense"])
def test_probabilities_sum_to_one_and_errors_that_come_together_are_learned(code):
    digits, y = load_digits(return_X_y=True)
    digits, y = digits[:800], y[:800]
    clf = OutputCodeClassifier(code, "svm", "hamming", random_state=0).fit(digits[::2], y[::2])
    learned = clf.with_decoder("codewords", digits[::2])
    proba = learned.predict_proba(digits[1::2])
    np.testing.assert_allclose(proba.sum(axis=1), 1.0)
    np.testing.assert_array_equal(
        learned.classes_[proba.argmax(axis=1)], learned.predict(digits[1::2])
    )
    assert learned.score(digits[1::2], y[1::2]) > clf.score(digits[1::2], y[1::2])
    assert len(learned.decoder_.words_) <= 512


# --- stability ---


@pytest.mark.parametrize("n_classes", [3, 4, 6])
def test_the_stability_of_margins_is_that_of_the_corrected_remarks(n_classes):
    C, kappa = 0.7, 2.0
    ova, ovo = codes.code_matrix("ova", n_classes), codes.code_matrix("ovo", n_classes)
    assert theory.margin_stability(ova, C, kappa).max() == pytest.approx(4 * C * kappa)
    assert theory.margin_stability(ovo, C, kappa).max() == pytest.approx(n_classes * C * kappa)
    dense = codes.code_matrix("dense", n_classes, random_state=0)
    apart = max((a != b).sum() for a in dense for b in dense)
    assert theory.margin_stability(dense, C, kappa).max() == pytest.approx(2 * apart * C * kappa)
    each = theory.margin_stability(ova, np.full(ova.shape[1], C), np.full(ova.shape[1], kappa))
    np.testing.assert_allclose(each, theory.margin_stability(ova, C, kappa))


@pytest.mark.parametrize("code", ["ova", "ovo", "dense"])
def test_no_margin_moves_further_when_its_row_is_left_out(code):
    clf = OutputCodeClassifier(code, SVM(C=0.3, tol=1e-8), "linear", random_state=0)
    clf.fit(X[::3], Y[::3])
    limit = theory.margin_stability(clf.code_, C=0.3, kappa=2.0)  # K(x, x) + 1
    held_out = loo.exact(clf, X[::3], Y[::3]).held_out
    fall = (clf.machine_.training_margins_ - held_out) @ clf.code_.T.astype(float)
    for i, y in enumerate(clf.labels_):
        assert np.all(fall[i, y] - fall[i] <= limit[y] + 1e-6)


def test_stability_of_nonsense():
    with pytest.raises(ValueError, match="code must be"):
        theory.margin_stability([1, -1])
    with pytest.raises(ValueError, match="positive numbers"):
        theory.margin_stability([[1], [-1]], C=-1.0)
