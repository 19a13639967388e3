"""Unrolls RNN, GRU and LSTM, because TVM does not support these operators."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from onnx import helper

from firmwright.models.onnx.graph.specialize import Array, NodeBuilder, Nodes, Rewrite

MAX_STEPS = 4096
"""The maximum number of steps.

The steps become a loop in C, but a build needs time for each step.
"""

STEP = "step@"
"""The part of tensor names before the step's number."""

Cell = Callable[["Direction", str, list[str]], list[str]]
"""Returns the new states. The arguments are the step's input and the states, (batch, size) each."""

Hold = Callable[[str, Array], None]
"""Receives the name and the value of a state before the first step."""


def name_without_step(name: str) -> str:
    """Return a tensor's name with a wildcard for the step."""
    return re.sub(rf"/{STEP}-?\d+/", f"/{STEP}*/", name)


def read_lengths(body: NodeBuilder, steps: int, batch: int) -> Array:
    """Return the number of steps of each sequence of the batch.

    Raises UserError if the lengths are not constants from 1 to ``steps``.
    """
    name = body.input(4)
    if not name:
        return np.full(batch, steps)
    if name not in body.walk.constants:
        body.refuse(
            f"its input sequence_lens '{name}' is known only at run time; export the model without "
            f"it, for whole sequences of {steps} steps"
        )
    lengths = body.walk.constants[name]
    if lengths.shape != (batch,) or lengths.min() < 1 or lengths.max() > steps:
        body.refuse_inconsistent(
            f"its input sequence_lens '{name}' is {lengths.tolist()}; expected {batch} numbers "
            f"from 1 to {steps}"
        )
    return lengths


def select_active(
    body: NodeBuilder,
    active: Array,
    next_states: list[str],
    states: list[str],
    dtype: np.dtype[Any],
) -> tuple[str, list[str]]:
    """Return a step's output and the next states, if some sequences of the batch ended earlier."""
    mask, zero = body.constant(active[:, None], "bool"), body.constant(0, dtype)
    kept = [body.add("Where", mask, new, old) for new, old in zip(next_states, states, strict=True)]
    return body.add("Where", mask, next_states[0], zero), kept


def is_initial_state(name: str) -> bool:
    return f"/{STEP}-1/" in name


class Direction:
    """The weights of one direction, as nodes: W (input, gates·size), R (size, gates·size) …"""

    def __init__(
        self,
        body: NodeBuilder,
        index: int,
        gates: int,
        batch: int,
        data: str,
        functions: Sequence[Activation],
    ) -> None:
        self.functions = functions
        self.body, self.walk, self.index = body, body.walk, index
        self.batch, self.data = batch, data
        self.node = body.node
        self.dtype = body.dtype(0)
        self.size, self.weights = self.read_weights()
        bias = body.input(3)
        position = self.pick(bias, index) if bias else ""
        self.biases = [self.cut(position, i * gates, gates, 0) for i in range(2)] if bias else []
        self.parts: dict[tuple[int, int, int], tuple[str, str]] = {}
        peepholes = body.input(7)
        position = self.pick(peepholes, index) if peepholes else ""
        self.peepholes = [self.cut(position, i, 1, 0) for i in range(3)] if peepholes else []

    def read_weights(self) -> tuple[int, list[str]]:
        size = (self.walk.shape(self.node.input[2]) or (0, 0, 0))[2]
        matrices = (self.pick(i, self.index) for i in self.node.input[1:3])
        return size, [self.body.add("Transpose", m, perm=[1, 0]) for m in matrices]

    def pick(self, name: str, index: int, axis: int = 0) -> str:
        return self.body.add("Gather", name, self.body.constant(index, "int64"), axis=axis)

    def cut(self, name: str, first: int, gates: int = 1, axis: int = 1) -> str:
        """Append the part of ``gates`` gates along an axis, beginning with the gate ``first``."""
        ends = [self.body.constant([i * self.size], "int64") for i in (first, first + gates)]
        return self.body.add("Slice", name, *ends, self.body.constant([axis], "int64"))

    def get_initial_state(self, position: int, hold: Hold | None) -> str:
        name = self.body.input(5 + position)
        axis = int(self.body.attribute("layout", 0) == 1)
        if name and name not in self.walk.constants:
            return self.pick(name, self.index, axis)
        known = self.walk.constants[name].take(self.index, axis) if name else np.zeros(())
        if known.shape not in ((), (self.batch, self.size)):
            self.body.refuse_inconsistent(
                f"its initial state '{name}' has shape {list(known.shape)} per direction; expected "
                f"{[self.batch, self.size]}, as the batch and the weights",
            )
        value = np.full((self.batch, self.size), known, self.dtype)
        if hold is None:
            return self.body.constant(value, self.dtype)
        name = self.body.name_tensor(f"state_{position}")
        hold(name, value)
        element = helper.np_dtype_to_tensor_dtype(value.dtype)
        self.walk.types[name] = helper.make_tensor_type_proto(element, value.shape)
        return name

    def apply_weights(self, value: str, source: int, first: int = 0, gates: int = 0) -> str:
        """Append the product of the input (source 0) or state (1) and the weights, plus the bias.

        If ``gates`` is 0, all gates are computed. Otherwise the gates from ``first`` to ``first +
        gates - 1`` are computed.
        """
        part = source, first, gates
        if part not in self.parts:
            self.parts[part] = self.get_part(*part)
        weights, bias = self.parts[part]
        product = self.body.add("MatMul", value, weights)
        return self.body.add("Add", product, bias) if bias else product

    def get_part(self, source: int, first: int, gates: int) -> tuple[str, str]:
        """Return the weights and the bias of some gates as nodes outside the steps."""
        weights, bias = self.weights[source], self.biases[source] if self.biases else ""
        if not gates:
            return weights, bias
        scope, self.body.scope = self.body.scope, ""
        weights, bias = self.cut(weights, first, gates), bias and self.cut(bias, first, gates, 0)
        self.body.scope = scope
        return weights, bias

    def apply(self, position: int, value: str, label: str = "") -> str:
        return self.functions[position].add(self.body, value, self.dtype, label)

    def add_peephole(self, gate: str, position: int, cell: str) -> str:
        if not self.peepholes:
            return gate
        return self.body.add("Add", gate, self.body.add("Mul", self.peepholes[position], cell))


def add_rnn_cell(direction: Direction, data: str, states: list[str]) -> list[str]:
    terms = direction.apply_weights(data, 0), direction.apply_weights(states[0], 1)
    total = direction.body.add("Add", *terms)
    return [direction.apply(0, total, "state_0")]


def add_gru_cell(direction: Direction, data: str, states: list[str]) -> list[str]:
    """Return the next state. The gates are update, reset, hidden. Source: ONNX's GRU equations."""
    body, apply, (state,) = direction.body, direction.apply_weights, states
    add = body.add
    both = add("Add", apply(data, 0, 0, 2), apply(state, 1, 0, 2))
    update, reset = (direction.apply(0, direction.cut(both, gate)) for gate in range(2))
    if direction.body.attribute("linear_before_reset", 0):
        remembered = add("Mul", reset, apply(state, 1, 2, 1))
    else:
        remembered = apply(add("Mul", reset, state), 1, 2, 1)
    hidden = direction.apply(1, add("Add", apply(data, 0, 2, 1), remembered))
    change = add("Mul", update, add("Sub", state, hidden))
    return [body.add_as("state_0", "Add", hidden, change)]


def add_lstm_cell(direction: Direction, data: str, states: list[str]) -> list[str]:
    """Return the next states. The gates are input, output, forget, cell.

    If ``input_forget`` is set, the forget gate is 1 - input gate. Source: ONNX's LSTM equations.
    ``clip`` limits only the gates, as in ONNX Runtime.
    """
    add, (state, cell), apply = direction.body.add, states, direction.apply
    total = add("Add", direction.apply_weights(data, 0), direction.apply_weights(state, 1))
    gates = [direction.cut(total, gate) for gate in range(4)]
    taken = apply(0, direction.add_peephole(gates[0], 0, cell))
    if direction.body.attribute("input_forget", 0):
        forget = add("Sub", direction.body.constant(1, direction.dtype), taken)
    else:
        forget = apply(0, direction.add_peephole(gates[2], 2, cell))
    kept = add("Mul", forget, cell)
    cell = direction.body.add_as("state_1", "Add", kept, add("Mul", taken, apply(1, gates[3])))
    shown = apply(0, direction.add_peephole(gates[1], 1, cell))
    hidden = replace(direction.functions[2], limit=0)
    value = hidden.add(direction.body, cell, direction.dtype)
    return [direction.body.add_as("state_0", "Mul", shown, value), cell]


DIRECTIONS = {"forward": [False], "reverse": [True], "bidirectional": [False, True]}
"""Whether each direction of a layer begins with the last step."""


@dataclass(frozen=True)
class RecurrentLayer:
    """The cell, the default functions, and the numbers of gates and states of a recurrent operator.

    ``direction`` is the class of the weights.
    """

    gates: int
    states: int
    cell: Cell
    activations: list[str]
    direction: type[Direction]

    def write_out(self, body: NodeBuilder, hold: Hold | None = None) -> Nodes | None:
        """Return the steps in their order. Return None if shapes are unknown.

        Raises UserError if a sequence has more than :data:`MAX_STEPS` steps, or if a variant is not
        supported. If ``hold`` is None, constant initial states remain constants. Otherwise ``hold``
        receives these states as tensors, so that the first step has the form of all other steps.
        """
        shape, weights = (body.walk.shape(i) for i in body.node.input[:2])
        if shape is None or weights is None:
            return None
        batch_first = body.attribute("layout", 0) == 1
        steps, batch = (shape[1], shape[0]) if batch_first else shape[:2]
        if steps > MAX_STEPS:
            body.refuse(
                f"its sequence has {steps} steps; expected at most {MAX_STEPS}: export it for "
                "shorter sequences, and keep its state between runs"
            )
        lengths = read_lengths(body, steps, batch)
        data = (
            body.add("Transpose", body.input(0), perm=[1, 0, 2]) if batch_first else body.input(0)
        )
        ends: list[list[str]] = [[] for _ in range(self.states)]
        by_step: list[list[str]] = [[] for _ in range(steps)]
        backwards = DIRECTIONS[body.attribute("direction", "forward")]
        functions = read_activations(body, self.activations, len(backwards))
        for index, back in enumerate(backwards):
            direction = self.direction(body, index, self.gates, batch, data, functions[index])
            body.scope = f"{index}/{STEP}-1/"
            current = [direction.get_initial_state(i, hold) for i in range(self.states)]
            for step in reversed(range(steps)) if back else range(steps):
                body.scope = f"{index}/{STEP}{step}/"
                active = lengths > step
                if not active.any():
                    zeros = np.zeros((batch, direction.size))
                    by_step[step].append(body.constant(zeros, direction.dtype))
                    continue
                next_states = self.cell(direction, direction.pick(direction.data, step), current)
                shown = next_states[0]
                if not active.all():
                    shown, next_states = select_active(
                        body, active, next_states, current, direction.dtype
                    )
                current = next_states
                by_step[step].append(shown)
            body.scope = ""
            for end, state in zip(ends, current, strict=True):
                end.append(state)
        axis = 1 if batch_first else 0
        sequence = body.stack([body.stack(s, 0) for s in by_step], 0)
        if batch_first:
            sequence = body.add("Transpose", sequence, perm=[2, 0, 1, 3])
        return body.finish(sequence, *(body.stack(end, axis) for end in ends))


LAYERS = {
    "GRU": RecurrentLayer(3, 1, add_gru_cell, ["Sigmoid", "Tanh"], Direction),
    "LSTM": RecurrentLayer(4, 2, add_lstm_cell, ["Sigmoid", "Tanh", "Tanh"], Direction),
    "RNN": RecurrentLayer(1, 1, add_rnn_cell, ["Tanh"], Direction),
}

RECURRENT: dict[str, Rewrite] = {kind: layer.write_out for kind, layer in LAYERS.items()}


DEFAULTS: Mapping[str, tuple[float, ...]] = {
    "Affine": (0, 0),
    "Elu": (1,),
    "HardSigmoid": (0.2, 0.5),
    "LeakyRelu": (0.01,),
    "Relu": (),
    "ScaledTanh": (0, 0),
    "Sigmoid": (),
    "Softplus": (),
    "Softsign": (),
    "Tanh": (),
    "ThresholdedRelu": (0,),
}
"""The default parameters alpha and beta of each function in ONNX Runtime."""


@dataclass(frozen=True)
class Activation:
    """An activation function of ONNX, and its alpha and beta.

    The argument of the function is clipped to the magnitude ``limit``, unless ``limit`` is 0.
    """

    name: str
    parameters: tuple[float, ...]
    limit: float = 0

    def add(self, body: NodeBuilder, value: str, dtype: np.dtype[Any], label: str = "") -> str:
        """Append the function of a value of type ``dtype``.

        ``label`` names the function's result.
        """
        if self.limit:
            limits = (body.constant(n, dtype) for n in (-self.limit, self.limit))
            value = body.add("Clip", value, *limits)
        operator, operands, stated = self.name, [value], {}
        if self.name in ("Affine", "ScaledTanh"):
            alpha, beta = (body.constant(n, dtype) for n in self.parameters)
            if self.name == "Affine":
                operator, operands = "Add", [body.add("Mul", value, alpha), beta]
            else:
                inner = body.add("Tanh", body.add("Mul", value, beta))
                operator, operands = "Mul", [inner, alpha]
        else:
            stated = dict(zip(("alpha", "beta"), self.parameters, strict=False))
        if label:
            return body.add_as(label, operator, *operands, **stated)
        return body.add(operator, *operands, **stated)


def read_activations(
    body: NodeBuilder, standard: Sequence[str], directions: int
) -> list[list[Activation]]:
    """Return the functions of each direction, in the order of the operator's definition.

    The values of alpha and beta are in the order of the functions that use these values.
    """
    names = [a.decode() for a in body.attribute("activations", [])]
    names = names or [*standard] * directions
    known = {name.lower(): name for name in DEFAULTS}
    unknown = [name for name in names if name.lower() not in known]
    if unknown or len(names) != len(standard) * directions:
        body.refuse_inconsistent(
            f"its activations are {', '.join(names)}; expected {len(standard)} per direction, "
            f"{len(standard) * directions} in total, from {', '.join(DEFAULTS)}"
        )
    alphas, betas = (iter(body.attribute(f"activation_{n}", [])) for n in ("alpha", "beta"))
    limit = body.attribute("clip", 0.0)
    activations = []
    for name in (known[name.lower()] for name in names):
        stated = zip((alphas, betas), DEFAULTS[name], strict=False)
        activations.append(Activation(name, tuple(next(*pair) for pair in stated), limit))
    count = len(standard)
    return [activations[i * count : (i + 1) * count] for i in range(directions)]
