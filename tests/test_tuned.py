"""The classifier that tunes itself: what it chooses, and that nothing else changes the choice."""

from __future__ import annotations

import pickle
import time
import types

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.datasets import load_iris, load_wine, make_blobs, make_classification
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import log_loss
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import StandardScaler

from outcode import OutputCodeClassifier, OutputCodeClassifierCV, kernels, load, save
from outcode.decoders.shared import calibrate
from outcode.folds import distinct_rows
from outcode.selection import tuning
from outcode.selection.costs import Costs
from outcode.selection.landscape import sample


def wine():
    X, y = load_wine(return_X_y=True)
    return StandardScaler().fit_transform(X), y


def blobs(n=60, centers=3, seed=0):
    return make_blobs(n, n_features=3, centers=centers, cluster_std=3.0, random_state=seed)


def same(first, second, X):
    np.testing.assert_array_equal(first.predict_proba(X), second.predict_proba(X))
    for name, column in first.results_.items():
        if name != "seconds":
            np.testing.assert_array_equal(column, second.results_[name])


def test_one_line_gives_a_tuned_and_calibrated_classifier():
    X, X_test, y, y_test = train_test_split(*wine(), random_state=0, stratify=wine()[1])
    clf = OutputCodeClassifierCV(random_state=0).fit(X, y)
    assert clf.score(X_test, y_test) > 0.95
    assert log_loss(y_test, clf.predict_proba(X_test)) < 0.2
    assert clf.best_score_ == clf.results_["accuracy"][clf.best_index_]
    assert set(clf.best_params_) == {
        "code",
        "machine",
        "kernel",
        "gamma",
        "C",
        "decoder",
        "features",
    }
    columns = {len(column) for column in clf.results_.values()}
    assert len(columns) == 1
    assert columns.pop() > 50


def test_probabilities_agree_with_predict():
    X, y = blobs()
    clf = OutputCodeClassifierCV(random_state=0).fit(X, y)
    proba = clf.predict_proba(X)
    np.testing.assert_allclose(proba.sum(axis=1), 1.0)
    np.testing.assert_array_equal(clf.classes_[proba.argmax(axis=1)], clf.predict(X))
    np.testing.assert_array_equal(clf.decision_function(X).argmax(axis=1), proba.argmax(axis=1))


def test_the_held_out_score_is_honest():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(200, 4)), rng.integers(0, 2, 200)  # nothing to learn
    clf = OutputCodeClassifierCV(random_state=0).fit(X, y)
    proba = clf.predict_proba(rng.normal(size=(2000, 4)))
    assert log_loss(rng.integers(0, 2, 2000), proba) < 0.75  # always one half: 0.69


@pytest.mark.parametrize("n", [60, 520], ids=["one level", "sample first"])
def test_the_model_does_not_depend_on_threads(n):
    X, y = blobs(n)
    models = [OutputCodeClassifierCV(random_state=0, n_jobs=jobs).fit(X, y) for jobs in (1, 2)]
    same(*models, X)


def test_a_weight_of_two_equals_a_repeated_row():
    X, y = blobs(90)
    weight = np.ones(90)
    weight[:20] = 2.0
    weight[80:] = 0.0
    twice = np.r_[np.arange(80), np.arange(20)]
    weighted = OutputCodeClassifierCV(random_state=0).fit(X, y, weight)
    repeated = OutputCodeClassifierCV(random_state=0).fit(X[twice], y[twice])
    same(weighted, repeated, X)


def test_sparse_rows_give_the_same_model():
    X, y = blobs()
    X = np.where(np.abs(X) < 2.0, 0.0, X)
    dense = OutputCodeClassifierCV(random_state=0).fit(X, y)
    loose = OutputCodeClassifierCV(random_state=0).fit(sparse.csr_matrix(X), y)
    np.testing.assert_allclose(
        dense.predict_proba(X), loose.predict_proba(sparse.csr_matrix(X)), atol=0.05
    )


def test_precomputed_kernel():
    X, y = blobs()
    gram = np.exp(-0.05 * ((X[:, None] - X[None]) ** 2).sum(axis=2))
    clf = OutputCodeClassifierCV(kernels="precomputed", random_state=0).fit(gram, y)
    assert clf.predict_proba(gram[:5]).shape == (5, 3)
    assert np.isnan(clf.results_["gamma"]).all()
    assert clf.score(gram, y) > 0.8
    with pytest.raises(ValueError, match="square"):
        OutputCodeClassifierCV(kernels="precomputed").fit(gram[:, :5], y)
    with pytest.raises(ValueError, match="positive definite"):
        OutputCodeClassifierCV(kernels="precomputed").fit(-100.0 * gram, y)
    with pytest.raises(ValueError, match="only kernel"):
        OutputCodeClassifierCV(kernels=("rbf", "precomputed")).fit(gram, y)


def test_two_classes():
    X, y = make_classification(80, random_state=0)
    clf = OutputCodeClassifierCV(random_state=0).fit(X, np.where(y == 1, "yes", "no"))
    assert clf.predict_proba(X).shape == (80, 2)
    assert clf.decision_function(X).shape == (80,)
    assert set(clf.predict(X)) <= {"yes", "no"}


def test_classes_of_one_row():
    X, y = blobs(40)
    y = y.copy()
    y[0], y[1] = 7, 8
    clf = OutputCodeClassifierCV(random_state=0).fit(X, y)
    assert clf.predict_proba(X).shape == (40, 5)
    assert np.isfinite(clf.predict_proba(X)).all()


def test_every_row_a_class_of_its_own():
    X = np.arange(8.0).reshape(4, 2)
    assert OutputCodeClassifierCV().fit(X, list("abcd")).predict_proba(X).shape == (4, 4)


def test_constant_and_heavy_tailed_columns():
    X, y = blobs()
    X = np.column_stack(
        [X, np.ones(60), np.ones(60), 1e6 * np.random.default_rng(0).standard_cauchy(60)]
    )
    proba = OutputCodeClassifierCV(random_state=0).fit(X, y).predict_proba(X)
    assert np.isfinite(proba).all()


def test_all_rows_equal():
    clf = OutputCodeClassifierCV(random_state=0).fit(np.ones((9, 2)), [0, 1, 1] * 3)
    assert clf.predict([[1.0, 1.0]]).tolist() == [1]


def test_time_limit_stops_the_search_and_still_gives_a_model():
    X, y = blobs(300)
    whole = OutputCodeClassifierCV(random_state=0).fit(X, y)
    short = OutputCodeClassifierCV(random_state=0, time_limit=1e-6).fit(X, y)
    assert len(short.results_["C"]) < len(whole.results_["C"])
    assert short.predict_proba(X).shape == (300, 3)
    with pytest.raises(ValueError, match="time_limit"):
        OutputCodeClassifierCV(time_limit=-1).fit(X, y)


def test_time_limit_keeps_off_what_would_end_too_late():
    X, y = blobs(900)
    clf = OutputCodeClassifierCV(random_state=0, time_limit=1e-3).fit(X, y)
    assert set(clf.results_["n_rows"]) == {tuning.MAP_ROWS}


def test_a_model_with_a_mixture_is_one_file(tmp_path, monkeypatch):
    X, y = blobs()
    monkeypatch.setattr(tuning, "preferred", lambda trials, scoring: trials[-1])
    clf = OutputCodeClassifierCV("ls", random_state=0).fit(X, y)
    assert "+" in clf.best_params_["kernel"]
    save(clf, tmp_path / "model.outcode")
    again = load(tmp_path / "model.outcode")
    np.testing.assert_array_equal(again.predict_proba(X), clf.predict_proba(X))


def test_an_interrupted_fit_leaves_the_model_as_it_was(monkeypatch):
    X, y = blobs()
    clf = OutputCodeClassifierCV(random_state=0).fit(X, y)
    before = clf.predict_proba(X)

    def interrupt(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(tuning.Search, "_mixed", interrupt)
    with pytest.raises(KeyboardInterrupt):
        clf.fit(X + 1.0, y)
    np.testing.assert_array_equal(clf.predict_proba(X), before)


def test_without_refit_there_is_a_choice_and_no_model():
    X, y = blobs()
    clf = OutputCodeClassifierCV(refit=False, random_state=0).fit(X, y)
    assert clf.best_params_["machine"] in ("ls", "svm")
    with pytest.raises(AttributeError, match="refit=True"):
        clf.predict(X)


def test_features_that_say_nothing_count_less():
    X, y = blobs(150)
    noise = np.random.default_rng(0).normal(size=(150, 30)) * X.std()
    weighted, plain = (
        OutputCodeClassifierCV("ls", feature_weights=on, random_state=0) for on in (True, False)
    )
    rows = np.column_stack([X, noise])
    weighted.fit(rows, y)
    plain.fit(rows, y)
    assert weighted.best_params_["features"] == "weighted"
    assert weighted.feature_scale_[1:3].min() > 3.0 * weighted.feature_scale_[3:].max()
    assert plain.feature_scale_ is None
    assert weighted.best_score_ > plain.best_score_
    assert set(weighted.results_["features"]) == {"weighted", "plain"}  # both were tried
    assert set(plain.results_["features"]) == {"plain"}


def test_features_of_different_units_are_standardised(tmp_path):
    X, y = blobs(150)
    noise = np.random.default_rng(0).normal(size=(150, 1))
    rows = np.column_stack([X, noise, y % 2]) * np.r_[np.ones(X.shape[1]), 1e4, 1.0]
    clf = OutputCodeClassifierCV("ls", "rbf", feature_weights=False, random_state=0).fit(rows, y)
    deviations = rows.std(axis=0)
    np.testing.assert_allclose(clf.feature_scale_[:-1] * deviations[:-1], 1.0)
    assert clf.feature_scale_[-1] == 1.0  # two values: a range of 1 already
    save(clf, tmp_path / "model.outcode")
    again = load(tmp_path / "model.outcode")
    np.testing.assert_array_equal(again.predict_proba(rows), clf.predict_proba(rows))
    by_hand = OutputCodeClassifierCV("ls", "rbf", feature_weights=False, random_state=0)
    by_hand.fit(rows * clf.feature_scale_, y)
    assert by_hand.feature_scale_ is None
    np.testing.assert_allclose(
        by_hand.predict_proba(rows * clf.feature_scale_), clf.predict_proba(rows), atol=1e-8
    )


def test_features_stay_as_they_are_where_leave_one_out_prefers_it():
    rng = np.random.default_rng(1)
    y = np.repeat(np.arange(3), 40)
    rows = np.column_stack([5.0 * y + rng.normal(size=120), 0.1 * rng.normal(size=(120, 40))])
    clf = OutputCodeClassifierCV("ls", "rbf", feature_weights=False, random_state=0).fit(rows, y)
    assert clf.feature_scale_ is None


@pytest.mark.parametrize("limit", [None, 60.0])
def test_standardised_features_on_landmarks(monkeypatch, limit):
    monkeypatch.setattr("outcode.selection.tuned.EXACT_ROWS", 100)
    monkeypatch.setattr("outcode.selection.landmarks.LANDMARKS", 50)
    X, y = blobs(240)
    rows = X * np.geomspace(1.0, 1e4, X.shape[1])
    clf = OutputCodeClassifierCV("ls", "rbf", time_limit=limit, random_state=0).fit(rows, y)
    assert clf.feature_scale_ is not None
    assert clf.score(rows, y) > OutputCodeClassifier("ova", "svm").fit(rows, y).score(rows, y)


def test_text_in_a_frame_names_the_columns_and_the_encoder():
    frame = pd.DataFrame({"a": ["low", "high"] * 6, "b": np.arange(12.0)})
    with pytest.raises(ValueError, match=r"column 'a' holds text.*TableEncoder"):
        OutputCodeClassifierCV().fit(frame, np.arange(12) % 3)


def test_weighted_features_are_in_the_model_file(tmp_path):
    X, y = blobs(80)
    X = np.column_stack([X, np.random.default_rng(0).normal(size=(80, 20)) * X.std()])
    clf = OutputCodeClassifierCV("ls", "rbf", random_state=0).fit(X, y)
    assert clf.best_params_["features"] == "weighted"
    save(clf, tmp_path / "model.outcode")
    again = load(tmp_path / "model.outcode")
    np.testing.assert_array_equal(again.predict_proba(X), clf.predict_proba(X))
    scaled = OutputCodeClassifierCV(feature_weights=False).fit(X, y).best_estimator_
    scales = np.array(clf.best_estimator_.machine_.kernel_.scales)
    np.testing.assert_allclose(scales / scales[0], clf.feature_scale_ / clf.feature_scale_[0])
    assert not scaled.machine_.kernel_.scales


def test_spoc_is_tried_where_support_vector_machines_win():
    X, y = blobs(120)
    clf = OutputCodeClassifierCV(("ls", "spoc"), codes="ova", random_state=0).fit(X, y)
    assert "spoc" in clf.results_["machine"]
    alone = OutputCodeClassifierCV("spoc", codes="ova", random_state=0).fit(X, y)
    assert alone.best_params_["machine"] == "spoc"
    assert alone.score(X, y) > 0.8


def test_many_classes_do_without_pairs():
    X, y = make_blobs(600, n_features=5, centers=200, random_state=0)
    clf = OutputCodeClassifierCV("ls", "rbf", random_state=0).fit(X, y)
    assert set(clf.results_["code"]) == {"ova"}
    assert clf.score(X, y) > 0.9


def test_many_rows_within_the_time_limit():
    X, y = make_blobs(20_000, n_features=20, centers=5, cluster_std=6.0, random_state=0)
    started = time.process_time()
    clf = OutputCodeClassifierCV(time_limit=5.0, random_state=0).fit(X, y)
    assert time.process_time() - started < 15.0  # CPU seconds of all threads
    assert clf.score(X[:2000], y[:2000]) > 0.9
    assert len(clf.best_estimator_.labels_) == 20_000


@pytest.mark.parametrize("scoring", ["accuracy", "balanced_accuracy", "neg_log_loss"])
def test_scoring(scoring):
    X, y = blobs()
    clf = OutputCodeClassifierCV(scoring=scoring, random_state=0).fit(X, y)
    assert clf.best_score_ == clf.results_[scoring][clf.best_index_]
    if scoring == "neg_log_loss":
        assert clf.best_score_ == clf.results_[scoring].max()


def test_unknown_names_are_told():
    X, y = blobs()
    for wrong in ({"scoring": "acuracy"}, {"machines": ("svmm",)}, {"codes": ("ovx",)}):
        with pytest.raises(ValueError, match="Did you mean"):
            OutputCodeClassifierCV(**wrong).fit(X, y)


@pytest.mark.parametrize("name", ["machines", "kernels", "codes", "decoders"])
def test_nothing_to_try_is_an_error(name):
    with pytest.raises(ValueError, match=f"{name} is empty"):
        OutputCodeClassifierCV(**{name: ()}).fit(*blobs(30))


@pytest.mark.parametrize("columns", [3, 1000])
def test_costs_tell_columns_from_rows(columns):
    truth = Costs(1e-9, 1e-4, columns)  # seconds that factorising and scoring take
    solving = truth.trial(300) - 300 * truth.scoring
    trial = types.SimpleNamespace(
        machine="ls", n_rows=300, solving=solving, seconds=truth.trial(300)
    )
    costs = Costs.of([trial], columns)
    assert costs.trial(5000) == pytest.approx(truth.trial(5000))
    assert costs.fewest == {3: 100, 1000: 500}[columns]
    assert costs.rows(300, 3000, 8, 8 * truth.trial(1200)) in (1199, 1200)
    assert costs.rows(300, 3000, 8, -1.0) == 300
    assert costs.most_landmarks(9000, truth.landmarks(9000, 800)) in (799, 800)
    assert costs.most_landmarks(9000, 0.0) == costs.fewest


def test_a_machine_with_a_large_C_is_trained_without_a_warning():
    X = np.random.default_rng(0).integers(0, 4, size=(400, 6))
    y = X.sum(axis=1) // 5
    clf = OutputCodeClassifierCV(("ls", "svm"), "rbf", "ovo", random_state=0).fit(X, y)
    assert clf.best_params_["machine"] == "svm"
    with pytest.warns(ConvergenceWarning):
        clone(clf.best_estimator_).fit(X, y)


def test_one_machine_one_kernel_one_code():
    X, y = blobs()
    clf = OutputCodeClassifierCV("ls", "rbf", "ovo", random_state=0).fit(X, y)
    assert set(clf.results_["machine"]) == {"ls"}
    assert set(clf.results_["kernel"]) == {"rbf"}
    assert set(clf.results_["code"]) == {"ovo"}
    linear = OutputCodeClassifierCV("ls", "linear", "ova", random_state=0).fit(X, y)
    assert linear.best_params_["gamma"] is None


def test_decoders_are_compared_on_the_same_margins():
    X, y = blobs()
    clf = OutputCodeClassifierCV(decoders=("shared", "likelihood", "hinge"), random_state=0)
    clf.fit(X, y)
    assert set(clf.results_["decoder"]) == {"shared", "likelihood", "hinge"}
    only = OutputCodeClassifierCV(decoders="hinge", random_state=0).fit(X, y)
    assert only.best_params_["decoder"] == "hinge"
    assert only.score(X, y) > 0.8


def test_support_vectors_alone(monkeypatch):
    X, y = blobs(120)
    clf = OutputCodeClassifierCV(machines="svm", random_state=0).fit(X, y)
    assert clf.best_params_["machine"] == "svm"
    monkeypatch.setattr(tuning, "LEAST_SQUARES_ROWS", 100)
    many = OutputCodeClassifierCV(random_state=0).fit(X, y)
    assert many.best_params_["machine"] == "svm"
    np.testing.assert_array_equal(many.predict_proba(X), clf.predict_proba(X))


def test_the_map_of_many_rows_is_made_on_a_sample(monkeypatch):
    monkeypatch.setattr(tuning, "FULL_ROWS", 450)
    X, y = blobs(500)
    clf = OutputCodeClassifierCV(random_state=0).fit(X, y)
    assert set(clf.results_["n_rows"]) == {300, 450}
    assert len(clf.best_estimator_.labels_) == 500


def test_a_matrix_as_a_code():
    X, y = blobs()
    code = np.array([[1, -1, 0], [-1, 1, 1], [-1, -1, -1]])
    clf = OutputCodeClassifierCV(codes=[code], random_state=0).fit(X, y)
    np.testing.assert_array_equal(clf.best_estimator_.code_, code)
    assert clf.best_params_["code"] is code


def test_clone_and_pickle():
    X, y = blobs()
    clf = OutputCodeClassifierCV(random_state=0).fit(X, y)
    again = pickle.loads(pickle.dumps(clf))
    np.testing.assert_array_equal(again.predict_proba(X), clf.predict_proba(X))
    same(clone(clf).fit(X, y), clf, X)


def test_a_mixture_is_the_weighted_mean():
    X, _ = blobs(10)
    mixture = kernels.resolve("0.3 rbf(0.1) + 0.7 exponential(0.2)", X)
    rows = mixture.prepare(X, mixture.origin(X))
    both = mixture.block(rows, rows)
    squared = ((X[:, None] - X[None]) ** 2).sum(axis=2)
    expected = 0.3 * np.exp(-0.1 * squared) + 0.7 * np.exp(-0.2 * np.sqrt(squared))
    np.testing.assert_allclose(both, expected, atol=1e-6)


def test_a_sample_keeps_small_classes():
    labels = np.r_[np.zeros(900, int), np.ones(90, int), 2, 2, 2]
    rows = sample(labels, 100, np.random.RandomState(0))
    counts = np.bincount(labels[rows])
    assert len(rows) == 100
    assert counts[2] >= 2
    assert counts[1] >= 8


def test_a_sample_of_many_classes_has_several_rows_of_some():
    labels = np.repeat(np.arange(200), 6)
    rows = sample(labels, 300, np.random.RandomState(0))
    counts = np.bincount(labels[rows], minlength=200)
    assert len(rows) == 300
    assert (counts > 0).sum() == 60
    assert counts[counts > 0].min() >= 3


def test_hundreds_of_classes():
    X, y = make_blobs(1200, n_features=10, centers=200, cluster_std=1.0, random_state=0)
    clf = OutputCodeClassifierCV("ls", "rbf", "ova", random_state=0).fit(X[:900], y[:900])
    assert clf.score(X[900:], y[900:]) > 0.9
    chosen = OutputCodeClassifierCV(kernels="rbf", codes="ova", refit=False, random_state=0)
    assert "svm" in chosen.fit(X[:900], y[:900]).results_["machine"]


def test_iris_with_its_duplicate_rows():
    X, y = load_iris(return_X_y=True)
    assert OutputCodeClassifierCV(random_state=0).fit(X, y).score(X, y) > 0.95


def test_the_temperature_is_that_of_leaving_out_each_row():
    X, y = blobs(600, seed=1)
    clf = OutputCodeClassifierCV("ls", "rbf", "ova", random_state=0).fit(X, y)
    margins = clf.best_estimator_.machine_.loo_margins_
    rows, _ = distinct_rows(X, np.ones(600), y)  # in this order they are trained on
    found = calibrate(margins[None], clf.best_estimator_.code_, y[rows], np.ones(600))
    assert clf.best_estimator_.decoder_.slope_ == found.slope[0]
    assert clf.best_estimator_.decoder_.temperature_ == 1.0 / found.inverse_temperature[0]


def test_errors_name_classes_as_they_are_written():
    X, y = blobs()
    with pytest.raises(ValueError, match=r"only one class \(2\)"):
        OutputCodeClassifierCV().fit(X, np.full(60, 2))
    with pytest.raises(ValueError, match="class 'c' has weight zero"):
        OutputCodeClassifierCV().fit(X, np.array(list("abc"))[y], sample_weight=y < 2)
