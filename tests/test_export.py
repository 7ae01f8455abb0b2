"""Exported models: the same labels and probabilities in onnxruntime, in plain NumPy and in C."""

from __future__ import annotations

import ctypes
import json
import shutil
import subprocess
import sys

import numpy as np
import pytest
from click.testing import CliRunner
from scipy import sparse
from sklearn.datasets import load_breast_cancer, load_digits, load_iris, load_wine, make_blobs
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeClassifier

import outcode
from outcode import SPOC, OutputCodeClassifier, OutputCodeClassifierCV, decoders, export
from outcode.app.cli import cli
from outcode.datasets import Table, TableEncoder
from outcode.decoders.common import Decoder
from outcode.formula import FormulaError, symbol
from outcode.machines import SVM, CrammerSinger, Nystrom

needs_onnx = pytest.mark.skipif(
    not all(__import__("importlib.util").util.find_spec(m) for m in ("onnx", "onnxruntime")),
    reason="onnx and onnxruntime are not installed: outcode[onnx]",
)
CC = shutil.which("gcc") or shutil.which("cc")
needs_cc = pytest.mark.skipif(CC is None, reason="there is no C compiler here")

#: Decoders that are no formula, and a word of the reason.
REFUSED = {"bradley-terry": "iteration", "drm": "nearest"}


def scaled(X):
    return (X - X.mean(axis=0)) / np.maximum(X.std(axis=0), 1e-9)


def six():
    blobs = make_blobs(300, 5, centers=7, cluster_std=4.0, random_state=0)
    rng = np.random.default_rng(0)
    noise = rng.normal(size=(200, 3)), rng.integers(4, size=200)
    loaded = [f(return_X_y=True) for f in (load_iris, load_wine, load_breast_cancer)]
    digits = (part[:200] for part in load_digits(return_X_y=True))
    found = [*loaded, tuple(digits), blobs, noise]
    return [(scaled(X), y) for X, y in found]


SIX = dict(zip(("iris", "wine", "cancer", "digits", "blobs", "noise"), six(), strict=True))


def in_onnx(clf, X):
    """Return what onnxruntime gives for rows, away from the checks of the export itself."""
    import onnxruntime

    raw = export.to_onnx(clf, X[:5]).SerializeToString()
    session = onnxruntime.InferenceSession(raw, providers=["CPUExecutionProvider"])
    names = [output.name for output in session.get_outputs()]
    return dict(zip(names, session.run(names, {"X": X}), strict=True))


def in_python(clf, X):
    space = {}
    exec(export.to_python(clf, X[:5]), space)
    found = {"label": space["predict"](X), "scores": space["scores"](X)}
    more = {"probabilities": space["predict_proba"](X)} if "predict_proba" in space else {}
    return found | more


def in_c(clf, X, folder):
    header = folder / "model.h"
    header.write_text(export.to_c(clf, X[:5]))
    source = folder / "model.c"
    source.write_text(
        '#include "model.h"\nint n_work(void) { return OUTCODE_WORK; }\n'
        "int run(const double *x, double *s, double *p, double *w)"
        " { return outcode_predict(x, s, p, w); }\n"
        "const char *name(int i) { return outcode_classes[i]; }\n"
    )
    flags = ["-std=c99", "-O1", "-Wall", "-Wextra", "-Werror", "-pedantic", "-shared", "-fPIC"]
    library = folder / f"{len(list(folder.iterdir()))}.so"  # a name is loaded once
    subprocess.run([CC, *flags, str(source), "-o", str(library), "-lm"], check=True)
    loaded = ctypes.CDLL(str(library))
    loaded.name.restype = ctypes.c_char_p
    point = ctypes.POINTER(ctypes.c_double)
    k, work = len(clf.classes_), np.empty(loaded.n_work())
    scores, proba, labels = np.empty((len(X), k)), np.empty((len(X), k)), []
    for i, x in enumerate(np.ascontiguousarray(X)):
        arrays = (x, scores[i], proba[i], work)
        place = loaded.run(*(a.ctypes.data_as(point) for a in arrays))
        labels.append(loaded.name(place).decode())
    return {"label": np.array(labels), "scores": scores, "probabilities": proba}


def agrees(clf, found, X):
    assert (found["label"].astype(str) == clf.predict(X).astype(str)).all()
    if hasattr(clf, "predict_proba"):
        assert np.abs(found["probabilities"] - clf.predict_proba(X)).max() < 1e-5


def code_for(name):
    return "ovo" if name in ("coupling", "ddag") else "dense"


@needs_onnx
@pytest.mark.parametrize("data", SIX)
def test_every_decoder_is_exported_or_says_why_not(data):
    X, y = SIX[data]
    fitted = {c: OutputCodeClassifier(c, random_state=0).fit(X, y) for c in ("ovo", "dense")}
    for name in decoders.DECODERS:
        clf = fitted[code_for(name)].with_decoder(name, X)
        if name in REFUSED:
            with pytest.raises(ValueError, match=REFUSED[name]):
                export.describe(clf)
            continue
        agrees(clf, in_onnx(clf, X), X)
        agrees(clf, in_python(clf, X), X)


@needs_onnx
@pytest.mark.parametrize(
    "machine",
    [
        *(SVM(k) for k in ("linear", "poly", "laplacian", "exponential", "sigmoid")),
        SVM("0.3 rbf(0.1) + 0.4 laplacian(0.2) + 0.3 exponential(0.5)", bias="free"),
        *("ls", "spoc", CrammerSinger("linear"), "ww", "sbc", "jcl", "kessler", Nystrom(40)),
    ],
    ids=str,
)
def test_every_kernel_and_kernel_machine_is_exported(machine):
    X, y = SIX["wine"]
    clf = OutputCodeClassifier("ova", machine, "softmax").fit(X[::2], y[::2])
    agrees(clf, in_onnx(clf, X), X)
    agrees(clf, in_python(clf, X), X)


@needs_onnx
@pytest.mark.parametrize("data", ["wine", "cancer"])
def test_tuned_classifiers_searches_and_pipelines_are_exported(data):
    X, y = SIX[data]
    tuned = OutputCodeClassifierCV(kernels=("exponential", "laplacian"), random_state=0)
    agrees(tuned.fit(X[:150], y[:150]), in_onnx(tuned, X), X)
    assert any("laplacian" in str(k) for k in tuned.results_["kernel"])
    piped = make_pipeline(StandardScaler(), SPOC("linear")).fit(X * 7 + 3, y)
    agrees(piped, in_onnx(piped, X * 7 + 3), X * 7 + 3)


@needs_onnx
def test_kernel_matrices_sparse_rows_and_labels_of_any_type_are_exported():
    X, y = SIX["iris"]
    K = X @ X.T
    clf = OutputCodeClassifier("ovo", SVM("precomputed"), "likelihood").fit(K, y.astype(str))
    agrees(clf, in_onnx(clf, K), K)
    clf = OutputCodeClassifier("ovo", decoder="likelihood").fit(
        sparse.csr_matrix(X), y.astype(float)
    )
    found = in_onnx(clf, X)
    agrees(clf, found, X)
    assert found["label"].dtype == np.float64
    two = OutputCodeClassifier("ova", decoder="softmax").fit(X, y > 0)
    assert in_onnx(two, X)["label"].dtype == bool


def test_what_is_no_formula_says_so():
    X, y = SIX["iris"]
    for machine in (SVM(lambda A, B: A @ B.T), DecisionTreeClassifier()):
        clf = OutputCodeClassifier("ova", machine).fit(X, y)
        with pytest.raises(ValueError, match="named kernel"):
            export.describe(clf)
    with pytest.raises(ValueError, match="OutputCodeClassifier"):
        export.describe(DecisionTreeClassifier().fit(X, y))
    with pytest.raises(Exception, match="not fitted"):
        export.describe(OutputCodeClassifier())
    with pytest.raises(ValueError, match=r"Unknown kind of export '.tflite'.*'.onnx'"):
        export.to_file(OutputCodeClassifier().fit(X, y), "model.tflite")
    with pytest.raises(ValueError, match="takes 4 columns"):
        export.to_python(OutputCodeClassifier().fit(X, y), X[:, :2])


class Curious(Decoder):
    def scores(self, margins, X=None):
        code = self.code_.astype(float)
        return margins @ code.T if (np.abs(margins) < 1).all() else -margins @ code.T


class Cosine(Decoder):
    def scores(self, margins, X=None):
        code = self.code_.astype(np.float64)
        return margins @ (code / np.linalg.norm(code, axis=1, keepdims=True)).T


def test_a_decoder_of_the_users_needs_no_line_more():
    X, y = SIX["wine"]
    clf = OutputCodeClassifier("ovo", "svm", Cosine()).fit(X, y)
    agrees(clf, in_python(clf, X), X)
    clf = OutputCodeClassifier("ovo", "svm", Curious()).fit(X, y)
    with pytest.raises(ValueError, match="Curious cannot be exported"):
        export.describe(clf)


@pytest.mark.parametrize(
    "function",
    [
        lambda f: np.linalg.solve(f, f),
        lambda f: f.sum(axis=0),
        lambda f: f[0],
        np.add.reduce,
        lambda f: bool(f > 0),
        lambda f: f + np.ones((5, 3)),
        lambda f: f @ np.ones((2, 2)),
        np.arctan,
        list,
        lambda f: np.asarray(f, dtype=float),
    ],
)
def test_operations_without_a_formula_raise(function):
    with pytest.raises(FormulaError):
        function(symbol(3))


def mixed_table(n=200):
    rng = np.random.default_rng(1)
    x, colour = rng.normal(5, 2, n), rng.choice(["red", "blue", "green"], n).astype(object)
    y = np.where((x > 5) ^ (colour == "red"), "yes", "no")
    x[::9], colour[::7] = np.nan, None
    return Table(("x", "colour"), ("numeric", "nominal"), (x, colour)), y


@needs_onnx
def test_numbers_and_categories_of_a_table_are_part_of_the_export(tmp_path):
    table, y = mixed_table()
    model = make_pipeline(TableEncoder(), OutputCodeClassifier(decoder="likelihood")).fit(table, y)
    description, check = export.to_file(model, tmp_path / "model.onnx", table)
    assert check.rows == 200
    assert [column.values for column in description.columns] == [(), ("blue", "green", "red")]
    assert "'blue' = 0" in str(description)
    import onnx

    kept = {p.key: p.value for p in onnx.load(tmp_path / "model.onnx").metadata_props}
    assert json.loads(kept["columns"])[1]["values"] == ["blue", "green", "red"]
    assert {node.domain for node in onnx.load(tmp_path / "model.onnx").graph.node} == {""}
    assert export.to_file(model, tmp_path / "model.py")[1].rows == 1000  # rows of its own


@needs_onnx
def test_text_is_encoded_before_the_export(tmp_path):
    rng = np.random.default_rng(0)
    words = np.array([" ".join(rng.choice(["a b", "c d", "e f"], 6)) for _ in range(80)], object)
    table = Table(("words",), ("text",), (words,))
    y = np.array(["ab" if w.count("a") > 2 else "cd" for w in words])
    model = make_pipeline(TableEncoder(), OutputCodeClassifier(decoder="softmax")).fit(table, y)
    description, _ = export.to_file(model, tmp_path / "model.onnx", table)
    assert "features of the encoder" in str(description)
    assert "'words'" in str(description)


@needs_cc
@pytest.mark.parametrize("code", ["ova", "ovo"])
def test_the_c_header_gives_the_same(code, tmp_path):
    X, y = SIX["wine"]
    y = np.array(['quoted "name" ??=', "back\\slash */\x01", "ü \U0001f600"])[y]
    names = [d for d in decoders.DECODERS if d not in REFUSED and (code == "ovo" or
             code_for(d) != "ovo")]  # fmt: skip
    base = OutputCodeClassifier(code).fit(X, y)
    for name in names:
        clf = base.with_decoder(name, X)
        agrees(clf, in_c(clf, X, tmp_path), X)


@needs_cc
@pytest.mark.parametrize("kernel", ["laplacian", "poly", "0.5 rbf(0.1) + 0.5 exponential(0.5)"])
def test_the_c_header_knows_the_kernels(kernel, tmp_path):
    X, y = SIX["cancer"]
    clf = OutputCodeClassifier("ova", SVM(kernel), "likelihood").fit(X[::3], y[::3])
    agrees(clf, in_c(clf, X, tmp_path), X)


@needs_onnx
def test_a_wrong_export_is_not_written(tmp_path, monkeypatch):
    X, y = SIX["iris"]
    clf = OutputCodeClassifier("ovo", decoder="likelihood").fit(X, y)
    monkeypatch.setitem(export.onnx.OPERATORS, "exp", ("Abs", "np.abs({})", "fabs({})"))
    with pytest.raises(ValueError, match="was not written"):
        export.to_file(clf, tmp_path / "model.onnx")
    assert list(tmp_path.iterdir()) == []


def test_files_that_cannot_be_written_and_dates_as_labels_say_so(tmp_path):
    X, y = SIX["iris"]
    clf = OutputCodeClassifier("ovo").fit(X, y)
    with pytest.raises(ValueError, match=r"Cannot write '.*/none/model.py': No such file"):
        export.to_file(clf, tmp_path / "none" / "model.py")
    dates = np.array(["2020-01-01", "2021-01-01", "2022-01-01"], dtype="datetime64[D]")[y]
    with pytest.raises(ValueError, match="cannot be exported: train on numbers or text"):
        export.to_python(OutputCodeClassifier("ovo").fit(X, dates))


@needs_onnx
def test_the_command_writes_all_three(tmp_path):
    X, y = load_iris(return_X_y=True)
    rows = tmp_path / "iris.csv"
    lines = [",".join([*map(str, x), f"kind {k}"]) for x, k in zip(X, y, strict=True)]
    rows.write_text("\n".join(["a,b,c,d,kind", *lines]) + "\n")
    model, run = tmp_path / "m.oc", CliRunner().invoke
    assert run(cli, ["fit", str(rows), "-m", "ova+likelihood", "--folds", "0", "-o", str(model)])
    for suffix in ("onnx", "py", "h"):
        done = run(
            cli, ["export", str(model), "-o", str(tmp_path / f"m.{suffix}"), "--rows", str(rows)]
        )
        assert done.exit_code == 0, done.output
        assert "Compared on 150 rows: the labels are equal" in done.output
    clf = outcode.load(model)
    code = f"import sys; sys.path.insert(0, {str(tmp_path)!r}); import m; " + (
        "print(m.predict([[5.1, 3.5, 1.4, 0.2]])[0]); assert 'outcode' not in sys.modules; "
        "assert 'scipy' not in sys.modules"
    )
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert told.stdout.strip() == str(clf.classes_[0])
    wrong = run(cli, ["export", str(model), "-o", str(tmp_path / "m.txt")])
    assert "an export ends in .onnx, .py, .h" in str(wrong.exception)
