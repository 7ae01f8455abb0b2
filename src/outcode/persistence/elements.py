"""What a model file may hold: every class, what it has learned, and what its parameters may be.

To let a file hold a new element, add its line to the table of its room.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from sklearn.neighbors import NearestNeighbors

from outcode import codes, decoders, losses, machines, sbc
from outcode._checks import lookup
from outcode.decoders import neighbours
from outcode.persistence.kinds import (
    KernelKind,
    Kind,
    Matrix,
    Number,
    Optional,
    RowsKind,
    Whole,
    Word,
    flags,
    reals,
    signs,
    wholes,
)
from outcode.persistence.tree import Element, Part, set_attributes

# --- kernel machines: an expansion over their support rows ---

#: Rows are the support rows; with a precomputed kernel every training row, as prediction asks for
#: kernel values against all of them. ``use`` numbers the set of columns each row takes part in.
EXPANSION: dict[str, Kind] = {
    "kernel_": KernelKind(),
    "gram_dtype_": Word(("float32", "float64")),
    "bias_": reals("n_dichotomies"),
    "dual_coef_": reals("n_rows", "n_dichotomies"),
    "sets": flags("n_sets", "n_dichotomies"),
    "use": wholes("n_rows", high="n_sets"),
    "rows_": Optional(RowsKind("n_rows", "n_features")),
    "origin_": Optional(reals("n_features")),
}


def pack_expansion(machine: Any) -> dict[str, Any]:
    """Take out the support rows of a kernel machine and what belongs to them."""
    if not hasattr(machine, "groups_"):
        return {}
    kept = slice(None) if machine.kernel_ is None else machine.pooled_
    sets = np.zeros((max(1, len(machine.groups_)), len(machine.bias_)), dtype=np.uint8)
    use = np.zeros(len(machine.dual_coef_), dtype=np.int64)
    for number, group in enumerate(machine.groups_):
        sets[number, group.columns] = 1
        use[machine.pooled_[group.start : group.stop]] = number
    return {
        **vars(machine),
        "gram_dtype_": np.dtype(machine.gram_dtype_).name,
        "dual_coef_": np.ascontiguousarray(machine.dual_coef_[kept]),
        "sets": sets,
        "use": use[kept],
        "rows_": getattr(machine, "support_rows_", None),
    }


def unpack_expansion(machine: Any, values: dict[str, Any]) -> None:
    """Make the machine what it would be had it been trained on its support rows alone."""
    sets, use = values.pop("sets"), values.pop("use")
    machine.kernel_, machine.origin_ = values.pop("kernel_"), values.pop("origin_")
    dtype = np.dtype(values.pop("gram_dtype_"))
    set_attributes(machine, values)
    if (machine.kernel_ is None) == hasattr(machine, "rows_"):
        raise ValueError("support rows without a kernel, or a kernel without them")
    machine.pool(sets[use], dtype)


#: What leave-one-out and other decoders would ask for.
LEFT_OUT = "training_margins_", "gram_diagonal_"


def _machine(kind: type[Any]) -> Element:
    state = {**EXPANSION, "relation_": Optional(reals("n_dichotomies", "n_dichotomies"))}
    return Element(kind, "machine", state, pack_expansion, unpack_expansion, LEFT_OUT)


MACHINES = [_machine(kind) for kind in (*machines.MACHINES.values(), sbc.Expansion)]

# --- decoders ---

CODE: dict[str, Kind] = {"code_": signs("n_classes", "n_dichotomies")}
SIGMOIDS: dict[str, Kind] = {
    **CODE,
    "slope_": reals("n_dichotomies", high=0.0),
    "offset_": reals("n_dichotomies"),
    "temperature_": Number(low=1e-9),
}


def _decoder(kind: type[Any], state: Mapping[str, Kind] = CODE, **hooks: Any) -> Element:
    return Element(kind, "decoder", state, **hooks)


def _with_loss(decoder: Any, values: dict[str, Any]) -> None:
    set_attributes(decoder, values)
    decoder.loss_ = lookup(losses.LOSSES, decoder.loss, "loss")


def _sigmoids(decoder: Any, values: dict[str, Any]) -> None:
    set_attributes(decoder, values)
    decoder.check_code(decoder.code_)


def _continuous(decoder: Any, values: dict[str, Any]) -> None:
    set_attributes(decoder, values)
    decoder.origin_ = values["origin_"]
    needed = ["continuous_code_"] if decoder.kernel == "linear" else ["kernel_", "patterns_"]
    if any(values[name] is None for name in needed):
        raise ValueError(f"{' and '.join(needed)} are missing")


def _dynamic(decoder: Any, values: dict[str, Any]) -> None:
    set_attributes(decoder, values)
    decoder.errors_ = {}
    if decoder.search_.size != len(decoder.weight_):
        raise ValueError("there are not as many neighbours as weights")


DECODERS = [
    _decoder(decoders.Hamming),
    _decoder(decoders.Euclidean),
    _decoder(decoders.AttenuatedEuclidean),
    _decoder(decoders.InverseHamming, {**CODE, "inverse_": reals("n_classes", "n_classes")}),
    _decoder(decoders.LossBased, unpack=_with_loss),
    _decoder(
        decoders.LossWeighted, {**CODE, "weights_": reals("n_classes", "n_dichotomies", low=0.0)}
    ),
    _decoder(decoders.Likelihood, SIGMOIDS, unpack=_sigmoids),
    _decoder(
        decoders.Softmax,
        {**CODE, "slope_": Number(low=1e-300), "temperature_": Number(low=1e-9)},
    ),
    _decoder(decoders.PairwiseCoupling, SIGMOIDS, unpack=_sigmoids),
    _decoder(decoders.BradleyTerry, SIGMOIDS, unpack=_sigmoids),
    _decoder(
        decoders.DecisionDAG,
        {
            **CODE,
            "column_": wholes("n_classes", "n_classes", low=-1, high="n_dichotomies"),
            "sign_": signs("n_classes", "n_classes"),
        },
    ),
    _decoder(
        decoders.StaticReliability,
        {**CODE, "reliabilities_": reals("n_dichotomies", low=0.0, high=1.0)},
    ),
    _decoder(
        decoders.DynamicReliability,
        {
            **CODE,
            "k_": Whole(1),
            "norm_part_": reals("n_dichotomies", low=0.0),
            "weight_": reals("n_neighbours", low=1e-300),
            "side_": signs("n_neighbours", "n_dichotomies"),
            "hinge_": reals("n_neighbours", "n_dichotomies", low=0.0),
            "search_": Part(("space",)),
        },
        unpack=_dynamic,
    ),
    _decoder(
        decoders.ContinuousCode,
        {
            **CODE,
            "scale_": Number(low=1e-300),
            "temperature_": Number(low=1e-9),
            "continuous_code_": Optional(reals("n_classes", "n_dichotomies")),
            "kernel_": Optional(KernelKind()),
            "origin_": Optional(reals("n_dichotomies")),
            "patterns_": Optional(RowsKind("n_patterns", "n_dichotomies")),
            "dual_coef_": Optional(reals("n_patterns", "n_classes")),
        },
        unpack=_continuous,
    ),
]

# --- where neighbours are near ---


def _input_space(space: Any, values: dict[str, Any]) -> None:
    space.rows, space.origin = values["rows"], values["origin"]
    space.size, space.sparse = space.rows.shape[0], not isinstance(space.rows, np.ndarray)
    if space.sparse == (space.origin is not None):
        raise ValueError("dense rows have an origin, sparse ones have none")
    space.index = NearestNeighbors(algorithm="brute").fit(space.rows)


def _pack_kernel_space(space: Any) -> dict[str, Any]:
    known = vars(space)
    return known if space.kernel is None else {**known, "kept": None}


def _kernel_space(space: Any, values: dict[str, Any]) -> None:
    given = values["kernel"] is None
    if given != (values["rows"] is None) or given == (values["kept"] is None):
        raise ValueError("neighbours have a kernel and rows, or places among the training rows")
    space.kernel, space.diagonal = values["kernel"], values["diagonal"]
    space.size = len(space.diagonal)
    space.kept = values["kept"] if given else np.arange(space.size)
    if not given:
        space.rows, space.origin = values["rows"], values["origin"]


SPACES = [
    Element(
        neighbours.InputSpace,
        "space",
        {
            "rows": Matrix("n_neighbours", "n_features"),
            "origin": Optional(reals("n_features")),
        },
        unpack=_input_space,
        bare=True,
    ),
    Element(
        neighbours.KernelSpace,
        "space",
        {
            "kept": Optional(wholes("n_neighbours", high="n_features")),
            "diagonal": reals("n_neighbours"),
            "kernel": KernelKind(),
            "rows": Optional(RowsKind("n_neighbours", "n_features")),
            "origin": Optional(reals("n_features")),
        },
        pack=_pack_kernel_space,
        unpack=_kernel_space,
        bare=True,
    ),
]

# --- codes have learned nothing: the matrix is the classifier's ---

CODES = [Element(kind, "code") for kind in codes.CODES.values()]
