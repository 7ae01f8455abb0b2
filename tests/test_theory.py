"""The bounds of Section 7 against their definitions. [CS02]"""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.svm import SVC

from outcode import theory
from outcode.spoc import SPOC


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
