"""Codes designed with their machines, the separable problem, and any closeness. [CS02]"""

from __future__ import annotations

import clarabel
import numpy as np
import pytest
from scipy import sparse
from sklearn.datasets import load_digits, load_iris
from sklearn.metrics.pairwise import laplacian_kernel, polynomial_kernel

from outcode import OutputCodeClassifier, codes, dichotomies
from outcode.codes.designed import Designed, DesignedTree, random_split
from outcode.decoders import Closeness
from outcode.design import best_column, code_error, continuous_code, separable_code
from outcode.machines import SVM

X, Y = load_iris(return_X_y=True)


# --- Eq. 13 ---


def separable(seed, k=3, columns=4, n=20):
    rng = np.random.RandomState(seed)
    labels = np.arange(n) % k
    centres = rng.randn(k, columns) * 4.0
    return centres[labels] + 0.3 * rng.randn(n, columns), labels


def explicit_leads(H, labels, k):
    """One row per sample and other class: h in the block of y, -h in that of r."""
    rows = []
    for h, y in zip(H, labels, strict=True):
        for r in range(k):
            if r != y:
                row = np.zeros((k, len(h)))
                row[y], row[r] = h, -h
                rows.append(row.ravel())
    return np.array(rows)


def generic(S, norm):
    """min |M| s.t. S M >= 1 by an interior-point solver on the explicit constraints."""
    n = S.shape[1]
    if norm == 2:
        P, q, A, b = sparse.identity(n, format="csc"), np.zeros(n), -S, -np.ones(len(S))
    else:
        eye, one = np.eye(n), np.ones((n, 1)) if norm == "inf" else np.eye(n)
        extra = one.shape[1]
        P = sparse.csc_matrix((n + extra, n + extra))
        q = np.concatenate([np.zeros(n), np.ones(extra)])
        A = np.block([[-S, np.zeros((len(S), extra))], [eye, -one], [-eye, -one]])
        b = np.concatenate([-np.ones(len(S)), np.zeros(2 * n)])
    settings = clarabel.DefaultSettings()
    settings.verbose = False
    cones = [clarabel.NonnegativeConeT(len(b))]
    return clarabel.DefaultSolver(
        sparse.csc_matrix(P), q, sparse.csc_matrix(A), b, cones, settings
    ).solve()


@pytest.mark.parametrize("norm", [1, 2, "inf"])
@pytest.mark.parametrize("seed", range(6))
def test_the_separable_code_is_that_of_a_generic_solver(norm, seed):
    k = 2 + seed % 3
    H, labels = separable(seed, k=k)
    found, S = separable_code(H, labels, norm=norm), explicit_leads(H, labels, k)
    assert (S @ found.code.ravel()).min() >= 1.0 - 1e-9
    assert found.objective == pytest.approx(generic(S, norm).obj_val, rel=1e-5)
    assert 0 <= found.gap + 1e-9 <= 1e-6
    assert code_error(found.code, H, labels) == 0.0


def test_a_small_beta_tends_to_the_separable_code():
    H, labels = separable(1)
    limit = separable_code(H, labels).code
    near = continuous_code(H, labels, beta=1e-6).code
    np.testing.assert_allclose(near, limit, atol=1e-4)


def test_what_cannot_be_separated_is_said():
    H = np.array([[1.0], [1.0]])
    with pytest.raises(ValueError, match=r"No code classifies every row.*continuous_code"):
        separable_code(H, [0, 1])


# --- any closeness ---


def test_closeness_is_the_kernel_of_margins_and_codewords():
    clf = OutputCodeClassifier("ovo", SVM(), "linear").fit(X, Y)
    f, code = clf.margins(X), clf.code_.astype(float)
    for decoder, expected in (
        (Closeness(), polynomial_kernel(f, code, 3, 1.0, 1.0)),
        (Closeness("laplacian", 0.5), laplacian_kernel(f, code, 0.5)),
        (Closeness("linear"), f @ code.T),
        (Closeness(laplacian_kernel), laplacian_kernel(f, code)),
    ):
        near = clf.with_decoder(decoder)
        np.testing.assert_allclose(near.decision_function(X), expected, rtol=1e-9)
        error = code_error(code, f, Y, closeness=lambda A, B, e=expected: e)
        assert error == pytest.approx(1.0 - near.score(X, Y), abs=1e-9)
    same = clf.with_decoder(Closeness("linear"))
    np.testing.assert_array_equal(same.predict(X), clf.predict(X))
    euclid = clf.with_decoder(Closeness("rbf", 0.1))
    np.testing.assert_array_equal(euclid.predict(X), clf.with_decoder("euclidean").predict(X))
    with pytest.raises(ValueError, match="give the name of a kernel"):
        clf.with_decoder(Closeness("precomputed"))


# --- codes designed with their machines ---


@pytest.mark.parametrize("by", ["columns", "continuous"])
def test_a_designed_code_is_one_and_the_same_for_a_seed(by):
    digits, y = load_digits(return_X_y=True)
    digits, y = digits[:300], y[:300]
    clf = OutputCodeClassifier(Designed(by), "svm", "continuous", random_state=0)
    code = clf.fit(digits, y).code_
    assert code.shape == (10, 10)
    assert np.isin(code, (-1, 1)).all()
    assert len(np.unique(code, axis=0)) == 10
    np.testing.assert_array_equal(clf.fit(digits, y).code_, code)
    assert clf.score(digits, y) > 0.95
    assert clf.decoder_.continuous_code_.shape == (10, 10)


class Told:
    """Held-out votes as a table: for each column of signs what the machine says."""

    def __init__(self, X, labels):
        self.X, self.labels, self.trained = X, labels, []

    def votes(self, code):
        self.trained.append(code[:, 0])
        sides = [self.X[(code[self.labels, 0] == sign)].mean(axis=0) for sign in (1, -1)]
        distance = [((self.X - centre) ** 2).sum(axis=1) for centre in sides]
        votes = np.sign(distance[1] - distance[0])[:, None]
        return np.where(code[self.labels] == 0, 0.0, votes)


def test_a_column_and_its_machine_take_turns_until_it_stays():
    """By hand: each column tried is the best column for the machine before it."""
    told, rng = Told(X, Y), np.random.RandomState(0)
    empty = np.zeros((3, 0), dtype=np.int8), np.zeros((150, 0))
    column, votes = Designed(rounds=5)._next(told, *empty, rng)
    first = random_split(3, np.random.RandomState(0))
    np.testing.assert_array_equal(told.trained[0], first)
    for before, after in zip(told.trained, told.trained[1:], strict=False):
        h = np.where(told.votes(before[:, None])[:, 0] >= 0, 1, -1)
        told.trained.pop()
        np.testing.assert_array_equal(best_column(h, Y, n_classes=3), after)
    errors = [
        code_error(c[:, None], np.atleast_2d(told.votes(c[:, None])), Y) for c in list(told.trained)
    ]
    assert code_error(column[:, None], votes[:, None], Y) == pytest.approx(min(errors))


def test_the_tree_splits_every_node_in_two():
    digits, y = load_digits(return_X_y=True)
    code = codes.code_matrix("designed-tree", 10, digits[:400], y[:400], random_state=0)
    assert code.shape == (10, 9)
    nodes = {tuple(np.flatnonzero(column)) for column in code.T}
    assert tuple(range(10)) in nodes
    for column in code.T:
        for sign in (1, -1):
            side = tuple(np.flatnonzero(column == sign))
            assert side
            assert len(side) == 1 or side in nodes


def test_best_columns_make_better_trees_than_random_splits():
    digits, y = load_digits(return_X_y=True)

    def score(tree, seed):
        clf = OutputCodeClassifier(tree, "ls", "hinge", random_state=seed)
        return clf.fit(digits[:400], y[:400]).score(digits[400:800], y[400:800])

    drawn, found = DesignedTree(rounds=1, starts=1), DesignedTree()
    assert np.mean([score(found, s) for s in range(4)]) > np.mean(
        [score(drawn, s) for s in range(4)]
    )


@pytest.mark.parametrize("code", [Designed(), Designed("continuous"), DesignedTree()])
def test_designed_codes_without_data_and_of_two_classes(code):
    with pytest.raises(ValueError, match="learned from the data"):
        code.matrix(3)
    two = X[Y < 2], Y[Y < 2]
    np.testing.assert_array_equal(code.matrix(2, *two), [[-1], [1]])
    assert dichotomies.diagnose(code.matrix(3, X, Y, rng=0)).separated_pairs == 3
    if isinstance(code, Designed):
        with pytest.raises(ValueError, match="Unknown by 'column'"):
            Designed("column").matrix(3, X, Y)
