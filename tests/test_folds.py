"""Folds by what a row holds: weights and repetition agree, equal rows stay together."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

from outcode.folds import content_folds, row_keys, splits


def rows(seed, n=40):
    rng = np.random.RandomState(seed)
    X = rng.randint(-2, 3, size=(n, 3)) * (rng.rand(n, 3) < 0.7).astype(float)
    return X, rng.randint(3, size=n), rng


@settings(max_examples=50, deadline=None)
@given(seed=st.integers(0, 10_000), folds=st.integers(2, 6), pairwise=st.booleans())
def test_a_weight_and_a_repeated_row_give_the_same_folds(seed, folds, pairwise):
    X, labels, rng = rows(seed)
    if pairwise:
        X = X @ X.T
    times = rng.randint(0, 3, size=len(X))
    again = np.repeat(np.arange(len(X)), times)
    repeated = X[np.ix_(again, again)] if pairwise else X[again]
    kept = np.unique(again)
    once = X[np.ix_(kept, kept)] if pairwise else X
    weight = times[kept].astype(float) if pairwise else times.astype(float)
    own = labels[kept] if pairwise else labels
    by_weight = content_folds(once, own, folds, weight, pairwise=pairwise)
    by_weight = by_weight[np.searchsorted(kept, again) if pairwise else again]
    by_repetition = content_folds(repeated, labels[again], folds, pairwise=pairwise)
    np.testing.assert_array_equal(by_weight, by_repetition)


@settings(max_examples=50, deadline=None)
@given(seed=st.integers(0, 10_000), folds=st.integers(2, 6))
def test_equal_rows_of_a_class_share_a_fold_whatever_their_order_and_form(seed, folds):
    X, labels, rng = rows(seed)
    fold = content_folds(X, labels, folds)
    order = rng.permutation(len(X))
    np.testing.assert_array_equal(content_folds(X[order], labels[order], folds), fold[order])
    spread = sparse.csr_matrix(X)
    np.testing.assert_array_equal(content_folds(spread, labels, folds), fold)
    np.testing.assert_array_equal(content_folds(-0.0 + X, labels, folds), fold)
    for i in range(len(X)):
        same = (X[i] == X).all(axis=1) & (labels == labels[i])
        assert len(set(fold[same])) == 1


def test_classes_are_spread_evenly_and_single_rows_never_held_out():
    labels = np.repeat([0, 1, 2], [31, 20, 9])
    X = np.random.RandomState(0).randn(60, 2)
    fold = content_folds(X, labels, 3)
    for q in range(3):
        sizes = np.bincount(fold[labels == q], minlength=3)
        assert sizes.max() - sizes.min() <= 1
    weight = np.ones(60)
    weight[52:] = 0.0  # one row of class 2 is left
    fold = content_folds(X, labels, 3, weight)
    assert np.all(fold[51:] == -1)
    assert set(fold) == {-1, 0, 1, 2}


def test_rows_are_shuffled_and_keys_differ():
    X = np.arange(600.0)[:, None]
    assert len(np.unique(row_keys(X, 600))) == 600
    fold = content_folds(X, np.zeros(600, dtype=int), 2)
    assert 200 < np.count_nonzero(np.diff(fold)) < 400  # neither blocks nor every other row


def test_a_number_of_folds_becomes_splits():
    X, labels, _ = rows(0)
    names = np.array(list("abc"))[labels]
    found = splits(4, X, names)
    np.testing.assert_array_equal(
        np.sort(np.concatenate([test for _, test in found])), np.arange(40)
    )
    for train, test in found:
        assert not set(train) & set(test)
    given = [(np.arange(20), np.arange(20, 40))]
    assert splits(given, X, names)[0][0] is given[0][0]


@pytest.mark.parametrize("folds", [1, 0, -2, 2.5, True, "3"])
def test_a_wrong_number_of_folds_is_refused(folds):
    with pytest.raises(ValueError, match="folds must be an integer of at least 2"):
        content_folds(np.eye(4), np.array([0, 0, 1, 1]), folds)
