"""Sizes stated in a model file are checked before memory is taken; loaded models save again."""

from __future__ import annotations

import struct
import time
import tracemalloc
import warnings

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from outcode import SPOC, OutputCodeClassifier, SingleBinaryClassifier, decoders
from outcode.datasets import TableEncoder
from outcode.machines import MACHINES, SVM
from outcode.persistence import ModelError, container, load, save

RNG = np.random.RandomState(0)
LABELS = np.arange(40) % 4
X = RNG.randn(40, 3) + 1.5 * np.eye(4)[LABELS][:, :3]
Y = np.array(["a", "b", "c", "d"])[LABELS]
SPARSE = sparse.csr_matrix(np.where(X > 0, X, 0.0))
TABLE = pd.DataFrame({"colour": np.array(["red", "green", "blue", "grey"])[LABELS], "x": X[:, 0]})


def written(model, rows, path):
    """Return the document and the tensors of a model file."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        save(model.fit(rows, Y), path)
    document, tensors = container.read(path)
    document.pop("sha256")
    return document, tensors


def restated(item, names, size):
    """Return a document in which these names state another size."""
    if isinstance(item, dict):
        return {k: size if k in names else restated(v, names, size) for k, v in item.items()}
    return [restated(v, names, size) for v in item] if isinstance(item, list) else item


def cost_of_loading(path):
    """Return what loading raised (None: nothing), seconds, and the most bytes it took."""
    tracemalloc.start()
    begin, fault = time.perf_counter(), None
    try:
        load(path)
    except ModelError as error:
        fault = error
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return fault, time.perf_counter() - begin, peak


WIDE = {
    "given": (OutputCodeClassifier(machine=SVM("precomputed")), X @ X.T),
    "given, one machine": (SingleBinaryClassifier(kernel="precomputed"), X @ X.T),
    "sparse": (OutputCodeClassifier(decoder="drm"), SPARSE),
    "scaled": (
        make_pipeline(StandardScaler(with_mean=False, with_std=False), OutputCodeClassifier()),
        SPARSE,
    ),
}


@pytest.mark.parametrize("size", [10**6, 10**8])
@pytest.mark.parametrize("kind", WIDE)
def test_a_stated_number_of_features_takes_no_memory(kind, size, tmp_path):
    model, rows = WIDE[kind]
    document, tensors = written(model, rows, tmp_path / "m")
    document = restated(document, ("n_features_in_", "columns", "n_train_"), size)
    (tmp_path / "m").write_bytes(container.to_bytes(document, tensors))
    fault, seconds, peak = cost_of_loading(tmp_path / "m")
    assert peak < 2**20
    assert seconds < 5
    assert (fault is None) == (size == 10**6)


@pytest.mark.parametrize(
    ("values", "width"),
    [
        ([f"{i:06d}" for i in range(60_000)], 4096),
        (["a" * 300_000, *(f"b{i:04d}" for i in range(5_000))], 300_000),
    ],
    ids=["wide", "long"],
)
def test_labels_are_not_padded_beyond_a_limit(values, width, tmp_path):
    document, tensors = written(OutputCodeClassifier(), X, tmp_path / "m")
    labels = document["model"]["state"]["classes_"]
    labels["values"], labels["width"] = values, width
    (tmp_path / "m").write_bytes(container.to_bytes(document, tensors))
    fault, _, peak = cost_of_loading(tmp_path / "m")
    assert "use shorter labels" in str(fault)
    assert peak < 2**25


def test_many_long_labels_are_refused_when_saving(tmp_path):
    y = np.repeat(["a" * 1_000_000, *(f"b{i:02d}" for i in range(19))], 2)
    with pytest.raises(ModelError, match="use shorter labels"):
        save(OutputCodeClassifier().fit(X, y), tmp_path / "m")


@pytest.mark.parametrize("filler", ["{},", "[],", "0,"])
def test_a_long_header_is_refused_unread(filler, tmp_path):
    text = ('{"a":[' + filler * (6 * 2**20 // len(filler)) + "0]}").encode()
    (tmp_path / "m").write_bytes(struct.pack("<Q", len(text)) + text)
    fault, _, peak = cost_of_loading(tmp_path / "m")
    assert "its header takes" in str(fault)
    assert peak < 2**20


@pytest.mark.filterwarnings("ignore:The tolerance was met")
def test_many_names_of_columns_fit_beside_as_many_numbers(tmp_path):
    names = [f"probe number {i:05d} of the table" for i in range(35_000)]
    rows = pd.DataFrame(RNG.randn(40, len(names)), columns=names)
    model = OutputCodeClassifier(machine=SVM("linear")).fit(rows, Y)
    save(model, tmp_path / "m")
    length = struct.unpack("<Q", (tmp_path / "m").read_bytes()[:8])[0]
    assert length > container.HEADER_LIMIT
    assert load(tmp_path / "m").predict(rows).tolist() == model.predict(rows).tolist()


@pytest.mark.parametrize(
    "change",
    [
        {"topics": 10**8},
        {"name": "x" * 150_000, "values": [f"{i:05d}" for i in range(30_000)]},
    ],
    ids=["topics", "names"],
)
def test_columns_of_a_table_are_counted_not_named(change, tmp_path):
    model = make_pipeline(TableEncoder(), OutputCodeClassifier())
    document, tensors = written(model, TABLE, tmp_path / "m")
    column = document["model"]["state"]["encoders"][0]["state"]["columns_"][0]
    assert column["kind"] == "nominal"
    column.update(change)
    (tmp_path / "m").write_bytes(container.to_bytes(document, tensors))
    fault, _, peak = cost_of_loading(tmp_path / "m")
    assert fault is not None
    assert peak < 2**25


# --- what was loaded is saved again: the same bytes ---

GIVEN = [name for name in MACHINES if name != "nystrom"]  # landmarks are rows
MODELS = {
    **{f"machine {name}": (OutputCodeClassifier(machine=name), X) for name in MACHINES},
    **{f"linear {name}": (OutputCodeClassifier(machine=MACHINES[name](kernel="linear")), X)
       for name in MACHINES},
    **{f"given {name}": (OutputCodeClassifier(machine=MACHINES[name](kernel="precomputed")),
       X @ X.T) for name in GIVEN},
    **{f"decoder {name}": (OutputCodeClassifier("ovo", decoder=name), X)
       for name in decoders.DECODERS},
    **{f"one binary machine, {name}": (SingleBinaryClassifier(name, folds=3), X)
       for name in ("kernel", "identity", "single", "ecoc")},
    "spoc": (SPOC(), X),
    "spoc, linear": (SPOC("linear"), SPARSE),
    "table": (make_pipeline(TableEncoder(), OutputCodeClassifier()), TABLE),
    **{kind: WIDE[kind] for kind in WIDE},
}  # fmt: skip


@pytest.mark.parametrize("kind", MODELS)
def test_what_was_loaded_can_be_saved_again(kind, tmp_path):
    model, rows = MODELS[kind]
    if "random_state" in model.get_params():
        model.set_params(random_state=0)
    written(model, rows, tmp_path / "first")
    save(load(tmp_path / "first"), tmp_path / "second")
    assert (tmp_path / "second").read_bytes() == (tmp_path / "first").read_bytes()
    again = load(tmp_path / "second")
    assert again.predict(rows).tolist() == model.predict(rows).tolist()
