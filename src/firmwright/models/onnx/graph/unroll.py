"""A Scan over a known number of steps is written out: firmware runs a static schedule."""

from __future__ import annotations

import onnx
from onnx import helper

from firmwright.models.onnx.graph.body import Body, attribute
from firmwright.models.onnx.graph.functions import bind
from firmwright.models.onnx.graph.specialize import Nodes, Specialiser, read_tensors

LARGEST = 4096
"""Nodes that an unrolled Scan may have; each of them becomes code."""


def unrolled(node: onnx.NodeProto, walk: Specialiser) -> Nodes | None:
    """Return the steps of a Scan (as of opset 9), one after the other."""
    graph = attribute(node, "body", None)
    count = attribute(node, "num_scan_inputs", 0)
    shapes = [walk.shape(i) for i in node.input[-count:]]
    axes = attribute(node, "scan_input_axes", [0] * count)
    backwards = attribute(node, "scan_input_directions", [0] * count)
    if walk.opsets[node.domain] < 9 or any(s is None for s in shapes):
        return None
    steps = {s[a] for s, a in zip(shapes, axes, strict=True) if s is not None}
    if len(steps) != 1 or max(steps) * len(graph.node) > LARGEST:
        return None
    length = steps.pop()
    body = Body(node, walk)
    states = list(node.input[:-count])
    collected: list[list[str]] = [[] for _ in graph.output[len(states) :]]
    for step in range(length):
        slices = [
            body.add("Gather", name, body.constant(length - 1 - step if back else step, "int64"),
                     axis=axis)
            for name, axis, back in zip(node.input[-count:], axes, backwards, strict=True)
        ]  # fmt: skip
        results = one_step(body, graph, [*states, *slices], f"{node.output[0]}/step_{step}")
        states, outputs = results[: len(states)], results[len(states) :]
        for steps_of_output, name in zip(collected, outputs, strict=True):
            steps_of_output.append(name)
    axes = attribute(node, "scan_output_axes", [0] * len(collected))
    backwards = attribute(node, "scan_output_directions", [0] * len(collected))
    stacked = [
        body.stack(list(reversed(names)) if back else names, axis)
        for names, axis, back in zip(collected, axes, backwards, strict=True)
    ]
    return body.result(*states, *stacked)


def one_step(body: Body, graph: onnx.GraphProto, inputs: list[str], scope: str) -> list[str]:
    """Append the nodes of one step and return the names of its results."""
    own = {v.name for v in (*graph.input, *graph.initializer)}
    own |= {o for n in graph.node for o in n.output}
    tensors = {n: n for inner in graph.node for n in read_tensors(inner) if n not in own}
    tensors |= {"": "", **{v.name: n for v, n in zip(graph.input, inputs, strict=True)}}
    constants = [helper.make_node("Constant", [], [i.name], value=i) for i in graph.initializer]
    for inner in (*constants, *graph.node):
        copy = onnx.NodeProto()
        copy.CopyFrom(inner)
        copy.name = body.node.name
        bind(copy, tensors, scope, {})
        body.nodes.append(copy)
    return [tensors.get(o.name, f"{scope}/{o.name}") for o in graph.output]
