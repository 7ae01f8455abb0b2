"""OutputCodeClassifier: the whole walk, what users pass in, and what bad input is told."""

from __future__ import annotations

import io
import pickle
import sys

import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.datasets import load_iris, load_wine
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression, Perceptron
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

from outcode import OutputCodeClassifier, codes
from outcode.codes import CODES
from outcode.machines import SVM
from test_decoders import PLAIN

X, Y = load_iris(return_X_y=True)
NAMES = np.array(["setosa", "versicolor", "virginica"])[Y]


@pytest.mark.parametrize("code", CODES)
@pytest.mark.parametrize("n_classes", [2, 3, 5])
def test_predict_is_argmax_of_scores_for_every_code_and_decoder(code, n_classes):
    rng = np.random.RandomState(0)
    y = np.array(list("edcba"))[rng.randint(n_classes, size=80)]
    Z = rng.randn(80, 3) + np.array([ord(label) for label in y])[:, None]
    clf = OutputCodeClassifier(code, random_state=0).fit(Z, y)
    for decoder in PLAIN:
        other = clf.with_decoder(decoder)
        scores = other.decision_function(Z)
        if n_classes == 2:
            assert scores.shape == (80,)
            assert np.array_equal(other.predict(Z), other.classes_[(scores > 0).astype(int)])
        else:
            assert scores.shape == (80, n_classes)
            assert np.array_equal(other.predict(Z), other.classes_[scores.argmax(axis=1)])
        refitted = OutputCodeClassifier(code, decoder=decoder, random_state=0).fit(Z, y)
        np.testing.assert_allclose(refitted.decision_function(Z), scores, atol=1e-12)


def test_one_vs_one_hamming_is_the_vote_of_svc():
    ours = OutputCodeClassifier("ovo", SVM(gamma=0.5, bias="free", tol=1e-6), "hamming").fit(
        X, NAMES
    )
    theirs = SVC(gamma=0.5, tol=1e-6, decision_function_shape="ovo").fit(X, NAMES)
    np.testing.assert_allclose(ours.margins(X), theirs.decision_function(X), atol=1e-4)
    assert np.mean(ours.predict(X) == theirs.predict(X)) > 0.99


@pytest.mark.parametrize(
    "machine",
    [LogisticRegression(), Perceptron(random_state=0), GaussianNB(), KNeighborsClassifier(3)],
)
@pytest.mark.parametrize("code", ["ova", "ovo", "dense"])
def test_any_scikit_learn_classifier_is_a_machine(machine, code):
    clf = OutputCodeClassifier(code, machine, random_state=0).fit(X, NAMES)
    assert clf.score(X, NAMES) > 0.6
    for s, rows in enumerate(clf.machine_.used_):
        lone = clone(machine).fit(X[rows], clf.code_[clf.labels_[rows], s])
        margin = (
            lone.decision_function(X)
            if hasattr(lone, "decision_function")
            else lone.predict_proba(X)[:, 1] - 0.5
        )
        np.testing.assert_allclose(clf.margins(X)[:, s], margin, atol=1e-10)


def test_precomputed_equals_the_kernel_it_holds():
    train, test = np.arange(150) % 2 == 0, np.arange(150) % 2 == 1
    for code in ("ova", "ovo"):
        direct = OutputCodeClassifier(code, SVM(gamma=0.5, tol=1e-8)).fit(X[train], NAMES[train])
        K = rbf_kernel(X, X[train], gamma=0.5)
        given = OutputCodeClassifier(code, SVM("precomputed", tol=1e-8)).fit(K[train], NAMES[train])
        np.testing.assert_allclose(given.margins(K[test]), direct.margins(X[test]), atol=1e-5)
        bank = OutputCodeClassifier(code, SVC(kernel="precomputed")).fit(K[train], NAMES[train])
        assert bank.score(K[test], NAMES[test]) > 0.9
    assert cross_val_score(given, rbf_kernel(X, gamma=0.5), NAMES).mean() > 0.9


def test_sparse_pandas_and_polars_rows():
    dense = OutputCodeClassifier(machine=SVM(gamma=0.5, tol=1e-8)).fit(X, NAMES)
    spread = clone(dense).fit(sparse.csr_matrix(X), NAMES)
    np.testing.assert_allclose(spread.margins(sparse.csr_matrix(X)), dense.margins(X), atol=1e-6)
    for frame in (pd.DataFrame(X, columns=list("abcd")), pl.DataFrame(X, schema=list("abcd"))):
        clf = clone(dense).fit(frame, NAMES)
        assert list(clf.feature_names_in_) == list("abcd")
        np.testing.assert_allclose(clf.margins(frame), dense.margins(X), atol=1e-12)


def test_grid_search_pipeline_clone_and_pickle():
    pipe = make_pipeline(StandardScaler(), OutputCodeClassifier())
    grid = {
        "outputcodeclassifier__machine__gamma": [0.1, 1.0],
        "outputcodeclassifier__code": ["ova", "ovo"],
    }
    by_name = OutputCodeClassifier(machine="svm").set_params(machine__gamma=7.0)
    assert by_name.machine.gamma == 7.0
    search = GridSearchCV(pipe, grid, cv=3).fit(X, NAMES)
    assert search.best_score_ > 0.9
    again = pickle.loads(pickle.dumps(search.best_estimator_))
    assert np.array_equal(again.predict(X), search.predict(X))


def test_weights_and_class_weights_reach_the_machines():
    weight = np.random.RandomState(0).randint(0, 3, size=150)
    rows = np.repeat(np.arange(150), weight)
    machine = SVM(gamma=0.5, tol=1e-9)
    weighted = OutputCodeClassifier("ovo", machine, "llw").fit(X, NAMES, weight)
    repeated = OutputCodeClassifier("ovo", machine, "llw").fit(X[rows], NAMES[rows])
    np.testing.assert_allclose(
        weighted.decision_function(X), repeated.decision_function(X), atol=1e-6
    )
    heavy = {"setosa": 1.0, "versicolor": 3.0, "virginica": 1.0}
    by_class = OutputCodeClassifier(machine=SVM(gamma=0.5, tol=1e-9, class_weight=heavy))
    by_row = OutputCodeClassifier(machine=machine)
    np.testing.assert_allclose(
        by_class.fit(X, NAMES).margins(X),
        by_row.fit(X, NAMES, [heavy[name] for name in NAMES]).margins(X),
        atol=1e-7,
    )
    skewed = np.concatenate([np.arange(60), np.arange(100, 110)])
    balanced = OutputCodeClassifier(machine=SVM(class_weight="balanced")).fit(
        X[skewed], NAMES[skewed]
    )
    assert balanced.sample_weight_.sum() == pytest.approx(len(skewed))


def test_progress_is_shown_in_plain_lines(monkeypatch):
    shown = io.StringIO()
    monkeypatch.setattr(sys, "stderr", shown)
    OutputCodeClassifier("ovo", verbose=1).fit(X, NAMES)
    assert "columns: 3/3, 0.0 s left" in shown.getvalue()


def test_unseen_seed_changes_random_codes_only():
    first, second = (
        OutputCodeClassifier("dense", random_state=seed).fit(*load_wine(return_X_y=True))
        for seed in (0, 1)
    )
    assert first.code_.shape == second.code_.shape


def fit(X=X, y=NAMES, sample_weight=None, **params):
    machine = {k: params.pop(k) for k in list(params) if k not in ("code", "machine", "decoder")}
    params.setdefault("machine", SVM(**machine))
    return OutputCodeClassifier(**params).fit(X, y, sample_weight)


def with_entry(value):
    Z = X.copy()
    Z[3, 1] = value
    return Z


def asymmetric():
    K = rbf_kernel(X)
    K[2, 5] += 0.1
    return K


BAD = {
    "nan": ({"X": with_entry(np.nan)}, "contains NaN"),
    "infinity": ({"X": with_entry(np.inf)}, "infinity"),
    "huge": ({"X": with_entry(1e300)}, "so large that their (variance overflows|squares overflow)"),
    "huge fixed gamma": ({"X": with_entry(1e300), "gamma": 1.0}, "Row 3 of X.*squares overflow"),
    "overflowing poly": ({"X": 1e100 * X, "kernel": "poly", "gamma": 1.0}, "overflow"),
    "one class": ({"y": ["a"] * 150}, "only one class"),
    "too many rows in the code": (
        {"code": np.eye(4) * 2 - 1},
        "4 rows, but the data has 3 classes",
    ),
    "mixed labels": ({"y": np.array([1, "a", 2.0] * 50, dtype=object)}, "mix|uniformly strings"),
    "continuous labels": ({"y": np.linspace(0, 1, 150)}, "continuous"),
    "negative weight": ({"sample_weight": -np.ones(150)}, r"sample_weight\[0\] = -1 is negative"),
    "zero weights": ({"sample_weight": np.zeros(150)}, "zero for every row"),
    "short weights": ({"sample_weight": np.ones(3)}, r"shape \(3,\), but there are 150 rows"),
    "nan weight": ({"sample_weight": np.full(150, np.nan)}, "NaN or infinity"),
    "class without weight": (
        {"sample_weight": (Y != 1).astype(float)},
        "Every row of class .*versicolor.* has weight zero",
    ),
    "gamma zero": ({"gamma": 0.0}, "gamma must be a positive finite number, got 0.0"),
    "gamma text": ({"gamma": "scal"}, "Did you mean 'scale'"),
    "C negative": ({"C": -1.0}, "C must be a positive finite number, got -1.0"),
    "C text": ({"C": "1"}, "C must be a positive number"),
    "tol zero": ({"tol": 0.0}, "tol must be a positive"),
    "kernel": ({"kernel": "rbg"}, "Unknown kernel 'rbg'. Did you mean 'rbf'"),
    "bias": ({"bias": "freee"}, "Did you mean 'free'"),
    "code": ({"code": "ovr"}, "Unknown code 'ovr'"),
    "decoder": ({"decoder": "haming"}, "Did you mean 'hamming'"),
    "machine name": ({"machine": "swm"}, "Did you mean 'svm'"),
    "machine class": ({"machine": SVM}, r"machine is the class SVM: give an object, with \(\)"),
    "machine regressor": ({"machine": 3}, "machine must be a name"),
    "not square": ({"X": rbf_kernel(X)[:, :9], "kernel": "precomputed"}, "must be square"),
    "not symmetric": ({"X": asymmetric(), "kernel": "precomputed"}, r"symmetric, but K\[2, 5\]"),
    "sparse kernel": ({"X": sparse.eye(150).tocsr(), "kernel": "precomputed"}, "cannot be sparse"),
    "no rows": ({"X": X[:0], "y": NAMES[:0]}, "0 sample"),
    "lengths": ({"y": NAMES[:9]}, "inconsistent numbers of samples"),
    "class weight": ({"class_weight": "ballanced"}, "class_weight"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_input_gets_a_clear_error(case):
    arguments, message = BAD[case]
    before = {k: v.copy() for k, v in arguments.items() if isinstance(v, np.ndarray)}
    with pytest.raises(ValueError, match=message):
        fit(**arguments)
    for name, value in before.items():  # and loses nothing
        np.testing.assert_array_equal(arguments[name], value)


def test_before_fit_and_wrong_width():
    with pytest.raises(NotFittedError):
        OutputCodeClassifier().predict(X)
    clf = OutputCodeClassifier().fit(X, NAMES)
    with pytest.raises(ValueError, match="X has 3 features"):
        clf.predict(X[:, :3])
    kernel = OutputCodeClassifier(machine=SVM("precomputed")).fit(rbf_kernel(X), NAMES)
    with pytest.raises(ValueError, match="X has 9 features"):
        kernel.predict(rbf_kernel(X)[:, :9])
    with pytest.raises(AttributeError) as caught:
        clf.predict_proba(X)
    assert "gives scores but no probabilities: use decoder='softmax'" in str(caught.value)
    with pytest.raises(ValueError, match="X has 5 rows, but the classifier was fitted on 150"):
        clf.with_decoder("hamming", X[:5])


def test_text_is_named_with_its_column():
    frame = pd.DataFrame({"size": [1.0, 2.0, 3.0, 4.0], "colour": ["red", "blue", "red", "blue"]})
    with pytest.raises(
        ValueError, match=r"needs numbers, but column 'colour' holds text.*TableEncoder"
    ):
        OutputCodeClassifier().fit(frame, [0, 1, 0, 1])
    with pytest.raises(ValueError, match="needs numbers, but X holds text"):
        OutputCodeClassifier().fit(frame.to_numpy(dtype=object), [0, 1, 0, 1])


def test_a_class_with_a_single_row_and_constant_features():
    rows = np.concatenate([np.arange(100), [120]])
    clf = OutputCodeClassifier("ovo", SVM(C=100.0)).fit(X[rows], NAMES[rows])
    assert clf.predict(X[[120]])[0] == "virginica"
    flat = OutputCodeClassifier().fit(np.ones((6, 2)), list("aabbcc"))
    assert np.isfinite(flat.decision_function(np.ones((1, 2)))).all()


def test_a_column_with_one_sign_once_rows_are_dropped():
    weight = np.ones(4)
    weight[0] = 0.0
    with pytest.raises(ValueError, match="Column 0 has rows of one sign only"):
        SVM().fit(X[:4], [[1], [-1], [-1], [-1]], weight)


def test_weights_a_machine_cannot_take():
    with pytest.raises(ValueError, match="KNeighborsClassifier takes no sample_weight"):
        OutputCodeClassifier(machine=KNeighborsClassifier()).fit(X, NAMES, np.arange(150) + 1.0)


def test_code_matrix_function_takes_names_objects_and_matrices():
    assert codes.code_matrix(codes.OneVsAll(), 4).shape == (4, 4)
    assert codes.code_matrix([[1, -1], [-1, 1]], 2).dtype == np.int8
    clf = OutputCodeClassifier(code=[[1, 1], [-1, 1], [1, -1]]).fit(X, NAMES)
    assert clf.margins(X).shape == (150, 2)
