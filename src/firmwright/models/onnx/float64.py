"""Evaluates an ONNX model in float64, to decide which of two float32 results is more precise."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

from firmwright.errors import UserError, first_line
from firmwright.ir.tensors import State
from firmwright.models.formats import ReferenceOutputs, Samples
from firmwright.models.onnx.accepted_forms import load_evaluable
from firmwright.models.onnx.domains import get_opset
from firmwright.models.onnx.graph.body import get_attribute
from firmwright.models.onnx.onnxruntime_outputs import take_bytes
from firmwright.models.sequence import run_in_sequence

PER_AXIS_OPSET = 21
"""The first operator set in which ONNX's evaluator supports DequantizeLinear per axis."""


def run_reference(data: bytes, inputs: Samples, states: Sequence[State] = ()) -> ReferenceOutputs:
    """Evaluate the model in float64 with ONNX's reference evaluator.

    Outputs have the model's types. Raises UserError if the evaluator rejects the model.
    """
    from firmwright.models.onnx.graph.evaluator import make_evaluator

    try:
        model = widen_model(load_evaluable(data))
        evaluator = make_evaluator(model)
        types = {o.name: o.type.tensor_type.elem_type for o in model.graph.output}
        names = list(evaluator.output_names)

        def run(sample: dict[str, NDArray[Any]]) -> list[NDArray[Any]]:
            arrays = evaluator.run(None, {name: widen(array) for name, array in sample.items()})
            return [
                np.asarray(array).astype(helper.tensor_dtype_to_np_dtype(types[name]))
                for name, array in zip(names, arrays, strict=True)
            ]

        outputs = run_in_sequence(inputs, states, names, take_bytes(run, model))
    except Exception as error:
        raise UserError(
            f"ONNX's reference evaluator rejects the model: {first_line(error)}; export the model "
            "again, or use another operator"
        ) from error
    return ReferenceOutputs(f"onnx {onnx.__version__} reference evaluator in float64", outputs)


def widen_model(model: onnx.ModelProto) -> onnx.ModelProto:
    """Return a model with its scales and float constants in float64."""
    if get_opset(model) < PER_AXIS_OPSET:
        model = onnx.version_converter.convert_version(model, PER_AXIS_OPSET)
    state_resize_sizes(model)
    for tensor in model.graph.initializer:
        widen_tensor(tensor)
    for node in model.graph.node:
        for attribute in node.attribute:
            if attribute.type == onnx.AttributeProto.TENSOR:
                widen_tensor(attribute.t)
            elif (node.op_type, attribute.name, attribute.i) == ("Cast", "to", TensorProto.FLOAT):
                attribute.i = TensorProto.DOUBLE
    return model


def state_resize_sizes(model: onnx.ModelProto) -> None:
    """Add the size of the result to each Resize with aligned corners.

    ONNX's evaluator computes positions from the scale times the length, for example 4.5. ONNX
    Runtime and PyTorch use the number of result elements, which is 4 in this example.
    """
    aligned = [
        node
        for node in model.graph.node
        if node.op_type == "Resize"
        and get_attribute(node, "coordinate_transformation_mode", "") == "align_corners"
        and not get_attribute(node, "antialias", 0)
        and len(node.input) == 3
    ]
    values = onnx.shape_inference.infer_shapes(model).graph if aligned else model.graph
    shapes = {v.name: v.type.tensor_type.shape.dim for v in (*values.value_info, *values.output)}
    for node in aligned:
        sizes = [d.dim_value for d in shapes.get(node.output[0], ())]
        axes = get_attribute(node, "axes", range(len(sizes)))
        if sizes and all(sizes):
            name = f"{node.output[0]}/sizes"
            wanted = np.array([sizes[axis] for axis in axes], "int64")
            model.graph.initializer.append(numpy_helper.from_array(wanted, name))
            node.input[:] = [node.input[0], "", "", name]


def widen_tensor(tensor: onnx.TensorProto) -> None:
    if tensor.data_type == TensorProto.FLOAT:
        wide = widen(numpy_helper.to_array(tensor))
        tensor.CopyFrom(numpy_helper.from_array(wide, tensor.name))


def widen(array: NDArray[Any]) -> NDArray[Any]:
    return array.astype("float64") if array.dtype == np.float32 else array
