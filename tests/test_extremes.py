"""Extreme numbers and odd arrays: what a model gives is finite, or the error is clear; Ctrl-C."""

from __future__ import annotations

import signal
import threading
import time
import warnings

import numpy as np
import pytest
from scipy import sparse
from sklearn.base import clone

from outcode import SPOC, OutputCodeClassifier, SingleBinaryClassifier, decoders
from outcode.machines import SVM, Joint, Kessler, LeastSquares, SparseLinear, least_squares
from outcode.parallel import thread_map
from outcode.selection import GreedySearch, KernelSearchCV, LOOBoundSearch
from outcode.solvers.jcl import spectrum

RNG = np.random.RandomState(0)
LABELS = np.arange(36) % 3
X = RNG.randn(36, 4) + np.eye(3, 4)[LABELS]
ESTIMATORS = {
    "svm": OutputCodeClassifier(decoder="likelihood"),
    "svm free": OutputCodeClassifier("ovo", SVM(bias="free")),
    "svm linear": OutputCodeClassifier(machine=SVM("linear")),
    "svm poly": OutputCodeClassifier(machine=SVM("poly")),
    "ls": OutputCodeClassifier("ovo", LeastSquares(), "coupling"),
    "jcl": OutputCodeClassifier(machine=Joint()),
    "nystrom": OutputCodeClassifier(machine="nystrom"),
    "sparse linear": OutputCodeClassifier(machine=SparseLinear()),
    "kessler linear": OutputCodeClassifier(machine=Kessler("linear")),
    "spoc": SPOC(),
    "spoc linear": SPOC("linear"),
    "sbc": SingleBinaryClassifier(),
    "sbc identity": SingleBinaryClassifier("identity", folds=2),
    "loo": LOOBoundSearch(OutputCodeClassifier(decoder="linear"), gammas=[0.1, 1.0]),
    "folds": KernelSearchCV(OutputCodeClassifier(), gammas=[0.1, 1.0], cv=2),
    "greedy": GreedySearch(OutputCodeClassifier(machine="ls"), cv=2, patience=1),
}
MODELS = {name: m for name, m in ESTIMATORS.items() if name not in ("loo", "folds", "greedy")}
#: What a clear error says to do, or what is wrong.
CLEAR = "scale the features|nothing to hold out|smaller|finite|weight|positive"


def unsorted(matrix):
    """Return a CSR matrix whose rows hold their columns backwards."""
    other = matrix.copy()
    for a, b in zip(other.indptr[:-1], other.indptr[1:], strict=True):
        other.indices[a:b], other.data[a:b] = matrix.indices[a:b][::-1], matrix.data[a:b][::-1]
    other.has_sorted_indices = False
    return other


def with_long_indices(matrix):
    other = matrix.copy()
    other.indices, other.indptr = matrix.indices.astype("i8"), matrix.indptr.astype("i8")
    return other


def with_zeros(matrix):
    other = matrix.copy()
    other.data[::3] = 0.0
    return other


def read_only(rows):
    other = rows.copy()
    other.setflags(write=False)
    return other


EXTREMES = {
    "1e300": (X * 1e300, LABELS),
    "1e154": (X * 1e154, LABELS),
    "one large column": (np.c_[X, 1e200 * X[:, 0]], LABELS),
    "1e-160": (X * 1e-160, LABELS),
    "denormal": (X * 1e-310, LABELS),
    "constant": (np.ones((36, 4)), LABELS),
    "conflicting": (np.repeat(X[:4], 9, axis=0), LABELS),
    "one row per class": (X[:3], LABELS[:3]),
    "both ends": (np.where(X > 0, X * 1e300, X * 1e-300), LABELS),
    "empty sparse": (sparse.csr_matrix((36, 4)), LABELS),
}


def outputs(model, rows, labels, weight=None):
    """Return scores and probabilities of a trained model; warnings are not looked at here."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.fit(rows, labels, **({} if weight is None else {"sample_weight": weight}))
        verbs = [v for v in ("decision_function", "predict_proba") if hasattr(model, v)]
        return [getattr(model, verb)(rows) for verb in verbs]


def assert_finite_or_clear(model, rows, labels, weight=None):
    try:
        found = outputs(model, rows, labels, weight)
    except ValueError as error:
        with pytest.raises(ValueError, match=CLEAR):
            raise error
    else:
        assert all(np.isfinite(values).all() for values in found)


@pytest.mark.parametrize("extreme", EXTREMES)
@pytest.mark.parametrize("name", ESTIMATORS)
def test_extreme_rows(name, extreme):
    assert_finite_or_clear(clone(ESTIMATORS[name]), *EXTREMES[extreme])


def test_likelihoods_without_a_row_to_hold_out_are_those_of_the_training_rows():
    proba = outputs(clone(ESTIMATORS["svm"]), X[:3], LABELS[:3])[1]
    np.testing.assert_allclose(proba.sum(axis=1), 1.0)


SAME = {
    "float32": (X.astype("f4").astype("f8"), X.astype("f4")),
    "float16": (X.astype("f2").astype("f8"), X.astype("f2")),
    "big-endian": (X, X.astype(">f8")),
    "Fortran": (X, np.asfortranarray(X)),
    "read-only": (X, read_only(X)),
    "strided": (X, np.repeat(X, 2, axis=1)[:, ::2]),
}
POSITIVE = sparse.csr_matrix(np.where(X > 0, X, 0.0))
ZEROS = with_zeros(POSITIVE)
SAME_SPARSE = {
    "unsorted": (POSITIVE, unsorted(POSITIVE)),
    "int64": (POSITIVE, with_long_indices(POSITIVE)),
    "csc": (POSITIVE, POSITIVE.tocsc()),
    "explicit zeros": (sparse.csr_matrix(ZEROS.toarray()), ZEROS),
}


@pytest.mark.parametrize("kind", [*SAME, *SAME_SPARSE])
@pytest.mark.parametrize("name", MODELS)
def test_the_same_numbers_in_another_array_give_the_same_model(name, kind):
    plain, other = {**SAME, **SAME_SPARSE}[kind]
    model = clone(MODELS[name])
    if name == "svm":
        model.set_params(machine=SVM())
    # sums round by the order in memory: compare solutions, not where a solver stopped on the way
    tols = [n for n in ("tol", "machine__tol", "kernel_tol") if n in model.get_params()]
    model.set_params(**dict.fromkeys(tols, 1e-9))
    for a, b in zip(
        outputs(clone(model), plain, LABELS),
        outputs(clone(model), other, LABELS),
        strict=True,
    ):
        np.testing.assert_allclose(a, b, rtol=1e-6, atol=1e-8)


WEIGHTS = {
    "half zero": np.where(np.arange(36) % 2, 1.0, 0.0),
    "1e-300": np.full(36, 1e-300),
    "1e300": np.full(36, 1e300),
    "1e300 and 1e-300": np.where(np.arange(36) % 2, 1e300, 1e-300),
    "NaN": np.full(36, np.nan),
}


@pytest.mark.parametrize("kind", WEIGHTS)
@pytest.mark.parametrize("name", MODELS)
def test_extreme_weights(name, kind):
    assert_finite_or_clear(clone(MODELS[name]), X, LABELS, WEIGHTS[kind])


@pytest.mark.parametrize("value", [1e-12, 1e12])
@pytest.mark.parametrize("name", ["svm free", "svm poly", "ls", "spoc", "spoc linear", "sbc"])
def test_extreme_parameters(name, value):
    names = ("C", "gamma", "beta", "machine__C", "machine__gamma")
    known = [n for n in names if n in MODELS[name].get_params()]
    for parameter in known:
        model = clone(MODELS[name]).set_params(**{parameter: value})
        assert_finite_or_clear(model, X, LABELS)
    assert known


# --- kernels of the user's ---


def failing(A, B):
    raise RuntimeError("no kernel today")


@pytest.mark.parametrize(
    "kernel",
    [
        lambda A, B: np.full((len(A), len(B)), np.nan),
        lambda A, B: np.ones((len(A), len(B) + 1)),
        lambda A, B: np.ones(len(A)),
    ],
    ids=["NaN", "too wide", "flat"],
)
def test_a_kernel_function_that_gives_no_kernel_values(kernel):
    with pytest.raises(ValueError, match="kernel"):
        OutputCodeClassifier(machine=SVM(kernel)).fit(X, LABELS)


def test_a_kernel_function_that_raises_is_heard():
    with pytest.raises(RuntimeError, match="no kernel today"):
        OutputCodeClassifier(machine=SVM(failing)).fit(X, LABELS)


def test_a_given_kernel_with_nan_is_refused():
    with pytest.raises(ValueError, match="NaN"):
        OutputCodeClassifier(machine=SVM("precomputed")).fit(np.full((36, 36), np.nan), LABELS)


# --- interruption ---


def pressed(A, B):
    raise KeyboardInterrupt


class Interrupted(decoders.Hamming):
    """A decoder during whose training Ctrl-C is pressed."""

    def fit(self, training):
        raise KeyboardInterrupt


@pytest.mark.parametrize("fitted", [False, True])
def test_ctrl_c_in_fit_leaves_the_estimator_as_it_was(fitted):
    model = OutputCodeClassifier()
    if fitted:
        model.fit(X, LABELS)
    model.set_params(decoder=Interrupted())
    before = dict(vars(model))
    with pytest.raises(KeyboardInterrupt):
        model.fit(X[:, :2], LABELS % 2)
    assert vars(model).keys() == before.keys()
    assert all(vars(model)[name] is value for name, value in before.items())


def test_ctrl_c_in_a_search_leaves_it_as_it_was():
    search = LOOBoundSearch(OutputCodeClassifier(decoder="linear"), gammas=[0.1]).fit(X, LABELS)
    search.set_params(estimator=OutputCodeClassifier(machine=SVM(pressed), decoder="linear"))
    before = dict(vars(search))
    with pytest.raises(KeyboardInterrupt):
        search.fit(X[:, :2], LABELS % 2)
    assert vars(search) == before


def seconds_to_answer(work):
    """Press Ctrl-C shortly after some work has begun; return how long the answer takes."""
    main = threading.main_thread().ident
    timer = threading.Timer(1.0, signal.pthread_kill, [main, signal.SIGINT])
    timer.start()
    begin = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        work()
    return time.monotonic() - begin


def test_ctrl_c_does_not_wait_for_threads_at_work():
    assert seconds_to_answer(lambda: thread_map(time.sleep, [15.0] * 4, 2)) < 10


@pytest.mark.parametrize("machine", ["ls", "jcl"])
def test_ctrl_c_does_not_wait_for_factors_of_a_large_matrix(machine, monkeypatch):
    for module, name in ((least_squares, "cholesky"), (spectrum, "eigh")):
        monkeypatch.setattr(module, name, lambda *_, **__: time.sleep(15))
    rows, model = np.repeat(X, 30, axis=0), OutputCodeClassifier(machine=machine, n_jobs=1)
    assert seconds_to_answer(lambda: model.fit(rows, np.repeat(LABELS, 30))) < 10
    assert not hasattr(model, "classes_")
