"""Metrics against scikit-learn's, and against counting by hand."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn import metrics as theirs

from outcode import metrics


@pytest.fixture(params=range(5))
def case(request):
    """Labels, predictions and probabilities of a random problem with five classes."""
    rng = np.random.RandomState(request.param)
    labels = np.r_[np.arange(5), rng.randint(5, size=195)]
    proba = rng.dirichlet(np.ones(5), size=200)
    proba[np.arange(200), labels] += 0.3
    return labels, rng.randint(5, size=200), proba / proba.sum(axis=1, keepdims=True)


def test_errors_are_those_of_scikit_learn(case):
    labels, predicted, _ = case
    assert metrics.error(labels, predicted) == pytest.approx(
        theirs.zero_one_loss(labels, predicted)
    )
    balanced = 1.0 - theirs.balanced_accuracy_score(labels, predicted)
    assert metrics.balanced_error(labels, predicted) == pytest.approx(balanced)
    np.testing.assert_array_equal(
        metrics.confusion(labels, predicted, 5), theirs.confusion_matrix(labels, predicted)
    )


def test_proper_scores_are_those_of_scikit_learn(case):
    labels, _, proba = case
    assert metrics.log_loss(labels, proba) == pytest.approx(theirs.log_loss(labels, proba))
    each = [theirs.brier_score_loss(labels == q, proba[:, q]) for q in range(5)]
    assert metrics.brier(labels, proba) == pytest.approx(sum(each))


def test_a_class_without_rows_does_not_count_in_the_balanced_error():
    labels, predicted = np.array([0, 0, 2, 2]), np.array([0, 1, 2, 2])
    assert metrics.balanced_error(labels, predicted) == 0.25
    assert metrics.confusion(labels, predicted, 4).sum() == 4


def test_log_loss_of_an_impossible_class_is_finite():
    assert metrics.log_loss(np.array([0]), np.array([[0.0, 1.0]])) == pytest.approx(
        34.5388, abs=1e-4
    )


def test_reliability_is_counted_bin_by_bin(case):
    labels, _, proba = case
    found = metrics.reliability(labels, proba, bins=10)
    gaps = 0.0
    for b in range(10):
        rows = [i for i in range(200) if min(int(proba[i].max() * 10), 9) == b]
        assert found.count[b] == len(rows)
        if not rows:
            assert np.isnan(found.confidence[b])
            assert np.isnan(found.accuracy[b])
            continue
        confidence = sum(proba[i].max() for i in rows) / len(rows)
        accuracy = sum(proba[i].argmax() == labels[i] for i in rows) / len(rows)
        assert found.confidence[b] == pytest.approx(confidence)
        assert found.accuracy[b] == pytest.approx(accuracy)
        gaps += abs(confidence - accuracy) * len(rows) / 200
    assert found.calibration_error == pytest.approx(gaps)


def test_certainty_falls_in_the_last_bin():
    found = metrics.reliability(np.array([0, 1]), np.array([[1.0, 0.0], [1.0, 0.0]]))
    assert found.count.tolist() == [0] * 14 + [2]
    assert found.calibration_error == 0.5
