"""The class kernel itself, landmarks, and the PAC-Bayes bound of the single binary problem."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import rel_entr
from scipy.stats import norm
from sklearn.datasets import load_digits, load_iris
from sklearn.svm import SVC

from outcode import OutputCodeClassifier, SingleBinaryClassifier, persistence, theory
from outcode.machines import SVM, OnLandmarks, SingleBinary

X, Y = load_iris(return_X_y=True)


# --- any class kernel ---


def explicit_objective(K_M, rows, y, gamma, C):
    """Eq. 1 on the explicit kernel of all copies, by LIBSVM."""
    K_x = np.exp(-gamma * ((rows[:, None] - rows) ** 2).sum(axis=2))
    K = np.kron(K_x, K_M)
    t = np.where(np.arange(len(K_M)) == y[:, None], 1, -1).ravel()
    machine = SVC(kernel="precomputed", C=C, tol=1e-9).fit(K, t)
    s = np.zeros(len(t))
    s[machine.support_] = machine.dual_coef_[0]
    f = K @ s + machine.intercept_[0]
    return 0.5 * s @ K @ s + C * np.maximum(0.0, 1.0 - t * f).sum()


@pytest.mark.parametrize("C", [0.3, 3.0])
def test_no_other_class_kernel_of_that_trace_is_better(C):
    rows, y, R, gamma = X[::5], Y[::5], 4.0, 0.5
    options = {"C": C, "gamma": gamma, "radius": R, "tol": 1e-6, "kernel_tol": 1e-4}
    clf = SingleBinaryClassifier("direct", max_updates=20_000, **options).fit(rows, y)
    K_M = clf.class_kernel_
    assert np.trace(K_M) == pytest.approx(R)
    assert np.linalg.eigvalsh(K_M)[0] >= 0
    found = explicit_objective(K_M, rows, y, gamma, C)
    assert clf.objective_ == pytest.approx(found, rel=1e-4)
    assert clf.kernel_gap_ <= 1e-4
    rng = np.random.RandomState(0)
    for _ in range(20):
        factor = rng.randn(3, 3)
        other = factor @ factor.T
        mixed = (1 - (share := rng.choice([0.02, 0.2, 1.0]))) * K_M + share * R * other / np.trace(
            other
        )
        assert explicit_objective(mixed, rows, y, gamma, C) >= found * (1 - 2e-4)


def test_it_is_below_every_combination_of_the_papers_basis():
    """Combinations of the unit extensions have kernels of the same trace among all of them."""
    options = {"C": 1.0, "gamma": 0.5}
    some = SingleBinaryClassifier("kernel", radius=4.0, update="alternating", **options).fit(X, Y)
    trace = float(np.trace(some.class_kernel_))
    free = SingleBinaryClassifier("direct", radius=trace, **options).fit(X, Y)
    assert free.objective_ <= some.objective_ * (1 + 1e-3)
    assert len(free.kernel_weights_) == 6  # n of Lemma 4.1: the entries of a 3 x 3 kernel
    assert free.machine_.kernel_bound_ == pytest.approx(trace)
    assert theory.sbc_bound(free, random_state=0).n_kernels == 6


def test_a_direct_kernel_is_saved_and_held_out(tmp_path):
    clf = SingleBinaryClassifier("direct", folds=3).fit(X, Y)
    assert clf.score(X, Y) > 0.95
    persistence.save(clf, tmp_path / "model")
    again = persistence.load(tmp_path / "model")
    np.testing.assert_array_equal(again.predict_proba(X), clf.predict_proba(X))
    with pytest.warns(UserWarning, match=r"stopped early after 1 updates.*gap to the minimum"):
        SingleBinaryClassifier("direct", max_updates=1, kernel_tol=1e-6).fit(X, Y)


# --- landmarks ---


@pytest.mark.parametrize("inner", [SingleBinary("direct", C=5.0), SVM(C=5.0, tol=1e-6)])
def test_with_all_rows_as_landmarks_it_is_the_machine_itself(inner):
    rows, y = X[::2], Y[::2]
    whole = OutputCodeClassifier("ova", inner.set_params(gamma=0.5), "linear").fit(rows, y)
    machine = OnLandmarks(inner, 75, gamma=0.5)
    few = OutputCodeClassifier("ova", machine, "linear").fit(rows, y)
    np.testing.assert_allclose(few.margins(X), whole.margins(X), atol=0.05)
    np.testing.assert_allclose(few.machine_.training_margins_, few.margins(rows), atol=1e-6)


def test_features_are_the_kernel_projected_on_the_landmarks():
    machine = OnLandmarks(SVM(), 20, gamma=0.3).fit(X, np.where(Y == 0, 1, -1)[:, None])
    Z = machine.features(X)
    assert Z.shape == (150, 20)
    L = machine.landmarks_.values + machine.origin_
    K = np.exp(-0.3 * ((X[:, None] - L) ** 2).sum(axis=2))
    inside = np.exp(-0.3 * ((L[:, None] - L) ** 2).sum(axis=2))
    np.testing.assert_allclose(Z @ Z.T, K @ np.linalg.solve(inside, K.T), atol=1e-5)


def test_landmarks_come_close_and_are_saved(tmp_path):
    digits, y = load_digits(return_X_y=True)
    machine = OnLandmarks(SingleBinary("direct", kernel_tol=0.01), 200)
    clf = OutputCodeClassifier("ova", machine, "linear").fit(digits[::2], y[::2])
    assert clf.score(digits[1::2], y[1::2]) > 0.97
    assert clf.machine_.machine_.class_kernel_.shape == (10, 10)
    persistence.save(clf, tmp_path / "model")
    again = persistence.load(tmp_path / "model")
    np.testing.assert_array_equal(again.margins(digits[:50]), clf.margins(digits[:50]))
    again = persistence.save(again, tmp_path / "model")
    with pytest.raises(ValueError, match="no rows for landmarks"):
        OnLandmarks(kernel="precomputed").fit(np.eye(3), np.array([[1], [-1], [1]]))


# --- the PAC-Bayes bound ---


def test_the_divergence_is_inverted():
    for error in (0.0, 0.1, 0.7):
        for room in (1e-3, 0.1, 2.0):
            q = theory.kl_inverse(error, room)
            assert q >= error
            kl = rel_entr(error, q) + rel_entr(1 - error, 1 - q)
            assert kl == pytest.approx(room, rel=1e-5) or q == 1.0


def linear_problem(seed, n, c=3):
    rng = np.random.RandomState(seed)
    y = rng.randint(c, size=n)
    centres = 2.5 * np.random.RandomState(0).randn(c, 2)
    return centres[y] + rng.randn(n, 2), y


def test_drawn_machines_err_no_more_often_than_the_bound_says():
    """Machines drawn around w in the explicit space of x (x) e_r, M = I and a linear kernel."""
    rows, y = linear_problem(1, 200)
    options = {"kernel": "linear", "class_kernel": "linear", "tol": 1e-6}
    clf = SingleBinaryClassifier("identity", **options).fit(rows, y)
    found = theory.pac_bayes_bound(clf)
    W = clf.dual_coef_.T @ rows  # one vector per class
    np.testing.assert_allclose(rows @ W.T, clf.training_margins_ - clf.bias_, atol=1e-6)
    rng = np.random.RandomState(0)
    drawn = found.length * W / np.linalg.norm(W) + rng.randn(4000, 3, 2)
    errors = np.mean([np.mean(np.argmax(rows @ V.T, axis=1) != y) for V in drawn])
    assert errors <= found.drawn_error + 0.005
    leads = theory.pair_leads(clf)
    for i in range(0, 200, 37):
        for r in range(3):
            if r != y[i]:
                difference = np.zeros((3, 2))
                difference[y[i]], difference[r] = rows[i], -rows[i]
                size = np.linalg.norm(W) * np.linalg.norm(difference)
                assert leads[i, r] == pytest.approx((W * difference).sum() / size, abs=1e-6)
    by_hand = np.minimum(1.0, norm.cdf(-found.length * leads).sum(axis=1)).mean()
    assert found.drawn_error == pytest.approx(by_hand)


def test_the_bound_holds_on_new_rows_and_says_something():
    new, wanted = linear_problem(99, 20_000)
    bounds = []
    for seed in range(5):
        rows, y = linear_problem(seed, 3000)
        options = {"kernel": "linear", "class_kernel": "linear", "C": 0.01}
        clf = SingleBinaryClassifier("identity", **options).fit(rows, y)
        found = theory.pac_bayes_bound(clf)
        h = clf.decision_function(new)
        assert np.mean(np.argmax(h, axis=1) != wanted) <= found.bound
        assert found.bound < theory.sbc_bound(clf, diagonal=100.0, random_state=0).bound
        bounds.append(found.bound)
    assert np.mean(bounds) < 0.6  # unlike Lemma 4.1 it is no empty statement here


def test_learned_kernels_are_refused():
    for extension in ("kernel", "direct"):
        clf = SingleBinaryClassifier(extension).fit(X, Y)
        with pytest.raises(ValueError, match="one class kernel that was not learned"):
            theory.pac_bayes_bound(clf)
