"""Prediction sets: finite-sample coverage, per class too, and what they are calibrated on."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.datasets import load_iris, make_classification
from sklearn.exceptions import NotFittedError
from sklearn.svm import SVC

from outcode import SPOC, OutputCodeClassifier, conformal, load, save, selection
from outcode.conformal import METHODS, Calibration

SPLITS = 1000


def simulated(rng, n=600, k=4, sharpness=1.0):
    """Return probabilities that are not quite true, and classes, some of them rare."""
    logits = rng.normal(size=(n, k)) + np.array([1.0, 0.5, 0.0, -0.5])[:k]
    true = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    labels = (rng.random((n, 1)) > np.cumsum(true, axis=1)).sum(axis=1).clip(0, k - 1)
    said = np.exp(2.0 * sharpness * logits + rng.normal(scale=0.3, size=(n, k)))
    return said / said.sum(axis=1, keepdims=True), labels


@pytest.fixture(scope="module")
def iris():
    return load_iris(return_X_y=True)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("per_class", [False, True])
def test_coverage_is_nominal_over_a_thousand_splits(method, per_class):
    rng = np.random.default_rng(0)
    values, labels = simulated(rng)
    own = []
    for _ in range(SPLITS):
        order = rng.permutation(len(labels))
        cal, new = order[:300], order[300:]
        sets = Calibration(values[cal], labels[cal], "split", "probabilities").sets(
            values[new], 0.9, method, per_class=per_class, allow_empty=True
        )
        found = conformal.summary(sets, labels[new])
        own.append(found.class_coverage if per_class else [found.coverage])
    count = np.bincount(labels)[: len(own[0])] / 2 if per_class else 300
    mean = np.mean(own, axis=0)
    assert np.all(mean >= 0.9 - 0.004)  # the guarantee, less the noise of 1,000 splits
    assert np.all(mean <= 0.9 + 1 / (count * 0.8 + 1) + 0.004)
    if not per_class:
        assert abs(mean[0] - 0.9) < 0.01


@pytest.mark.parametrize("method", METHODS)
def test_sets_are_never_empty_unless_allowed(method):
    values, labels = simulated(np.random.default_rng(1), sharpness=4.0)
    calibration = Calibration(values, labels, "split", "probabilities")
    sets = calibration.sets(values, 0.05, method)
    assert sets.any(axis=1).all()
    some = calibration.sets(values, 0.05, method, allow_empty=True)
    assert not some.any(axis=1).all()
    filled = ~some.any(axis=1)
    assert np.array_equal(sets[filled].argmax(axis=1), values[filled].argmax(axis=1))


@pytest.mark.parametrize("method", METHODS)
def test_a_larger_coverage_gives_larger_sets_and_strangeness_grows_with_rank(method):
    values, labels = simulated(np.random.default_rng(2))
    calibration = Calibration(values, labels, "split", "probabilities")
    small, large = (calibration.sets(values, c, method) for c in (0.7, 0.95))
    assert np.all(small <= large)
    assert small.sum() < large.sum()
    strange = METHODS[method][0](values)
    along = np.take_along_axis(strange, np.argsort(-values, axis=1), axis=1)
    assert np.all(np.diff(along, axis=1) >= 0)


def test_the_quantile_by_hand():
    strange = np.array([0.3, 0.1, 0.2, 0.5])
    assert conformal.quantile(strange, 0.6) == 0.3  # ceil(5 * 0.6) = 3rd
    assert conformal.quantile(strange, 0.61) == 0.5
    assert conformal.quantile(strange, 0.81) == np.inf
    assert conformal.quantile(np.arange(99.0), 0.9) == 89.0


def test_aps_and_raps_by_hand():
    proba = np.array([[0.2, 0.5, 0.3]])
    u = conformal.aps(proba)[0, 1] / 0.5
    assert 0 <= u < 1
    assert conformal.aps(proba)[0] == pytest.approx([0.8 + u * 0.2, u * 0.5, 0.5 + u * 0.3])
    more = conformal.raps(proba, penalty=0.1, free=1) - conformal.aps(proba)
    assert more[0] == pytest.approx([0.2, 0.0, 0.1])


def test_rank_depends_on_no_scale_and_orders_by_place_first():
    scores = np.random.default_rng(3).normal(size=(50, 4))
    one, other = conformal.rank(scores), conformal.rank(1000.0 * scores)
    assert np.array_equal(np.argsort(one, axis=None), np.argsort(other, axis=None))
    assert np.array_equal(np.floor(one), np.argsort(np.argsort(-scores, axis=1), axis=1))


def test_a_row_has_the_same_set_whatever_comes_with_it(iris):
    X, y = iris
    clf = OutputCodeClassifier("ova", "ls", "softmax").fit(X, y)
    whole = clf.predict_set(X, 0.9, method="aps")
    assert np.array_equal(clf.predict_set(X[::-1], 0.9, method="aps")[::-1], whole)


@pytest.mark.parametrize("decoder", ["softmax", "likelihood", "coupling"])
def test_decoders_with_probabilities_are_calibrated_already(iris, decoder):
    X, y = iris
    clf = OutputCodeClassifier("ovo", "svm", decoder).fit(X[::2], y[::2])
    sets = clf.predict_set(X[1::2], 0.95)
    assert sets.dtype == bool
    assert sets.shape == (75, 3)
    assert conformal.summary(sets, y[1::2]).coverage >= 0.9


def test_held_out_rows_cover_as_asked_on_average():
    X, y = make_classification(3000, 8, n_informative=6, n_classes=4, class_sep=0.8, random_state=0)
    covered = []
    for seed in range(8):
        rows = np.random.default_rng(seed).permutation(len(y))
        train, test = rows[:400], rows[400:]
        clf = OutputCodeClassifier("ova", "ls", "softmax").fit(X[train], y[train])
        covered.append(conformal.summary(clf.predict_set(X[test], 0.85), y[test]).coverage)
    assert abs(np.mean(covered) - 0.85) < 0.03


def test_other_decoders_say_how_and_then_do(iris):
    X, y = iris
    clf = OutputCodeClassifier("ovo", "svm", "hamming").fit(X, y)
    with pytest.raises(ValueError, match=r"conformal\.cross"):
        clf.predict_set(X)
    with pytest.raises(ValueError, match="method='rank'"):
        conformal.cross(clf, X).predict_set(X)
    cross = conformal.cross(clf, X, folds=3)
    assert conformal.summary(cross.predict_set(X, 0.9, "rank"), y).coverage >= 0.9
    assert clf.rule_.calibration is None  # the classifier itself is as it was


def test_leave_one_out_margins_need_no_folds(iris):
    X, y = iris
    clf = OutputCodeClassifier("ovo", "ls", "hamming").fit(X, y)
    calibration = conformal.calibration_of(clf.rule_)
    rows, margins = np.array([3, 77, 120]), clf.machine_.loo_margins_
    for i in rows:
        alone = OutputCodeClassifier("ovo", clf.machine_, "hamming")
        alone.set_params(machine__gamma=clf.machine_.kernel_.gamma)
        alone.fit(np.delete(X, i, axis=0), np.delete(y, i))
        used = clf.code_[y[i]] != 0
        assert alone.margins(X[i : i + 1])[0, used] == pytest.approx(margins[i, used], abs=1e-6)
    assert np.array_equal(calibration.values, clf.rule_.scores(margins))
    assert clf.predict_set(X, 0.9, "rank").any(axis=1).all()


def test_the_tuned_classifier_has_sets_and_reasons(iris):
    X, y = iris
    search = selection.OutputCodeClassifierCV(machines="ls", kernels="rbf").fit(X[::2], y[::2])
    sets = search.predict_set(X[1::2], 0.9, per_class=True)
    assert np.array_equal(sets, search.best_estimator_.predict_set(X[1::2], 0.9, per_class=True))
    assert conformal.summary(sets, y[1::2]).coverage > 0.85
    assert search.explain(X[0]).predicted == search.predict(X[:1])[0]


def test_split_uses_the_rows_given(iris):
    X, y = iris
    names = np.array(["a", "b", "c"])[y]
    clf = OutputCodeClassifier("ova", "svm", "drm").fit(X[::2], names[::2])
    other = conformal.split(clf, X[1::2], names[1::2])
    calibration = other.rule_.calibration
    assert (calibration.how, calibration.kind) == ("split", "scores")
    assert np.array_equal(calibration.labels, y[1::2])
    assert np.array_equal(calibration.values, other.decision_function(X[1::2]))
    with pytest.raises(ValueError, match=r"conformal\.split"):
        conformal.cross(clf, X[::2])
    with pytest.raises(ValueError, match="'d'"):
        conformal.split(clf, X[:1], ["d"])
    with pytest.raises(ValueError, match="2 rows"):
        conformal.split(clf, X[:2], ["a"])


def test_another_decoder_is_calibrated_anew(iris):
    X, y = iris
    clf = conformal.split(OutputCodeClassifier("ova").fit(X[::2], y[::2]), X[1::2], y[1::2])
    assert clf.with_decoder("hamming").rule_.calibration is None


@pytest.mark.parametrize("per_class", [False, True])
def test_a_model_file_keeps_what_sets_need(iris, tmp_path, per_class):
    X, y = iris
    clf = SPOC(folds=3).fit(X, y)
    save(clf, tmp_path / "model.oc")
    again = load(tmp_path / "model.oc")
    options = {"coverage": 0.8, "method": "raps", "per_class": per_class}
    assert np.array_equal(again.predict_set(X, **options), clf.predict_set(X, **options))


@pytest.mark.parametrize("coverage", [0.0, 1.0, -1, 90, True, float("nan")])
def test_coverage_is_a_share(iris, coverage):
    X, y = iris
    clf = OutputCodeClassifier("ova", "ls", "softmax").fit(X, y)
    with pytest.raises(ValueError, match="between 0 and 1"):
        clf.predict_set(X, coverage)
    with pytest.raises(ValueError, match="Did you mean 'raps'"):
        clf.predict_set(X, 0.9, method="rasp")


def test_a_class_with_too_few_rows_is_in_every_set():
    values, labels = simulated(np.random.default_rng(4))
    keep = np.flatnonzero((labels < 3) | (np.cumsum(labels == 3) <= 5))
    calibration = Calibration(values[keep], labels[keep], "split", "probabilities")
    assert calibration.sets(values, 0.9, per_class=True)[:, 3].all()


def test_a_method_of_ones_own(iris):
    X, y = iris
    clf = OutputCodeClassifier("ova", "ls", "softmax").fit(X, y)
    own = clf.predict_set(X, 0.9, method=lambda proba: -proba)
    assert np.array_equal(own, clf.predict_set(X, 0.9))
    with pytest.raises(ValueError, match="one number per row and class"):
        clf.predict_set(X, 0.9, method=lambda proba: proba.max(axis=1))


def test_what_cannot_be_calibrated_says_so(iris):
    X, y = iris
    for calibrate in (lambda clf: conformal.split(clf, X, y), lambda clf: conformal.cross(clf, X)):
        with pytest.raises(NotFittedError):
            calibrate(OutputCodeClassifier())
        with pytest.raises(ValueError, match="classifier of this library"):
            calibrate(SVC().fit(X, y))
    with pytest.raises(ValueError, match="'zz' is not one of the classes"):
        conformal.split(OutputCodeClassifier().fit(X, y.astype(str)), X[:2], ["zz", "0"])
