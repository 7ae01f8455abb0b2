"""The estimators a model file may hold, the whole table of classes, and checks of parameters."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass, fields
from itertools import pairwise
from typing import Any

import numpy as np
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import StandardScaler

from outcode import classifier, codes, decoders, kernels, losses, machines, sbc, spoc
from outcode.datasets import EncodedColumn, TableEncoder
from outcode.datasets.encoding import COLUMN_KINDS
from outcode.datasets.topics import BUCKETS
from outcode.decoders import coupling
from outcode.persistence import elements
from outcode.persistence.kinds import (
    Kind,
    Labels,
    Number,
    Numbers,
    Optional,
    Place,
    Strings,
    Whole,
    Word,
    reals,
    signs,
)
from outcode.persistence.tree import Element, Part, Parts, set_attributes

# --- encoders ---


@dataclass(frozen=True)
class Columns:
    """How each column of a table becomes numbers."""

    def write(self, value: Any, place: Place) -> list[dict[str, Any]]:
        return [{k: _plain(v) for k, v in asdict(column).items()} for column in value]

    def read(self, item: Any, place: Place) -> tuple[EncodedColumn, ...]:
        if not isinstance(item, list) or len(item) > place.sizes["n_features"]:
            raise place.fault("not a list of some of the columns")
        columns = tuple(self._column(one, place) for one in item)
        if len({column.name for column in columns}) < len(columns):
            raise place.fault("two columns have the same name")
        return columns

    def _column(self, item: Any, place: Place) -> EncodedColumn:
        f = place.fields(item, *(one.name for one in fields(EncodedColumn)))
        kind = Word(COLUMN_KINDS).read(f["kind"], place)
        words = kind in ("nominal", "text")
        values = Strings("").read(f["values"], place.within()).tolist()
        fill = f["fill"] if words else Number().read(f["fill"], place)
        texts = (f["name"], f["marks"], fill if kind == "nominal" else "")
        if not all(isinstance(text, str) for text in texts):
            raise place.fault("names, marks and values of a nominal column are text")
        if not isinstance(f["indicator"], bool) or len(set(values)) < len(values):
            raise place.fault("an indicator is true or false, the values of a column are distinct")
        shift, scale, knots = (self._numbers(f[n], place) for n in ("shift", "scale", "knots"))
        column = EncodedColumn(
            f["name"], kind, fill, f["indicator"], (*values,), shift, scale, knots,
            Whole().read(f["topics"], place), f["marks"],
        )  # fmt: skip
        if not column.outputs or not column.consistent:
            raise place.fault("a column is left without numbers, or has too many")
        return column

    def _numbers(self, items: Any, place: Place) -> tuple[float, ...]:
        if not isinstance(items, list):
            raise place.fault("not a list of numbers")
        return tuple(Number().read(one, place) for one in items)


def _plain(value: Any) -> Any:
    return list(value) if isinstance(value, tuple) else value


def _encoder(encoder: Any, values: dict[str, Any]) -> None:
    """Put an encoder together whose topics and columns agree."""
    set_attributes(encoder, values)
    encoder.sparse_scale_ = values["sparse_scale_"]
    counts = [column.topics for column in encoder.columns_ if column.topics]
    shapes = (len(counts), BUCKETS), (sum(counts), BUCKETS)
    if (encoder.idf_.shape, encoder.topics_.shape) != shapes:
        raise ValueError("the columns have other topics than the encoder")
    if bool(encoder.columns_) == (encoder.sparse_scale_ is not None):
        raise ValueError("an encoder has columns, or the scales of a sparse table")
    if not len(encoder.get_feature_names_out()):
        raise ValueError("an encoder is left without numbers")


# --- estimators ---

DOOR: dict[str, Kind] = {
    "n_features_in_": Whole(1, "n_features"),
    "feature_names_in_": Optional(Strings("n_features")),
}


def _output_code(clf: Any, values: dict[str, Any]) -> None:
    set_attributes(clf, values)
    _check_same_code(clf)
    clf._door = classifier._rules(clf.machine_)


def _check_same_code(clf: Any) -> None:
    if not np.array_equal(clf.code_, clf.decoder_.code_):
        raise ValueError("the decoder reads another code")


def _pack_spoc(clf: Any) -> dict[str, Any]:
    if not hasattr(clf, "coef_"):
        return elements.pack_expansion(clf)
    return {  # M is all a linear kernel needs: no row is kept
        **vars(clf),
        "gram_dtype_": np.dtype(clf.gram_dtype_).name,
        "dual_coef_": clf.dual_coef_[:0],
        "sets": np.ones((1, len(clf.classes_)), dtype=np.uint8),
        "use": np.empty(0, dtype=np.int64),
    }


def _spoc(clf: Any, values: dict[str, Any]) -> None:
    linear = clf.kernel == "linear" and values["kernel_"] is not None
    if linear != (values["coef_"] is not None):
        raise ValueError("a linear kernel has a coef_, no other has")
    if linear:
        set_attributes(clf, {k: v for k, v in values.items() if k not in ("sets", "use", "rows_")})
    else:
        elements.unpack_expansion(clf, values)
    clf.tau_ = clf.dual_coef_ * clf.beta


def _single_binary(clf: Any, values: dict[str, Any]) -> None:
    set_attributes(clf, values)
    clf.decoder_ = values["decoder_"]
    if clf.decoder_ is not None:
        _check_same_code(clf)
    elif clf.code_.shape[0] != clf.code_.shape[1]:
        raise ValueError("a column per class is needed where no decoder reads the code")


def _pack_single_binary(clf: Any) -> dict[str, Any]:
    if not hasattr(clf, "dual_coef_"):
        return {}
    return {**vars(clf), "dual_coef_": np.ascontiguousarray(clf.dual_coef_[clf.support_])}


def _scaler(scaler: Any, values: dict[str, Any]) -> None:
    set_attributes(scaler, values)
    scaler.mean_, scaler.scale_, scaler.var_ = (values[n] for n in ("mean_", "scale_", "var_"))


def _pipeline(pipeline: Any, values: dict[str, Any]) -> None:
    steps, names = [*values["encoders"], values["model"]], values["names"].tolist()
    if len(names) != len(steps) or len(set(names)) != len(names):
        raise ValueError("every step needs a name of its own")
    for before, after in pairwise(steps):
        if len(before.get_feature_names_out()) != after.n_features_in_:
            raise ValueError("a step takes another number of features than the one before gives")
    Pipeline.__init__(pipeline, list(zip(names, steps, strict=True)))


def _pack_pipeline(pipeline: Any) -> dict[str, Any]:
    names, steps = zip(*pipeline.steps, strict=True)
    return {"names": names, "encoders": steps[:-1], "model": steps[-1]}


ESTIMATORS = [
    Element(
        classifier.OutputCodeClassifier,
        "model",
        {
            **DOOR,
            "classes_": Labels("n_classes"),
            "code_": signs("n_classes", "n_dichotomies"),
            "machine_": Part(("machine",)),
            "decoder_": Part(("decoder",)),
        },
        unpack=_output_code,
        left_out=("labels_", "sample_weight_"),
    ),
    Element(
        spoc.SPOC,
        "model",
        {
            **DOOR,
            "classes_": Labels("n_dichotomies"),
            **elements.EXPANSION,
            "coef_": Optional(reals("n_dichotomies", "n_features")),
            "temperature_": Optional(Number(low=1e-9)),
        },
        pack=_pack_spoc,
        unpack=_spoc,
    ),
    Element(
        sbc.SingleBinaryClassifier,
        "model",
        {
            **DOOR,
            "classes_": Labels("n_classes"),
            "code_": signs("n_classes", "n_dichotomies"),
            "class_kernel_": reals("n_dichotomies", "n_dichotomies"),
            "kernel_weights_": reals("n_kernels", low=0.0),
            "bias_": Number(),
            "dual_coef_": reals("n_support", "n_dichotomies"),
            "machine_": Part(("machine",)),
            "decoder_": Optional(Part(("decoder",))),
            "temperature_": Optional(Number(low=1e-9)),
        },
        pack=_pack_single_binary,
        unpack=_single_binary,
    ),
    Element(
        Pipeline,
        "model",
        {"names": Strings("n_steps"), "encoders": Parts("encoder"), "model": Part(("model",))},
        pack=_pack_pipeline,
        unpack=_pipeline,
        bare=True,
    ),
]

ENCODERS = [
    Element(
        TableEncoder,
        "encoder",
        {
            **DOOR,
            "columns_": Columns(),
            "idf_": Numbers(("n_embedded", "n_buckets"), np.float32, 0.0),
            "topics_": Numbers(("n_topics", "n_buckets"), np.float32),
            "sparse_scale_": Optional(reals("n_features", low=0.0)),
        },
        unpack=_encoder,
    ),
    Element(
        StandardScaler,
        "encoder",
        {
            **DOOR,
            "mean_": Optional(reals("n_features")),
            "scale_": Optional(reals("n_features")),
            "var_": Optional(reals("n_features", low=0.0)),
        },
        unpack=_scaler,
    ),
]

#: Every class a file may name.
TABLE: dict[str, Element] = {
    element.kind.__name__: element
    for room in (
        ESTIMATORS,
        ENCODERS,
        elements.MACHINES,
        elements.DECODERS,
        elements.SPACES,
        elements.CODES,
    )
    for element in room
}

# --- what parameters may be: the same name means the same everywhere ---

Check = Callable[[Any], bool]


def _number(low: float, *words: str | None) -> Check:
    """A number beyond ``low``, or one of these words."""

    def check(value: Any) -> bool:
        if isinstance(value, str) or value is None:
            return value in words
        return isinstance(value, int | float) and not isinstance(value, bool) and value > low

    return check


def _count(low: int, *words: str | None) -> Check:
    """A whole number of at least ``low``, or one of these words."""

    def check(value: Any) -> bool:
        if isinstance(value, str) or value is None:
            return value in words
        return type(value) is int and value >= low

    return check


def _word(*words: str) -> Check:
    return lambda value: isinstance(value, str) and value in words


def _given(kinds: Any, *words: str | None) -> Check:
    """One of these words, or an object of these kinds."""

    def check(value: Any) -> bool:
        word = isinstance(value, str) or value is None
        return value in words if word else isinstance(value, kinds)

    return check


NUMBERS = (np.ndarray, list, tuple)

PARAMETERS: dict[str, Check] = {
    "kernel": _word(*kernels.KERNELS, "precomputed"),
    "gamma": _number(0, "scale", "auto"),
    "degree": _number(-np.inf),
    "coef0": _number(-np.inf),
    "C": _number(0),
    "beta": _number(0),
    "lambda1": _number(-1),
    "lambda2": _number(-1),
    "bias": _word("kernel", "free", "none"),
    "tol": _number(0),
    "kernel_tol": _number(0),
    "max_memory": _number(-1, None),
    "max_iter": _count(0),
    "max_updates": _count(0),
    "dtype": _given(np.dtype, None, "float32", "float64", "f4", "f8", "float"),
    "class_weight": _given(dict, None, "balanced"),
    "n_jobs": _count(-(2**31), None),
    "random_state": _count(0, None),
    "verbose": _given(int),
    "code": _given((codes.Code, *NUMBERS), *codes.CODES),
    "machine": _given(machines.Machine, *machines.MACHINES),
    "decoder": _given(decoders.Decoder, *decoders.DECODERS),
    "folds": _count(2, None),
    "loss": _word(*losses.LOSSES),
    "targets": _word("smoothed", "hard"),
    "invalid": _word("renormalise", "uniform"),
    "temperature": _given(bool),
    "method": _word(*coupling.METHODS),
    "norm": lambda value: isinstance(value, int | str) and value in (1, 2, "inf"),
    "k": _count(1, None),
    "space": _word("input", "kernel"),
    "extension": _given(NUMBERS, *sbc.EXTENSIONS),
    "class_kernel": _word(*sbc.CLASS_KERNELS),
    "class_gamma": _number(0, None),
    "radius": _number(0, "sqrt"),
    "weights": _given(NUMBERS, "learned", "prior"),
    "update": _word("paper", "alternating"),
    "n_columns": _count(1, None),
    "n_draws": _count(1),
    "scale": _given((), None, "standard", "unit"),
    "max_values": _count(1),
    "topics": _count(0),
    "tails": _given((), None, "log", "quantile"),
    "with_mean": _given(bool),
    "with_std": _given(bool),
    "copy": _given(bool),
}
