"""Costs, abstaining and the risk-coverage curve."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import load_iris, make_classification
from sklearn.exceptions import NotFittedError
from sklearn.neighbors import KNeighborsClassifier

from outcode import OutputCodeClassifier, conformal, decisions
from outcode.displays import RiskCoverageDisplay

MISS = [[0, 1, 1], [1, 0, 1], [1, 20, 0]]


@pytest.fixture(scope="module")
def iris():
    return load_iris(return_X_y=True)


@pytest.fixture(scope="module")
def hard():
    return make_classification(
        3000, 6, n_informative=4, n_redundant=0, n_classes=3, class_sep=1.0, random_state=1
    )


@pytest.fixture(scope="module")
def clf(hard):
    X, y = hard
    return OutputCodeClassifier("ova", "ls", "softmax").fit(X[:600], y[:600])


def drawn(rng, n=20_000, k=4):
    """Return true probabilities and classes drawn from them."""
    proba = rng.dirichlet(np.full(k, 0.25), size=n)
    return proba, (rng.random((n, 1)) > np.cumsum(proba, axis=1)).sum(axis=1).clip(0, k - 1)


# --- costs ---


def test_named_costs():
    assert decisions.cost_matrix("squared", 3).tolist() == [[0, 1, 4], [1, 0, 1], [4, 1, 0]]
    assert decisions.cost_matrix("zero_one", 2).tolist() == [[0, 1], [1, 0]]


@pytest.mark.parametrize("seed", range(5))
def test_no_decision_costs_less_when_probabilities_are_true(seed):
    rng = np.random.default_rng(seed)
    proba, labels = drawn(rng)
    cost = rng.exponential(size=(4, 4)) * (1 - np.eye(4))
    expected = decisions.expected_costs(proba, cost)
    rows, best, usual = np.arange(len(labels)), expected.argmin(axis=1), proba.argmax(axis=1)
    assert np.all(expected[rows, best] <= expected[rows, usual])
    paid, before = cost[labels, best].mean(), cost[labels, usual].mean()
    assert paid < before
    assert paid == pytest.approx(expected[rows, best].mean(), rel=0.05)


def test_zero_one_cost_is_the_largest_probability_and_absolute_the_median(iris):
    X, y = iris
    clf = OutputCodeClassifier("ovo", "svm", "likelihood").fit(X, y)
    assert np.array_equal(clf.with_cost("zero_one").predict(X), clf.predict(X))
    median = (np.cumsum(clf.predict_proba(X), axis=1) < 0.5).sum(axis=1)
    assert np.array_equal(clf.with_cost("absolute").predict(X), median)


def test_costs_are_lower_on_test_rows(hard, clf):
    X, y = hard
    said = clf.with_cost(MISS).predict(X[600:]), clf.predict(X[600:])
    paid, before = (decisions.mean_cost(y[600:], one, MISS, clf.classes_) for one in said)
    assert paid < 0.9 * before
    assert np.array_equal(decisions.predict(clf, X[600:], MISS), said[0])


@pytest.mark.parametrize("train", [False, True])
def test_a_cost_sensitive_classifier_trains_and_clones(hard, train):
    X, y = hard
    names = np.array(["a", "b", "c"])[y]
    base = OutputCodeClassifier("ova", "ls", "softmax")
    clf = clone(decisions.CostSensitive(base, MISS, train=train)).fit(X[:600], names[:600])
    plain = clone(base).fit(X[:600], names[:600])
    proba = clf.predict_proba(X[600:])
    assert proba.sum(axis=1) == pytest.approx(1.0)
    paid, before = (
        decisions.mean_cost(names[600:], one.predict(X[600:]), MISS, clf.classes_)
        for one in (clf, plain)
    )
    assert paid < before
    # the weights are taken off again: the classes keep their shares
    assert proba.mean(axis=0) == pytest.approx(np.bincount(y[600:]) / len(y[600:]), abs=0.08)


def test_class_weights_for_training(iris):
    X, y = iris
    weights = decisions.class_weights(MISS, np.unique(y))
    assert weights == pytest.approx({0: 2 / 25 * 3, 1: 2 / 25 * 3, 2: 21 / 25 * 3})
    OutputCodeClassifier("ova", "svm").set_params(machine__class_weight=weights).fit(X, y)
    with pytest.raises(ValueError, match="cost nothing"):
        decisions.class_weights([[0, 0], [1, 0]], [0, 1])


@pytest.mark.parametrize(
    ("cost", "message"),
    [
        ("abs", "Did you mean"),
        ([[0, 1], [1, 0]], r"\(3, 3\)"),
        (np.full((3, 3), np.nan), "NaN"),
        (-np.eye(3), "at least 0"),
        (None, r"\(3, 3\)"),
    ],
)
def test_bad_costs(iris, cost, message):
    X, y = iris
    clf = OutputCodeClassifier("ova", "ls", "softmax").fit(X, y)
    with pytest.raises(ValueError, match=message):
        clf.with_cost(cost)


def test_costs_need_probabilities(iris):
    X, y = iris
    with pytest.raises(ValueError, match="predicts probabilities"):
        OutputCodeClassifier("ova").fit(X, y).with_cost("absolute")


def test_an_unfitted_classifier_says_so(iris):
    X, y = iris
    with pytest.raises(NotFittedError):
        decisions.CostSensitive(OutputCodeClassifier()).predict(X)
    with pytest.raises(NotFittedError):
        decisions.abstaining(OutputCodeClassifier(), 0.1)
    with pytest.raises(NotFittedError):
        decisions.abstaining(OutputCodeClassifier(), 0.1, X=X, y=y)


# --- abstaining ---


@pytest.mark.parametrize("by", ["margin", "probability", "absolute"])
def test_the_error_holds_with_the_chosen_confidence(by):
    rng, failed = np.random.default_rng(0), 0
    proba, labels = drawn(rng)
    said, sure = decisions.decided(proba, by)
    wrong = said != labels
    whole = decisions.curve(sure, wrong)
    answered = []
    for _ in range(300):
        some = rng.choice(len(labels), 1500, replace=False)
        T, share, error, bound = decisions.fit_threshold(sure[some], wrong[some], 0.15, 0.9)
        assert error <= bound <= 0.15
        above = np.searchsorted(-whole.threshold, -T, side="left") - 1
        failed += whole.error[above] > 0.15
        answered.append(share)
    assert failed <= 0.1 * 300
    assert np.mean(answered) > 0.2


def test_without_confidence_the_error_of_the_rows_themselves_holds(hard, clf):
    X, y = hard
    with_limit = decisions.abstaining(clf, 0.2, confidence=0.9)
    plain = decisions.abstaining(clf, 0.2, confidence=None)
    assert plain.error <= 0.2
    assert np.isnan(plain.bound)
    assert plain.share > with_limit.share
    labels, answered = with_limit.decide(X[600:])
    assert (labels != y[600:])[answered].mean() <= 0.2
    assert 0.3 < answered.mean() < 1.0


def test_all_rows_are_answered_where_the_error_is_low_and_none_where_it_cannot_be(hard, clf):
    X, _ = hard
    assert decisions.abstaining(clf, 0.9).decide(X)[1].all()
    with pytest.warns(UserWarning, match="no row is answered"):
        none = decisions.abstaining(clf, 1e-4)
    assert not none.decide(X)[1].any()
    assert set(none.predict(X[:5], refused="?")) == {"?"}


def test_any_classifier_with_rows_of_its_own(hard):
    X, y = hard
    model = KNeighborsClassifier(25).fit(X[:600], y[:600])
    found = decisions.abstaining(model, 0.2, "probability", X=X[600:1800], y=y[600:1800])
    labels, answered = found.decide(X[1800:])
    assert (labels != y[1800:])[answered].mean() <= 0.2
    predicted = found.predict(X[1800:])
    assert np.array_equal([one is None for one in predicted], ~answered)


def test_scores_allow_the_margin_alone(hard):
    X, y = hard
    plain = OutputCodeClassifier("ova", "svm", "hinge").fit(X[:300], y[:300])
    with pytest.raises(ValueError, match=r"conformal\.split"):
        decisions.abstaining(plain, 0.2)
    plain = conformal.split(plain, X[300:900], y[300:900])
    assert decisions.abstaining(plain, 0.3).share > 0
    with pytest.raises(ValueError, match="by='margin'"):
        decisions.abstaining(plain, 0.3, "probability")


@pytest.mark.parametrize("error", [0.0, 1.0, -0.1, True])
def test_the_error_is_a_share(clf, error):
    with pytest.raises(ValueError, match="between 0 and 1"):
        decisions.abstaining(clf, error)


# --- the curve ---


def test_the_curve_by_counting(hard, clf):
    X, y = hard
    found = decisions.risk_coverage(clf, X[600:], y[600:])
    assert found.coverage[-1] == 1.0
    assert found.error[-1] == pytest.approx(1 - clf.score(X[600:], y[600:]))
    labels, sure = decisions.decided(clf.predict_proba(X[600:]))
    for point in (10, 500, 2000):
        answered = sure >= found.threshold[point]
        assert answered.mean() == pytest.approx(found.coverage[point])
        assert (labels != y[600:])[answered].mean() == pytest.approx(found.error[point])
    assert found.area < found.error[-1]


def test_the_display(hard, clf):
    X, y = hard
    display = RiskCoverageDisplay.from_estimator(clf, X[600:], y[600:], by="probability")
    assert list(display.frame()) == ["coverage", "error", "threshold"]
    assert "error of all rows" in display.plot().ax_.get_title(loc="left")


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda clf, X, y: decisions.abstaining(clf, "0.1"), "error must lie between 0 and 1"),
        (lambda clf, X, y: decisions.abstaining(clf, None), "error must lie between 0 and 1"),
        (lambda clf, X, y: decisions.abstaining(clf, 0.1, confidence="x"), "confidence must lie"),
        (lambda clf, X, y: decisions.abstaining(clf, 0.1, X=X), "X and y go together"),
        (lambda clf, X, y: decisions.abstaining(clf, 0.1, y=y), "X and y go together"),
        (lambda clf, X, y: decisions.abstaining(clf, 0.1, X=X[:5], y=y[:4]), "X has 5 rows"),
        (lambda clf, X, y: decisions.risk_coverage(clf, X[:5], y[:4]), "X has 5 rows"),
        (
            lambda clf, X, y: decisions.mean_cost(y[:5], y[:4], "absolute", clf.classes_),
            "y has 5 rows, but predicted has 4",
        ),
        (lambda clf, X, y: decisions.cost_matrix([[0, 1], [1]], 2), "matrix of numbers"),
        (lambda clf, X, y: decisions.expected_costs(np.ones(2), "absolute"), "n_samples"),
        (lambda clf, X, y: clf.predict_set(X, coverage="0.9"), "coverage must lie"),
        (lambda clf, X, y: clf.predict_set(X, coverage=None), "coverage must lie"),
    ],
)
def test_bad_arguments_are_named(iris, call, message):
    X, y = iris
    clf = OutputCodeClassifier("ovo", "ls", "likelihood").fit(X, y)
    with pytest.raises(ValueError, match=message):
        call(clf, X, y)
