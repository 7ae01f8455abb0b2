"""Least-squares machines: the linear system itself, and leave-one-out by training again."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import load_iris
from sklearn.exceptions import ConvergenceWarning
from sklearn.kernel_ridge import KernelRidge

from outcode import OutputCodeClassifier, codes, dichotomies, machines
from outcode.folds import content_folds
from outcode.machines import LeastSquares

KINDS = ["ova", "ovo", "dense", "sparse"]
BIAS = ["kernel", "free", "none"]


def problem(code="ova", n=24, n_classes=4, seed=0):
    rng = np.random.RandomState(seed)
    labels = np.concatenate([np.repeat(np.arange(n_classes), 2), rng.randint(n_classes, size=n)])
    X = rng.randn(len(labels), 3) + labels[:, None]
    matrix = codes.code_matrix(code, n_classes, random_state=seed)
    weight = rng.uniform(0.3, 2.0, len(labels))
    weight[rng.permutation(np.arange(2 * n_classes, len(labels)))[:2]] = 0.0
    return X, dichotomies.targets(labels, matrix), weight


def solve_slowly(K, t, box, bias):
    """The bordered linear system of one column, rows of box 0 or target 0 dropped."""
    used = np.flatnonzero((box > 0) & (t != 0))
    n = len(used)
    B = np.zeros((n + 1, n + 1))
    B[:n, :n] = K[np.ix_(used, used)] + (bias == "kernel") + np.diag(1 / box[used])
    B[n, :n] = B[:n, n] = bias == "free"
    B[n, n] = bias != "free"
    solution = np.linalg.solve(B, np.append(t[used], 0.0))
    s = np.zeros(len(t))
    s[used] = solution[:n]
    b = solution[n] if bias == "free" else (bias == "kernel") * s.sum()
    return s, b, K @ s + b


@pytest.mark.parametrize("code", KINDS)
@pytest.mark.parametrize("bias", BIAS)
def test_solves_the_system_of_every_column(code, bias):
    X, targets, weight = problem(code)
    machine = LeastSquares(gamma=0.3, C=2.0, bias=bias).fit(X, targets, weight)
    K = np.exp(-0.3 * ((X[:, None] - X) ** 2).sum(axis=2))
    for s in range(targets.shape[1]):
        coef, b, f = solve_slowly(K, targets[:, s], 2.0 * weight, bias)
        np.testing.assert_allclose(machine.dual_coef_[:, s], coef, atol=1e-11)
        np.testing.assert_allclose(machine.bias_[s], b, atol=1e-11)
        np.testing.assert_allclose(machine.training_margins_[:, s], f, atol=1e-11)
    np.testing.assert_allclose(machine.margins(X), machine.training_margins_, atol=1e-11)
    np.testing.assert_array_equal(machine.gram_diagonal_, 1.0)
    assert machine.gap_.max() < 1e-12


@pytest.mark.parametrize("bias", BIAS)
def test_objective_is_the_minimum(bias):
    X, targets, weight = problem("sparse")
    machine = LeastSquares(gamma=0.3, C=2.0, bias=bias).fit(X, targets, weight)
    K = np.exp(-0.3 * ((X[:, None] - X) ** 2).sum(axis=2)) + (bias == "kernel")
    free = bias == "free"

    def objective(s, coef, b):
        f, used = K @ coef + free * b, targets[:, s] != 0
        return 0.5 * coef @ K @ coef + weight[used] @ (targets[used, s] - f[used]) ** 2

    rng = np.random.RandomState(0)
    for s in range(targets.shape[1]):
        coef, b = machine.dual_coef_[:, s], machine.bias_[s]
        np.testing.assert_allclose(machine.objective_[s], objective(s, coef, b), rtol=1e-10)
        for _ in range(5):
            other = coef + 0.01 * rng.randn(len(coef))
            assert objective(s, other, b + 0.01 * rng.randn()) > machine.objective_[s]


@pytest.mark.parametrize("code", KINDS)
@pytest.mark.parametrize("bias", BIAS)
@pytest.mark.parametrize("seed", range(3))
def test_leave_one_out_equals_training_again(code, bias, seed):
    X, targets, weight = problem(code, seed=seed)
    machine = LeastSquares(gamma=0.3, C=3.0, bias=bias).fit(X, targets, weight)
    K = np.exp(-0.3 * ((X[:, None] - X) ** 2).sum(axis=2))
    for i in range(len(X)):
        without = 3.0 * np.where(np.arange(len(X)) == i, 0.0, weight)
        for s in range(targets.shape[1]):
            _, _, f = solve_slowly(K, targets[:, s], without, bias)
            np.testing.assert_allclose(machine.loo_margins_[i, s], f[i], atol=1e-8, rtol=1e-8)


@pytest.mark.parametrize("code", KINDS)
@pytest.mark.parametrize("bias", BIAS)
def test_held_out_margins_equal_training_without_the_fold(code, bias):
    X, targets, weight = problem(code)
    machine = LeastSquares(gamma=0.3, C=2.0, bias=bias)
    gram = machine.gram(X, targets, weight)
    fold = content_folds(X, np.arange(len(X)) % 2, 4)
    fold[:2] = -1
    out = machine.fit_gram(gram, targets, weight).held_out_margins(gram, targets, fold, weight)
    K = np.exp(-0.3 * ((X[:, None] - X) ** 2).sum(axis=2))
    for f in range(-1, 4):
        without = 2.0 * np.where((fold == f) & (f >= 0), 0.0, weight)
        for s in range(targets.shape[1]):
            _, _, margins = solve_slowly(K, targets[:, s], without, bias)
            np.testing.assert_allclose(out[fold == f, s], margins[fold == f], atol=1e-9)


def test_folds_of_one_row_are_the_closed_form():
    X, targets, _ = problem("ovo")
    machine = LeastSquares(gamma=0.3, bias="free")
    gram = machine.gram(X, targets)
    machine.fit_gram(gram, targets)
    out = machine.held_out_margins(gram, targets, np.arange(len(X)))
    np.testing.assert_allclose(out, machine.loo_margins_, atol=1e-10)


def test_without_a_bias_it_is_kernel_ridge():
    X, targets, weight = problem("dense")
    machine = LeastSquares(kernel="linear", C=4.0, bias="none").fit(X, targets, weight)
    ridge = KernelRidge(alpha=0.25).fit(X, targets, sample_weight=weight)
    np.testing.assert_allclose(machine.margins(X), ridge.predict(X), atol=1e-10)


def test_weight_two_is_a_repeated_row():
    X, targets, _ = problem("ovo")
    weight = np.ones(len(X))
    weight[3] = 2.0
    once = LeastSquares(gamma=0.3, bias="free").fit(X, targets, weight)
    twice = LeastSquares(gamma=0.3, bias="free").fit(
        np.vstack([X, X[3]]), np.vstack([targets, targets[3]])
    )
    np.testing.assert_allclose(once.margins(X), twice.margins(X), atol=1e-10)


def test_a_class_with_a_single_row():
    X, targets, _ = problem("ovo")
    labels = np.array([0, *[1] * 6, *[2] * 6])
    targets = dichotomies.targets(labels, codes.code_matrix("ovo", 3))
    machine = LeastSquares(bias="free").fit(X[:13], targets)
    assert np.isfinite(machine.loo_margins_).all()
    np.testing.assert_allclose(machine.loo_margins_[0, :2], -1.0, atol=1e-9)


def test_the_same_model_for_any_number_of_threads():
    X, targets, _ = problem("sparse", n=300)
    one = LeastSquares().fit(X, targets, n_jobs=1)
    two = LeastSquares().fit(X, targets, n_jobs=2)
    np.testing.assert_array_equal(one.dual_coef_, two.dual_coef_)
    np.testing.assert_array_equal(one.training_margins_, two.training_margins_)


def test_single_precision_gram_is_factorised_in_double():
    X, targets, _ = problem("ovo", n=100)
    double = LeastSquares(gamma=0.3).fit(X, targets)
    single = LeastSquares(gamma=0.3, dtype="float32").fit(X, targets)
    assert single.gap_.max() < 1e-10
    np.testing.assert_allclose(single.loo_margins_, double.loo_margins_, atol=1e-4)


def test_errors_say_what_to_do():
    X, targets, _ = problem()
    with pytest.raises(ValueError, match="Least squares needs the whole"):
        LeastSquares(max_memory=1000).fit(X, targets)
    with pytest.raises(ValueError, match="not positive definite"):
        LeastSquares(kernel="sigmoid", gamma=5.0, coef0=-2.0, C=1e6).fit(X, targets)
    with pytest.raises(ValueError, match="Unknown bias"):
        LeastSquares(bias="fre").fit(X, targets)
    with pytest.raises(ValueError, match="one sign"):
        LeastSquares().fit(X, np.abs(targets))


def test_a_coarse_solution_is_said():
    rng = np.random.RandomState(0)
    X = rng.randn(40, 1) * 1e5
    targets = np.where(rng.rand(40, 1) > 0.5, 1, -1)
    with pytest.warns(ConvergenceWarning, match="residual"):
        LeastSquares(kernel="linear", C=1e3).fit(X, targets)


def test_in_the_classifier():
    X, y = load_iris(return_X_y=True)
    for code in ("ova", "ovo"):
        clf = OutputCodeClassifier(code, machine="ls", decoder="linear").fit(X, y)
        assert clf.score(X, y) > 0.95
    assert isinstance(machines.resolve("ls"), LeastSquares)
    assert clone(LeastSquares(C=3)).C == 3


def test_columns_of_the_same_rows_share_a_system():
    rng = np.random.RandomState(0)
    mask = rng.rand(37, 4)[:, rng.randint(4, size=30)] < 0.5
    groups = dichotomies.equal_columns(mask)
    assert sorted(np.concatenate(groups).tolist()) == list(range(30))
    assert len(groups) == len(np.unique(mask, axis=1).T)
    for places in groups:
        assert (mask[:, places] == mask[:, places[:1]]).all()
