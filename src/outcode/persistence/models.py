"""Classes of other libraries that a model file may hold, and what parameters may be."""

from __future__ import annotations

from dataclasses import asdict, dataclass, fields
from itertools import pairwise
from typing import Any

import numpy as np
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import StandardScaler

from outcode import classifier, codes, decoders, kernels, losses, machines
from outcode.datasets import EncodedColumn, TableEncoder
from outcode.datasets.encoding import COLUMN_KINDS
from outcode.datasets.topics import BUCKETS
from outcode.decoders import coupling, loss
from outcode.machines.class_kernels import CLASS_KERNELS, EXTENSIONS
from outcode.machines.nystrom import LOSSES as NYSTROM_LOSSES
from outcode.persistence.tree import Check, Element, Tree
from outcode.saved import (
    Number,
    Numbers,
    Optional,
    Part,
    Parts,
    Place,
    Strings,
    Whole,
    Word,
    reals,
    set_attributes,
)

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
            Whole(high=BUCKETS).read(f["topics"], place), f["marks"],
        )  # fmt: skip
        if not column.n_outputs or not column.consistent:
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
    if not encoder.n_features_out_:
        raise ValueError("an encoder is left without numbers")


# --- pipelines and encoders ---

#: What every estimator of scikit-learn keeps of the rows it was fitted on.
INPUT = {
    name: classifier.Classifier.saved[name] for name in ("n_features_in_", "feature_names_in_")
}


def _scaler(scaler: Any, values: dict[str, Any]) -> None:
    set_attributes(scaler, values)
    scaler.mean_, scaler.scale_, scaler.var_ = (values[n] for n in ("mean_", "scale_", "var_"))


def _pipeline(pipeline: Any, values: dict[str, Any]) -> None:
    steps, names = [*values["encoders"], values["model"]], values["names"].tolist()
    if len(names) != len(steps) or len(set(names)) != len(names):
        raise ValueError("every step needs a name of its own")
    for before, after in pairwise(steps):
        if _n_outputs(before) != after.n_features_in_:
            raise ValueError("a step takes another number of features than the one before gives")
    Pipeline.__init__(pipeline, list(zip(names, steps, strict=True)))


def _n_outputs(encoder: Any) -> int:
    """Return how many columns an encoder gives: as many as it takes, where it has no own count."""
    return int(getattr(encoder, "n_features_out_", encoder.n_features_in_))


def _pack_pipeline(pipeline: Any) -> dict[str, Any]:
    names, steps = zip(*pipeline.steps, strict=True)
    return {"names": names, "encoders": steps[:-1], "model": steps[-1]}


FOREIGN = [
    Element(
        Pipeline,
        "model",
        {"names": Strings("n_steps"), "encoders": Parts("encoder"), "model": Part(("model",))},
        pack=_pack_pipeline,
        unpack=_pipeline,
        bare=True,
    ),
    Element(
        TableEncoder,
        "encoder",
        {
            **INPUT,
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
            **INPUT,
            "mean_": Optional(reals("n_features")),
            "scale_": Optional(reals("n_features")),
            "var_": Optional(reals("n_features", low=0.0)),
        },
        unpack=_scaler,
    ),
]

# --- what parameters may be: the same name means the same everywhere ---


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


def _kernel(value: Any) -> bool:
    """The name of a kernel, or the formula of a mixture."""
    if not isinstance(value, str):
        return False
    try:
        return not kernels.named(value).mixes or bool(kernels.Mixture.parse(value))
    except ValueError:
        return False


NUMBERS = (np.ndarray, list, tuple)

PARAMETERS: dict[str, Check] = {
    "kernel": _kernel,
    "gamma": lambda value: isinstance(value, NUMBERS) or _number(0, "scale", "auto", "loo")(value),
    "degree": _number(-np.inf),
    "coef0": _number(-np.inf),
    "C": _number(0, "cv"),
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
    "machine": _given(machines.Machine, None, *machines.MACHINES),
    "decoder": _given(decoders.Decoder, None, *decoders.DECODERS),
    "folds": _count(2, None),
    "loss": _word(*losses.LOSSES, *NYSTROM_LOSSES),
    "outputs": _word(*loss.OUTPUTS),
    "targets": _word("smoothed", "hard"),
    "invalid": _word("renormalise", "uniform"),
    "temperature": lambda value: value is None or isinstance(value, bool | float),
    "slope": _number(0, None),
    "strength": _number(0),
    "method": _word(*coupling.METHODS),
    "norm": lambda value: isinstance(value, int | str) and value in (1, 2, "inf"),
    "k": _count(1, None),
    "space": _word("input", "kernel"),
    "extension": _given(NUMBERS, *EXTENSIONS, "ecoc"),
    "class_kernel": _word(*CLASS_KERNELS),
    "class_gamma": _number(0, None),
    "radius": _number(0, "sqrt"),
    "weights": _given(NUMBERS, "learned", "prior", *loss.WEIGHTS),
    "update": _word("paper", "alternating"),
    "n_columns": _count(1, None),
    "by": _word("columns", "continuous"),
    "rounds": _count(1),
    "starts": _count(1),
    "n_draws": _count(1),
    "scale": _given((), None, "standard", "unit"),
    "max_values": _count(1),
    "topics": _count(0),
    "tails": _given((), None, "log", "quantile", "auto"),
    "with_mean": _given(bool),
    "with_std": _given(bool),
    "copy": _given(bool),
}

TREE = Tree({element.kind.__name__: element for element in FOREIGN}, PARAMETERS)
