"""Resolves loops, branches, sequences and optional values at import.

Firmware has a fixed number of tensors. Sequences become lists of tensors, and loops with a known
maximum of steps are unrolled. If the condition of a branch is computed, firmware computes both
branches and selects one result.
"""

from __future__ import annotations

import numpy as np
import onnx
from onnx import helper

from firmwright.models.onnx.graph.body import (
    NodeBuilder,
    get_attribute,
    refuse,
    refuse_inconsistent,
)
from firmwright.models.onnx.graph.recurrent import MAX_NODES, add_step
from firmwright.models.onnx.graph.specialize import Nodes, Rewrite, Specializer

USE_CONSTANT = "firmware needs a constant: write it into the model"


def get_sequence(node: onnx.NodeProto, walk: Specializer) -> list[str]:
    tensors = walk.sequences.get(node.input[0])
    if tensors is None:
        refuse(node, f"the length of '{node.input[0]}' is known only at run time; {USE_CONSTANT}")
    return tensors


def get_number(node: onnx.NodeProto, walk: Specializer, index: int, default: int) -> int:
    name = node.input[index] if len(node.input) > index else ""
    if name and name not in walk.constants:
        refuse(node, f"'{name}' is known only at run time; {USE_CONSTANT}")
    return int(walk.constants[name].item()) if name else default


def rename(node: onnx.NodeProto, source: str) -> Nodes:
    return [helper.make_node("Identity", [source], [node.output[0]], node.name)]


def construct(node: onnx.NodeProto, walk: Specializer) -> Nodes:
    walk.sequences[node.output[0]] = list(node.input)
    return []


def insert(node: onnx.NodeProto, walk: Specializer) -> Nodes:
    tensors = list(get_sequence(node, walk))
    tensors.insert(get_number(node, walk, 2, len(tensors)), node.input[1])
    walk.sequences[node.output[0]] = tensors
    return []


def erase(node: onnx.NodeProto, walk: Specializer) -> Nodes:
    tensors = list(get_sequence(node, walk))
    del tensors[find_position(node, walk, tensors, -1)]
    walk.sequences[node.output[0]] = tensors
    return []


def pick(node: onnx.NodeProto, walk: Specializer) -> Nodes:
    tensors = get_sequence(node, walk)
    return rename(node, tensors[find_position(node, walk, tensors, 0)])


def find_position(node: onnx.NodeProto, walk: Specializer, tensors: list[str], default: int) -> int:
    position = get_number(node, walk, 1, default)
    if not -len(tensors) <= position < len(tensors):
        refuse_inconsistent(
            node,
            f"its position is {position}; expected {-len(tensors)} to {len(tensors) - 1}, because "
            f"the sequence has {len(tensors)} tensors",
        )
    return position


def measure(node: onnx.NodeProto, walk: Specializer) -> Nodes:
    body = NodeBuilder(node, walk)
    return body.finish(body.constant(len(get_sequence(node, walk)), "int64"))


def join(node: onnx.NodeProto, walk: Specializer) -> Nodes:
    body, tensors = NodeBuilder(node, walk), get_sequence(node, walk)
    axis = get_attribute(node, "axis", 0)
    if get_attribute(node, "new_axis", 0):
        return body.finish(body.stack(tensors, axis))
    return body.finish(body.add("Concat", *tensors, axis=axis))


def split(node: onnx.NodeProto, walk: Specializer) -> Nodes | None:
    """Resolve a SplitToSequence. The parts have equal or given lengths, or are single elements."""
    shape = walk.shape(node.input[0])
    if shape is None:
        return None
    axis = get_attribute(node, "axis", 0) % len(shape)
    name = node.input[1] if len(node.input) > 1 else ""
    if name and name not in walk.constants:
        refuse(node, f"'{name}' is known only at run time; {USE_CONSTANT}")
    stated = walk.constants[name] if name else np.array(1)
    step = int(stated.item()) if stated.ndim == 0 else 0
    ends = [*range(step, shape[axis], step), shape[axis]] if step else stated.cumsum().tolist()
    body, tensors, first = NodeBuilder(node, walk), [], 0
    for end in ends:
        if not name and not get_attribute(node, "keepdims", 1):
            index = body.constant(first, "int64")
            tensors.append(body.add("Gather", node.input[0], index, axis=axis))
        else:
            limits = (body.constant([n], "int64") for n in (first, end, axis))
            tensors.append(body.add("Slice", node.input[0], *limits))
        first = end
    walk.sequences[node.output[0]] = tensors
    return body.nodes


def hand_on(node: onnx.NodeProto, walk: Specializer) -> Nodes | None:
    """Rename a sequence or an optional value."""
    if node.input[0] not in walk.sequences:
        return None if node.op_type == "Identity" else rename(node, node.input[0])
    walk.sequences[node.output[0]] = walk.sequences[node.input[0]]
    return []


def wrap(node: onnx.NodeProto, walk: Specializer) -> Nodes | None:
    if node.input and node.input[0]:
        return hand_on(node, walk)
    walk.sequences[node.output[0]] = None
    return []


def unwrap(node: onnx.NodeProto, walk: Specializer) -> Nodes | None:
    if walk.sequences.get(node.input[0], []) is None:
        refuse_inconsistent(
            node, f"the optional value '{node.input[0]}' is empty; expected a tensor or a sequence"
        )
    return hand_on(node, walk)


def has_element(node: onnx.NodeProto, walk: Specializer) -> Nodes:
    body = NodeBuilder(node, walk)
    given = bool(node.input) and bool(node.input[0])
    there = given and walk.sequences.get(node.input[0], []) is not None
    return body.finish(body.constant(there, bool))


def unroll_loop(node: onnx.NodeProto, walk: Specializer) -> Nodes:
    """Write all steps of a Loop.

    If the loop ends at a computed condition, firmware computes all steps. The states do not change
    after the end.
    """
    graph = get_attribute(node, "body", None)
    limit = get_number(node, walk, 0, MAX_NODES)
    states = list(node.input[2:])
    body = NodeBuilder(node, walk)
    collected: list[list[str]] = [[] for _ in graph.output[1 + len(states) :]]
    goes, running = read_condition(body, walk, node.input[1] if len(node.input) > 1 else "", "")
    step = 0
    while goes and step < limit:
        if step * len(graph.node) > MAX_NODES:
            refuse(
                node,
                f"its steps have more than {MAX_NODES} operators in total; export it with fewer "
                "steps, or keep its state between runs",
            )
        given = [body.constant(step, "int64"), body.constant(True, bool), *states]
        begin = len(walk.nodes)
        results = add_step(body, graph, given, f"{node.output[0]}/loop_{step}")
        condition, following = results[0], results[1 : 1 + len(states)]
        visit(body, walk)
        if running:
            refuse_partial(node, walk, begin, "one of its steps", "all steps")
            labels = [output.name for output in graph.output[1:]]
            changes = zip(labels, following, states, strict=False)
            following = [choose(body, walk, running, *change) for change in changes]
        states = following
        for steps_of_output, name in zip(collected, results[1 + len(states) :], strict=True):
            steps_of_output.append(name)
        goes, running = read_condition(body, walk, condition, running)
        visit(body, walk)
        step += 1
    if collected and not step:
        refuse(
            node,
            "it has no steps, so its collected outputs have no elements; export it with one step "
            "or more",
        )
    return body.finish(*states, *(body.stack(names, 0) for names in collected))


def visit(body: NodeBuilder, walk: Specializer) -> None:
    walk.visit(body.nodes)
    body.nodes = []


def read_condition(
    body: NodeBuilder, walk: Specializer, name: str, running: str
) -> tuple[bool, str]:
    """Return whether a loop continues, and the tensor that states so at run time, or "".

    ``running`` is this tensor for the step before. Raises UserError if the number of steps has no
    limit, or if the loop collects a result of each step.
    """
    if not name or name in walk.constants:
        goes = bool(walk.constants[name].item()) if name else True
        return goes, running
    node = body.node
    if not node.input[0]:
        refuse(
            node,
            "its number of steps is known only at run time and has no limit; state the maximum "
            "number of steps in its first input",
        )
    if any(node.output[len(node.input) - 2 :]):
        refuse(
            node,
            "it collects a result of each step, but its number of steps is known only at run time; "
            "return only the last states",
        )
    scalar = body.add("Reshape", name, body.constant(np.zeros(0), "int64"))
    return True, body.add("And", running, scalar) if running else scalar


def map_sequence(node: onnx.NodeProto, walk: Specializer) -> Nodes:
    """Apply the graph of a SequenceMap to each element. Tensor inputs are equal in all steps."""
    graph = get_attribute(node, "body", None)
    body = NodeBuilder(node, walk)
    collected: list[list[str]] = [[] for _ in graph.output]
    for step in range(len(get_sequence(node, walk))):
        given = [(walk.sequences.get(name) or {step: name})[step] for name in node.input]
        results = add_step(body, graph, given, f"{node.output[0]}/map_{step}")
        for tensors, name in zip(collected, results, strict=True):
            tensors.append(name)
    walk.sequences.update(zip(node.output, collected, strict=True))
    return body.nodes


PARTIAL = frozenset(
    "Div Mod Gather GatherElements GatherND Scatter ScatterElements ScatterND".split()
)
"""Operators that are undefined for some values of the second input."""


def compute_both_branches(node: onnx.NodeProto, walk: Specializer) -> Nodes:
    """Rewrite an If with a computed condition as both of its branches and a selection."""
    body, begin = NodeBuilder(node, walk), len(walk.nodes)
    sides = []
    for name in ("then_branch", "else_branch"):
        graph = get_attribute(node, name, None)
        sides.append(add_step(body, graph, [], f"{node.output[0]}/{name}"))
    visit(body, walk)
    refuse_partial(node, walk, begin, "one of its branches", "both branches")
    return body.finish(*(
        choose(body, walk, node.input[0], output, *pair)
        for output, *pair in zip(node.output, *sides, strict=True)
    ))  # fmt: skip


def refuse_partial(
    node: onnx.NodeProto, walk: Specializer, begin: int, part: str, computed: str
) -> None:
    """Raise UserError if an operator after node ``begin`` is not defined for all values."""
    for inner in walk.nodes[begin:]:
        if inner.op_type in PARTIAL and inner.input[1] not in walk.constants:
            if inner.op_type in ("Div", "Mod") and walk.dtype(inner.input[0]).kind == "f":
                continue
            refuse(
                node,
                f"{part} has a {inner.op_type} (node '{inner.name}'), which is not defined for all "
                f"values, and firmware computes {computed}; limit its second input to valid values",
            )


def choose(
    body: NodeBuilder, walk: Specializer, condition: str, output: str, yes: str, no: str
) -> str:
    """Append a selection that depends on the condition.

    Raises UserError if the shapes or types of the results differ.
    """
    ends = [walk.sequences.get(name, [name]) for name in (yes, no)]
    shapes = [[walk.shape(t) for t in tensors or []] for tensors in ends]
    if any(tensors is None for tensors in ends) or shapes[0] != shapes[1] or None in shapes[0]:
        refuse(
            body.node,
            f"the shape of '{output}' is known only at run time; its branches have {shapes[0]} and "
            f"{shapes[1]}; export both with one shape, or make the condition a constant. A recipe "
            "fixes an input with `inputs: {NAME: {value: …}}`",
        )
    kinds = [[str(walk.dtype(t)) for t in tensors or []] for tensors in ends]
    if kinds[0] != kinds[1]:
        refuse(
            body.node,
            f"its branches return '{output}' as {', '.join(kinds[0])} and as "
            f"{', '.join(kinds[1])}; export both with one type",
        )
    chosen = [
        body.add("Where", condition, *pair)
        for pair in zip(*(tensors or [] for tensors in ends), strict=True)
    ]
    if yes not in walk.sequences:
        return chosen[0]
    name = body.name_tensor(f"sequence_{output}")
    walk.sequences[name] = chosen
    return name


CONTROL: dict[str, Rewrite] = {
    "ConcatFromSequence": join,
    "Identity": hand_on,
    "If": compute_both_branches,
    "Loop": unroll_loop,
    "Optional": wrap,
    "OptionalGetElement": unwrap,
    "OptionalHasElement": has_element,
    "SequenceAt": pick,
    "SequenceConstruct": construct,
    "SequenceEmpty": construct,
    "SequenceErase": erase,
    "SequenceInsert": insert,
    "SequenceLength": measure,
    "SequenceMap": map_sequence,
    "SplitToSequence": split,
}
