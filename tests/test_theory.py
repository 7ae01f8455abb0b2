"""The bounds against their definitions. [CS02] Section 7, [EPY08] Section 4"""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import minimize
from sklearn.metrics.pairwise import linear_kernel, rbf_kernel
from sklearn.svm import SVC

from outcode import theory
from outcode.classifier import SPOC, SingleBinaryClassifier


def separable(seed=0, n=60, k=3):
    rng = np.random.RandomState(seed)
    labels = np.arange(n) % k
    angle = 2 * np.pi * labels / k
    X = 4 * np.column_stack([np.cos(angle), np.sin(angle)]) + 0.4 * rng.randn(n, 2)
    return X, labels


def fitted(k=3):
    X, labels = separable(k=k)
    return X, labels, SPOC("linear", beta=1e-3, tol=1e-7, folds=None).fit(X, labels)


@pytest.mark.parametrize("k", [2, 3, 5])
def test_margins_and_their_bound(k):
    X, labels, clf = fitted(k)
    found = theory.bounds(clf, X @ X.T)
    D = 0.0
    for r in range(k):
        for s in range(r + 1, k):
            w = clf.coef_[r] - clf.coef_[s]
            rows = X[(labels == r) | (labels == s)]
            gamma = np.abs(rows @ w).min() / np.linalg.norm(w)
            assert found.pair_margins[r, s] == pytest.approx(gamma, rel=1e-5)
            assert found.pair_margins[s, r] == found.pair_margins[r, s]
            D += 1 / gamma**2
    assert found.inverse_margins == pytest.approx(D, rel=1e-5)
    assert found.norm_bound >= D * (1 - 1e-9)  # Eq. 58
    assert found.norm_bound == pytest.approx(k * (clf.coef_**2).sum(), rel=1e-3)  # leads are 1
    assert found.ddag <= found.matrix * (1 + 1e-9)


def test_the_numbers_are_the_formulas():
    X, _, clf = fitted()
    found = theory.bounds(clf, X @ X.T, delta=0.1)
    R = np.linalg.norm(X, axis=1).max()
    assert found.radius == pytest.approx(R)
    m, M2 = 60, (clf.coef_**2).sum()
    logs = np.log(4 * np.e * m) * np.log(4 * m)
    cor2 = 130 * R**2 / m * (3 * M2 * logs + np.log(2 * (2.0 * m) ** 3 / 0.1))
    assert found.matrix == pytest.approx(cor2, rel=1e-3)
    for r in range(3):
        own = 3 * (clf.coef_[r] ** 2).sum() + M2
        cor3 = 130 * R**2 / m * (own * logs + np.log(2 * (2.0 * m) ** 2 / 0.1))
        assert found.classes[r] <= cor3 * 1.001
    assert found.classes.max() <= found.matrix * 3


def test_many_classes_do_not_overflow():
    assert np.isfinite(theory.ddag_bound(1.0, 1.0, 10**6, 200 * 199 // 2, 0.05))


def test_a_row_on_the_wrong_side_leaves_no_bound():
    X, labels = separable()
    labels = labels.copy()
    labels[0] = 1
    clf = SPOC("linear", folds=None).fit(X, labels)
    found = theory.bounds(clf, X @ X.T)
    assert found.ddag == found.matrix == found.inverse_margins == np.inf


def test_the_smallest_ball():
    rng = np.random.RandomState(0)
    for d in (1, 2, 5):
        X = rng.randn(40, d) + 10.0
        radius = theory.enclosing_radius(X @ X.T, tol=1e-8)
        assert radius <= np.linalg.norm(X - X.mean(axis=0), axis=1).max() + 1e-9
        far = max(np.linalg.norm(a - b) for a in X for b in X)
        assert far / 2 - 1e-9 <= radius <= far / np.sqrt(2) + 1e-9  # Jung
        if d == 1:
            assert radius == pytest.approx(far / 2)
    corners = np.array([[0.0, 0.0], [2.0, 0.0], [1.0, np.sqrt(3.0)]])
    assert theory.enclosing_radius(corners @ corners.T) == pytest.approx(2 / np.sqrt(3), rel=1e-5)
    assert theory.enclosing_radius(np.ones((3, 3))) == 0.0


def test_ways_to_give_the_radius():
    X, _, clf = fitted()
    ball = theory.bounds(clf, X @ X.T, radius="ball")
    origin = theory.bounds(clf, X @ X.T)
    given = theory.bounds(clf, radius=7.0)
    assert ball.radius <= origin.radius
    assert given.radius == 7.0
    assert given.matrix / origin.matrix == pytest.approx((7.0 / origin.radius) ** 2)


def test_bad_input_is_named():
    X, _, clf = fitted()
    with pytest.raises(ValueError, match="give K"):
        theory.bounds(clf)
    with pytest.raises(ValueError, match="delta"):
        theory.bounds(clf, X @ X.T, delta=1.5)
    with pytest.raises(ValueError, match="Unknown radius"):
        theory.bounds(clf, X @ X.T, radius="sphere")
    with pytest.raises(Exception, match="not fitted"):
        theory.bounds(SPOC(), X @ X.T)


def test_two_classes_have_the_binary_margin():
    X, labels, clf = fitted(2)
    svc = SVC(kernel="linear", C=1e6).fit(np.vstack([X, -X]), np.append(labels, 1 - labels))
    found = theory.bounds(clf, X @ X.T)
    assert found.pair_margins[0, 1] == pytest.approx(1 / np.linalg.norm(svc.coef_), rel=1e-3)


# --- one binary problem ---


def test_the_slack_is_the_formula():
    m, R, n, gamma, delta = 5_000_000, 1.5, 3, 0.9, 0.1
    Q = 8 / m * (
        2
        + 256 * R / gamma**2
        * np.log(gamma * np.e * m / (8 * np.sqrt(R))) * np.log(128 * m * R / gamma**2)
        - np.log(delta)
        + n * np.log(128 * np.e * float(m) ** 3 * R / (gamma**2 * n))
    )  # fmt: skip
    assert theory.learned_kernel_slack(m, R, n, gamma, delta) == pytest.approx(np.sqrt(Q))
    slacks = [theory.learned_kernel_slack(m, 1.0, 1, g, 0.05) for g in (1.0, 0.5, 0.1)]
    assert slacks == sorted(slacks)  # a smaller margin costs more
    assert theory.learned_kernel_slack(10, 1.0, 1, 0.01, 0.05) == np.inf


@pytest.mark.parametrize(("extension", "n"), [("kernel", 3), ("identity", 1)])
def test_the_bound_of_a_machine_by_hand(extension, n):
    X, y = separable()
    clf = SingleBinaryClassifier(extension, gamma=0.3, C=10, tol=1e-8).fit(X, y)
    K = np.kron(rbf_kernel(X, gamma=0.3), clf.class_kernel_)
    s = clf.dual_coef_.ravel()
    targets = np.where(np.arange(3) == y[:, None], 1, -1)
    margins = (targets.ravel() * (K @ s) / np.sqrt(s @ K @ s)).reshape(-1, 3)
    np.testing.assert_allclose(theory.normalised_margins(clf), margins, atol=1e-8)
    gamma = float(np.quantile(margins, 0.4))
    found = theory.sbc_bound(clf, margin=gamma, delta=0.1, random_state=3)
    drawn = np.random.RandomState(3).randint(3, size=len(y))
    error = np.mean([margins[i, drawn[i]] < gamma for i in range(len(y))])
    R = np.sqrt(len(y)) if n > 1 else 1.0
    assert (found.n_kernels, found.radius) == (n, pytest.approx(R))
    assert found.margin_error == error
    assert 0 < error < 1  # the margin cuts between the copies
    slack = theory.learned_kernel_slack(len(y), R, n, gamma, 0.1)
    assert found.bound == pytest.approx(3 * error + 3 * slack)


def test_the_kernel_bound_is_the_largest_value_of_the_family():
    X, y = separable()
    basis = np.stack([np.diag([4.0, 1.0, 1.0]), np.eye(3)])
    options = {"class_kernel": "precomputed", "radius": 5.0, "gamma": 0.3}
    clf = SingleBinaryClassifier(basis, **options).fit(X, y)
    assert clf.kernel_bound_ == pytest.approx(20.0)
    assert clf.class_kernel_.max() <= clf.kernel_bound_
    assert theory.sbc_bound(clf, random_state=0).radius == pytest.approx(20.0)


def test_multiclass_errors_are_at_most_the_binary_ones():
    # Eq. A.1, over all copies instead of one each, on data that are not separable
    rng = np.random.RandomState(0)
    X, y = separable(n=150)
    X = X + 2.5 * rng.randn(*X.shape)
    clf = SingleBinaryClassifier("identity", gamma=0.05, C=0.3).fit(X, y)
    wrong = np.mean(clf.predict(X) != y)
    binary = 3 * np.mean(theory.normalised_margins(clf) <= 0)
    assert 0.05 < wrong <= binary


def test_the_best_margin_pays_for_the_choice():
    X, y = separable()
    clf = SingleBinaryClassifier("identity", gamma=0.3, C=10).fit(X, y)
    best = theory.sbc_bound(clf, delta=0.05, random_state=0)
    same = theory.sbc_bound(clf, margin=best.margin, delta=0.05, random_state=0)
    assert same.bound < best.bound
    for j in range(10):
        one = theory.sbc_bound(clf, margin=0.5**j, delta=0.05 / ((j + 1) * (j + 2)), random_state=0)
        assert best.bound <= one.bound + 1e-12


def test_the_bound_is_empty_below_two_million_rows():
    # the best case of all: two classes, one kernel, every margin sqrt(R), delta almost 1
    slack = [2 * theory.learned_kernel_slack(m, 1.0, 1, 1.0, 0.99) for m in (2 * 10**6, 10**7)]
    assert slack[1] < 1 < slack[0]
    assert 3 * theory.learned_kernel_slack(5 * 10**6, 1.0, 1, 1.0, 0.99) > 1


def test_what_the_bound_cannot_do_is_said():
    X, y = separable()
    ecoc = SingleBinaryClassifier("ecoc").fit(X, y)
    with pytest.raises(ValueError, match="ecoc"):
        theory.sbc_bound(ecoc)
    linear = SingleBinaryClassifier("identity", "linear").fit(X, y)
    with pytest.raises(ValueError, match="give diagonal"):
        theory.sbc_bound(linear)
    largest = float(linear_kernel(X).max())
    assert theory.sbc_bound(linear, diagonal=largest, random_state=0).radius == largest
    with pytest.raises(ValueError, match="delta"):
        theory.sbc_bound(linear, diagonal=largest, margin=1.0, delta=0.0)
    with pytest.raises(ValueError, match="margin"):
        theory.sbc_bound(linear, diagonal=largest, margin=-1.0)
    with pytest.raises(Exception, match="not fitted"):
        theory.sbc_bound(SingleBinaryClassifier())


def sbc_risk(f, p):
    return np.sum((1 - p) * np.maximum(0, 1 + f) + p * np.maximum(0, 1 - f))  # Eq. B.2


def test_the_condition_of_consistency():
    rng = np.random.RandomState(0)
    for _ in range(50):
        p = rng.dirichlet(np.ones(4))
        margin = theory.consistency_margin([p])
        best = min(
            (np.array(f) for f in np.ndindex(2, 2, 2, 2)), key=lambda f: sbc_risk(2 * f - 1, p)
        )
        assert (best.sum() == 1) == (margin > 0)
        if margin > 0:
            assert best.argmax() == p.argmax()
            low = minimize(sbc_risk, np.zeros(4), args=(p,), method="Powell").fun
            assert sbc_risk(2 * best - 1, p) <= low + 1e-6  # nothing between the corners is lower
    assert theory.consistency_margin([[0.5, 0.5], [1.0, 0.0]]) == 0.0
    with pytest.raises(ValueError, match="sum to 1"):
        theory.consistency_margin([[0.5, 0.6]])
