"""The single binary problem against LIBSVM on the explicit kernel of all copies."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest
from scipy import sparse
from scipy.optimize import minimize
from sklearn.base import clone
from sklearn.datasets import load_iris, make_blobs
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics.pairwise import linear_kernel, polynomial_kernel, rbf_kernel
from sklearn.svm import SVC

from outcode import codes
from outcode.classifier import SingleBinaryClassifier
from outcode.decoders.likelihood import softmax
from outcode.gram import DenseGram, RowGram
from outcode.machines import SingleBinary, class_kernels
from outcode.progress import Silent
from outcode.solvers import sbc as sbc_solver

GAMMA = 0.4
rng = np.random.RandomState(0)
MATRIX = rng.randn(4, 3)


def data(n=60, n_classes=4, seed=0, spread=2.5):
    X, y = make_blobs(n, 3, centers=n_classes, cluster_std=spread, random_state=seed)
    return X / 3.0, y


def explicit(K_x, K_M, targets, C, weight=None):
    """LIBSVM on the cm x cm kernel: signed duals (m, c) and bias."""
    y = targets.ravel()
    w = np.ones(len(K_x)) if weight is None else weight
    rows = np.repeat(w, targets.shape[1])
    svc = SVC(kernel="precomputed", C=C, tol=1e-10)
    svc.fit(np.kron(K_x, K_M), y, sample_weight=rows)
    duals = np.zeros(len(y))
    duals[svc.support_] = svc.dual_coef_.ravel()
    return duals.reshape(targets.shape), float(svc.intercept_[0])


def violation(s, K_x, K_M, targets, C):
    """The most two signed duals could gain by moving against each other, from all copies."""
    g = (np.kron(K_x, K_M) @ s.ravel()).reshape(s.shape) - targets
    up = -g[s < np.where(targets > 0, C, 0.0)]
    down = g[s > np.where(targets > 0, 0.0, -C)]
    return up.max() + down.max()


def one_vs_rest(y, n_classes):
    return np.where(np.arange(n_classes) == y[:, None], 1, -1)


def problem(X, y, C=1.0, gamma=GAMMA):
    return sbc_solver.begin(
        DenseGram(rbf_kernel(X, gamma=gamma)), one_vs_rest(y, y.max() + 1), np.full(len(y), C)
    )


# --- the dual solution, scores and bias are LIBSVM's ---

EXTENSIONS = {
    "identity": "identity",
    "single": "single",
    "matrix": MATRIX,
    "kernel": "kernel",
    "basis": np.stack([MATRIX, MATRIX**2, np.eye(4)[:, :3]]),
}


@pytest.mark.parametrize("name", EXTENSIONS)
@pytest.mark.parametrize("C", [0.3, 20.0])
def test_equals_libsvm_on_the_explicit_kernel(name, C):
    (X, y), (Z, _) = data(), data(20, seed=1)
    clf = SingleBinaryClassifier(EXTENSIONS[name], gamma=GAMMA, C=C, radius=2.0, tol=1e-9)
    clf.fit(X, y)
    K, K_M, targets = rbf_kernel(X, gamma=GAMMA), clf.class_kernel_, one_vs_rest(y, 4)
    duals, bias = explicit(K, K_M, targets, C)
    # LIBSVM keeps its kernel in float32: ours must be as near to it as that allows, and optimal on
    # the explicit kernel in float64
    assert violation(clf.dual_coef_, K, K_M, targets, C) < 1e-8
    np.testing.assert_allclose(clf.dual_coef_, duals, atol=3e-5 * C)
    assert clf.bias_ == pytest.approx(bias, abs=1e-5)
    expected = rbf_kernel(Z, X, gamma=GAMMA) @ duals @ K_M + bias
    np.testing.assert_allclose(clf.decision_function(Z), expected, atol=1e-4)
    ours, theirs = (
        2 * (s * targets).sum() - (s * (K @ s @ K_M)).sum() for s in (clf.dual_coef_, duals)
    )
    assert ours == pytest.approx(clf.objective_path_[-1])
    assert ours >= theirs * (1 - 1e-9)
    assert np.array_equal(clf.predict(Z), clf.classes_[expected.argmax(axis=1)])
    assert np.array_equal(clf.support_, np.flatnonzero(clf.dual_coef_.any(axis=1)))
    assert clf.gap_ < 1e-8


def test_scores_are_equation_9_by_loops():
    X, y = data(25)
    clf = SingleBinaryClassifier("kernel", gamma=GAMMA).fit(X, y)
    alpha, target = np.abs(clf.dual_coef_), one_vs_rest(y, 4)
    basis = class_kernels.units(4)
    for i in range(3):
        for r in range(4):
            total = clf.bias_
            for j in range(len(X)):
                for s in range(4):
                    V = sum(
                        mu * np.exp(-GAMMA * ((M[r] - M[s]) ** 2).sum())
                        for mu, M in zip(clf.kernel_weights_, basis, strict=True)
                    )
                    K = np.exp(-GAMMA * ((X[i] - X[j]) ** 2).sum())
                    total += target[j, s] * alpha[j, s] * K * V
            assert clf.decision_function(X[i : i + 1])[0, r] == pytest.approx(total, abs=1e-9)


@pytest.mark.parametrize("code", ["bch", "ovo"])
def test_ecoc_equals_libsvm_and_its_decoder(code):
    (X, y), (Z, _) = data(40), data(20, seed=1)
    clf = SingleBinaryClassifier("ecoc", gamma=GAMMA, tol=1e-9, code=code, random_state=0)
    clf.fit(X, y)
    length = clf.code_.shape[1]
    number = np.arange(1.0, length + 1)
    K_M = np.exp(-GAMMA * (number[:, None] - number) ** 2)
    np.testing.assert_allclose(clf.class_kernel_, K_M, atol=1e-15)
    targets = clf.code_[y].ravel()
    used = targets != 0
    big = np.kron(rbf_kernel(X, gamma=GAMMA), K_M)
    svc = SVC(kernel="precomputed", tol=1e-10).fit(big[np.ix_(used, used)], targets[used])
    cross = np.kron(rbf_kernel(Z, X, gamma=GAMMA), K_M)[:, used]
    margins = svc.decision_function(cross).reshape(len(Z), length)
    np.testing.assert_allclose(clf.margins(Z), margins, atol=1e-6)
    distance = np.linalg.norm(margins[:, None] - clf.code_, axis=2)
    np.testing.assert_allclose(clf.decision_function(Z), -distance, atol=1e-5)
    clf.set_params(decoder="hamming").fit(X, y)
    wrong = (np.sign(margins)[:, None] * clf.code_ < 0).sum(2) + (clf.code_ == 0).sum(1) / 2
    np.testing.assert_allclose(clf.decision_function(Z), -wrong)


def test_single_is_ecoc_on_one_versus_all_but_for_the_decoder():
    X, y = data(40)
    one = SingleBinaryClassifier("single", gamma=GAMMA, tol=1e-8).fit(X, y)
    code = codes.code_matrix("ova", 4)
    many = SingleBinaryClassifier("ecoc", gamma=GAMMA, tol=1e-8, code=code).fit(X, y)
    np.testing.assert_allclose(many.margins(X), one.decision_function(X), atol=1e-6)


def test_rows_in_blocks_are_one_vs_all_with_a_shared_bias():
    X, y = data(50)
    X = X - X.mean(axis=0)
    clf = SingleBinaryClassifier("identity", "linear", class_kernel="linear", tol=1e-9).fit(X, y)
    copies = np.stack([np.kron(np.eye(4)[r], x) for x in X for r in range(4)])
    svc = SVC(kernel="linear", tol=1e-10).fit(copies, one_vs_rest(y, 4).ravel())
    expected = svc.decision_function(copies).reshape(-1, 4)
    np.testing.assert_allclose(clf.decision_function(X), expected, atol=1e-5)


@pytest.mark.parametrize(
    ("kernel", "values"),
    [
        ("linear", linear_kernel),
        ("poly", lambda A, B: polynomial_kernel(A, B, degree=2, gamma=0.5, coef0=1)),
        (lambda A, B: linear_kernel(A, B) + 1, lambda A, B: linear_kernel(A, B) + 1),
    ],
)
def test_every_sample_kernel(kernel, values):
    X, y = data(40)
    clf = SingleBinaryClassifier("identity", kernel, gamma=0.5, degree=2, coef0=1, C=0.1, tol=1e-9)
    clf.fit(X, y)
    np.testing.assert_allclose(clf.class_kernel_[0, 1], np.exp(-2 * 0.5))
    duals, bias = explicit(values(X, X), clf.class_kernel_, one_vs_rest(y, 4), 0.1)
    expected = values(X, X) @ duals @ clf.class_kernel_ + bias
    np.testing.assert_allclose(clf.decision_function(X), expected, atol=1e-5)


def test_two_classes():
    X, y = data(40, 2)
    clf = SingleBinaryClassifier("identity", gamma=GAMMA, tol=1e-9).fit(X, y)
    duals, bias = explicit(rbf_kernel(X, gamma=GAMMA), clf.class_kernel_, one_vs_rest(y, 2), 1.0)
    scores = rbf_kernel(X, gamma=GAMMA) @ duals @ clf.class_kernel_ + bias
    np.testing.assert_allclose(clf.decision_function(X), scores[:, 1] - scores[:, 0], atol=1e-6)
    assert np.array_equal(clf.predict(X), (clf.decision_function(X) > 0).astype(int))


# --- the solver ---


def test_working_sets_reach_the_same_solution(monkeypatch):
    X, y = data(150, spread=4.0)
    M = class_kernels.gaussian_classes(np.eye(4), GAMMA)
    whole, parts = problem(X, y, 5.0), problem(X, y, 5.0)
    first = sbc_solver.solve(whole, M, 1e-8, 10**6)
    monkeypatch.setattr(sbc_solver, "WORKING_SET", 16)
    second = sbc_solver.solve(parts, M, 1e-8, 10**6)
    assert first.converged
    assert second.converged
    np.testing.assert_allclose(parts.s, whole.s, atol=1e-5)
    np.testing.assert_allclose(parts.F, parts.s @ rbf_kernel(X, gamma=GAMMA), atol=1e-10)
    assert second.dual_objective == pytest.approx(first.dual_objective, rel=1e-10)


def test_a_class_kernel_with_zeros_and_a_zero_row():
    X, y = data(50)
    for M in (np.eye(4), np.diag([1.0, 2.0, 0.0, 1.0])):
        p = problem(X, y)
        solution = sbc_solver.solve(p, M, 1e-8, 10**6)
        duals, _ = explicit(rbf_kernel(X, gamma=GAMMA), M, one_vs_rest(y, 4), 1.0)
        f = rbf_kernel(X, gamma=GAMMA) @ duals @ M
        dual = (duals * one_vs_rest(y, 4)).sum() - 0.5 * (duals * f).sum()
        assert solution.dual_objective == pytest.approx(dual, rel=1e-7)
        assert solution.gap < 1e-6


def test_gap_and_objective_by_hand():
    X, y = data(50)
    clf = SingleBinaryClassifier("identity", gamma=GAMMA, C=3.0, tol=1e-2).fit(X, y)
    target, f = one_vs_rest(y, 4), clf.decision_function(X)
    norm2 = (clf.dual_coef_ * (f - clf.bias_)).sum()
    primal = norm2 / 2 + 3.0 * np.maximum(0, 1 - target * f).sum()
    dual = np.abs(clf.dual_coef_).sum() - norm2 / 2
    assert clf.objective_ == pytest.approx(primal)
    assert clf.gap_ == pytest.approx((primal - dual) / primal)
    assert clf.objective_path_ == pytest.approx([2 * dual])
    assert abs(clf.dual_coef_.sum()) < 1e-10


def test_memory_is_that_of_the_rows_not_of_the_copies():
    X, y = data(700, 10)
    clf = SingleBinaryClassifier("identity", gamma=GAMMA, C=0.1, n_jobs=1).fit(X[:50], y[:50])
    tracemalloc.start()
    clf.fit(X, y)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 5 * 8 * 700**2  # the copies' kernel takes 100 x 8 x 700^2 bytes


def test_rows_on_demand_and_float32(monkeypatch):
    monkeypatch.setattr(sbc_solver, "BATCH", 7)
    X, y = data(80)
    clf = SingleBinaryClassifier("identity", gamma=GAMMA, tol=1e-6)
    expected = clf.fit(X, y).decision_function(X)
    with pytest.warns(UserWarning, match="on demand"):
        rows = clone(clf).set_params(max_memory=8 * 80 * 10).fit(X, y)
    np.testing.assert_allclose(rows.decision_function(X), expected, atol=1e-5)
    single = clone(clf).set_params(dtype="float32").fit(X, y)
    np.testing.assert_allclose(single.decision_function(X), expected, atol=1e-4)
    assert RowGram.matrix is None


def test_sparse_and_precomputed_rows():
    X, y = data(50)
    clf = SingleBinaryClassifier("identity", gamma=GAMMA, tol=1e-8)
    expected = clf.fit(X, y).decision_function(X[:9])
    rows = clone(clf).fit(sparse.csr_matrix(X), y)
    np.testing.assert_allclose(rows.decision_function(sparse.csr_matrix(X[:9])), expected, 1e-5)
    K = rbf_kernel(X, gamma=GAMMA)
    given = clone(clf).set_params(kernel="precomputed").fit(K, y)
    np.testing.assert_allclose(given.decision_function(K[:9]), expected, atol=1e-6)
    with pytest.raises(ValueError, match="cannot be sparse"):
        clone(clf).set_params(kernel="precomputed").fit(sparse.csr_matrix(K), y)


def test_the_first_working_set_holds_rows_of_all_classes_and_no_copy_twice(monkeypatch):
    monkeypatch.setattr(sbc_solver, "WORKING_SET", 64)
    p = problem(*data(200, 4))
    up, down = p.violations(-p.y)  # at the start all copies violate alike
    order = np.random.RandomState(0).permutation(p.s.size)
    chosen = sbc_solver.working_set(up, down, np.empty(0, dtype=np.intp), order)
    assert len(np.unique(chosen)) == len(chosen) == 64
    assert np.bincount(chosen // 200, minlength=4).min() >= 8
    assert np.sum(p.y.ravel()[chosen] > 0) == 32
    again = sbc_solver.working_set(up, down, chosen, order)
    assert len(np.unique(again)) == len(again) == 64
    assert len(np.intersect1d(chosen, again)) >= 32


def test_a_working_set_holds_the_pair_that_violates_most(monkeypatch):
    monkeypatch.setattr(sbc_solver, "WORKING_SET", 16)
    rng = np.random.RandomState(0)
    for _ in range(50):
        up, down = rng.randn(4, 30), rng.randn(4, 30)
        up[rng.rand(4, 30) < 0.3] = down[rng.rand(4, 30) < 0.3] = -sbc_solver.HUGE
        last, order = rng.permutation(120)[:16], rng.permutation(120)
        chosen = sbc_solver.working_set(up, down, last, order)
        assert {int(up.argmax()), int(down.argmax())} <= set(chosen.tolist())


def test_machines_without_a_fold_that_stop_early_warn_once():
    X, y = data(150, spread=4.0)
    clf = SingleBinaryClassifier("identity", gamma=GAMMA, C=5.0, random_state=0)
    steps = clf.fit(X, y).n_iter_
    with pytest.warns(ConvergenceWarning) as caught:
        clf.set_params(folds=3, C=5.0, max_iter=steps // 10, tol=1e-8).fit(X, y)
    said = [str(w.message) for w in caught]
    assert sum("3 of 3 machines that hold out a fold" in text for text in said) == 1
    assert len(said) == 2  # the machine of all rows stopped early, too
    assert all(w.filename == __file__ for w in caught)


def test_stops_early_and_says_by_how_much():
    X, y = data(50)
    with pytest.warns(ConvergenceWarning, match="relative duality gap"):
        SingleBinaryClassifier("identity", max_iter=5).fit(X, y)
    with pytest.warns(ConvergenceWarning, match=r"updates: their relative gap.*above its minimum"):
        SingleBinaryClassifier(
            update="alternating", max_updates=1, kernel_tol=1e-9, gamma=GAMMA
        ).fit(X, y)


# --- weights of rows and classes ---


@pytest.mark.parametrize("extension", ["identity", "kernel"])
def test_a_weight_is_a_repeated_row(extension):
    X, y = data(40)
    weight = rng.randint(0, 3, len(y)) + (np.arange(len(y)) % 2)
    clf = SingleBinaryClassifier(extension, gamma=GAMMA, tol=1e-9, kernel_tol=1e-6)
    weighted = clone(clf).fit(X, y, sample_weight=weight)
    repeated = clone(clf).fit(np.repeat(X, weight, axis=0), np.repeat(y, weight))
    np.testing.assert_allclose(
        weighted.decision_function(X), repeated.decision_function(X), atol=1e-5
    )


def test_weights_equal_libsvms():
    X, y = data(50)
    weight = rng.uniform(0.2, 2.0, len(y))
    clf = SingleBinaryClassifier("identity", gamma=GAMMA, tol=1e-9).fit(X, y, weight)
    K = rbf_kernel(X, gamma=GAMMA)
    duals, _ = explicit(K, clf.class_kernel_, one_vs_rest(y, 4), 1.0, weight)
    np.testing.assert_allclose(clf.dual_coef_, duals, atol=1e-5)
    classes = SingleBinaryClassifier(
        "identity", gamma=GAMMA, tol=1e-9, class_weight={0: 3.0, 1: 1.0, 2: 1.0, 3: 0.5}
    ).fit(X, y)
    by_hand = np.array([3.0, 1.0, 1.0, 0.5])[y]
    duals, _ = explicit(K, clf.class_kernel_, one_vs_rest(y, 4), 1.0, by_hand)
    np.testing.assert_allclose(classes.dual_coef_, duals, atol=1e-5)


# --- learning the class kernel ---


def basis_kernels(n, gamma=GAMMA):
    return np.stack([class_kernels.gaussian_classes(M, gamma) for M in class_kernels.units(n)])


def test_basis_kernels_by_hand():
    rho = np.exp(-GAMMA)
    expected = np.array([[1, rho, rho], [rho, 1, 1], [rho, 1, 1]])
    np.testing.assert_allclose(basis_kernels(3)[0], expected)


def test_the_shortcut_is_alpha_G_alpha():
    X, y = data(30)
    p = problem(X, y)
    basis = basis_kernels(4)
    sbc_solver.solve(p, basis.sum(axis=0), 1e-4, 10**6)
    alpha, target = np.abs(p.s.T).ravel(), one_vs_rest(y, 4).ravel()
    for v, K_M in zip(sbc_solver.basis_norms(p, basis), basis, strict=True):
        G = np.outer(target, target) * np.kron(rbf_kernel(X, gamma=GAMMA), K_M)
        assert v == pytest.approx(alpha @ G @ alpha, rel=1e-10)


def test_algorithm_2_step_by_step():
    X, y = data(40)
    clf = SingleBinaryClassifier("kernel", gamma=GAMMA, tol=1e-8).fit(X, y)
    K, target, radius = rbf_kernel(X, gamma=GAMMA), one_vs_rest(y, 4), np.sqrt(len(y))
    basis, mu, path = basis_kernels(4), np.full(4, radius / 4), []
    while True:
        K_M = np.tensordot(mu, basis, axes=1)
        duals, _ = explicit(K, K_M, target, 1.0)
        A = duals.ravel()
        path.append(2 * np.abs(A).sum() - A @ np.kron(K, K_M) @ A)
        new = mu + np.array([A @ np.kron(K, B) @ A for B in basis])
        new *= min(1.0, radius / new.sum())
        small = np.linalg.norm(new - mu) <= 0.001 * np.linalg.norm(mu)
        mu = new
        if small:
            break
    duals, _ = explicit(K, np.tensordot(mu, basis, axes=1), target, 1.0)
    np.testing.assert_allclose(clf.machine_.copy_coef_, duals, atol=1e-4)  # of the last weights
    np.testing.assert_allclose(clf.kernel_weights_, mu, rtol=1e-5)
    np.testing.assert_allclose(clf.objective_path_[:-1], path, rtol=1e-6)
    assert clf.n_updates_ == len(path)


def test_many_updates_end_by_the_rule_and_not_by_a_limit():
    X, y = data(60, 4)
    clf = SingleBinaryClassifier("kernel", gamma=GAMMA, C=0.02).fit(X, y)
    assert clf.n_updates_ > 50
    few = SingleBinaryClassifier("kernel", gamma=GAMMA, C=0.02, max_updates=3)
    with pytest.warns(ConvergenceWarning, match=r"stopped early after 3 updates"):
        few.fit(X, y)


def minimum_over_weights(K, basis, target, C, radius):
    """Largest 2 sum alpha - radius max_j alpha' G_j alpha, by a generic solver."""
    y = target.ravel()
    G = [np.outer(y, y) * np.kron(K, B) for B in basis]
    n = len(y)
    found = minimize(
        lambda z: z[n] - 2 * z[:n].sum(),
        np.r_[np.full(n, 0.0), 1.0],
        jac=lambda z: np.r_[np.full(n, -2.0), 1.0],
        bounds=[(0, C)] * n + [(0, None)],
        constraints=[
            {"type": "eq", "fun": lambda z: y @ z[:n], "jac": lambda z: np.r_[y, 0.0]},
            *(
                {
                    "type": "ineq",
                    "fun": lambda z, Q=Q: z[n] - radius * z[:n] @ Q @ z[:n],
                    "jac": lambda z, Q=Q: np.r_[-2 * radius * Q @ z[:n], 1.0],
                }
                for Q in G
            ),
        ],
        method="SLSQP",
        options={"maxiter": 500, "ftol": 1e-12},
    )
    assert found.success
    return -found.fun


def test_alternating_reaches_the_minimum_over_weights():
    X, y = data(12, 3)
    clf = SingleBinaryClassifier(
        gamma=GAMMA, C=2.0, update="alternating", tol=1e-9, kernel_tol=1e-7, max_updates=3000
    ).fit(X, y)
    K, target = rbf_kernel(X, gamma=GAMMA), one_vs_rest(y, 3)
    best = minimum_over_weights(K, basis_kernels(3), target, 2.0, np.sqrt(12))
    assert clf.objective_path_[-1] == pytest.approx(best, rel=1e-6)
    assert clf.kernel_gap_ <= 1e-7


@pytest.mark.parametrize("seed", range(3))
def test_alternating_never_rises_and_beats_the_paper_and_every_basis_kernel(seed):
    X, y = data(70, 5, seed)
    alternating = SingleBinaryClassifier(gamma=GAMMA, update="alternating", tol=1e-6).fit(X, y)
    paper = SingleBinaryClassifier(gamma=GAMMA, tol=1e-6).fit(X, y)
    assert np.all(np.diff(alternating.objective_path_) <= 1e-6 * alternating.objective_path_[0])
    assert alternating.objective_path_[-1] <= paper.objective_path_[-1] * (1 + 1e-9)
    assert alternating.kernel_gap_ <= 1e-3
    assert alternating.kernel_weights_.sum() == pytest.approx(np.sqrt(70))
    # the gap is a bound: the paper's objective lies within its own gap of the other's
    lowest = alternating.objective_path_[-1]
    assert paper.objective_path_[-1] - lowest <= paper.kernel_gap_ * 2 * paper.objective_
    for j in range(5):
        weights = np.where(np.arange(5) == j, np.sqrt(70), 0.0)
        basis = SingleBinaryClassifier(gamma=GAMMA, weights=weights, tol=1e-6).fit(X, y)
        assert lowest <= basis.objective_path_[0] * (1 + 1e-6)
        assert paper.objective_path_[-1] <= basis.objective_path_[0] * (1 + 1e-6)


def swap(mu, v, radius):
    """A step that goes back and forth, as the paper's does when v is large."""
    return radius * (1.2 * mu.max() - mu) / (1.2 * mu.max() - mu).sum() + np.eye(len(mu))[0]


@pytest.mark.parametrize("max_updates", [4, 100])
def test_going_round_in_circles_ends_with_the_best_weights_met(max_updates, monkeypatch):
    X, y = data(60, 4)
    monkeypatch.setitem(sbc_solver.UPDATES, "paper", swap)
    limits = sbc_solver.Limits(1e-6, 10**6, 1e-12, max_updates)
    learned = sbc_solver.learn_kernel(
        problem(X, y), basis_kernels(4), 5.0, "paper", limits, Silent()
    )
    assert 5 <= len(learned.path) <= 50
    assert learned.path[-1] == pytest.approx(learned.path[:-1].min(), rel=1e-5)
    assert learned.left > 1e-12


def test_a_start_from_a_similar_problem_takes_fewer_steps_to_the_same_machine():
    X, y = data(120, 4)
    gram, targets = rbf_kernel(X, gamma=GAMMA), one_vs_rest(y, 4)
    weight = np.where(np.arange(120) % 10 == 0, 0.0, 1.0)
    options = {"C": 10.0, "class_gamma": GAMMA, "kernel_tol": 1e-5}
    machine = SingleBinary(tol=1e-6, **options)
    before = clone(machine).fit_gram(gram, targets)
    cold = clone(machine).fit_gram(gram, targets, weight)
    warm = clone(machine).fit_gram(gram, targets, weight, start=before)
    assert warm.n_updates_ < cold.n_updates_
    assert warm.n_iter_ < 0.7 * cold.n_iter_
    np.testing.assert_allclose(warm.training_margins_, cold.training_margins_, atol=0.01)
    assert np.all(warm.copy_coef_[weight == 0] == 0)
    assert abs(warm.copy_coef_.sum()) < 1e-9
    again = clone(machine).fit_gram(gram, targets, start=before)
    assert again.n_iter_ < 0.1 * before.n_iter_


def test_what_is_taken_away_is_made_up_by_copies_between_their_bounds():
    X, y = data(60, 3)
    p = problem(X, y)
    sbc_solver.solve(p, np.eye(3), 1e-6, 10**6)
    at_bound = (p.s == p.lo) | (p.s == p.hi)
    left_out = np.arange(60) < 3
    other = p.without(np.flatnonzero(left_out))
    assert abs(other.s.sum()) < 1e-9
    assert not other.s[:, left_out].any()
    kept = at_bound & ~left_out
    np.testing.assert_array_equal(other.s[kept], p.s[kept])


def test_prior_weights_are_the_shares_of_the_classes():
    X, y = load_iris(return_X_y=True)
    X, y = X[:120], y[:120]
    clf = SingleBinaryClassifier(weights="prior", radius=6.0).fit(X, y)
    np.testing.assert_allclose(clf.kernel_weights_, [2.5, 2.5, 1.0])
    assert len(clf.objective_path_) == 1
    fixed = SingleBinaryClassifier(weights=[2.5, 2.5, 1.0]).fit(X, y)
    assert np.array_equal(fixed.decision_function(X), clf.decision_function(X))


def test_given_class_kernels():
    X, y = data(40)
    K_M = 0.3 + np.eye(4)
    clf = SingleBinaryClassifier(K_M, gamma=GAMMA, class_kernel="precomputed").fit(X, y)
    np.testing.assert_array_equal(clf.class_kernel_, K_M)
    both = SingleBinaryClassifier(
        np.stack([np.eye(4), np.ones((4, 4))]), gamma=GAMMA, class_kernel="precomputed"
    ).fit(X, y)
    mu = both.kernel_weights_
    np.testing.assert_allclose(both.class_kernel_, mu[0] * np.eye(4) + mu[1])


# --- probabilities ---


@pytest.mark.parametrize("extension", ["kernel", "ecoc"])
def test_probabilities_agree_with_predict_and_calibrate(extension):
    X, y = data(150, 3, spread=4.0)
    Z, z = data(600, 3, spread=4.0)
    clf = SingleBinaryClassifier(extension, gamma=GAMMA, folds=3, random_state=0).fit(X, y)
    proba = clf.predict_proba(Z)
    np.testing.assert_allclose(proba.sum(axis=1), 1.0)
    assert np.array_equal(clf.classes_[proba.argmax(axis=1)], clf.predict(Z))
    loss = -np.log(proba[np.arange(len(z)), z]).mean()
    assert loss < 0.9 * np.log(3)
    plain = -np.log(softmax(clf.decision_function(Z))[np.arange(len(z)), z]).mean()
    assert loss <= plain + 0.02


def test_held_out_margins_are_those_of_a_refit():
    X, y = data(60)
    clf = SingleBinaryClassifier("identity", gamma=GAMMA, tol=1e-8).fit(X, y)
    p = problem(X, y)
    M = clf.class_kernel_
    sbc_solver.solve(p, M, 1e-8, 10**6)
    out = np.arange(0, 60, 3)
    part = p.without(out)
    solution = sbc_solver.solve(part, M, 1e-8, 10**6)
    kept = np.setdiff1d(np.arange(60), out)
    again = SingleBinaryClassifier("identity", gamma=GAMMA, tol=1e-8).fit(X[kept], y[kept])
    expected = again.decision_function(X[out])
    np.testing.assert_allclose((M @ part.F[:, out]).T + solution.bias, expected, atol=1e-5)


def test_no_probabilities_without_folds():
    X, y = data(30)
    clf = SingleBinaryClassifier("identity").fit(X, y)
    assert not hasattr(clf, "predict_proba")
    with pytest.raises(AttributeError) as raised:
        clf.predict_proba(X)
    assert "folds=3" in str(raised.value)


def test_a_class_of_one_row_has_probabilities():
    X, y = data(40, 3)
    y[0] = 9
    clf = SingleBinaryClassifier("identity", folds=3, random_state=0).fit(X, y)
    assert clf.predict_proba(X).shape == (40, 4)


def test_the_model_does_not_depend_on_threads():
    X, y = data(300, 4)
    clf = SingleBinaryClassifier(gamma=GAMMA, folds=3, random_state=0)
    one, two = (clone(clf).set_params(n_jobs=n).fit(X, y) for n in (1, 2))
    assert np.array_equal(one.dual_coef_, two.dual_coef_)
    assert one.temperature_ == two.temperature_


# --- at the door ---


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"extension": "identy"}, "Did you mean 'identity'"),
        ({"extension": np.eye(3)}, "a row for each of the 4 classes"),
        ({"extension": np.zeros(4)}, "got shape"),
        ({"extension": np.eye(4) - 2, "class_kernel": "precomputed"}, "semidefinite"),
        ({"extension": np.ones((4, 3)), "class_kernel": "precomputed"}, "symmetric"),
        ({"update": "newton"}, "Unknown update"),
        ({"weights": "priors"}, "Did you mean 'prior'"),
        ({"weights": [1.0, 2.0]}, "4 numbers"),
        ({"extension": np.ones((2, 4, 1)), "weights": "prior"}, "one basis kernel per class"),
        ({"radius": "root"}, "radius"),
        ({"C": -1}, "C must be"),
        ({"tol": 0}, "tol must be"),
        ({"kernel_tol": 0}, "kernel_tol must be"),
        ({"folds": 1}, "folds must be"),
        ({"class_gamma": -1.0}, "class_gamma"),
    ],
)
def test_errors_say_what_is_wrong(parameters, message):
    X, y = data(30)
    with pytest.raises(ValueError, match=message):
        SingleBinaryClassifier(**parameters).fit(X, y)


def test_a_class_without_weight():
    X, y = data(30)
    with pytest.raises(ValueError, match="weight zero"):
        SingleBinaryClassifier().fit(X, y, sample_weight=(y != 2).astype(float))
