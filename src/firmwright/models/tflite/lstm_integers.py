"""Converts LSTM operators in int8 with an int16 cell state, bit-exact to LiteRT."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from tvm import relax, te, tirx

from firmwright.errors import UserError
from firmwright.ir.relax import static_shape
from firmwright.models.tflite.svdf import read_scale, read_zero_point, scale_fixed

GATE_SCALE = np.float32(2.0**-12)
TYPES = {"an input": (0, "int8"), "weights": (2, "int8"), "an output state": (18, "int8"),
         "a cell state": (19, "int16")}  # fmt: skip
PEEPHOLES = {1: 9, 2: 10, 4: 11}
"""The input index of each gate's peephole weights, by the input index of its weights."""

LEAST_CELL, MOST_CELL = -15, -9
"""The exponents of the cell state's scale that LiteRT's hyperbolic tangent supports."""


@dataclass(frozen=True)
class Gate:
    """One gate's sums: the products' weights (lengths, units), biases and factors to Q3.12.

    ``peephole`` are int16 weights (units) of the cell state; None if the gate does not read it.
    """

    weights: Any
    bias: Any
    factor: np.float32
    recurrent: Any
    recurrent_bias: Any
    recurrent_factor: np.float32
    peephole: Any
    peephole_factor: np.float32


@dataclass(frozen=True)
class Projection:
    """A product of hidden values with int8 weights (units, outputs); a clip of 0 has no effect."""

    weights: Any
    bias: Any
    factor: np.float32
    zero_point: int
    clip: int


@dataclass(frozen=True)
class IntegerCell:
    """The constants of all steps; ``gates`` are by the input indices of their weights, 1 to 4."""

    gates: Mapping[int, Gate]
    cell_exponent: int
    hidden_factor: np.float32
    hidden_zero_point: int
    clip: int
    """The maximum magnitude of the cell state; 0 if it is not clipped."""
    projection: Projection | None


def read_integer_cell(converter: Any, op: Any, options: Any) -> IntegerCell:
    """Return the integers of an operator; UserError for variants that firmwright does not support.

    The source is tensorflow/lite/kernels/unidirectional_sequence_lstm.cc,
    PopulateQuantizedLstmParams8x8_16.
    """
    tensors = converter.get_input_tensors(op)
    if any(tensor.tensor_idx >= 0 for tensor in tensors[20:]):
        raise UserError(
            "has layer normalization in int8; firmwright supports it in float32: keep the layer in "
            "float32, or train it without layer normalization"
        )
    for name, (position, wanted) in TYPES.items():
        found = converter.get_tensor_type_str(tensors[position].tensor.Type())
        if found != wanted:
            raise UserError(
                f"has {name} of {found}; firmwright supports {wanted}, or float32 for all tensors: "
                "quantize the model again, or keep the layer in float32"
            )
    source, hidden_state = tensors[0], tensors[18]
    fraction, exponent = np.frexp(read_scale(tensors[19]))
    cell = int(exponent) - 1
    if fraction != 0.5 or not LEAST_CELL <= cell <= MOST_CELL:
        raise UserError(
            f"has a cell state of scale {read_scale(tensors[19]):g}; expected a power of two from "
            "2^-15 to 2^-9: quantize the model again with TensorFlow's converter"
        )
    scale, zero_point = read_hidden_grid(converter, op)
    refuse_several_samples(tensors, options)
    projection = None
    outputs = converter.get_tensor_value(tensors[8]).shape[-1]
    if tensors[16].tensor_idx >= 0:
        projection = read_projection(converter, op, options.ProjClip())
        zero_point = -zero_point  # as LiteRT: CalculateLstmOutputInteger8x8_16 in lstm_eval.cc
    gates = {}
    for position in (1, 2, 3, 4):
        weights, recurrent = tensors[position], tensors[position + 4]
        if weights.tensor_idx < 0:
            continue
        values, others = (converter.get_tensor_value(t) for t in (weights, recurrent))
        bias = converter.get_tensor_value(tensors[position + 11])
        gates[position] = Gate(
            weights=relax.const(values.T.copy()),
            bias=relax.const(add_zero_point(bias, values, source)),
            factor=read_scale(weights) * read_scale(source) / GATE_SCALE,
            recurrent=relax.const(others.T.copy()),
            recurrent_bias=relax.const(add_zero_point(np.zeros_like(bias), others, hidden_state)),
            recurrent_factor=read_scale(recurrent) * read_scale(hidden_state) / GATE_SCALE,
            **read_peephole(converter, tensors, position, outputs),
        )
    factor = np.float32(2.0**-15) / scale * np.float32(2.0**-15)
    limit = quantize_clip(options.CellClip(), read_scale(tensors[19]), 32767)
    return IntegerCell(gates, cell, factor, zero_point, limit, projection)


def refuse_several_samples(tensors: Any, options: Any) -> None:
    """Raise UserError if LiteRT's peephole weights of a sample depend on its position.

    With a projection, LiteRT advances the weights by the number of outputs per sample of a step,
    and not by the number of units. A step has one sample if the batch is the first axis.
    """
    samples = tensors[18].tensor.Shape(0)
    is_time_major = not hasattr(options, "TimeMajor") or options.TimeMajor()
    has_peepholes = any(tensors[index].tensor_idx >= 0 for index in PEEPHOLES.values())
    if has_peepholes and tensors[16].tensor_idx >= 0 and is_time_major and samples > 1:
        raise UserError(
            f"has peepholes, a projection and {samples} samples per step in int8, and TFLite mixes "
            "their weights; convert the model for one sample, or with the batch first"
        )


def quantize_clip(clip: float, scale: np.float32, most: int) -> int:
    """Return a limit in steps of ``scale``, truncated like LiteRT's; 0 means no limit."""
    return max(int(min(np.float32(clip) / scale, np.float32(most))), 0)


def read_peephole(converter: Any, tensors: Any, position: int, outputs: int) -> dict[str, Any]:
    """Return a gate's peephole weights and their factor.

    LiteRT adds them to as many units as the cell has outputs, which are fewer with a projection.
    """
    index = PEEPHOLES.get(position, -1)
    if index < 0 or tensors[index].tensor_idx < 0:
        return {"peephole": None, "peephole_factor": np.float32(0)}
    weights = converter.get_tensor_value(tensors[index]).copy()
    weights[outputs:] = 0
    factor = read_scale(tensors[19]) * read_scale(tensors[index]) / GATE_SCALE
    return {"peephole": relax.const(weights), "peephole_factor": factor}


def read_projection(converter: Any, op: Any, clip: float) -> Projection:
    """Return the projection; its hidden values have the negative of the stored zero point."""
    tensors = converter.get_input_tensors(op)
    weights = converter.get_tensor_value(tensors[16])
    bias = np.zeros(len(weights), "int32")
    if tensors[17].tensor_idx >= 0:
        bias = converter.get_tensor_value(tensors[17])
    hidden, zero_point = read_hidden_grid(converter, op)
    (target, *_) = converter.get_output_tensors(op)
    return Projection(
        weights=relax.const(weights.T.copy()),
        bias=relax.const((bias + zero_point * weights.astype("int32").sum(1)).astype("int32")),
        factor=read_scale(tensors[16]) * hidden / read_scale(tensors[18]),
        zero_point=read_zero_point(tensors[18]),
        clip=quantize_clip(clip, read_scale(target), 127),
    )


def add_zero_point(bias: Any, weights: Any, source: Any) -> Any:
    """Return biases minus the contribution of the other factor's zero point to the products."""
    sums = weights.astype("int32").sum(1)
    return (bias - read_zero_point(source) * sums).astype("int32")


def read_hidden_grid(converter: Any, op: Any) -> tuple[np.float32, int]:
    """Return the parameters of the fifth intermediate tensor: the output before a projection."""
    if op.IntermediatesLength() < 5:
        raise UserError(
            "has no quantization parameters of its hidden state (a fifth intermediate tensor): "
            "quantize the model again with TensorFlow's converter"
        )
    grid = converter.subgraph.Tensors(op.Intermediates(4)).Quantization()
    return np.float32(grid.Scale(0)), int(grid.ZeroPoint(0))


def advance(
    converter: Any, cell: IntegerCell, data: relax.Expr, hidden: relax.Expr, state: relax.Expr
) -> tuple[relax.Expr, relax.Expr]:
    """Return the next output (samples, outputs) in int8, and the next cell state in int16."""
    sums = {
        position: add_products(converter, gate, data, hidden)
        for position, gate in cell.gates.items()
    }
    for position in sorted(sums.keys() & {1, 2}):
        sums[position] = add_peephole(converter, cell.gates[position], sums[position], state)

    def apply(position: int, function: Callable[[Any], Any]) -> relax.Expr:
        return compute(converter, function, "int16", sums[position])

    forget, new = apply(2, call_sigmoid), apply(3, lambda x: call_tanh(x, 3))
    taken = (
        apply(1, call_sigmoid)
        if 1 in sums
        else compute(converter, lambda x: number(32767) - x, "int16", forget)
    )
    exponent = cell.cell_exponent

    def update(old: Any, keep: Any, take: Any, value: Any) -> Any:
        sums = clip(shift_right(keep * old, 15) + shift_right(take * value, 30 + exponent))
        limit = number(cell.clip)
        return tirx.max(tirx.min(sums, limit), -limit) if cell.clip else sums

    after = compute(converter, update, "int16", state, forget, taken, new)
    sums[4] = add_peephole(converter, cell.gates[4], sums[4], after)
    output = apply(4, call_sigmoid)
    shown = compute(converter, lambda x: call_tanh(x, 15 + exponent), "int16", after)

    def scale(gate: Any, value: Any) -> Any:
        low, high = (number(end - cell.hidden_zero_point) for end in (-128, 127))
        scaled = scale_fixed(gate * value, cell.hidden_factor)
        return tirx.max(tirx.min(scaled, high), low) + cell.hidden_zero_point

    result = compute(converter, scale, "int8", output, shown)
    if cell.projection is not None:
        result = project(converter, cell.projection, result)
    return result, after


def project(converter: Any, projection: Projection, hidden: relax.Expr) -> relax.Expr:
    """Return the outputs (samples, outputs) in int8 of the hidden values (samples, units)."""
    product = relax.op.matmul(hidden, projection.weights, out_dtype="int32")
    sums = relax.op.add(product, projection.bias)
    limits = (-projection.clip, projection.clip) if projection.clip else (-128, 127)
    low, high = (number(limit - projection.zero_point) for limit in limits)

    def scale(x: Any) -> Any:
        scaled = scale_fixed(x, projection.factor)
        return tirx.max(tirx.min(scaled, high), low) + projection.zero_point

    return compute(converter, scale, "int8", sums)


def add_peephole(converter: Any, gate: Gate, sums: relax.Expr, state: relax.Expr) -> relax.Expr:
    """Return a gate's sums plus the weighted cell state, if the gate reads it."""
    if gate.peephole is None:
        return sums

    def add(before: Any, weight: Any, value: Any) -> Any:
        return clip(scale_fixed(weight * value, gate.peephole_factor) + before)

    weights = relax.op.broadcast_to(gate.peephole, static_shape(sums))
    return compute(converter, add, "int16", sums, weights, state)


def call_sigmoid(value: Any) -> Any:
    return tirx.call_pure_extern("int32", "gate_sigmoid", value)


def call_tanh(value: Any, integer_bits: int) -> Any:
    return tirx.call_pure_extern("int32", "gate_tanh", value, number(integer_bits))


def number(value: int) -> Any:
    return tirx.const(value, "int32")


def clip(value: Any) -> Any:
    return tirx.max(tirx.min(value, number(32767)), number(-32768))


def shift_right(value: Any, bits: int) -> Any:
    """Return an int32 expression / 2^bits, rounded to nearest, ties away from zero."""
    return tirx.call_pure_extern("int32", "gate_shift", value, number(bits))


def add_products(converter: Any, gate: Gate, data: relax.Expr, hidden: relax.Expr) -> relax.Expr:
    """Return a gate's sums in Q3.12; each of its two products has a separate scale factor."""
    products = [
        relax.op.add(relax.op.matmul(factor, weights, out_dtype="int32"), bias)
        for factor, weights, bias in (
            (data, gate.weights, gate.bias), (hidden, gate.recurrent, gate.recurrent_bias)
        )
    ]  # fmt: skip
    first = compute(converter, lambda x: clip(scale_fixed(x, gate.factor)), "int16", products[0])

    def add(x: Any, before: Any) -> Any:
        scaled = scale_fixed(x, gate.recurrent_factor)
        limit = number(1 << 20)  # the sum is clipped in any case beyond this limit
        return clip(tirx.max(tirx.min(scaled, limit), -limit) + before)

    return compute(converter, add, "int16", products[1], first)


def compute(
    converter: Any, function: Callable[..., Any], dtype: str, *values: relax.Expr
) -> relax.Expr:
    """Return ``function`` of the int32 elements of ``values``, which have one shape."""

    def build(*tensors: te.Tensor) -> te.Tensor:
        return te.compute(
            tensors[0].shape,
            lambda *at: function(*(t[at].astype("int32") for t in tensors)).astype(dtype),
            "computed",
        )

    given = [converter.bb.emit(value) for value in values]
    return converter.bb.emit_te(build, *given, primfunc_name_hint="gate")
