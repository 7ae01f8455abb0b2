"""Model files: what comes back is the same model, and nothing in a file is believed."""

from __future__ import annotations

import copy
import hashlib
import json
import os
import pickle
import random
import stat
import struct
import tracemalloc
import warnings

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler, StandardScaler

from outcode import SPOC, OutputCodeClassifier, SingleBinaryClassifier, codes, decoders, loo
from outcode.datasets import Table, TableEncoder
from outcode.machines import MACHINES, SVM, Joint, LeastSquares, SingleBinary
from outcode.persistence import ModelError, container, load, save
from outcode.persistence.models import TREE
from outcode.selection import LOOBoundSearch

RNG = np.random.RandomState(0)
LABELS = np.arange(60) % 4
X = RNG.randn(60, 3) + 1.5 * np.eye(4)[LABELS][:, :3]
Y = np.array(["a", "b", "c", "d"])[LABELS]
NEW = RNG.randn(25, 3)
SPARSE = sparse.random(60, 20, 0.3, format="csr", random_state=0) + sparse.csr_matrix(
    np.eye(4, 20)[LABELS]
)


def round_trip(model, folder):
    path = folder / "model.oc"
    save(model, path)
    return load(path)


def assert_same(model, again, rows):
    assert type(again) is type(model)
    predicted = model.predict(rows)
    assert again.predict(rows).dtype == predicted.dtype
    assert again.predict(rows).tolist() == predicted.tolist()
    for verb in ("decision_function", "predict_proba", "margins"):
        if hasattr(model, verb):
            assert np.array_equal(getattr(again, verb)(rows), getattr(model, verb)(rows)), verb
        else:
            assert not hasattr(again, verb)


# --- the same model ---


@pytest.mark.parametrize("extension", ["identity", "kernel", "ecoc"])
def test_a_loaded_single_binary_classifier_is_saved_again(extension, tmp_path):
    model = SingleBinaryClassifier(extension, folds=3, random_state=0).fit(X, Y)
    again = round_trip(round_trip(model, tmp_path), tmp_path)
    assert_same(model, again, NEW)
    assert np.array_equal(again.class_kernel_, model.class_kernel_)


#: A joint machine need not have converged to be written.
TRIED = {
    **{name: kind() for name, kind in MACHINES.items()},
    "jcl": Joint(0.1, 0.1, max_iter=3),
    "sbc": SingleBinary("identity"),
}


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("code", codes.CODES)
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_every_code_machine_and_decoder_comes_back_bit_for_bit(code, machine, tmp_path):
    clf = OutputCodeClassifier(code, TRIED[machine], random_state=0, n_jobs=1)
    if machine in ("spoc", "ww", "kessler") and code != "ova":
        with pytest.raises(ValueError, match="needs a column per class: use code='ova'"):
            clf.fit(X, Y)
        return
    clf.fit(X, Y)
    saved = []
    for decoder in decoders.DECODERS:
        try:
            model = clf.with_decoder(decoder, X)
        except ValueError:  # this decoder cannot read this code
            continue
        again = round_trip(model, tmp_path)
        assert_same(model, again, NEW)
        assert np.array_equal(again.code_, model.code_)
        saved.append(decoder)
    assert {"hamming", "llw", "likelihood", "continuous", "bradley-terry"} <= set(saved)
    if code == "ovo" and machine == "svm":
        assert set(saved) == set(decoders.DECODERS)


@pytest.mark.parametrize(
    "labels",
    [
        ["Ärger", "naïve", "日本語", "🦊"],
        ["e\u0301", "\u00e9", "שלום", "x\u0000y"],
        ['"', "\\", '","sha256":"' + "0" * 64 + '"', "\ud800"],
        [0, 1, 2, 3],
        [-(2**60), -1, 0, 2**62],
        np.array([0, 3, 200, 255], np.uint8),
        np.array(["a", "b", "c", "d"], dtype="U50"),
        np.array(["a", "b", "c", "d"], dtype=object),
        [0.0, 1.0, 2.0, 3.0],
        [False, True],
    ],
    ids=str,
)
@pytest.mark.parametrize("kind", [OutputCodeClassifier, SPOC, SingleBinaryClassifier])
def test_labels_come_back_with_their_type(kind, labels, tmp_path):
    names = np.asarray(labels)
    model = kind().fit(X, names[LABELS % len(names)])
    again = round_trip(model, tmp_path)
    assert_same(model, again, NEW)
    assert again.classes_.dtype == model.classes_.dtype
    assert [type(label) for label in again.classes_.tolist()] == [
        type(label) for label in model.classes_.tolist()
    ]


@pytest.mark.parametrize("kernel", ["rbf", "linear", "poly", "laplacian", "sigmoid"])
@pytest.mark.parametrize("rows", [X, SPARSE], ids=["dense", "sparse"])
def test_every_kernel_dense_and_sparse(kernel, rows, tmp_path):
    models = [
        OutputCodeClassifier("ovo", SVM(kernel), decoders.DynamicReliability(space="kernel")),
        OutputCodeClassifier("ova", LeastSquares(kernel, C=0.01, dtype="float32"), "srm"),
        OutputCodeClassifier("ovo", Joint(kernel=kernel, max_iter=3), "llw"),
        SPOC(kernel),
        SPOC(kernel, folds=None, bias="kernel"),
        SingleBinaryClassifier("identity", kernel),
    ]
    for model in models:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # sigmoid is not positive definite
            try:
                model.fit(rows, Y)
            except ValueError:
                assert kernel == "sigmoid"
                continue
        assert_same(model, round_trip(model, tmp_path), rows[::2])


@pytest.mark.parametrize(
    "model",
    [
        OutputCodeClassifier("ovo", SVM("precomputed"), decoders.DynamicReliability(3, "kernel")),
        OutputCodeClassifier("dense", LeastSquares("precomputed"), "likelihood", random_state=0),
        OutputCodeClassifier("ova", Joint(kernel="precomputed", max_iter=3), "llw"),
        SPOC("precomputed"),
        SingleBinaryClassifier("kernel", "precomputed", folds=3),
    ],
    ids=str,
)
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_kernel_values_given_by_the_user(model, tmp_path):
    model.fit(X @ X.T, Y)
    assert_same(model, round_trip(model, tmp_path), NEW @ X.T)


@pytest.mark.parametrize(
    "model",
    [
        OutputCodeClassifier(2 * np.eye(4, dtype=int) - 1, SVM(class_weight={"a": 2.0})),
        OutputCodeClassifier([[1, 1], [1, -1], [-1, 1], [-1, -1]], SVM(max_memory=np.inf)),
        OutputCodeClassifier(codes.BCH(7), SVM(C=np.float32(3), dtype=np.dtype("float32"))),
        OutputCodeClassifier(decoder=decoders.ContinuousCode(kernel="rbf"), random_state=3),
        OutputCodeClassifier(decoder=decoders.ContinuousCode(norm="inf"), random_state=3),
        OutputCodeClassifier("ovo", decoder=decoders.PairwiseCoupling("hastie-tibshirani")),
        OutputCodeClassifier(decoder=decoders.Likelihood(invalid="uniform", temperature=True)),
        OutputCodeClassifier("sparse", random_state=np.random.RandomState(0)),
        SingleBinaryClassifier("ecoc", folds=3, decoder="hamming", random_state=0),
        SingleBinaryClassifier(RNG.randn(4, 2), class_kernel="linear"),
        SingleBinaryClassifier(weights=np.ones(4)),
        LOOBoundSearch(OutputCodeClassifier(decoder="linear"), gammas=[0.1, 1.0]),
        GridSearchCV(OutputCodeClassifier(machine=SVM()), {"machine__C": [1, 10]}, cv=2),
        make_pipeline(StandardScaler(), OutputCodeClassifier("ovo")),
        make_pipeline(StandardScaler(with_mean=False), GridSearchCV(SPOC(), {"beta": [1.0]}, cv=2)),
    ],
)
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_parameters_searches_and_pipelines(model, tmp_path):
    model.fit(X, Y)
    again = round_trip(model, tmp_path)
    best = getattr(model, "best_estimator_", model)
    if not hasattr(model, "steps"):
        assert_same(best, again, NEW)
    assert np.array_equal(again.predict(NEW), model.predict(NEW))
    assert np.array_equal(again.decision_function(NEW), model.decision_function(NEW))


def test_parameters_are_those_given(tmp_path):
    model = OutputCodeClassifier(codes.BCH(7), SVM("poly", 0.5, degree=2, C=3), "linear").fit(X, Y)
    again = round_trip(model, tmp_path)
    assert repr(again) == repr(model)
    assert again.fit(X, Y).predict(NEW).tolist() == model.predict(NEW).tolist()


@pytest.mark.parametrize("scale", ["standard", "unit", None])
def test_a_table_is_encoded_by_the_loaded_model(scale, tmp_path):
    colours = np.array(["rot", "grün", None, "blau"], dtype=object)[RNG.randint(4, size=60)]
    width = np.where(RNG.rand(60) < 0.1, np.nan, X[:, 0])
    table = Table(
        ("width", "colour", "height", "same"),
        ("numeric", "nominal", "numeric", "numeric"),
        (width, colours, X[:, 1], np.ones(60)),
    )
    model = make_pipeline(TableEncoder(scale), OutputCodeClassifier("ovo", decoder="hinge"))
    again = round_trip(model.fit(table, Y), tmp_path)
    assert again[0].columns_ == model[0].columns_
    assert np.array_equal(again.decision_function(table), model.decision_function(table))
    assert again.predict(table).tolist() == model.predict(table).tolist()


def test_a_sparse_table_is_encoded_by_the_loaded_model(tmp_path):
    model = make_pipeline(TableEncoder(), OutputCodeClassifier("ovo")).fit(SPARSE, Y)
    again = round_trip(model, tmp_path)
    assert np.array_equal(again.decision_function(SPARSE), model.decision_function(SPARSE))


def test_names_of_columns_are_kept(tmp_path):
    frame = pd.DataFrame(X, columns=["a", "größe", "c"])
    again = round_trip(OutputCodeClassifier().fit(frame, Y), tmp_path)
    assert again.feature_names_in_.tolist() == ["a", "größe", "c"]
    assert again.n_features_in_ == 3
    with pytest.raises(ValueError, match="feature names"):
        again.predict(frame.rename(columns={"a": "z"}))


def test_two_classes_and_a_float32_gram(tmp_path):
    model = OutputCodeClassifier(machine=SVM(dtype="float32")).fit(X, LABELS > 1)
    assert_same(model, round_trip(model, tmp_path), NEW)


def test_a_file_holds_support_rows_only_and_the_same_model_the_same_bytes(tmp_path):
    model = OutputCodeClassifier("ovo", decoder="hinge").fit(X, Y)
    again = round_trip(model, tmp_path)
    assert again.machine_.dual_coef_.shape == (len(model.machine_.support_), 6)
    first = (tmp_path / "model.oc").read_bytes()
    save(again, tmp_path / "model.oc")
    assert (tmp_path / "model.oc").read_bytes() == first


@pytest.mark.parametrize("order", ["C", "F"])
def test_arrays_keep_their_order_in_memory(order, tmp_path):
    model = OutputCodeClassifier("ovo", decoder="continuous", random_state=0).fit(X, Y)
    model.decoder_.continuous_code_ = np.array(model.decoder_.continuous_code_, order=order)
    again = round_trip(model, tmp_path)
    assert again.decoder_.continuous_code_.flags[f"{order}_CONTIGUOUS"]
    assert_same(model, again, NEW)


def test_relations_of_joint_machines_are_kept(tmp_path):
    model = OutputCodeClassifier("ova", "jcl").fit(X, Y)
    again = round_trip(model, tmp_path)
    assert np.array_equal(again.machine_.relation_, model.machine_.relation_)


@pytest.mark.parametrize("machine", ["svm", "ls"])
def test_what_needs_training_rows_says_that_they_were_left_out(machine, tmp_path):
    again = round_trip(OutputCodeClassifier("ovo", machine, "linear").fit(X, Y), tmp_path)
    for ask in (
        lambda: loo.bound(again),
        lambda: loo.exact(again, X, Y),
        lambda: again.with_decoder("llw"),
        lambda: again.with_decoder("likelihood", X),
        lambda: again.with_decoder("drm", X),
    ):
        with pytest.raises(ModelError, match="keeps only what prediction needs"):
            ask()


def test_a_loaded_model_can_be_copied_pickled_refitted_and_given_a_plain_decoder(tmp_path):
    model = OutputCodeClassifier("ovo", decoder="linear").fit(X, Y)
    again = round_trip(model, tmp_path)
    assert_same(model, copy.deepcopy(again), NEW)
    assert_same(model, pickle.loads(pickle.dumps(again)), NEW)
    assert_same(model.with_decoder("hamming"), again.with_decoder("hamming"), NEW)
    assert loo.bound(again.fit(X, Y)).error == loo.bound(model).error


def test_every_decoder_and_code_is_in_the_table():
    made = {type(make()).__name__ for make in decoders.DECODERS.values()}
    made |= {kind.__name__ for kind in (*codes.CODES.values(), *MACHINES.values())}
    assert all(TREE.find(name) is not None for name in made)


# --- what is not written ---


class Hamming(decoders.Hamming):
    """A decoder of the user's with a name that is taken."""


@pytest.mark.parametrize(
    ("model", "reason"),
    [
        (OutputCodeClassifier(machine=LogisticRegression()), "machine: LogisticRegression cannot"),
        (
            OutputCodeClassifier(machine=SVM(kernel=lambda A, B: A @ B.T)),
            "machine.kernel: function",
        ),
        (OutputCodeClassifier(decoder=Hamming()), "decoder: Hamming cannot"),
        (make_pipeline(MinMaxScaler(), SPOC()), "MinMaxScaler cannot"),
        (LogisticRegression(), "LogisticRegression cannot"),
    ],
    ids=["machine", "kernel", "decoder", "encoder", "classifier"],
)
def test_what_cannot_be_written_is_refused_and_the_file_is_not_touched(model, reason, tmp_path):
    path = tmp_path / "model.oc"
    path.write_text("old")
    with pytest.raises(ModelError, match=reason):
        save(model.fit(X, Y), path)
    assert path.read_text() == "old"
    assert os.listdir(tmp_path) == ["model.oc"]


@pytest.mark.parametrize("kind", [OutputCodeClassifier, SPOC, SingleBinaryClassifier])
def test_a_model_that_is_not_fitted_is_refused(kind, tmp_path):
    with pytest.raises(ModelError, match="not fitted"):
        save(kind(), tmp_path / "model.oc")


def test_labels_of_other_types_are_refused(tmp_path):
    model = OutputCodeClassifier().fit(X, Y)
    model.classes_ = model.classes_.astype("S1")
    with pytest.raises(ModelError, match="labels of type bytes"):
        save(model, tmp_path / "model.oc")


@pytest.mark.parametrize("where", ["no/such/folder.oc", "."])
def test_a_place_that_cannot_be_written_is_said(where, tmp_path):
    with pytest.raises(ModelError, match="Cannot write"):
        save(SPOC().fit(X, Y), tmp_path / where)


def test_writing_follows_links_and_the_users_mask(tmp_path):
    (tmp_path / "link").symlink_to(tmp_path / "model.oc")
    model = SPOC().fit(X, Y)
    save(model, tmp_path / "link")
    assert (tmp_path / "link").is_symlink()
    (tmp_path / "plain").touch()
    assert stat.S_IMODE(os.stat(tmp_path / "model.oc").st_mode) == stat.S_IMODE(
        os.stat(tmp_path / "plain").st_mode
    )
    assert_same(model, load(tmp_path / "model.oc"), NEW)


def test_a_full_disk_leaves_the_old_file(tmp_path, monkeypatch):
    path = tmp_path / "model.oc"
    save(SPOC().fit(X, Y), path)
    old = path.read_bytes()

    def full(_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(ModelError, match="No space left"):
        save(SPOC(beta=2.0).fit(X, Y), path)
    assert path.read_bytes() == old
    assert os.listdir(tmp_path) == ["model.oc"]


# --- what is not read ---


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"", "empty"),
        (b"a,b,c\n1,2,3\n" * 5, "not an outcode model"),
        (pickle.dumps({"a": 1}), "pickle"),
        (struct.pack("<Q", 2) + b"{}", "not an outcode model"),
        (struct.pack("<Q", 2**40) + b"{}", "not an outcode model"),
        (struct.pack("<Q", 1000) + b"{}", "cut short"),
        (struct.pack("<Q", 20) + b'{"__metadata__":1}  ', "not an outcode model"),
        (struct.pack("<Q", 10**6) + b'{"a":' + b"[" * (10**6 - 5), "damaged"),
    ],
    ids=["empty", "csv", "pickle", "safetensors", "huge", "short", "metadata", "nested"],
)
def test_other_files_are_told_apart(content, reason, tmp_path):
    path = tmp_path / "model.oc"
    path.write_bytes(content)
    with pytest.raises(ModelError, match=reason):
        load(path)


def test_missing_files_folders_and_pipes(tmp_path):
    with pytest.raises(ModelError, match="No such file"):
        load(tmp_path / "nothing.oc")
    with pytest.raises(ModelError, match="Cannot read"):
        load(tmp_path)
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(ModelError, match="not a file"):
        load(tmp_path / "pipe")


def make_small_files(folder):
    """Write small models of several kinds; return each path and the scores of the new rows."""
    rows, labels = X[:24], Y[:24]
    models = [
        OutputCodeClassifier("ovo", decoder="likelihood", random_state=0),
        OutputCodeClassifier("ovo", decoder="ddag", machine="ls"),
        OutputCodeClassifier("ovo", decoder="coupling", random_state=0),
        OutputCodeClassifier(
            "sparse", SVM("poly", gamma=0.1), decoders.DynamicReliability(3, "kernel")
        ).set_params(random_state=0),
        OutputCodeClassifier(codes.OneVsAll(), SVM(), "drm", random_state=0),
        OutputCodeClassifier("ova", decoder=decoders.ContinuousCode(kernel="rbf")),
        SPOC("linear"),
        SPOC("rbf"),
        SingleBinaryClassifier("ecoc", random_state=0),
        make_pipeline(StandardScaler(), OutputCodeClassifier("ova", decoder="ihd")),
        OutputCodeClassifier("ova", decoder="srm"),
        make_pipeline(TableEncoder(), OutputCodeClassifier("ova")),
    ]
    found = []
    for i, model in enumerate(models):
        given = sparse.csr_matrix(rows) if i in (3, 10) else rows
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model.fit(given, labels)
        save(model, folder / str(i))
        found.append((folder / str(i), model.decision_function(NEW)))
    return found


@pytest.fixture(scope="module")
def small_files(tmp_path_factory):
    return make_small_files(tmp_path_factory.mktemp("small"))


def test_a_newer_schema_says_which_version_is_needed(small_files, tmp_path):
    document, tensors = container.read(small_files[0][0])
    document.pop("sha256")
    path = tmp_path / "new.oc"
    path.write_bytes(container.to_bytes({**document, "schema": 2, "outcode": "3.1"}, tensors))
    with pytest.raises(ModelError, match=r"schema 2, written by outcode 3\.1"):
        load(path)


def test_the_container_is_plain_safetensors(small_files):
    from safetensors import safe_open

    with safe_open(small_files[0][0], "np") as file:
        assert "machine_.dual_coef_" in file.keys()  # noqa: SIM118 (not a dict)
        assert json.loads(file.metadata()["outcode"])["schema"] == 1


def test_every_single_altered_byte_is_noticed(small_files, tmp_path):
    raw = small_files[1][0].read_bytes()
    path = tmp_path / "altered.oc"
    for place in range(0, len(raw), max(1, len(raw) // 600)):
        path.write_bytes(raw[:place] + bytes([raw[place] ^ 1]) + raw[place + 1 :])
        with pytest.raises(ModelError):
            load(path)


def sealed(header, data):
    """Return a file of any header with a checksum that fits."""
    text = json.dumps(header, separators=(",", ":")).encode()
    raw = struct.pack("<Q", len(text)) + text + data
    start, stop = container.MARK.search(raw).span(1)
    blank = raw[:start] + b"0" * 64 + raw[stop:]
    return raw[:start] + hashlib.sha256(blank).hexdigest().encode() + raw[stop:]


@pytest.mark.parametrize(
    "change",
    [
        {"shape": [2**40, 4]},
        {"shape": [2**62, 2**62]},
        {"shape": [2**40, 4], "data_offsets": [0, 2**45]},
        {"shape": [-1]},
        {"data_offsets": [8, 0]},
        {"dtype": "F16"},
        {"dtype": "C64"},
        {"dtype": 3},
    ],
    ids=str,
)
def test_sizes_are_checked_before_memory_is_taken(change, small_files, tmp_path):
    raw = small_files[0][0].read_bytes()
    stop = 8 + struct.unpack("<Q", raw[:8])[0]
    header = json.loads(raw[8:stop])
    path = tmp_path / "model.oc"
    path.write_bytes(sealed(header, raw[stop:]))
    load(path)
    header["machine_.dual_coef_"].update(change)
    path.write_bytes(sealed(header, raw[stop:]))
    tracemalloc.start()
    with pytest.raises(ModelError):
        load(path)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 2**20


def blindly_changed(raw, rng):
    """Return a file with flipped bytes, cut, spliced or with parts repeated."""
    a, b = sorted(rng.randrange(len(raw)) for _ in range(2))
    kind = rng.randrange(5)
    if kind == 0:
        changed = bytearray(raw)
        for _ in range(rng.randint(1, 8)):
            changed[rng.randrange(len(raw))] = rng.randrange(256)
        return bytes(changed)
    parts = [raw[:a], raw[:a] + raw[b:], raw[:b] + raw[a:], raw[:a] + raw[a:b][::-1] + raw[b:]]
    return parts[kind - 1]


JUNK = [None, True, -1, 0, 1, 2**70, 1e308, -1e308, "", "rbf", "linear", "precomputed", "SVM"]
JUNK += [
    [],
    {},
    [0],
    {"tensor": "bias_", "order": "C"},
    {"element": {"class": "SVM", "params": {}}},
]
JUNK += ["Hamming", "os.system", "__class__", {"list": [{"list": []}] * 3}, {"map": [1, 2]}, 5, 0.5]
JUNK += [{"number": "nan"}, {"dtype": "float32"}, "x" * 5000, 10**12]


def places(item, found):
    """Collect every (container, key) of a JSON document."""
    pairs = item.items() if isinstance(item, dict) else enumerate(item)
    for key, value in list(pairs):
        found.append((item, key))
        if isinstance(value, dict | list):
            places(value, found)
    return found


def forged_document(document, rng):
    for _ in range(rng.randint(1, 3)):
        where, key = rng.choice(places(document, []))
        kind = rng.randrange(4)
        if kind == 0:
            where[key] = rng.choice(JUNK)
        elif kind == 1 and isinstance(where, dict):
            where[rng.choice(["x", "class", "state", "_door", str(key) + "_"])] = where.pop(key)
        elif kind == 2 and isinstance(where, list):
            where.append(where[key])
        else:
            other, name = rng.choice(places(document, []))
            where[key] = json.loads(json.dumps(other[name]))


def forged_tensors(tensors, rng):
    for _ in range(rng.randint(1, 3)):
        name = rng.choice(sorted(tensors))
        array = tensors[name]
        kind = rng.choice([0, 0, 0, 0, 1, 2, 3, 4, 5, 6])
        if kind == 0 and array.size:
            value = rng.choice([np.nan, np.inf, 0.5, 1, -1, 1e300, -1e300, 127, 2, 0, -128])
            with np.errstate(invalid="ignore"):
                tensors[name].flat[rng.randrange(array.size)] = np.array(value).astype(array.dtype)
        elif kind == 1 and len(array.shape):
            tensors[name] = array[: rng.randrange(len(array) + 1)]
        elif kind == 2:
            tensors[name] = np.vstack([np.atleast_2d(array)] * 2)
        elif kind == 3:
            tensors[name] = array.astype(rng.choice(["f4", "f8", "i4", "i8", "i1", "u1", "u8"]))
        elif kind == 4:
            tensors[name] = np.ascontiguousarray(array.T).reshape(
                rng.choice([array.T.shape, (-1,)])
            )
        elif kind == 5:
            tensors[name + "x"] = tensors.pop(name)
        else:
            tensors[name] = tensors[rng.choice(sorted(tensors))]


def forged(path, rng):
    """Return a file whose checksum is right and whose content is not."""
    document, tensors = container.read(path)
    document.pop("sha256")
    if rng.random() < 0.6:
        forged_document(document, rng)
    if rng.random() < 0.6:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            forged_tensors(tensors, rng)
    return container.to_bytes(document, {k: np.ascontiguousarray(v) for k, v in tensors.items()})


def outcome(path, scores):
    """Load and use a model; return "refused", "same" or "other"."""
    try:
        model = load(path)
    except ModelError:
        return "refused"
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        try:
            found = model.decision_function(NEW)
            model.predict(NEW)
            if hasattr(model, "predict_proba"):
                model.predict_proba(NEW)
        except ValueError:  # another model may refuse these rows: its columns have other names
            return "other"
    return "same" if np.array_equal(found, scores) else "other"


def test_blindly_changed_files_are_refused_or_harmless(small_files, tmp_path):
    rng, path, seen = random.Random(0), tmp_path / "model.oc", set()
    for i in range(1200):
        source, scores = small_files[i % len(small_files)]
        path.write_bytes(blindly_changed(source.read_bytes(), rng))
        seen.add(outcome(path, scores))
    assert seen <= {"refused", "same"}
    assert "refused" in seen


def test_forged_files_are_refused_or_work(small_files, tmp_path):
    rng, path, seen = random.Random(1), tmp_path / "model.oc", []
    for i in range(1300):
        source, scores = small_files[i % len(small_files)]
        path.write_bytes(forged(source, rng))
        seen.append(outcome(path, scores))
    assert seen.count("refused") > 600
    assert seen.count("other") > 10  # values that are possible, of another model
