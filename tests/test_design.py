"""Codes designed for given machines, against enumeration and generic solvers. [CS02]"""

from __future__ import annotations

import itertools
from fractions import Fraction

import clarabel
import numpy as np
import pytest
from scipy import sparse
from sklearn.datasets import load_iris

from outcode import OutputCodeClassifier, codes, design
from outcode.decoders import ContinuousCode, DecisionDAG, Training
from outcode.machines import SVM


def error_by_loops(code, H, labels, weight):
    """Eq. 1, one row at a time."""
    wrong = 0.0
    for h, y, w in zip(H, labels, weight, strict=True):
        scores = [sum(a * b for a, b in zip(h, row, strict=True)) for row in code]
        winners = [r for r, s in enumerate(scores) if s == max(scores)]
        wrong += w * (1.0 - (1.0 / len(winners) if y in winners else 0.0))
    return wrong / sum(weight)


# --- discrete codes ---


@pytest.mark.parametrize("seed", range(20))
def test_code_error_equals_loops(seed):
    rng = np.random.RandomState(seed)
    k, columns, m = rng.randint(2, 6), rng.randint(1, 5), rng.randint(1, 30)
    code, H = rng.choice([-1, 1], (k, columns)), rng.choice([-1, 0, 1], (m, columns))
    labels, weight = rng.randint(k, size=m), rng.randint(1, 4, size=m)
    expected = error_by_loops(code, H, labels, weight)
    assert design.code_error(code, H, labels, weight) == pytest.approx(expected, abs=1e-14)


def test_a_tie_of_exact_numbers_is_a_tie():
    assert design.code_error([[1, 1, -1], [-1, -1, 1]], [[0.1, 0.2, 0.3]], [0]) == 0.5


def coarse(rng, k=3, columns=3, m=6):
    """Return outputs in tenths as fractions and as numbers, and labels."""
    tenths = rng.randint(-9, 10, (m, columns))
    exact = [[Fraction(int(t), 10) for t in row] for row in tenths]
    return exact, tenths / 10, rng.randint(k, size=m)


def test_code_error_equals_exact_arithmetic_on_coarse_outputs():
    rng = np.random.RandomState(0)
    for _ in range(300):
        code = rng.choice([-1, 1], (3, 3))
        exact, H, labels = coarse(rng)
        expected = error_by_loops(code.tolist(), exact, labels, [1] * 6)
        assert design.code_error(code, H, labels) == pytest.approx(expected, abs=1e-14)


def test_the_exhaustive_code_breaks_no_tie_by_rounding():
    rng = np.random.RandomState(1)
    words = list(itertools.product([-1, 1], repeat=3))
    for _ in range(20):
        exact, H, labels = coarse(rng)
        best = design.best_code_exhaustive(H, labels, n_classes=3)
        every = itertools.product(words, repeat=3)
        errors = [(error_by_loops(code, exact, labels, [1] * 6), code) for code in every]
        least = min(error for error, _ in errors)
        first = next(code for error, code in errors if error < least + 1e-12)
        assert best.tolist() == [list(row) for row in first]


def test_a_constant_column_guesses():
    assert design.code_error(np.ones((4, 1)), np.ones((8, 1)), np.arange(8) % 4) == 0.75


def test_best_column_equals_brute_force_on_500_cases():
    rng = np.random.RandomState(0)
    ties = 0
    for case in range(500):
        k, m = rng.randint(2, 8), rng.randint(1, 25)
        h, labels = rng.choice([-1, 1], m), rng.randint(k, size=m)
        weight = None if case % 2 else rng.randint(0, 3, size=m) + (np.arange(m) == 0)
        columns = np.array(list(itertools.product([-1, 1], repeat=k)))
        errors = [
            design.code_error(u[:, None], h[:, None], labels, sample_weight=weight) for u in columns
        ]
        best = design.best_column(h, labels, n_classes=k, sample_weight=weight)
        found = design.code_error(best[:, None], h[:, None], labels, sample_weight=weight)
        assert found == pytest.approx(min(errors), abs=1e-12)
        good = columns[np.array(errors) < min(errors) + 1e-12]
        assert any((best == u).all() for u in good)
        ties += len(good) > 1
    assert ties > 50  # the cases do hold ties


def test_best_column_is_deterministic_in_a_tie():
    assert design.best_column([1, -1], [0, 0], n_classes=3).tolist() == [1, -1, -1]


@pytest.mark.parametrize("seed", range(5))
def test_exhaustive_code_is_the_best_of_all(seed):
    rng = np.random.RandomState(seed)
    H, labels = rng.choice([-1.0, 1.0], (12, 2)), rng.randint(3, size=12)
    weight = rng.rand(12)
    best = design.best_code_exhaustive(H, labels, n_classes=3, sample_weight=weight)
    every = (np.array(c).reshape(3, 2) for c in itertools.product([-1, 1], repeat=6))
    least = min(design.code_error(c, H, labels, weight) for c in every)
    assert design.code_error(best, H, labels, weight) == pytest.approx(least, abs=1e-12)


def test_exhaustive_code_of_one_column_is_best_column():
    rng = np.random.RandomState(3)
    h, labels = rng.choice([-1, 1], 40), rng.randint(6, size=40)
    code = design.best_code_exhaustive(h[:, None], labels, n_classes=6)
    column = design.best_column(h, labels, n_classes=6)
    errors = [design.code_error(c, h[:, None], labels) for c in (code, column[:, None])]
    assert errors[0] == pytest.approx(errors[1], abs=1e-12)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: design.best_code_exhaustive(np.ones((5, 10)), [0, 1, 2, 3, 4]), "NP-complete"),
        (lambda: design.best_column([0.3, 1], [0, 1]), r"\+1 and -1 only"),
        (lambda: design.best_column([1, -1], [0, 0]), "n_classes >= 2"),
        (lambda: design.best_column([1, -1], [0, 5], n_classes=3), "n_classes >= 6"),
        (lambda: design.best_column([1, -1], ["a", "b"]), "class indices"),
        (lambda: design.best_column([1, -1], [0, 1, 1]), "class indices"),
        (lambda: design.code_error(np.ones((2, 3)), np.ones((2, 2)), [0, 1]), "column of H"),
        (lambda: design.code_error(np.ones((2, 2)), np.full((2, 2), np.nan), [0, 1]), "finite"),
    ],
)
def test_bad_input_is_named(call, message):
    with pytest.raises(ValueError, match=message):
        call()


# --- continuous codes ---


def outputs(seed, n=40, k=4, columns=5):
    rng = np.random.RandomState(seed)
    labels = np.concatenate([np.arange(k), rng.randint(k, size=n - k)])
    return rng.choice([-1.0, 1.0], (k, columns))[labels] + 0.8 * rng.randn(n, columns), labels


def penalised_loss(code, H, labels, norm, beta, weight):
    """Eq. 15, or Eq. 16 for norm 2, one row at a time."""
    total = 0.0
    for h, y, w in zip(H, labels, weight, strict=True):
        scores = code @ h
        total += w * max(scores[r] + (r != y) - scores[y] for r in range(len(code)))
    size = {1: np.abs(code).sum(), 2: 0.5 * (code**2).sum(), "inf": np.abs(code).max()}[norm]
    return beta * size + total


@pytest.mark.parametrize("norm", [1, 2, "inf"])
@pytest.mark.parametrize("beta", [0.1, 3.0])
@pytest.mark.parametrize(("n", "columns"), [(40, 5), (8, 12)])  # the dual, then the primal program
def test_a_continuous_code_is_certified(norm, beta, n, columns):
    H, labels = outputs(1, n=n, columns=columns)
    weight = np.random.RandomState(0).rand(n) + 0.5
    found = design.continuous_code(H, labels, norm=norm, beta=beta, sample_weight=weight)
    close = 1e-6 if norm == 2 else 1e-7
    assert found.objective == pytest.approx(found.dual_objective, rel=close, abs=close)
    value = penalised_loss(found.code, H, labels, norm, beta, weight)
    assert found.objective == pytest.approx(value, rel=1e-8)
    rng = np.random.RandomState(1)
    for scale in (1e-3, 1e-1, 1.0):  # no other code is better
        other = found.code + scale * rng.randn(*found.code.shape)
        assert penalised_loss(other, H, labels, norm, beta, weight) >= value - 1e-7
    assert np.all(found.tau <= weight[:, None] * np.eye(4)[labels] + 1e-12)
    np.testing.assert_allclose(found.tau.sum(axis=1), 0.0, atol=1e-12)
    assert found.gap < 1e-6


def test_norm_2_is_rebuilt_by_eq_19_and_equals_a_generic_qp():
    H, labels = outputs(2)
    found = design.continuous_code(H, labels, norm=2, beta=0.5)
    np.testing.assert_allclose(found.code, found.tau.T @ H / 0.5, atol=1e-12)
    np.testing.assert_allclose(found.code.sum(axis=0), 0.0, atol=1e-9)
    code, value = code_by_qp(H, labels, 4, 0.5)
    assert found.objective == pytest.approx(value, rel=1e-6)
    np.testing.assert_allclose(found.code, code, atol=1e-4)
    assert set(found.support) == set(np.flatnonzero(np.abs(found.tau).sum(axis=1)))


def code_by_qp(H, labels, k, beta, radius=None):
    """Eq. 16 as it stands, or its loss alone within a radius, by a generic solver."""
    n, columns = H.shape
    size = k * columns
    P = sparse.block_diag([beta * sparse.identity(size), sparse.csc_matrix((n, n))], format="csc")
    A, b = [], []
    for i, r in itertools.product(range(n), range(k)):
        row = np.zeros(size + n)
        row[r * columns : (r + 1) * columns] += H[i]
        row[labels[i] * columns : (labels[i] + 1) * columns] -= H[i]
        row[size + i] = -1.0
        A.append(row)
        b.append(-float(r != labels[i]))
    cones = [clarabel.NonnegativeConeT(len(b))]
    if radius is not None:
        A += [np.zeros(size + n), *-np.eye(size, size + n)]
        b += [radius, *np.zeros(size)]
        cones.append(clarabel.SecondOrderConeT(1 + size))
    settings = clarabel.DefaultSettings()
    settings.verbose = False
    settings.tol_gap_abs = settings.tol_gap_rel = settings.tol_feas = 1e-10
    costs = np.concatenate([np.zeros(size), np.ones(n)])
    solution = clarabel.DefaultSolver(
        P, costs, sparse.csc_matrix(np.array(A)), np.array(b), cones, settings
    ).solve()
    return np.array(solution.x)[:size].reshape(k, columns), solution.obj_val


@pytest.mark.parametrize("noise", [0.5, 2.0])
@pytest.mark.parametrize("radius", [0.1, 1.0, 5.0])
@pytest.mark.parametrize(("n", "k", "columns"), [(60, 3, 3), (100, 5, 3), (80, 4, 8)])
def test_norm_2_within_a_radius_is_certified(n, k, columns, radius, noise):
    rng = np.random.RandomState(n + k)
    labels = np.arange(n) % k
    H = rng.choice([-1.0, 1.0], size=(k, columns))[labels] + noise * rng.randn(n, columns)
    found = design.continuous_code(H, labels, norm=2, radius=radius)
    assert np.linalg.norm(found.code) <= radius * (1 + 1e-12)
    assert found.objective - found.dual_objective <= 1e-7 * max(1.0, found.objective)
    code, value = code_by_qp(H, labels, k, 0.0, radius)
    assert found.objective == pytest.approx(value, rel=1e-6, abs=1e-6)
    if np.linalg.norm(code) < 0.99 * radius:  # the constraint does not bind
        assert found.dual_objective == pytest.approx(code_by_qp(H, labels, k, 0.0)[1], abs=1e-6)


def test_a_radius_that_does_not_bind_takes_the_smaller_of_equal_codes():
    # two equal columns: the program's solution may use one of them, the least norm uses both
    rng = np.random.RandomState(0)
    labels = np.arange(60) % 3
    h = np.array([-1.0, 0.0, 1.0])[labels][:, None] + rng.randn(60, 1)
    one = design.continuous_code(h, labels, norm=2, radius=100.0)
    size = np.linalg.norm(one.code)
    both = design.continuous_code(np.hstack([h, h]), labels, norm=2, radius=0.8 * size)
    assert both.objective == pytest.approx(one.objective, rel=1e-7)
    assert np.linalg.norm(both.code) <= size / np.sqrt(2) * (1 + 1e-6)


@pytest.mark.parametrize("norm", [1, 2, "inf"])
@pytest.mark.parametrize("radius", [0.2, 2.0])
@pytest.mark.parametrize(("n", "columns"), [(40, 5), (8, 12)])
def test_a_code_within_a_radius(norm, radius, n, columns):
    H, labels = outputs(3, n=n, columns=columns)
    found = design.continuous_code(H, labels, norm=norm, radius=radius)
    size = design.matrix_norm(found.code, str(norm))
    assert size <= radius * (1 + 1e-12)
    assert found.objective == pytest.approx(found.dual_objective, rel=1e-7, abs=1e-7)
    loss = penalised_loss(found.code, H, labels, norm, 0.0, np.ones(n))
    assert found.objective == pytest.approx(loss, rel=1e-9, abs=1e-9)


@pytest.mark.parametrize("norm", [1, 2, "inf"])
def test_the_incremental_code_lowers_the_loss_with_each_column(norm):
    H, labels = outputs(4)
    losses = [
        penalised_loss(
            design.incremental_code(H[:, :t], labels, norm=norm, beta=0.1).code,
            H[:, :t], labels, norm, 0.0, np.ones(40),
        )
        for t in range(1, 6)
    ]  # fmt: skip
    assert np.all(np.diff(losses) <= 1e-6)
    assert losses[-1] < 0.7 * losses[0]


def test_the_first_incremental_column_is_the_batch_code_of_one_column():
    H, labels = outputs(5, columns=1)
    batch = design.continuous_code(H, labels, norm=1, beta=0.3)
    one = design.incremental_code(H, labels, norm=1, beta=0.3)
    assert one.objective == pytest.approx(batch.objective, rel=1e-9)


def test_the_greedy_code_learns():
    X, y = load_iris(return_X_y=True)
    found = design.greedy_code(X, y, SVM(gamma=0.5), n_columns=4, random_state=0)
    assert found.code.shape == (3, 4)
    assert set(np.unique(found.code)) == {-1, 1}
    assert found.errors[-1] < 0.05


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"norm": 3}, "Unknown norm"),
        ({"beta": 0}, "beta must be"),
        ({"radius": -1}, "radius must be"),
        ({"n_classes": 2}, "n_classes >= 4"),
    ],
)
def test_bad_parameters_of_a_continuous_code(params, message):
    H, labels = outputs(0)
    with pytest.raises(ValueError, match=message):
        design.continuous_code(H, labels, **params)


# --- decoders ---


def classifier(decoder, code="ovo", n=120, k=4):
    rng = np.random.RandomState(0)
    labels = np.arange(n) % k
    X = rng.randn(n, 3) + 3.0 * rng.randn(k, 3)[labels]
    machine = SVM(gamma=0.3)
    return X, labels, OutputCodeClassifier(code, machine, decoder, random_state=0).fit(X, labels)


@pytest.mark.parametrize("code", ["ova", "ovo", "dense"])
@pytest.mark.parametrize("norm", [1, 2, "inf"])
def test_the_decoder_reads_the_code_designed_on_held_out_margins(code, norm):
    X, labels, clf = classifier(ContinuousCode(norm=norm, beta=0.5), code)
    seen = []

    class Spy(ContinuousCode):
        def fit(self, training):
            seen.append(training.crossfit(3))
            return super().fit(training)

    again = classifier(Spy(norm=norm, beta=0.5), code)[2]
    scale = np.sqrt((seen[0] ** 2).mean())
    found = design.continuous_code(seen[0] / scale, labels, norm=norm, beta=0.5)
    code = again.decoder_.continuous_code_  # as good; the linear programs have many optima
    value = penalised_loss(code, seen[0] / scale, labels, norm, 0.5, np.ones(120))
    assert value == pytest.approx(found.objective, rel=1e-7)
    np.testing.assert_allclose(again.decision_function(X), again.margins(X) @ code.T / scale)
    assert clf.score(X, labels) > 0.8
    proba = clf.predict_proba(X)
    assert np.array_equal(proba.argmax(axis=1), clf.decision_function(X).argmax(axis=1))
    np.testing.assert_allclose(proba.sum(axis=1), 1.0)


def test_a_kernel_between_margins():
    X, labels, clf = classifier(ContinuousCode(beta=0.5, kernel="rbf", gamma=0.4))
    decoder = clf.decoder_
    H = clf.margins(X) / decoder.scale_ - decoder.origin_
    distance = ((H[:, None] - decoder.patterns_.values[None]) ** 2).sum(axis=2)
    np.testing.assert_allclose(
        clf.decision_function(X), np.exp(-0.4 * distance) @ decoder.dual_coef_, atol=1e-9
    )
    linear = classifier(ContinuousCode(beta=0.5, kernel=lambda A, B: A @ B.T))[2]
    same = classifier(ContinuousCode(beta=0.5))[2]
    np.testing.assert_allclose(linear.decision_function(X), same.decision_function(X), atol=2e-2)
    assert clf.score(X, labels) > 0.8


def test_a_kernel_needs_norm_2():
    with pytest.raises(ValueError, match="norm=2"):
        classifier(ContinuousCode(norm=1, kernel="rbf"))


def graph_by_lists(margins, code):
    """Strike the loser of the first against the last of a list, one row at a time."""
    winners = []
    for f in margins:
        left = list(range(len(code)))
        while len(left) > 1:
            a, b = left[0], left[-1]
            s = next(s for s in range(code.shape[1]) if code[a, s] and code[b, s])
            left.remove(b if f[s] * code[a, s] >= 0 else a)
        winners.append(left[0])
    return np.array(winners)


@pytest.mark.parametrize("k", [2, 3, 7])
def test_the_decision_graph_equals_lists(k):
    code = codes.code_matrix("ovo", k)
    rng = np.random.RandomState(k)
    code = code[:, rng.permutation(code.shape[1])] * rng.choice([-1, 1], code.shape[1])
    margins = rng.randn(200, code.shape[1])
    margins[0] = 0.0
    decoder = DecisionDAG().fit(Training(code, np.arange(k), None, None, np.ones(k), None))
    scores = decoder.scores(margins)
    assert np.array_equal(scores.argmax(axis=1), graph_by_lists(margins, code))
    assert np.array_equal(np.sort(scores, axis=1), np.tile(np.arange(1.0, k + 1), (200, 1)))
    own = code.astype(float)
    assert np.array_equal(decoder.scores(own).argmax(axis=1), np.arange(k))


def test_the_decision_graph_needs_pairs():
    with pytest.raises(ValueError, match="code='ovo'"):
        classifier("ddag", "ova")
    X, labels, clf = classifier("ddag")
    assert clf.score(X, labels) > 0.8
