"""Decoders: every one in the table, and each one against loops."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.datasets import load_iris

import oracles
from outcode import OutputCodeClassifier, codes, losses
from outcode.decoders import DECODERS, LossBased, LossWeighted, Training, resolve
from outcode.decoders.common import Decoder
from outcode.machines import SVM
from outcode.training import Problem, train_path

NAMES = ("ova", "ovo", "dense", "sparse", "bch", "ordinal", "hadamard")


LATE = np.arange(20, 60)


class Fitted:
    """A machine that has nothing but its training margins."""

    def __init__(self, margins):
        self.training_margins_ = margins


def fit(name, code, labels=None, margins=None, weight=None):
    labels = np.arange(len(code)) if labels is None else labels
    margins = code[labels].astype(float) if margins is None else margins
    weight = np.ones(len(labels)) if weight is None else weight
    return resolve(name).fit(Training(code, labels, None, Fitted(margins), weight, None))


def is_plain(name):
    """Say whether a decoder needs no more than a code and margins."""
    try:
        fit(name, codes.code_matrix("ova", 4))
    except (AttributeError, TypeError, ValueError):
        return False
    return True


PLAIN = [name for name in DECODERS if is_plain(name)]


def test_the_plain_decoders_are_found():
    assert {"hamming", "euclidean", "aed", "ihd", "hinge", "llw", "elw"} <= set(PLAIN)


@pytest.mark.parametrize("name", PLAIN)
@settings(max_examples=20, deadline=None)
@given(code=st.sampled_from(NAMES), k=st.integers(3, 9), scale=st.sampled_from([1e-6, 1.0, 50.0]))
def test_a_codeword_decodes_to_its_class(name, code, k, scale):
    matrix = codes.code_matrix(code, k, random_state=k)
    margins = matrix.astype(float)
    if name not in ("euclidean", "aed", "squared"):  # distances know the scale of a codeword
        margins = margins * scale
    if scale < 1 and name == "elw":
        return  # at margins of 1e-6 the weights, not the margins, decide the exponential sum
    assert np.array_equal(fit(name, matrix).scores(margins).argmax(axis=1), np.arange(k))


@settings(max_examples=60, deadline=None)
@given(
    k=st.integers(3, 10),
    code=st.sampled_from(("dense", "bch", "hadamard")),
    seed=st.integers(0, 99),
)
def test_hamming_corrects_half_the_distance(k, code, seed):
    matrix = codes.code_matrix(code, k, random_state=seed)
    flips = int(np.floor((codes.row_distances(matrix)[np.triu_indices(k, 1)].min() - 1) / 2))
    rng = np.random.RandomState(seed)
    words = matrix.astype(float)
    for word in words:
        word[rng.choice(len(word), size=flips, replace=False)] *= -1
    assert np.array_equal(fit("hamming", matrix).scores(words).argmax(axis=1), np.arange(k))


@pytest.mark.parametrize("name", PLAIN)
@settings(max_examples=15, deadline=None)
@given(code=st.sampled_from(NAMES), k=st.integers(3, 7), seed=st.integers(0, 1000))
def test_permuting_columns_and_classes(name, code, k, seed):
    rng = np.random.RandomState(seed)
    matrix = codes.code_matrix(code, k, random_state=seed)
    labels = np.concatenate([np.arange(k), rng.randint(k, size=30)])
    margins = 1.5 * rng.randn(len(labels), matrix.shape[1])
    scores = fit(name, matrix, labels, margins).scores(margins)
    columns, classes = rng.permutation(matrix.shape[1]), rng.permutation(k)
    by_column = fit(name, matrix[:, columns], labels, margins[:, columns])
    np.testing.assert_allclose(by_column.scores(margins[:, columns]), scores, rtol=1e-7, atol=1e-9)
    by_class = fit(name, matrix[classes], np.argsort(classes)[labels], margins)
    np.testing.assert_allclose(by_class.scores(margins), scores[:, classes], rtol=1e-7, atol=1e-9)


@pytest.mark.parametrize("loss", ["linear", "hinge", "logistic", "squared", "exponential"])
@pytest.mark.parametrize("code", NAMES)
def test_loss_based_equals_loops(loss, code):
    matrix = codes.code_matrix(code, 5, random_state=0)
    margins = 2 * np.random.RandomState(0).randn(20, matrix.shape[1])
    expected = oracles.loss_scores(loss, margins, matrix)
    ours = fit(loss, matrix).scores(margins)
    if loss == "exponential":
        ours = -np.exp(-ours)
    np.testing.assert_allclose(ours, expected, rtol=1e-10, atol=1e-10)


def test_hamming_counts_zero_as_half():
    code = np.array([[1, 0], [-1, 1], [-1, -1]])
    scores = fit("hamming", code).scores(np.array([[0.0, 3.0], [2.0, -1.0]]))
    np.testing.assert_array_equal(scores, [[-1.0, -0.5, -1.5], [-0.5, -2.0, -1.0]])
    np.testing.assert_array_equal(
        scores, oracles.loss_scores("zero_one", np.array([[0.0, 3.0], [2.0, -1.0]]), code)
    )


@pytest.mark.parametrize("code", NAMES)
def test_loss_weights_equal_loops(code):
    rng = np.random.RandomState(0)
    matrix = codes.code_matrix(code, 4, random_state=0)
    labels = np.concatenate([np.arange(4), rng.randint(4, size=40)])
    margins = rng.randn(44, matrix.shape[1])
    margins[labels == 1] = 0.0  # no correct column for class 1: equal weights
    decoder = fit("llw", matrix, labels, margins)
    expected = oracles.accuracy_weights(margins, labels, matrix)
    np.testing.assert_allclose(decoder.weights_, expected, atol=1e-14)
    np.testing.assert_allclose(decoder.weights_.sum(axis=1), 1.0)
    assert np.all(decoder.weights_[matrix == 0] == 0)
    np.testing.assert_allclose(
        decoder.scores(margins),
        oracles.loss_scores("linear", margins, matrix, expected),
        atol=1e-12,
    )
    exponential = fit("elw", matrix, labels, margins).scores(margins)
    np.testing.assert_allclose(
        -np.exp(-exponential), oracles.loss_scores("exponential", margins, matrix, expected)
    )


def test_weights_of_whole_columns_equal_loops():
    rng = np.random.RandomState(0)
    code = np.array([[1, 1, 0], [-1, 0, 1], [-1, -1, -1], [1, -1, -1]])
    labels = rng.randint(0, 4, 60)
    margins = rng.randn(60, 3) + 0.5 * code[labels]
    decoder = fit(LossWeighted(weights="column"), code, labels, margins)
    expected = oracles.whole_column_weights(margins, labels, code)
    np.testing.assert_allclose(decoder.weights_, expected, atol=1e-14)
    weight = rng.randint(1, 4, 60)
    many = np.repeat(np.arange(60), weight)
    twice = fit(LossWeighted(weights="column"), code, labels[many], margins[many])
    weighted = fit(LossWeighted(weights="column"), code, labels, margins, weight.astype(float))
    np.testing.assert_allclose(weighted.weights_, twice.weights_, atol=1e-14)


def test_a_row_no_column_claims_goes_to_the_class_of_the_worst_column():
    """One-vs-all by signs, all negative: class weights choose the class that is never claimed."""
    code, labels = codes.code_matrix("ova", 3), np.repeat([0, 1, 2], [6, 3, 1])
    margins = code[labels] * 1.0
    margins[2:6, 0] = -1.0  # four of six rows of the first class are missed
    margins[9, 2] = -1.0  # and the only row of the last
    nobody = -np.ones((1, 3))
    by_class = fit(LossWeighted(outputs="sign"), code, labels, margins)
    whole = fit(LossWeighted(outputs="sign", weights="column"), code, labels, margins)
    assert by_class.best(nobody).tolist() == [2]
    assert whole.best(nobody).tolist() == [0]


def test_loss_weighted_decoding_of_signs():
    """A column with large margins counts no more than another. [LZCX16] Eq. 16"""
    code = codes.code_matrix("ovo", 3)
    margins = np.array([[0.1, 0.2, -50.0], [0.0, -0.3, 0.4]])
    for loss in ("linear", "exponential"):
        of_signs = fit(LossWeighted(loss, outputs="sign"), code)
        assert of_signs.outputs == "sign"
        whole = fit(LossWeighted(loss), code)
        np.testing.assert_array_equal(of_signs.weights_, whole.weights_)
        np.testing.assert_array_equal(of_signs.scores(margins), whole.scores(np.sign(margins)))
        assert of_signs.best(margins).tolist() == [0, 1]
        assert whole.best(margins)[0] == 2
    with pytest.raises(ValueError, match="Did you mean 'sign'"):
        fit(LossWeighted(outputs="signs"), code)


def test_signs_decode_alike_alone_and_in_a_batch():
    X, y = load_iris(return_X_y=True)
    clf = OutputCodeClassifier("dense", SVM(gamma=0.5), LossWeighted(outputs="sign"))
    clf.set_params(random_state=0).fit(X, y)
    alone = np.concatenate([clf.predict(row[None]) for row in X])
    assert np.array_equal(alone, clf.predict(X))


def test_a_weight_of_two_is_a_row_twice_in_the_loss_weights():
    rng = np.random.RandomState(1)
    matrix = codes.code_matrix("ovo", 3)
    labels, margins = rng.randint(3, size=30), rng.randn(30, 3)
    weight = rng.randint(1, 4, size=30)
    rows = np.repeat(np.arange(30), weight)
    once = fit("llw", matrix, labels, margins, weight.astype(float))
    np.testing.assert_allclose(
        once.weights_, fit("llw", matrix, labels[rows], margins[rows]).weights_
    )


@pytest.mark.parametrize("name", PLAIN)
@pytest.mark.parametrize("size", [0.0, 1e-300, 800.0, 1e300])
def test_scores_are_finite_for_margins_of_any_size(name, size):
    matrix = codes.code_matrix("sparse", 5, random_state=0)
    margins = size * np.random.RandomState(0).uniform(-1, 1, size=(20, matrix.shape[1]))
    assert np.isfinite(fit(name, matrix).scores(margins)).all()


@pytest.mark.parametrize("name", ["exponential", "elw"])
def test_log_form_agrees_with_the_plain_sum_and_orders_beyond_it(name):
    code = codes.code_matrix("ova", 3)
    decoder = fit(name, code)
    near = np.array([[299.0, 1.0, -2.0], [299.999, 20.0, 10.0]])
    far = near + np.array([[2.0, 0.0, 0.0]])
    assert np.array_equal(decoder.scores(near).argsort(axis=1), decoder.scores(far).argsort(axis=1))
    assert decoder.scores(np.array([[900.0, 901.0, -5.0]])).argmax() == 1


def test_on_one_vs_all_every_loss_decodes_to_the_largest_margin():
    code = codes.code_matrix("ova", 6)
    margins = np.random.RandomState(0).uniform(-0.9, 0.9, size=(200, 6))
    for loss in ("linear", "hinge", "exponential", "logistic", "squared"):
        best = fit(loss, code).scores(margins).argmax(axis=1)
        assert np.array_equal(best, margins.argmax(axis=1))


def test_losses_by_hand():
    z = np.array([-1.0, 0.0, 0.5, 2.0])
    np.testing.assert_allclose(losses.hinge(z), [2.0, 1.0, 0.5, 0.0])
    np.testing.assert_allclose(losses.squared(z), [4.0, 1.0, 0.25, 1.0])
    np.testing.assert_allclose(losses.logistic(z), np.log(1 + np.exp(-z)))
    np.testing.assert_allclose(losses.zero_one(z), [1.0, 0.5, 0.0, 0.0])
    for name in set(losses.LOSSES) - losses.RISING:
        values = losses.LOSSES[name](np.linspace(-5, 5, 101))
        assert np.all(np.diff(values) <= 0), name


def test_unknown_names_guess():
    with pytest.raises(ValueError, match="Did you mean 'hamming'"):
        resolve("haming")
    with pytest.raises(ValueError, match="Did you mean 'logistic'"):
        LossBased("logistik").fit(Training(np.eye(2), np.arange(2), None, None, np.ones(2), None))
    with pytest.raises(ValueError, match="Unknown loss 'hinge'"):
        LossWeighted("hinge").fit(Training(np.eye(2), np.arange(2), None, None, np.ones(2), None))
    with pytest.raises(ValueError, match="decoder must be a name"):
        resolve(3)


#: decoders of pairs of classes
PAIRWISE = ("ddag", "coupling")


@pytest.mark.parametrize(
    ("name", "code"),
    [(n, c) for n in DECODERS for c in ("ova", "ovo") if c == "ovo" or n not in PAIRWISE],
)
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_a_row_alone_and_in_a_batch_has_the_same_class(name, code):
    X, y = load_iris(return_X_y=True)
    clf = OutputCodeClassifier(code, SVM(gamma=0.5), name, random_state=0).fit(X, y)
    alone = np.concatenate([clf.predict(row[None]) for row in X])
    assert np.array_equal(alone, clf.predict(X))


@pytest.mark.parametrize("code", ["ova", "ovo"])
@pytest.mark.parametrize("name", DECODERS)
def test_trainings_decoded_together_have_the_classes_of_each_decoded_alone(name, code):
    rng = np.random.default_rng(0)
    labels = np.arange(60) % 3
    X, matrix = rng.standard_normal((60, 2)) + labels[:, None], codes.code_matrix(code, 3)
    weights = rng.uniform(0.5, 2.0, 60) * (np.arange(60) // 3 % 4 != np.arange(2)[:, None])
    problems = [Problem(X, matrix, labels, w, np.arange(3), X=X) for w in weights]
    machine = SVM(gamma=0.5, bias="free")
    gram = machine.gram(X, matrix[labels])
    trainings = train_path(problems, gram, machine, [0.1, 10.0])
    margins = [f for c in range(2) for k in range(2) for f in [trainings.path.margins(k, LATE)[c]]]
    decoder, rows = resolve(name), [X[LATE]] * 4
    try:
        expected = Decoder.best_of_each(decoder, trainings, margins, rows)
    except ValueError:
        return  # it does not take this code
    found = decoder.best_of_each(trainings, margins, rows)
    assert len(found) == 4
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_array_equal(one, other)
