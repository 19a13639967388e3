"""Replaces inputs of an ONNX model with values, and sets the lengths of dimensions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx

from firmwright.errors import UserError
from firmwright.models.importing import check_input_names


def fix_inputs(
    data: bytes, name: str, values: Mapping[str, Any], dimensions: Mapping[str, int]
) -> bytes:
    """Return a model in which ``values`` are constants and the named ``dimensions`` have lengths.

    A value is a number, a Boolean, or a list of numbers or Booleans in row order. A single number
    fills all elements of an input, and open lengths become 1. Raises UserError if the model does
    not have an input or a dimension. Raises UserError if a value does not fit the input's type or
    shape.
    """
    model = onnx.load_model_from_string(data)
    name_lengths(model.graph, name, dimensions)
    ports = {port.name: port for port in model.graph.input}
    check_input_names(name, values, ports)
    for label, value in values.items():
        array = make_array(ports[label], name, value)
        known = [t for t in model.graph.initializer if t.name == label]
        for tensor in known:
            model.graph.initializer.remove(tensor)
        model.graph.initializer.append(onnx.numpy_helper.from_array(array, label))
        model.graph.input.remove(ports[label])
    fixed: bytes = model.SerializeToString(deterministic=True)
    return fixed


def name_lengths(graph: onnx.GraphProto, name: str, dimensions: Mapping[str, int]) -> None:
    lengths = [d for port in graph.input for d in port.type.tensor_type.shape.dim]
    named = dict.fromkeys(d.dim_param for d in lengths if d.dim_param)
    for label in dimensions:
        if label not in named:
            known = ", ".join(named) or "none"
            raise UserError(
                f"{name}: dimensions: the inputs have no dimension '{label}'; use one of their "
                f"dimensions: {known}"
            )
    for length in lengths:
        if length.dim_param in dimensions:
            length.dim_value = dimensions[length.dim_param]


def make_array(port: onnx.ValueInfoProto, name: str, value: Any) -> npt.NDArray[Any]:
    """Return a value in the type and shape of the input. A list has the elements in row order."""
    kind, label = port.type.tensor_type, f"{name}: inputs: {port.name}"
    dtype = onnx.helper.tensor_dtype_to_np_dtype(kind.elem_type)
    given = np.array(value)
    array = given.astype(dtype)
    if dtype.kind in "biu" and not np.array_equal(array, given):
        raise UserError(
            f"{label}: value {value} is not of the input's type, {dtype}; "
            "state a value of this type"
        )
    declared = [d.dim_value if d.dim_value > 0 else -1 for d in kind.shape.dim]
    if array.ndim == 0:
        return np.full([abs(d) for d in declared], array, dtype)
    try:
        return array.reshape(declared)
    except ValueError:
        shown = [d.dim_param or d.dim_value for d in kind.shape.dim]
        raise UserError(
            f"{label}: the value has {array.size} elements; the input's shape is {shown}; "
            "state one number for all elements, or one number for each"
        ) from None
