"""Codes designed for given machines, against enumeration and generic solvers. [CS02]"""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from outcode import design


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
    k, l, m = rng.randint(2, 6), rng.randint(1, 5), rng.randint(1, 30)
    code, H = rng.choice([-1, 1], (k, l)), rng.choice([-1, 0, 1], (m, l))
    labels, weight = rng.randint(k, size=m), rng.randint(1, 4, size=m)
    expected = error_by_loops(code, H, labels, weight)
    assert design.code_error(code, H, labels, weight) == pytest.approx(expected, abs=1e-14)


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
