"""Kernels and Gram stores against double loops."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

import oracles
from outcode import gram as grams
from outcode import kernels
from outcode.kernels import KERNELS

PARAMS = {"gamma": 0.3, "degree": 3, "coef0": 0.7}


def make(name):
    return KERNELS[name](**PARAMS)


@pytest.mark.parametrize("name", KERNELS)
@settings(max_examples=15, deadline=None)
@given(seed=st.integers(0, 10_000), offset=st.sampled_from([0.0, 1e4]))
def test_every_kernel_equals_double_loops(name, seed, offset):
    rng = np.random.RandomState(seed)
    X, Z = rng.randn(7, 3), rng.randn(5, 3)
    if KERNELS[name].of_distance:  # a common offset cancels: rows are centred first
        X, Z = X + offset, Z + offset
    kernel = make(name)
    origin = kernel.origin(X)
    block = kernel.block(kernel.prepare(X, origin), kernel.prepare(Z, origin))
    np.testing.assert_allclose(block, oracles.kernel_matrix(name, X, Z, **PARAMS), rtol=1e-9)


@pytest.mark.parametrize("name", KERNELS)
def test_gram_is_symmetric_and_psd_and_sparse_rows_agree(name):
    X = np.random.RandomState(0).randn(600, 4) * (np.random.RandomState(1).rand(600, 4) < 0.5)
    kernel = make(name)
    dense = grams.gram_matrix(kernel, kernel.prepare(X, kernel.origin(X)), np.float64)
    assert np.array_equal(dense, dense.T)
    if name != "sigmoid":
        assert np.linalg.eigvalsh(dense)[0] > -1e-8 * np.abs(dense).max()
    S = sparse.csr_matrix(X)
    S.indices, S.indptr = S.indices.astype(np.int64), S.indptr.astype(np.int64)
    spread = grams.gram_matrix(kernel, kernel.prepare(S, kernel.origin(S)), np.float64)
    np.testing.assert_allclose(spread, dense, rtol=1e-9, atol=1e-9)


def test_gaussian_diagonal_is_exactly_one():
    X = 1e6 + np.random.RandomState(0).rand(300, 5)
    kernel = kernels.Gaussian(gamma=3.0)
    K = grams.gram_matrix(kernel, kernel.prepare(X, kernel.origin(X)), np.float32)
    assert np.all(K.diagonal() == 1.0)
    assert K.max() <= 1.0


@pytest.mark.parametrize("whole", [True, False])
def test_features_of_a_store_are_in_its_order(whole):
    rng = np.random.RandomState(0)
    X, order, kernel = rng.randn(12, 3), rng.permutation(12), kernels.Linear()
    store = grams.gram(kernel, kernel.prepare(X), dtype=np.float64, order=order, whole=whole)
    everything = np.arange(12)
    np.testing.assert_allclose(store.features @ store.features.T, store.block(everything))


def test_row_store_answers_like_the_matrix():
    X = np.random.RandomState(0).randn(90, 3)
    kernel = make("rbf")
    rows = kernel.prepare(X, kernel.origin(X))
    order = np.random.RandomState(1).permutation(90)
    whole = grams.gram(kernel, rows, order=order)
    with pytest.warns(UserWarning, match="rows are computed on demand"):
        some = grams.gram(kernel, rows, order=order, max_memory=90 * 8 * 20)
    assert some.matrix is None
    assert some.largest_square == 21  # a quarter of the memory
    index = np.array([3, 50, 7, 88])
    np.testing.assert_allclose(some.block(index), whole.block(index), rtol=1e-12)
    np.testing.assert_allclose(some.strip(index), whole.strip(index), rtol=1e-12)
    np.testing.assert_allclose(some.cross(index, order), whole.cross(index, order), rtol=1e-12)
    a, b = np.zeros(90), np.zeros(90)
    some.add(index, np.array([1.0, -2.0, 0.5, 3.0]), a)
    whole.add(index, np.array([1.0, -2.0, 0.5, 3.0]), b)
    np.testing.assert_allclose(a, b, rtol=1e-12)


def test_gamma_rules_and_weights():
    X = np.random.RandomState(0).randn(40, 3)
    weight = np.random.RandomState(1).randint(1, 4, size=40)
    assert kernels.gamma_value("scale", X) == pytest.approx(1 / (3 * X.var()))
    assert kernels.gamma_value("auto", X) == pytest.approx(1 / 3)
    repeated = np.repeat(X, weight, axis=0)
    expected = pytest.approx(1 / (3 * repeated.var()))
    assert kernels.gamma_value("scale", X, weight.astype(float)) == expected
    assert kernels.gamma_value("scale", sparse.csr_matrix(X), weight.astype(float)) == expected
    assert kernels.gamma_value("scale", np.ones((5, 2))) == 1.0


def test_callable_kernel_is_checked():
    kernel = kernels.resolve(lambda X, Z: X @ Z.T, np.eye(3))
    rows = kernel.prepare(np.eye(3))
    np.testing.assert_array_equal(kernel.block(rows, rows), np.eye(3))
    wrong = kernels.resolve(lambda X, Z: X, np.eye(3))
    with pytest.raises(ValueError, match=r"returned shape \(3, 3\) for 3 and 2 rows"):
        wrong.block(rows, rows[:2])
    broken = kernels.resolve(lambda X, Z: X @ Z.T * np.nan, np.eye(3))
    with pytest.raises(ValueError, match="NaN or infinity"):
        broken.block(rows, rows)


@pytest.mark.parametrize("name", KERNELS)
def test_sparse_rows_may_have_their_columns_in_any_order(name):
    X = np.random.RandomState(0).randn(30, 12) * (np.random.RandomState(1).rand(30, 12) < 0.5)
    ordered = sparse.csr_matrix(X)
    backwards = ordered.copy()
    for i in range(30):
        row = slice(*ordered.indptr[i : i + 2])
        backwards.indices[row] = ordered.indices[row][::-1]
        backwards.data[row] = ordered.data[row][::-1]
    backwards.has_sorted_indices = False
    kernel = make(name)
    rows = kernel.prepare(backwards)
    wanted = kernel.block(kernel.prepare(X), kernel.prepare(X))
    np.testing.assert_allclose(kernel.block(rows, rows), wanted, rtol=1e-12)
    assert (backwards.toarray() == X).all()
