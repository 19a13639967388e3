"""Checks the graphs inside nodes: branches of an If and bodies of a Loop.

ONNX's checker does not compare the inputs and outputs of these graphs with the inputs and outputs
of the node.
"""

from __future__ import annotations

import onnx

BRANCHES = ("then_branch", "else_branch")


def find_bad_branch(node: onnx.NodeProto) -> str | None:
    """a branch of an If must have no inputs, and as many outputs as the If"""
    for name, graph in list_graphs(node).items():
        ports = len(graph.input), len(graph.output)
        if node.op_type == "If" and name in BRANCHES and ports != (0, len(node.output)):
            return (
                f"{name} has {ports[0]} inputs and {ports[1]} outputs; the If has "
                f"{len(node.output)} outputs"
            )
    return None


def find_bad_body(node: onnx.NodeProto) -> str | None:
    """the body of a Loop must have two inputs more than states, one output more than the Loop"""
    body = list_graphs(node).get("body")
    if node.op_type != "Loop" or body is None:
        return None
    states = max(len(node.input) - 2, 0)
    if len(body.input) == states + 2 and len(body.output) == len(node.output) + 1 > states:
        return None
    return (
        f"the body has {len(body.input)} inputs and {len(body.output)} outputs for {states} states"
    )


def list_graphs(node: onnx.NodeProto) -> dict[str, onnx.GraphProto]:
    return {a.name: a.g for a in node.attribute if a.HasField("g")}
