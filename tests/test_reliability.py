"""Reliability-weighted decoding against explicit loops over rows, columns and neighbours."""

from __future__ import annotations

import math
import pickle
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.datasets import load_iris, make_blobs
from sklearn.linear_model import LogisticRegression

import oracles
from outcode import OutputCodeClassifier, codes, datasets, folds, kernels
from outcode.app.papers import lz05
from outcode.decoders import (
    DynamicReliability,
    StaticReliability,
    Training,
    neighbours,
    reliability,
)
from outcode.machines import SVM

CODES = ("ova", "ovo", "sparse", "dense")


class Fitted:
    """A machine that is what a decoder asks for, and no more."""

    kernel_, dual_coef_ = kernels.Gaussian(), None

    def __init__(self, margins, norm2, objective=None, C=1.0):
        self.training_margins_, self.norm2_, self.C = margins, norm2, C
        self.objective_ = norm2 if objective is None else objective


def problem(n=60, n_classes=4, seed=0, n_test=25):
    X, y = make_blobs(n + n_test, centers=n_classes, cluster_std=3.5, random_state=seed)
    return X[:n], y[:n], X[n:]


def classifier(decoder, code="ova", n_classes=4, **machine):
    svm = SVM(**{"gamma": 0.1, "C": 2.0, "tol": 1e-5, **machine})
    return OutputCodeClassifier(codes.code_matrix(code, n_classes, random_state=3), svm, decoder)


def fake(n=40, n_test=12, code="ova", seed=0, weight=None, **decoder):
    """Return a decoder fitted on random margins, and test margins and rows."""
    rng = np.random.RandomState(seed)
    matrix = codes.code_matrix(code, 4, random_state=seed)
    labels, X = rng.randint(4, size=n), rng.randn(n, 3)
    machine = Fitted(rng.randn(n, matrix.shape[1]), rng.rand(matrix.shape[1]))
    weight = np.ones(n) if weight is None else weight
    training = Training(matrix, labels, X, machine, weight, lambda folds: machine.training_margins_)
    return (
        DynamicReliability(**decoder).fit(training),
        rng.randn(n_test, matrix.shape[1]),
        rng.randn(n_test, 3),
        training,
    )


def sign(f):
    return 1 if f >= 0 else -1


def sigma_by_loops(clf, weight, s):
    total = 0.0
    for i, q in enumerate(clf.labels_):
        if clf.code_[q, s] != 0:
            total += clf.machine_.C * weight[i]
    return total


def static_by_loops(clf, weight):
    machine, out = clf.machine_, []
    for s in range(clf.code_.shape[1]):
        objective = 0.5 * machine.norm2_[s]
        for i, q in enumerate(clf.labels_):
            t, f = int(clf.code_[q, s]), machine.training_margins_[i, s]
            if t != 0:
                objective += machine.C * weight[i] * max(0.0, 1.0 - t * f)
        out.append(math.exp(-objective / sigma_by_loops(clf, weight, s)))
    return np.array(out)


def dynamic_by_loops(clf, weight, k, margins, distances):
    """[LZ05] Eq. 9-12 from the (n_test, n_train) distances."""
    machine, out = clf.machine_, np.empty(margins.shape)
    for a in range(len(margins)):
        near = sorted((d, j) for j, d in enumerate(distances[a]) if weight[j] > 0)
        for s in range(clf.code_.shape[1]):
            full, k_x, hinge = 0.0, 0.0, 0.0
            for _, j in near:
                mass = min(weight[j], k - full)
                if mass <= 0:
                    break
                full += mass
                t, f = int(clf.code_[clf.labels_[j], s]), machine.training_margins_[j, s]
                if t != 0 and sign(f) == sign(margins[a, s]):
                    k_x += mass
                    hinge += mass * max(0.0, 1.0 - t * f)
            mean = hinge / k_x if k_x else 0.0
            sigma = sigma_by_loops(clf, weight, s)
            out[a, s] = math.exp(-(machine.norm2_[s] / (2 * sigma) + mean))
    return out


def scores_by_loops(code, lam, margins):
    out = np.zeros((len(margins), len(code)))
    for a, f in enumerate(margins):
        for q, word in enumerate(code):
            for s, m in enumerate(word):
                soft = math.copysign(-math.expm1(-abs(f[s])), f[s])
                out[a, q] += m * lam[a, s] * soft
    return out


def input_distances(A, B):
    return np.array([[math.dist(a, b) for b in B] for a in A])


def kernel_distances(name, A, B, **p):
    cross = oracles.kernel_matrix(name, A, B, **p)
    own = [oracles.kernel_matrix(name, Z, Z, **p).diagonal() for Z in (A, B)]
    return own[0][:, None] + own[1] - 2 * cross


def weights(kind, n):
    rng = np.random.RandomState(5)
    return {
        "none": np.ones(n),
        "counts": rng.randint(0, 4, size=n).astype(float),
        "fractions": rng.uniform(0.2, 1.5, size=n),
    }[kind]


@pytest.mark.parametrize("kind", ["none", "counts", "fractions"])
@pytest.mark.parametrize("code", CODES)
def test_static_equals_loops(code, kind):
    X, y, Z = problem()
    weight = weights(kind, len(X))
    clf = classifier("srm", code).fit(X, y, None if kind == "none" else weight)
    lam = static_by_loops(clf, weight)
    np.testing.assert_allclose(clf.decoder_.reliabilities_, lam, rtol=0, atol=1e-10)
    margins = clf.margins(Z)
    everywhere = clf.decoder_.reliabilities(margins, Z)
    np.testing.assert_array_equal(everywhere, np.tile(clf.decoder_.reliabilities_, (len(Z), 1)))
    expected = scores_by_loops(clf.code_, everywhere, margins)
    np.testing.assert_allclose(clf.decoder_.scores(margins), expected, rtol=0, atol=1e-10)


@pytest.mark.parametrize("kind", ["none", "counts", "fractions"])
@pytest.mark.parametrize("space", ["input", "kernel"])
@pytest.mark.parametrize("code", CODES)
def test_dynamic_equals_loops(code, space, kind):
    X, y, Z = problem()
    weight = weights(kind, len(X))
    poly = {"gamma": 0.1, "degree": 2, "coef0": 1.0}
    clf = classifier(DynamicReliability(k=5, space=space), code, kernel="poly", C=0.1, **poly)
    clf.fit(X, y, None if kind == "none" else weight)
    margins = clf.margins(Z)
    near = input_distances(Z, X) if space == "input" else kernel_distances("poly", Z, X, **poly)
    expected = dynamic_by_loops(clf, weight, 5, margins, near)
    lam = clf.decoder_.reliabilities(margins, Z)
    np.testing.assert_allclose(lam, expected, rtol=0, atol=1e-10)
    scores = scores_by_loops(clf.code_, expected, margins)
    np.testing.assert_allclose(clf.decoder_.scores(margins, Z), scores, rtol=0, atol=1e-10)
    assert np.array_equal(clf.predict(Z), clf.classes_[scores.argmax(axis=1)])


# the sigmoid kernel is not positive definite: its duality gap means little, and that is said
@pytest.mark.filterwarnings("ignore:The tolerance was met")
@pytest.mark.parametrize("kernel", ["rbf", "linear", "laplacian", "sigmoid"])
def test_every_kernel_has_its_own_space(kernel):
    X, y, Z = problem()
    clf = classifier(DynamicReliability(k=7, space="kernel"), kernel=kernel, gamma=0.02, tol=1e-2)
    clf.fit(X, y)
    margins = clf.margins(Z)
    near = kernel_distances(kernel, Z, X, gamma=0.02)
    expected = dynamic_by_loops(clf, np.ones(len(X)), 7, margins, near)
    lam = clf.decoder_.reliabilities(margins, Z)
    np.testing.assert_allclose(lam, expected, rtol=0, atol=1e-10)


@pytest.mark.parametrize("weighted", [False, True])
def test_precomputed_and_function_kernels_equal_the_named_one(weighted):
    X, y, Z = problem()
    weight = weights("counts", len(X)) if weighted else None

    def square(A, B):
        return (0.1 * A @ B.T + 1.0) ** 2

    decoder = DynamicReliability(k=5, space="kernel")
    named = classifier(decoder, kernel="poly", degree=2, coef0=1.0, tol=1e-9).fit(X, y, weight)
    for kernel, train, test in (
        (square, X, Z),
        ("precomputed", square(X, X), square(Z, X)),
    ):
        other = classifier(decoder, kernel=kernel, tol=1e-9).fit(train, y, weight)
        lam = other.decoder_.reliabilities(named.margins(Z), test)
        np.testing.assert_allclose(lam, named.decoder_.reliabilities(named.margins(Z), Z), 1e-7)
        # scores, not classes: two machines answer -1 to some rows, which is a tie but for rounding
        np.testing.assert_allclose(other.decision_function(test), named.decision_function(Z), 1e-7)


def test_one_against_all_is_equation_14():
    X, y, Z = problem(n_classes=6)
    for decoder in (StaticReliability(), DynamicReliability(k=3)):
        clf = classifier(decoder, n_classes=6).fit(X, y)
        margins = clf.margins(Z)
        weighted = clf.decoder_.reliabilities(margins, Z) * reliability.soft_decisions(margins)
        scores = clf.decoder_.scores(margins, Z)
        assert np.array_equal(scores.argmax(axis=1), weighted.argmax(axis=1))
        common = scores - 2 * weighted  # the same for all classes
        np.testing.assert_allclose(common, np.tile(common[:, :1], (1, 6)), rtol=0, atol=1e-13)


@pytest.mark.parametrize("scale", [1e-18, 1e-9, 1.0, 30.0, 1e3, 1e12])
def test_equal_reliabilities_are_the_conventional_rule(scale):
    rng = np.random.RandomState(0)
    code = codes.code_matrix("ova", 5)
    decoder = StaticReliability()
    decoder.code_, decoder.reliabilities_ = code, np.full(5, 0.3712)
    margins = scale * rng.randn(2000, 5)
    margins[::3] = np.abs(margins[::3])  # every machine claims the row
    margins[1::3] = -np.abs(margins[1::3])  # none does
    scores = decoder.scores(margins)
    assert np.array_equal(scores.argmax(axis=1), margins.argmax(axis=1))  # Eq. 15


def test_large_margins_do_not_tie():
    decoder = StaticReliability()
    decoder.code_ = codes.code_matrix("ova", 3)
    margins = np.array([[40.0, 1e3, 50.0], [-1e3, -900.0, -800.0], [1e3, 1e3, -1.0]])
    decoder.reliabilities_ = np.full(3, 0.9)
    assert decoder.scores(margins).argmax(axis=1).tolist() == [1, 2, 0]
    decoder.reliabilities_ = np.array([0.9, 0.8, 0.7])
    assert decoder.scores(margins).argmax(axis=1).tolist() == [0, 2, 0]


def test_large_margins_do_not_tie_for_pairs_either():
    code = codes.code_matrix("ovo", 3)  # a cycle: each class wins once, by different margins
    decoder = StaticReliability()
    decoder.code_, decoder.reliabilities_ = code, np.full(3, 0.7)
    cycle = np.array([[300.0, -200.0, 100.0]])
    wins = (cycle @ code.T)[0]
    assert decoder.scores(cycle).argmax() == wins.argmax()


def test_tiny_margins_keep_their_digits():
    soft = reliability.soft_decisions(np.array([1e-18, -2e-18, 0.0, -0.0]))
    np.testing.assert_array_equal(soft, [1e-18, -2e-18, 0.0, 0.0])


@pytest.mark.parametrize("C", [0.01, 1.0, 100.0])
@pytest.mark.parametrize("code", CODES)
def test_a_converged_machine_is_not_less_reliable_than_a_constant(code, C):
    X, y, _ = problem(n=80)
    for bias, own in (("free", 0.0), ("kernel", 0.5)):  # |w|^2 / 2 of the constant itself
        clf = classifier("srm", code, C=C, bias=bias).fit(X, y)
        targets = clf.code_[clf.labels_]
        smaller = np.minimum((targets > 0).sum(axis=0), (targets < 0).sum(axis=0))
        used = (targets != 0).sum(axis=0)
        least = np.exp(-(2 * smaller + own / C) / used)
        assert (clf.decoder_.reliabilities_ >= least - 1e-6).all()
        assert (clf.decoder_.reliabilities_ <= 1.0).all()


def test_separable_columns_follow_equation_8():
    X, y = make_blobs(40, centers=3, cluster_std=0.1, random_state=0)
    clf = classifier("srm", n_classes=3, C=1e4, tol=1e-9).fit(X, y)
    expected = np.exp(-clf.machine_.norm2_ / (2 * 1e4 * 40))
    np.testing.assert_allclose(clf.decoder_.reliabilities_, expected, atol=1e-8)


@pytest.mark.parametrize("code", CODES)
@pytest.mark.parametrize("k", [1, 4, 9])
def test_weight_two_is_a_row_twice(code, k):
    weight = np.random.RandomState(2).randint(0, 4, size=40).astype(float)
    decoder, margins, Z, training = fake(code=code, k=k, weight=weight)
    rows = np.repeat(np.arange(40), weight.astype(int))
    machine = Fitted(training.margins[rows], training.machine.norm2_)
    twice = Training(
        training.code, training.labels[rows], training.X[rows], machine, np.ones(len(rows)), None
    )
    expected = DynamicReliability(k=k).fit(twice).reliabilities(margins, Z)
    np.testing.assert_allclose(decoder.reliabilities(margins, Z), expected, rtol=1e-12)
    static = [StaticReliability().fit(t).reliabilities_ for t in (training, twice)]
    np.testing.assert_allclose(*static, rtol=1e-12)


@pytest.mark.parametrize("decoder", [StaticReliability(), DynamicReliability(k=4)])
def test_weight_two_is_a_row_twice_through_the_classifier(decoder):
    X, y, Z = problem()
    weight = np.random.RandomState(0).randint(1, 3, size=len(X))
    rows = np.repeat(np.arange(len(X)), weight)
    once = classifier(decoder, tol=1e-8).fit(X, y, weight)
    twice = classifier(decoder, tol=1e-8).fit(X[rows], y[rows])
    np.testing.assert_allclose(once.decision_function(Z), twice.decision_function(Z), atol=1e-6)


def test_no_neighbour_on_the_same_side():
    _, margins, Z, training = fake(k=3)
    away = np.full_like(margins, -1.0)
    training.machine.training_margins_ = np.abs(training.margins)
    lonely = DynamicReliability(k=3).fit(
        Training(training.code, training.labels, training.X, training.machine, np.ones(40), None)
    )
    expected = np.exp(-training.machine.norm2_ / (2 * 40))
    np.testing.assert_allclose(lonely.reliabilities(away, Z), np.tile(expected, (12, 1)))
    zero = lonely.reliabilities(np.zeros_like(margins), Z)  # sign(0) = +1
    np.testing.assert_array_equal(zero, lonely.reliabilities(np.ones_like(margins), Z))


def test_rows_a_column_does_not_use_are_left_out():
    decoder, margins, Z, training = fake(code="ovo", k=40)
    used = training.code[training.labels] != 0
    for s in range(training.code.shape[1]):
        same = used[:, s] & (training.margins[:, s] >= 0)
        hinge = np.maximum(0, 1 - (training.code[training.labels] * training.margins)[same, s])
        part = training.machine.norm2_[s] / (2 * used[:, s].sum())
        lam = decoder.reliabilities(np.abs(margins), Z)[:, s]
        np.testing.assert_allclose(lam, np.exp(-part - hinge.mean()), rtol=1e-12)


def exact_nearest(Z, X, count):
    """Neighbours in exact arithmetic, ties to the lower index."""
    out = []
    for z in Z:
        square = [sum((int(a) - int(b)) ** 2 for a, b in zip(z, x, strict=True)) for x in X]
        out.append(sorted(range(len(X)), key=lambda j, d=square: (d[j], j))[:count])
    return np.array(out)


@pytest.mark.parametrize(
    "unit", [Fraction(1), Fraction(1, 10), Fraction(1, 15), Fraction(10**6, 3)]
)
@pytest.mark.parametrize("levels", [1, 2, 4, 12])
def test_neighbours_at_equal_distance_go_to_the_lower_index(levels, unit):
    rng = np.random.RandomState(levels)
    X, Z = rng.randint(levels, size=(90, 4)), rng.randint(levels + 1, size=(30, 4))
    space = reliability.InputSpace(X * float(unit))
    for count in (1, 3, 10, 90):
        expected = exact_nearest(Z, X, count)
        assert np.array_equal(space.nearest(Z * float(unit), count), expected)
        as_sparse = reliability.InputSpace(sparse.csr_matrix(X * float(unit)))
        assert np.array_equal(
            as_sparse.nearest(sparse.csr_matrix(Z * float(unit)), count), expected
        )


def test_ties_beyond_the_first_candidates_are_settled_too():
    rng = np.random.RandomState(0)
    X = np.full((600, 1), 2)
    X[300 + rng.choice(300, size=28, replace=False)] = 1  # nearer, and seen late
    Z = np.array([[0], [1], [5], [2]])
    expected = exact_nearest(Z, X, 30)
    assert np.array_equal(reliability.InputSpace(1.0 * X).nearest(1.0 * Z, 30), expected)
    decoder = DynamicReliability(k=30, space="kernel")
    clf = classifier(decoder, kernel="precomputed", C=0.1, tol=0.1)
    clf.fit(1.0 * X @ X.T, rng.randint(4, size=len(X)))
    assert np.array_equal(clf.decoder_.search_.nearest(1.0 * Z @ X.T, 30), expected)


@pytest.mark.parametrize("apart", [1e7, 1e9])
def test_neighbours_are_exact_where_inner_products_cancel(apart):
    rng = np.random.RandomState(0)
    X = np.column_stack([apart * rng.randint(2, size=800), rng.randint(50, size=800)])
    Z = np.column_stack([apart * rng.randint(2, size=20), rng.randint(50, size=20)])
    expected = exact_nearest(Z, X, 5)
    assert np.array_equal(reliability.InputSpace(X).nearest(Z, 5), expected)
    assert np.array_equal(reliability.InputSpace(X + 1e9).nearest(Z + 1e9, 5), expected)


def test_small_batches_change_nothing(monkeypatch):
    X, y, Z = problem()
    for space, kernel in (("input", "rbf"), ("kernel", "laplacian")):
        clf = classifier(DynamicReliability(k=5, space=space), kernel=kernel).fit(X, y)
        before = clf.decision_function(Z)
        with monkeypatch.context() as patch:
            patch.setattr(neighbours, "BATCH", 100)
            after = clf.decision_function(Z)
        np.testing.assert_array_equal(before, after)


def test_sparse_rows_equal_dense_rows():
    X, y, Z = problem()
    X, Z = np.where(np.abs(X) < 4, 0.0, X), np.where(np.abs(Z) < 4, 0.0, Z)
    dense = classifier(DynamicReliability(k=5)).fit(X, y)
    thin = classifier(DynamicReliability(k=5)).fit(sparse.csr_matrix(X), y)
    np.testing.assert_allclose(
        thin.decision_function(sparse.csr_matrix(Z)), dense.decision_function(Z), atol=1e-3
    )
    np.testing.assert_array_equal(thin.predict(Z), thin.predict(sparse.csr_matrix(Z)))
    np.testing.assert_array_equal(dense.predict(sparse.csr_matrix(Z)), dense.predict(Z))


@pytest.mark.parametrize("code", ["ova", "ovo"])
def test_k_is_the_smallest_with_the_fewest_held_out_errors(code):
    X, y, _ = problem(n=90)
    clf = classifier(DynamicReliability(), code)
    clf.random_state = 0
    clf.fit(X, y)
    decoder, n = clf.decoder_, len(X)
    margins = np.asarray(clf.rule_.held_out[3][0])
    near = input_distances(X, X)
    np.fill_diagonal(near, np.inf)  # not its own neighbour
    for k, error in decoder.errors_.items():
        lam = dynamic_by_loops(clf, np.ones(n), k, margins, near)
        wrong = scores_by_loops(clf.code_, lam, margins).argmax(axis=1) != clf.labels_
        assert error == pytest.approx(wrong.mean(), abs=1e-12)
    best = min(decoder.errors_.values())
    assert list(decoder.errors_) == [1, 3, 5, 9, 15, 25]
    assert decoder.k_ == min(k for k, error in decoder.errors_.items() if error == best)


def test_k_of_a_precomputed_kernel_is_that_of_the_named_one(monkeypatch):
    X, y, _ = problem(n=90)
    decoder = DynamicReliability(space="kernel")
    by_place = folds.row_keys(None, 90)  # rows and kernel values have no content in common
    monkeypatch.setattr(folds, "row_keys", lambda *_: by_place)
    found = []
    for kernel, rows in (
        ("poly", X),
        ("poly", sparse.csr_matrix(X)),
        ("precomputed", (0.1 * X @ X.T + 1.0) ** 2),
    ):
        clf = classifier(decoder, kernel=kernel, degree=2, coef0=1.0)
        found.append(clf.fit(rows, y).decoder_.errors_)
    assert found[0] == found[1] == found[2]


def test_choosing_k_computes_no_kernel_value_again(monkeypatch):
    X, y, _ = problem()
    calls, fill = [], kernels.Gaussian.fill

    def counted(self, A, B, out):
        calls.append(out.size)
        fill(self, A, B, out)

    monkeypatch.setattr(kernels.Gaussian, "fill", counted)
    classifier("linear").fit(X, y)
    plain = sum(calls)
    calls.clear()
    for space in ("input", "kernel"):
        classifier(DynamicReliability(space=space)).fit(X, y)
    assert sum(calls) == 2 * plain


def test_few_rows_try_few_neighbours():
    X, y, Z = problem(n=20)
    clf = classifier(DynamicReliability()).fit(X, y)
    assert set(clf.decoder_.errors_) == {1, 3, 5, 9, 15}
    assert classifier(DynamicReliability(k=100)).fit(X, y).predict(Z).shape == (25,)


def test_the_smallest_of_equal_k_is_taken():
    assert reliability._first_smallest({1: 0.2, 3: 0.1, 5: 0.1}) == 3


def test_a_row_among_its_copies_is_left_out():
    own = np.array([3, 0])
    found = reliability._without(np.array([[1, 3, 4], [1, 2, 3]]), own)
    assert found.tolist() == [[1, 4], [1, 2]]


def test_class_weights_reach_the_reliabilities():
    X, y, Z = problem()
    weight = np.where(y == 1, 3.0, 1.0)
    one = classifier(DynamicReliability(k=5), class_weight={0: 1, 1: 3, 2: 1, 3: 1}).fit(X, y)
    two = classifier(DynamicReliability(k=5)).fit(X, y, weight)
    np.testing.assert_array_equal(one.decision_function(Z), two.decision_function(Z))


def test_two_classes_strings_and_pickles():
    X, y = load_iris(return_X_y=True)
    X, y = X[50:], np.array(["a", "b"])[y[50:] - 1]
    for decoder in ("srm", "drm"):
        clf = OutputCodeClassifier("ova", "svm", decoder, random_state=0).fit(X, y)
        assert clf.score(X, y) > 0.9
        again = pickle.loads(pickle.dumps(clf))
        np.testing.assert_array_equal(again.decision_function(X), clf.decision_function(X))
        assert clone(clf).get_params()["decoder"] == decoder


def test_the_same_machines_under_reliability():
    X, y, Z = problem()
    plain = classifier("linear").fit(X, y)
    np.testing.assert_array_equal(
        plain.with_decoder("srm").predict(Z), classifier("srm").fit(X, y).predict(Z)
    )
    drm = DynamicReliability(k=5)
    np.testing.assert_array_equal(
        plain.with_decoder(drm, X=X).predict(Z), classifier(drm).fit(X, y).predict(Z)
    )
    with pytest.raises(ValueError, match=r"training rows: give them, with_decoder"):
        plain.with_decoder(drm)


@pytest.mark.parametrize(
    ("decoder", "missing"), [("srm", "objective_, C"), ("drm", "norm2_, dual")]
)
def test_a_machine_without_duals_is_refused_by_name(decoder, missing):
    X, y, _ = problem()
    clf = OutputCodeClassifier("ova", LogisticRegression(), decoder)
    with pytest.raises(ValueError, match=f"LogisticRegression has no {missing}"):
        clf.fit(X, y)


def test_least_squares_machines_have_reliabilities_too():
    X, y, Z = problem()
    for decoder in ("srm", "drm"):
        clf = OutputCodeClassifier("ovo", "ls", decoder, random_state=0).fit(X, y)
        lam = clf.decoder_.reliabilities(clf.margins(Z), Z)
        assert ((lam > 0) & (lam <= 1)).all()


def test_errors_read():
    X, y, Z = problem()
    for k in (0, -1, 2.5, True, "5"):
        with pytest.raises(ValueError, match="k must be a whole number of neighbours"):
            classifier(DynamicReliability(k=k)).fit(X, y)
    with pytest.raises(ValueError, match="space 'feature'"):
        classifier(DynamicReliability(k=5, space="feature")).fit(X, y)
    with pytest.raises(ValueError, match=r"space='kernel'"):
        classifier(DynamicReliability(k=5), kernel="precomputed").fit(X @ X.T, y)
    clf = classifier(DynamicReliability(k=5)).fit(X, y)
    with pytest.raises(ValueError, match="give the rows of the margins"):
        clf.decoder_.scores(clf.margins(Z))
    with pytest.raises(ValueError, match="25 rows of margins but 3 of X"):
        clf.decoder_.scores(clf.margins(Z), Z[:3])


def test_the_table_of_the_paper(data_dir):
    linear = lz05.EXPERIMENTS[0]
    result = lz05.run(linear, datasets.load("segmentation", data_dir))
    np.testing.assert_allclose(result.errors, [9.57, 8.48, 7.76], atol=0.2)
    assert result.curve.shape == (6, 3)
    np.testing.assert_array_equal(result.curve[-1], result.errors)
    page = lz05.report([result])
    assert "(9.24)" in page
    assert "C = 10, k = 5" in page
    assert "| 7 | + window |" in page


def test_leaving_one_row_out():
    X, y, _ = problem(n=24)
    rows = datasets.Dataset("blobs", X, np.array(list("abcd"))[y], None, ("x", "y"))
    setting = lz05.Experiment(
        "blobs", "RBF", SVM(gamma=0.1), 3, (0.0, 0.0, 0.0), "raw features", leave_one_out=True
    )
    wrong = lz05.evaluate(setting, rows, np.full(24, True))
    for i in (0, 7, 23):
        others = np.arange(24) != i
        clf = OutputCodeClassifier("ova", SVM(gamma=0.1), "linear").fit(X[others], rows.y[others])
        assert wrong[0, i] == (clf.predict(X[i : i + 1])[0] != rows.y[i])
    split = replace(setting, leave_one_out=False)
    with pytest.raises(ValueError, match="blobs has no split"):
        lz05.evaluate(split, rows, np.full(24, True))
