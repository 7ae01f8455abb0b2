"""Searches: the answers of GridSearchCV, the bounds of single fits, scikit-learn's conventions."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.datasets import load_iris, load_wine
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, PredefinedSplit, StratifiedKFold, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler, StandardScaler
from sklearn.svm import SVC

from outcode import SPOC, OutputCodeClassifier, SingleBinaryClassifier, loo, selection
from outcode.machines import SVM, CrammerSinger, LeastSquares, SingleBinary
from outcode.selection import GreedySearch, KernelSearchCV, LOOBoundSearch
from outcode.selection.searches import FINALISTS, HASTE
from outcode.selection.trials import Data, Trials

GAMMAS, CS = [0.1, 0.5, 2.0], [0.1, 1.0, 10.0]
FOLDS = StratifiedKFold(4, shuffle=True, random_state=0)
SEARCHES = [LOOBoundSearch, KernelSearchCV, GreedySearch]


@pytest.fixture(scope="module")
def wine():
    X, y = load_wine(return_X_y=True)
    return MinMaxScaler().fit_transform(X)[::2], y[::2]


def classifier(code="ova", machine=None, decoder="linear"):
    machine = SVM(tol=1e-9) if machine is None else machine
    return OutputCodeClassifier(code, machine, decoder, random_state=3, n_jobs=1)


def assert_same_scores(search, grid):
    """Every setting has the scores GridSearchCV gives it."""
    for k, params in enumerate(grid.cv_results_["params"]):
        row = (search.results_["gamma"] == params["machine__gamma"]) & (
            search.results_["C"] == params["machine__C"]
        )
        for split in range(grid.n_splits_):
            here = search.results_[f"split{split}_score"][row]
            np.testing.assert_allclose(here, grid.cv_results_[f"split{split}_test_score"][k])
    np.testing.assert_allclose(search.best_score_, grid.best_score_)


MACHINES = {
    "svm": SVM(tol=1e-9),
    "free": SVM(tol=1e-9, bias="free"),
    "balanced": SVM(tol=1e-9, class_weight="balanced"),
    "poly": SVM("poly", tol=1e-9, coef0=1.0),
    "laplacian": SVM("laplacian", tol=1e-9),
    "ls": LeastSquares(),
}


@pytest.mark.parametrize("code", ["ova", "ovo", "sparse"])
@pytest.mark.parametrize("name", MACHINES)
@pytest.mark.parametrize("decoder", ["hinge", "llw", "likelihood"])
def test_folds_give_the_answers_of_grid_search(wine, code, name, decoder):
    estimator = classifier(code, MACHINES[name], decoder)
    search = KernelSearchCV(estimator, GAMMAS, CS[:2], cv=FOLDS).fit(*wine)
    params = {"machine__gamma": GAMMAS, "machine__C": CS[:2]}
    grid = GridSearchCV(estimator, params, cv=FOLDS, refit=False).fit(*wine)
    assert_same_scores(search, grid)
    assert search.n_splits_ == grid.n_splits_


@pytest.mark.parametrize("tol", [1e-3, 1e-6])
def test_trials_and_the_best_setting_are_as_exact_as_asked_for(wine, tol):
    X, y = wine
    estimator = classifier(machine=SVM(tol=tol))
    trials = Trials(Data(estimator, X, y, np.ones(len(y))), list(FOLDS.split(X, y)))
    trials.accuracies(0.5, CS)
    assert trials.path.solutions.certificate[..., 4].max() <= tol
    best = KernelSearchCV(estimator, GAMMAS, CS, cv=FOLDS).fit(X, y).best_estimator_.machine_
    assert best.solutions_.certificate[..., 4].max() <= tol


def test_the_five_best_of_hasty_trials_are_tried_again(wine, monkeypatch):
    tried, accuracy = [], Trials.accuracy

    def recorded(self, gamma, C):
        row = accuracy(self, gamma, C)
        tried.append((self.haste, gamma, C, row["mean_score"]))
        return row

    monkeypatch.setattr(Trials, "accuracy", recorded)
    estimator = classifier(machine=CrammerSinger(tol=1e-3))
    search = KernelSearchCV(estimator, GAMMAS, CS, cv=FOLDS).fit(*wine)
    hasty, again = tried[:9], tried[9:]
    assert {row[0] for row in hasty} == {HASTE}
    assert {row[0] for row in again} == {1.0}
    assert len(again) == FINALISTS
    left = [row[3] for row in hasty if row[1:3] not in [other[1:3] for other in again]]
    assert max(left) <= min(row[3] for row in hasty if row[3] not in left)
    assert search.best_score_ == max(row[3] for row in again)
    exact = KernelSearchCV(classifier(machine=CrammerSinger(tol=1e-6)), GAMMAS, CS, cv=FOLDS)
    del tried[:]
    exact.fit(*wine)
    assert len(tried) == 9


def test_folds_with_weights(wine):
    X, y = wine
    weight = np.random.RandomState(0).uniform(0.1, 3.0, len(y))
    search = KernelSearchCV(classifier("ovo"), GAMMAS, [1.0], cv=FOLDS).fit(X, y, weight)
    for k, gamma in enumerate(GAMMAS):
        for split, (train, test) in enumerate(FOLDS.split(X, y)):
            clf = classifier("ovo").set_params(machine__gamma=gamma)
            clf.fit(X[train], y[train], weight[train])
            score = clf.score(X[test], y[test], weight[test])
            assert search.results_[f"split{split}_score"][k] == pytest.approx(score)


def test_a_fold_without_a_class(wine):
    X, y = wine
    fold = np.where(y == 2, 0, np.arange(len(y)) % 3)  # class 2 is only ever tested
    cv = PredefinedSplit(fold)
    search = KernelSearchCV(classifier("ovo"), GAMMAS, CS, cv=cv).fit(X, y)
    params = {"machine__gamma": GAMMAS, "machine__C": CS}
    assert_same_scores(search, GridSearchCV(classifier("ovo"), params, cv=cv).fit(X, y))


def test_precomputed_kernel(wine):
    X, y = wine
    K = np.exp(-0.5 * ((X[:, None] - X) ** 2).sum(axis=2))
    estimator = classifier("ovo", SVM("precomputed", tol=1e-9))
    search = KernelSearchCV(estimator, Cs=CS, cv=FOLDS).fit(K, y)
    grid = GridSearchCV(estimator, {"machine__C": CS}, cv=FOLDS).fit(K, y)
    np.testing.assert_allclose(search.results_["mean_score"], grid.cv_results_["mean_test_score"])
    assert set(search.best_params_) == {"machine__C"}
    np.testing.assert_array_equal(search.predict(K), search.best_estimator_.predict(K))


@pytest.mark.parametrize("code", ["ova", "ovo"])
@pytest.mark.parametrize("decoder", ["linear", "likelihood"])
def test_bounds_are_those_of_single_fits(wine, code, decoder):
    estimator = classifier(code, decoder=decoder)
    search = LOOBoundSearch(estimator, GAMMAS, CS).fit(*wine)
    table = search.results_
    for gamma, C, bound in zip(table["gamma"], table["C"], table["bound"], strict=True):
        clf = clone(estimator).set_params(machine__gamma=gamma, machine__C=C).fit(*wine)
        assert loo.bound(clf).error == pytest.approx(bound, abs=1e-12)
    assert search.best_bound_ == table["bound"].min()
    assert search.best_estimator_.machine.gamma == search.best_params_["machine__gamma"]


@pytest.mark.parametrize("code", ["ova", "ovo"])
def test_by_the_sharp_bound_and_by_the_estimate(wine, code):
    X, y = wine
    estimator = classifier(code)
    for by in ("sharp", "estimate"):
        search = LOOBoundSearch(estimator, GAMMAS, CS, by=by).fit(X, y)
        table, best = search.results_, search.best_index_
        values = []
        for gamma, C in zip(table["gamma"], table["C"], strict=True):
            clf = clone(estimator).set_params(machine__gamma=gamma, machine__C=C).fit(X, y)
            held_out = loo.estimate(clf, X)
            whole = (
                loo.sharp_bound(clf, X).error if by == "sharp" else (held_out.margins <= 0).mean()
            )
            values.append(whole)
        assert (table[by] >= np.array(values) - 1e-12).all()  # unfinished ones are too high
        assert search.best_bound_ == pytest.approx(min(values)) == pytest.approx(values[best])
        assert (table[by] <= table["bound"]).all()


def test_a_tie_of_sharp_bounds_goes_to_the_smoother_kernel():
    """Two of 98 rows twice: 2 / 98 * 98 is less than 2 in floating point."""
    rng, y = np.random.RandomState(64), np.arange(98) % 2
    rng.choice(2), rng.choice(5)  # the draws that follow have such a tie
    X = rng.randn(98, 2) + 3.0 * y[:, None]
    estimator = classifier("ovo")
    search = LOOBoundSearch(estimator, [0.01, 0.03, 0.1], CS, by="sharp").fit(X, y)
    values = []
    for gamma, C in zip(search.results_["gamma"], search.results_["C"], strict=True):
        clf = clone(estimator).set_params(machine__gamma=gamma, machine__C=C).fit(X, y)
        values.append(loo.sharp_bound(clf, X).error)
    assert search.best_index_ == np.argmin(values)  # the first of equals
    assert np.isclose(values, min(values)).sum() > 1


def test_by_is_checked(wine):
    with pytest.raises(ValueError, match="by"):
        LOOBoundSearch(classifier(), GAMMAS, by="folds").fit(*wine)
    with pytest.raises(ValueError, match="Unknown by None"):
        LOOBoundSearch(classifier(), GAMMAS, by=None).fit(*wine)
    with pytest.raises(ValueError, match="free bias"):
        LOOBoundSearch(classifier(machine=SVM(bias="free")), GAMMAS, by="sharp").fit(*wine)


@pytest.mark.parametrize("by", ["bound", "sharp", "estimate"])
def test_least_squares_is_searched_by_its_error(wine, by):
    estimator = classifier("ovo", LeastSquares(), "linear")
    search = LOOBoundSearch(estimator, GAMMAS, CS, by=by).fit(*wine)
    assert loo.exact(search.best_estimator_, *wine).error == pytest.approx(search.best_bound_)


def test_default_grid_is_around_the_data(wine):
    X, y = wine
    search = LOOBoundSearch(classifier()).fit(X, y)
    gammas = search.results_["gamma"]
    assert len(gammas) == 11
    np.testing.assert_allclose(gammas[1:] / gammas[:-1], 2.0)
    upper = np.triu_indices(len(X), 1)
    median = np.median(((X[:, None] - X) ** 2).sum(axis=2)[upper])
    np.testing.assert_allclose(gammas[5], 1.0 / median)
    np.testing.assert_allclose(
        selection.median_gamma(X, "laplacian"),
        1.0 / np.median(np.abs(X[:, None] - X).sum(axis=2)[upper]),
    )
    assert selection.median_gamma(np.ones((5, 2))) == 1.0


def test_ties_go_to_the_smoother_kernel(wine):
    X, y = wine
    search = LOOBoundSearch(classifier(), [1e7, 1e6], [0.5, 0.25]).fit(X, y)
    assert np.all(search.results_["bound"] == search.best_bound_)
    assert search.best_params_ == {"machine__gamma": 1e6, "machine__C": 0.25}


def test_greedy_search_walks_by_factors_of_two(wine):
    search = GreedySearch(classifier(), cv=FOLDS, sigma=1.0).fit(*wine)
    sigma, C, score = (search.results_[name] for name in ("sigma", "C", "mean_score"))
    np.testing.assert_allclose(np.log2(sigma), np.round(np.log2(sigma)), atol=1e-12)
    np.testing.assert_allclose(np.log2(C), np.round(np.log2(C)), atol=1e-12)
    width = C == 1.0
    best = sigma[width][np.argmax(score[width])]
    np.testing.assert_allclose(sigma[~width], best)
    assert search.best_score_ == score.max()
    for tried, middle in (
        (sigma[width], best),
        (C[sigma == best], search.best_params_["machine__C"]),
    ):
        assert max(tried) >= 8 * middle * (1 - 1e-12)
        assert min(tried) <= middle / 8 * (1 + 1e-12)
    np.testing.assert_allclose(search.results_["gamma"], 0.5 / sigma**2)


def test_greedy_search_scores_are_cross_validation(wine):
    search = GreedySearch(classifier(), cv=FOLDS, patience=1).fit(*wine)
    best = clone(classifier()).set_params(**search.best_params_)
    assert search.best_score_ == pytest.approx(cross_val_score(best, *wine, cv=FOLDS).mean())


def test_greedy_search_without_a_width(wine):
    search = GreedySearch(classifier(machine=SVM("linear")), cv=FOLDS, patience=1).fit(*wine)
    assert set(search.best_params_) == {"machine__C"}


def test_doubling_stops_after_three_failures():
    tried, to_beat = [], []

    def score(value, beat):
        tried.append(value)
        to_beat.append(beat)
        return {4.0: 2.0, 32.0: 3.0}.get(value, 1.0)

    from outcode.selection.searches import _doubled

    assert _doubled(score, 1.0, 3) == 32.0
    assert tried == [1, 2, 4, 8, 16, 32, 64, 128, 256, 0.5, 0.25, 0.125]
    assert to_beat == [-1, 1, 1, 2, 2, 2, 3, 3, 3, 3, 3, 3]


def test_trials_are_looser_and_silent_and_the_best_setting_is_neither():
    X, y = load_iris(return_X_y=True)
    early = SingleBinaryClassifier("identity", max_iter=5)
    search = GreedySearch(early, cv=3, patience=1, refit=False).fit(X, y)
    with pytest.warns(ConvergenceWarning, match=r"stopped early.*tol=0.001"):
        search.set_params(refit=True).fit(X, y)
    data = selection.trials.Data(early, X, y, np.ones(len(y)))
    assert Trials(data, [])._loosened == {"tol": 0.01, "kernel_tol": 0.01}
    data.estimator = SingleBinaryClassifier(tol=1e-6)
    assert Trials(data, [])._loosened == {}


def test_a_setting_that_cannot_win_is_left_early_and_the_walk_is_the_same(wine, monkeypatch):
    search = GreedySearch(SingleBinaryClassifier("kernel"), cv=5, sigma=1.0).fit(*wine)
    tables = [search.results_]
    whole = Trials.accuracy
    monkeypatch.setattr(Trials, "accuracy", lambda self, gamma, C, beat: whole(self, gamma, C))
    tables.append(clone(search).fit(*wine).results_)
    for name in ("sigma", "C"):
        np.testing.assert_array_equal(tables[0][name], tables[1][name])
    left = np.isnan(tables[0]["split4_score"])
    assert 3 <= left.sum() < len(left)
    few, every = (table["mean_score"] for table in tables)
    np.testing.assert_allclose(few[~left], every[~left], atol=0.01)
    assert np.all(few[left] >= every[left] - 0.01)
    assert np.all(few[left] <= search.best_score_)


@pytest.mark.parametrize("search", SEARCHES)
def test_in_a_pipeline(search):
    X, y = load_iris(return_X_y=True)
    model = make_pipeline(StandardScaler(), search(classifier(decoder="likelihood")))
    model = clone(model).fit(X, np.array(["a", "b", "c"])[y])
    assert model.score(X, np.array(["a", "b", "c"])[y]) > 0.9
    assert list(model.classes_) == ["a", "b", "c"]
    proba = model.predict_proba(X)
    np.testing.assert_array_equal(model.classes_[proba.argmax(axis=1)], model.predict(X))
    assert model.decision_function(X).shape == (150, 3)
    assert not hasattr(search(classifier(decoder="linear")), "predict_proba")


@pytest.mark.parametrize("search", SEARCHES)
def test_tables_pictures_progress(search, wine, capsys):
    pandas = pytest.importorskip("pandas")
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("Agg")
    fitted = search(classifier(), verbose=1, refit=False).fit(*wine)
    assert "settings" in capsys.readouterr().err
    frame = pandas.DataFrame(fitted.results_)
    assert {"gamma", "C", "seconds"} <= set(frame.columns)
    assert fitted.plot().get_ylabel()
    with pytest.raises(AttributeError, match="refit=True"):
        fitted.predict(wine[0])
    matplotlib.pyplot.close("all")


def test_picture_with_several_cs(wine):
    pyplot = pytest.importorskip("matplotlib.pyplot")
    search = LOOBoundSearch(classifier(), GAMMAS, CS).fit(*wine)
    labels = [text.get_text() for text in search.plot().get_legend().get_texts()]
    assert labels == ["C = 0.1", "C = 1", "C = 10"]
    pyplot.close("all")


def test_machine_by_name_and_sparse_rows(wine):
    X, y = wine
    dense = LOOBoundSearch(OutputCodeClassifier(decoder="linear"), GAMMAS).fit(X, y)
    rows = LOOBoundSearch(OutputCodeClassifier(decoder="linear"), GAMMAS).fit(
        sparse.csr_matrix(X), y
    )
    np.testing.assert_allclose(dense.results_["bound"], rows.results_["bound"])
    assert dense.best_params_ == rows.best_params_


@pytest.mark.parametrize("kernel", ["rbf", "laplacian"])
def test_too_little_memory_gives_the_same_answers(wine, kernel):
    n = len(wine[1])
    plenty = LOOBoundSearch(classifier(machine=SVM(kernel, tol=1e-9)), GAMMAS).fit(*wine)
    for share in (1.5, 0.5):  # no room for the distances; no room for the Gram matrix either
        machine = SVM(kernel, tol=1e-9, max_memory=share * 8 * n**2)
        search = LOOBoundSearch(classifier(machine=machine), GAMMAS, refit=False)
        if share < 1:
            with pytest.warns(UserWarning, match="on demand"):
                search.fit(*wine)
        else:
            search.fit(*wine)
        np.testing.assert_allclose(search.results_["bound"], plenty.results_["bound"])


def test_errors_say_what_to_do(wine):
    X, y = wine
    with pytest.raises(ValueError, match="trains on a kernel matrix"):
        LOOBoundSearch(classifier(machine=LogisticRegression())).fit(X, y)
    with pytest.raises(ValueError, match="OutputCodeClassifier"):
        KernelSearchCV(LogisticRegression()).fit(X, y)
    with pytest.raises(ValueError, match="gammas must be a positive"):
        LOOBoundSearch(classifier(), gammas=[-1.0]).fit(X, y)
    with pytest.raises(ValueError, match="Cs is empty"):
        LOOBoundSearch(classifier(), Cs=[]).fit(X, y)
    with pytest.raises(ValueError, match="non-increasing loss"):
        LOOBoundSearch(classifier(decoder="euclidean")).fit(X, y)


@pytest.mark.parametrize(
    "estimator", [SingleBinaryClassifier("identity", folds=None), SVC()], ids=["sbc", "svc"]
)
def test_greedy_search_of_a_classifier_with_gamma_and_C_of_its_own(estimator):
    X, y = load_iris(return_X_y=True)
    X, y = X[::2], y[::2]
    folds = list(StratifiedKFold(3).split(X, y))
    search = GreedySearch(estimator, cv=folds, sigma=1.0, patience=1).fit(X, y)
    table = search.results_
    for j in (0, len(table["C"]) - 1):
        clf = clone(estimator).set_params(gamma=table["gamma"][j], C=table["C"][j])
        scores = [clone(clf).fit(X[a], y[a]).score(X[b], y[b]) for a, b in folds]
        assert table["mean_score"][j] == pytest.approx(np.mean(scores))
    assert set(search.best_params_) == {"gamma", "C"}
    assert search.best_estimator_.get_params()["C"] == search.best_params_["C"]
    assert table["sigma"][0] == pytest.approx(1.0)
    assert search.score(X, y) > 0.9


@pytest.mark.parametrize("decoder", ["softmax", "likelihood"])
@pytest.mark.parametrize(
    "machine",
    [CrammerSinger(tol=1e-8), SingleBinary("identity", class_gamma=0.5, tol=1e-8)],
    ids=["spoc", "sbc"],
)
def test_machines_that_learn_all_classes_are_searched_on_one_gram(wine, machine, decoder):
    estimator = OutputCodeClassifier("ova", machine, decoder)
    search = KernelSearchCV(estimator, GAMMAS, CS[:2], cv=FOLDS).fit(*wine)
    spoc = "beta" in machine.get_params()
    cost = {"machine__beta": [10.0, 1.0]} if spoc else {"machine__C": CS[:2]}
    grid = GridSearchCV(estimator, {"machine__gamma": GAMMAS, **cost}, cv=FOLDS, refit=False)
    grid.fit(*wine)
    found = {
        (p["machine__gamma"], 1.0 / p["machine__beta"] if spoc else p["machine__C"]): score
        for p, score in zip(
            grid.cv_results_["params"], grid.cv_results_["mean_test_score"], strict=True
        )
    }
    table = search.results_
    for gamma, C, score in zip(table["gamma"], table["C"], table["mean_score"], strict=True):
        assert score == pytest.approx(found[gamma, round(C, 12)], abs=1e-9)
    assert search.predict_proba(wine[0]).shape == (len(wine[0]), 3)


def test_the_short_ways_are_searched_too(wine):
    search = KernelSearchCV(SPOC(), GAMMAS, CS, cv=FOLDS).fit(*wine)
    assert set(search.best_params_) == {"gamma", "beta"}
    assert isinstance(search.best_estimator_, SPOC)


def test_a_search_has_the_same_scores_for_any_number_of_threads(wine):
    tables = []
    for n_jobs in (1, 2):
        estimator = OutputCodeClassifier("ovo", SVM(), "likelihood", random_state=3, n_jobs=n_jobs)
        search = KernelSearchCV(estimator, GAMMAS, CS, cv=FOLDS).fit(*wine)
        tables.append({**search.results_, "seconds": None})
    np.testing.assert_equal(*tables)
