"""Explanations add up, flips are the fewest, gradients equal finite differences."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pandas
import pytest
from sklearn.datasets import load_iris, make_classification
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression

from outcode import OutputCodeClassifier, explain, load, save
from outcode.capabilities import HasTerms, can
from outcode.decoders import DECODERS, LossBased, Softmax, resolve
from outcode.machines import SVM

SUMS = [
    "normalised",
    *("hamming", "linear", "hinge", "logistic", "squared", "llw"),
    *("likelihood", "softmax", "srm", "drm", "continuous", "shared"),
]


@pytest.fixture(scope="module")
def data():
    return make_classification(
        120, 5, n_informative=4, n_redundant=0, n_classes=4, class_sep=0.9, random_state=0
    )


@pytest.fixture(scope="module")
def machine(data):
    X, y = data
    return OutputCodeClassifier("dense", "svm", "hinge", random_state=0).fit(X, y)


def with_sums():
    return [name for name in DECODERS if can(resolve(name), HasTerms)]


def test_the_decoders_that_explain():
    assert set(with_sums()) == set(SUMS)


@pytest.mark.parametrize("name", with_sums())
def test_terms_add_up_to_the_scores(data, machine, name):
    X, _ = data
    clf = machine.with_decoder(name, X)
    for i in range(0, 120, 17):
        why = clf.explain(X[i])
        assert why.terms.sum(axis=1) == pytest.approx(why.scores, abs=1e-9, rel=0)
        assert np.array_equal(why.scores, clf.decision_function(X[i : i + 1])[0])
        assert why.predicted == clf.predict(X[i : i + 1])[0]
        assert why.lead.sum() >= -1e-9


@pytest.mark.parametrize("inner", [LossBased("logistic"), LossBased("exponential")])
def test_softmax_explains_if_the_decoder_within_does(data, machine, inner):
    X, _ = data
    clf = machine.with_decoder(Softmax(3, inner), X)
    if inner.loss == "exponential":
        with pytest.raises(ValueError, match="sum over columns"):
            clf.explain(X[0])
    else:
        assert clf.explain(X[0]).terms.sum(axis=1) == pytest.approx(clf.explain(X[0]).scores)


@pytest.mark.parametrize("name", sorted(set(DECODERS) - set(SUMS) - {"ddag", "coupling"}))
def test_others_say_that_they_cannot(data, machine, name):
    X, _ = data
    with pytest.raises(ValueError, match="sum over columns"):
        machine.with_decoder(name, X).explain(X[0])


@pytest.mark.parametrize("name", ["hamming", "hinge", "likelihood", "softmax", "llw", "drm"])
def test_flips_are_the_fewest_that_change_the_decision(data, name):
    X, y = data
    clf = OutputCodeClassifier("ovo", "svm", "hinge").fit(X, y).with_decoder(name, X)
    for i in range(0, 120, 13):
        rows, why = X[i : i + 1], clf.explain(X[i])
        margins, winner = clf.margins(rows), clf.predict(rows)[0]
        fewest = fewest_flips(clf, margins, rows, winner)
        assert len(why.flips) == fewest
        turned = margins.copy()
        turned[:, why.flips] *= -1
        assert clf.rule_.predict(turned, rows)[0] == why.flipped != winner


def fewest_flips(clf, margins, rows, winner):
    """Return the size of the smallest set of columns that changes the decision, by trying all."""
    n = margins.shape[1]
    for size in range(1, n + 1):
        for columns in combinations(range(n), size):
            turned = margins.copy()
            turned[:, columns] *= -1
            if clf.rule_.predict(turned, rows)[0] != winner:
                return size
    return 0


def test_pulls_add_up_to_the_margins(data, machine):
    X, _ = data
    support, added = machine.machine_.pulls(X[3:4])
    total = added.sum(axis=0) + machine.machine_.bias_
    assert total == pytest.approx(machine.margins(X[3:4])[0], rel=1e-9)
    why = machine.explain(X[3])
    first, second = (machine.code_[q].astype(float) for q in why.order[:2])
    pull = dict(zip(support, added @ (first - second) / 2, strict=True))
    assert [pull[row] for row in why.support] == pytest.approx(why.pull)
    assert np.abs(why.pull).min() >= sorted(np.abs(list(pull.values())))[-10] - 1e-12


def test_accuracy_of_columns(data):
    X, y = data
    clf = OutputCodeClassifier("ovo", "svm", "likelihood").fit(X, y)
    why, targets = clf.explain(X[0]), clf.code_[y]
    right = [
        (clf.margins(X)[:, s] * targets[:, s] > 0)[targets[:, s] != 0].mean() for s in range(6)
    ]
    assert why.accuracy == pytest.approx(right)
    assert np.all(why.held_out_accuracy < 1.0)


def test_text_frame_and_picture(data, machine):
    X, _ = data
    names = np.array(["$x$", "b", "c", "d"])
    clf = OutputCodeClassifier("dense", "svm", "likelihood", random_state=0)
    why = clf.fit(X, names[data[1]]).explain(X[5])
    assert f"Predicted {why.predicted}" in str(why)
    assert "held out" in str(why)
    frame = why.frame()
    assert frame["for b"].sum() == pytest.approx(why.scores[1])
    assert frame["flip"].sum() == len(why.flips)
    ax = why.plot()
    ax.figure.draw_without_rendering()
    assert len(ax.patches) == min(20, len(why.margins))


def test_a_machine_without_support_rows_and_a_loaded_model(data, tmp_path):
    X, y = data
    why = OutputCodeClassifier("ova", LogisticRegression(), "hinge").fit(X, y).explain(X[0])
    assert len(why.support) == 0
    assert "Support rows" not in str(why)
    clf = OutputCodeClassifier("ovo", "svm", "likelihood").fit(X, y)
    save(clf, tmp_path / "m.oc")
    again = load(tmp_path / "m.oc").explain(X[0])
    assert np.isnan(again.accuracy).all()
    assert np.array_equal(again.terms, clf.explain(X[0]).terms)


def test_one_row_at_a_time(data, machine):
    X, _ = data
    for wrong in (X[:2], 3.0, "abc", X[None, :1]):
        with pytest.raises(ValueError, match="takes one row"):
            machine.explain(wrong)


def test_a_row_of_a_data_frame_keeps_its_column_names(data):
    X, y = data
    frame = pandas.DataFrame(X, columns=[f"c{j}" for j in range(X.shape[1])])
    clf = OutputCodeClassifier("ova", "ls", "hinge").fit(frame, y)
    why = clf.explain(frame.iloc[0])  # a warning about names would be an error here
    assert np.array_equal(why.terms, clf.explain(frame.iloc[[0]]).terms)
    with pytest.raises(ValueError, match="feature names"):
        clf.explain(frame.iloc[0][::-1])


@pytest.mark.parametrize("function", [explain.explain, explain.gradients, explain.deciding_columns])
def test_classifiers_that_cannot_be_explained_say_so(data, function):
    X, y = data
    with pytest.raises(NotFittedError):
        function(OutputCodeClassifier(), X[:1])
    with pytest.raises(ValueError, match="classifier of this library"):
        function(LogisticRegression().fit(X, y), X[:1])


# --- gradients ---


def differences(function, x, step=1e-5):
    """Return central differences of a function of one row, (n_values, n_features)."""
    out = []
    for j in range(len(x)):
        move = np.zeros(len(x))
        move[j] = step
        out.append((function((x + move)[None]) - function((x - move)[None]))[0] / (2 * step))
    return np.array(out).T


KERNELS = ["rbf", "linear", "poly", "laplacian", "exponential", "sigmoid"]


@pytest.mark.filterwarnings("ignore:The tolerance was met")
@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize(
    "decoder", ["softmax", "likelihood", "logistic", "squared", "continuous", "shared"]
)
def test_gradients_are_finite_differences(data, kernel, decoder):
    X, y = data
    machine = SVM(kernel, gamma=0.1, coef0=0.5)
    clf = OutputCodeClassifier("ova", machine, decoder).fit(X, y)
    rows = X[:3] + 0.01  # beside the rows where the Laplacian kernel has corners
    found = explain.gradients(clf, rows)
    for x, gradient in zip(rows, found, strict=True):
        expected = differences(clf.decision_function, x)
        assert gradient == pytest.approx(expected, rel=1e-4, abs=1e-6 * np.abs(expected).max())
    assert explain.feature_influence(clf, rows) == pytest.approx(np.abs(found).mean(axis=0))


@pytest.mark.filterwarnings("ignore:The tolerance was met")
def test_sparse_rows_have_the_same_gradients(data):
    from scipy import sparse

    X, y = data
    for kernel in KERNELS:
        dense, thin = (
            OutputCodeClassifier("ova", SVM(kernel, gamma=0.1), "softmax").fit(Z, y)
            for Z in (X, sparse.csr_matrix(X))
        )
        expected = explain.gradients(dense, X[:2] + 0.01)
        found = explain.gradients(thin, sparse.csr_matrix(X[:2] + 0.01))
        assert found == pytest.approx(expected, rel=1e-3, abs=1e-3 * np.abs(expected).max())


def test_no_gradient_says_why(data):
    X, y = data
    clf = OutputCodeClassifier("ova", SVM(lambda A, B: A @ B.T), "softmax").fit(X, y)
    with pytest.raises(ValueError, match="knows its derivative"):
        explain.gradients(clf, X)
    with pytest.raises(ValueError, match="derivatives of its scores"):
        explain.gradients(OutputCodeClassifier("ova", "svm", "hamming").fit(X, y), X)
    bank = OutputCodeClassifier("ova", LogisticRegression(), "hinge").fit(X, y)
    with pytest.raises(ValueError, match="derivatives of its margins"):
        explain.gradients(bank, X)


def test_columns_that_decide_between_two_classes():
    X, y = load_iris(return_X_y=True)
    clf = OutputCodeClassifier("ovo", "svm", "hamming").fit(X, y)
    found = explain.deciding_columns(clf, X)
    assert found.shape == (3, 3, 3)
    assert np.isnan(found[0, 0]).all()
    # one column opposes two classes in one-vs-one: turning it around is what it takes
    opposing = [s for s in range(3) if clf.code_[1, s] * clf.code_[2, s] == -1]
    assert found[1, 2, opposing[0]] == 1.0
