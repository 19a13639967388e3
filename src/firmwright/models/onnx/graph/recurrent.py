"""RNN, GRU, LSTM and Scan written out over a known number of steps: TVM has no converters."""

from __future__ import annotations

from collections.abc import Callable

import onnx
from onnx import helper

from firmwright.models.onnx.graph.body import NodeBuilder, get_attribute
from firmwright.models.onnx.graph.specialize import Nodes, Specializer, list_reads, rename_tensors

MAX_STEPS = 256
"""Steps that may be written out; each of them becomes code."""

Cell = Callable[["Direction", str, list[str]], list[str]]
"""Takes a step's input and the states, each (batch, size), and returns the new states."""


def make_recurrent(gates: int, states: int, cell: Cell, activations: list[str]) -> Callable[
    [onnx.NodeProto, Specializer], Nodes | None
]:  # fmt: skip
    """Return the rewrite of an operator with so many gates and states."""

    def rewrite(node: onnx.NodeProto, walk: Specializer) -> Nodes | None:
        shape, weights = (walk.shape(i) for i in node.input[:2])
        if shape is None or weights is None or not is_standard(node, walk, activations):
            return None
        batch_first = get_attribute(node, "layout", 0) == 1
        steps, batch = (shape[1], shape[0]) if batch_first else shape[:2]
        if steps > MAX_STEPS:
            return None
        body = NodeBuilder(node, walk)
        data = (
            body.add("Transpose", node.input[0], perm=[1, 0, 2]) if batch_first else node.input[0]
        )
        ends: list[list[str]] = [[] for _ in range(states)]
        by_step: list[list[str]] = [[] for _ in range(steps)]
        reverse = {"forward": [False], "reverse": [True], "bidirectional": [False, True]}
        for index, back in enumerate(reverse[get_attribute(node, "direction", "forward")]):
            direction = Direction(body, walk, index, gates, batch)
            current = [direction.get_initial_state(5 + i) for i in range(states)]
            for step in reversed(range(steps)) if back else range(steps):
                current = cell(direction, direction.pick(data, step), current)
                by_step[step].append(current[0])
            for end, state in zip(ends, current, strict=True):
                end.append(state)
        axis = 1 if batch_first else 0
        sequence = body.stack([body.stack(s, 0) for s in by_step], 0)
        if batch_first:
            sequence = body.add("Transpose", sequence, perm=[2, 0, 1, 3])
        return body.finish(sequence, *(body.stack(end, axis) for end in ends))

    return rewrite


def is_standard(node: onnx.NodeProto, walk: Specializer, activations: list[str]) -> bool:
    """Tell whether all sequences are whole and the functions are the operator's own."""
    stated = [a.decode() for a in get_attribute(node, "activations", [])]
    lengths = node.input[4] if len(node.input) > 4 else ""
    steps = (walk.shape(node.input[0]) or (0,))[get_attribute(node, "layout", 0)]
    whole = not lengths or (
        lengths in walk.constants and bool((walk.constants[lengths] == steps).all())
    )
    customary = not stated or stated == activations * (len(stated) // len(activations))
    plain = not get_attribute(node, "clip", 0.0) and not get_attribute(node, "input_forget", 0)
    return whole and customary and plain


class Direction:
    """The weights of one direction, as nodes: W (gates·size, input), R (gates·size, size) …"""

    def __init__(
        self, body: NodeBuilder, walk: Specializer, index: int, gates: int, batch: int
    ) -> None:
        self.body, self.index, self.gates, self.batch = body, index, gates, batch
        self.node = node = body.node
        self.size = (walk.shape(node.input[2]) or (0, 0, 0))[2]
        self.dtype = walk.dtype(node.input[0])
        self.weights = [
            self.split(body.add("Transpose", self.pick(i, index), perm=[1, 0]), 1, gates)
            for i in node.input[1:3]
        ]
        bias = node.input[3] if len(node.input) > 3 else ""
        self.biases = self.split(self.pick(bias, index), 0, 2 * gates) if bias else []
        peepholes = node.input[7] if len(node.input) > 7 else ""
        self.peepholes = self.split(self.pick(peepholes, index), 0, 3) if peepholes else []

    def pick(self, name: str, index: int, axis: int = 0) -> str:
        return self.body.add("Gather", name, self.body.constant(index, "int64"), axis=axis)

    def split(self, name: str, axis: int, parts: int) -> list[str]:
        """Return equal parts along an axis."""
        bounds = [self.body.constant([i * self.size], "int64") for i in range(parts + 1)]
        place = self.body.constant([axis], "int64")
        return [self.body.add("Slice", name, bounds[i], bounds[i + 1], place) for i in range(parts)]

    def get_initial_state(self, place: int) -> str:
        """Return a state's first value, which is zero where it is not given."""
        name = self.node.input[place] if len(self.node.input) > place else ""
        if not name:
            return self.body.constant([[0.0] * self.size] * self.batch, self.dtype)
        return self.pick(name, self.index, int(get_attribute(self.node, "layout", 0) == 1))

    def apply_weights(self, value: str, source: int, gate: int) -> str:
        """Return the input (source 0) or state (1) times its weights for a gate, plus the bias."""
        product = self.body.add("MatMul", value, self.weights[source][gate])
        if not self.biases:
            return product
        return self.body.add("Add", product, self.biases[source * self.gates + gate])

    def add_gate(
        self, gate: int, data: str, state: str, peephole: tuple[int, str] | None = None
    ) -> str:
        """Return a gate before its activation; an LSTM's may also look at the cell's state."""
        terms = self.apply_weights(data, 0, gate), self.apply_weights(state, 1, gate)
        total = self.body.add("Add", *terms)
        if peephole is None or not self.peepholes:
            return total
        place, cell = peephole
        return self.body.add("Add", total, self.body.add("Mul", self.peepholes[place], cell))


def add_rnn_cell(direction: Direction, data: str, states: list[str]) -> list[str]:
    return [direction.body.add("Tanh", direction.add_gate(0, data, states[0]))]


def add_gru_cell(direction: Direction, data: str, states: list[str]) -> list[str]:
    """Gates update, reset, hidden. Source: ONNX's operator GRU, its equations."""
    add, (state,) = direction.body.add, states
    update = add("Sigmoid", direction.add_gate(0, data, state))
    reset = add("Sigmoid", direction.add_gate(1, data, state))
    if get_attribute(direction.node, "linear_before_reset", 0):
        recalled = add("Mul", reset, direction.apply_weights(state, 1, 2))
    else:
        recalled = direction.apply_weights(add("Mul", reset, state), 1, 2)
    hidden = add("Tanh", add("Add", direction.apply_weights(data, 0, 2), recalled))
    change = add("Mul", update, add("Sub", state, hidden))
    return [add("Add", hidden, change)]


def add_lstm_cell(direction: Direction, data: str, states: list[str]) -> list[str]:
    """Gates input, output, forget, cell. Source: ONNX's operator LSTM, its equations."""
    add, (state, cell) = direction.body.add, states
    taken = add("Sigmoid", direction.add_gate(0, data, state, (0, cell)))
    forget = add("Sigmoid", direction.add_gate(2, data, state, (2, cell)))
    proposal = add("Tanh", direction.add_gate(3, data, state))
    cell = add("Add", add("Mul", forget, cell), add("Mul", taken, proposal))
    shown = add("Sigmoid", direction.add_gate(1, data, state, (1, cell)))
    return [add("Mul", shown, add("Tanh", cell)), cell]


RECURRENT = {
    "GRU": make_recurrent(3, 1, add_gru_cell, ["Sigmoid", "Tanh"]),
    "LSTM": make_recurrent(4, 2, add_lstm_cell, ["Sigmoid", "Tanh", "Tanh"]),
    "RNN": make_recurrent(1, 1, add_rnn_cell, ["Tanh"]),
}

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
