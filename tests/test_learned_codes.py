"""Codes learned from the data: the right partition where it is known, and hard data."""

from __future__ import annotations

import tracemalloc
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse
from scipy.optimize import approx_fprime
from sklearn.base import clone
from sklearn.datasets import load_iris, load_wine
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.model_selection import GridSearchCV
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

from outcode import OutputCodeClassifier, codes, datasets, diagnose
from outcode.codes.embedding import column_weights, decoded
from outcode.codes.information import floating_search, interaction_potentials, standardised
from outcode.codes.joint import CodeStep, discretised, repaired
from outcode.codes.trials import Trial
from outcode.decoders import LossWeighted
from outcode.machines import SVM, LeastSquares
from outcode.parallel import single_blas


@pytest.fixture(autouse=True, scope="module")
def _one_thread_for_blas():
    """Thousands of tiny problems: more threads only wait for each other."""
    with single_blas():
        yield


LEARNED = ("decoc", "forest", "ecocone", "jecoc")
SEEDS = st.integers(0, 10_000)


def clusters(n_classes, seed=0, per_class=12, spread=2.0, n_features=4):
    rng = np.random.RandomState(seed)
    labels = np.arange(n_classes * per_class) % n_classes
    centres = spread * rng.randn(n_classes, n_features)
    return centres[labels] + rng.randn(len(labels), n_features), labels


def line(positions, per_class=20, noise=0.1, seed=0):
    rng = np.random.RandomState(seed)
    labels = np.repeat(np.arange(len(positions)), per_class)
    return (np.asarray(positions, float)[labels] + noise * rng.randn(len(labels)))[:, None], labels


def assert_sound(code, n_classes):
    assert code.shape[0] == n_classes
    assert code.dtype == np.int8
    found = diagnose(code)
    assert not [finding for finding in found.findings if finding.fatal]
    assert found.repeated_columns == found.complementary_columns == 0


# --- quadratic mutual information and the search for partitions ---


def slow_information(X, signs, width=0.5):
    """V_in + V_all - 2 V_between by loops over pairs of rows; a sign 0 leaves the row out.

    The kernel's scale comes from all rows, whatever the node.
    """
    Z = (X - X.mean(axis=0)) / X.std(axis=0)
    n = len(Z)
    mean = sum(sum((a - b) ** 2) for a in Z for b in Z) / n**2
    used = [i for i in range(n) if signs[i]]
    share = {c: sum(signs[i] == c for i in used) / len(used) for c in (1, -1)}
    inside = every = between = 0.0
    for i in used:
        for j in used:
            potential = np.exp(-sum((Z[i] - Z[j]) ** 2) / (4 * width**2 * mean / 2))
            inside += potential * (signs[i] == signs[j])
            every += potential * (share[1] ** 2 + share[-1] ** 2)
            between += potential * share[signs[i]]
    return (inside + every - 2 * between) / len(used) ** 2


@settings(max_examples=15, deadline=None)
@given(seed=SEEDS, width=st.sampled_from([0.2, 0.5, 1.0]))
def test_information_by_loops(seed, width):
    rng = np.random.RandomState(seed)
    X = rng.randn(14, 2) * [1.0, 50.0] + [3.0, -1000.0]
    labels = rng.permutation(np.r_[np.arange(4), rng.randint(4, size=10)])
    column = np.array([1, -1, *rng.choice([-1, 0, 1], size=2)], dtype=np.int8)
    found = interaction_potentials(X, labels, width=width, rng=rng)
    slow = slow_information(X, column[labels], width)
    assert abs(found.information(column) - slow) < 1e-10
    assert found.information(column) == pytest.approx(found.information(-column), abs=1e-14)


@pytest.mark.parametrize("n_rows", [60, 1500])
def test_potentials_of_sparse_rows_and_of_a_gram_matrix(n_rows):
    """1,500 rows make several blocks."""
    rng = np.random.RandomState(0)
    X, labels = rng.rand(n_rows, 5) * (rng.rand(n_rows, 5) < 0.6), rng.randint(6, size=n_rows)
    dense = interaction_potentials(X, labels, rng=rng)
    spread = interaction_potentials(sparse.csr_matrix(X), labels, rng=rng)
    Z = standardised(X)
    gram = interaction_potentials(Z @ Z.T + 7.0, labels, pairwise=True, rng=rng)
    distance = ((Z[:, None] - Z) ** 2).sum(axis=2)
    kernel, member = np.exp(-2 * distance / distance.mean()), np.eye(6)[labels]
    for found in (dense, spread, gram):
        np.testing.assert_allclose(found.values, member.T @ kernel @ member / n_rows**2, rtol=1e-9)


def best_partition(U):
    sides = np.array(list(product((0.0, 1.0), repeat=len(U))))
    return np.einsum("ia,ab,ib->i", sides, U, sides).max()


def test_floating_search_against_every_partition():
    """Never better than the best of all, and nearly always (199 of these 200) as good."""
    equal = 0
    for seed in range(200):
        rng = np.random.RandomState(seed)
        X, labels = clusters(rng.randint(3, 9), seed, per_class=8, spread=2 * rng.rand())
        U = interaction_potentials(X, labels, rng=rng).centred(np.arange(labels.max() + 1))
        inside = floating_search(U)
        found, best = inside @ U @ inside, best_partition(U)
        assert 0 < inside.sum() < len(U)
        assert found <= best * (1 + 1e-9)
        equal += found >= best * (1 - 1e-9)
    assert equal >= 190


def test_floating_search_takes_what_is_allowed():
    U = interaction_potentials(*clusters(5), rng=np.random.RandomState(0)).centred(np.arange(5))
    best = floating_search(U)
    other = floating_search(U, lambda inside: inside[0] ^ best[0] ^ np.any(inside ^ best))
    assert np.array_equal(floating_search(U, lambda inside: False), best)
    assert not np.array_equal(other, best)


def test_memory_is_bounded_by_blocks():
    X, labels = clusters(10, per_class=600)
    tracemalloc.start()
    interaction_potentials(X, labels, rng=np.random.RandomState(0))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < len(X) ** 2 * 8 / 2


# --- trees ---


@pytest.mark.parametrize("seed", range(4))
def test_discriminant_recovers_a_hierarchy(seed):
    """Eight classes as two far clusters of two near ones of two: the tree must be theirs."""
    rng = np.random.RandomState(seed)
    order = rng.permutation(8)
    bits = np.array(list(product((0, 1), repeat=3)))
    centre = np.empty((8, 1))
    centre[order] = bits @ [[80.0], [25.0], [8.0]]
    labels = np.arange(80) % 8
    code = codes.Discriminant().matrix(8, centre[labels] + rng.randn(80, 1), labels)
    assert code.shape == (8, 7)
    splits = {frozenset(frozenset(np.flatnonzero(c == side)) for side in (-1, 1)) for c in code.T}
    for depth in range(3):
        for prefix in product((0, 1), repeat=depth):
            node = (bits[:, :depth] == prefix).all(axis=1)
            sides = [frozenset(order[node & (bits[:, depth] == bit)]) for bit in (0, 1)]
            assert frozenset(sides) in splits


@settings(max_examples=20, deadline=None)
@given(n_classes=st.integers(2, 12), seed=SEEDS)
def test_discriminant_is_a_binary_tree(n_classes, seed):
    X, labels = clusters(n_classes, seed, per_class=4)
    code = codes.Discriminant().matrix(n_classes, X, labels)
    assert code.shape == (n_classes, n_classes - 1)
    assert np.array_equal(np.unique(np.abs(code[:, 0])), [1])
    opposed = np.array([[np.sum(a * b < 0) for b in code] for a in code])
    assert (opposed[np.triu_indices(n_classes, 1)] == 1).all()  # two classes part at one node


def test_permuted_classes_have_the_permuted_tree():
    X, labels = clusters(6)
    order = np.random.RandomState(1).permutation(6)
    code, other = (codes.Discriminant().matrix(6, X, y) for y in (labels, order[labels]))
    assert {tuple(np.outer(c, c).ravel()) for c in code.T} == {
        tuple(np.outer(c, c).ravel()) for c in other[order].T
    }


def test_forest_trees_differ():
    X, labels = clusters(7)
    code = codes.Forest(n_trees=4).matrix(7, X, labels)
    roots = (code != 0).all(axis=0).sum()
    assert roots == 4
    assert np.array_equal(code[:, :6], codes.Discriminant().matrix(7, X, labels))
    assert code.shape[1] > 3 * 6
    assert codes.Forest(n_trees=5).matrix(3, *clusters(3)).shape == (3, 6)  # all there are
    assert codes.Forest().matrix(2, *clusters(2)).tolist() == [[-1], [1]]


def test_thinned_rows_keep_the_shares_and_every_class():
    X, labels = line([0, 1, 30, 31], per_class=300)
    X, labels = np.vstack([X, [[15.0]]]), np.r_[labels, 4]
    thinned = codes.Discriminant(max_rows=100).potentials(5, X, labels, rng=0)
    whole = codes.Discriminant().potentials(5, X, labels)
    np.testing.assert_allclose(thinned.shares, np.bincount(labels) / len(labels))
    assert not np.array_equal(thinned.values, whole.values)
    np.testing.assert_allclose(thinned.values, whole.values, rtol=0.1, atol=1e-4)
    root = codes.Discriminant(max_rows=100).matrix(5, X, labels, rng=0)[:, 0]
    assert root[:4].tolist() == [-1, -1, 1, 1]


# --- node embedding ---


def test_a_column_for_the_one_confused_pair():
    """On a line the third column is not linear; without it classes 2 and 3 cannot be told apart."""
    X, labels = line([0, 1, 2, 3])
    start = [[1, 1, 1], [1, -1, -1], [-1, 0, 1], [-1, 0, -1]]
    growth = codes.NodeEmbedding(start).grow(4, X, labels, rng=0)
    assert growth.pairs == ((2, 3),)
    assert growth.code.shape == (4, 4)
    assert growth.code[2, 3] * growth.code[3, 3] == -1
    assert growth.errors[0] > 0.1
    assert growth.errors[1] == 0.0
    assert growth.weights[2] == growth.weights.min()


@pytest.mark.parametrize("machine", [None, SVM(kernel="linear"), SVM(gamma=0.3)])
@pytest.mark.parametrize("start", ["ova", "decoc"])
def test_growth_lowers_the_error_and_keeps_the_start(start, machine):
    X, labels = clusters(6, seed=3, spread=1.0)
    growth = codes.NodeEmbedding(start).grow(6, X, labels, machine, 0)
    first = codes.code_matrix(start, 6, X, labels)
    assert np.array_equal(growth.code[:, : first.shape[1]], first)
    assert all(np.diff(growth.errors) < 0)
    assert len(growth.pairs) == growth.code.shape[1] - first.shape[1] > 0
    for (a, b), column in zip(growth.pairs, growth.code.T[first.shape[1] :], strict=True):
        assert column[a] * column[b] == -1
    assert_sound(growth.code, 6)
    capped = codes.NodeEmbedding(start, max_added=1)
    shorter = capped.matrix(6, X, labels, machine, 0)
    assert np.array_equal(shorter, growth.code[:, : first.shape[1] + 1])


def test_growth_starts_from_one_vs_all_and_adds_five_columns_at_most():
    X, labels = clusters(8, seed=1, spread=0.8)
    growth = codes.NodeEmbedding(n_pairs=30).grow(8, X, labels, rng=0)
    assert np.array_equal(growth.code[:, :8], codes.code_matrix("ova", 8))
    assert growth.code.shape[1] == 13


def test_the_weights_a_code_is_learned_with_reach_decoding():
    X, labels = clusters(6, seed=3, spread=1.0)
    machine = SVM(kernel="linear")
    growth = codes.NodeEmbedding().grow(6, X, labels, machine, 0)
    clf = OutputCodeClassifier("ecocone", machine, LossWeighted(weights="code"), random_state=0)
    clf.fit(X, labels)
    assert np.array_equal(clf.code_, growth.code)
    margins = clf.margins(X)
    assert np.array_equal(clf.predict(X), decoded(margins, growth.code, growth.weights))
    by_hand = growth.weights * (growth.code != 0)
    np.testing.assert_allclose(
        clf.decoder_.weights_, by_hand / by_hand.sum(axis=1, keepdims=True), atol=1e-15
    )
    again = clf.with_decoder("llw").with_decoder(LossWeighted(weights="code"))
    assert np.array_equal(again.decoder_.weights_, clf.decoder_.weights_)
    with pytest.raises(ValueError, match="such as 'ecocone'"):
        OutputCodeClassifier("ova", machine, LossWeighted(weights="code")).fit(X, labels)


@pytest.mark.parametrize("code", [codes.NodeEmbedding, codes.JointCode])
def test_a_code_learned_with_a_machine_of_its_own_is_the_same_for_other_machines(code):
    X, labels = clusters(5, seed=3, spread=1.0)
    svm = SVM(kernel="linear")
    expected = codes.code_matrix(code(), 5, X, labels, machine=svm, random_state=0)
    fixed = OutputCodeClassifier(code(machine=svm), "ls", "llw", random_state=0).fit(X, labels)
    assert np.array_equal(fixed.code_, expected)
    free = OutputCodeClassifier(code(), LeastSquares(gamma=9.0), random_state=0).fit(X, labels)
    assert not np.array_equal(free.code_, expected)


def test_weights_and_decoding_by_hand():
    targets = np.array([[1, 0], [1, 1], [-1, -1], [-1, 1]])
    votes = np.array([[0.5, 9.0], [-0.2, 0.1], [-1.0, -1.0], [-0.1, 0.0]])
    np.testing.assert_allclose(
        column_weights(targets, votes), [np.log(3.5 / 1.5) / 2, np.log(2.5 / 1.5) / 2]
    )
    code = np.array([[1, 0], [-1, 1], [-1, -1]])
    scores = [0.2, (-0.2 * 2 + 0.5) / 3, (-0.2 * 2 - 0.5) / 3]
    assert decoded(np.array([[0.2, 0.5]]), code, np.array([2.0, 1.0])) == np.argmax(scores)


# --- codes learned with their machines ---


def random_step(seed):
    rng = np.random.RandomState(seed)
    k, n_columns = rng.randint(2, 7), rng.randint(1, 9)
    votes, labels = rng.uniform(-1, 1, (40, n_columns)), rng.randint(k, size=40)
    member = np.eye(k)[:, labels]
    counts = member.sum(axis=1)
    step = CodeStep(member @ votes, member @ votes**2, counts, 3 * rng.rand(), rng.rand())
    return step, votes, labels, rng.uniform(-1, 1, (k, n_columns)), rng


@settings(max_examples=25, deadline=None)
@given(seed=SEEDS)
def test_objective_by_loops_and_its_bound(seed):
    step, votes, labels, code, rng = random_step(seed)
    k, n_columns = code.shape
    slow = sum(
        max(0.0, 1 - code[labels[i], s] * votes[i, s]) ** 2 - (1 - code[labels[i], s] ** 2)
        for i in range(40)
        for s in range(n_columns)
    ) / (40 * n_columns)
    for q, r in zip(*np.triu_indices(k, 1), strict=True):
        apart = np.sum((code[q] - code[r]) ** 2) / (4 * n_columns)
        slow += step.separation * 2 / (k * (k - 1)) * max(0.0, step.distance - apart) ** 2
    assert step.objective(code) == pytest.approx(slow, abs=1e-12)
    assert step.surrogate(code, code)[0] == pytest.approx(slow, abs=1e-12)
    other = rng.uniform(-1, 1, code.shape)
    assert step.surrogate(other, code)[0] >= step.objective(other) - 1e-12
    numeric = approx_fprime(
        other.ravel(), lambda flat: step.surrogate(flat.reshape(code.shape), code)[0], 1e-7
    )
    np.testing.assert_allclose(step.surrogate(other, code)[1].ravel(), numeric, atol=1e-5)


@settings(max_examples=25, deadline=None)
@given(seed=SEEDS)
def test_the_relaxed_objective_never_increases(seed):
    step, _, _, code, _ = random_step(seed)
    entries, path = step.solve(code)
    assert (np.abs(entries) <= 1).all()
    assert (np.diff(path) < 0).all()
    assert path[0] == step.objective(code)
    assert path[-1] == step.objective(entries)


def test_a_class_costs_nothing_in_a_column_that_does_not_use_it():
    """One-vs-one on three classes that are apart: no entry that is 0 is worth filling."""
    votes, labels = np.array([[1.0, 0.2], [1.0, -0.2]]), np.array([0, 1])
    member = np.eye(2)[:, labels]
    step = CodeStep(member @ votes, member @ votes**2, np.ones(2), 0.0, 0.5)
    assert step.objective(np.zeros((2, 2))) == 0.0
    assert step.objective(np.array([[1, 0], [0, 0]])) == 0.0  # a perfect margin
    assert step.objective(np.array([[0, 1], [0, 0]])) == pytest.approx(0.8**2 / 4)


def test_joint_learning_starts_from_one_vs_one_and_stays_there_with_three_classes():
    X, labels = load_wine(return_X_y=True)
    X = (X - X.mean(axis=0)) / X.std(axis=0)
    learned = codes.JointCode().matrix(3, X, labels, SVM(kernel="linear"), 0)
    assert np.array_equal(learned, codes.code_matrix("ovo", 3))
    X, labels = clusters(6, seed=3, spread=1.0)
    learned = codes.JointCode().learn(6, X, labels, SVM(kernel="linear"), 0)
    assert learned.code.shape == (6, 15)
    assert len(learned.objectives) > 1


def test_joint_code_gives_up_a_column_no_machine_can_learn():
    """On a line a linear machine cannot tell classes 0 and 2 from 1 and 3."""
    X, labels = line([0, 1, 2, 3])
    start = np.array([[1, 1, -1], [1, -1, -1], [-1, 1, -1], [-1, -1, 1]])
    learned = codes.JointCode(start).learn(4, X, labels, rng=0)
    assert learned.objectives[-1] < learned.objectives[0]
    assert all(np.diff(learned.objectives) < 0)
    assert_sound(learned.code, 4)
    assert learned.code[:, 1].tolist() == [1, -1, -1, -1]
    score = [
        OutputCodeClassifier(code, SVM(kernel="linear"), "llw").fit(X, labels).score(X, labels)
        for code in (start, learned.code)
    ]
    assert score[1] > score[0]


@pytest.mark.parametrize("machine", [None, SVM(kernel="linear"), SVM(gamma=0.3)])
def test_joint_learning_lowers_the_objective(machine):
    X, labels = clusters(6, seed=3, spread=1.0)
    learned = codes.JointCode(codes.DenseRandom(8)).learn(6, X, labels, machine, 0)
    assert len(learned.objectives) > 1
    assert all(np.diff(learned.objectives) < 0)
    assert all((np.diff(path) < 0).all() for path in learned.relaxed)
    dense = codes.JointCode(codes.DenseRandom(8), zero=0.0).matrix(6, X, labels, machine, 0)
    assert (dense != 0).all()


def test_discretising_and_repairing():
    assert discretised(np.array([[0.3, -0.2, 0.0, -1.0]]), 0.25).tolist() == [[1, 0, 0, -1]]
    assert discretised(np.array([[0.3, -0.2, 0.0, -1.0]]), 0.0).tolist() == [[1, -1, 1, -1]]
    before = codes.code_matrix("ova", 4)
    for seed in range(50):
        rng = np.random.RandomState(seed)
        code = repaired(rng.choice([-1, 0, 1], size=(4, 4)).astype(np.int8), before)
        assert_sound(code, 4)
        assert code.shape[1] >= 4


# --- held-out margins ---


@pytest.mark.parametrize("machine", [SVM(gamma=0.3, tol=1e-8), GaussianNB(), None])
def test_votes_come_from_machines_that_did_not_see_the_row(machine):
    X, labels = clusters(4, spread=1.0)
    X, labels = np.vstack([X, X[:1] + 9]), np.r_[labels, 4]
    code = codes.code_matrix("ovo", 5)
    clf = OutputCodeClassifier(code, machine or "svm").fit(X, labels)
    trial = Trial(machine and clf.machine_, X, labels, 3)
    assert np.array_equal(np.flatnonzero(~trial.validated), [48])  # the only row of its class
    trial.votes(codes.code_matrix("dense", 5, random_state=0))  # the Gram matrix is made for this
    votes = trial.votes(code)
    expected = np.empty((49, code.shape[1]))
    for fold in range(3):
        train, test = trial.fold != fold, trial.fold == fold
        fitted = clone(trial.machine).fit(trial.X[train], code[labels[train]])
        expected[test] = fitted.margins(trial.X[test])
    expected = expected[:48] / np.abs(expected[:48]).mean(axis=0)
    np.testing.assert_allclose(votes, np.clip(expected, -1, 1), atol=1e-5)


# --- every learned code, on hard data and behind the classifier's door ---


def hard_data(n_classes, seed):
    """Classes of 1 to 6 rows, some of them twice, and a constant feature."""
    rng = np.random.RandomState(seed)
    labels = np.repeat(np.arange(n_classes), rng.randint(1, 7, size=n_classes))
    X = np.column_stack([rng.randn(len(labels), 3).round(1), np.full(len(labels), 0.1)])
    again = rng.randint(len(labels), size=5)
    return np.vstack([X, X[again]]), np.r_[labels, labels[again]]


@pytest.mark.parametrize("name", LEARNED)
@settings(max_examples=5, deadline=None)
@given(n_classes=st.integers(2, 12), seed=SEEDS)
def test_hard_data(name, n_classes, seed):
    X, labels = hard_data(n_classes, seed)
    code = codes.code_matrix(name, n_classes, X, labels, random_state=seed)
    assert_sound(code, n_classes)
    spread = codes.code_matrix(name, n_classes, sparse.csr_matrix(X), labels, random_state=seed)
    assert_sound(spread, n_classes)


@pytest.mark.parametrize("name", LEARNED)
@pytest.mark.parametrize("machine", [None, SVM(kernel="linear"), "ls"])
def test_degenerate_rows(name, machine):
    """One row per class, all rows equal, thirty classes."""
    fit = OutputCodeClassifier(name, machine or "svm", random_state=0).fit
    for X, labels in [
        (np.arange(10.0).reshape(5, 2) ** 2, np.arange(5)),
        (np.ones((12, 2)), np.arange(12) % 4),
        clusters(30, per_class=2),
    ]:
        k = labels.max() + 1
        made = codes.code_matrix(name, k, X, labels) if machine is None else fit(X, labels).code_
        assert_sound(made, k)


@pytest.mark.parametrize("name", LEARNED)
def test_precomputed_kernels(name):
    X, labels = clusters(5, spread=1.5)
    K = rbf_kernel(X, gamma=0.2)
    for machine in (SVM("precomputed", tol=1e-8), SVC(kernel="precomputed")):
        clf = OutputCodeClassifier(name, machine, random_state=0).fit(K, labels)
        assert_sound(clf.code_, 5)
        assert clf.score(K, labels) > 0.8


@pytest.mark.parametrize("name", LEARNED)
def test_the_same_seed_gives_the_same_code(name):
    X, labels = clusters(6, spread=1.0)
    clf = OutputCodeClassifier(name, SVM(gamma=0.3), random_state=5)
    first, second = (clf.set_params(n_jobs=n).fit(X, labels).code_ for n in (1, 2))
    assert np.array_equal(first, second)


@pytest.mark.parametrize("name", LEARNED)
@pytest.mark.parametrize("load", [load_iris, load_wine])
@pytest.mark.parametrize("machine", ["svm", "ls", GaussianNB()])
def test_classifiers_with_learned_codes(name, load, machine):
    X, y = load(return_X_y=True)
    names = np.array(list("abc"))[y]
    pipe = make_pipeline(StandardScaler(), OutputCodeClassifier(name, machine, random_state=0))
    assert pipe.fit(X, names).score(X, names) > 0.9


@pytest.mark.parametrize("name", LEARNED)
def test_vehicle(name, data_dir):
    data = datasets.load("vehicle", data_dir)
    clf = OutputCodeClassifier(name, SVM(kernel="linear"), random_state=0)
    pipe = make_pipeline(StandardScaler(), clf)
    assert pipe.fit(data.X[::2], data.y[::2]).score(data.X[1::2], data.y[1::2]) > 0.7


def test_grid_search_over_codes_and_their_parameters():
    X, y = load_iris(return_X_y=True)
    search = GridSearchCV(OutputCodeClassifier(random_state=0), {"code": ["ova", *LEARNED]}, cv=3)
    assert search.fit(X, y).best_score_ > 0.9
    grid = {"code__width": [0.25, 1.0], "code__n_trees": [1, 2]}
    search = GridSearchCV(OutputCodeClassifier("forest", random_state=0), grid, cv=3).fit(X, y)
    assert search.best_estimator_.code.n_trees in (1, 2)


def test_missing_values_count_as_the_mean():
    X, labels = line([0, 1, 30, 31])
    X = np.column_stack([X, X])
    X[::7, 0] = np.nan
    assert codes.Discriminant().matrix(4, X, labels)[:, 0].tolist() == [-1, -1, 1, 1]
    assert standardised(X)[0, 0] == 0.0
    assert codes.Discriminant().matrix(4, sparse.csr_matrix(X), labels).shape == (4, 3)
    with pytest.raises(ValueError, match="X holds NaN"):
        codes.Discriminant().matrix(4, np.full((80, 80), np.nan), labels, SVM("precomputed"))


@pytest.mark.parametrize("name", LEARNED)
def test_what_is_missing_is_said(name):
    X, labels = clusters(4)
    with pytest.raises(ValueError, match="learned from the data: give X and y"):
        codes.code_matrix(name, 4)
    with pytest.raises(ValueError, match="rows of each of the 5 classes, got 4"):
        codes.code_matrix(name, 5, X, labels)
    with pytest.raises(ValueError, match="a row per label"):
        codes.code_matrix(name, 4, X[:-1], labels)
    with pytest.raises(ValueError, match="X holds text"):
        codes.code_matrix(name, 4, X.astype(str).astype(object) + "cm", labels)


@pytest.mark.parametrize(
    ("code", "message"),
    [
        (codes.Forest(n_trees=0), "n_trees must be at least 1"),
        (codes.Discriminant(width=-1.0), "width must be a positive"),
        (codes.NodeEmbedding(folds=1), "folds must be an integer of at least 2"),
        (codes.NodeEmbedding("jecok"), "Unknown code 'jecok'"),
        (codes.JointCode(zero=1.5), "zero must lie in"),
        (codes.JointCode(separation=-1.0), "separation must be at least 0"),
        (codes.JointCode("densee"), "Did you mean 'dense'"),
    ],
)
def test_bad_parameters(code, message):
    with pytest.raises(ValueError, match=message):
        codes.code_matrix(code, 4, *clusters(4))
