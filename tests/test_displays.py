"""Displays: their numbers against plain loops, and pictures that any label leaves whole."""

from __future__ import annotations

import io
import itertools

import matplotlib as mpl
import numpy as np
import pandas as pd
import pytest
from matplotlib import pyplot as plt
from matplotlib.text import Text
from sklearn.datasets import load_iris
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

from outcode import OutputCodeClassifier, codes, dichotomies, displays, metrics, statistics
from outcode.decoders import Hamming
from outcode.machines import SVM
from outcode.selection import LOOBoundSearch

mpl.use("Agg")

X, Y = load_iris(return_X_y=True)
HOSTILE = np.array(["$\\frac", "<b> & $x$ " + "very " * 20 + "long", "two\nlines _{ ^ \\"])
NAMES = HOSTILE[Y]
TRAIN, TEST = slice(0, None, 2), slice(1, None, 2)
CLF = OutputCodeClassifier("ovo", decoder="likelihood", random_state=0).fit(X[TRAIN], NAMES[TRAIN])


@pytest.fixture(autouse=True)
def closed():
    yield
    plt.close("all")


def record(**details):
    base = {"dataset": "iris", "method": "ovo", "status": "ok", "metrics": {"error": 0.1}}
    return {**base, "details": details}


RECORDS = [
    record(
        labels=[0, 1, 2, 2],
        predicted=[0, 1, 1, 2],
        reliability={
            "count": [0, 4],
            "confidence": [None, 0.8],
            "accuracy": [None, 0.75],
        },
        code=codes.code_matrix("ovo", 3).tolist(),
        columns={"error": [0.0, 0.5, 0.25], "positives": [0.5, 0.5, 0.25]},
        bit_errors=[3, 1],
        path={"gamma": [1.0, 0.1], "bound": [0.4, 0.3]},
    ),
    record(
        labels=[0, 0],
        predicted=[2, 0],
        reliability={"count": [1, 1], "confidence": [0.4, 1.0], "accuracy": [0.0, 1.0]},
        columns={"error": [0.5, 0.5, 0.75], "positives": [0.5, 0.5, 0.75]},
        bit_errors=[1, 0, 1],
        path={"gamma": [2.0, 0.2], "bound": [0.1, 0.2]},
    ),
    {**record(), "status": "failed", "details": {}},
]

FROM_ESTIMATOR = [
    displays.CodeDisplay,
    displays.ColumnDisplay,
    displays.BitErrorDisplay,
    displays.ConfusionDisplay,
    displays.ReliabilityDisplay,
    displays.RelationDisplay,
]
FROM_RECORDS = [
    displays.CodeDisplay,
    displays.ColumnDisplay,
    displays.BitErrorDisplay,
    displays.ConfusionDisplay,
    displays.ReliabilityDisplay,
    displays.BoundPathDisplay,
]


def drawn(display):
    """Draw into a file and return every text of the picture."""
    assert display.plot() is display
    assert display.figure_ is display.ax_.figure
    display.figure_.savefig(io.BytesIO(), format="svg")
    return [text for text in display.figure_.findobj(Text) if text.get_text()]


# --- pictures ---


@pytest.mark.parametrize("kind", FROM_ESTIMATOR)
def test_a_fitted_classifier_is_drawn_with_any_label(kind):
    display = kind.from_estimator(CLF, X[TEST], NAMES[TEST])
    for text in drawn(display):
        assert not ("$" in text.get_text() and text.get_parse_math()), text.get_text()
    assert isinstance(display.frame(), pd.DataFrame)


@pytest.mark.parametrize("kind", FROM_RECORDS)
def test_records_are_drawn(kind):
    display = kind.from_records(RECORDS, method="ovo")
    drawn(display)
    assert len(display.frame())


@pytest.mark.parametrize("kind", FROM_ESTIMATOR)
def test_twenty_six_classes_and_given_axes(kind):
    rng = np.random.RandomState(0)
    y = np.arange(260) % 26
    rows = rng.randn(260, 2) + np.column_stack([y % 5, y // 5]) * 3
    letters = np.array([chr(65 + i) * (1 + 30 * (i % 7 == 0)) for i in range(26)])[y]
    clf = OutputCodeClassifier("ova", decoder="likelihood", random_state=0).fit(rows, letters)
    figure, ax = plt.subplots()
    display = kind.from_estimator(clf, rows, letters).plot(ax)
    assert display.ax_ is ax
    figure.canvas.draw()
    longest = max(len(text.get_text()) for text in ax.findobj(Text))
    assert longest < 60


def test_labels_of_the_ticks_are_whole_or_cut():
    texts = [text.get_text() for text in drawn(displays.CodeDisplay.from_estimator(CLF))]
    assert "$\\frac" in texts
    assert "two lines _{ ^ \\" in texts
    assert any(text.endswith("…") and len(text) == 24 for text in texts)


@pytest.mark.parametrize("wrapped", ["search", "pipeline"])
def test_searches_and_pipelines_are_looked_into(wrapped):
    clf = OutputCodeClassifier("ova", decoder="linear")
    model = LOOBoundSearch(clf) if wrapped == "search" else make_pipeline(StandardScaler(), clf)
    model.fit(X[TRAIN], NAMES[TRAIN])
    for kind in (displays.ColumnDisplay, displays.ConfusionDisplay, displays.RelationDisplay):
        assert drawn(kind.from_estimator(model, X[TEST], NAMES[TEST]))


# --- numbers ---


def test_code_and_the_distance_of_its_rows():
    display = displays.CodeDisplay.from_estimator(CLF)
    assert display.frame().to_numpy().tolist() == CLF.code_.tolist()
    assert display.frame().index.tolist() == sorted(HOSTILE)
    assert display.distances().tolist() == [2.0, 2.0, 2.0]
    kept = displays.CodeDisplay.from_records(RECORDS, class_names=["a", "b", "c"])
    assert kept.frame().index.tolist() == ["a", "b", "c"]


def column_loop(clf, rows, y):
    """Error and share of +1 of each column, and wrong columns of each row, one at a time."""
    margins, place = clf.margins(rows), {c: q for q, c in enumerate(clf.classes_.tolist())}
    n_columns = clf.code_.shape[1]
    used, wrong, plus, bits = [0] * n_columns, [0] * n_columns, [0] * n_columns, []
    for f, label in zip(margins, y.tolist(), strict=True):
        bits.append(0)
        for s, m in enumerate(clf.code_[place[label]]):
            if m != 0:
                used[s] += 1
                plus[s] += m > 0
                wrong[s] += m * f[s] <= 0
                bits[-1] += int(m * f[s] <= 0)
    return np.array(wrong) / used, np.array(plus) / used, bits


def test_columns_and_bit_errors_equal_plain_loops():
    error, positives, bits = column_loop(CLF, X[TEST], NAMES[TEST])
    columns = displays.ColumnDisplay.from_estimator(CLF, X[TEST], NAMES[TEST])
    np.testing.assert_allclose(columns.error, error)
    np.testing.assert_allclose(columns.positives, positives)
    np.testing.assert_allclose(columns.frame()["accuracy"], 1 - error)
    np.testing.assert_allclose(columns.guess, np.minimum(positives, 1 - positives))
    together = displays.BitErrorDisplay.from_estimator(CLF, X[TEST], NAMES[TEST])
    assert together.frame()["rows"].tolist() == [bits.count(n) for n in range(max(bits) + 1)]
    np.testing.assert_allclose(together.accuracy, 1 - error)


@pytest.mark.parametrize("name", ["ova", "ovo", "exhaustive", "dense", "sparse", "bch", "ordinal"])
@pytest.mark.parametrize("k", [3, 4, 5])
def test_corrected_errors_are_those_hamming_decoding_survives(name, k):
    """Try every wrong set of columns, and every answer of the unused ones, for small codes."""
    code = codes.code_matrix(name, k, random_state=0).astype(float)[:, :8]
    if np.any(np.count_nonzero(code, axis=1) == 0):
        pytest.skip("a class is used by none of the first columns")
    decoder = Hamming()
    decoder.code_ = code.astype(np.int8)
    most = code.shape[1]
    for q, row in enumerate(code):
        for answer in itertools.product([-1.0, 1.0], repeat=code.shape[1]):
            wrong = int(((np.array(answer) != row) & (row != 0)).sum())
            scores = decoder.scores(np.array([answer]))[0]
            if np.any(np.delete(scores, q) >= scores[q]):
                most = min(most, wrong - 1)
    assert dichotomies.correction(code) == max(0, most)


def test_confusion_and_its_pairs():
    display = displays.ConfusionDisplay.from_estimator(CLF, X[TEST], NAMES[TEST])
    predicted = CLF.predict(X[TEST])
    for true, said in itertools.product(CLF.classes_, repeat=2):
        expected = int(((NAMES[TEST] == true) & (predicted == said)).sum())
        assert display.frame().loc[true, said] == expected
    pairs = displays.ConfusionDisplay(np.array([[5, 1, 3], [0, 6, 0], [1, 0, 7]]), ("a", "b", "c"))
    assert pairs.pairs(2)[["true", "predicted", "rows"]].to_numpy().tolist() == [
        ["a", "c", 3],
        ["a", "b", 1],
    ]
    summed = displays.ConfusionDisplay.from_records(RECORDS)
    assert summed.count.tolist() == [[2, 0, 1], [0, 1, 0], [0, 1, 1]]


def test_reliability_of_folds_is_that_of_all_rows():
    labels = np.searchsorted(CLF.classes_, NAMES)
    proba = CLF.predict_proba(X)
    whole = displays.ReliabilityDisplay.from_estimator(CLF, X, NAMES).reliability

    def part(rows):
        found = metrics.reliability(labels[rows], proba[rows])
        values = {"count": found.count, "confidence": found.confidence, "accuracy": found.accuracy}
        return record(
            reliability={
                k: [None if np.isnan(x) else float(x) for x in v] for k, v in values.items()
            }
        )

    summed = displays.ReliabilityDisplay.from_records([part(TRAIN), part(TEST)]).reliability
    np.testing.assert_array_equal(summed.count, whole.count)
    np.testing.assert_allclose(summed.confidence, whole.confidence)
    np.testing.assert_allclose(summed.calibration_error, whole.calibration_error)


def test_bit_errors_and_columns_of_folds():
    summed = displays.BitErrorDisplay.from_records(RECORDS)
    assert summed.count.tolist() == [4, 1, 1]
    columns = displays.ColumnDisplay.from_records(RECORDS)
    assert columns.error.tolist() == [0.25, 0.5, 0.5]


def test_correlation_is_the_cosine_of_linear_weights():
    clf = OutputCodeClassifier("ovo", SVM("linear")).fit(X, Y)
    machine = clf.machine_
    W = X[machine.support_].T @ machine.dual_coef_[machine.support_]
    length = np.linalg.norm(W, axis=0)
    found = displays.RelationDisplay.from_estimator(clf)
    assert found.kind == "correlation"
    np.testing.assert_allclose(found.frame(), W.T @ W / np.outer(length, length), atol=1e-10)


def test_relation_of_joint_machines():
    clf = OutputCodeClassifier("ova", "jcl").fit(X, Y)
    found = displays.RelationDisplay.from_estimator(clf)
    assert found.kind == "relation"
    np.testing.assert_array_equal(found.matrix, clf.machine_.relation_)
    drawn(found)
    again = displays.RelationDisplay.from_estimator(clf, kind="correlation")
    np.testing.assert_allclose(again.matrix.diagonal(), 1.0)
    drawn(again)


def test_critical_difference_of_records():
    rng = np.random.RandomState(0)
    errors = rng.rand(6, 3)
    records = [
        {
            "dataset": f"d{i}",
            "method": "$m$" * (j + 1),
            "status": "ok",
            "metrics": {"error": e + shift},
            "details": {},
        }
        for (i, j), e in np.ndenumerate(errors)
        for shift in (-0.01, 0.01)
    ]
    records.append({**records[0], "dataset": "d9", "status": "timeout"})
    display = displays.CriticalDifferenceDisplay.from_records(records)
    expected = statistics.nemenyi(errors, ["a", "b", "c"])
    np.testing.assert_allclose(display.nemenyi.ranks.average, expected.ranks.average)
    assert display.nemenyi.critical_difference == expected.critical_difference
    assert display.frame()["rank"].tolist() == sorted(expected.ranks.average)
    for text in drawn(display):
        assert not ("$" in text.get_text() and text.get_parse_math())


@pytest.mark.parametrize("k", [2, 30])
def test_critical_difference_of_few_and_many_methods(k):
    errors = np.random.RandomState(1).rand(9, k)
    names = [f"m{i}" for i in range(k)]
    texts = drawn(displays.CriticalDifferenceDisplay.from_errors(errors, names))
    assert set(names) <= {word for text in texts for word in text.get_text().split()}


def test_bound_paths():
    search = LOOBoundSearch(OutputCodeClassifier(decoder="linear"), [1.0, 0.1], [1.0, 10.0])
    display = displays.BoundPathDisplay.from_estimator(search.fit(X, Y))
    drawn(display)
    table = display.frame()
    assert table["path"].tolist() == ["C = 1", "C = 1", "C = 10", "C = 10"]
    assert table["gamma"].tolist() == [0.1, 1.0, 0.1, 1.0]
    for _, row in table.iterrows():
        C = float(row["path"].removeprefix("C = "))
        at = (search.results_["gamma"] == row["gamma"]) & (search.results_["C"] == C)
        assert row["bound"] == search.results_["bound"][at][0]
    folds = displays.BoundPathDisplay.from_records(RECORDS)
    assert folds.frame()["bound"].tolist() == [0.3, 0.4, 0.2, 0.1]
    drawn(displays.BoundPathDisplay.from_records(RECORDS * 5))


# --- what is asked for and not there ---


@pytest.mark.parametrize(
    ("call", "reason"),
    [
        (lambda: displays.CodeDisplay.from_estimator(SVC().fit(X, Y)), "SVC has no code_"),
        (lambda: displays.CodeDisplay.from_estimator(OutputCodeClassifier()), "no code_"),
        (lambda: displays.BoundPathDisplay.from_estimator(CLF), "not a fitted LOOBoundSearch"),
        (lambda: displays.RelationDisplay.from_estimator(CLF, kind="relation"), "'jcl'"),
        (lambda: displays.RelationDisplay.from_estimator(CLF, kind="corelation"), "Did you mean"),
        (lambda: displays.ConfusionDisplay.from_estimator(CLF, X, ["new"] * 150), "'new'"),
        (lambda: displays.CodeDisplay.from_records([]), "no finished record"),
        (lambda: displays.CodeDisplay.from_records(RECORDS, method="ova"), "Did you mean 'ovo'"),
        (lambda: displays.CodeDisplay.from_records(RECORDS[1:]), "holds 'code'"),
        (
            lambda: displays.CodeDisplay.from_records([*RECORDS, {**RECORDS[0], "method": "b"}]),
            "2 methods: give method=",
        ),
        (
            lambda: displays.ConfusionDisplay.from_records(RECORDS, class_names=["a"]),
            "3 classes, but 1",
        ),
    ],
)
def test_what_is_missing_is_said(call, reason):
    with pytest.raises(ValueError, match=reason):
        call()


def test_probabilities_and_weights_that_are_not_there():
    hinge = OutputCodeClassifier("ova").fit(X, Y)
    with pytest.raises(ValueError, match="no probabilities"):
        displays.ReliabilityDisplay.from_estimator(hinge, X, Y)
    bank = OutputCodeClassifier("ova", LogisticRegression()).fit(X, Y)
    with pytest.raises(ValueError, match="use a kernel machine"):
        displays.RelationDisplay.from_estimator(bank)
