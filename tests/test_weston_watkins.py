"""Weston & Watkins' machine: its blocks, its optimum, its certificate."""

from __future__ import annotations

import clarabel
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse
from scipy.optimize import brentq
from sklearn.datasets import load_iris, make_classification
from sklearn.exceptions import ConvergenceWarning

from outcode import OutputCodeClassifier, load, loo, save
from outcode import gram as grams
from outcode.machines import SVM, WestonWatkins
from outcode.solvers import ww


def dual_value(K, labels, box, k):
    """Return the optimal dual value by a generic interior-point QP over all alpha_ir, r != y_i."""
    n = len(labels)
    pairs = [(i, r) for i in range(n) for r in range(k) if r != labels[i]]
    tau = np.zeros((n * k, len(pairs)))  # tau = T alpha
    for column, (i, r) in enumerate(pairs):
        tau[i * k + r, column] = -1.0
        tau[i * k + labels[i], column] = 1.0
    Q = tau.T @ np.kron(K, np.eye(k)) @ tau
    m = len(pairs)
    P = sparse.csc_matrix(np.triu(Q + 1e-13 * np.eye(m)))
    eye = sparse.identity(m, format="csc")
    upper = np.array([box[i] for i, _ in pairs])
    options = clarabel.DefaultSettings()
    options.verbose = False
    options.tol_gap_abs = options.tol_gap_rel = options.tol_feas = 1e-11
    cones = [clarabel.NonnegativeConeT(2 * m)]
    bounds = np.concatenate([upper, np.zeros(m)])
    A = sparse.vstack([eye, -eye], format="csc")
    return -clarabel.DefaultSolver(P, -np.ones(m), A, bounds, cones, options).solve().obj_val


def made(seed, n=18):
    rng = np.random.default_rng(seed)
    k, d = int(rng.integers(2, 5)), int(rng.integers(1, 5))
    X, labels = rng.normal(size=(n, d)), np.append(np.arange(k), rng.integers(0, k, n - k))
    squares = ((X[:, None] - X[None]) ** 2).sum(axis=2)
    K = X @ X.T if seed % 3 == 0 else np.exp(-rng.uniform(0.05, 2.0) * squares)
    box = 10.0 ** rng.uniform(-1, 1) * rng.choice([0.5, 1.0, 2.0], n)
    return K, labels, box, k


@pytest.mark.parametrize("seed", range(200))
def test_the_optimum_is_that_of_a_generic_solver(seed):
    K, labels, box, k = made(seed)
    shift = float(seed % 2)
    found = ww.solve(grams.given(K), labels, box, k, shift=shift, tol=1e-9)
    assert found.converged
    expected = dual_value(K + shift, labels, box, k)
    assert found.dual_objective == pytest.approx(expected, rel=1e-6)
    assert found.objective == pytest.approx(expected, rel=1e-6)
    assert found.gap < 1e-6
    assert found.tau.sum(axis=1) == pytest.approx(0.0, abs=1e-9)
    assert found.scores == pytest.approx((K + shift) @ found.tau, abs=1e-7)


@settings(deadline=None, max_examples=60)
@given(
    st.lists(st.floats(-5, 5), min_size=1, max_size=8),
    st.floats(0.01, 3),
)
def test_the_sum_of_a_block_by_bisection(values, box):
    v = -np.sort(-np.array(values))

    def lack(s):
        return np.clip(v - s, 0, box).sum() - s

    s = ww.total(v, box)
    expected = brentq(lack, -1e-9, max(v.max(), 0.0) + 1.0, xtol=1e-13) if lack(0.0) > 0 else 0.0
    assert s == pytest.approx(expected, abs=1e-9)


def test_a_block_is_solved_exactly():
    rng = np.random.default_rng(0)
    for _ in range(50):
        k, own = 5, int(rng.integers(5))
        g, box, curvature = rng.normal(size=k), rng.uniform(0.1, 2), rng.uniform(0.1, 3)
        alpha = rng.uniform(0, box, k)
        alpha[own] = 0.0
        out = np.empty(k)
        ww.reduced(g, alpha, own, box, curvature, out)
        change = alpha - out
        change[own] = out.sum() - alpha.sum()
        lack = 1 - (g + curvature * change)[own] + (g + curvature * change)
        others = np.arange(k) != own
        assert np.all(lack[others & (out <= 0)] <= 1e-9)
        assert np.all(lack[others & (out >= box)] >= -1e-9)
        assert lack[others & (out > 0) & (out < box)] == pytest.approx(0.0, abs=1e-9)


def test_two_classes_are_the_support_vector_machine():
    X, y = make_classification(80, 4, random_state=0)
    one = OutputCodeClassifier("ova", WestonWatkins(gamma=0.3, C=0.5, tol=1e-8)).fit(X, y)
    other = OutputCodeClassifier("ova", SVM(gamma=0.3, C=1.0, tol=1e-8)).fit(X, y)
    assert one.margins(X) == pytest.approx(other.margins(X), abs=1e-5)


def test_margins_of_training_rows_and_weights_as_repeats():
    X, y = load_iris(return_X_y=True)
    machine = WestonWatkins(gamma=0.5, tol=1e-8)
    clf = OutputCodeClassifier("ova", machine).fit(X, y)
    assert clf.margins(X) == pytest.approx(clf.machine_.training_margins_, abs=1e-9)
    weight = np.where(np.arange(150) % 7 == 0, 2.0, 1.0)
    twice = np.append(np.arange(150), np.flatnonzero(weight == 2))
    machine = WestonWatkins(gamma=0.5, tol=1e-8)
    weighted = OutputCodeClassifier("ova", machine).fit(X, y, sample_weight=weight)
    repeated = OutputCodeClassifier("ova", machine).fit(X[twice], y[twice])
    assert weighted.margins(X) == pytest.approx(repeated.margins(X), abs=1e-5)


def test_held_out_margins_are_those_of_training_without_the_fold():
    X, y = load_iris(return_X_y=True)
    clf = OutputCodeClassifier("ova", WestonWatkins(gamma=0.5, tol=1e-8), "softmax").fit(X, y)
    margins, fold = clf.rule_.held_out[5]
    for f in range(2):
        rest = fold != f
        alone = OutputCodeClassifier("ova", WestonWatkins(gamma=0.5, tol=1e-8)).fit(
            X[rest], y[rest]
        )
        assert margins[~rest] == pytest.approx(alone.margins(X[~rest]), abs=1e-5)


@pytest.mark.parametrize("bias", ["kernel", "none"])
def test_it_learns_and_its_file_predicts_the_same(bias, tmp_path):
    X, y = load_iris(return_X_y=True)
    clf = OutputCodeClassifier("ova", WestonWatkins(bias=bias, C=10), "softmax")
    clf.fit(X[::2], y[::2])
    assert clf.score(X[1::2], y[1::2]) > 0.93
    save(clf, tmp_path / "m.oc")
    assert np.array_equal(load(tmp_path / "m.oc").predict_proba(X), clf.predict_proba(X))


def test_squares_beyond_the_small_and_threads_give_the_same_model():
    X, y = make_classification(
        900, 6, n_informative=5, n_redundant=0, n_classes=4, class_sep=1.5, random_state=0
    )
    one, two = (
        OutputCodeClassifier("ova", "ww", n_jobs=jobs).fit(X, y).machine_ for jobs in (1, 2)
    )
    assert np.array_equal(one.dual_coef_, two.dual_coef_)
    assert one.gap_ < 5e-3
    with pytest.warns(UserWarning, match="computed on demand"):
        on_demand = OutputCodeClassifier("ova", WestonWatkins(max_memory=1e6)).fit(X, y).machine_
    assert on_demand.objective_ == pytest.approx(one.objective_, rel=5e-3)


def test_what_it_cannot_do_is_said():
    X, y = load_iris(return_X_y=True)
    with pytest.raises(ValueError, match="code='ova'"):
        OutputCodeClassifier("ovo", "ww").fit(X, y)
    with pytest.raises(ValueError, match="Unknown bias 'free'"):
        OutputCodeClassifier("ova", WestonWatkins(bias="free")).fit(X, y)
    with pytest.raises(ValueError, match="C must be a positive"):
        OutputCodeClassifier("ova", WestonWatkins(C=0)).fit(X, y)
    with pytest.warns(ConvergenceWarning, match="stopped early"):
        OutputCodeClassifier("ova", WestonWatkins(max_iter=3)).fit(X, y)
    with pytest.raises(ValueError, match="dual solution"):
        loo.bound(OutputCodeClassifier("ova", "ww").fit(X, y))
