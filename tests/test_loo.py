"""The leave-one-out bound is never below the leave-one-out error, which is training n times."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from sklearn.datasets import load_iris
from sklearn.linear_model import LogisticRegression

from oracles import svm_dual
from outcode import OutputCodeClassifier, codes, decoders, dichotomies, loo, machines
from outcode import gram as grams
from outcode.machines import SVM, LeastSquares
from outcode.solvers.svm import columns as duals

CODES = {
    "ova": "ova",
    "ovo": "ovo",
    "dense": codes.DenseRandom(n_draws=20),
    "sparse": codes.SparseRandom(n_columns=6, n_draws=20),
}
COVERED = ["linear", "hinge", "hamming", "likelihood"]
KERNELS = ["rbf", "linear", "poly", "laplacian"]
PROBLEMS = 208


def problem(seed, n_classes=None):
    rng = np.random.RandomState(seed)
    n_classes = n_classes or rng.randint(3, 5)
    y = np.concatenate([np.repeat(np.arange(n_classes), 3), rng.randint(n_classes, size=3)])
    spread = rng.choice([0.3, 1.0, 2.0])
    X = rng.randn(len(y), 2) + spread * np.column_stack([np.cos(y), np.sin(2 * y)])
    return X, y


def machine(seed, tol=1e-8):
    rng = np.random.RandomState(seed)
    return SVM(
        KERNELS[seed % 4],
        gamma=float(rng.choice([0.1, 1.0, 10.0])),
        degree=2,
        coef0=1.0,
        C=[0.1, 1.0, 10.0, 100.0][seed // 4 % 4],
        bias=["kernel", "none"][seed // 16 % 2],
        tol=tol,
    )


def margins_of(clf, margins):
    """Score of the true class less the largest other, by a loop."""
    rows = zip(clf.decoder_.scores(margins), clf.labels_, strict=True)
    return np.array([row[label] - np.delete(row, label).max() for row, label in rows])


@pytest.mark.parametrize("code", CODES)
def test_bounds_are_never_below_the_error(code, capsys):
    bounds, sharps, errors = np.zeros((3, PROBLEMS, len(COVERED)))
    for seed in range(PROBLEMS):
        X, y = problem(seed)
        clf = OutputCodeClassifier(
            CODES[code], machine(seed), "linear", random_state=seed, n_jobs=1
        )
        held_out = loo.exact(clf.fit(X, y), X, y).held_out
        for d, decoder in enumerate(COVERED):
            clf = clf.with_decoder(decoder, X)
            found, sharp, margins = (
                loo.bound(clf),
                loo.sharp_bound(clf, X),
                margins_of(clf, held_out),
            )
            for way in (found, sharp):
                missed = np.flatnonzero((margins <= 0) & ~way.flags)  # ties are errors
                assert not len(missed), f"problem {seed}, {decoder}: {missed}, {margins[missed]}"
            assert not (sharp.flags & ~found.flags).any()
            bounds[seed, d], sharps[seed, d] = found.error, sharp.error
            errors[seed, d] = (margins <= 0).mean()
    assert (bounds >= sharps).all()
    assert (sharps >= errors).all()
    with capsys.disabled():
        means = (values.mean(axis=0) for values in (bounds, sharps, errors))
        pairs = zip(COVERED, *means, strict=True)
        line = ", ".join(f"{d} {b / e:.2f} ({s / e:.2f})" for d, b, s, e in pairs)
        print(f"\n{code}: bound (sharp bound) / leave-one-out error, {PROBLEMS} problems: {line}")


@pytest.mark.parametrize("bias", ["kernel", "none"])
@pytest.mark.parametrize("code", CODES)
def test_no_margin_falls_further_than_its_bound(code, bias):
    """Every margin without its row, machine by machine, with weights and many rows at the box."""
    sharper, wide = [], []
    for seed in range(12):
        X, y = problem(seed)
        X, y = np.vstack([X, X + 0.3, X[::-1] - 0.2]), np.concatenate([y, y, y[::-1]])
        weight = np.random.RandomState(seed).uniform(0.3, 2.0, len(y))
        svm = SVM(gamma=[0.1, 1.0][seed % 2], C=[0.2, 2.0, 50.0][seed % 3], bias=bias, tol=1e-9)
        clf = OutputCodeClassifier(CODES[code], svm, "linear", random_state=0).fit(X, y, weight)
        targets, rows = dichotomies.targets(clf.labels_, clf.code_), np.arange(len(y))[::-1]
        gram = machines.resolve(svm).gram(X, targets)
        length, likely = clf.machine_.removals(gram, targets, rows, weight)[:, ::-1]
        held_out = loo.exact(clf, X, y, weight).held_out
        fall = targets * (clf.machine_.training_margins_ - held_out)
        lemma = np.abs(clf.machine_.dual_coef_) * (1.0 + (bias == "kernel"))
        assert (fall <= length + 1e-6).all()
        assert (length <= lemma + 1e-12).all()
        assert (likely <= length).all()
        sharper.append(length.sum() / lemma.sum())
        wide.append(np.abs(likely - fall).sum() / fall.sum())
    assert np.mean(sharper) < 0.7
    assert np.mean(wide) < 0.01


@pytest.mark.parametrize(("C", "fall"), [(10.0, 0.0), (0.6, 0.4), (0.5, 0.5)])
def test_the_fall_of_a_margin_by_hand(C, fall):
    """Two equal rows share the work: without one the other takes over what its box lets it."""
    gram, ones = grams.DenseGram(np.ones((2, 2))), np.ones(2)
    length = duals.removals(gram, ones, C * ones, 0.5 * ones, ones, np.array([0, 1]), "none")
    np.testing.assert_allclose(length, fall, atol=duals.REMOVAL_TOL)  # bound and estimate


def test_a_sharp_bound_stops_when_it_cannot_reach_the_goal(monkeypatch):
    monkeypatch.setattr(loo, "FIRST_ROWS", 4)
    X, y = load_iris(return_X_y=True)
    X = np.vstack([X + 0.3 * np.random.RandomState(seed).randn(*X.shape) for seed in range(3)])
    clf = OutputCodeClassifier("ova", SVM(gamma=1.0), "linear").fit(X, np.tile(y, 3))
    found, whole = loo.bound(clf), loo.sharp_bound(clf, X)
    gram = machines.resolve(clf.machine_).gram(X, dichotomies.targets(clf.labels_, clf.code_))
    early = loo.sharpened(clf, found, gram, goal=float((found.margins <= 0).mean()))
    assert whole.error < early.error <= found.error
    assert not (whole.flags & ~early.flags).any()
    assert loo.sharpened(clf, found, gram, goal=whole.error).error == whole.error


def test_sharp_bounds_that_cannot_be():
    X, y = load_iris(return_X_y=True)
    free = OutputCodeClassifier("ova", SVM(bias="free"), "linear").fit(X, y)
    with pytest.raises(ValueError, match="free bias"):
        loo.sharp_bound(free, X)
    clf = OutputCodeClassifier("ova", SVM(), "linear").fit(X, y)
    for other in (X[::-1], X[:-1]):
        with pytest.raises(ValueError, match="fitted on"):
            loo.sharp_bound(clf, other)
    with pytest.raises(ValueError, match="can be followed when a row is left out"):
        loo.sharp_bound(OutputCodeClassifier("ova", LogisticRegression(), "linear").fit(X, y), X)
    squares = OutputCodeClassifier("ova", LeastSquares(), "linear").fit(X, y)
    assert loo.sharp_bound(squares, X).exact


@pytest.mark.parametrize("decoder", ["linear", "likelihood", "llw", "drm"])
@pytest.mark.parametrize("code", CODES)
def test_the_estimate_is_the_error_but_for_a_few_rows(code, decoder):
    """Noisy iris under any decoder: rows estimated otherwise than by training again."""
    X, y = load_iris(return_X_y=True)
    X = X + 0.5 * np.random.RandomState(0).randn(*X.shape)
    differing = 0
    for gamma, C in ((0.05, 10.0), (0.5, 1.0), (0.5, 100.0), (5.0, 1.0)):
        svm = SVM(gamma=gamma, C=C, tol=1e-5)
        clf = OutputCodeClassifier(CODES[code], svm, decoder, random_state=0).fit(X, y)
        found, truth = loo.estimate(clf, X), loo.exact(clf, X, y)
        differing += (found.flags != truth.flags).sum()
        assert abs(found.error - truth.error) <= 3 / len(y)
        assert found.held_out.shape == truth.held_out.shape
    assert differing <= 8  # of 600


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_ties_stay_errors_in_single_precision(dtype):
    """Equal kernel values and few rows at the box: every margin left out is an exact tie."""
    y = np.repeat([0, 1, 2], [4, 3, 3])
    for k in (0.1, 0.3, 0.7):
        for C in (1e-3, 0.01, 0.05):
            K = np.full((10, 10), k, dtype)
            np.fill_diagonal(K, 1.0)
            svm = SVM("precomputed", C=C, bias="none", tol=1e-9)
            clf = OutputCodeClassifier("ova", svm, "linear").fit(K, y)
            ties = np.abs(loo.exact(clf, K, y).margins) < 1e-12
            assert loo.sharp_bound(clf, K).flags[ties].all()


def noisy_iris():
    X, y = load_iris(return_X_y=True)
    return X + 0.5 * np.random.RandomState(0).randn(*X.shape), y


@pytest.mark.parametrize("code", ["ova", "ovo"])
def test_rows_on_demand_are_followed_as_far_as_memory_goes(code):
    X, y = noisy_iris()
    whole = OutputCodeClassifier(code, SVM(gamma=0.5, tol=1e-6), "linear").fit(X, y)
    found = loo.estimate(whole, X).error
    for size, fits in ((170_000, True), (20_000, False)):
        svm = SVM(gamma=0.5, tol=1e-6, max_memory=size)
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            clf = OutputCodeClassifier(code, svm, "linear").fit(X, y)
            error = loo.estimate(clf, X).error
            assert loo.sharp_bound(clf, X).error >= loo.exact(clf, X, y).error
        assert any("do not fit into max_memory" in str(one.message) for one in said) != fits
        assert abs(error - found) <= 2 / len(y) if fits else error > found


def test_the_right_rows_are_known_and_others_are_not():
    X, y = noisy_iris()
    for options in (
        {"gamma": 0.01, "C": 1e4, "dtype": "float32"},
        {"kernel": "poly", "coef0": 1.0, "C": 100.0, "dtype": "float32"},
        {"kernel": "linear", "C": 1e4, "dtype": "float32"},
        {"gamma": 0.5, "C": 1e-5},
    ):
        clf = OutputCodeClassifier("ova", SVM(**options), "linear").fit(X, y)
        assert loo.estimate(clf, X).held_out.shape == (150, 3)
        for other in (X[::-1], X[np.r_[0, 2, 1, 3:150]]):
            with pytest.raises(ValueError, match="fitted on"):
                loo.estimate(clf, other)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_an_indefinite_kernel_gives_numbers():
    rng, y = np.random.RandomState(0), np.repeat([0, 1, 2], 10)
    X = rng.randn(30, 3) + y[:, None]
    K = X @ X.T - 4.0 * np.eye(30)
    for C in (1.0, 100.0):
        svm = SVM("precomputed", C=C, max_iter=20_000)
        clf = OutputCodeClassifier("ova", svm, "linear").fit(K, y)
        assert np.isfinite(loo.estimate(clf, K).held_out).all()
        assert np.isfinite(loo.sharp_bound(clf, K).error)


def test_the_estimate_of_least_squares_is_exact():
    X, y = load_iris(return_X_y=True)
    clf = OutputCodeClassifier("ovo", LeastSquares(), "hinge").fit(X, y)
    np.testing.assert_array_equal(loo.estimate(clf, X).held_out, loo.exact(clf, X, y).held_out)


def test_a_sharp_bound_of_a_precomputed_kernel():
    X, y = load_iris(return_X_y=True)
    K = np.exp(-0.5 * ((X[:, None] - X) ** 2).sum(axis=2))
    given = OutputCodeClassifier("ovo", SVM("precomputed", tol=1e-8), "linear").fit(K, y)
    named = OutputCodeClassifier("ovo", SVM(gamma=0.5, tol=1e-8), "linear").fit(X, y)
    assert loo.sharp_bound(given, K).error == loo.sharp_bound(named, X).error


@pytest.mark.parametrize("code", CODES)
@pytest.mark.parametrize("bias", ["kernel", "free", "none"])
def test_exact_is_training_again_without_the_row(code, bias):
    X, y = problem(3, n_classes=3)
    weight = np.random.RandomState(0).uniform(0.5, 2.0, len(y))
    svm = SVM(gamma=0.5, C=3.0, bias=bias, tol=1e-9)
    clf = OutputCodeClassifier(CODES[code], svm, "hinge", random_state=0).fit(X, y, weight)
    found = loo.exact(clf, X, y, weight)
    targets = dichotomies.targets(clf.labels_, clf.code_)
    flags = np.zeros(len(y), dtype=bool)
    for i in range(len(y)):
        rest = np.arange(len(y)) != i
        again = SVM(gamma=0.5, C=3.0, bias=bias, tol=1e-9).fit(X[rest], targets[rest], weight[rest])
        margins = again.margins(X[[i]])
        np.testing.assert_allclose(found.held_out[[i]], margins, atol=1e-6)
        flags[i] = clf.classes_[np.argmax(clf.decoder_.scores(margins))] != y[i]
    np.testing.assert_array_equal(found.flags, flags)
    np.testing.assert_allclose(found.error, weight[flags].sum() / weight.sum())
    np.testing.assert_allclose(found.margins, margins_of(clf, found.held_out))


def test_exact_against_a_generic_solver():
    X, y = problem(5, n_classes=3)
    clf = OutputCodeClassifier("ovo", SVM(gamma=0.5, tol=1e-8), "hinge").fit(X, y)
    found = loo.exact(clf, X, y)
    K = np.exp(-0.5 * ((X[:, None] - X) ** 2).sum(axis=2))
    targets = dichotomies.targets(clf.labels_, clf.code_).astype(float)
    for i in range(0, len(y), 3):
        for s in range(targets.shape[1]):
            box = (targets[:, s] != 0) * (np.arange(len(y)) != i) * 1.0
            alpha, _ = svm_dual(K, targets[:, s], box, "kernel")
            f = (K[i] + 1.0) @ (alpha * targets[:, s])
            np.testing.assert_allclose(found.held_out[i, s], f, atol=1e-4)


def test_linear_decoding_is_theorem_4_1():
    X, y = problem(1, n_classes=4)
    clf = OutputCodeClassifier("ovo", SVM(gamma=0.5, C=2.0), "linear").fit(X, y)
    found, machine_ = loo.bound(clf), clf.machine_
    for i, label in enumerate(clf.labels_):
        m, f = clf.code_.astype(float), machine_.training_margins_[i]
        alpha, others = np.abs(machine_.dual_coef_[i]), np.arange(4) != label
        p = max(np.flatnonzero(others), key=lambda q: m[q] @ f)
        g = m[label] @ f - m[p] @ f
        U = [
            (m[q] - m[p]) @ f + (m[label] * (m[label] - m[q]) * alpha * 2.0).sum() for q in range(4)
        ]
        np.testing.assert_allclose(found.margins[i], g, atol=1e-12)
        np.testing.assert_allclose(found.U[i, others], np.array(U)[others], atol=1e-7)
        assert found.U[i, label] == -np.inf
        assert found.flags[i] == (g <= max(np.array(U)[others]))
    assert found.error == found.flags.mean()
    assert not found.exact


@pytest.mark.parametrize("decoder", ["exponential", "logistic", *COVERED])
def test_any_loss_is_corollary_4_1(decoder):
    X, y = problem(1, n_classes=3)
    clf = OutputCodeClassifier("ovo", SVM(gamma=0.5, C=2.0), decoder, random_state=0).fit(X, y)
    m, f, decode = clf.code_.astype(float), clf.machine_.training_margins_, clf.decoder_

    def loss(s, z, sign):
        if decoder == "likelihood":  # no term where m = 0
            A, B = decode.slope_[s], decode.offset_[s]
            return abs(sign) * np.log1p(np.exp(sign * (A * z * sign + B)))
        return {
            "linear": lambda: -z,
            "hinge": lambda: max(0.0, 1.0 - z),
            "hamming": lambda: (1.0 - np.sign(z)) / 2,
            "exponential": lambda: np.exp(-z),
            "logistic": lambda: np.log1p(np.exp(-z)),
        }[decoder]()

    flags = loo.bound(clf).flags
    for i, y_i in enumerate(clf.labels_):
        shift = np.abs(clf.machine_.dual_coef_[i]) * 2.0 * m[y_i]
        totals = [
            sum(loss(s, m[q, s] * (f[i, s] - shift[s]), m[q, s]) for s in range(3))
            for q in range(3)
        ]
        assert flags[i] == (totals[y_i] >= min(np.delete(totals, y_i)))


def test_ties_are_errors():
    X, y = problem(0, n_classes=3)
    svm = SVM(gamma=1e6, C=0.5, bias="none")  # K = 1 on the diagonal, 0 elsewhere
    clf = OutputCodeClassifier("ova", svm, "linear").fit(X, y)
    assert clf.score(X, y) == 1.0
    assert loo.bound(clf).error == 1.0
    np.testing.assert_allclose(loo.exact(clf, X, y).margins, 0.0, atol=1e-12)


@pytest.mark.parametrize("code", CODES)
@pytest.mark.parametrize("bias", ["kernel", "free"])
def test_a_class_with_a_single_row(code, bias):
    X, y = problem(2, n_classes=3)
    y[:3] = [0, 1, 2]
    y[3:][y[3:] == 0] = 1
    svm = SVM(gamma=0.5, bias=bias)
    clf = OutputCodeClassifier(CODES[code], svm, "hinge", random_state=0).fit(X, y)
    found = loo.exact(clf, X, y)
    assert np.isfinite(found.held_out).all()
    if bias == "kernel":
        assert found.flags[0]
        assert loo.bound(clf).error >= found.error
    squares = OutputCodeClassifier(CODES[code], LeastSquares(bias=bias), "hinge", random_state=0)
    assert np.isfinite(loo.exact(squares.fit(X, y), X, y).held_out).all()


@pytest.mark.parametrize("decoder", ["linear", "squared", "euclidean", "llw"])
@pytest.mark.parametrize("bias", ["kernel", "free", "none"])
def test_least_squares_needs_no_training(decoder, bias):
    X, y = problem(4, n_classes=3)
    clf = OutputCodeClassifier("ovo", LeastSquares(gamma=0.5, bias=bias), decoder).fit(X, y)
    found, bound = loo.exact(clf, X, y), loo.bound(clf)
    np.testing.assert_array_equal(found.held_out, clf.machine_.loo_margins_)
    assert bound.exact
    np.testing.assert_array_equal(bound.flags, found.margins <= 0)


def test_rows_of_weight_zero_do_not_count():
    X, y = problem(6, n_classes=3)
    weight = np.ones(len(y))
    weight[-2:] = 0.0
    clf = OutputCodeClassifier("ova", SVM(gamma=0.5, tol=1e-9), "linear").fit(X, y, weight)
    without = OutputCodeClassifier("ova", SVM(gamma=0.5, tol=1e-9), "linear").fit(X[:-2], y[:-2])
    assert loo.bound(clf).error == pytest.approx(loo.bound(without).error)
    assert loo.exact(clf, X, y).error == pytest.approx(loo.exact(without, X[:-2], y[:-2]).error)


def test_any_classifier_has_an_exact_error():
    X, y = problem(7, n_classes=3)
    clf = OutputCodeClassifier("ova", LogisticRegression(), "linear").fit(X, y)
    assert loo.exact(clf, X, y).held_out.shape == (len(y), 3)
    with pytest.raises(ValueError, match="dual solution of a kernel machine"):
        loo.bound(clf)


def test_labels_of_any_kind():
    X, y = load_iris(return_X_y=True)
    names = np.array(["setosa", "versicolor", "virginica"])[y]
    numbers = OutputCodeClassifier("ovo", decoder="linear").fit(X, y)
    strings = OutputCodeClassifier("ovo", decoder="linear").fit(X, names)
    assert loo.bound(numbers).error == loo.bound(strings).error
    assert loo.exact(numbers, X, y).error == loo.exact(strings, X, names).error


@pytest.mark.parametrize("decoder", ["squared", "euclidean", "aed", "ihd", "llw", "elw"])
def test_decoders_that_are_not_covered_say_so(decoder):
    X, y = problem(0, n_classes=3)
    clf = OutputCodeClassifier("ova", "svm", decoder).fit(X, y)
    with pytest.raises(ValueError, match="non-increasing loss"):
        loo.bound(clf)


class Held:
    """A machine that has nothing but its training margins."""

    def __init__(self, margins):
        self.training_margins_ = margins


def test_every_monotone_decoder_is_one():
    """Moving a margin towards a codeword never lowers that class against one that differs there."""
    rng = np.random.RandomState(0)
    code = codes.code_matrix("ovo", 4)
    for name in decoders.DECODERS:
        decoder = decoders.resolve(name)
        if not decoder.monotone:
            continue
        held_out = rng.randn(40, 6)
        labels = np.arange(40) % 4
        given = Held(held_out), np.ones(40), lambda folds, held_out=held_out: held_out
        decoder.fit(decoders.Training(code, labels, None, *given))
        f, step, y = rng.randn(50, 6), rng.rand(50, 6), rng.randint(4, size=50)
        before, after = decoder.scores(f), decoder.scores(f + step * code[y])
        rows = np.arange(50)
        gain = (after - after[rows, y][:, None]) - (before - before[rows, y][:, None])
        assert (gain <= 1e-12).all(), name


def test_a_free_bias_is_not_covered():
    X, y = problem(0, n_classes=3)
    clf = OutputCodeClassifier("ova", SVM(bias="free"), "linear").fit(X, y)
    with pytest.warns(UserWarning, match="does not cover a free bias"):
        loo.bound(clf)


def test_exact_wants_the_training_rows():
    X, y = problem(0, n_classes=3)
    clf = OutputCodeClassifier("ova", "svm", "linear").fit(X, y)
    with pytest.raises(ValueError, match="fitted on"):
        loo.exact(clf, X, y[::-1])
    with pytest.raises(ValueError, match="fitted with"):
        loo.exact(clf, X, y, np.arange(1.0, len(y) + 1))
