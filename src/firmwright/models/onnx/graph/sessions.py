"""Opens sessions of ONNX Runtime, and splits large graphs into several sessions.

The time of a session is quadratic in the number of nodes. If ONNX Runtime computes node by node,
the sequence of parts returns bit-identical results.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

import onnx
from onnx import AttributeProto, TensorProto, helper

if TYPE_CHECKING:
    import onnxruntime


def open_session(model: onnx.ModelProto) -> onnxruntime.InferenceSession:
    """Return a session that computes node by node on one thread, without log messages."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.intra_op_num_threads = 1
    options.log_severity_level = 4
    data = model.SerializeToString(deterministic=True)
    return onnxruntime.InferenceSession(data, options, providers=["CPUExecutionProvider"])


MOST_NODES = 500

KEPT_TYPES = frozenset(
    {
        *(TensorProto.FLOAT, TensorProto.DOUBLE, TensorProto.BOOL),
        *(TensorProto.INT8, TensorProto.INT16, TensorProto.INT32, TensorProto.INT64),
        *(TensorProto.UINT8, TensorProto.UINT16, TensorProto.UINT32, TensorProto.UINT64),
    }
)
"""The types of tensors at which a graph may be cut.

ONNX Runtime casts 16-bit floats to 32 bits for operators without a 16-bit form. A cut between two
of these operators adds casts.
"""


def split_model(model: onnx.ModelProto) -> list[onnx.ModelProto]:
    """Return models of at most :data:`MOST_NODES` nodes, in the order in which they run.

    Each part reads inputs of the model and results of earlier parts. Return the model itself if the
    model is small, or if nodes contain graphs. Return the model itself if the type of a tensor
    between nodes is unknown or not in :data:`KEPT_TYPES`.
    """
    nodes = [node for node in model.graph.node if node.op_type != "Constant"]
    if len(nodes) <= MOST_NODES:
        return [model]
    types = find_types(model)
    if not is_plain(model.graph, nodes, types):
        return [model]
    return [
        helper.make_model(
            graph,
            opset_imports=model.opset_import,
            ir_version=model.ir_version,
            functions=model.functions,
        )
        for graph in cut_graph(model.graph, nodes, types)
    ]


def find_types(model: onnx.ModelProto) -> dict[str, int]:
    graph = onnx.shape_inference.infer_shapes(model).graph
    values = (*graph.input, *graph.value_info, *graph.output)
    types = {value.name: value.type.tensor_type.elem_type for value in values}
    return types | {tensor.name: tensor.data_type for tensor in graph.initializer}


def is_plain(
    graph: onnx.GraphProto, nodes: Sequence[onnx.NodeProto], types: Mapping[str, int]
) -> bool:
    """Return whether the graph may be cut between any two nodes."""
    written = {name for node in nodes for name in node.output if name}
    within = (AttributeProto.GRAPH, AttributeProto.GRAPHS)
    return (
        all(types.get(name) in KEPT_TYPES for name in written)
        and all(output.name in written for output in graph.output)
        and not graph.sparse_initializer
        and not any(a.type in within for node in nodes for a in node.attribute)
    )


def cut_graph(
    graph: onnx.GraphProto, nodes: Sequence[onnx.NodeProto], types: Mapping[str, int]
) -> Iterator[onnx.GraphProto]:
    """Yield the parts.

    Each part contains the constants that it reads, because kernels prepare constants.
    """
    constants = {n: node for node in graph.node if node.op_type == "Constant" for n in node.output}
    initializers = {tensor.name: tensor for tensor in graph.initializer}
    inputs = {value.name: value for value in graph.input}
    outputs = {value.name for value in graph.output}
    fixed = constants.keys() | initializers.keys() - inputs.keys()
    last_reader = {name: number for number, node in enumerate(nodes) for name in node.input}
    for start in range(0, len(nodes), MOST_NODES):
        chosen = nodes[start : start + MOST_NODES]
        end = start + len(chosen)
        read = dict.fromkeys(name for node in chosen for name in node.input if name)
        written = dict.fromkeys(name for node in chosen for name in node.output if name)
        given = [name for name in read if name not in written and name not in fixed]
        results = [n for n in written if n in outputs or last_reader.get(n, 0) >= end]
        if not results:  # ONNX Runtime rejects a graph without outputs
            continue
        yield helper.make_graph(
            [*(constants[name] for name in read if name in constants), *chosen],
            graph.name,
            [inputs.get(n) or helper.make_tensor_value_info(n, types[n], None) for n in given],
            [helper.make_tensor_value_info(n, types[n], None) for n in results],
            [initializers[name] for name in read if name in initializers],
        )
