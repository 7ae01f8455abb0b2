"""Studies: plans, methods, and what one cell measures."""

from __future__ import annotations

import json
import os
import signal
import time
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.datasets import load_digits, load_iris, load_wine
from sklearn.ensemble import RandomForestClassifier
from sklearn.multiclass import OneVsRestClassifier
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

from outcode import OutputCodeClassifier, codes, decoders, machines, metrics, study
from outcode.app.study import Method, Store, Study, cell, fitted, from_arrays, plan, run, searches
from outcode.machines import SVM
from outcode.selection import LOOBoundSearch

#: What may differ between two runs of the same cell.
VOLATILE = {"fit_seconds", "predict_seconds", "peak_memory"}


class Probe(ClassifierMixin, BaseEstimator):
    """Predicts class 0, and does something while it is fitted."""

    def __init__(self, act="nothing", value=None):
        self.act = act
        self.value = value

    def fit(self, X, y):
        self.classes_ = np.unique(y)
        getattr(self, self.act)()
        return self

    def predict(self, X):
        return np.zeros(len(X), dtype=int)

    def nothing(self):
        pass

    def sleep(self):
        time.sleep(self.value)

    def work(self):
        end = time.monotonic() + self.value
        while time.monotonic() < end:
            np.ones((200, 200)) @ np.ones((200, 200))

    def eat(self):
        kept = []
        for _ in range(self.value):
            kept.append(np.ones(2**17 * 16))  # 16 MB
        time.sleep(30)

    def die(self):
        os.kill(os.getpid(), signal.SIGKILL)

    def die_once(self):
        if not Path(self.value).exists():
            Path(self.value).touch()
            self.die()

    def fail(self):
        raise ValueError("the rows are\nnot to its taste")

    def starve(self):
        raise MemoryError

    def chatter(self):
        print("this goes to standard output")
        os.write(1, b"and so does this")


class Contradicting(GaussianNB):
    """Gives probabilities that are against its predictions."""

    def predict_proba(self, X):
        return super().predict_proba(X)[:, ::-1]


def iris():
    X, y = load_iris(return_X_y=True)
    return from_arrays("iris", X, y)


def plain(*methods, data=None, folds=2, **options):
    return Study(data or iris(), methods, folds=folds, baselines=False, **options)


def probe(act="nothing", value=None):
    return Method(act, Probe(act, value))


def results(study_, **options):
    """Run in this process, and return the records."""
    with Store(":memory:") as kept:
        run(study_, kept, n_jobs=0, **options)
        return kept.records()


def lasting(record):
    """Return what must be the same whenever a cell is run."""
    kept = {k: v for k, v in record.items() if k not in ("started", "seconds")}
    return kept | {"metrics": {k: v for k, v in record["metrics"].items() if k not in VOLATILE}}


# --- the plan ---


def test_folds_are_stratified_shared_and_cover_every_row_once():
    data = from_arrays("wine", *load_wine(return_X_y=True))
    cells = Study(data, ["ova+hinge"], folds=4, repeats=2).cells()
    assert len(cells) == 4 * 2 * (1 + len(study.BASELINES))
    assert [c.method for c in cells[:5]] == ["ova+hinge", *study.BASELINES]
    labels = np.unique(data.y, return_inverse=True)[1]
    for repeat in range(2):
        mine = [c for c in cells if c.repeat == repeat and c.method == "svc"]
        assert sorted(np.concatenate([c.test for c in mine]).tolist()) == list(range(178))
        counts = np.array([np.bincount(labels[c.test], minlength=3) for c in mine])
        assert np.ptp(counts, axis=0).max() <= 1
        assert np.ptp(counts.sum(axis=1)) <= 1
        for c in mine:
            others = [o for o in cells if (o.repeat, o.fold) == (c.repeat, c.fold)]
            assert all(np.array_equal(o.test, c.test) for o in others)
            assert not set(c.train) & set(c.test)
            assert len(c.train) + len(c.test) == 178
    assert not np.array_equal(cells[0].test, next(c for c in cells if c.repeat == 1).test)


@pytest.mark.parametrize("seed", range(5))
def test_tiny_classes_never_vanish_from_training(seed):
    labels = np.repeat(np.arange(5), [1, 2, 3, 4, 20])
    number = plan.deal(labels, 5, np.random.RandomState(seed))
    assert number[0] == -1
    assert set(number[1:].tolist()) == set(range(5))
    for fold in range(5):
        assert set(labels[number != fold]) == set(range(5))


def test_folds_must_have_rows():
    with pytest.raises(ValueError, match=r"folds must be between 2 and .* got 7"):
        plain(probe(), data=from_arrays("few", np.eye(6), list("aaabbb")), folds=7)
    with pytest.raises(ValueError, match="got 1"):
        plain(probe(), folds=1)
    with pytest.raises(ValueError, match="repeats must be at least 1"):
        plain(probe(), repeats=0)


def test_cells_are_ordered_fold_by_fold():
    X, y = load_iris(return_X_y=True)
    data = [from_arrays(name, X, y) for name in "ab"]
    cells = plain(probe(), probe("sleep", 0), data=data).cells()
    places = [(c.fold, c.dataset, c.method) for c in cells]
    assert places == [(f, d, m) for f in range(2) for d in "ab" for m in ("nothing", "sleep")]


def test_keys_change_with_everything_that_decides_a_cell():
    X, y = load_iris(return_X_y=True)
    moved = X.copy()
    moved[7, 2] += 1e-9
    other = np.where(np.arange(150) == 3, 1, y)
    method = Method("m", RandomForestClassifier(5))
    variants = {
        "the same": {},
        "data": {"data": from_arrays("iris", moved, y)},
        "labels": {"data": from_arrays("iris", X, other)},
        "name": {"data": from_arrays("iris2", X, y)},
        "folds": {"folds": 3},
        "seed": {"seed": 1},
        "scale": {"scale": "unit"},
        "no scale": {"scale": None},
    }
    keys = {name: plain(method, **options).keys() for name, options in variants.items()}
    keys["parameter"] = plain(Method("m", RandomForestClassifier(6))).keys()
    keys["method's name"] = plain(Method("n", RandomForestClassifier(5))).keys()
    keys["inner"] = plain(Method("m", make_pipeline(StandardScaler(), SVC(C=2.0)))).keys()
    keys["inner 2"] = plain(Method("m", make_pipeline(StandardScaler(), SVC(C=3.0)))).keys()
    firsts = [found[0] for found in keys.values()]
    assert len(set(firsts)) == len(firsts)
    assert len({key for found in keys.values() for key in found}) == sum(map(len, keys.values()))
    assert plain(method).keys() == keys["the same"]
    assert plain(method, repeats=2).keys()[:2] == keys["the same"]


def test_keys_see_arrays_functions_and_none():
    def described(value):
        return json.dumps(plan.describe_estimator(Probe("nothing", value)))

    values = [None, 0, 1.0, "1.0", np.eye(2), np.eye(2) * 2, np.eye(2, dtype=int), [1], (2, 3)]
    values += [np.sum, np.mean, Probe("sleep", 1), Probe("sleep", 2)]
    assert len({described(value) for value in values}) == len(values)
    big = np.zeros(5000)
    assert described(big) != described(np.where(np.arange(5000) == 2500, 1e-12, big))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"methods": ["ova"]}, "names a code only.*'ova\\+hinge'"),
        ({"methods": ["hinge"]}, "names a decoder only.*'ova\\+hinge'"),
        ({"methods": ["ovvo+hinge"]}, "Unknown code 'ovvo'. Did you mean 'ovo'"),
        ({"methods": ["ovo+likelyhood"]}, "Did you mean 'likelihood'"),
        ({"methods": ["ovo+hinge+svn"]}, "Unknown machine 'svn'. Did you mean 'svm'"),
        ({"methods": ["spok"]}, "Did you mean 'spoc'.*'code\\+decoder"),
        ({"methods": ["svc", "svc"]}, "Two methods have the name 'svc'"),
        ({"datasets": [iris(), iris()]}, "Two data sets have the name 'iris'"),
        ({"datasets": []}, "needs data sets"),
        ({"datasets": from_arrays("one", np.eye(3), list("aaa"))}, "one class only"),
        ({"scale": "unitt"}, "Did you mean 'unit'"),
        ({"measure": "eror"}, "Did you mean 'error'"),
        ({"splits": "owm"}, "Did you mean 'own'"),
        ({"splits": "own"}, "iris has no split of its own"),
    ],
)
def test_a_wrong_study_is_refused(options, message):
    with pytest.raises(ValueError, match=message):
        Study(**({"datasets": iris(), "methods": ["svc"]} | options))


def test_meta_describes_the_study():
    X, y = load_iris(return_X_y=True)
    X[3, 1] = np.nan
    meta = Study(from_arrays("iris", X, y), ["ova+hinge"], folds=3).meta("outcode compare iris")
    assert json.loads(json.dumps(meta, allow_nan=False)) == meta
    assert {"schema", "title", "command", "created", "seed", "folds", "repeats"} <= meta.keys()
    assert {"scale", "measure", "machine", "versions"} <= meta.keys()
    (data,) = meta["datasets"]
    assert data["n_rows"] == 150
    assert data["n_columns"] == 4
    assert data["n_features"] == 4  # one missing cell informs of nothing: no indicator
    assert data["missing"] == 1
    assert data["classes"] == ["0", "1", "2"]
    assert data["counts"] == [50, 50, 50]
    assert [m["name"] for m in meta["methods"]] == ["ova+hinge", *study.BASELINES]
    assert [m["baseline"] for m in meta["methods"]] == [False] + [True] * len(study.BASELINES)
    assert "GammaSearchCV" in meta["methods"][0]["estimator"]


# --- methods ---


@pytest.mark.parametrize("name", ["quick", "standard", "full"])
def test_presets_hold_all_baselines_and_can_be_built(name):
    found = study.preset(name, 1000, 6)
    names = [method.name for method in found]
    assert len(set(names)) == len(names)
    assert [method.name for method in found if method.baseline] == list(study.BASELINES)
    assert all(method.title for method in found)
    for method in found:
        fitted.seeded(method.estimator, 0).get_params()


def test_every_code_decoder_and_machine_has_a_name():
    full = {part for m in study.preset("full", 100, 4) for part in m.name.split("+")}
    assert set(decoders.DECODERS) <= full
    assert set(machines.MACHINES) - {"svm"} <= full
    for code in codes.CODES:
        assert study.methods([f"{code}+hinge"])[0].name == f"{code}+hinge"


def test_titles_say_what_is_searched():
    names = ["ova+hinge", "ova+drm", "svc", "spoc", "random-forest"]
    titles = {m.name: m.title for m in study.methods(names)}
    for name in ("ova+hinge", "ova+drm", "svc", "spoc"):  # the same search for all
        assert "gamma of 5 and C of 1, 10, 100 by 3 folds" in titles[name]
    assert "beta = 1/C" in titles["spoc"]
    assert "500 trees" in titles["random-forest"]
    (bound,) = study.methods(["ova+hinge"], "bound")
    assert "leave-one-out bound" in bound.title


CODED = ["ovo+likelihood", "ova+drm", "decoc+hinge", "forest+hinge", "ecocone+hinge", "jecoc+hinge"]
BUILT = [f"ova+hinge+{machine}" for machine in machines.MACHINES]


IRIS = [name for name in study.METHODS if name != "landmarks"]  # which choose on more rows


@pytest.mark.parametrize("name", [*IRIS, *CODED, *BUILT])
def test_quick_methods_learn_iris(name):
    (method,) = study.methods([name], "quick")
    (first, *_) = results(plain(method, folds=3))
    assert first["status"] == "ok", first["reason"]
    assert first["metrics"]["error"] <= 0.1
    if name in ("random-forest", "hist-boosting"):
        return
    assert first["metrics"]["support_vectors"] > 0
    assert any(key.endswith("gamma") for key in first["parameters"])


def test_landmarks_learn_digits():
    X, y = load_digits(return_X_y=True)
    (method,) = study.methods(["landmarks"], "quick")
    (first, *_) = results(plain(method, data=from_arrays("digits", X, y), folds=3, first=1))
    assert first["status"] == "ok", first["reason"]
    assert first["metrics"]["error"] <= 0.05


def test_the_machines_bound_chooses_as_linear_decoding_does():
    X, y = load_wine(return_X_y=True)
    X = StandardScaler().fit_transform(X)
    drm = study.methods(["ova+drm"], "bound")[0].estimator.fit(X, y)
    linear = LOOBoundSearch(OutputCodeClassifier("ova", SVM(C=10.0), "linear")).fit(X, y)
    assert drm.best_params_ == linear.best_params_
    np.testing.assert_array_equal(drm.results_["bound"], linear.results_["bound"])
    assert type(drm.best_estimator_.decoder_) is decoders.DynamicReliability


@pytest.mark.filterwarnings("ignore:The tolerance was met")
@pytest.mark.parametrize("name", ["svc", "ova+hinge"])
def test_gamma_search_agrees_with_a_grid_search(name):
    from sklearn.model_selection import GridSearchCV, StratifiedKFold

    X, y = load_wine(return_X_y=True)
    X = StandardScaler().fit_transform(X)
    (method,) = study.methods([name])
    found = method.estimator.set_params(random_state=3).fit(X, y)
    folds = StratifiedKFold(3, shuffle=True, random_state=3)
    names = method.estimator.gamma, method.estimator.cost
    grid = {n: np.unique(found.results_[k]) for n, k in zip(names, ("gamma", "C"), strict=True)}
    oracle = GridSearchCV(method.estimator.estimator, grid, cv=folds).fit(X, y)
    tried = oracle.cv_results_
    for gamma, C, score in zip(*found.results_.values(), strict=True):
        at = np.isclose(tried[f"param_{names[0]}"].astype(float), gamma)
        at &= np.isclose(tried[f"param_{names[1]}"].astype(float), C)
        assert score == pytest.approx(tried["mean_test_score"][at][0], abs=1e-12)


def test_the_grid_grows_where_its_best_is_an_edge():
    rng = np.random.RandomState(0)
    X = rng.uniform(-1, 1, size=(300, 2))
    y = (np.sin(6 * X[:, 0]) * np.sin(6 * X[:, 1]) > 0).astype(int)  # a chessboard: narrow kernels
    search = searches.GammaSearchCV(SVC(), factors=(2.0, 4.0), costs=(1.0, 10.0), random_state=0)
    found = search.fit(X, y)
    edge = 4.0 * searches.median_gamma(X)
    assert found.best_params_["gamma"] >= 2 * edge
    assert found.best_score_ > found.results_["mean_score"][found.results_["gamma"] <= edge].max()
    level = searches.GammaSearchCV(SVC(), factors=(1e-9, 1e-8), costs=(1.0,), random_state=0)
    assert len(level.fit(X, y).results_["gamma"]) == 2  # equal scores: nothing to follow


def test_sorted_files_are_tuned_on_shuffled_folds():
    rng = np.random.RandomState(0)
    y = np.repeat([0, 1], 90)
    centre = np.r_[np.repeat([0.0, 4.0, 8.0], 30), np.repeat([2.0, 6.0, 10.0], 30)]
    X = np.c_[centre + 0.2 * rng.randn(180), rng.randn(180)]  # a third of a class is a cluster
    search = searches.GammaSearchCV(SVC(), factors=(1.0, 4.0, 16.0, 64.0), random_state=0)
    assert search.fit(X, y).best_score_ > 0.9  # folds in the order of the file: about a third


# --- cells ---


@pytest.fixture(scope="module")
def codes_records():
    methods = [*study.methods(["ovo+likelihood", "ova+hinge"]), Method("nb", GaussianNB())]
    return results(plain(*methods, folds=3))


def test_a_record_holds_what_is_agreed(codes_records):
    record = codes_records[0]
    assert json.loads(json.dumps(record, allow_nan=False)) == record
    assert record.keys() == cell.blank(plain(probe()).cells()[0]).keys()
    assert set(record["metrics"]) == {*metrics.METRICS, "n_train", "n_test"}
    assert record["status"] == "ok"
    assert record["reason"] is None
    assert record["parameters"].keys() == {"machine__gamma", "machine__C"}
    details, values = record["details"], record["metrics"]
    truth, predicted = np.array(details["labels"]), np.array(details["predicted"])
    y = load_iris(return_X_y=True)[1]
    np.testing.assert_array_equal(truth, y[details["rows"]])
    assert values["error"] == np.mean(truth != predicted)
    assert values["n_test"] == len(truth) == 50
    assert values["n_train"] == 100
    assert values["log_loss"] > 0
    assert sum(details["reliability"]["count"]) == 50
    assert len(details["path"]["gamma"]) == len(details["path"]["bound"]) >= 5
    assert details["path"]["by"] == "folds"
    assert np.array(details["code"]).shape == (3, 3)
    assert values["peak_memory"] > 2**20
    assert record["versions"].keys() >= {"outcode", "numpy", "scikit-learn", "numba", "python"}


def test_the_code_is_kept_once(codes_records):
    assert ["code" in r["details"] for r in codes_records] == [True, True, *[False] * 7]


def test_without_probabilities_there_is_no_log_loss(codes_records):
    hinge, bayes = codes_records[1], codes_records[2]
    assert hinge["metrics"]["log_loss"] is None
    assert "reliability" not in hinge["details"]
    assert bayes["metrics"]["log_loss"] > 0
    assert bayes["metrics"]["support_vectors"] is None
    assert bayes["parameters"] == {}
    assert "columns" not in bayes["details"]


def test_columns_and_bit_errors_are_counted_by_hand():
    X, y = load_iris(return_X_y=True)
    clf = OutputCodeClassifier("ovo", SVM(C=0.05), "hinge").fit(X, y)
    found, margins = fitted.columns(clf, X, y), clf.margins(X)
    wrong = [[clf.code_[q, s] * f[s] <= 0 and clf.code_[q, s] != 0 for s in range(3)]
             for q, f in zip(y, margins, strict=True)]  # fmt: skip
    for s in range(3):
        used = [i for i in range(150) if clf.code_[y[i], s]]
        assert found["columns"]["error"][s] == sum(wrong[i][s] for i in used) / len(used)
        assert found["columns"]["positives"][s] == 0.5
    tally = [sum(row) for row in wrong]
    assert found["bit_errors"] == [tally.count(n) for n in range(max(tally) + 1)]
    assert sum(found["columns"]["error"]) > 0


def test_preprocessing_sees_the_training_rows_only():
    X, y = load_iris(return_X_y=True)
    X[0, 0] = 1e6  # as a training row it would squash the first feature
    study_ = plain(Method("nb", GaussianNB()), data=from_arrays("iris", X, y), folds=3)
    tests_it = next(c for c in study_.cells() if 0 in c.test)
    record = cell.run_cell(tests_it, study_.rows["iris"])
    scaler = StandardScaler().fit(X[tests_it.train])
    oracle = GaussianNB().fit(scaler.transform(X[tests_it.train]), y[tests_it.train])
    expected = oracle.predict(scaler.transform(X[tests_it.test]))
    assert record["details"]["predicted"] == expected.tolist()


def test_support_vectors_are_pooled():
    X, y = load_iris(return_X_y=True)
    ours = OutputCodeClassifier("ova", SVM(), "hinge").fit(X, y)
    bank = OutputCodeClassifier("ovo", SVC(), "hinge").fit(X, y)
    rest = OneVsRestClassifier(SVC()).fit(X, y)
    union = {int(i) for part in rest.estimators_ for i in part.support_}
    rows = [np.flatnonzero(bank.code_[y, s]) for s in range(3)]
    pairs = zip(rows, bank.machine_.estimators_, strict=True)
    of_bank = {int(i) for used, part in pairs for i in used[part.support_]}
    assert fitted.support_vectors(ours) == len(ours.machine_.support_)
    assert fitted.support_vectors(SVC().fit(X, y)) == len(SVC().fit(X, y).support_)
    assert fitted.support_vectors(rest) == len(union)
    assert fitted.support_vectors(bank) == len(of_bank)
    assert fitted.support_vectors(make_pipeline(StandardScaler(), SVC()).fit(X, y)) > 0
    assert fitted.support_vectors(GaussianNB().fit(X, y)) is None


def test_probabilities_that_contradict_are_left_out():
    (record, _) = results(plain(Method("odd", Contradicting())))
    assert record["status"] == "ok"
    assert record["metrics"]["log_loss"] is None
    assert "contradict the predictions" in record["details"]["warnings"][0]


def test_what_cannot_be_is_skipped_with_its_reason():
    X = np.random.RandomState(0).randn(64, 2)
    data = from_arrays("sixteen", X, np.arange(64) % 16)
    names = ["ova+ddag", "ova+coupling", "exhaustive+hinge"]
    records = results(plain(*study.methods(names, "quick"), data=data))
    assert [r["status"] for r in records] == ["skipped"] * 6
    reasons = [r["reason"] for r in records[:3]]
    assert "use code='ovo'" in reasons[0]
    assert "bradley-terry" in reasons[1]
    assert "exhaustive code for 16 classes" in reasons[2]
    assert records[0]["metrics"]["error"] is None
    assert records[0]["metrics"]["n_test"] == 32


def test_only_pairwise_decoders_are_impossible_on_other_codes():
    for code in ("ova", "ovo", "dense"):
        found = {
            decoder
            for decoder in decoders.DECODERS
            if cell.impossible(OutputCodeClassifier(code, "svm", decoder), 5)
        }
        assert found == (set() if code == "ovo" else {"coupling", "ddag"})
    assert cell.impossible(OutputCodeClassifier("decoc"), 5) is None
    assert cell.impossible(SVC(), 5) is None


def test_an_error_is_a_record():
    failed, starved = results(plain(probe("fail"), probe("starve"), folds=2))[:2]
    assert (failed["status"], failed["reason"]) == ("failed", "the rows are not to its taste")
    assert starved["status"] == "memory"
    assert "Memory ran out" in starved["reason"]


def test_warnings_are_kept_each_once():
    X, y = load_iris(return_X_y=True)
    method = Method("early", OutputCodeClassifier("ova", SVM(max_iter=3), "hinge"))
    record = results(plain(method, data=from_arrays("iris", X, y)))[0]
    assert len(record["details"]["warnings"]) == 1
    assert "stopped early" in record["details"]["warnings"][0]


def test_the_own_split_is_one_fold():
    X, y = load_iris(return_X_y=True)
    split = np.where(np.arange(150) % 3 == 0, "test", "train")
    method = Method("nb", GaussianNB())
    data = from_arrays("iris", X, y, split)
    (record,) = results(plain(method, data=data, splits="own"))
    assert record["details"]["rows"] == list(range(0, 150, 3))
    gone = from_arrays("iris", X, y, np.where(y == 2, "test", "train"))
    (record,) = results(plain(method, data=gone, splits="own"))
    assert record["status"] == "skipped"
    assert "class '2'" in record["reason"]


@pytest.mark.filterwarnings("ignore:The tolerance was met")
def test_facts_are_said():
    X, y = load_iris(return_X_y=True)
    clf = study.methods(["ovo+hinge"])[0].estimator.fit(X, y)
    lines = study.facts(clf)
    assert lines[0].startswith("Chosen: gamma = ")
    assert "Code: 3 classes, 3 columns" in lines
    assert any(line.startswith("Support vectors: ") for line in lines)


def test_seeded_reaches_inner_estimators_and_keeps_given_seeds():
    outer = OneVsRestClassifier(RandomForestClassifier())
    found = study.seeded(outer, 7, n_jobs=1).get_params()
    assert found["estimator__random_state"] == 7
    assert found["estimator__n_jobs"] == found["n_jobs"] == 1
    assert outer.estimator.random_state is None
    kept = study.seeded(RandomForestClassifier(random_state=3), 7)
    assert kept.random_state == 3


def test_the_first_fold_tells_the_test_error_of_each_width():
    X, y = load_wine(return_X_y=True)
    data = from_arrays("wine", X, y)
    given = study.methods(["ova+hinge"], "bound")
    first, second = results(Study(data, given, folds=2, baselines=False))
    path = first["details"]["path"]
    assert len(path["error"]) == len(path["gamma"]) == 11
    at = int(np.argmin(path["bound"]))
    assert path["error"][at] == pytest.approx(first["metrics"]["error"])
    assert "error" not in second["details"]["path"]


class SlowStart(OutputCodeClassifier):
    """Takes its time once in a process, as what has to be compiled does."""

    started = False

    def fit(self, X, y, sample_weight=None):
        if not SlowStart.started:
            time.sleep(0.6)
            SlowStart.started = True
        return super().fit(X, y, sample_weight)


SlowStart.__module__ = "outcode.slow"


def test_a_search_of_more_than_the_width_has_no_path():
    tried = {"gamma": np.array([0.1, 0.2]), "C": np.ones(2)}
    of = partial(SimpleNamespace, best_index_=0)
    by_width = fitted.width_path(of(results_={**tried, "mean_score": np.array([0.5, 1.0])}))
    assert by_width == {"gamma": [0.1, 0.2], "bound": [0.5, 0.0], "by": "folds"}
    assert (
        fitted.width_path(of(results_={**tried, "accuracy": np.ones(2)})) is None
    )  # the tuned one


def test_a_slow_first_fit_is_in_no_time(monkeypatch):
    monkeypatch.setattr(SlowStart, "started", False)
    records = results(plain(Method("slow", SlowStart()), folds=3))
    assert SlowStart.started
    assert max(record["metrics"]["fit_seconds"] for record in records) < 0.5
    assert max(record["seconds"] for record in records) < 0.6
