"""Normalizes forms that ONNX Runtime accepts, but ONNX's checker or an importer rejects.

Each function replaces one form with the form that ONNX defines. The replacement does not change the
results.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from graphlib import CycleError, TopologicalSorter
from heapq import heappop, heappush

import onnx
from onnx import AttributeProto

from firmwright.errors import UserError
from firmwright.models.onnx.dialects import expand_dialects
from firmwright.models.onnx.domains import get_opset
from firmwright.models.onnx.early_forms import raise_early_forms
from firmwright.models.onnx.graph.body import Body, get_attribute, list_reads, replace_nodes
from firmwright.models.onnx.graph.suppression import bound_suppressions, expand_suppressions
from firmwright.models.onnx.qonnx import expand_quantizers
from firmwright.models.onnx.sparse import replace_sparse

LIST_FIELDS = {
    AttributeProto.FLOATS: "floats",
    AttributeProto.INTS: "ints",
    AttributeProto.STRINGS: "strings",
}

TRAINING_RESULTS = frozenset({"BatchNormalization"})
"""Operators whose optional results change the computed values."""


GROUP_FACTOR_OPSETS = range(18, 21)
"""The opsets in which GroupNormalization has one factor per group.

ONNX's checker rejects these factors.
"""

SEPARATE_CONSTANTS = 4
"""The first IR version in which constants need not be inputs.

ONNX Runtime accepts separate constants in every version.
"""


def normalize_forms(model: onnx.ModelProto) -> tuple[str, ...]:
    """Change the model to the forms that ONNX defines, and return notes for the user."""
    if 0 < model.ir_version < SEPARATE_CONSTANTS:
        model.ir_version = SEPARATE_CONSTANTS
    inner = (g for function in model.functions for g in find_inner_graphs(function.node))
    graphs = [*find_graphs(model.graph), *inner]
    replace_sparse(graphs, [n for body in (*graphs, *model.functions) for n in body.node])
    expand_dialects(model)
    quantizers = expand_quantizers(model)
    for function in model.functions:
        sort_nodes(function)
    for graph in find_graphs(model.graph):
        sort_nodes(graph)
        open_negative_lengths(graph)
        if get_opset(model) in GROUP_FACTOR_OPSETS:
            replace_nodes(graph, [new for node in graph.node for new in split_groups(node)])
    raise_early_forms(model, list(find_graphs(model.graph)))
    remarks = (*drop_unknown_attributes(model), *require_float_products(model))
    drop_empty_lists(model)
    drop_unread_results(model)
    state_types(model)
    return (*quantizers, *remarks, *bound_suppressions(model))


def load_evaluable(data: bytes) -> onnx.ModelProto:
    """Return the model in forms that ONNX Runtime and ONNX's evaluator compute."""
    model = onnx.load_model_from_string(data)
    normalize_forms(model)
    expand_suppressions(model)
    return model


def find_graphs(graph: onnx.GraphProto) -> Iterator[onnx.GraphProto]:
    yield graph
    yield from find_inner_graphs(graph.node)


def find_inner_graphs(nodes: Iterable[onnx.NodeProto]) -> Iterator[onnx.GraphProto]:
    for node in nodes:
        for attribute in node.attribute:
            single = [attribute.g] if attribute.HasField("g") else []
            for inner in (*single, *attribute.graphs):
                yield from find_graphs(inner)


def sort_nodes(graph: onnx.GraphProto | onnx.FunctionProto) -> None:
    """Move each node after the nodes whose results it reads.

    The order of other nodes does not change. A graph with a cycle remains unchanged, because the
    checks report the cycle.
    """
    writers = {name: i for i, node in enumerate(graph.node) for name in node.output if name}
    reads = [{writers[name] for name in list_reads(node) if name in writers} for node in graph.node]
    if all(max(sources, default=-1) < i for i, sources in enumerate(reads)):
        return
    order = order_numbers(reads)
    if len(order) == len(graph.node):
        replace_nodes(graph, [graph.node[i] for i in order])


def order_numbers(reads: Sequence[set[int]]) -> list[int]:
    """Return the numbers, each after the numbers that it reads. Numbers of cycles are omitted.

    Among the ready numbers, the lowest number is first.
    """
    sorter = TopologicalSorter(dict(enumerate(reads)))
    with suppress(CycleError):
        sorter.prepare()
    order: list[int] = []
    ready: list[int] = []
    while sorter.is_active():
        for number in sorter.get_ready():
            heappush(ready, number)
        order.append(heappop(ready))
        sorter.done(order[-1])
    return order


def open_negative_lengths(graph: onnx.GraphProto) -> None:
    """Clear negative lengths, because Paddle2ONNX writes open lengths as negative numbers."""
    for value in (*graph.input, *graph.output, *graph.value_info):
        for length in value.type.tensor_type.shape.dim:
            if length.dim_value < 0:
                length.ClearField("dim_value")


def split_groups(node: onnx.NodeProto) -> list[onnx.NodeProto]:
    """Return the nodes that replace a GroupNormalization with one factor per group.

    An InstanceNormalization normalizes the data with one channel per group. Other nodes remain
    unchanged.
    """
    groups, epsilon = (get_attribute(node, n, d) for n, d in (("num_groups", 0), ("epsilon", 1e-5)))
    is_plain = node.op_type == "GroupNormalization" and node.domain in ("", "ai.onnx")
    if not is_plain or len(node.input) != 3 or len(node.output) != 1 or not isinstance(groups, int):
        return [node]
    body, (data, *factors) = Body(node), node.input
    shape = body.add("Shape", data)
    parts = body.reshape(data, [0, groups, -1])
    normal = body.add("InstanceNormalization", parts, *factors, epsilon=epsilon)
    body.add("Reshape", normal, shape, result=node.output[0])
    return body.nodes


def drop_empty_lists(model: onnx.ModelProto) -> None:
    """Remove optional attributes without elements, because ONNX Runtime uses the defaults."""
    version = get_opset(model)
    for node in (node for graph in find_graphs(model.graph) for node in graph.node):
        schema = find_schema(node, version)
        known = schema.attributes if schema else {}
        for attribute in list(node.attribute):
            field = LIST_FIELDS.get(attribute.type)
            optional = attribute.name in known and not known[attribute.name].required
            if field and optional and not getattr(attribute, field):
                node.attribute.remove(attribute)


def require_float_products(model: onnx.ModelProto) -> tuple[str, ...]:
    """Remove ``accuracy_level`` of MatMulNBits, which permits less precise products.

    With level 4, ONNX Runtime rounds the data of a block to 8 bits. The returned note names the
    nodes.
    """
    names = []
    for node in (n for graph in find_graphs(model.graph) for n in graph.node):
        stated = next((a for a in node.attribute if a.name == "accuracy_level"), None)
        if node.op_type == "MatMulNBits" and stated is not None:
            node.attribute.remove(stated)
            if stated.i > 1:
                names.append(f"'{node.name or next(iter(node.output), '')}'")
    if not names:
        return ()
    return (
        f"MatMulNBits ({', '.join(names)}): accuracy_level is ignored; firmware and reference "
        "compute in float32",
    )


def find_schema(node: onnx.NodeProto, version: int) -> onnx.defs.OpSchema | None:
    """Return ONNX's definition of the node's operator, or None if ONNX does not define it."""
    if node.domain not in ("", "ai.onnx") or not isinstance(node.op_type, str):
        return None
    if not onnx.defs.has(node.op_type, version):
        return None
    return onnx.defs.get_schema(node.op_type, version)


def drop_unread_results(model: onnx.ModelProto) -> None:
    """Remove optional results that no node reads, such as the mask of Dropout.

    Required results without a name get a name, because ONNX Runtime can crash on an empty name.
    """
    version = get_opset(model)
    graphs = list(find_graphs(model.graph))
    read = {name for graph in graphs for node in graph.node for name in node.input}
    read |= {output.name for graph in graphs for output in graph.output}
    for node in (node for graph in graphs for node in graph.node):
        schema = find_schema(node, version)
        if schema is None or not schema.outputs or not any(node.output):
            continue
        results = schema.outputs
        scope = next(name for name in node.output if name)
        for i, name in enumerate(node.output):
            kind = results[min(i, len(results) - 1)].option
            if kind != onnx.defs.OpSchema.FormalParameterOption.Optional:
                node.output[i] = name or f"{scope}/unread{i}"
            elif name not in read and node.op_type not in TRAINING_RESULTS:
                node.output[i] = ""
        if not any(node.output):
            node.output[0] = f"{scope}/unread0"
        while not node.output[-1]:
            del node.output[-1]


def state_types(model: onnx.ModelProto) -> None:
    """Add the inferred type to each output without a type, as in ONNX Runtime.

    Raises UserError if ONNX cannot infer a type.
    """
    untyped = [output for output in model.graph.output if not output.type.WhichOneof("value")]
    if not untyped:
        return
    for output in untyped:
        output.ClearField("type")
    with suppress(onnx.shape_inference.InferenceError, ValueError):
        graph = onnx.shape_inference.infer_shapes(model).graph
        values = (*graph.value_info, *graph.output)
        types = {value.name: value.type for value in values if value.type.WhichOneof("value")}
        for output in untyped:
            if output.name in types:
                output.type.CopyFrom(types[output.name])
    for output in untyped:
        if not output.type.WhichOneof("value"):
            raise UserError(
                f"output '{output.name}' has no type, and ONNX cannot infer it; state its type, or "
                "export the model again"
            )


@contextmanager
def state_shapes(outputs: Iterable[onnx.ValueInfoProto]) -> Iterator[None]:
    """Add a shape to each output without a shape during ONNX's check.

    ONNX's checker requires a shape, but ONNX Runtime infers a missing shape.
    """
    kinds = [value.type.tensor_type for value in outputs if value.type.HasField("tensor_type")]
    unstated = [kind for kind in kinds if not kind.HasField("shape")]
    for kind in unstated:
        kind.shape.SetInParent()
    try:
        yield
    finally:
        for kind in unstated:
            kind.ClearField("shape")


def drop_unknown_attributes(model: onnx.ModelProto) -> tuple[str, ...]:
    """Remove attributes that ONNX does not define, and return a note.

    For example, quantlab writes ``weight_bits``, and DORY's tools write ``in1_add``.
    """
    versions = {opset.domain or "ai.onnx": opset.version for opset in model.opset_import}
    dropped: dict[str, int] = {}
    for node in model.graph.node:
        version = versions.get(node.domain or "ai.onnx")
        if version is None or not is_text(node.op_type):
            continue
        if not onnx.defs.has(node.op_type, version, node.domain):
            continue
        known = onnx.defs.get_schema(node.op_type, version, node.domain).attributes
        unknown = [a for a in node.attribute if is_text(a.name) and a.name not in known]
        for attribute in unknown:
            dropped[attribute.name] = dropped.get(attribute.name, 0) + 1
            node.attribute.remove(attribute)
    if not dropped:
        return ()
    listed = ", ".join(f"{name} ({count} times)" for name, count in sorted(dropped.items()))
    return (f"attributes that ONNX does not define are ignored: {listed}",)


def is_text(name: str | bytes) -> bool:
    """Return whether a name is text. Protobuf returns bytes for a name that is not UTF-8."""
    return isinstance(name, str)


def has_only_text(node: onnx.NodeProto) -> bool:
    texts = (text for a in node.attribute for text in (a.s, *a.strings))
    try:
        b"\n".join(texts).decode()
    except UnicodeDecodeError:
        return False
    return is_text(node.op_type)
