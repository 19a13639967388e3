"""A Scan over a known number of steps is written out: firmware runs a static schedule."""

from __future__ import annotations

import onnx
from onnx import helper

from firmwright.models.onnx.graph.body import NodeBuilder, get_attribute
from firmwright.models.onnx.graph.functions import rename_tensors
from firmwright.models.onnx.graph.specialize import Nodes, Specializer, list_reads

MAX_NODES = 4096
"""Nodes that an unrolled Scan may have; each of them becomes code."""


def unroll_scan(node: onnx.NodeProto, walk: Specializer) -> Nodes | None:
    """Return the steps of a Scan (as of opset 9), one after the other."""
    graph = get_attribute(node, "body", None)
    count = get_attribute(node, "num_scan_inputs", 0)
    shapes = [walk.shape(i) for i in node.input[-count:]]
    axes = get_attribute(node, "scan_input_axes", [0] * count)
    backwards = get_attribute(node, "scan_input_directions", [0] * count)
    if walk.opsets[node.domain] < 9 or any(s is None for s in shapes):
        return None
    steps = {s[a] for s, a in zip(shapes, axes, strict=True) if s is not None}
    if len(steps) != 1 or max(steps) * len(graph.node) > MAX_NODES:
        return None
    length = steps.pop()
    body = NodeBuilder(node, walk)
    states = list(node.input[:-count])
    collected: list[list[str]] = [[] for _ in graph.output[len(states) :]]
    for step in range(length):
        slices = [
            body.add("Gather", name, body.constant(length - 1 - step if back else step, "int64"),
                     axis=axis)
            for name, axis, back in zip(node.input[-count:], axes, backwards, strict=True)
        ]  # fmt: skip
        results = add_step(body, graph, [*states, *slices], f"{node.output[0]}/step_{step}")
        states, outputs = results[: len(states)], results[len(states) :]
        for steps_of_output, name in zip(collected, outputs, strict=True):
            steps_of_output.append(name)
    axes = get_attribute(node, "scan_output_axes", [0] * len(collected))
    backwards = get_attribute(node, "scan_output_directions", [0] * len(collected))
    stacked = [
        body.stack(list(reversed(names)) if back else names, axis)
        for names, axis, back in zip(collected, axes, backwards, strict=True)
    ]
    return body.finish(*states, *stacked)


def add_step(body: NodeBuilder, graph: onnx.GraphProto, inputs: list[str], scope: str) -> list[str]:
    """Append the nodes of one step and return the names of its results."""
    own = {v.name for v in (*graph.input, *graph.initializer)}
    own |= {o for n in graph.node for o in n.output}
    tensors = {n: n for inner in graph.node for n in list_reads(inner) if n not in own}
    tensors |= {"": "", **{v.name: n for v, n in zip(graph.input, inputs, strict=True)}}
    constants = [helper.make_node("Constant", [], [i.name], value=i) for i in graph.initializer]
    for inner in (*constants, *graph.node):
        copy = onnx.NodeProto()
        copy.CopyFrom(inner)
        copy.name = body.node.name
        rename_tensors(copy, tensors, scope, {})
        body.nodes.append(copy)
    return [tensors.get(o.name, f"{scope}/{o.name}") for o in graph.output]
