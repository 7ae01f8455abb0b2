"""The support vector machine against a generic QP solver, LIBSVM, and itself."""

from __future__ import annotations

import pickle
import tracemalloc

import numpy as np
import pytest
from sklearn.datasets import load_iris
from sklearn.exceptions import ConvergenceWarning
from sklearn.svm import SVC

import oracles
from outcode import OutputCodeClassifier, codes, dichotomies, kernels
from outcode import gram as grams
from outcode.machines import SVM
from outcode.solvers.svm import loops
from outcode.solvers.svm.interior import interior
from outcode.training import Used

KERNELS = ("rbf", "linear", "poly", "laplacian")


def problem(seed):
    """A small random problem: rows, labels, a ternary code, weights, a kernel and a C."""
    rng = np.random.RandomState(seed)
    n, k = rng.randint(12, 40), rng.randint(3, 5)
    labels = np.concatenate([np.arange(k), rng.randint(k, size=n - k)])
    X = rng.randn(n, rng.randint(1, 5)) + 0.8 * labels[:, None]
    if seed % 5 == 0:
        X[1::4] = X[::4][: len(X[1::4])]  # repeated rows make the kernel matrix singular
    code = codes.code_matrix(("ova", "ovo", "dense", "sparse")[seed % 4], k, random_state=seed)
    weight = rng.randint(0, 4, size=n).astype(float) if seed % 3 == 0 else np.ones(n)
    weight[: 2 * k] = np.maximum(weight[: 2 * k], 1.0)
    return X, code[labels], weight, KERNELS[seed % len(KERNELS)], 10.0 ** rng.uniform(-2, 1.5)


@pytest.mark.parametrize("bias", ["kernel", "free", "none"])
def test_objective_equals_generic_qp(bias):
    worst = 0.0
    for seed in range(80):
        X, targets, weight, kernel, C = problem(seed)
        params = {"gamma": 0.3, "degree": 2, "coef0": 1.0}
        machine = SVM(kernel, C=C, bias=bias, tol=1e-9, **params).fit(X, targets, weight)
        K = oracles.kernel_matrix(kernel, X, X, **params)
        for s in range(targets.shape[1]):
            y = targets[:, s].astype(float)
            box = np.where(y != 0, C * weight, 0.0)
            _, best = oracles.svm_dual(K, y, box, bias)
            coef = machine.dual_coef_[:, s]
            Q = K + 1.0 if bias == "kernel" else K
            ours = coef @ y - 0.5 * coef @ Q @ coef
            worst = max(worst, abs(ours - best) / max(1.0, abs(best)))
            assert machine.gap_[s] < 1e-6
            assert abs(machine.objective_[s] - best) <= 1e-6 * max(1.0, abs(best))
            assert np.all(coef * y >= 0)
            assert np.all(np.abs(coef) <= box)
            assert abs(coef.sum()) < 1e-9 or bias != "free"
    assert worst < 1e-6


@pytest.mark.parametrize("kernel", ["rbf", "linear", "poly"])
def test_free_bias_equals_libsvm_on_every_column(kernel):
    rng = np.random.RandomState(0)
    labels = rng.randint(4, size=160)
    X = rng.randn(160, 3) + 1.2 * np.eye(4)[labels][:, :3]
    code = codes.code_matrix("sparse", 4, random_state=0)
    params = {"kernel": kernel, "gamma": 0.2, "coef0": 0.5, "degree": 2, "C": 3.0, "tol": 1e-7}
    ours = SVM(bias="free", **params).fit(X, code[labels])
    for s, target in enumerate(code[labels].T):
        used = target != 0
        theirs = SVC(**params).fit(X[used], target[used])
        # LIBSVM keeps kernel values in float32: its own margins are off by about 1e-5
        np.testing.assert_allclose(ours.margins(X)[:, s], theirs.decision_function(X), atol=1e-4)


def test_shrinking_gives_the_same_solution():
    """Large enough that rows are left out and gathered, against a generic QP."""
    rng = np.random.RandomState(1)
    labels = rng.randint(5, size=1500)
    X = rng.randn(1500, 2) + 4.0 * np.column_stack([np.cos(labels), np.sin(labels)])
    for bias in ("kernel", "free"):
        machine = SVM(gamma=0.5, C=5.0, bias=bias, tol=1e-6)
        machine.fit(X, codes.code_matrix("ova", 5)[labels])
        K = oracles.kernel_matrix_fast(X, 0.5)
        y = np.where(labels == 0, 1.0, -1.0)
        _, best = oracles.svm_dual(K, y, np.full(1500, 5.0), bias)
        assert machine.objective_[0] == pytest.approx(best, rel=1e-6)
        assert machine.gap_.max() < 1e-5


@pytest.mark.parametrize("bias", ["kernel", "free", "none"])
def test_rows_on_demand_give_the_same_solution(bias):
    rng = np.random.RandomState(2)
    labels = rng.randint(3, size=700)
    X = rng.randn(700, 2) + 2.0 * np.column_stack([np.cos(labels), np.sin(labels)])
    targets = codes.code_matrix("ovo", 3)[labels]
    whole = SVM(gamma=1.0, bias=bias, tol=1e-8).fit(X, targets)
    with pytest.warns(UserWarning, match="computed on demand"):
        rows = SVM(gamma=1.0, bias=bias, tol=1e-8, max_memory=700 * 8 * 100).fit(X, targets)
    np.testing.assert_allclose(rows.dual_coef_, whole.dual_coef_, atol=1e-6)
    np.testing.assert_allclose(rows.margins(X), whole.margins(X), atol=1e-6)


@pytest.mark.parametrize("bias", ["kernel", "free", "none"])
def test_squares_of_a_few_rows_at_a_time_give_the_same_solution(bias):
    rng = np.random.RandomState(2)
    labels = rng.randint(3, size=700)
    X = rng.randn(700, 2) + 2.0 * np.column_stack([np.cos(labels), np.sin(labels)])
    targets = codes.code_matrix("ova", 3)[labels]
    whole = SVM(gamma=1.0, bias=bias, tol=1e-6).fit(X, targets)
    with pytest.warns(UserWarning, match="computed on demand"):
        rows = SVM(gamma=1.0, bias=bias, tol=1e-6, max_memory=700 * 8 * 150).fit(X, targets)
    np.testing.assert_allclose(rows.objective_, whole.objective_, rtol=1e-6)
    np.testing.assert_allclose(rows.margins(X), whole.margins(X), atol=1e-4)
    assert rows.gap_.max() < 1e-5


def clouds(n, k, d=4):
    rng = np.random.RandomState(0)
    y = np.arange(n) % k
    return rng.randn(k, d)[y] * 1.5 + rng.randn(n, d), y


@pytest.mark.parametrize("budget", [2.0**22, 2.0**27])
def test_a_store_on_demand_keeps_rows_and_gives_the_same_solution(budget):
    X, y = clouds(2100, 3)
    targets = codes.code_matrix("ovo", 3)[y]
    kernel, order = kernels.Gaussian(gamma=0.5), np.argsort(y, kind="stable")
    rows = kernel.prepare(X, kernel.origin(X))
    whole = grams.DenseGram(grams.gram_matrix(kernel, rows[order], np.float64), order)
    store = grams.RowGram(kernel, rows, np.float64, budget, order)
    machines_ = [SVM(C=3.0, tol=1e-6).fit_gram(gram, targets) for gram in (whole, store, store)]
    dense, rows_, again = machines_
    np.testing.assert_allclose(rows_.objective_, dense.objective_, rtol=1e-6)
    np.testing.assert_allclose(rows_.training_margins_, dense.training_margins_, atol=1e-4)
    assert max(rows_.gap_) < 1e-4
    one = SVM(C=3.0, tol=1e-6).fit_gram(store, targets, n_jobs=1)
    np.testing.assert_array_equal(one.dual_coef_, again.dual_coef_)


def test_a_store_of_squares_gives_the_solution_of_the_whole_matrix_for_any_number_of_threads():
    X, y = clouds(2100, 6)
    targets = codes.code_matrix("ovo", 6)[y]
    kernel, order = kernels.Gaussian(gamma=0.5), np.argsort(y, kind="stable")
    rows = kernel.prepare(X, kernel.origin(X))
    whole = grams.DenseGram(grams.gram_matrix(kernel, rows[order], np.float64), order)
    store = grams.SquareGram(kernel, rows, np.float64, 2.0**27, order)
    index = np.concatenate([np.arange(350), np.arange(700, 1050)])
    np.testing.assert_allclose(store.block(index), whole.block(index), rtol=1e-13)
    scattered = np.arange(0, 2100, 7)
    np.testing.assert_allclose(store.block(scattered), whole.block(scattered), rtol=1e-13)
    dense = SVM(C=3.0, tol=1e-6).fit_gram(whole, targets)
    one, two = (SVM(C=3.0, tol=1e-6).fit_gram(store, targets, n_jobs=jobs) for jobs in (1, 2))
    np.testing.assert_allclose(one.objective_, dense.objective_, rtol=1e-9)
    np.testing.assert_allclose(one.training_margins_, dense.training_margins_, atol=1e-6)
    np.testing.assert_array_equal(one.dual_coef_, two.dual_coef_)


def test_columns_of_a_few_features_are_solved_without_the_whole_matrix():
    X, y = clouds(5200, 8)
    clf = OutputCodeClassifier("ovo", SVM(C=3.0), "hamming")
    gram = clf.machine.gram(X, codes.code_matrix("ovo", 8)[y])
    assert isinstance(gram, grams.SquareGram)
    index = np.arange(1300)
    assert isinstance(gram.square(index, np.empty(1300**2, gram.dtype)), grams.DenseGram)
    assert gram.square(index, np.empty(10, gram.dtype)).matrix is None  # too little memory


def test_kept_rows_are_kernel_values():
    X, _ = clouds(60, 3)
    kernel = kernels.Gaussian(gamma=0.5)
    rows, index = kernel.prepare(X), np.arange(5, 45)
    store = grams.RowGram(kernel, rows, np.float64, 2.0**20).square(index, np.empty(20 * 40))
    K = kernel.block(rows[index], rows[index])
    for some in (np.arange(8), np.arange(4, 20), np.arange(30)):  # the last ones are not kept
        out = np.zeros(len(index))
        store.add(some, np.linspace(1, 2, len(some)), out)
        np.testing.assert_allclose(out, np.linspace(1, 2, len(some)) @ K[some], rtol=1e-12)
        asked = np.array([1, 3, 6, 25, 35])
        np.testing.assert_allclose(store.block(asked), K[np.ix_(asked, asked)], rtol=1e-12)
    assert store.used == 20


@pytest.mark.parametrize(("code", "share"), [("ova", 1.3), ("ovo", 0.6)])
def test_peak_memory_of_a_fit_is_within_the_gram_matrix(code, share):
    X, y = clouds(6000, 10, d=64)
    clf = OutputCodeClassifier(code, SVM(C=10), "hamming", n_jobs=2)
    clf.fit(X[:5100], y[:5100])  # compiled before memory is counted
    tracemalloc.start()
    clf.fit(X, y)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < share * len(X) ** 2 * 4


@pytest.mark.parametrize("gamma", [0.02, 5.0])
def test_float32_values_are_precise_near_and_far(gamma):
    X, _ = clouds(300, 3, d=30)
    kernel = kernels.Gaussian(gamma=gamma)
    rows = kernel.prepare(X, kernel.origin(X))
    single = grams.gram_matrix(kernel, rows, np.float32)
    assert kernel.narrowed(rows, np.float32).values.dtype == (
        np.float32 if gamma < 1 else np.float64
    )
    np.testing.assert_allclose(single, grams.gram_matrix(kernel, rows, np.float64), atol=2e-6)


def test_targets_as_code_and_labels_train_the_same_machine():
    X, y = clouds(90, 5)
    code = codes.code_matrix("ovo", 5)
    coded = SVM(C=2.0).fit(X, dichotomies.Coded(code, y))
    np.testing.assert_array_equal(coded.dual_coef_, SVM(C=2.0).fit(X, code[y]).dual_coef_)


def test_float32_gram_is_close():
    rng = np.random.RandomState(3)
    labels = rng.randint(3, size=400)
    X = rng.randn(400, 2) + labels[:, None]
    targets = codes.code_matrix("ova", 3)[labels]
    double = SVM(gamma=0.5).fit(X, targets)
    single = SVM(gamma=0.5, dtype="float32").fit(X, targets)
    assert single.gram_dtype_ == np.float32
    np.testing.assert_allclose(single.objective_, double.objective_, rtol=1e-3)


def test_duplicated_row_equals_weight_two():
    rng = np.random.RandomState(4)
    labels = rng.randint(3, size=60)
    X, weight = rng.randn(60, 2) + labels[:, None], rng.randint(1, 4, size=60)
    targets = codes.code_matrix("ovo", 3)[labels]
    for gamma in (0.5, "scale"):
        weighted = SVM(gamma=gamma, tol=1e-9).fit(X, targets, weight)
        rows = np.repeat(np.arange(60), weight)
        repeated = SVM(gamma=gamma, tol=1e-9).fit(X[rows], targets[rows])
        np.testing.assert_allclose(weighted.margins(X), repeated.margins(X), atol=1e-6)


def test_margins_are_one_product_and_norms_are_norms():
    rng = np.random.RandomState(5)
    labels = rng.randint(4, size=80)
    X = rng.randn(80, 3) + labels[:, None]
    for bias in ("kernel", "free", "none"):
        machine = SVM(gamma=0.4, bias=bias, tol=1e-8).fit(X, codes.code_matrix("ovo", 4)[labels])
        K = oracles.kernel_matrix("rbf", X, X, gamma=0.4)
        expected = K @ machine.dual_coef_ + machine.bias_
        np.testing.assert_allclose(machine.training_margins_, expected, atol=1e-8)
        np.testing.assert_allclose(machine.margins(X), expected, atol=1e-8)
        np.testing.assert_allclose(machine.margins_gram(K), expected, atol=1e-8)
        Q = K + 1.0 if bias == "kernel" else K
        norms = np.einsum("is,ij,js->s", machine.dual_coef_, Q, machine.dual_coef_)
        np.testing.assert_allclose(machine.norm2_, norms, atol=1e-8)


def test_held_out_margins_equal_refitting():
    rng = np.random.RandomState(6)
    labels = np.repeat(np.arange(3), 30)
    X = rng.randn(90, 2) + labels[:, None]
    targets, fold = codes.code_matrix("ovo", 3)[labels], np.arange(90) % 3
    for bias in ("kernel", "free", "none"):
        machine = SVM(gamma=0.4, bias=bias, tol=1e-9)
        gram = machine.gram(X, targets)
        held = machine.fit_gram(gram, targets).held_out_margins(gram, targets, fold)
        for f in range(3):
            keep = fold != f
            again = SVM(gamma=0.4, bias=bias, tol=1e-9).fit(X[keep], targets[keep])
            np.testing.assert_allclose(held[~keep], again.margins(X[~keep]), atol=1e-6)


@pytest.mark.parametrize("bias", ["kernel", "free"])
def test_held_out_margins_of_used_rows_are_those_of_all_rows(bias):
    rng = np.random.RandomState(6)
    labels = rng.permutation(np.repeat(np.arange(4), 20))
    X, code = rng.randn(80, 2) + labels[:, None], codes.code_matrix("ovo", 4)
    fold = np.arange(80) % 4 - 1  # a quarter is never held out
    machine = SVM(gamma=0.4, bias=bias, tol=1e-9)
    gram = machine.gram(X, code[labels])
    args = gram, dichotomies.Coded(code, labels), fold
    held = machine.fit_gram(*args[:2]).hold_out_used(*args)
    copied = pickle.loads(pickle.dumps(held))
    expected = np.asarray(held)
    for f in range(3):
        keep = fold != f
        again = SVM(gamma=0.4, bias=bias, tol=1e-9).fit(X[keep], code[labels][keep])
        np.testing.assert_allclose(expected[~keep], again.margins(X[~keep]), atol=1e-6)
    np.testing.assert_array_equal(expected[fold < 0], machine.training_margins_[fold < 0])
    np.testing.assert_allclose(np.asarray(copied), expected, atol=1e-12)
    one, two = held.used(), Used.of(expected, code[labels])
    for entries in (one, two):
        order = np.lexsort((entries.rows, entries.columns))
        found = np.stack([a[order] for a in (entries.rows, entries.columns, entries.signs)])
        rows, columns, signs = found.astype(int)
        np.testing.assert_array_equal(signs, code[labels][rows, columns])
        np.testing.assert_allclose(entries.values[order], expected[rows, columns], atol=1e-12)
        assert len(rows) == np.count_nonzero(code[labels])


def test_sigmoids_of_pairs_ask_for_the_margins_of_their_rows_alone():
    labels = np.arange(1_000) % 50
    X = 3.0 * np.random.RandomState(0).randn(50, 6)[labels]
    X += np.random.RandomState(1).randn(1_000, 6)
    OutputCodeClassifier("ovo", decoder="likelihood").fit(X[:200], labels[:200])  # compiled
    tracemalloc.start()
    clf = OutputCodeClassifier("ovo", decoder="likelihood").fit(X, labels)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert (
        peak < X.shape[0] ** 2 * 8 + 1_000 * clf.code_.shape[1] * 8 * 1.5
    )  # all margins once, and half of that
    margins, fold = clf.rule_.held_out_margins
    assert margins.shape == (1_000, 1_225)
    assert np.mean(clf.decoder_.best(margins) != labels) < 0.2
    assert (fold >= 0).all()


def test_kernel_values_are_single_where_the_tolerance_allows_it():
    types = [SVM(tol=tol).value_type(n) for tol in (1e-3, 1e-5) for n in (2000, 2001, 5000, 5001)]
    assert [t.itemsize for t in types] == [8, 4, 4, 4, 8, 8, 8, 4]
    assert SVM(dtype="float64").value_type(9000) == np.float64
    labels = np.arange(2_001) % 6
    X = np.random.RandomState(0).randn(2_001, 4) + labels[:, None]
    single, double = (
        OutputCodeClassifier("ovo", SVM(C=10, dtype=dtype)).fit(X, labels).machine_
        for dtype in (None, "float64")
    )
    assert single.gram_dtype_ == np.float32
    bound = single.gap_ + double.gap_ + 1e-6
    assert (np.abs(single.objective_ / double.objective_ - 1) < bound).all()


def test_same_model_for_any_number_of_threads():
    rng = np.random.RandomState(7)
    y = rng.randint(6, size=900)
    X = rng.randn(900, 4) + y[:, None]
    one, two = (
        OutputCodeClassifier("dense", random_state=3, n_jobs=jobs).fit(X, y) for jobs in (1, 2)
    )
    assert np.array_equal(one.machine_.dual_coef_, two.machine_.dual_coef_)
    assert np.array_equal(one.machine_.bias_, two.machine_.bias_)
    assert np.array_equal(one.decision_function(X), two.decision_function(X))


def test_stopping_early_warns_and_says_by_how_much():
    rng = np.random.RandomState(8)
    labels = rng.randint(2, size=100)
    X = rng.randn(100, 2)
    with pytest.warns(ConvergenceWarning, match="relative duality gap"):
        machine = SVM(max_iter=3).fit(X, np.where(labels, 1, -1)[:, None])
    assert machine.gap_[0] > 1e-3


def test_free_bias_of_rows_of_one_sign_is_finite_and_of_that_sign():
    X = np.random.RandomState(9).randn(12, 2)
    targets = np.repeat([[1], [-1]], [11, 1], axis=0)
    machine = SVM(gamma=1.0, bias="free", tol=1e-8)
    gram = machine.gram(X, targets)
    fold = np.where(targets[:, 0] < 0, 0, -1)  # leaves out the only negative row
    held = machine.fit_gram(gram, targets).held_out_margins(gram, targets, fold)
    assert held[11, 0] == pytest.approx(1.0)


def test_starting_from_another_solution_ends_at_the_same():
    rng = np.random.RandomState(10)
    labels = rng.randint(3, size=120)
    X = rng.randn(120, 2) + labels[:, None]
    targets = codes.code_matrix("ovo", 3)[labels]
    for bias in ("kernel", "free", "none"):
        first = SVM(gamma=0.5, C=1.0, bias=bias, tol=1e-9)
        gram = first.gram(X, targets)
        first.fit_gram(gram, targets)
        cold = SVM(gamma=0.5, C=4.0, bias=bias, tol=1e-9).fit(X, targets)
        warm = SVM(gamma=0.5, C=4.0, bias=bias, tol=1e-9)
        warm.gram(X, targets)
        warm.fit_gram(gram, targets, start=first)
        np.testing.assert_allclose(warm.training_margins_, cold.training_margins_, atol=1e-6)


def test_starting_from_another_kernel_ends_at_the_same():
    rng = np.random.RandomState(11)
    labels = rng.randint(3, size=700)
    X = rng.randn(700, 2) + labels[:, None]
    for code in ("ova", "ovo"):  # all rows, and few enough for a square of their own
        targets = codes.code_matrix(code, 3)[labels]
        for bias in ("kernel", "free", "none"):
            first = SVM(gamma=0.1, bias=bias).fit(X, targets)
            first.training_margins_ = None
            cold = SVM(gamma=2.0, bias=bias, tol=1e-6).fit(X, targets)
            warm = SVM(gamma=2.0, bias=bias, tol=1e-6)
            warm.fit_gram(warm.gram(X, targets), targets, start=first)
            assert warm.gap_.max() < 1e-5
            assert not np.array_equal(warm.n_iter_, cold.n_iter_)
            np.testing.assert_allclose(warm.objective_, cold.objective_, rtol=1e-5)
            np.testing.assert_allclose(warm.training_margins_, cold.training_margins_, atol=1e-4)


@pytest.mark.parametrize("shift", [0.0, 1.0])
@pytest.mark.parametrize("n", [1, 2, 17, 255, 257, 1025, 1300])
def test_blocks_end_where_no_row_wants_to_move(n, shift):
    """Sizes around the lanes and pages of the loops; repeated rows, a rank of 3, rows of no use."""
    rng = np.random.RandomState(n)
    X = np.repeat(rng.randn((n + 1) // 2, 3), 2, axis=0)[:n]
    kernels = {"linear": X @ X.T, "gaussian": oracles.kernel_matrix_fast(X, 2.0)}
    y, box = rng.choice([-1.0, 1.0], size=n), rng.choice([0.0, 0.3, 2.0], size=n)
    lo, hi = np.minimum(0.0, y * box), np.maximum(0.0, y * box)
    for name, K in kernels.items():
        for dtype, tol in ((np.float64, 1e-9), (np.float32, 1e-3)):
            s, g = np.zeros(n), (-y).astype(dtype)
            diagonal = (K.diagonal() + shift).astype(dtype)
            matrix = np.ascontiguousarray(K, dtype=dtype)
            loops.descend_blocks(matrix, diagonal, g, s, lo, hi, shift, tol, 10**6)
            assert np.all((s >= lo) & (s <= hi))
            exact = K @ s + shift * s.sum() - y
            np.testing.assert_allclose(g, exact, atol=1e-7 if dtype is np.float64 else 1e-2)
            up, down = loops.violations(exact, s, lo, hi)
            slack = tol + 1e-8 if dtype is np.float64 else 10 * tol
            assert max(up.max(), down.max()) <= slack, (name, dtype)


def test_a_tolerance_met_with_a_large_gap_is_told():
    X, y = (a[2:] for a in load_iris(return_X_y=True))  # too few rows for an interior point
    model = OutputCodeClassifier(machine=SVM("linear", C=1000))
    with pytest.warns(ConvergenceWarning, match=r"tolerance was met.*Scale the features"):
        model.fit(X, y)
    assert model.machine_.gap_.max() > 0.1
    tight = OutputCodeClassifier(machine=SVM("linear", C=1000, tol=1e-6)).fit(X, y)  # no warning
    assert tight.machine_.gap_.max() < 0.1


@pytest.mark.parametrize("bias", ["kernel", "free", "none"])
@pytest.mark.parametrize("ternary", [False, True])
def test_a_path_has_the_solutions_of_machines_trained_one_by_one(bias, ternary):
    rng = np.random.RandomState(0)
    X, labels, values = rng.randn(60, 3), np.arange(60) % 3, [0.1, 1.0, 30.0]
    code = np.array([[1, 1, 0], [-1, 0, 1], [0, -1, -1]]) if ternary else 2 * np.eye(3) - 1
    targets = code.astype(np.int8)[labels]
    fold = np.arange(60) // 3 % 4
    weights = rng.uniform(0.5, 2.0, 60) * (fold != np.arange(2)[:, None])
    machine = SVM(gamma=0.5, bias=bias, tol=1e-9)
    gram = machine.gram(X, targets)
    path = machine.fit_path(gram, targets, weights, values)
    again = machine.fit_path(gram, targets, weights, values, n_jobs=2)
    np.testing.assert_array_equal(path.solutions.coef, again.solutions.coef)
    inner = np.where(weights > 0, fold, -1)
    held_out = path.held_out_margins(inner)
    np.testing.assert_array_equal(held_out, again.held_out_margins(inner, 2))
    for k, weight in enumerate(weights):
        for c, C in enumerate(values):
            alone = SVM(gamma=0.5, bias=bias, tol=1e-9, C=C).fit_gram(gram, targets, weight)
            own = path.fitted(c, k)
            np.testing.assert_allclose(own.objective_, alone.objective_, rtol=1e-7)
            np.testing.assert_allclose(own.training_margins_, alone.training_margins_, atol=1e-6)
            found = path.margins(k, np.arange(60))[c]
            np.testing.assert_allclose(found, alone.training_margins_, atol=1e-6)
            expected = alone.held_out_margins(gram, targets, inner[k], weight)
            np.testing.assert_allclose(held_out[c, k], expected, atol=1e-6)


@pytest.mark.filterwarnings("ignore:The tolerance was met")
def test_a_kernel_that_is_not_positive_definite_is_solved_without_going_in_circles():
    for seed in range(6):
        rng = np.random.RandomState(seed)
        X, labels = 3.0 * rng.randn(60, 2), np.arange(60) % 3
        clf = OutputCodeClassifier("ova", SVM("sigmoid", gamma=0.02, C=2.0, tol=1e-2))
        assert clf.fit(X + 4.0 * labels[:, None], labels).machine_.n_iter_.max() < 10_000


@pytest.mark.parametrize("bias", ["kernel", "free", "none"])
@pytest.mark.parametrize("seed", range(8))
def test_an_interior_point_is_the_solution_of_a_linear_kernel(bias, seed):
    rng = np.random.RandomState(seed)
    X = rng.randn(60, rng.randint(1, 6))
    y = np.where(X[:, 0] + rng.randn(60) > 0, 1.0, -1.0)
    box = 10.0 ** rng.uniform(-1, 4) * rng.randint(0 if seed % 2 else 1, 3, size=60)
    Z = np.column_stack([X, np.ones(60)]) if bias == "kernel" else X
    alpha = y * interior(Z, y, box, bias == "free")
    best = oracles.svm_dual(X @ X.T, y, box, bias)[1]
    found = alpha.sum() - np.sum((Z.T @ (alpha * y)) ** 2) / 2
    assert np.all((alpha >= 0) & (alpha <= box))
    np.testing.assert_allclose(found, best, rtol=1e-5)


def test_an_interior_point_of_one_sign_or_beyond_float64_is_no_start():
    assert not interior(np.ones((3, 1)), np.ones(3), np.ones(3), free=True).any()
    assert np.isfinite(
        interior(np.full((4, 1), 1e200), np.array([1.0, -1, 1, -1]), np.ones(4), False)
    ).all()


@pytest.mark.parametrize("bias", ["kernel", "free"])
@pytest.mark.parametrize("code", ["ova", "ovo"])
def test_a_linear_kernel_and_a_large_C_converge(bias, code):
    X, y = load_iris(return_X_y=True)
    X, y = np.tile(X, (4, 1)) + 0.5 * np.random.RandomState(0).randn(600, 4), np.tile(y, 4)
    models = [
        OutputCodeClassifier(code, SVM("linear", C=1e4, bias=bias), n_jobs=n).fit(X, y)
        for n in (1, 2)
    ]
    assert models[0].machine_.gap_.max() < 1e-3
    assert models[0].machine_.n_iter_.max() < 20_000  # coordinate steps alone: millions
    assert np.array_equal(models[0].machine_.dual_coef_, models[1].machine_.dual_coef_)
