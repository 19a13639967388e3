"""Unrolls PyTorch's recurrent layers step by step, because TVM supports only a few kinds.

torch can unroll recurrent layers, but torch's tensor names do not contain the step. This module
writes the step into tensor names, so that all steps are quantized equally.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from tvm import relax
from tvm.relax import Expr, op

from firmwright.ir.relax import dtype_of, emit_with_name, static_shape
from firmwright.models.onnx.graph.recurrent import STEP

Array = npt.NDArray[Any]
Cell = Callable[["DirectionWeights", Expr, Sequence[Expr]], list[Expr]]
"""Returns the new states. The arguments are the step's input and the states, (batch, size) each."""


class DirectionWeights:
    def __init__(self, builder: relax.BlockBuilder, label: str, weights: Sequence[Array]) -> None:
        self.builder, self.label = builder, label
        self.weights, self.biases = weights[:2], weights[2:]
        self.size = self.weights[1].shape[1]
        self.parts: dict[tuple[int, int, int], list[Expr]] = {}
        self.scope = ""
        self.counts: Counter[str] = Counter()

    def bind(self, value: Expr, label: str = "") -> Expr:
        self.counts[self.scope] += 1
        name = f"{self.label}/{self.scope}{label or self.counts[self.scope]}"
        return emit_with_name(self.builder, value, name)

    def apply_weights(self, value: Expr, source: int, first: int, gates: int) -> Expr:
        """Append the input (source 0) or state (1) times the weights of some gates, plus biases."""
        part = source, first, gates
        if part not in self.parts:
            rows = slice(first * self.size, (first + gates) * self.size)
            arrays = [self.weights[source][rows].T, *(b[rows] for b in self.biases[source:][:1])]
            self.parts[part] = [relax.const(np.ascontiguousarray(array)) for array in arrays]
        weights, *biases = self.parts[part]
        product = self.bind(op.matmul(value, weights))
        return self.bind(op.add(product, *biases)) if biases else product

    def add_gates(self, data: Expr, state: Expr, gates: int) -> Expr:
        """Append the first ``gates`` gates in one tensor, before their activation functions."""
        terms = (self.apply_weights(value, i, 0, gates) for i, value in enumerate((data, state)))
        return self.bind(op.add(*terms))

    def cut(self, value: Expr, gate: int) -> Expr:
        bounds = [gate * self.size], [(gate + 1) * self.size]
        return self.bind(op.strided_slice(value, [1], *bounds))

    def run(
        self, cell: Cell, steps: Sequence[Expr], states: list[Expr], back: bool
    ) -> tuple[list[Expr], list[Expr]]:
        """Return the first state after each step, and all states after the last step."""
        shown: dict[int, Expr] = {}
        for step in sorted(range(len(steps)), reverse=back):
            self.scope = f"{STEP}{step}/"
            states = cell(self, steps[step], states)
            shown[step] = states[0]
        return [shown[step] for step in sorted(shown)], states


def add_rnn_cell(direction: DirectionWeights, data: Expr, states: Sequence[Expr]) -> list[Expr]:
    return [direction.bind(op.tanh(direction.add_gates(data, states[0], 1)), "state_0")]


def add_gru_cell(direction: DirectionWeights, data: Expr, states: Sequence[Expr]) -> list[Expr]:
    """Return the next state. The gates are reset, update, hidden.

    Source: the equations of torch.nn.GRU.
    """
    bind, (state,) = direction.bind, states
    both = direction.add_gates(data, state, 2)
    reset, update = (bind(op.sigmoid(direction.cut(both, gate))) for gate in range(2))
    remembered = bind(op.multiply(reset, direction.apply_weights(state, 1, 2, 1)))
    hidden = bind(op.tanh(bind(op.add(direction.apply_weights(data, 0, 2, 1), remembered))))
    change = bind(op.multiply(update, bind(op.subtract(state, hidden))))
    return [bind(op.add(hidden, change), "state_0")]


def add_lstm_cell(direction: DirectionWeights, data: Expr, states: Sequence[Expr]) -> list[Expr]:
    """Return the next states. The gates are input, forget, cell, output.

    Source: the equations of torch.nn.LSTM.
    """
    bind, (state, cell) = direction.bind, states
    total = direction.add_gates(data, state, 4)
    taken, forget, proposal, shown = (direction.cut(total, gate) for gate in range(4))
    kept = bind(op.multiply(bind(op.sigmoid(forget)), cell))
    added = bind(op.multiply(bind(op.sigmoid(taken)), bind(op.tanh(proposal))))
    cell = bind(op.add(kept, added), "state_1")
    return [
        bind(op.multiply(bind(op.sigmoid(shown)), bind(op.tanh(cell))), "state_0"),
        cell,
    ]


CELLS: dict[Any, Cell] = {
    torch.ops.aten.gru.input: add_gru_cell,
    torch.ops.aten.lstm.input: add_lstm_cell,
    torch.ops.aten.rnn_tanh.input: add_rnn_cell,
}


def find_recurrent(program: torch.export.ExportedProgram) -> Iterator[torch.fx.Node]:
    return (n for n in program.graph.nodes if n.op == "call_function" and n.target in CELLS)


def are_written_out(program: torch.export.ExportedProgram) -> bool:
    """Return whether all recurrent layers have stored weights, and states of the cells' size.

    Layers with projections have more weights and smaller states.
    """
    stored = {
        spec.arg.name
        for spec in program.graph_signature.input_specs
        if spec.target in program.state_dict or spec.target in program.constants
    }
    return all(
        len(node.args[2]) == node.args[4] * (1 + node.args[7]) * (4 if node.args[3] else 2)
        and stored.issuperset(n.name for n in node.args[2])
        for node in find_recurrent(program)
    )


def write_out_recurrent(importer: Any, node: torch.fx.Node) -> relax.Tuple:
    """Unroll a recurrent layer, and return the sequence and the last states."""
    data, states, params, has_biases, layers, _, _, both_directions, batch_first = node.args
    states = states if isinstance(states, list | tuple) else [states]
    builder, sequence = importer.block_builder, importer.env[data]
    axis = 1 if batch_first else 0
    names = [f"{node.name}/{STEP}{step}" for step in range(static_shape(sequence)[axis])]
    steps = [
        emit_with_name(builder, pick(sequence, step, axis), f"{name}/input")
        for step, name in enumerate(names)
    ]
    arrays = [np.ascontiguousarray(importer.stored[p.name].numpy()) for p in params]
    each, directions = 4 if has_biases else 2, 2 if both_directions else 1
    ends: list[list[Expr]] = []
    for layer in range(layers):
        by_direction = []
        for side in range(directions):
            position = layer * directions + side
            label = f"{node.name}/{position}"
            weights = arrays[position * each : (position + 1) * each]
            direction = DirectionWeights(builder, label, weights)
            first = [get_state(importer, direction, s, i, position) for i, s in enumerate(states)]
            shown, end = direction.run(CELLS[node.target], steps, first, side == 1)
            by_direction.append(shown)
            ends.append(end)
        steps = [
            emit_with_name(builder, op.concat(parts, 1), f"{name}/layer_{layer}")
            if directions > 1
            else parts[0]
            for name, parts in zip(names, zip(*by_direction, strict=True), strict=True)
        ]
    last = [stack(builder, parts, 0) for parts in zip(*ends, strict=True)]
    return relax.Tuple([stack(builder, steps, axis), *last])


def get_state(
    importer: Any, direction: DirectionWeights, state: torch.fx.Node, number: int, position: int
) -> Expr:
    """Return a state (batch, size) before the first step. A state of zeros has a step's name."""
    whole = importer.env[state]
    if state.target is not torch.ops.aten.full.default:
        return importer.block_builder.emit(pick(whole, position, 0))
    shape, value = state.args
    direction.scope = f"{STEP}-1/"
    filled = op.full(shape[1:], relax.const(value, dtype_of(whole)), dtype_of(whole))
    return direction.bind(filled, f"state_{number}")


def pick(value: Expr, position: int, axis: int) -> Expr:
    return op.take(value, relax.const(position, "int64"), axis)


def stack(builder: relax.BlockBuilder, parts: Sequence[Expr], axis: int) -> Expr:
    return builder.emit(op.concat([builder.emit(op.expand_dims(p, axis)) for p in parts], axis))
