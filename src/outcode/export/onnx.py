"""A description as an ONNX model of plain operators, in float64."""

from __future__ import annotations

from typing import Any

import numpy as np

from outcode._checks import Array
from outcode.export.description import Description
from outcode.formula import COMPARISONS, OPERATORS, Constant, Symbol, steps
from outcode.saved import ModelError

#: Versions of the operators and of the file: old enough for the runtimes of the last years.
OPSET, IR = 17, 8
#: Bytes that a model may have: the format allows no more than 2 GB.
LARGEST = 2**31 - 2**20


def model(description: Description) -> Any:
    """Return the onnx.ModelProto of a description."""
    try:
        from onnx import TensorProto, helper
    except ImportError:
        raise ImportError(
            'Export to ONNX needs the package onnx: pip install "outcode[onnx]".'
        ) from None
    graph = Graph()
    for name, output in description.outputs.items():
        graph.output(name, output, description.classes if name == "label" else None)
    info, double, classes = helper.make_tensor_value_info, TensorProto.DOUBLE, description.classes
    given = info("X", double, ["n_rows", len(description.columns)])
    width: list[Any] = ["n_rows", len(classes)]
    told = [
        info(name, _type(classes), width[:1]) if name == "label" else info(name, double, width)
        for name in description.outputs
    ]
    made = helper.make_graph(graph.nodes, "outcode", [given], told, graph.constants)
    opset = [helper.make_opsetid("", OPSET)]
    found = helper.make_model(
        made, opset_imports=opset, ir_version=IR, producer_name="outcode",
        producer_version=description.metadata["outcode"],
    )  # fmt: skip
    helper.set_model_props(found, description.metadata)
    return found


def _type(classes: Array) -> int:
    """Return the type of labels: whole numbers, numbers or truth values as they are, else text."""
    from onnx import TensorProto

    kinds = {"i": "INT64", "u": "INT64", "f": "DOUBLE", "b": "BOOL"}
    return int(getattr(TensorProto, kinds.get(classes.dtype.kind, "STRING")))


class Graph:
    """Nodes and constants of a model, written one symbol after the other."""

    def __init__(self) -> None:
        self.nodes: list[Any] = []
        self.constants: list[Any] = []
        self.names: dict[int, str] = {}
        self.kept: list[Any] = []  # what ids in names stand for must live

    def add(self, operator: str, *inputs: str, name: str = "", **attributes: Any) -> str:
        """Add a node and return the name of its output."""
        from onnx import helper

        name = name or f"v{len(self.nodes)}"
        self.nodes.append(helper.make_node(operator, inputs, [name], **attributes))
        return name

    def constant(self, value: Any) -> str:
        """Add numbers or texts that are known."""
        from onnx import helper

        array = np.asarray(value)
        name, kind = f"c{len(self.constants)}", _type(array)
        if array.dtype.kind in "OUS":
            flat: Any = [str(text).encode() for text in array]
            self.constants.append(helper.make_tensor(name, kind, array.shape, flat))
        else:
            wide = array.astype(helper.tensor_dtype_to_np_dtype(kind))
            made = helper.make_tensor(name, kind, array.shape, wide.tobytes(), raw=True)
            self.constants.append(made)
        return name

    def output(self, name: str, symbol: Symbol, classes: Array | None) -> None:
        """Add a symbol and all it is computed from; of a place among classes, the class."""
        for step in steps([symbol]):
            if id(step) not in self.names:
                self.kept.append(step)
                self.names[id(step)] = self._step(step)
        found = self.names[id(symbol)]
        if classes is None:
            self.add("Identity", found, name=name)
        else:
            self.add("Gather", self.constant(classes), found, name=name, axis=0)

    def _step(self, step: Symbol) -> str:
        if step.name == "input":
            return "X"
        inputs = [self._name(part) for part in step.parts]
        if step.name in OPERATORS:
            return self._elementwise(step.name, inputs)
        return str(getattr(self, f"_{step.name}")(step, *inputs))

    def _name(self, part: Symbol | Constant) -> str:
        if isinstance(part, Constant) and id(part) not in self.names:
            self.kept.append(part)
            self.names[id(part)] = self.constant(part.value)
        return self.names[id(part)]

    def _elementwise(self, name: str, inputs: list[str]) -> str:
        from onnx import TensorProto

        if name == "where":
            inputs[0] = self.add("Cast", inputs[0], to=TensorProto.BOOL)
        found = self.add(OPERATORS[name][0], *inputs)
        return self.add("Cast", found, to=TensorProto.DOUBLE) if name in COMPARISONS else found

    def _matmul(self, step: Symbol, left: str, right: str) -> str:
        return self.add("MatMul", left, right)

    def _sum(self, step: Symbol, value: str) -> str:
        return self.add("ReduceSum", value, self.constant(np.array([-1])), keepdims=1)

    def _max(self, step: Symbol, value: str) -> str:
        return self.add("ReduceMax", value, axes=[-1], keepdims=1)

    def _argmax(self, step: Symbol, value: str) -> str:
        return self.add("ArgMax", value, axis=-1, keepdims=1)

    def _reshape(self, step: Symbol, value: str) -> str:
        return self.add("Reshape", value, self.constant(np.array([0, *step.shape])))

    def _take(self, step: Symbol, value: str, places: str) -> str:
        return self.add("Gather", value, places, axis=-1)

    def _join(self, step: Symbol, *values: str) -> str:
        return self.add("Concat", *values, axis=-1)

    def _city_block(self, step: Symbol, x: str, rows: str) -> str:
        """Add up |x_j - z_j| feature by feature: no more memory than the distances take."""
        from onnx import TensorProto, helper

        n_features, n_rows = step.parts[1].shape[1], step.shape[0]
        zeros = self.add("MatMul", x, self.constant(np.zeros((n_features, n_rows))))
        double, axis = TensorProto.DOUBLE, f"{zeros}_axis"
        info = helper.make_tensor_value_info
        body = helper.make_graph(
            [
                helper.make_node("Unsqueeze", ["x_j", axis], ["x"]),
                helper.make_node("Sub", ["x", "z_j"], ["apart"]),
                helper.make_node("Abs", ["apart"], ["size"]),
                helper.make_node("Add", ["before", "size"], ["after"]),
            ],
            "city_block",
            [info("before", double, None), info("x_j", double, None), info("z_j", double, None)],
            [info("after", double, None)],
            [helper.make_tensor(axis, TensorProto.INT64, [1], [1])],
        )
        turned = self.add("Transpose", x, perm=[1, 0]), self.add("Transpose", rows, perm=[1, 0])
        return self.add("Scan", zeros, *turned, body=body, num_scan_inputs=2)


def runner(model: Any) -> Any:
    """Return a function that runs a model in onnxruntime: rows -> outputs by name."""
    try:
        import onnxruntime
    except ImportError:
        raise ImportError(
            'Each export is compared with the model in onnxruntime: pip install "outcode[onnx]".'
        ) from None
    if model.ByteSize() > LARGEST:
        raise ModelError(
            f"The model has {model.ByteSize():,} bytes, more than an ONNX file can hold: use fewer "
            f"support rows, for example machine='nystrom'."
        )
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(
        model.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    names = [output.name for output in session.get_outputs()]
    return lambda x: dict(zip(names, session.run(names, {"X": x}), strict=True))
