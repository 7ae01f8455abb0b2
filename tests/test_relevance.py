"""A gamma per feature: kernels, the smoothed bound, its gradient, and the search that uses it."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.datasets import load_iris, load_wine
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import scale

from oracles import kernel_matrix
from outcode import OutputCodeClassifier, loo, persistence
from outcode.machines import SVM, PerColumn
from outcode.selection import LOOBoundSearch, RelevanceSearch, smooth_bound

GAMMAS = np.array([0.3, 0.2, 0.5, 0.4, 0.1, 0.0])


def noisy_iris(n_noise=2, spread=0.3, step=2):
    X, y = load_iris(return_X_y=True)
    rng = np.random.RandomState(0)
    X = np.hstack([X + spread * rng.randn(*X.shape), rng.randn(len(X), n_noise)])
    return X[::step], y[::step]


def fitted(code, decoder, gammas, **options):
    X, y = noisy_iris()
    svm = SVM(gamma=gammas, tol=1e-11, **{"C": 2.0, **options})
    return OutputCodeClassifier(code, svm, decoder).fit(X, y), X


# --- kernels ---


@pytest.mark.parametrize(
    ("name", "power"),
    [("rbf", 0.5), ("laplacian", 1.0), ("exponential", 1.0), ("poly", 0.5), ("sigmoid", 0.5)],
)
def test_a_gamma_per_feature_is_a_scale_per_feature(name, power, tmp_path):
    X, y = noisy_iris()
    svm = SVM(name, gamma=GAMMAS, degree=2, coef0=0.5)
    gram = svm.gram(X, np.where(y == 0, 1, -1)[:, None])
    Z = X * GAMMAS**power
    expected = kernel_matrix(name, Z, Z, gamma=1.0, degree=2, coef0=0.5)
    everything = np.arange(len(X))
    np.testing.assert_allclose(gram.between(everything, everything), expected, atol=1e-9)


def test_a_model_with_gammas_is_saved_explained_and_takes_sparse_rows(tmp_path):
    clf, X = fitted("ova", "linear", GAMMAS)
    scaled = OutputCodeClassifier("ova", SVM(gamma=1.0, tol=1e-11, C=2.0), "linear")
    scaled.fit(X * np.sqrt(GAMMAS), clf.classes_[clf.labels_])
    np.testing.assert_allclose(clf.margins(X), scaled.margins(X * np.sqrt(GAMMAS)), atol=1e-7)
    inner = scaled.machine_.gradients(X[:3] * np.sqrt(GAMMAS)) * np.sqrt(GAMMAS)
    np.testing.assert_allclose(clf.machine_.gradients(X[:3]), inner, atol=1e-7)
    persistence.save(clf, tmp_path / "model")
    again = persistence.load(tmp_path / "model")
    np.testing.assert_array_equal(again.margins(X), clf.margins(X))
    rows = clone(clf).fit(sparse.csr_matrix(X), clf.labels_)
    np.testing.assert_allclose(rows.margins(sparse.csr_matrix(X)), clf.margins(X), atol=1e-6)


@pytest.mark.parametrize("gamma", [np.ones(3), -GAMMAS, np.zeros(6), GAMMAS[None], [np.nan] * 6])
def test_gammas_that_are_none(gamma):
    X, y = noisy_iris()
    with pytest.raises(ValueError, match="one number >= 0 for each of the 6 features"):
        OutputCodeClassifier("ova", SVM(gamma=gamma)).fit(X, y)


# --- the smoothed bound ---


@pytest.mark.parametrize("bias", ["kernel", "none"])
@pytest.mark.parametrize("decoder", ["linear", "logistic", "hinge", "likelihood"])
@pytest.mark.parametrize("code", ["ova", "ovo"])
def test_the_gradient_is_that_of_finite_differences(code, decoder, bias):
    """Machines are trained again at gamma +- 1e-6; what the decoder learned is held."""
    clf, X = fitted(code, decoder, GAMMAS, bias=bias)
    found, step = smooth_bound(clf, X), 1e-6
    numeric = np.zeros(6)
    for d in range(6):
        low = 0.0 if GAMMAS[d] == 0 else -step  # a gamma of 0 has one side only
        for change, sign in ((step, 1.0), (low, -1.0)):
            other, _ = fitted(code, decoder, GAMMAS + change * (np.arange(6) == d), bias=bias)
            for name in ("slope_", "offset_"):
                if decoder == "likelihood":
                    setattr(other.decoder_, name, getattr(clf.decoder_, name))
            numeric[d] += sign * smooth_bound(other, X).error / (step - low)
    size = np.abs(found.gradient).max()
    np.testing.assert_allclose(numeric[:5], found.gradient[:5], atol=1e-6 * size)
    np.testing.assert_allclose(numeric[5], found.gradient[5], atol=1e-3 * size)


def test_the_smoothed_bound_by_loops():
    clf, X = fitted("ovo", "linear", GAMMAS)
    machine, T, total = clf.machine_, 0.7, 0.0
    for i, y in enumerate(clf.labels_):
        F = machine.training_margins_[i] - machine.dual_coef_[i] * 2.0  # G_ii = K_ii + 1
        power = [np.exp(sum(m * f for m, f in zip(row, F, strict=True)) / T) for row in clf.code_]
        total += 1.0 - power[y] / sum(power)
    assert smooth_bound(clf, X, softness=T).error == pytest.approx(total / len(X), rel=1e-10)


def test_the_smoothed_bound_tends_to_the_bound_and_twice_it_is_one():
    clf, X = fitted("ova", "linear", GAMMAS)
    bound = loo.bound(clf).error
    for softness in (3.0, 1.0, 0.1):
        assert 2.0 * smooth_bound(clf, X, softness=softness).error >= bound
    assert smooth_bound(clf, X, softness=1e-6).error == pytest.approx(bound, abs=1e-6)


def test_smoothed_bounds_that_cannot_be():
    X, y = noisy_iris()
    for machine, decoder, words in (
        (SVM(bias="free"), "linear", "free bias"),
        (SVM("linear"), "linear", "derivatives by the gamma of each feature.*use kernel='rbf'"),
        (SVM(), "hamming", "Hamming has no slopes"),
        (SVM(), "squared", "non-increasing"),
        ("ls", "linear", "can be followed when a row is left out"),
        (PerColumn(), "linear", "one kernel for all columns"),
    ):
        clf = OutputCodeClassifier("ova", machine, decoder).fit(X, y)
        with pytest.raises(ValueError, match=words):
            smooth_bound(clf, X)
    with pytest.raises(ValueError, match="one kernel for all columns"):
        RelevanceSearch(OutputCodeClassifier("ova", PerColumn(), "linear")).fit(X, y)
    with pytest.raises(ValueError, match="sparsity must be"):
        RelevanceSearch(OutputCodeClassifier(decoder="linear"), sparsity=-1.0).fit(X, y)


# --- the search ---


@pytest.mark.parametrize(("data", "informative"), [(load_iris, [2, 3]), (load_wine, [9, 12])])
@pytest.mark.parametrize(("code", "decoder"), [("ova", "linear"), ("ovo", "likelihood")])
def test_noise_features_are_found(data, informative, code, decoder):
    """Eight columns of noise beside the features of a data set: their gammas end near 0."""
    X, y = data(return_X_y=True)
    n_own = X.shape[1]
    noise = np.random.RandomState(0).randn(len(X), 8)
    search = RelevanceSearch(OutputCodeClassifier(code, "svm", decoder))
    search.fit(scale(np.hstack([X, noise])), y)
    assert search.relevance_[n_own:].max() < 0.15
    assert np.count_nonzero(search.support_[n_own:]) <= 1
    assert search.relevance_[informative].min() > 0.4
    first = {name: values[0] for name, values in search.results_.items()}
    best = {name: values[search.best_index_] for name, values in search.results_.items()}
    assert best["smooth"] < 0.6 * first["smooth"]
    assert best["bound"] < 0.6 * first["bound"]
    np.testing.assert_array_equal(search.best_estimator_.machine.gamma, best["gamma"])


def test_new_rows_gain_by_it():
    X, y = load_iris(return_X_y=True)
    X = scale(np.hstack([X, np.random.RandomState(0).randn(len(X), 12)]))
    Z, new, y, wanted = train_test_split(X, y, test_size=0.5, random_state=0, stratify=y)
    clf = OutputCodeClassifier("ova", SVM(), "linear")
    plain, weighted = LOOBoundSearch(clf).fit(Z, y), RelevanceSearch(clf).fit(Z, y)
    errors = [float(np.mean(search.predict(new) != wanted)) for search in (plain, weighted)]
    assert errors[1] < errors[0]
    weighted.plot()
    assert np.array_equal(clone(weighted).fit(Z, y).relevance_, weighted.relevance_)
