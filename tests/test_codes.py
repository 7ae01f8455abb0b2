"""Codes: every one in the table, and each one's own promise."""

from __future__ import annotations

import tracemalloc
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import oracles
from outcode import codes, diagnose
from outcode.codes import CODES, bch_generator, bch_words, code_matrix
from outcode.dichotomies import FINDINGS, row_distances, separation, targets

SIZES = st.integers(min_value=2, max_value=14)


@pytest.mark.parametrize("name", CODES)
@settings(max_examples=12, deadline=None)
@given(n_classes=SIZES, seed=st.integers(0, 1000))
def test_every_code_is_sound(name, n_classes, seed):
    rng = np.random.RandomState(seed)
    labels = np.arange(3 * n_classes) % n_classes
    X = 2 * rng.randn(n_classes, 3)[labels] + rng.randn(len(labels), 3)
    code = code_matrix(name, n_classes, X, labels, random_state=seed)
    assert code.dtype == np.int8
    assert code.shape[0] == n_classes
    assert np.isin(code, (-1, 0, 1)).all()
    assert (code > 0).any(axis=0).all()
    assert (code < 0).any(axis=0).all()
    found = diagnose(code)
    assert found.repeated_columns == found.complementary_columns == 0
    assert found.separated_pairs == found.pairs
    assert np.array_equal(code, code_matrix(name, n_classes, X, labels, random_state=seed))


@pytest.mark.parametrize(("name", "columns"), [("dense", 48), ("sparse", 71), ("bch", 78)])
def test_default_number_of_columns(name, columns):
    assert code_matrix(name, 26, random_state=0).shape == (26, columns)


def test_more_draws_never_lessen_the_distance():
    few, many = (
        diagnose(codes.DenseRandom(20, n_draws=n).matrix(12, rng=np.random.RandomState(0)))
        for n in (1, 500)
    )
    assert many.min_distance > few.min_distance


def test_exhaustive_has_every_split_and_a_limit():
    assert code_matrix("exhaustive", 6).shape == (6, 31)
    with pytest.raises(ValueError, match=r"16 classes has 2\^15 - 1 = 32,767 columns.*'dense'"):
        code_matrix("exhaustive", 16)


def test_too_many_columns_asked():
    with pytest.raises(ValueError, match="4 classes allow between 2 and 7 different columns"):
        code_matrix(codes.DenseRandom(n_columns=8), 4)


@pytest.mark.parametrize(
    ("m", "dimension", "distance"),
    [(3, 4, 3), (4, 11, 3), (4, 7, 5), (4, 5, 7), (5, 11, 11), (5, 6, 15), (6, 10, 27), (6, 7, 31)],
)
def test_bch_codes_have_their_known_distance(m, dimension, distance):
    """Length, dimension and minimum distance of the primitive BCH codes (Lin & Costello)."""
    generator = bch_generator(m, dimension)
    assert 2**m - 1 - (generator.bit_length() - 1) == dimension
    messages = np.array(list(product((0, 1), repeat=dimension)))
    weight = (bch_words(generator, m, messages) < 0).sum(axis=1)
    assert weight[weight > 0].min() == distance


def test_bch_is_further_apart_than_random():
    for k in (10, 26, 60):
        bch = diagnose(code_matrix("bch", k, random_state=0))
        dense = diagnose(code_matrix(codes.DenseRandom(3 * k), k, random_state=0))
        assert bch.min_distance >= dense.min_distance


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 10_000), ternary=st.booleans())
def test_row_distances_and_separation_by_loops(seed, ternary):
    rng = np.random.RandomState(seed)
    code = rng.choice([-1, 0, 1] if ternary else [-1, 1], size=(4, 6)).astype(np.int8)
    distance, opposed = row_distances(code), separation(code)
    for a in range(4):
        for b in range(4):
            if a != b:
                assert distance[a, b] == oracles.hamming_distance(code[a], code[b])
            assert opposed[a, b] == sum(x * y < 0 for x, y in zip(code[a], code[b], strict=True))


def test_targets_are_rows_of_the_code():
    code = code_matrix("ovo", 4)
    labels = np.array([3, 0, 2, 2])
    assert np.array_equal(targets(labels, code), code[labels])


def test_findings_carry_codes():
    code = np.array([[1, 1, -1, 1], [1, 1, -1, 1], [-1, -1, 1, 1], [-1, 0, 1, 1]])
    found = {finding.code for finding in diagnose(code, list("abcd")).findings}
    assert found == {"OC001", "OC002", "OC003", "OC005", "OC007"}
    assert found <= set(FINDINGS)
    assert any("a and b" in str(finding) for finding in diagnose(code, list("abcd")).findings)


def test_unseparated_rows_are_refused_by_name():
    code = np.array([[1, 0], [0, 1], [-1, -1]])
    with pytest.raises(ValueError, match=r"OC002 no column separates two classes.*: cat and dog"):
        code_matrix(code, 3, y=["cat", "dog", "eel"])


@pytest.mark.parametrize(
    ("matrix", "message"),
    [
        ([[1, 2], [-1, 1]], r"entry \[0, 1\] is"),
        ([[1, -1]], "row per class"),
        ([[1, 1], [-1, 1]], "OC003 a column has only one sign: column 1"),
        ([[1, -1], [1, -1], [-1, 1]], "OC001 two classes share a codeword: 0 and 1"),
        ([["a", "b"], ["c", "d"]], "holds only"),
    ],
)
def test_bad_matrices_are_refused(matrix, message):
    with pytest.raises(ValueError, match=message):
        code_matrix(matrix, len(matrix))


@pytest.mark.parametrize("name", ["dense", "sparse"])
def test_random_codes_of_many_classes_are_the_same_for_the_same_seed(name):
    code = codes.code_matrix(name, 1000, random_state=3)
    assert np.array_equal(code, codes.code_matrix(name, 1000, random_state=3))
    found = diagnose(code)
    assert found.separated_pairs == found.pairs
    assert found.repeated_columns == found.complementary_columns == 0
    assert found.min_distance > code.shape[1] / 5


def test_nearly_all_columns_of_a_dense_code_differ():
    code = codes.code_matrix(codes.DenseRandom(n_columns=4000), 13, random_state=0)
    found = diagnose(code)
    assert code.shape == (13, 4000)
    assert found.repeated_columns == found.complementary_columns == 0


@pytest.mark.parametrize("k", [3, 4, 5])
def test_bch_on_three_to_five_classes_is_the_exhaustive_code(k):
    found = [codes.code_matrix(name, k, random_state=0) for name in ("bch", "exhaustive")]
    columns = [{tuple((column * column[0]).tolist()) for column in code.T} for code in found]
    assert columns[0] == columns[1]
    assert found[0].shape == found[1].shape


def test_a_matrix_that_is_changed_later_does_not_change_the_code():
    matrix = np.array([[1, -1], [-1, 1], [-1, -1]], dtype=np.int8)
    code = code_matrix(matrix, 3)
    matrix[0] = 0
    assert code[0].tolist() == [1, -1]


def test_a_code_is_checked_without_copies_of_it():
    code_matrix("ovo", 10)
    tracemalloc.start()
    code = code_matrix("ovo", 200)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 3.6 * code.nbytes  # the code and its two signs
