"""Kessler's construction against explicit difference vectors; concatenated rows against SVC."""

from __future__ import annotations

import clarabel
import numpy as np
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.datasets import make_blobs
from sklearn.exceptions import ConvergenceWarning
from sklearn.svm import SVC, LinearSVC

from outcode import OutputCodeClassifier, SingleBinaryClassifier
from outcode.machines import MACHINES, SVM, Concatenated, Kessler
from outcode.persistence import ModelError, save


def data(n=40, n_classes=4, seed=0):
    X, y = make_blobs(n, 3, centers=n_classes, cluster_std=3.0, random_state=seed)
    return X / 5.0, y


def difference_vectors(X, y, k):
    """x in block i and -x in block j, for every row of class i and every other class j."""
    out = []
    for x, i in zip(X, y, strict=True):
        for j in range(k):
            if j != i:
                blocks = np.zeros((k, X.shape[1]))
                blocks[i], blocks[j] = x, -x
                out.append(blocks.ravel())
    return np.array(out)


def through_the_origin(Z, box):
    """The support vector machine with all rows positive and no bias, by a generic solver."""
    n = len(Z)
    constraints = sparse.vstack([sparse.eye(n), -sparse.eye(n)]).tocsc()
    settings = clarabel.DefaultSettings()
    settings.verbose, settings.tol_gap_abs, settings.tol_gap_rel = False, 1e-13, 1e-13
    settings.tol_feas = 1e-13
    quadratic = sparse.triu(sparse.csc_matrix(Z @ Z.T)).tocsc()
    limits = np.r_[np.broadcast_to(box, n), np.zeros(n)]
    cones = [clarabel.NonnegativeConeT(2 * n)]
    solver = clarabel.DefaultSolver(quadratic, -np.ones(n), constraints, limits, cones, settings)
    return np.array(solver.solve().x) @ Z


def blocks_of(clf, X):
    """The vectors w_r of a linear machine, from its dual variables."""
    return clf.machine_.dual_coef_.T @ X


@pytest.mark.parametrize(("k", "C"), [(3, 0.3), (4, 0.05), (4, 5.0), (5, 1.0)])
def test_equals_a_quadratic_program_over_difference_vectors(k, C):
    X, y = data(30, k)
    machine = Kessler(kernel="linear", C=C, tol=1e-9, max_iter=200_000)
    clf = OutputCodeClassifier("ova", machine, "linear").fit(X, y)
    W = through_the_origin(difference_vectors(X, y, k), C).reshape(k, -1)
    np.testing.assert_allclose(blocks_of(clf, X), W, atol=1e-6)
    np.testing.assert_allclose(clf.margins(X), X @ W.T, atol=1e-6)
    assert clf.machine_.gap_ < 1e-6
    assert np.all((clf.machine_.pair_coef_ >= 0) & (clf.machine_.pair_coef_ <= C))
    assert not clf.machine_.pair_coef_[np.arange(30), y].any()


def test_constraint_classification_is_the_same_machine():
    """Each vector, and its negative with the label -1, at half the cost."""
    X, y = data(30, 3)
    Z = difference_vectors(X, y, 3)
    both, signs = np.vstack([Z, -Z]), np.r_[np.ones(len(Z)), -np.ones(len(Z))]
    explicit = LinearSVC(loss="hinge", C=0.5, fit_intercept=False, tol=1e-10, max_iter=10**6)
    explicit.fit(both, signs)
    machine = Kessler(kernel="linear", C=1.0, tol=1e-9, max_iter=200_000)
    clf = OutputCodeClassifier("ova", machine, "linear").fit(X, y)
    np.testing.assert_allclose(blocks_of(clf, X).ravel(), explicit.coef_.ravel(), atol=1e-5)


def test_separates_three_classes_on_a_line():
    """One class against the others with a shared bias cannot tell the middle class."""
    X = np.array([[-1.0, 1.0], [0.0, 1.0], [1.0, 1.0]])
    y = np.array(["left", "middle", "right"])
    clf = OutputCodeClassifier("ova", Kessler(kernel="linear", C=1e4), "linear").fit(X, y)
    assert clf.predict(X).tolist() == y.tolist()
    own = clf.margins(X)[np.arange(3), np.arange(3)]
    lead = own[:, None] - clf.margins(X) + 10 * np.eye(3)
    assert lead.min() >= 1 - 1e-2
    shared = SingleBinaryClassifier("identity", "linear", class_kernel="linear", C=1e4)
    assert shared.fit(X, y).predict(X).tolist() != y.tolist()


def test_two_classes_are_one_machine_through_the_origin():
    X, y = data(40, 2)
    clf = OutputCodeClassifier("ova", Kessler(kernel="linear", C=0.7, tol=1e-9)).fit(X, y)
    W = through_the_origin(difference_vectors(X, y, 2), 0.7).reshape(2, -1)
    np.testing.assert_allclose(clf.margins(X).ravel(), X @ (W[1] - W[0]), atol=1e-6)


def test_a_weight_is_a_repeated_row_and_held_out_margins_are_those_of_a_refit():
    X, y = data(40, 3)
    weight = np.arange(40) % 3
    clf = OutputCodeClassifier("ova", Kessler(gamma=0.5, tol=1e-9, max_iter=10**5))
    margins = clf.fit(X, y, weight).margins(X)
    repeated = clf.fit(np.repeat(X, weight, axis=0), np.repeat(y, weight)).margins(X)
    np.testing.assert_allclose(margins, repeated, atol=1e-6)
    clf.fit(X, y)
    gram, targets = clf.machine_.gram(X, clf.code_[y]), clf.code_[y]
    fold = np.arange(40) % 2
    held_out = clf.machine_.held_out_margins(gram, targets, fold)
    refit = OutputCodeClassifier("ova", Kessler(gamma=0.5, tol=1e-9, max_iter=10**5))
    refit.fit(X[fold == 1], y[fold == 1])
    np.testing.assert_allclose(held_out[fold == 0], refit.margins(X[fold == 0]), atol=1e-6)


def test_rows_on_demand_give_the_same_machine():
    X, y = data(60, 3)
    clf = OutputCodeClassifier("ova", Kessler(gamma=0.5, tol=1e-8, max_iter=10**5))
    expected = clf.fit(X, y).margins(X)
    clf.set_params(machine__max_memory=8 * 60 * 10)
    with pytest.warns(UserWarning, match="on demand"):
        clf.fit(X, y)
    np.testing.assert_allclose(clf.margins(X), expected, atol=1e-6)


def test_it_is_found_by_name_asks_for_a_column_per_class_and_says_when_it_stops_early():
    X, y = data()
    assert MACHINES["kessler"] is Kessler
    with pytest.raises(ValueError, match="use code='ova'"):
        OutputCodeClassifier("ovo", "kessler").fit(X, y)
    with pytest.warns(ConvergenceWarning, match="stopped early"):
        OutputCodeClassifier("ova", Kessler(max_iter=1, C=100)).fit(X, y)


# --- rows with an extension behind them ---


def concatenated(X, M):
    """(x_i, M_r) for every row and column, row by row."""
    return np.array([np.r_[x, extension] for x in X for extension in M])


@pytest.mark.parametrize("kernel", ["linear", "poly", "rbf"])
@pytest.mark.parametrize("extension", ["identity", "single", "matrix"])
@pytest.mark.filterwarnings("ignore:Solver terminated early")  # LIBSVM, on its float32 kernel
def test_concatenation_equals_svc_on_concatenated_rows(kernel, extension):
    (X, y), (Z, _) = data(40, 4), data(15, 4, seed=1)
    matrices = {"identity": np.eye(4), "single": np.arange(1.0, 5.0)[:, None]}
    M = matrices.get(extension, np.random.RandomState(0).randn(4, 2))
    given = extension if extension in matrices else M
    shape = {"kernel": kernel, "gamma": 0.3, "degree": 2, "coef0": 1.0, "C": 0.5}
    machine = Concatenated(SVM(**shape, bias="free", tol=1e-9), given)
    clf = OutputCodeClassifier("ova", machine, "linear").fit(X, y)
    targets = np.where(np.arange(4) == y[:, None], 1, -1)
    svc = SVC(**shape, tol=1e-6, max_iter=300_000).fit(concatenated(X, M), targets.ravel())
    expected = svc.decision_function(concatenated(Z, M)).reshape(-1, 4)
    np.testing.assert_allclose(clf.margins(Z), expected, atol=5e-5)
    sparse_rows = clf.margins(Z), clf.fit(sparse.csr_matrix(X), y).margins(sparse.csr_matrix(Z))
    np.testing.assert_allclose(*sparse_rows, atol=1e-6)


def test_the_gaussian_kernel_of_concatenated_rows_is_the_product():
    X, y = data(40, 4)
    machine = Concatenated(SVM(gamma=0.3, bias="free", tol=1e-9))
    copies = OutputCodeClassifier("ova", machine, "linear").fit(X, y)
    product = SingleBinaryClassifier("identity", gamma=0.3, tol=1e-9).fit(X, y)
    np.testing.assert_allclose(copies.margins(X), product.margins(X), atol=1e-5)


def test_concatenated_rows_held_out_weighted_and_not_saved(tmp_path):
    X, y = data(40, 3)
    machine = Concatenated(SVM(gamma=0.3, tol=1e-9, class_weight="balanced"))
    clf = OutputCodeClassifier("ova", machine, "likelihood", random_state=0).fit(X, y)
    with pytest.raises(ModelError, match="Concatenated cannot be written"):
        save(clf, tmp_path / "model.oc")
    fold = np.arange(40) % 2
    held_out = clf.machine_.held_out_margins(X, clf.code_[y], fold)
    refit = clone(machine).fit(X[fold == 1], clf.code_[y][fold == 1])
    np.testing.assert_allclose(held_out[fold == 0], refit.margins(X[fold == 0]), atol=1e-9)
    with pytest.raises(ValueError, match="Extensions are appended to the rows"):
        OutputCodeClassifier("ova", Concatenated(SVM("precomputed"))).fit(X @ X.T, y)
