"""Resolves loops, scans, branches, sequences and optional values at import.

Firmware has a fixed number of tensors. Sequences become lists of tensors, and loops with a known
maximum of steps are unrolled. If the condition of a branch is computed, firmware computes both
branches and selects one result.
"""

from __future__ import annotations

import numpy as np
import onnx
from onnx import helper

from firmwright.models.onnx.graph.body import list_reads, rename_tensors
from firmwright.models.onnx.graph.specialize import NodeBuilder, Nodes, Rewrite

USE_CONSTANT = "firmware needs a constant: write it into the model"

MAX_NODES = 4096
"""The maximum number of nodes of an unrolled Loop or Scan, because each node becomes code."""


def get_sequence(body: NodeBuilder) -> list[str]:
    tensors = body.walk.sequences.get(body.input(0))
    if tensors is None:
        body.refuse(f"the length of '{body.input(0)}' is known only at run time; {USE_CONSTANT}")
    return tensors


def get_number(body: NodeBuilder, index: int, default: int) -> int:
    name = body.input(index)
    if name and name not in body.walk.constants:
        body.refuse(f"'{name}' is known only at run time; {USE_CONSTANT}")
    return int(body.walk.constants[name].item()) if name else default


def construct(body: NodeBuilder) -> Nodes:
    body.walk.sequences[body.node.output[0]] = list(body.node.input)
    return []


def insert(body: NodeBuilder) -> Nodes:
    tensors = list(get_sequence(body))
    tensors.insert(get_number(body, 2, len(tensors)), body.input(1))
    body.walk.sequences[body.node.output[0]] = tensors
    return []


def erase(body: NodeBuilder) -> Nodes:
    tensors = list(get_sequence(body))
    del tensors[find_position(body, tensors, -1)]
    body.walk.sequences[body.node.output[0]] = tensors
    return []


def pick(body: NodeBuilder) -> Nodes:
    tensors = get_sequence(body)
    return body.finish(tensors[find_position(body, tensors, 0)])


def find_position(body: NodeBuilder, tensors: list[str], default: int) -> int:
    position = get_number(body, 1, default)
    if not -len(tensors) <= position < len(tensors):
        body.refuse_inconsistent(
            f"its position is {position}; expected {-len(tensors)} to {len(tensors) - 1}, because "
            f"the sequence has {len(tensors)} tensors"
        )
    return position


def measure(body: NodeBuilder) -> Nodes:
    return body.finish(body.constant(len(get_sequence(body)), "int64"))


def join(body: NodeBuilder) -> Nodes:
    tensors = get_sequence(body)
    axis = body.attribute("axis", 0)
    if body.attribute("new_axis", 0):
        return body.finish(body.stack(tensors, axis))
    return body.finish(body.add("Concat", *tensors, axis=axis))


def split(body: NodeBuilder) -> Nodes | None:
    """Resolve a SplitToSequence. The parts have equal or given lengths, or are single elements."""
    shape = body.shape(0)
    if shape is None:
        return None
    axis = body.attribute("axis", 0) % len(shape)
    name = body.input(1)
    if name and name not in body.walk.constants:
        body.refuse(f"'{name}' is known only at run time; {USE_CONSTANT}")
    stated = body.walk.constants[name] if name else np.array(1)
    step = int(stated.item()) if stated.ndim == 0 else 0
    ends = [*range(step, shape[axis], step), shape[axis]] if step else stated.cumsum().tolist()
    tensors, first = [], 0
    for end in ends:
        if not name and not body.attribute("keepdims", 1):
            index = body.constant(first, "int64")
            tensors.append(body.add("Gather", body.input(0), index, axis=axis))
        else:
            limits = (body.constant([n], "int64") for n in (first, end, axis))
            tensors.append(body.add("Slice", body.input(0), *limits))
        first = end
    body.walk.sequences[body.node.output[0]] = tensors
    return body.nodes


def hand_on(body: NodeBuilder) -> Nodes | None:
    """Rename a sequence or an optional value."""
    if body.input(0) not in body.walk.sequences:
        return None if body.node.op_type == "Identity" else body.finish(body.input(0))
    body.walk.sequences[body.node.output[0]] = body.walk.sequences[body.input(0)]
    return []


def wrap(body: NodeBuilder) -> Nodes | None:
    if body.node.input and body.input(0):
        return hand_on(body)
    body.walk.sequences[body.node.output[0]] = None
    return []


def unwrap(body: NodeBuilder) -> Nodes | None:
    if body.walk.sequences.get(body.input(0), []) is None:
        body.refuse_inconsistent(
            f"the optional value '{body.input(0)}' is empty; expected a tensor or a sequence"
        )
    return hand_on(body)


def has_element(body: NodeBuilder) -> Nodes:
    given = bool(body.node.input) and bool(body.input(0))
    there = given and body.walk.sequences.get(body.input(0), []) is not None
    return body.finish(body.constant(there, bool))


def unroll_loop(body: NodeBuilder) -> Nodes:
    """Write all steps of a Loop.

    If the loop ends at a computed condition, firmware computes all steps. The states do not change
    after the end.
    """
    graph = body.attribute("body", None)
    limit = get_number(body, 0, MAX_NODES)
    states = list(body.node.input[2:])
    collected: list[list[str]] = [[] for _ in graph.output[1 + len(states) :]]
    goes, running = read_condition(body, body.input(1), "")
    step = 0
    while goes and step < limit:
        if step * len(graph.node) > MAX_NODES:
            body.refuse(
                f"its steps have more than {MAX_NODES} operators in total; export it with fewer "
                "steps, or keep its state between runs"
            )
        given = [body.constant(step, "int64"), body.constant(True, bool), *states]
        begin = len(body.walk.nodes)
        results = add_step(body, graph, given, f"{body.node.output[0]}/loop_{step}")
        condition, following = results[0], results[1 : 1 + len(states)]
        visit(body)
        if running:
            refuse_partial(body, begin, "one of its steps", "all steps")
            labels = [output.name for output in graph.output[1:]]
            changes = zip(labels, following, states, strict=False)
            following = [choose(body, running, *change) for change in changes]
        states = following
        for steps_of_output, name in zip(collected, results[1 + len(states) :], strict=True):
            steps_of_output.append(name)
        goes, running = read_condition(body, condition, running)
        visit(body)
        step += 1
    if collected and not step:
        body.refuse(
            "it has no steps, so its collected outputs have no elements; export it with one step "
            "or more"
        )
    return body.finish(*states, *(body.stack(names, 0) for names in collected))


def visit(body: NodeBuilder) -> None:
    body.walk.visit(body.nodes)
    body.nodes = []


def read_condition(body: NodeBuilder, name: str, running: str) -> tuple[bool, str]:
    """Return whether a loop continues, and the tensor that states so at run time, or "".

    ``running`` is this tensor for the step before. Raises UserError if the number of steps has no
    limit, or if the loop collects a result of each step.
    """
    if not name or name in body.walk.constants:
        goes = bool(body.walk.constants[name].item()) if name else True
        return goes, running
    if not body.input(0):
        body.refuse(
            "its number of steps is known only at run time and has no limit; state the maximum "
            "number of steps in its first input"
        )
    if any(body.node.output[len(body.node.input) - 2 :]):
        body.refuse(
            "it collects a result of each step, but its number of steps is known only at run time; "
            "return only the last states"
        )
    scalar = body.reshape(name, np.zeros(0))
    return True, body.add("And", running, scalar) if running else scalar


def map_sequence(body: NodeBuilder) -> Nodes:
    """Apply the graph of a SequenceMap to each element. Tensor inputs are equal in all steps."""
    graph = body.attribute("body", None)
    collected: list[list[str]] = [[] for _ in graph.output]
    for step in range(len(get_sequence(body))):
        given = [(body.walk.sequences.get(name) or {step: name})[step] for name in body.node.input]
        results = add_step(body, graph, given, f"{body.node.output[0]}/map_{step}")
        for tensors, name in zip(collected, results, strict=True):
            tensors.append(name)
    body.walk.sequences.update(zip(body.node.output, collected, strict=True))
    return body.nodes


PARTIAL = frozenset(
    "Div Mod Gather GatherElements GatherND Scatter ScatterElements ScatterND".split()
)
"""Operators that are undefined for some values of the second input."""


def compute_both_branches(body: NodeBuilder) -> Nodes:
    """Rewrite an If with a computed condition as both of its branches and a selection."""
    begin = len(body.walk.nodes)
    sides = []
    for name in ("then_branch", "else_branch"):
        graph = body.attribute(name, None)
        sides.append(add_step(body, graph, [], f"{body.node.output[0]}/{name}"))
    visit(body)
    refuse_partial(body, begin, "one of its branches", "both branches")
    return body.finish(*(
        choose(body, body.input(0), output, *pair)
        for output, *pair in zip(body.node.output, *sides, strict=True)
    ))  # fmt: skip


def refuse_partial(body: NodeBuilder, begin: int, part: str, computed: str) -> None:
    """Raise UserError if an operator after node ``begin`` is not defined for all values."""
    for inner in body.walk.nodes[begin:]:
        if inner.op_type in PARTIAL and inner.input[1] not in body.walk.constants:
            if inner.op_type in ("Div", "Mod") and body.walk.dtype(inner.input[0]).kind == "f":
                continue
            body.refuse(
                f"{part} has a {inner.op_type} (node '{inner.name}'), which is not defined for all "
                f"values, and firmware computes {computed}; limit its second input to valid values"
            )


def choose(body: NodeBuilder, condition: str, output: str, yes: str, no: str) -> str:
    """Append a selection that depends on the condition.

    Raises UserError if the shapes or types of the results differ.
    """
    ends = [body.walk.sequences.get(name, [name]) for name in (yes, no)]
    shapes = [[body.walk.shape(t) for t in tensors or []] for tensors in ends]
    if any(tensors is None for tensors in ends) or shapes[0] != shapes[1] or None in shapes[0]:
        body.refuse(
            f"the shape of '{output}' is known only at run time; its branches have {shapes[0]} and "
            f"{shapes[1]}; export both with one shape, or make the condition a constant. A recipe "
            "fixes an input with `inputs: {NAME: {value: …}}`"
        )
    kinds = [[str(body.walk.dtype(t)) for t in tensors or []] for tensors in ends]
    if kinds[0] != kinds[1]:
        body.refuse(
            f"its branches return '{output}' as {', '.join(kinds[0])} and as "
            f"{', '.join(kinds[1])}; export both with one type"
        )
    chosen = [
        body.add("Where", condition, *pair)
        for pair in zip(*(tensors or [] for tensors in ends), strict=True)
    ]
    if yes not in body.walk.sequences:
        return chosen[0]
    name = body.name_tensor(f"sequence_{output}")
    body.walk.sequences[name] = chosen
    return name


def unroll_scan(body: NodeBuilder) -> Nodes | None:
    """Return the steps of a Scan in their order. Return None if the Scan cannot be unrolled.

    A Scan of opset 8 runs for each element of a batch, which is the first axis of all tensors.
    """
    count = body.attribute("num_scan_inputs", 0)
    batched = body.walk.opsets[body.node.domain] < 9
    if batched and body.input(0):
        return None
    given = list(body.node.input[1:] if batched else body.node.input)
    shapes = [body.walk.shape(i) for i in given[-count:]]
    lengths = [s[1:] if batched else s for s in shapes if s is not None]
    axes = body.attribute("scan_input_axes", [0] * count)
    steps = {s[a] for s, a in zip(lengths, axes, strict=False)}
    graph = body.attribute("body", None)
    batch = (shapes[0] or (1,))[0] if batched else 1
    if None in shapes or len(steps) != 1 or max(steps) * batch * len(graph.node) > MAX_NODES:
        return None
    length = steps.pop()
    if not batched:
        return body.finish(*add_scan(body, given, count, length, "step_"))
    by_element = []
    for element in range(batch):
        index = body.constant(element, "int64")
        part = [body.add("Gather", name, index, axis=0) for name in given]
        by_element.append(add_scan(body, part, count, length, f"{element}_step_"))
    return body.finish(*(body.stack(list(r), 0) for r in zip(*by_element, strict=True)))


def add_scan(body: NodeBuilder, given: list[str], count: int, length: int, label: str) -> list[str]:
    """Append the steps of a Scan over the last ``count`` given tensors, and return the results."""
    graph = body.attribute("body", None)
    axes = body.attribute("scan_input_axes", [0] * count)
    # In opset 8, the name of the attribute is ``directions``.
    backwards = body.attribute("directions", [0] * count)
    backwards = body.attribute("scan_input_directions", backwards)
    states = given[:-count]
    collected: list[list[str]] = [[] for _ in graph.output[len(states) :]]
    for step in range(length):
        slices = [
            body.add("Gather", name, body.constant(length - 1 - step if back else step, "int64"),
                     axis=axis)
            for name, axis, back in zip(given[-count:], axes, backwards, strict=True)
        ]  # fmt: skip
        results = add_step(body, graph, [*states, *slices], f"{body.node.output[0]}/{label}{step}")
        states, outputs = results[: len(states)], results[len(states) :]
        for steps_of_output, name in zip(collected, outputs, strict=True):
            steps_of_output.append(name)
    axes = body.attribute("scan_output_axes", [0] * len(collected))
    backwards = body.attribute("scan_output_directions", [0] * len(collected))
    stacked = [
        body.stack(list(reversed(names)) if back else names, axis)
        for names, axis, back in zip(collected, axes, backwards, strict=True)
    ]
    return [*states, *stacked]


def add_step(body: NodeBuilder, graph: onnx.GraphProto, inputs: list[str], scope: str) -> list[str]:
    local = {v.name for v in (*graph.input, *graph.initializer)}
    local |= {o for n in graph.node for o in n.output}
    tensors = {n: n for inner in graph.node for n in list_reads(inner) if n not in local}
    tensors |= {"": "", **{v.name: n for v, n in zip(graph.input, inputs, strict=True)}}
    constants = [helper.make_node("Constant", [], [i.name], value=i) for i in graph.initializer]
    for inner in (*constants, *graph.node):
        copy = onnx.NodeProto()
        copy.CopyFrom(inner)
        copy.name = body.node.name
        rename_tensors(copy, tensors, scope, {})
        body.nodes.append(copy)
    return [tensors.get(o.name, f"{scope}/{o.name}") for o in graph.output]


CONTROL: dict[str, Rewrite] = {
    "ConcatFromSequence": join,
    "Identity": hand_on,
    "If": compute_both_branches,
    "Loop": unroll_loop,
    "Optional": wrap,
    "OptionalGetElement": unwrap,
    "OptionalHasElement": has_element,
    "Scan": unroll_scan,
    "SequenceAt": pick,
    "SequenceConstruct": construct,
    "SequenceEmpty": construct,
    "SequenceErase": erase,
    "SequenceInsert": insert,
    "SequenceLength": measure,
    "SequenceMap": map_sequence,
    "SplitToSequence": split,
}
