"""Shares of variance that features explain, and sums of kernels of scaled features."""

from __future__ import annotations

import numpy as np
from scipy import sparse

from outcode import OutputCodeClassifier, load, save
from outcode.machines import SVM, LeastSquares
from outcode.selection import shares
from outcode.selection.shares import feature_scale


def rows(n=120, d=4, seed=0):
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 3, n)
    X = rng.normal(size=(n, d))
    X[:, 0] += 2.0 * y
    return X, y


def slow_share(x, y, bins):
    """R^2 of the class indicators given the bin, adjusted, by its definition."""
    H = np.eye(3)[y]
    fitted = np.array([H[bins == b].mean(axis=0) for b in bins])
    r2 = 1.0 - ((H - fitted) ** 2).sum() / ((H - H.mean(axis=0)) ** 2).sum()
    return 1.0 - (1.0 - r2) * (len(y) - 1) / (len(y) - len(set(bins.tolist())))


def test_shares_are_what_they_are_defined_to_be():
    X, y = rows()
    found, _ = shares._shares(X, np.eye(3)[y], np.ones(len(y)))
    order = X.argsort(axis=0).argsort(axis=0)
    bins = order * shares.BINS // len(y)
    expected = [slow_share(X[:, j], y, bins[:, j]) for j in range(4)]
    np.testing.assert_allclose(found, expected, atol=1e-12)


def test_a_weight_of_two_equals_a_repeated_row_and_ties_stay_together():
    X, y = rows()
    X[:, 1] = np.round(X[:, 1])
    weight = np.ones(len(y))
    weight[:30], weight[90:] = 2.0, 0.0
    twice = np.r_[np.arange(90), np.arange(30)]
    found = feature_scale(X, y, weight)
    np.testing.assert_allclose(found, feature_scale(X[twice], y[twice], np.ones(120)))
    np.testing.assert_allclose(found, feature_scale(sparse.csr_matrix(X), y, weight))


def test_noise_alone_gives_equal_factors():
    rng = np.random.default_rng(1)
    found = feature_scale(rng.normal(size=(40, 500)), rng.integers(0, 4, 40), np.ones(40))
    assert found.max() < 2.5
    assert np.median(found) > 0.8


MIXTURE = "0.5 rbf(0.1) + 0.5 laplacian(0.2)"


def test_a_sum_of_kernels_scales_the_features_of_all_terms(tmp_path):
    X, y = rows()
    scale = np.array([2.0, 0.5, 0.0, 1.0])
    clf = OutputCodeClassifier("ova", LeastSquares(MIXTURE, scale), "softmax").fit(X, y)
    other = OutputCodeClassifier("ova", LeastSquares(MIXTURE), "softmax").fit(X * scale, y)
    np.testing.assert_allclose(clf.margins(X), other.margins(X * scale), atol=1e-8)
    save(clf, tmp_path / "model.outcode")
    np.testing.assert_array_equal(load(tmp_path / "model.outcode").margins(X), clf.margins(X))


def test_a_sum_of_kernels_has_gradients():
    X, y = rows()
    machine = SVM(MIXTURE, [2.0, 0.5, 0.0, 1.0])
    fitted = OutputCodeClassifier("ova", machine).fit(X, y).machine_
    step = 1e-5 * np.eye(4)
    slow = [(fitted.margins(X[:1] + h) - fitted.margins(X[:1] - h))[0] / 2e-5 for h in step]
    np.testing.assert_allclose(fitted.gradients(X[:1])[0].T, slow, atol=1e-5)
