"""SPOC against generic quadratic programs, the binary machine and its own definition. [CS02]"""

from __future__ import annotations

import clarabel
import numpy as np
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.datasets import load_iris
from sklearn.exceptions import ConvergenceWarning

import oracles
from outcode import dichotomies, kernels
from outcode import gram as grams
from outcode.classifier import SPOC
from outcode.decoders.likelihood import fit_temperature
from outcode.machines import SVM, CrammerSinger
from outcode.solvers import spoc as solver


def quadratic_program(P, q, A, b, equalities):
    """Solve min 1/2 x'Px + q'x s.t. the first rows of Ax = b and the others Ax <= b."""
    settings = clarabel.DefaultSettings()
    settings.verbose = False
    settings.tol_gap_abs = settings.tol_gap_rel = settings.tol_feas = 1e-12
    cones = [clarabel.ZeroConeT(equalities), clarabel.NonnegativeConeT(len(b) - equalities)]
    P, A = sparse.csc_matrix(sparse.triu(P)), sparse.csc_matrix(A)
    solution = clarabel.DefaultSolver(P, q, A, np.asarray(b, float), cones, settings).solve()
    return np.array(solution.x), solution.obj_val


def spoc_by_qp(K, labels, k, beta, mass):
    """Eq. 25 as it stands, eta as one long vector; returns tau and the optimal dual value."""
    n = len(labels)
    own = np.zeros((n, k))
    own[np.arange(n), labels] = mass
    P = np.kron(K / beta, np.eye(k))
    q = -P @ own.ravel() - (1.0 - (own > 0)).ravel()  # max of -1/2 tau'P tau + eta.b
    constant = 0.5 * own.ravel() @ P @ own.ravel()
    A = sparse.vstack([sparse.kron(sparse.identity(n), np.ones((1, k))), -sparse.identity(n * k)])
    eta, value = quadratic_program(P, q, A, np.concatenate([mass, np.zeros(n * k)]), n)
    return own - eta.reshape(n, k), -(value + constant)


def figure_3(D):
    """The algorithm of Figure 3, line by line; returns nu and theta."""
    order = np.argsort(-D, kind="stable")
    values = np.append(D[order], -np.inf)
    r, phi = 0, [None, 1.0]
    while phi[r + 1] > 0:
        r += 1
        phi.append(phi[r] - r * (values[r - 1] - values[r]))
    theta = values[r - 1] - phi[r] / r
    nu = D.copy()
    nu[order[:r]] = theta
    return nu, theta


def problem(seed, n=40, k=4, d=3):
    rng = np.random.RandomState(seed)
    labels = np.concatenate([np.arange(k), rng.randint(k, size=n - k)])
    return rng.randn(n, d) + 0.7 * rng.randn(k, d)[labels], labels


def rbf(X, Z=None, gamma=0.5):
    return oracles.kernel_matrix("rbf", X, X if Z is None else Z, gamma=gamma)


# --- the reduced problem ---


def test_the_example_of_figures_1_to_3():
    D = np.array([1.0, 0.2, 0.6, 0.8, 0.6])
    assert solver.threshold(D, 1.0) == pytest.approx(0.5, abs=1e-15)
    np.testing.assert_allclose(figure_3(D)[0], [0.5, 0.2, 0.5, 0.5, 0.5], atol=1e-15)
    assert np.minimum(D, 0.5).sum() == pytest.approx(2.2)  # F(theta) of Figure 2


def test_the_reduced_problem_equals_a_generic_qp_on_1000_vectors():
    rng = np.random.RandomState(0)
    for case in range(1000):
        k = [2, 3, 5, 10, 30, 200][case % 6] if case % 60 < 6 else rng.randint(2, 30)
        D = rng.randn(k) * 10.0 ** rng.uniform(-2, 1)
        if case % 4 == 0:
            D = np.round(D, 1)  # ties
        nu = np.minimum(D, solver.threshold(D, 1.0))
        np.testing.assert_allclose(nu, figure_3(D)[0], rtol=0, atol=1e-12)
        A = sparse.vstack([np.ones((1, k)), sparse.identity(k)])
        b = np.concatenate([[D.sum() - 1.0], D])
        _, value = quadratic_program(sparse.identity(k), np.zeros(k), A, b, 1)
        assert nu.sum() == pytest.approx(D.sum() - 1.0, abs=1e-10)
        assert 0.5 * nu @ nu == pytest.approx(value, rel=1e-10, abs=1e-10)


def test_the_reduced_problem_is_the_maximum_of_eq_37():
    rng = np.random.RandomState(1)
    for _ in range(50):
        k, A, mass = rng.randint(2, 8), rng.rand() + 0.1, rng.rand() + 0.5
        y, eta, g, out = rng.randint(k), rng.dirichlet(np.ones(k)) * mass, rng.randn(k), np.empty(k)
        solver.reduced(g, eta, mass, A, out)
        tau = mass * np.eye(k)[y] - eta
        B = g - A * tau
        program = sparse.identity(k) * A
        bounds = sparse.vstack([np.ones((1, k)), sparse.identity(k)])
        x, _ = quadratic_program(program, B, bounds, np.append(0.0, mass * np.eye(k)[y]), 1)
        np.testing.assert_allclose(mass * np.eye(k)[y] - out, x, atol=1e-7)


def test_a_flat_reduced_problem_puts_all_mass_on_the_largest():
    out = np.empty(3)
    solver.reduced(np.array([0.1, 2.0, 1.0]), np.array([1.0, 0.0, 0.0]), 1.5, 0.0, out)
    assert out.tolist() == [0.0, 1.5, 0.0]


# --- the optimum ---


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("beta", [0.05, 1.0])
def test_the_objective_equals_a_generic_qp(seed, weighted, beta):
    X, labels = problem(seed, n=30)
    weight = np.random.RandomState(seed).rand(30) + 0.2 if weighted else np.ones(30)
    clf = SPOC(gamma=0.5, beta=beta, tol=1e-9, folds=None).fit(X, labels, weight)
    tau, value = spoc_by_qp(rbf(X), labels, 4, beta, weight)
    assert clf.objective_ == pytest.approx(value, rel=1e-6)
    assert clf.dual_objective_ == pytest.approx(value, rel=1e-6)
    # tau need not be unique, M is: compare what it says of new rows (Eq. 30)
    Z = np.random.RandomState(9).randn(20, 3)
    np.testing.assert_allclose(clf.decision_function(Z), rbf(Z, X) @ tau / beta, atol=1e-4)


@pytest.mark.parametrize("kernel", ["rbf", "linear", "poly", "laplacian"])
@pytest.mark.parametrize("bias", ["none", "kernel"])
def test_the_certificate_is_what_the_definitions_say(kernel, bias):
    X, labels = problem(4, n=60)
    clf = SPOC(kernel, 0.5, beta=0.3, bias=bias, tol=1e-6, folds=None).fit(X, labels)
    K = oracles.kernel_matrix(kernel, X, X, gamma=0.5) + (bias == "kernel")
    scores = K @ clf.tau_ / 0.3
    np.testing.assert_allclose(clf.training_margins_, scores, atol=1e-8)
    np.testing.assert_allclose(clf.decision_function(X), scores, atol=1e-8)
    norm2 = np.einsum("ir,ij,jr->r", clf.tau_, K, clf.tau_) / 0.09
    np.testing.assert_allclose(clf.norm2_, norm2, rtol=1e-6, atol=1e-9)
    lead = scores + 1.0
    own = scores[np.arange(60), labels]
    lead[np.arange(60), labels] = own
    primal = 0.15 * norm2.sum() + (lead.max(axis=1) - own).sum()
    dual = clf.tau_[np.arange(60), labels].sum() - 0.15 * norm2.sum()
    assert clf.objective_ == pytest.approx(primal, rel=1e-8)
    assert clf.dual_objective_ == pytest.approx(dual, rel=1e-8)
    assert 0 <= clf.gap_ < 1e-5
    # feasibility, and the invariants sum_r tau = 0, hence sum_r M = 0
    assert np.all(clf.tau_ <= np.eye(4)[labels] + 1e-12)
    np.testing.assert_allclose(clf.tau_.sum(axis=1), 0.0, atol=1e-12)
    np.testing.assert_allclose(clf.decision_function(X).sum(axis=1), 0.0, atol=1e-8)
    assert np.array_equal(clf.support_, np.flatnonzero(np.abs(clf.tau_).sum(axis=1)))
    assert np.array_equal(clf.predict(X), scores.argmax(axis=1))


@pytest.mark.parametrize("beta", [0.1, 1.0])
def test_two_classes_are_the_binary_machine(beta):
    X, labels = problem(5, n=60, k=2)
    clf = SPOC(gamma=0.5, beta=beta, tol=1e-8, folds=None).fit(X, labels)
    svm = SVM(gamma=0.5, C=2 / beta, bias="none", tol=1e-8).fit(X, 2 * labels[:, None] - 1)
    Z = np.random.RandomState(0).randn(30, 3)
    np.testing.assert_allclose(clf.decision_function(Z), svm.margins(Z).ravel(), atol=1e-5)


def test_zero_rows_under_the_linear_kernel():
    X, labels = problem(6, n=40)
    X[::3] = 0.0  # K_pp = 0: Eq. 39 divides by it
    clf = SPOC("linear", beta=0.5, tol=1e-8, folds=None).fit(X, labels)
    _, value = spoc_by_qp(X @ X.T, labels, 4, 0.5, np.ones(40))
    assert clf.objective_ == pytest.approx(value, rel=1e-6)


# --- the ways to the optimum ---


def many(n=1500, k=5):
    rng = np.random.RandomState(2)
    labels = np.arange(n) % k
    return rng.randn(n, 2) + 1.5 * rng.randn(k, 2)[labels], labels


def test_shrinking_float32_and_rows_on_demand_agree():
    X, labels = many()
    options = {"gamma": 0.5, "beta": 1.0, "tol": 1e-3, "folds": None}
    whole = SPOC(**options, dtype="float64").fit(X, labels)
    single = SPOC(**options, dtype="float32").fit(X, labels)
    with pytest.warns(UserWarning, match="on demand"):
        rows = SPOC(**options, max_memory=4e6).fit(X, labels)
    for other in (single, rows):
        assert other.objective_ == pytest.approx(whole.objective_, rel=2e-3)
        assert other.gap_ < 2e-3
    assert whole.gap_ < 2e-3
    assert len(whole.support_) < len(X)


def test_the_primal_way_equals_the_gram_way():
    X, labels = many(2500)
    options = {"kernel": "linear", "beta": 5.0, "tol": 1e-5, "folds": None}
    primal = SPOC(**options).fit(X, labels)
    sparse_rows = SPOC(**options).fit(sparse.csr_matrix(X), labels)
    dual = SPOC(**{**options, "kernel": lambda A, B: A @ B.T}).fit(X, labels)
    assert not hasattr(dual, "coef_")
    assert primal.objective_ == pytest.approx(dual.objective_, rel=1e-6)
    assert primal.gap_ < 1e-5
    np.testing.assert_allclose(primal.decision_function(X), dual.decision_function(X), atol=1e-3)
    np.testing.assert_allclose(primal.coef_, X.T.dot(primal.tau_).T / 5.0, atol=1e-9)
    np.testing.assert_allclose(sparse_rows.coef_, primal.coef_, atol=1e-9)


def test_a_primal_start_and_a_bias():
    X, labels = problem(8, n=80)
    b, mass = dichotomies.margin_requirements(labels, 4), np.ones(80)
    options = {"beta": 0.5, "shift": 1.0, "tol": 1e-7}
    cold = solver.solve_linear(X, labels, b, mass, **options)
    store = grams.DenseGram(X @ X.T)
    dual = solver.solve(store, labels, b, mass, **options)
    assert cold.objective == pytest.approx(dual.objective, rel=1e-6)
    fewer = np.where(np.arange(80) < 20, 0.0, mass)
    for solve, source in ((solver.solve_linear, X), (solver.solve, store)):
        fresh = solve(source, labels, b, fewer, **options)
        warm = solve(source, labels, b, fewer, **options, start=(cold.tau, cold.scores * 0.5))
        assert warm.objective == pytest.approx(fresh.objective, rel=1e-6)
        assert np.all(warm.tau[:20] == 0)
        np.testing.assert_allclose(warm.scores, fresh.scores, atol=1e-4)


@pytest.mark.parametrize("solve", [solver.solve, solver.solve_linear])
def test_badly_scaled_rows_are_solved_all_the_same(solve):
    rng = np.random.RandomState(0)
    X, labels = 100.0 * rng.rand(100, 3), np.arange(100) % 4  # nothing to learn, and far from 0
    b, source = dichotomies.margin_requirements(labels, 4), X
    if solve is solver.solve:
        source = grams.DenseGram(X @ X.T)
    found = solve(source, labels, b, np.ones(100), beta=1.0, shift=1.0, tol=1e-6)
    assert found.converged
    assert found.gap < 1e-6
    assert found.n_iter < 500_000  # one sample at a time alone takes millions
    np.testing.assert_allclose(found.tau.sum(axis=1), 0.0, atol=1e-12)
    assert np.all(found.tau <= np.eye(4)[labels] + 1e-12)


def test_single_precision_kernel_values_are_summed_in_double_precision():
    X, labels = problem(7, n=60)
    K = (1000.0 * rbf(X)).astype(np.float32)
    assert SPOC("precomputed", tol=1e-12, folds=None).fit(K, labels).gap_ < 1e-8


def test_a_tolerance_below_rounding_is_said():
    X, labels = problem(7, n=60)
    with pytest.warns(ConvergenceWarning, match="stopped early"):
        clf = SPOC("precomputed", tol=1e-18, folds=None).fit(1000.0 * rbf(X), labels)
    assert clf.gap_ < 1e-9


def test_threads_do_not_change_the_model():
    X, labels = many(700)
    one, two = (SPOC(folds=None, n_jobs=j).fit(X, labels).decision_function(X) for j in (1, 2))
    assert np.array_equal(one, two)


def test_a_shared_gram():
    X, labels = problem(7)
    kernel = kernels.Gaussian(gamma=0.5)
    store = grams.gram(kernel, kernel.prepare(X))
    targets = 2 * np.eye(labels.max() + 1, dtype=np.int8)[labels] - 1
    shared = CrammerSinger(beta=0.5).fit_gram(store, targets)
    alone = SPOC(gamma=0.5, beta=0.5).fit(X, labels)
    np.testing.assert_allclose(shared.margins_gram(rbf(X)), alone.decision_function(X), atol=1e-3)
    matrix = SPOC("precomputed", beta=0.5).fit(rbf(X), labels)
    np.testing.assert_allclose(matrix.decision_function(rbf(X)), alone.margins(X), atol=1e-3)


def test_stopping_early_is_said():
    X, labels = problem(7)
    with pytest.warns(ConvergenceWarning, match="stopped early"):
        clf = SPOC(max_iter=5, folds=None).fit(X, labels)
    assert clf.n_iter_ == 5
    assert clf.gap_ > 1e-3


# --- the classifier ---


@pytest.mark.parametrize("k", [2, 3])
def test_scores_probabilities_and_labels_agree(k):
    X, labels = problem(11, n=90, k=k)
    names = np.array(["ant", "bee", "cow"])[labels]
    clf = SPOC(beta=0.2).fit(X, names)
    scores, proba = clf.margins(X), clf.predict_proba(X)
    assert np.array_equal(clf.predict(X), clf.classes_[scores.argmax(axis=1)])
    assert np.array_equal(proba.argmax(axis=1), scores.argmax(axis=1))
    np.testing.assert_allclose(proba.sum(axis=1), 1.0)
    odds = np.exp((scores[:, :1] - scores) / clf.temperature_)
    np.testing.assert_allclose(proba[:, :1] / proba, odds, rtol=1e-6)
    decision = clf.decision_function(X)
    assert decision.shape == ((90,) if k == 2 else (90, 3))


def test_the_temperature_is_fitted_on_rows_left_out():
    X, labels = problem(12, n=120)
    labels = np.random.RandomState(0).permutation(labels)  # nothing to learn
    clf = SPOC(gamma=1.0, beta=0.01).fit(X, labels)
    taught = fit_temperature(clf.training_margins_, labels, np.ones(120))
    assert clf.score(X, labels) > 0.8
    assert clf.temperature_ > 10 * taught


def test_probabilities_can_be_left_out():
    X, labels = problem(12)
    clf = SPOC(folds=None).fit(X, labels)
    assert not hasattr(clf, "predict_proba")
    assert not hasattr(clf, "temperature_")


def test_class_weights_are_sample_weights():
    X, labels = problem(14, n=60)
    weights = {0: 3.0, 1: 1.0, 2: 0.5, 3: 1.0}
    by_class = SPOC(gamma=0.5, class_weight=weights, tol=1e-8).fit(X, labels)
    by_row = SPOC(gamma=0.5, tol=1e-8).fit(X, labels, [weights[y] for y in labels])
    np.testing.assert_allclose(by_class.decision_function(X), by_row.decision_function(X))


def test_iris():
    X, y = load_iris(return_X_y=True)
    assert SPOC(beta=0.1).fit(X, y).score(X, y) > 0.95


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"beta": 0.0}, "beta must be a positive"),
        ({"tol": -1}, "tol must be a positive"),
        ({"kernel": "rbg"}, "Did you mean 'rbf'"),
        ({"bias": "free"}, "Unknown bias"),
        ({"folds": 1}, "folds must be an integer of at least 2"),
    ],
)
def test_bad_parameters_are_named(params, message):
    X, labels = problem(0)
    with pytest.raises(ValueError, match=message):
        SPOC(**params).fit(X, labels)


def test_bad_labels_and_weights_are_named():
    X, labels = problem(0)
    with pytest.raises(ValueError, match="only one class"):
        SPOC().fit(X, np.zeros(40, int))
    with pytest.raises(ValueError, match="has weight zero"):
        SPOC().fit(X, labels, (labels != 2).astype(float))
    with pytest.raises(ValueError, match="cannot be sparse"):
        SPOC("precomputed").fit(sparse.identity(40), labels)


def test_clone_and_parameters():
    clf = SPOC("poly", beta=3.0)
    assert clone(clf).get_params() == clf.get_params()
