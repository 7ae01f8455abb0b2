"""Probabilities: the likelihood of codewords, coupling, Bradley-Terry, and their one winner."""

from __future__ import annotations

import itertools
import tracemalloc
import warnings
from functools import cache

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from scipy.optimize import minimize
from scipy.special import expit, log_expit, logit
from scipy.special import softmax as plain_softmax
from sklearn.base import clone
from sklearn.datasets import load_iris, make_blobs

from outcode import OutputCodeClassifier, codes, decoders
from outcode.codes import BCH, DenseRandom, SparseRandom
from outcode.decoders import BradleyTerry, Likelihood, PairwiseCoupling, Training
from outcode.decoders.coupling import (
    Opposed,
    bradley_terry,
    hastie_tibshirani,
    pair_probabilities,
    wu_lin_weng,
)
from outcode.decoders.likelihood import (
    fit_sigmoids,
    hard,
    log_loss,
    smoothed,
    softmax,
)
from outcode.machines import SVM
from outcode.scores import put_ahead
from outcode.solvers import pairs, sigmoids
from outcode.training import Used

HAND_MADE = np.array([[1, 1, 0, -1], [-1, 1, 1, 0], [0, -1, 1, 1], [1, -1, -1, 1]])

SMALL_CODES = {
    "two": codes.code_matrix("ova", 2),
    "ova-3": codes.code_matrix("ova", 3),
    "ova-8": codes.code_matrix("ova", 8),
    "ovo-3": codes.code_matrix("ovo", 3),
    "ovo-5": codes.code_matrix("ovo", 5),
    "exhaustive-4": codes.code_matrix("exhaustive", 4),
    "dense-6": codes.code_matrix(DenseRandom(n_columns=12), 6, random_state=0),
    "sparse-5": codes.code_matrix(SparseRandom(n_columns=12), 5, random_state=1),
    "bch-7": codes.code_matrix(BCH(n_columns=12), 7, random_state=2),
    "hadamard-4": codes.code_matrix("hadamard", 4),
    "ordinal-6": codes.code_matrix("ordinal", 6),
    "hand-made": codes.code_matrix(HAND_MADE, 4),
}
PAIRWISE = ("two", "ovo-3", "ovo-5")


def training(code, margins, labels, weight=None):
    """What a decoder sees when its held-out margins are already known."""
    weight = np.ones(len(labels)) if weight is None else weight
    return Training(code, labels, None, None, weight, lambda folds: margins)


def noisy_training(code, rng, n=80, noise=1.0, size=1.0):
    labels = np.arange(n) % len(code)
    noisy = code[labels] + noise * rng.standard_normal((n, code.shape[1]))
    return training(code, size * noisy, labels)


@cache
def fitted(name, decoder, **parameters):
    rng = np.random.default_rng(len(name))
    return decoder(**parameters).fit(noisy_training(SMALL_CODES[name], rng))


def decoder_cases():
    """Every decoder of the room that has probabilities, under every code it can read."""
    variants = [
        Likelihood(),
        Likelihood(invalid="uniform"),
        Likelihood(temperature=True),
        Likelihood(invalid="uniform", temperature=True),
        BradleyTerry(),
        BradleyTerry(temperature=True),
        PairwiseCoupling(),
        PairwiseCoupling(temperature=True),
        PairwiseCoupling("hastie-tibshirani"),
    ]
    known = {type(variant) for variant in variants}
    for make in decoders.DECODERS.values():
        decoder = make()
        if hasattr(decoder, "proba") and type(decoder) not in known:
            variants.append(decoder)
    for name, decoder in itertools.product(SMALL_CODES, variants):
        if not isinstance(decoder, PairwiseCoupling) or name in PAIRWISE:
            yield pytest.param(name, decoder, id=f"{name}-{decoder!r}".replace("\n", ""))


# --- [PPF04] Eq. 2 and 3 ---


def enumerated(decoder, margins):
    """Sum over all 2^S codewords: valid ones to their class, the others shared (Eq. 2)."""
    code, z = decoder.code_, margins * decoder.slope_ + decoder.offset_
    out = np.zeros((len(margins), len(code)))
    for word in itertools.product((-1, 1), repeat=code.shape[1]):
        mass = np.prod(1 / (1 + np.exp(np.array(word) * z)), axis=1)
        valid = [q for q in range(len(code)) if np.all((code[q] == 0) | (code[q] == word))]
        assert len(valid) <= 1
        out[:, valid or slice(None)] += mass[:, None] / (1 if valid else len(code))
    return out


@pytest.mark.parametrize("name", SMALL_CODES)
def test_the_closed_form_equals_the_enumeration_of_all_codewords(name):
    decoder = fitted(name, Likelihood, invalid="uniform")
    margins = np.random.default_rng(0).standard_normal((8, decoder.code_.shape[1])) * 2
    proba = decoder.proba(margins)
    np.testing.assert_allclose(proba, enumerated(decoder, margins), rtol=0, atol=1e-12)
    np.testing.assert_allclose(proba.sum(axis=1), 1, atol=1e-14)
    assert proba.min() >= 0


@pytest.mark.parametrize("name", SMALL_CODES)
def test_renormalising_gives_the_posterior_among_valid_codewords(name):
    decoder = fitted(name, Likelihood, temperature=False)
    margins = np.random.default_rng(0).standard_normal((8, decoder.code_.shape[1])) * 2
    z = margins * decoder.slope_ + decoder.offset_
    product = np.array(
        [np.prod(np.where(row != 0, expit(-row * z), 1), axis=1) for row in decoder.code_]
    ).T
    expected = product / product.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(decoder.proba(margins), expected, rtol=1e-10)
    np.testing.assert_allclose(np.exp(decoder.scores(margins)), product, rtol=1e-10)


def test_classes_that_no_column_opposes_are_refused_by_name():
    code = np.array([[1, 1], [-1, 0], [0, 1]], dtype=np.int8)
    for decoder in (Likelihood(), BradleyTerry()):
        with pytest.raises(ValueError, match="No column of the code separates classes 0 and 2"):
            decoder.fit(training(code, np.zeros((3, 2)), np.arange(3)))


# --- one winner ---


def assert_one_winner(decoder, margins):
    scores, proba = decoder.scores(margins), decoder.proba(margins)
    assert np.isfinite(scores).all()
    assert np.isfinite(proba).all()
    assert proba.min() >= 0
    np.testing.assert_allclose(proba.sum(axis=1), 1, atol=1e-12)
    np.testing.assert_array_equal(scores.argmax(axis=1), proba.argmax(axis=1))


def extreme_margins(width, rng):
    normal = rng.standard_normal((30, width))
    signs = rng.choice([-1.0, 0.0, 1.0], size=(30, width))
    nearly_tied = rng.choice([0.0, 1e-17, -1e-17, 5e-324], size=(30, width))
    sizes = [normal * size for size in (1e-300, 1e-9, 1.0, 40.0, 1e4, 1e300)]
    return np.vstack([*sizes, signs, 1e300 * signs, nearly_tied, np.zeros((1, width))])


@pytest.mark.parametrize(("name", "decoder"), list(decoder_cases()))
def test_scores_and_probabilities_have_one_winner(name, decoder):
    rng = np.random.default_rng(0)
    decoder = clone(decoder).fit(noisy_training(SMALL_CODES[name], rng))
    assert_one_winner(decoder, extreme_margins(decoder.code_.shape[1], rng))


@pytest.mark.parametrize("slope", [-1.0, -0.0, -1e-300, -1e300, -30.0])
@pytest.mark.parametrize("invalid", ["uniform", "renormalise"])
def test_one_winner_whatever_the_sigmoids(slope, invalid):
    for name, code in SMALL_CODES.items():
        decoder = clone(fitted(name, Likelihood, invalid=invalid)).fit(
            noisy_training(code, np.random.default_rng(3))
        )
        decoder.slope_, decoder.offset_ = np.full(code.shape[1], slope), np.zeros(code.shape[1])
        assert_one_winner(decoder, extreme_margins(code.shape[1], np.random.default_rng(1)))


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_one_winner_for_any_margins(data):
    name = data.draw(st.sampled_from(sorted(SMALL_CODES)))
    kinds = [(Likelihood, {"invalid": "uniform"}), (Likelihood, {}), (BradleyTerry, {})]
    kinds += [(PairwiseCoupling, {})] if name in PAIRWISE else []
    kind, parameters = data.draw(st.sampled_from(kinds))
    width = SMALL_CODES[name].shape[1]
    floats = st.floats(-1e300, 1e300, allow_nan=False)
    margins = data.draw(hnp.arrays(np.float64, (3, width), elements=floats))
    assert_one_winner(fitted(name, kind, **parameters), margins)


def test_a_winner_lost_to_rounding_is_put_ahead_by_one_unit():
    scores = np.array([[-1.0 - 1e-15, -1.0, -5.0], [-800.0, -790.0, -900.0]])
    np.testing.assert_array_equal(softmax(scores).argmax(axis=1), [1, 1])
    tied = put_ahead(np.full((1, 4), 0.25), np.array([2]))
    np.testing.assert_array_equal(tied, [[0.25, 0.25, np.nextafter(0.25, 1), 0.25]])


@pytest.mark.parametrize("kind", [Likelihood, PairwiseCoupling, BradleyTerry])
def test_no_rows_give_no_probabilities(kind):
    decoder = fitted("ovo-3", kind)
    assert decoder.proba(np.empty((0, 3))).shape == (0, 3)


def test_many_columns_leave_the_uniform_mode_its_winner():
    code = codes.code_matrix("ovo", 30)
    decoder = Likelihood(invalid="uniform").fit(noisy_training(code, np.random.default_rng(0), 90))
    margins = 20 * np.random.default_rng(1).standard_normal((50, code.shape[1]))
    assert np.exp(decoder.scores(margins)).max() < 1e-20  # alpha swallows every product
    assert_one_winner(decoder, margins)


def test_exact_ties_go_to_the_lower_class():
    for name, kind in itertools.product(("ovo-3", "ovo-5"), (PairwiseCoupling, BradleyTerry)):
        decoder = fitted(name, kind)
        decoder = clone(decoder).fit(noisy_training(SMALL_CODES[name], np.random.default_rng(0)))
        decoder.offset_ = np.zeros_like(decoder.offset_)
        scores = decoder.scores(np.zeros((2, len(decoder.offset_))))
        np.testing.assert_array_equal(scores.argmax(axis=1), [0, 0])
        assert np.ptp(scores) == 0


@pytest.mark.parametrize("code", ["ova", "ovo", "dense", "sparse", "bch", "hadamard", "ordinal"])
def test_classifier_predicts_its_most_probable_class(code):
    X, y = make_blobs(90, centers=4, cluster_std=3.0, random_state=0)
    names = np.array(["a", "b", "c", "d"])[y]
    clf = OutputCodeClassifier(code, SVM(gamma=0.1), random_state=0).fit(X, names)
    known = [name for name, make in decoders.DECODERS.items() if hasattr(make(), "proba")]
    assert {"likelihood", "coupling", "bradley-terry"} <= set(known)
    for name in known:
        if name == "coupling" and code != "ovo":
            continue
        other = clf.with_decoder(name, X)
        far = np.vstack([X, 1e6 * X])
        winners = other.classes_[other.predict_proba(far).argmax(axis=1)]
        np.testing.assert_array_equal(other.predict(far), winners)
        np.testing.assert_array_equal(
            other.classes_[other.decision_function(far).argmax(axis=1)], winners
        )


@pytest.mark.parametrize("decoder", ["likelihood", "coupling", "bradley-terry"])
def test_two_classes(decoder):
    X, y = make_blobs(60, centers=2, cluster_std=4.0, random_state=1)
    clf = OutputCodeClassifier("ovo", decoder=decoder, random_state=0).fit(X, y)
    proba = clf.predict_proba(X)
    np.testing.assert_array_equal(clf.decision_function(X) > 0, clf.predict(X) == 1)
    np.testing.assert_array_equal(proba.argmax(axis=1), clf.predict(X))
    z = clf.margins(X)[:, 0] * clf.decoder_.slope_ + clf.decoder_.offset_
    np.testing.assert_allclose(proba[:, 1], expit(-z), atol=1e-9)


# --- the sigmoid ---


def slow_sigmoid(f, t, w):
    """The same problem by a generic optimiser with the bound A <= 0."""

    def loss(theta):
        z = theta[0] * f + theta[1]
        return -w @ (t * log_expit(-z) + (1 - t) * log_expit(z)) / w.sum()

    return minimize(
        loss, [-0.1, 0.0], bounds=[(None, 0), (None, None)], tol=1e-14, method="L-BFGS-B"
    )


def fit_sigmoid(f, t, w):
    """Return A, B and the largest gradient left of one column."""
    out = np.empty((1, 3))
    sigmoids.fit_columns(f, t, w, np.array([0, len(f)]), out)
    return out[0]


@pytest.mark.parametrize("seed", range(12))
def test_sigmoid_equals_a_generic_optimiser(seed):
    rng = np.random.default_rng(seed)
    positive, w = rng.random(40) < 0.3, rng.exponential(size=40)
    direction = -1 if seed % 4 == 0 else 1  # margins that point the wrong way
    f = direction * np.where(positive, 1.0, -1.0) + 1.5 * rng.standard_normal(40)
    for targets in (smoothed, hard):
        t = np.where(positive, *targets(w[positive].sum(), w[~positive].sum()))
        A, B, residual = fit_sigmoid(f, t, w)
        slow = slow_sigmoid(f, t, w)
        assert A <= 0
        assert residual <= 1e-9
        np.testing.assert_allclose([A, B], slow.x, atol=2e-4)
        z = A * f + B
        mean = -w @ (t * log_expit(-z) + (1 - t) * log_expit(z)) / w.sum()
        assert mean <= slow.fun + 1e-12


def test_weight_two_is_a_row_twice_and_weight_zero_no_row():
    rng = np.random.default_rng(0)
    signs = rng.choice([-1, 1, 0], size=(50, 4)).astype(np.int8)
    margins = signs + rng.standard_normal((50, 4))
    weight = np.concatenate([np.full(20, 2.0), np.ones(20), np.zeros(10)])
    rows = np.concatenate([np.repeat(np.arange(20), 2), np.arange(20, 40)])
    for targets in ("smoothed", "hard"):
        weighted = fit_sigmoids(Used.of(margins, signs), weight, targets)
        repeated = fit_sigmoids(Used.of(margins[rows], signs[rows]), np.ones(60), targets)
        np.testing.assert_allclose(weighted, repeated, rtol=1e-7)


@pytest.mark.parametrize("size", [1e-300, 1e-9, 1.0, 1e9, 1e300])
def test_sigmoid_follows_the_scale_of_the_margins(size):
    rng = np.random.default_rng(0)
    positive = rng.random(60) < 0.5
    f = np.where(positive, 1.0, -1.0) + rng.standard_normal(60)
    t = np.where(positive, *smoothed(positive.sum(), (~positive).sum()))
    A, B, _ = fit_sigmoid(f, t, np.ones(60))
    scaled_A, scaled_B, _ = fit_sigmoid(f * size, t, np.ones(60))
    np.testing.assert_allclose([scaled_A * size, scaled_B], [A, B], rtol=1e-6)


@pytest.mark.parametrize("targets", ["smoothed", "hard"])
def test_separable_and_constant_margins_stay_finite(targets):
    signs = np.repeat([[1], [-1]], 20, axis=0).astype(np.int8)
    for margins in (signs * 1.0, signs * 1e200, np.zeros((40, 1)), np.ones((40, 1))):
        A, B = fit_sigmoids(Used.of(margins, signs), np.ones(40), targets)
        assert np.isfinite([A, B]).all()
        assert A[0] <= 0
    A, B = fit_sigmoids(Used.of(signs * 1.0, signs), np.ones(40), "smoothed")
    np.testing.assert_allclose(expit(-(A + B)), 21 / 22, rtol=1e-6)


def test_a_class_smaller_than_the_folds_stays_finite():
    X, y = load_iris(return_X_y=True)
    for kept in (1, 2):
        rows = np.concatenate([np.flatnonzero(y == 0)[:kept], np.flatnonzero(y > 0)[::4]])
        for decoder in ("likelihood", "bradley-terry", "coupling"):
            clf = OutputCodeClassifier("ovo", decoder=decoder).fit(X[rows], y[rows])
            proba = clf.predict_proba(X)
            assert np.isfinite(proba).all()
            np.testing.assert_array_equal(clf.predict(X), proba.argmax(axis=1))


def test_weights_reach_the_sigmoids():
    X, y = load_iris(return_X_y=True)
    weight = np.where(y == 1, 5.0, 1.0)
    plain = OutputCodeClassifier("ova", decoder="likelihood", random_state=0).fit(X, y)
    heavy = OutputCodeClassifier("ova", decoder="likelihood", random_state=0).fit(X, y, weight)
    assert heavy.predict_proba(X)[:, 1].sum() > plain.predict_proba(X)[:, 1].sum()


def test_names_of_parameters_are_checked():
    data = noisy_training(SMALL_CODES["ovo-3"], np.random.default_rng(0))
    with pytest.raises(ValueError, match="Unknown targets"):
        Likelihood(targets="soft").fit(data)
    with pytest.raises(ValueError, match="Unknown invalid"):
        Likelihood(invalid="drop").fit(data)
    with pytest.raises(ValueError, match="Unknown method"):
        PairwiseCoupling("vote").fit(data)


# --- coupling ---


def random_pairs(k, rng, sharpness):
    r = np.zeros((6, k, k))
    i, j = np.triu_indices(k, 1)
    z = sharpness * rng.standard_normal((6, len(i)))
    r[:, i, j], r[:, j, i] = expit(z), expit(-z)
    return r


def slow_coupling(r):
    """Minimise the squares over the simplex by a generic optimiser."""
    k = len(r)

    def squares(p):
        return sum(
            (r[j, i] * p[i] - r[i, j] * p[j]) ** 2 for i in range(k) for j in range(k) if i != j
        )

    return minimize(
        squares,
        np.full(k, 1 / k),
        bounds=[(0, 1)] * k,
        constraints={"type": "eq", "fun": lambda p: p.sum() - 1},
        method="SLSQP",
        options={"ftol": 1e-15, "maxiter": 500},
    ).x


@pytest.mark.parametrize("k", [2, 3, 5])
@pytest.mark.parametrize("sharpness", [0.5, 3.0])
def test_wu_lin_weng_equals_a_generic_optimiser(k, sharpness):
    r = random_pairs(k, np.random.default_rng(k), sharpness)
    expected = [slow_coupling(sample) for sample in r]
    np.testing.assert_allclose(wu_lin_weng(r), expected, atol=2e-6)


def eliminated(r):
    """Solve (Q + ee') x = e in extended precision."""
    k = len(r)
    r, diagonal = r.astype(np.longdouble), np.arange(k)
    Q = np.hstack([1 - r * r.T, np.ones((k, 1))])
    Q[diagonal, diagonal] = 1 + (r * r).sum(axis=0)
    for s in range(k):
        Q[s] /= Q[s, s]
        others = diagonal != s
        Q[others] -= Q[others, s, None] * Q[s]
    return Q[:, k] / Q[:, k].sum()


@pytest.mark.parametrize("k", [2, 3, 17, 60])
@pytest.mark.parametrize("sharpness", [0.5, 3.0])
def test_coupling_by_conjugate_gradients_equals_elimination(k, sharpness):
    r = random_pairs(k, np.random.default_rng(k), sharpness)
    order = np.random.default_rng(0).permutation(k * (k - 1) // 2)  # columns in any order
    i, j = (side[order] for side in np.triu_indices(k, 1))
    i, j = np.where(order % 2, i, j), np.where(order % 2, j, i)
    p, solved = pairs.couple(-logit(r[:, i, j]), i, j, k)
    assert solved.all()
    np.testing.assert_allclose(p, [eliminated(sample) for sample in r], rtol=1e-9)


def test_coupled_rows_take_no_array_of_pairs_of_classes():
    code, rng = codes.code_matrix("ovo", 40), np.random.default_rng(0)
    decoder = PairwiseCoupling()
    decoder.code_, decoder.temperature_ = code, 1.0
    decoder.slope_, decoder.offset_ = -np.ones(code.shape[1]), np.zeros(code.shape[1])
    margins = rng.standard_normal((2_000, code.shape[1]))
    decoder.scores(margins[:1])  # compiled, and the classes of the columns known
    tracemalloc.start()
    proba = decoder.proba(margins)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < margins.nbytes / 2  # all pairs would take twice as much
    np.testing.assert_array_equal(decoder.best(margins), proba.argmax(axis=1))
    np.testing.assert_allclose(
        proba, wu_lin_weng(pair_probabilities(-margins, Opposed(code))), rtol=1e-8
    )


def test_certain_pairs_that_need_elimination_are_eliminated():
    code = codes.code_matrix("ovo", 4)
    z = np.where(np.arange(2)[:, None], -1e300, 0.1) * np.arange(1, 7)
    opposed = Opposed(code)
    assert pairs.couple(z, opposed.first, opposed.second, 4)[1].tolist() == [True, False]
    decoder = PairwiseCoupling()
    decoder.code_, decoder.slope_, decoder.offset_ = code, np.ones(6), np.zeros(6)
    expected = wu_lin_weng(pair_probabilities(z, opposed))
    np.testing.assert_allclose(np.exp(decoder.scores(z)), expected, atol=1e-11)


def test_wu_lin_weng_survives_certain_pairs():
    cyclic = np.array([[[0.0, 1, 0], [0, 0, 1], [1, 0, 0]]])
    np.testing.assert_allclose(wu_lin_weng(cyclic), np.full((1, 3), 1 / 3))
    ordered = np.triu(np.ones((1, 4, 4)), 1)
    np.testing.assert_allclose(wu_lin_weng(ordered), [[1, 0, 0, 0]], atol=1e-11)


def test_coherent_pairs_give_their_probabilities_back():
    p = np.random.default_rng(0).dirichlet(np.ones(6), size=20)
    r = p[:, :, None] / (p[:, :, None] + p[:, None, :]) * (1 - np.eye(6))
    for couple in (wu_lin_weng, hastie_tibshirani):
        np.testing.assert_allclose(couple(r), p, rtol=1e-6)


def test_repeated_pairs_are_averaged():
    code = np.array([[1, -1, 1], [-1, 1, 0], [0, 0, -1]])
    with pytest.raises(ValueError, match="No column of the code separates classes 1 and 2"):
        PairwiseCoupling().fit(training(code, np.zeros((3, 3)), np.arange(3)))
    r = pair_probabilities(np.array([[1.0, 3.0, 0.0]]), Opposed(code))
    np.testing.assert_allclose(r[0, 0, 1], (expit(-1.0) + expit(3.0)) / 2)
    np.testing.assert_allclose(r[0, 0, 1] + r[0, 1, 0], 1)


def test_coupling_refuses_a_code_that_is_not_pairwise():
    with pytest.raises(ValueError, match="column 0 has 1 against 2 classes"):
        PairwiseCoupling().fit(
            training(codes.code_matrix("ova", 3), np.zeros((3, 3)), np.arange(3))
        )


# --- Bradley-Terry ---


def negative_likelihood(p, r, code):
    plus, minus = p @ (code > 0), p @ (code < 0)
    return -(r * np.log(plus / (plus + minus)) + (1 - r) * np.log(minus / (plus + minus))).sum()


def slow_bradley_terry(r, code):
    def loss(theta):
        return negative_likelihood(np.exp(theta - theta.max()), r, code)

    starts = np.random.default_rng(0).standard_normal((4, len(code)))
    found = [minimize(loss, start, method="BFGS", options={"gtol": 1e-9}) for start in starts]
    best = min(found, key=lambda result: result.fun)
    return plain_softmax(best.x), best.fun


@pytest.mark.parametrize("name", ["two", "ovo-5", "ova-3", "ova-8", "exhaustive-4", "hand-made"])
def test_bradley_terry_equals_a_generic_optimiser(name):
    code = SMALL_CODES[name].astype(float)
    z = np.random.default_rng(0).standard_normal((4, code.shape[1]))
    fast = np.exp(bradley_terry(expit(-z), expit(z), code))
    for p, r in zip(fast, expit(-z), strict=True):
        slow, value = slow_bradley_terry(r, code)
        assert negative_likelihood(p, r, code) <= value + 1e-9
        np.testing.assert_allclose(p, slow, atol=1e-4)


def multiplicative_updates(r, code, steps=20_000):
    """Huang, Weng & Lin (2006), all classes at once."""
    P, M = (code > 0).astype(float), (code < 0).astype(float)
    p = np.full(len(code), 1 / len(code))
    for _ in range(steps):
        plus, minus = p @ P, p @ M
        p = p * (P @ (r / plus) + M @ ((1 - r) / minus)) / ((P + M) @ (1 / (plus + minus)))
        p = p / p.sum()
    return p


@pytest.mark.parametrize("name", ["ovo-3", "sparse-5", "dense-6", "bch-7"])
def test_bradley_terry_is_where_the_multiplicative_updates_go(name):
    code = SMALL_CODES[name]
    z = 0.7 * np.random.default_rng(1).standard_normal((2, code.shape[1]))
    fast = np.exp(bradley_terry(expit(-z), expit(z), code))
    slow = [multiplicative_updates(r, code) for r in expit(-z)]
    np.testing.assert_allclose(fast, slow, atol=1e-3)
    for p, q, r in zip(fast, slow, expit(-z), strict=True):
        assert negative_likelihood(p, r, code) <= negative_likelihood(q, r, code) + 1e-9


@pytest.mark.parametrize("name", SMALL_CODES)
def test_bradley_terry_meets_the_optimality_conditions(name):
    code = SMALL_CODES[name]
    z = 8.0 * np.random.default_rng(2).standard_normal((30, code.shape[1]))
    z[0], z[1] = 1e300, -1e300
    log_p = bradley_terry(expit(-z), expit(z), code)
    assert np.isfinite(log_p).all()
    p = np.exp(log_p)
    r, rest = (np.clip(expit(side * z), 1e-12, 1 - 1e-12) for side in (-1, 1))
    plus, minus = p @ (code > 0).astype(float), p @ (code < 0).astype(float)
    down = (1 / (plus + minus)) @ (code != 0).T
    up = (r / plus) @ (code > 0).T + (rest / minus) @ (code < 0).T
    assert np.abs(p * (down - up)).max() < 1e-9


def test_bradley_terry_on_pairs_is_hastie_tibshirani():
    for name in PAIRWISE:
        code = SMALL_CODES[name]
        data = noisy_training(code, np.random.default_rng(0))
        margins = np.random.default_rng(1).standard_normal((20, code.shape[1]))
        one = BradleyTerry().fit(data).proba(margins)
        two = PairwiseCoupling("hastie-tibshirani").fit(data).proba(margins)
        np.testing.assert_allclose(one, two, atol=1e-8)


def slow_hastie_tibshirani(r, steps=5_000):
    """The iteration of Hastie & Tibshirani (1998): p_i <- p_i sum_j r_ij / sum_j mu_ij."""
    k = len(r)
    p = np.full(k, 1 / k)
    for _ in range(steps):
        for i in range(k):
            mu = p[i] / (p[i] + p)
            p[i] *= r[i].sum() / (mu.sum() - mu[i])
            p /= p.sum()
    return p


def test_hastie_tibshirani_is_where_their_iteration_goes():
    r = random_pairs(4, np.random.default_rng(5), 1.0)
    expected = [slow_hastie_tibshirani(sample, 500) for sample in r]
    np.testing.assert_allclose(hastie_tibshirani(r), expected, atol=1e-9)


# --- temperature ---


@pytest.mark.parametrize(
    ("kind", "parameters", "name"),
    [
        (Likelihood, {}, "ovo-5"),
        (Likelihood, {}, "dense-6"),
        (Likelihood, {"invalid": "uniform"}, "dense-6"),
        (PairwiseCoupling, {}, "ovo-5"),
        (BradleyTerry, {}, "dense-6"),
        (BradleyTerry, {}, "ova-8"),
    ],
)
@pytest.mark.parametrize("noise", [0.3, 2.0])
def test_temperature_lowers_the_held_out_loss_and_keeps_the_winner(kind, parameters, name, noise):
    code = SMALL_CODES[name]
    data = noisy_training(code, np.random.default_rng(0), n=120, noise=noise)
    cold = kind(**parameters, temperature=False).fit(data)
    warm = kind(**parameters, temperature=True).fit(data)
    assert cold.temperature_ == 1.0
    assert warm.temperature_ > 0
    margins = data.crossfit(3)
    losses = [
        -np.log(decoder.proba(margins)[np.arange(120), data.labels]).mean()
        for decoder in (cold, warm)
    ]
    assert losses[1] <= losses[0] + 1e-12
    np.testing.assert_array_equal(cold.scores(margins), warm.scores(margins))
    np.testing.assert_array_equal(
        cold.proba(margins).argmax(axis=1), warm.proba(margins).argmax(axis=1)
    )


@pytest.mark.parametrize(("name", "fits"), [("ovo-5", False), ("ova-8", True), ("dense-6", True)])
def test_temperature_is_fitted_where_several_columns_oppose_two_classes(name, fits):
    assert (fitted(name, Likelihood).temperature_ != 1.0) == fits
    assert fitted(name, Likelihood, temperature=False).temperature_ == 1.0
    assert fitted(name, Likelihood, invalid="uniform").temperature_ == 1.0


def test_temperature_is_the_minimum_of_the_log_loss():
    data = noisy_training(SMALL_CODES["dense-6"], np.random.default_rng(0), noise=2.0)
    decoder = Likelihood(temperature=True).fit(data)
    scores = decoder.scores(data.crossfit(3))
    grid = decoder.temperature_ * np.exp(np.linspace(-0.5, 0.5, 21))
    values = [log_loss(scores, data.labels, data.sample_weight, T) for T in grid]
    assert np.argmin(values) == 10


def test_no_warning_escapes_on_the_smallest_problems():
    X, y = np.arange(6.0)[:, None], np.array([0, 0, 1, 1, 2, 2])
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*fewer than 3 folds")
        for decoder in ("likelihood", "coupling", "bradley-terry"):
            proba = OutputCodeClassifier("ovo", decoder=decoder).fit(X, y).predict_proba(X)
            assert np.isfinite(proba).all()
