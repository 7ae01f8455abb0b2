"""The classifier on blocks of rows: files, lists, functions and Dask collections."""

import warnings

import numpy as np
import pytest

import outcode.classifier
from outcode import OutputCodeClassifier, OutputCodeClassifierCV, codes, persistence, streaming
from outcode.machines import Nystrom
from outcode.scale import sources
from outcode.selection import tuned

NAMES = np.array(["ant", "bee", "cow", "dog"])


@pytest.fixture(scope="module")
def data():
    rng = np.random.RandomState(0)
    labels = rng.randint(4, size=1500)
    X = rng.randn(1500, 5)
    X[:, 0] += 2.0 * labels
    return X, NAMES[labels]


def blocks(X, y, rows=200):
    return [(X[i : i + rows], y[i : i + rows]) for i in range(0, len(X), rows)]


def classifier(code="ova", decoder="hinge", **params):
    return OutputCodeClassifier(code, Nystrom(80, **params), decoder, random_state=0)


@pytest.mark.parametrize("loss", ["least_squares", "squared_hinge"])
@pytest.mark.parametrize("code", ["ova", "ovo"])
def test_blocks_give_the_margins_of_arrays(data, loss, code):
    X, y = data
    whole = classifier(code, loss=loss, certified=True, tol=1e-12, max_passes=300).fit(X, y)
    parts = classifier(code, loss=loss, certified=True, tol=1e-12, max_passes=300)
    parts.fit(blocks(X, y))
    assert parts.classes_.tolist() == whole.classes_.tolist()
    assert np.array_equal(parts.code_, whole.code_)
    np.testing.assert_allclose(parts.margins(X), whole.margins(X), atol=1e-4)
    assert parts.n_features_in_ == 5


@pytest.mark.parametrize("decoder", ["likelihood", "softmax", "llw", "hamming"])
@pytest.mark.parametrize("loss", ["least_squares", "squared_hinge"])
def test_decoders_are_fitted_on_a_sample(data, decoder, loss):
    X, y = data
    whole = classifier("ovo", decoder, loss=loss).fit(X, y)
    parts = classifier("ovo", decoder, loss=loss).fit(lambda: iter(blocks(X, y)))
    assert abs(parts.score(X, y) - whole.score(X, y)) < 0.03
    if hasattr(parts, "predict_proba"):
        difference = np.abs(parts.predict_proba(X) - whole.predict_proba(X))
        assert difference.mean() < 0.02


def test_a_sample_is_held_out_in_one_part_when_it_is_small(data, monkeypatch):
    X, y = data
    monkeypatch.setattr(streaming, "SAMPLE_ROWS", 300)
    clf = classifier("ova", "likelihood", loss="least_squares").fit(blocks(X, y))
    margins, part = clf.rule_.held_out[3]
    assert len(margins) <= 310
    assert not part.any()
    assert clf.score(X, y) > 0.7
    # those margins are not the ones of the machine that saw the sample
    assert not np.allclose(margins, clf.margins(X[: len(margins)]))


def test_the_only_row_of_a_class_is_never_held_out(data):
    X, y = data
    X, y = np.vstack([X, [[30.0, 0, 0, 0, 0]]]), np.append(y, "eel")
    clf = classifier("ova", "likelihood", loss="least_squares").fit(blocks(X, y))
    assert clf.predict(X[-1:]).tolist() == ["eel"]


def test_class_weights_count_in_blocks(data):
    X, y = data
    weights = {"ant": 3.0, "bee": 1.0, "cow": 0.5, "dog": 1.0}
    for class_weight in (weights, "balanced"):
        params = {"loss": "least_squares", "class_weight": class_weight, "gamma": 0.1}
        whole, parts = classifier(**params).fit(X, y), classifier(**params).fit(blocks(X, y))
        np.testing.assert_allclose(parts.margins(X), whole.margins(X), atol=1e-6)


def test_weights_in_blocks_are_those_of_rows(data):
    X, y = data
    weight = np.random.RandomState(1).uniform(0.5, 2.0, len(X))
    given = [(a, b, weight[i * 200 : i * 200 + 200]) for i, (a, b) in enumerate(blocks(X, y))]
    params = {"loss": "least_squares", "gamma": 0.1}
    whole = classifier(**params).fit(X, y, sample_weight=weight)
    np.testing.assert_allclose(
        classifier(**params).fit(given).margins(X), whole.margins(X), atol=1e-6
    )
    with pytest.raises(ValueError, match="belong to the blocks"):
        classifier().fit(blocks(X, y), sample_weight=weight)


def write(path, X, y):
    rows = [",".join([*map(repr, map(float, row)), label]) for row, label in zip(X, y, strict=True)]
    path.write_text("\n".join(["a,b,c,d,e,species", *rows]) + "\n")


def test_files_are_trained_on_and_predicted(data, tmp_path):
    X, y = data
    for i in range(3):
        write(tmp_path / f"{i}.csv", X[500 * i : 500 * i + 500], y[500 * i : 500 * i + 500])
    clf = classifier("ova", "likelihood", loss="least_squares")
    clf.fit(tmp_path, "species", checkpoint=tmp_path / "kept")
    assert clf.feature_names_in_.tolist() == list("abcde")
    assert len(list((tmp_path / "kept").iterdir())) >= 2
    found = clf.predict(str(tmp_path / "*.csv"))
    assert np.mean(found == y) > 0.7
    np.testing.assert_array_equal(clf.predict_proba([tmp_path / "0.csv"]).argmax(axis=1),
                                  np.searchsorted(NAMES, found[:500]))  # fmt: skip


def test_one_class_other_machines_and_labels_apart_are_errors(data):
    X, y = data
    with pytest.raises(ValueError, match="only one class"):
        classifier().fit([(X[:100], np.full(100, "ant"))])
    with pytest.raises(ValueError, match="use machine='nystrom'"):
        OutputCodeClassifier("ova", "svm").fit(blocks(X, y))
    with pytest.raises(ValueError, match="leave y out"):
        classifier().fit(blocks(X, y), y)
    with pytest.raises(sources.BlockError, match="Block 1 has 3 columns, but the first has 5"):
        classifier().fit([(X[:100], y[:100]), (X[100:200, :3], y[100:200])])


def test_rows_are_learned_and_forgotten(data):
    X, y = data
    clf = classifier(loss="least_squares").partial_fit(X[:1000], y[:1000])
    before, sums = clf.margins(X), clf.machine_.statistics_.gram.copy()
    clf.partial_fit(X[1000:], y[1000:])
    assert np.abs(clf.margins(X) - before).max() > 1e-3
    clf.forget(X[1000:], y[1000:])
    assert np.abs(clf.machine_.statistics_.gram - sums).max() <= 1e-10 * np.abs(sums).max()
    np.testing.assert_allclose(clf.margins(X), before, atol=1e-8)
    with pytest.raises(ValueError, match="was not in the first training"):
        clf.partial_fit(X[:2], ["ant", "yak"])
    assert not hasattr(OutputCodeClassifier("ova", "svm"), "partial_fit")
    assert not hasattr(classifier(loss="logistic"), "partial_fit")
    with pytest.raises(AttributeError, match="forget"):
        OutputCodeClassifier("ova", "svm").fit(X, y).forget(X, y)
    with pytest.raises(ValueError, match="'yak' is missing"):
        classifier(loss="least_squares").partial_fit(X, y, classes=[*NAMES, "yak"])


def test_a_model_comes_back_from_its_file(data, tmp_path):
    pytest.importorskip("safetensors", reason="model files need outcode[app]")
    X, y = data
    clf = classifier("ovo", "likelihood").fit(blocks(X, y))
    persistence.save(clf, tmp_path / "model.outcode")
    again = persistence.load(tmp_path / "model.outcode")
    assert np.array_equal(again.predict_proba(X), clf.predict_proba(X))


def test_similar_codewords_for_many_classes_by_name():
    rng = np.random.RandomState(0)
    means = np.repeat(rng.randn(20, 6) * 3, 6, axis=0) + rng.randn(120, 6)
    labels = np.repeat(np.arange(120), 8)
    X = means[labels] + 0.1 * rng.randn(len(labels), 6)
    clf = OutputCodeClassifier("similar", Nystrom(300, C=100.0), random_state=0).fit(X, labels)
    assert clf.code_.shape == (120, 70)
    assert clf.score(X, labels) > 0.9
    with pytest.raises(ValueError, match="learned from the data"):
        codes.code_matrix("similar", 120)


# --- many rows in memory ---


def test_many_rows_for_an_exact_machine_are_warned_of(data, monkeypatch):
    monkeypatch.setattr(outcode.classifier, "EXACT_ROWS", 100)
    with pytest.warns(UserWarning, match=r"outcode\.machines\.Nystrom"):
        OutputCodeClassifier().fit(*data)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        OutputCodeClassifier(machine=Nystrom(50, gamma=0.05)).fit(*data)


def test_the_tuned_classifier_trains_many_rows_on_landmarks(data, monkeypatch):
    monkeypatch.setattr(tuned, "EXACT_ROWS", 100)
    X, y = data
    clf = OutputCodeClassifierCV(kernels="rbf", random_state=0).fit(X, y)
    assert clf.best_params_["machine"] == "nystrom"
    assert np.mean(clf.predict(X) != y) < 0.26  # the classes overlap
    assert np.allclose(clf.predict_proba(X).sum(axis=1), 1.0)


# --- what people give ---


def frames(*labels):
    """One file per kind of label, the same rows."""
    import pandas as pd

    rng = np.random.RandomState(0)
    place = rng.randint(2, size=60)
    rows = {"a": rng.randn(60) + 3 * place, "b": rng.randn(60)}
    return [pd.DataFrame({**rows, "s": np.asarray(names)[place]}) for names in labels]


def test_labels_that_do_not_go_together_are_named(tmp_path):
    pytest.importorskip("pyarrow")
    for i, frame in enumerate(frames([0, 1], ["x", "y"])):
        frame.to_parquet(tmp_path / f"{i}.parquet")
    with pytest.raises(sources.BlockError, match=r"text in .*1\.parquet, block 1 \(x\)"):
        classifier().fit(str(tmp_path / "*.parquet"), "s")
    for i, frame in enumerate(frames([0, 1], [0.0, 1.0])):
        frame.to_csv(tmp_path / f"{i}.csv", index=False)
    with pytest.raises(sources.BlockError, match=r"'0' and '0\.0' are one number"):
        classifier().fit(str(tmp_path / "*.csv"), "s")


def test_dates_are_no_numbers_and_semicolons_separate(tmp_path):
    import pandas as pd

    pytest.importorskip("pyarrow")
    (frame,) = frames(["x", "y"])
    frame.assign(b=pd.Timestamp("2020-01-01")).to_parquet(tmp_path / "d.parquet")
    with pytest.raises(sources.BlockError, match="column 'b' holds dates, not numbers"):
        classifier().fit(str(tmp_path / "d.parquet"), "s")
    frame.to_csv(tmp_path / "d.csv", index=False, sep=";")
    clf = classifier().fit(str(tmp_path / "d.csv"), "s")
    assert clf.classes_.tolist() == ["x", "y"]


def test_generators_are_refused_and_lists_of_rows_are_predicted(data):
    X, y = data
    with pytest.raises(ValueError, match="read only once"):
        classifier().fit(block for block in blocks(X, y))
    clf = classifier().fit(blocks(X, y))
    assert np.array_equal(clf.predict([X[:7], X[7:10]]), clf.predict(X[:10]))


def test_another_target_does_not_take_the_work_of_the_first(tmp_path):
    (frame,) = frames([0, 1])
    path, kept = str(tmp_path / "d.csv"), tmp_path / "kept"
    frame.assign(t=(frame["b"] > 0) + 2).to_csv(path, index=False)
    assert classifier().fit(path, "s", checkpoint=kept).classes_.tolist() == ["0", "1"]
    assert classifier().fit(path, "t", checkpoint=kept).classes_.tolist() == ["2", "3"]
