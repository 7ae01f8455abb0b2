"""Leave-one-out margins in closed form against training without the row."""

from __future__ import annotations

import numpy as np
import pytest

from outcode import codes
from outcode.selection.closed_form import SAFE, loo_margins
from outcode.solvers.triangular import inverted


def rows(n=24, n_classes=3, seed=0):
    rng = np.random.default_rng(seed)
    X, labels = rng.normal(size=(n, 3)), np.arange(n) % n_classes
    X[:, 0] += labels
    distances = ((X[:, None] - X[None]) ** 2).sum(axis=2)
    return np.exp(-0.3 * distances), labels


def trained_margin(gram, targets, ridge, weight, i, s):
    """Train column s without row i by the normal equations, and return its margin."""
    used = np.flatnonzero((targets[:, s] != 0) & (weight > 0) & (np.arange(len(gram)) != i))
    G = gram[np.ix_(used, used)] + 1.0 + ridge * np.diag(1.0 / weight[used])
    return (gram[i, used] + 1.0) @ np.linalg.solve(G, targets[used, s].astype(float))


def brute_force(gram, targets, ridge, weight):
    shape = targets.shape
    margins = [
        trained_margin(gram, targets, ridge, weight, i, s)
        for i in range(shape[0])
        for s in range(shape[1])
    ]
    return np.reshape(margins, shape)


@pytest.mark.parametrize("code", ["ova", "ovo", "sparse"])
@pytest.mark.parametrize("n_ridges", [2, 7])
def test_equals_training_without_the_row(code, n_ridges):
    gram, labels = rows(n_classes=4)
    targets = codes.code_matrix(code, 4, random_state=0)[labels]
    weight = np.random.default_rng(1).uniform(0.5, 3.0, len(labels))
    weight[5] = 0.0
    ridges = np.logspace(-2, 1, n_ridges)
    found = loo_margins(gram, targets, ridges, weight)
    for margins, ridge in zip(found, ridges, strict=True):
        np.testing.assert_allclose(margins, brute_force(gram, targets, ridge, weight), rtol=1e-7)


def test_large_systems_are_factorised_alone():
    gram, labels = rows(n=210)
    targets = codes.code_matrix("ovo", 3)[labels]
    weight, ridges = np.ones(len(labels)), np.array([0.1, 1.0])
    few = loo_margins(gram, targets, ridges, weight)
    many = loo_margins(gram, targets, np.r_[ridges, 2.0, 3.0, 4.0], weight)
    np.testing.assert_allclose(few, many[:2], rtol=1e-8)


def test_weights_are_repetitions_left_out_together():
    gram, labels = rows()
    targets = codes.code_matrix("ovo", 3)[labels]
    weight, ridges = np.ones(len(labels)), np.array([0.3])
    weight[4] = 2.0
    twice = np.r_[np.arange(len(labels)), 4]
    weighted = loo_margins(gram, targets, ridges, weight)[0]
    rest = np.flatnonzero(np.arange(len(labels)) != 4)
    for i in rest:  # a row that is there once: leaving it out leaves both copies of the other
        kept = np.flatnonzero(twice != i)
        for s in range(3):
            used = kept[targets[twice[kept], s] != 0]
            index = twice[used]
            G = gram[np.ix_(index, index)] + 1.0 + 0.3 * np.eye(len(index))
            dual = np.linalg.solve(G, targets[index, s].astype(float))
            assert weighted[i, s] == pytest.approx((gram[i, index] + 1.0) @ dual, rel=1e-8)
    np.testing.assert_allclose(  # left out with both of its copies
        weighted[4], loo_margins(gram, targets, ridges, np.ones(len(labels)))[0][4], rtol=1e-8
    )


def test_a_class_of_one_row():
    gram, labels = rows()
    labels = labels.copy()
    labels[labels == 2] = 1
    labels[0] = 2
    targets = codes.code_matrix("ovo", 3)[labels]
    margins = loo_margins(gram, targets, np.array([0.1, 1.0]), np.ones(len(labels)))
    assert np.isfinite(margins).all()


def exact(gram, targets, ridges):
    """All columns on all rows, in float64 by the inverse."""
    margins = []
    for ridge in ridges:
        inverse = np.linalg.inv(gram + 1.0 + ridge * np.eye(len(gram)))
        margins.append(targets - (inverse @ targets) / inverse.diagonal()[:, None])
    return np.array(margins)


def test_float32_serves_where_the_ridge_value_allows():
    gram, labels = rows(n=300)
    targets = codes.code_matrix("ova", 3)[labels]
    for ridges, most in ((np.array([1e-2, 1.0]), 1.0 / SAFE), (np.array([1e-4, 2e-4]), 1e-8)):
        found = loo_margins(gram, targets, ridges, np.ones(300))
        off = np.abs(found - exact(gram, targets, ridges)).max()
        assert off < most
        assert (off > 1e-8) == (ridges[0] == 1e-2)  # the larger ones are in float32


@pytest.mark.parametrize("n", [1, 50, 131, 300])
@pytest.mark.parametrize("kind", [np.float32, np.float64])
def test_triangles_are_inverted_by_halves(n, kind):
    rng = np.random.default_rng(0)
    lower = np.asfortranarray(np.tril(rng.normal(size=(n, n))) / n + np.eye(n), dtype=kind)
    wanted = np.linalg.inv(lower.astype(np.float64))
    np.testing.assert_allclose(inverted(lower), wanted, atol=50 * np.finfo(kind).eps)
    assert not np.triu(lower, 1).any()
