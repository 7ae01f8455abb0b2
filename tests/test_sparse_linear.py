"""The l1 forms of [LZCX16] Eq. 1, and the width searched with the lambdas of joint machines."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest
from scipy import sparse
from scipy.optimize import minimize
from scipy.spatial.distance import pdist
from sklearn.base import clone
from sklearn.datasets import load_iris
from sklearn.model_selection import GridSearchCV, StratifiedKFold
from sklearn.preprocessing import scale

from outcode import OutputCodeClassifier, folds, persistence
from outcode.codes import code_matrix
from outcode.machines import Joint, SparseLinear
from outcode.selection import JointSearchCV, KernelSearchCV, bandwidth_gammas

X, Y = load_iris(return_X_y=True)
X = scale(X)


def objective(loss, w, b, rows, t, mass, lambda1):
    z = t * (rows @ w + b)
    each = np.maximum(0.0, 1.0 - z) if loss == "hinge" else (1.0 - z) ** 2
    return mass @ each / mass.sum() + lambda1 * np.abs(w).sum()


@pytest.mark.parametrize("code", ["ova", "ovo"])
@pytest.mark.parametrize("loss", ["hinge", "squared"])
@pytest.mark.parametrize("lambda1", [1e-3, 0.03, 10.0])
def test_no_other_weights_have_a_smaller_objective(loss, lambda1, code):
    """Against a generic solver on the smooth form with w = p - q, and random steps."""
    targets = code_matrix(code, 3)[Y]
    weight = np.random.RandomState(0).uniform(0.5, 2.0, len(Y))
    machine = SparseLinear(loss, lambda1).fit(X, targets, weight)
    rng = np.random.RandomState(1)
    for s in range(3):
        used = targets[:, s] != 0
        args = X[used], targets[used, s], weight[used], lambda1
        w, b = machine.coef_[:, s], machine.bias_[s]
        found = objective(loss, w, b, *args)
        assert machine.objective_[s] == pytest.approx(found, rel=1e-6)
        assert machine.gap_[s] <= 1e-4
        for size in (1e-4, 1e-2, 1.0):
            for _ in range(50):
                step = size * rng.randn(5)
                assert objective(loss, w + step[:4], b + step[4], *args) >= found * (1 - 1e-4)
        if loss == "squared":

            def split(v, args=args):
                return objective("squared", v[:4] - v[4:8], v[8], *args[:3], 0.0) + (
                    lambda1 * v[:8].sum()
                )

            box = [(0, None)] * 8 + [(None, None)]
            start, options = np.ones(9), {"maxfun": 10**6, "maxiter": 10**5}
            for _ in range(3):  # it stops where differences of the objective are lost in rounding
                given = {"bounds": box, "method": "L-BFGS-B", "tol": 1e-14, "options": options}
                best = minimize(split, start, **given)
                start = best.x
            assert found == pytest.approx(best.fun, rel=1e-4)
    if lambda1 == 10.0:
        assert not machine.coef_.any()


def test_it_is_a_machine_like_any_other(tmp_path):
    clf = OutputCodeClassifier("ovo", SparseLinear("squared", 0.05), "likelihood").fit(X, Y)
    assert (clf.machine_.coef_ == 0).any()
    assert clf.score(X, Y) > 0.9
    targets, fold = clf.code_[clf.labels_], folds.content_folds(X, Y, 3)
    held_out = clf.machine_.held_out_margins(X, targets, fold)
    again = SparseLinear("squared", 0.05).fit(X[fold != 1], targets[fold != 1])
    np.testing.assert_allclose(held_out[fold == 1], again.margins(X[fold == 1]), atol=1e-4)
    persistence.save(clf, tmp_path / "model")
    np.testing.assert_array_equal(persistence.load(tmp_path / "model").margins(X), clf.margins(X))
    rows = clone(clf).fit(sparse.csr_matrix(X), Y)
    np.testing.assert_allclose(rows.margins(sparse.csr_matrix(X)), clf.margins(X), atol=1e-3)
    assert "column" in str(clf.explain(X[0]))
    with pytest.raises(ValueError, match=r"Unknown loss 'hinges'\. Did you mean 'hinge'"):
        OutputCodeClassifier("ova", SparseLinear("hinges")).fit(X, Y)


@pytest.mark.parametrize("code", ["ova", "ovo"])
def test_the_width_is_searched_as_a_grid_search_would(code):
    clf = OutputCodeClassifier(code, Joint(tol=1e-6, max_iter=5000), "linear")
    lambdas, gammas = [1e-4, 1e-2], [0.01, 0.1, 1.0]
    split = list(StratifiedKFold(3, shuffle=True, random_state=0).split(X, Y))
    search = JointSearchCV(clf, lambdas, lambdas, gammas=gammas, cv=split).fit(X, Y)
    grid = {
        "machine__lambda1": lambdas,
        "machine__lambda2": lambdas,
        "machine__gamma": gammas,
    }
    other = GridSearchCV(clf, grid, cv=split).fit(X, Y)
    ours = {
        (row["lambda1"], row["lambda2"], row["gamma"]): row["mean_score"]
        for row in (
            {name: values[k] for name, values in search.results_.items()} for k in range(12)
        )
    }
    for params, score in zip(
        other.cv_results_["params"], other.cv_results_["mean_test_score"], strict=True
    ):
        key = tuple(params[f"machine__{name}"] for name in ("lambda1", "lambda2", "gamma"))
        assert ours[key] == pytest.approx(score, abs=1e-12)
    assert search.best_score_ == pytest.approx(other.best_score_)
    assert sorted(search.best_params_) == sorted(grid)
    assert search.best_estimator_.machine.gamma in gammas
    search.plot()


def test_the_papers_bandwidths():
    sigma = pdist(X).mean()
    gammas = bandwidth_gammas(X)
    assert len(gammas) == 7
    np.testing.assert_allclose(gammas[3], 0.5 / sigma**2, rtol=1e-9)
    np.testing.assert_allclose(gammas[0] / gammas[3], 1e6)
    alone = JointSearchCV(OutputCodeClassifier("ova", Joint(kernel="linear")), [1e-2], [1e-2])
    assert "machine__gamma" not in alone.fit(X, Y).best_params_


def test_gammas_may_be_a_function_of_the_training_rows():
    gammas = bandwidth_gammas(X, [0.5, 1.0])
    clf = OutputCodeClassifier("ova", Joint(), "linear")
    args = clf, [1e-3], [1e-3]
    by_rows = JointSearchCV(*args, gammas=partial(bandwidth_gammas, factors=[0.5, 1.0]), cv=3)
    by_values = JointSearchCV(*args, gammas=gammas, cv=3)
    np.testing.assert_array_equal(by_rows.fit(X, Y).results_["gamma"], np.sort(gammas))
    assert by_rows.best_score_ == by_values.fit(X, Y).best_score_
    apart = KernelSearchCV(OutputCodeClassifier(), bandwidth_gammas, cv=3).fit(X, Y)
    np.testing.assert_allclose(apart.results_["gamma"], np.sort(bandwidth_gammas(X)))
