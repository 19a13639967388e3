"""Converts LSTM operators in float32 with float32 or int8 weights, and dispatches LSTMs in int8."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt
import tflite
from tvm import relax

from firmwright.errors import UserError
from firmwright.ir.relax import static_shape
from firmwright.models.tflite.hybrid import multiply_rows, require_bytes
from firmwright.models.tflite.integer_products import read_scale, reshape
from firmwright.models.tflite.lstm_integers import IntegerCell, advance, read_integer_cell

GATES = ("input", "forget", "cell", "output")
"""The gates in the order of their inputs.

Coupled cells compute the input gate from the forget gate.
"""

PEEPHOLES = ("input", "forget", "output")


@dataclass(frozen=True)
class TensorPositions:
    """The index of the first input of each group.

    The inputs of a group are in the order of the gates.
    """

    weights: int = 1
    recurrent: int = 5
    peepholes: int = 9
    biases: int = 12
    projection: int = 16
    states: int = 18
    norms: int | None = 20
    auxiliary: int | None = None


ONLY = TensorPositions()
FORWARD = TensorPositions(states=35, norms=None, auxiliary=40)
BACKWARD = TensorPositions(18, 22, 26, 29, 33, states=37, norms=None, auxiliary=44)
AUXILIARY_INPUT = 39

STATE_INPUTS: Mapping[str, tuple[int, ...]] = {
    "BIDIRECTIONAL_SEQUENCE_LSTM": (35, 36, 37, 38),
    "LSTM": (18, 19),
    "UNIDIRECTIONAL_SEQUENCE_LSTM": (18, 19),
}
"""Maps operators to the inputs that contain output states and cell states."""

Weights = tuple[relax.Expr, npt.NDArray[Any] | None]
"""The weights (length, all units) of all gates, and the scales per unit of int8 weights."""


@dataclass(frozen=True)
class FloatCell:
    """The constants of all steps. The keys of mappings are gates.

    ``sources`` contains the weights of each input. ``symmetric`` is the quantization of activations
    if the weights are int8. A clip of 0 has no effect.
    """

    sources: Sequence[Weights]
    recurrent: Weights
    biases: Mapping[str, npt.NDArray[Any]]
    peepholes: Mapping[str, npt.NDArray[Any]]
    norms: Mapping[str, npt.NDArray[Any]]
    projection: Weights | None
    projection_bias: npt.NDArray[Any] | None
    symmetric: bool
    activation: int
    cell_clip: float
    projection_clip: float


States = tuple[relax.Expr, relax.Expr]
"""The output state (batch, outputs) and the cell state (batch, units)."""


def convert_lstm(converter: Any, op: Any) -> relax.Expr:
    """Convert UNIDIRECTIONAL_SEQUENCE_LSTM, because TVM loses the next states.

    Return the result (batch, time, outputs), the next output state and the next cell state.
    """
    options = converter._get_builtin_options(op, tflite.UnidirectionalSequenceLSTMOptions)
    (source, *_) = converter.get_input_tensors(op)
    axis = 0 if options.TimeMajor() else 1
    return relax.Tuple(run_only(converter, op, options, converter.get_tensor_expr(source), axis))


def convert_step(converter: Any, op: Any) -> relax.Expr:
    """Convert LSTM, which computes one step of (batch, features)."""
    options = converter._get_builtin_options(op, tflite.LSTMOptions)
    if options.KernelType() != tflite.LSTMKernelType.FULL:
        raise UserError(
            "has the basic kernel; firmwright supports the full kernel: convert the model again "
            "with UNIDIRECTIONAL_SEQUENCE_LSTM"
        )
    (source, *_) = converter.get_input_tensors(op)
    data = relax.op.expand_dims(converter.get_tensor_expr(source), 0)
    result, *states = run_only(converter, op, options, data, 0)
    return relax.Tuple([relax.op.squeeze(result, [0]), *states])


def convert_bidirectional(converter: Any, op: Any) -> relax.Expr:
    """Convert BIDIRECTIONAL_SEQUENCE_LSTM to one cell per direction. The results may be joined.

    The auxiliary input is a second input of both cells if the cells have auxiliary weights. Without
    these weights, the auxiliary input is the only input of the backward cell.
    """
    tensors = converter.get_input_tensors(op)
    if tensors[0].qnn_params is not None:
        raise UserError(
            "has quantized inputs; LiteRT, the reference, computes it in float32: keep the layer "
            "in float32, or use a UNIDIRECTIONAL_SEQUENCE_LSTM per direction, as Keras does"
        )
    options = converter._get_builtin_options(op, tflite.BidirectionalSequenceLSTMOptions)
    cells = [read_float_cell(converter, tensors, each, options) for each in (FORWARD, BACKWARD)]
    data = [[converter.get_tensor_expr(tensors[0])]] * 2
    if find(tensors, AUXILIARY_INPUT) is not None:
        auxiliary = converter.get_tensor_expr(tensors[AUXILIARY_INPUT])
        linked = len(cells[0].sources) > 1
        data = [[*data[0], auxiliary]] * 2 if linked else [data[0], [auxiliary]]
    axis = 0 if options.TimeMajor() else 1
    results: list[relax.Expr] = []
    states: list[relax.Expr] = []
    for cell, given, positions in zip(cells, data, (FORWARD, BACKWARD), strict=True):
        before = read_states(converter, tensors, positions)
        result, after = run_cell(converter, cell, given, before, axis, positions is BACKWARD)
        results.append(result)
        states.extend(after)
    if options.MergeOutputs():
        results = [relax.op.concat(results, axis=2)]
    return relax.Tuple([*results, *states])


def run_only(
    converter: Any, op: Any, options: Any, data: relax.Expr, axis: int
) -> list[relax.Expr]:
    """Return the result and the next states of an operator with one cell.

    ``axis`` is the time axis.
    """
    tensors = converter.get_input_tensors(op)
    states = read_states(converter, tensors, ONLY)
    if tensors[0].qnn_params is None:
        cell = read_float_cell(converter, tensors, ONLY, options)
        result, after = run_cell(converter, cell, [data], states, axis)
    else:
        numbers = read_integer_cell(converter, op, options)
        result, after = run_integers(converter, numbers, data, states, axis)
    return [result, *after]


def find(tensors: Sequence[Any], position: int) -> Any | None:
    given = position < len(tensors) and tensors[position].tensor_idx >= 0
    return tensors[position] if given else None


def read_states(converter: Any, tensors: Sequence[Any], positions: TensorPositions) -> States:
    first, second = (converter.get_tensor_expr(tensors[positions.states + i]) for i in (0, 1))
    return first, second


def read_float_cell(
    converter: Any, tensors: Sequence[Any], positions: TensorPositions, options: Any
) -> FloatCell:
    """Return the constants of a cell. Raises UserError if the weights are not supported."""

    def read(start: int | None, gates: Sequence[str]) -> dict[str, Any]:
        by_gate = {g: find(tensors, start + i) for i, g in enumerate(gates)} if start else {}
        return {gate: tensor for gate, tensor in by_gate.items() if tensor is not None}

    def read_values(start: int | None, gates: Sequence[str]) -> dict[str, npt.NDArray[Any]]:
        return {g: read_floats(converter, tensor) for g, tensor in read(start, gates).items()}

    groups = [
        read(start, GATES)
        for start in (positions.weights, positions.auxiliary, positions.recurrent)
    ]
    weights, auxiliary, recurrent = (
        [group[g] for g in GATES if g in group] for group in groups
    )  # fmt: skip
    projection, bias = (find(tensors, positions.projection + i) for i in (0, 1))
    return FloatCell(
        sources=[read_weights(converter, each) for each in (weights, auxiliary) if each],
        recurrent=read_weights(converter, recurrent),
        biases=read_values(positions.biases, GATES),
        peepholes=read_values(positions.peepholes, PEEPHOLES),
        norms=read_values(positions.norms, GATES),
        projection=None if projection is None else read_weights(converter, [projection]),
        projection_bias=None if bias is None else read_floats(converter, bias),
        symmetric=not options.AsymmetricQuantizeInputs(),
        activation=options.FusedActivationFunction(),
        cell_clip=options.CellClip(),
        projection_clip=options.ProjClip(),
    )


def read_floats(converter: Any, tensor: Any) -> npt.NDArray[Any]:
    """Return the real values of a constant in float32 or int8."""
    values: npt.NDArray[Any] = converter.get_tensor_value(tensor)
    if tensor.qnn_params is None:
        return values
    require_bytes(converter, tensor)
    return values * read_scale(tensor)


def read_weights(converter: Any, tensors: Sequence[Any]) -> Weights:
    gates = [converter.get_tensor_value(tensor) for tensor in tensors]
    if gates[0].ndim == 1:
        raise UserError(
            "has diagonal recurrent weights; firmwright supports matrices: convert the model again "
            "without this option"
        )
    stored = relax.const(np.concatenate(gates).T.copy())
    if tensors[0].qnn_params is None:
        return stored, None
    for tensor in tensors:
        require_bytes(converter, tensor)
    scales = [np.full(len(g), read_scale(t)) for g, t in zip(gates, tensors, strict=True)]
    return stored, np.concatenate(scales)


def multiply(converter: Any, data: relax.Expr, weights: Weights, symmetric: bool) -> relax.Expr:
    """Return the product (…, all units) of data (…, length) and the weights of all gates."""
    stored, scales = weights
    if scales is None:
        return converter.bb.normalize(relax.op.matmul(data, stored))
    *axes, length = static_shape(converter.bb.normalize(data))
    rows = reshape(converter, data, [prod(axes), length])
    product = multiply_rows(converter, rows, stored, scales, symmetric)
    return reshape(converter, product, [*axes, len(scales)])


def run_cell(
    converter: Any,
    cell: FloatCell,
    data: Sequence[relax.Expr],
    states: States,
    axis: int,
    backward: bool = False,
) -> tuple[relax.Expr, States]:
    # One product computes all steps, because the products with the inputs do not depend on earlier
    # steps.
    products = [multiply(converter, d, w, cell.symmetric)
                for d, w in zip(data, cell.sources, strict=True)]  # fmt: skip
    whole, *others = products
    for other in others:
        whole = relax.op.add(whole, other)
    if not cell.norms:
        whole = relax.op.add(whole, relax.const(np.concatenate(list(cell.biases.values()))))
    whole = converter.bb.emit(whole)
    numbers, outputs = range(static_shape(whole)[axis]), []
    for number in reversed(numbers) if backward else numbers:
        at = relax.op.strided_slice(whole, axes=[axis], begin=[number], end=[number + 1])
        product = multiply(converter, states[0], cell.recurrent, cell.symmetric)
        sums = converter.bb.emit(relax.op.add(relax.op.squeeze(at, [axis]), product))
        states = update_states(converter, cell, sums, states[1])
        outputs.append(relax.op.expand_dims(states[0], axis))
    return join_steps(outputs[::-1] if backward else outputs, axis), states


def join_steps(outputs: Sequence[relax.Expr], axis: int) -> relax.Expr:
    return outputs[0] if len(outputs) == 1 else relax.op.concat(outputs, axis=axis)


def update_states(converter: Any, cell: FloatCell, sums: relax.Expr, before: relax.Expr) -> States:
    """Return the next states. The last axis of ``sums`` contains the sums of the gates."""
    length = static_shape(sums)[1] // len(cell.biases)
    parts = {
        gate: relax.op.strided_slice(sums, axes=[1], begin=[i * length], end=[(i + 1) * length])
        for i, gate in enumerate(cell.biases)
    }

    def finish(gate: str, state: relax.Expr) -> relax.Expr:
        value = parts[gate]
        if gate in cell.peepholes:
            value = relax.op.add(value, relax.op.multiply(relax.const(cell.peepholes[gate]), state))
        if gate in cell.norms:
            value = normalize(converter, converter.bb.emit(value))
            value = relax.op.multiply(value, relax.const(cell.norms[gate]))
            value = relax.op.add(value, relax.const(cell.biases[gate]))
        return converter.bb.normalize(value)

    def activate(value: relax.Expr) -> relax.Expr:
        return converter.convert_fused_activation_function(value, cell.activation)

    forget = converter.bb.emit(relax.op.sigmoid(finish("forget", before)))
    taken = (
        relax.op.sigmoid(finish("input", before))
        if "input" in parts
        else relax.op.subtract(relax.const(1.0, "float32"), forget)
    )
    kept = relax.op.multiply(forget, before)
    after = relax.op.add(kept, relax.op.multiply(taken, activate(finish("cell", before))))
    after = converter.bb.emit(clip(after, cell.cell_clip))
    shown = relax.op.multiply(relax.op.sigmoid(finish("output", after)), activate(after))
    hidden = converter.bb.emit(shown)
    if cell.projection is not None:
        hidden = multiply(converter, hidden, cell.projection, cell.symmetric)
        if cell.projection_bias is not None:
            hidden = relax.op.add(hidden, relax.const(cell.projection_bias))
        hidden = converter.bb.emit(clip(hidden, cell.projection_clip))
    return hidden, after


def clip(value: relax.Expr, limit: float) -> relax.Expr:
    return relax.op.clip(value, -limit, limit) if limit > 0 else value


def normalize(converter: Any, value: relax.Expr) -> relax.Expr:
    """Return rows of mean 0 and variance 1. LiteRT adds 1e-8 to the variance."""
    mean = relax.op.mean(value, [1], keepdims=True)
    shifted = converter.bb.emit(relax.op.subtract(value, mean))
    variance = relax.op.mean(relax.op.multiply(shifted, shifted), [1], keepdims=True)
    steady = relax.op.add(variance, relax.const(1e-8, "float32"))
    return relax.op.multiply(shifted, relax.op.rsqrt(steady))


def run_integers(
    converter: Any, cell: IntegerCell, data: relax.Expr, states: States, axis: int
) -> tuple[relax.Expr, States]:
    outputs = []
    shape = static_shape(converter.bb.normalize(data))
    frame_shape = [*shape[:axis], *shape[axis + 1 :]]
    for number in range(shape[axis]):
        at = relax.op.strided_slice(data, axes=[axis], begin=[number], end=[number + 1])
        frame = converter.bb.emit(reshape(converter, at, frame_shape))
        states = advance(converter, cell, frame, *states)
        outputs.append(relax.op.expand_dims(states[0], axis))
    return join_steps(outputs, axis), states
