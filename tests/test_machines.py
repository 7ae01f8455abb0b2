"""The contract of machines: every one in the table keeps it, and twenty lines are enough."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import load_iris

from outcode import OutputCodeClassifier, capabilities, codes, folds, training
from outcode.capabilities import can, require
from outcode.machines import MACHINES, SVM, Machine, SingleBinary

X, Y = load_iris(return_X_y=True)
X, Y = X[::3], Y[::3]
CODE = codes.code_matrix("ova", 3)
TARGETS = CODE[Y]
OPTIONS = {
    "svm": {"tol": 1e-8},
    "spoc": {"tol": 1e-9},
    "sbc": {"extension": "identity", "tol": 1e-9},
    "kessler": {"tol": 1e-9},
    "ww": {"tol": 1e-9},
    "jcl": {"tol": 1e-8, "max_iter": 5000},
}


class Toy(Machine):
    """The mean of the rows on either side: a whole machine."""

    def fit(self, X, targets, sample_weight=None, *, n_jobs=None, verbose=0):
        weight = np.ones(len(X)) if sample_weight is None else np.asarray(sample_weight)
        sides = [weight[:, None] * (targets == sign) for sign in (1, -1)]
        plus, minus = (X.T @ side / side.sum(axis=0) for side in sides)
        self.coef_, self.bias_ = plus - minus, (minus**2 - plus**2).sum(axis=0) / 2
        self.training_margins_ = self.margins(X)
        return self

    def margins(self, X):
        return X @ self.coef_ + self.bias_

    def held_out_margins(self, X, targets, fold, sample_weight=None, **threads):
        weight = np.ones(len(X)) if sample_weight is None else sample_weight
        out = self.training_margins_.copy()
        for f in np.unique(fold[fold >= 0]):
            kept = clone(self).fit(X, targets, np.where(fold == f, 0.0, weight))
            out[fold == f] = kept.margins(X[fold == f])
        return out


def made(name):
    kind = Toy if name == "toy" else MACHINES[name]
    params = kind().get_params()
    options = {key: value for key, value in OPTIONS.get(name, {}).items() if key in params}
    return kind(**options, **({"gamma": 0.5} if "gamma" in params else {}))


EVERY = [*MACHINES, "toy"]


@pytest.mark.parametrize("name", EVERY)
def test_fit_gives_margins_of_the_training_rows_and_of_new_ones(name):
    machine = made(name).fit(X, TARGETS)
    assert machine.margins(X).shape == TARGETS.shape
    np.testing.assert_allclose(machine.training_margins_, machine.margins(X), atol=1e-5)


@pytest.mark.parametrize("name", EVERY)
def test_a_weight_of_two_is_a_row_twice(name):
    weight = np.random.RandomState(0).randint(1, 3, size=len(X)).astype(float)
    again = np.repeat(np.arange(len(X)), weight.astype(int))
    weighted = made(name).fit(X, TARGETS, weight)
    repeated = made(name).fit(X[again], TARGETS[again])
    np.testing.assert_allclose(weighted.margins(X), repeated.margins(X), atol=1e-4)


@pytest.mark.parametrize("name", EVERY)
def test_held_out_margins_are_those_of_a_machine_without_the_fold(name):
    machine, fold = made(name), folds.content_folds(X, Y, 3)
    on_gram = can(machine, capabilities.TrainsOnGram)
    source = machine.gram(X, TARGETS) if on_gram else X
    fitted = machine.fit_gram(source, TARGETS) if on_gram else machine.fit(X, TARGETS)
    held_out = fitted.held_out_margins(source, TARGETS, fold)
    if name in ("sbc", "nystrom"):  # class kernel and landmarks are those of all rows
        assert held_out.shape == TARGETS.shape
        return
    for f in range(3):
        again = made(name).fit(X, TARGETS, (fold != f).astype(float))
        np.testing.assert_allclose(held_out[fold == f], again.margins(X[fold == f]), atol=1e-4)


@pytest.mark.parametrize("name", EVERY)
def test_every_machine_goes_through_the_flow_with_probabilities(name):
    clf = OutputCodeClassifier("ova", made(name), "likelihood").fit(X, Y)
    proba = clf.predict_proba(X)
    np.testing.assert_allclose(proba.sum(axis=1), 1.0)
    np.testing.assert_array_equal(proba.argmax(axis=1), clf.predict(X))
    assert clf.score(X, Y) > 0.8
    if "gap_" in vars(clf.machine_):
        assert np.all(clf.rule_.certificate.gap >= 0)


def test_a_part_is_training_on_its_rows_alone():
    machine, rows = SVM(gamma=0.5, tol=1e-9), np.arange(0, len(X), 2)
    whole = OutputCodeClassifier("ova", machine).fit(X, Y).posed(X)
    rule = training.train(
        whole.part(rows), clone(machine), OutputCodeClassifier().fit(X, Y).decoder_
    )
    alone = OutputCodeClassifier("ova", machine).fit(X[rows], Y[rows])
    np.testing.assert_allclose(rule.machine.margins(X), alone.margins(X), atol=1e-6)


def test_a_missing_capability_is_named_with_a_remedy():
    toy = Toy()
    assert not can(toy, capabilities.TrainsOnGram)
    with pytest.raises(
        ValueError, match=r"A search needs .* kernel matrix .* Toy has no gram.*use"
    ):
        require(toy, capabilities.TrainsOnGram, "A search")
    for protocol, (what, remedy) in capabilities.WORDS.items():
        assert what
        assert remedy
        assert capabilities.members(protocol)


def test_single_binary_learns_any_code_without_zeros():
    code = codes.code_matrix("exhaustive", 3)
    clf = OutputCodeClassifier(code, SingleBinary("single"), "euclidean").fit(X, Y)
    assert clf.margins(X).shape == (len(X), code.shape[1])
