"""Machines with a kernel, a width and a C per column: K^s and G^s of [PPF04]."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import load_iris

from oracles import kernel_matrix, svm_dual
from outcode import OutputCodeClassifier, codes, folds, loo, persistence
from outcode.machines import SVM, LeastSquares, PerColumn
from outcode.selection import ColumnSearch, KernelSearchCV, LOOBoundSearch

X, Y = load_iris(return_X_y=True)
OWN = [{"gamma": 0.1}, {"gamma": 1.0, "C": 10.0}, {"gamma": 1.0}]
CODES = {
    "ova": "ova",
    "ovo": "ovo",
    "dense": codes.DenseRandom(n_draws=20),
    "sparse": codes.SparseRandom(n_columns=6, n_draws=20),
}
COVERED = ["linear", "hinge", "hamming", "likelihood"]
KERNELS = ["rbf", "linear", "poly", "laplacian"]


def problem(seed):
    """Rows of three or four classes, some of them easy, and settings for the columns of a code."""
    rng = np.random.RandomState(seed)
    n_classes = rng.randint(3, 5)
    y = np.concatenate([np.repeat(np.arange(n_classes), 3), rng.randint(n_classes, size=3)])
    spread = rng.choice([0.3, 1.0, 2.0])
    rows = rng.randn(len(y), 2) + spread * np.column_stack([np.cos(y), np.sin(2 * y)])
    code = codes.code_matrix([*CODES.values()][seed % 4], n_classes, random_state=seed)
    settings = [
        {
            "kernel": str(rng.choice(KERNELS)),
            "gamma": float(rng.choice([0.1, 1.0, 10.0])),
            "C": float(rng.choice([0.1, 1.0, 10.0, 100.0])),
        }
        for _ in range(code.shape[1])
    ]
    machine = SVM(degree=2, coef0=1.0, bias=["kernel", "none"][seed // 4 % 2], tol=1e-8)
    return rows, y, code, PerColumn(machine, settings)


def test_the_bound_is_never_below_exact_leave_one_out(capsys):
    """200 problems: the error is that of retraining without each row, ties counted as errors."""
    bounds, errors = [], []
    for seed in range(200):
        rows, y, code, machine = problem(seed)
        clf = OutputCodeClassifier(code, machine, "linear", n_jobs=1).fit(rows, y)
        held_out = loo.exact(clf, rows, y).held_out
        for decoder in COVERED:
            clf = clf.with_decoder(decoder, rows)
            scores = clf.decoder_.scores(held_out)
            own = scores[np.arange(len(y)), clf.labels_].copy()
            scores[np.arange(len(y)), clf.labels_] = -np.inf
            wrong = own <= scores.max(axis=1)
            found, sharp = loo.bound(clf), loo.sharp_bound(clf, rows)
            assert not (wrong & ~sharp.flags).any(), f"problem {seed}, {decoder}"
            assert not (sharp.flags & ~found.flags).any()
            bounds.append(found.error)
            errors.append(wrong.mean())
    assert len(errors) == 800
    with capsys.disabled():
        print(
            f"\nbound / leave-one-out error, a kernel per column: {sum(bounds) / sum(errors):.2f}"
        )


def test_the_exact_error_is_retraining_each_column_on_its_own_kernel():
    """Against a generic quadratic program on kernel matrices by a double loop."""
    rows, y, code, machine = problem(4)
    clf = OutputCodeClassifier(code, machine, "linear").fit(rows, y)
    held_out = loo.exact(clf, rows, y).held_out
    targets = code[clf.labels_].astype(float)
    for s, own in enumerate(machine.settings):
        options = {"gamma": own["gamma"], "degree": 2, "coef0": 1.0}
        K = kernel_matrix(own["kernel"], rows, rows, **options)
        np.testing.assert_allclose(clf.machine_.gram_diagonal_[:, s], np.diag(K), atol=1e-9)
        for i in range(0, len(y), 4):
            box = own["C"] * (targets[:, s] != 0) * (np.arange(len(y)) != i)
            alpha, _ = svm_dual(K, targets[:, s], box, machine.machine.bias)
            shift = 1.0 if machine.machine.bias == "kernel" else 0.0
            f = (K[i] + shift) @ (alpha * targets[:, s])
            np.testing.assert_allclose(held_out[i, s], f, atol=1e-3 * max(1.0, abs(f)))


def test_the_bound_is_theorem_4_1_with_g_of_each_column():
    own = [{"kernel": "linear"}, {"gamma": 2.0}, {"kernel": "poly", "gamma": 1.0}]
    clf = OutputCodeClassifier("ova", PerColumn(SVM(C=0.05), own), "linear").fit(X, Y)
    m, alpha = clf.code_.astype(float), np.abs(clf.machine_.dual_coef_)
    G = np.column_stack([(X**2).sum(axis=1), np.ones(150), (X**2).sum(axis=1) ** 3]) + 1.0
    found, f = loo.bound(clf), clf.machine_.training_margins_
    for i, y in enumerate(clf.labels_):
        others = [q for q in range(3) if q != y]
        p = max(others, key=lambda q: m[q] @ f[i])
        for q in others:
            U = (m[q] - m[p]) @ f[i] + (m[y] * (m[y] - m[q]) * alpha[i] * G[i]).sum()
            np.testing.assert_allclose(found.U[i, q], U, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("code", ["ova", "ovo"])
@pytest.mark.parametrize("inner", [SVM(tol=1e-8), LeastSquares()])
def test_every_column_is_a_machine_of_its_own(code, inner, tmp_path):
    clf = OutputCodeClassifier(code, PerColumn(inner, OWN), "likelihood").fit(X, Y)
    targets = clf.code_[clf.labels_]
    fold = folds.content_folds(X, Y, 3)
    held_out = clf.machine_.held_out_margins(clf.posed(X).store, targets, fold)
    for s, own in enumerate(OWN):
        one = clone(inner).set_params(**own)
        one.fit_gram(store := one.gram(X, targets[:, [s]]), targets[:, [s]])
        np.testing.assert_allclose(clf.margins(X)[:, [s]], one.margins(X), atol=1e-6)
        np.testing.assert_allclose(
            clf.machine_.gradients(X[:5])[:, s], one.gradients(X[:5])[:, 0], atol=1e-6
        )
        expected = one.held_out_margins(store, targets[:, [s]], fold)
        np.testing.assert_allclose(held_out[:, [s]], expected, atol=1e-6)
        assert clf.machine_.C[s] == one.C
    assert len(clf.machine_.machines_) == 3
    path = tmp_path / "model"
    persistence.save(clf, path)
    again = persistence.load(path)
    np.testing.assert_array_equal(again.margins(X), clf.margins(X))
    np.testing.assert_array_equal(again.predict_proba(X), clf.predict_proba(X))
    persistence.save(again, path)


def test_columns_share_a_gram_matrix_where_kernels_are_equal():
    clf = OutputCodeClassifier("ova", PerColumn(SVM(), OWN)).fit(X, Y)
    first, second, third = clf.posed(X).store.parts
    assert second is third
    assert first is not second
    same = OutputCodeClassifier("ova", PerColumn(SVM(gamma=0.5))).fit(X, Y)
    whole = OutputCodeClassifier("ova", SVM(gamma=0.5)).fit(X, Y)
    np.testing.assert_array_equal(same.margins(X), whole.margins(X))


def test_what_cannot_be():
    with pytest.raises(ValueError, match="2 entries, but the code has 3 columns"):
        OutputCodeClassifier("ova", PerColumn(SVM(), OWN[:2])).fit(X, Y)
    with pytest.raises(ValueError, match="cannot have a 'bias' of its own, only kernel, gamma"):
        OutputCodeClassifier("ova", PerColumn(SVM(), [{"bias": "free"}] * 3)).fit(X, Y)
    with pytest.raises(ValueError, match=r"one kernel for all columns.*ColumnSearch"):
        KernelSearchCV(OutputCodeClassifier("ova", PerColumn(SVM()))).fit(X, Y)
    other = PerColumn(SVM(), OWN)
    clf = OutputCodeClassifier("ova", other, "linear").fit(X, Y)
    with pytest.raises(ValueError, match="fitted on"):
        loo.sharp_bound(clf, X[::-1])


@pytest.mark.parametrize("decoder", ["linear", "likelihood"])
def test_a_setting_per_column_has_no_larger_bound_than_one_for_all(decoder):
    noisy = X + 0.5 * np.random.RandomState(0).randn(*X.shape)
    clf, gammas = OutputCodeClassifier("ova", SVM(tol=1e-6), decoder), [0.05, 0.2, 1.0, 5.0]
    common = LOOBoundSearch(clf, gammas, [0.5, 2.0]).fit(noisy, Y)
    search = ColumnSearch(clf, gammas, [0.5, 2.0]).fit(noisy, Y)
    assert search.common_bound_ == common.best_bound_
    assert search.best_bound_ < search.common_bound_
    assert loo.bound(search.best_estimator_).error == pytest.approx(search.best_bound_)
    assert len(search.settings_) == 3
    assert clone(search).get_params()["gammas"] == gammas
    search.plot()
