"""Checks an ONNX model in addition to ONNX's checker, before TVM reads the model.

Each rule is a small function. The docstring of a rule is a sentence of the message. The result of a
rule is the wrong value or None. ONNX's checker checks only single nodes, and TVM's importer does
not check the values of attributes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from math import prod
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt
import onnx

from firmwright.errors import UserError, first_line
from firmwright.ir.tensors import LARGEST_TENSOR
from firmwright.models.importing import (
    GraphNode,
    find_duplicates,
    order_problems,
    refuse_problems,
)
from firmwright.models.onnx.accepted_forms import find_graphs, state_shapes
from firmwright.models.onnx.domains import LEAST_INPUTS, MICROSOFT_DOMAIN
from firmwright.models.onnx.graph.body import get_attribute
from firmwright.models.onnx.sparse import element_bytes
from firmwright.models.onnx.subgraphs import find_bad_body, find_bad_branch

T = TypeVar("T")

Array = npt.NDArray[Any]
Shape = tuple[int, ...]

EXPORT_AGAIN = "export the model again, or correct the script that wrote it"


def check_model(model: onnx.ModelProto, name: str) -> None:
    """Raise UserError with all problems of a model that cannot be imported."""
    refuse_problems(f"{name}: not a valid ONNX model:", structure_problems(model), EXPORT_AGAIN)
    try:
        with state_shapes(model.graph.output):
            onnx.checker.check_model(model)
    except (onnx.checker.ValidationError, ValueError) as error:
        problem = f"{name}: not a valid ONNX model: {first_line(error)}"
        raise UserError(f"{problem}; {EXPORT_AGAIN}") from None
    heading = f"{name}: values for which the model's operators are not defined:"
    refuse_problems(heading, value_problems(model), EXPORT_AGAIN)


def structure_problems(model: onnx.ModelProto) -> Iterator[str]:
    graph = model.graph
    if not graph.output:
        yield "the graph has no outputs; expected one output or more"
    for names, what in ((graph.input, "inputs"), (graph.initializer, "initializers")):
        for label in find_duplicates(v.name for v in names):
            yield f"two {what} are named '{label}'; expected different names"
    for node in graph.node:
        yield from reference_problems(node)
    known = ["", *(v.name for v in graph.input), *(t.name for t in graph.initializer)]
    known += [t.values.name for t in graph.sparse_initializer]
    nodes = [
        GraphNode(describe(n), tuple(n.input), tuple(o for o in n.output if o)) for n in graph.node
    ]
    yield from order_problems(known, nodes, [v.name for v in graph.output])


def data_problems(model: onnx.ModelProto) -> Iterator[str]:
    nodes = (node for function in model.functions for node in function.node)
    inner = (tensor for node in nodes for tensor in find_node_tensors(node))
    for tensor in (*find_tensors(model.graph), *inner):
        yield from tensor_problems(tensor)


def find_tensors(graph: onnx.GraphProto) -> Iterator[onnx.TensorProto]:
    yield from graph.initializer
    for sparse in graph.sparse_initializer:
        yield from (sparse.values, sparse.indices)
    for node in graph.node:
        yield from find_node_tensors(node)


def find_node_tensors(node: onnx.NodeProto) -> Iterator[onnx.TensorProto]:
    for attribute in node.attribute:
        single = [attribute.t] if attribute.type == onnx.AttributeProto.TENSOR else ()
        yield from (*single, *attribute.tensors)
        sparse = [attribute.sparse_tensor] if attribute.HasField("sparse_tensor") else ()
        for each in (*sparse, *attribute.sparse_tensors):
            yield from (each.values, each.indices)
        for graph in (*([attribute.g] if attribute.HasField("g") else ()), *attribute.graphs):
            yield from find_tensors(graph)


def reference_problems(node: onnx.NodeProto) -> Iterator[str]:
    """Yield the attributes that refer to attributes of a function outside of functions."""
    for name in (attribute.name for attribute in node.attribute if attribute.ref_attr_name):
        yield f"{describe(node)}: only a node of a function can refer to its attribute '{name}'"


def describe(node: onnx.NodeProto) -> str:
    name = node.name or next((o for o in node.output if o), "")
    return f"{node.op_type} (node '{name}')"


def tensor_problems(tensor: onnx.TensorProto) -> Iterator[str]:
    if tensor.data_location == onnx.TensorProto.EXTERNAL:
        where = next((e.value for e in tensor.external_data if e.key == "location"), "")
        yield (
            f"'{tensor.name}': its data is in another file, '{where}'; download both files, or "
            "export the model as one file. External data is read only for initializers of the "
            "main graph, if the model is a path"
        )
    if tensor.data_type not in onnx.TensorProto.DataType.values():
        yield f"'{tensor.name}': its data has type {tensor.data_type}, which ONNX does not define"
    elif any(d < 0 for d in tensor.dims):
        yield f"'{tensor.name}': its shape {list(tensor.dims)} has a negative length"
    elif tensor.data_location != onnx.TensorProto.EXTERNAL:
        try:
            onnx.numpy_helper.to_array(tensor)
        except (TypeError, ValueError) as error:
            yield f"'{tensor.name}': its data does not fit its shape: {first_line(error)}"


def value_problems(model: onnx.ModelProto) -> Iterator[str]:
    for node in (node for graph in find_graphs(model.graph) for node in graph.node):
        yield from violations(NODE_RULES, node, node)
    values = infer_static_shapes(model)
    shapes = {label: shape for label, (shape, _) in values.items()}
    constants = {t.name: t for t in model.graph.initializer}
    for node in model.graph.node:
        yield from violations(KNOWN_RULES, make_known_node(node, shapes, constants), node)
        if node.op_type in ("QuantizeLinear", "DequantizeLinear"):
            yield from violations(QDQ_RULES, make_qdq_node(node, constants, shapes), node)
    for label, (shape, size) in values.items():
        if prod(shape) * size > LARGEST_TENSOR:
            yield f"'{label}': a tensor must be smaller than 2 GiB; found shape {list(shape)}"


def violations(
    rules: Iterable[Callable[[T], object]], facts: T, node: onnx.NodeProto
) -> Iterator[str]:
    for rule in rules:
        if finding := rule(facts):
            yield f"{describe(node)}: {rule.__doc__}; found {finding}"


def infer_static_shapes(model: onnx.ModelProto) -> dict[str, tuple[Shape, int]]:
    """Return a dictionary of tensors with static shapes, and the bytes per element.

    The result is incomplete if ONNX cannot infer all shapes of the graph. The option ``data_prop``
    is off, because values need memory.
    """
    try:
        graph = onnx.shape_inference.infer_shapes(model).graph
    except (onnx.shape_inference.InferenceError, RuntimeError, ValueError):
        graph = model.graph
    values = {t.name: (tuple(t.dims), element_bytes(t.data_type)) for t in graph.initializer}
    for value in (*graph.input, *graph.value_info, *graph.output):
        kind = value.type.tensor_type
        if kind.HasField("shape") and all(d.HasField("dim_value") for d in kind.shape.dim):
            shape = tuple(d.dim_value for d in kind.shape.dim)
            values[value.name] = shape, element_bytes(kind.elem_type)
    return values


def find_bad_length(node: onnx.NodeProto) -> str | None:
    """kernel_shape, strides and dilations must be 1 or more"""
    for name in ("kernel_shape", "strides", "dilations"):
        lengths = get_attribute(node, name, [])
        if any(d < 1 for d in lengths):
            return f"{name} {list(lengths)}"
    return None


def find_rank_mismatch(node: onnx.NodeProto) -> str | None:
    """kernel_shape, strides and dilations must have one number per axis, pads two"""
    counts = {n: len(get_attribute(node, n, [])) for n in ("kernel_shape", "strides", "dilations")}
    counts["pads"] = (len(get_attribute(node, "pads", [])) + 1) // 2 if has_window(node) else 0
    if len({c for c in counts.values() if c}) > 1:
        return ", ".join(f"{n} {list(get_attribute(node, n, []))}" for n, c in counts.items() if c)
    return None


def find_bad_pads(node: onnx.NodeProto) -> str | None:
    """the pads of a convolution or pooling must be 0 or more, and less than 2^31"""
    pads = get_attribute(node, "pads", []) if has_window(node) else []
    return f"pads {list(pads)}" if any(not 0 <= p < 2**31 for p in pads) else None


def find_bad_group(node: onnx.NodeProto) -> str | None:
    """group must be 1 or more"""
    group = get_attribute(node, "group", 1)
    return f"group {group}" if isinstance(group, int) and group < 1 else None


def find_missing_inputs(node: onnx.NodeProto) -> str | None:
    """an operator of com.microsoft must have all inputs that its definition requires"""
    least = LEAST_INPUTS.get(node.op_type, 0) if node.domain == MICROSOFT_DOMAIN else 0
    given = [i for i in node.input[:1] if i] and list(node.input)
    return f"{len(given)} of {least} inputs" if len(given) < least else None


def has_window(node: onnx.NodeProto) -> bool:
    return "Conv" in node.op_type or node.op_type.endswith("Pool")


NODE_RULES: tuple[Callable[[onnx.NodeProto], str | None], ...] = (
    find_bad_length,
    find_rank_mismatch,
    find_bad_pads,
    find_bad_group,
    find_missing_inputs,
    find_bad_branch,
    find_bad_body,
)


@dataclass(frozen=True)
class QdqNode:
    """A QuantizeLinear or DequantizeLinear. Values that are not constants are None."""

    scale: Array | None
    zero_point: Array | None
    data: onnx.TensorProto | None
    shape: Shape | None
    axis: int
    blocked: bool


def make_qdq_node(
    node: onnx.NodeProto, constants: dict[str, onnx.TensorProto], shapes: dict[str, Shape]
) -> QdqNode:
    inputs = [*node.input, "", ""][:3]
    scale, zero_point = (read_constant(constants.get(i)) for i in inputs[1:])
    return QdqNode(
        scale=scale,
        zero_point=zero_point,
        data=constants.get(inputs[0]) if node.op_type == "DequantizeLinear" else None,
        shape=shapes.get(inputs[0]),
        axis=get_attribute(node, "axis", 1),
        blocked=get_attribute(node, "block_size", 0) != 0,
    )


def read_constant(tensor: onnx.TensorProto | None) -> Array | None:
    """Return a constant's values. Return None if the data does not fill the shape."""
    try:
        return None if tensor is None else np.asarray(onnx.numpy_helper.to_array(tensor))
    except (TypeError, ValueError):
        return None


def find_bad_scale(node: QdqNode) -> str | None:
    """a scale must be a positive finite number"""
    if node.scale is None or node.scale.dtype.kind != "f":
        return None
    wrong = node.scale[~(np.isfinite(node.scale) & (node.scale > 0))]
    return f"{wrong.flat[0]}" if wrong.size else None


def find_zero_point_mismatch(node: QdqNode) -> str | None:
    """there must be as many zero points as scales"""
    if node.scale is None or node.zero_point is None or node.scale.size == node.zero_point.size:
        return None
    return f"{node.zero_point.size} zero points for {node.scale.size} scales"


def find_bad_zero_point_type(node: QdqNode) -> str | None:
    """a zero point must have the type of the quantized data"""
    if node.data is None or node.zero_point is None:
        return None
    dtype = onnx.helper.tensor_dtype_to_np_dtype(node.data.data_type)
    return None if node.zero_point.dtype == dtype else f"{node.zero_point.dtype} for {dtype}"


def find_bad_scale_rank(node: QdqNode) -> str | None:
    """a tensor must have one scale, or one per channel"""
    if node.scale is None or node.blocked or node.scale.ndim < 2:
        return None
    return f"scales of shape {list(node.scale.shape)}"


def find_bad_axis(node: QdqNode) -> str | None:
    """the axis of scales per channel must be an axis of the data"""
    if node.scale is None or node.shape is None or node.scale.size == 1:
        return None
    rank = len(node.shape)
    return None if -rank <= node.axis < rank else f"axis {node.axis} for {rank} axes"


def find_channel_mismatch(node: QdqNode) -> str | None:
    """there must be as many scales per channel as channels"""
    if node.scale is None or node.shape is None or node.scale.ndim != 1 or node.scale.size == 1:
        return None
    if node.blocked or find_bad_axis(node) or node.scale.size == node.shape[node.axis]:
        return None
    return f"{node.scale.size} for {node.shape[node.axis]} channels along axis {node.axis}"


QDQ_RULES: tuple[Callable[[QdqNode], str | None], ...] = (
    find_bad_scale,
    find_zero_point_mismatch,
    find_bad_zero_point_type,
    find_bad_scale_rank,
    find_bad_axis,
    find_channel_mismatch,
)


@dataclass(frozen=True)
class KnownNode:
    """A node with its attributes, and with the known shapes and values of tensors."""

    node: onnx.NodeProto
    attributes: Mapping[str, Any]
    shapes: Mapping[str, Shape]
    constants: Mapping[str, Array]

    def shape(self, index: int) -> Shape | None:
        given = self.node.input
        return self.shapes.get(given[index]) if index < len(given) else None

    def constant(self, index: int) -> Array | None:
        given = self.node.input
        return self.constants.get(given[index]) if index < len(given) else None

    def axis_length(self) -> int | None:
        shape, axis = self.shape(0), int(self.attributes.get("axis", 0))
        return shape[axis] if shape and -len(shape) <= axis < len(shape) else None


def find_bad_split(known: KnownNode) -> str | None:
    """the lengths of a Split must be 0 or more, and their sum the length of the axis"""
    if known.node.op_type != "Split":
        return None
    constant, length = known.constant(1), known.axis_length()
    parts = known.attributes.get("split") if constant is None else constant.reshape(-1).tolist()
    if parts is None or length is None or (min(parts, default=0) >= 0 and sum(parts) == length):
        return None
    return f"lengths {list(parts)} for an axis of {length}"


def find_bad_index(known: KnownNode) -> str | None:
    """the indices of a Gather must be positions on its axis"""
    indices, length = known.constant(1), known.axis_length()
    if not known.node.op_type.startswith("Gather") or known.node.op_type == "GatherND":
        return None
    if indices is None or length is None:
        return None
    wrong = indices[(indices < -length) | (indices >= length)]
    return f"index {wrong.flat[0]} for an axis of {length}" if wrong.size else None


def find_kernel_shape_mismatch(known: KnownNode) -> str | None:
    """the kernel_shape of a convolution must equal the shape of its weights"""
    weights, stated = known.shape(1), known.attributes.get("kernel_shape")
    if known.node.op_type not in ("Conv", "ConvTranspose") or weights is None or not stated:
        return None
    return None if tuple(stated) == weights[2:] else f"{list(stated)} for weights {list(weights)}"


KNOWN_RULES: tuple[Callable[[KnownNode], str | None], ...] = (
    find_bad_split,
    find_bad_index,
    find_kernel_shape_mismatch,
)


def make_known_node(
    node: onnx.NodeProto,
    shapes: Mapping[str, Shape],
    constants: Mapping[str, onnx.TensorProto],
) -> KnownNode:
    values = {}
    for name in node.input:
        if name in constants and constants[name].data_type == onnx.TensorProto.INT64:
            values[name] = np.asarray(onnx.numpy_helper.to_array(constants[name]))
    attributes = {a.name: onnx.helper.get_attribute_value(a) for a in node.attribute}
    return KnownNode(node, attributes, shapes, values)
