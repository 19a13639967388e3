"""Converts LSTM operators in int8 with an int16 cell state. The results are bit-exact to LiteRT."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from tvm import relax, te, tirx

from firmwright.errors import UserError
from firmwright.ir.relax import static_shape
from firmwright.models.tflite.integer_products import (
    find_factor,
    read_scale,
    read_zero_point,
    scale_fixed,
)

GATE_SCALE = np.float32(2.0**-12)
TYPES = {"an input": (0, "int8"), "weights": (2, "int8"), "an output state": (18, "int8"),
         "a cell state": (19, "int16")}  # fmt: skip
SIGMOID_BITS = 3
"""The number of integer bits in the sigmoid's arguments."""

Position = tuple[Any, ...]
"""The index of an element: a sample and a unit."""
GATES = (1, 2, 3, 4)
"""The input indices of the weights for the input, forget, cell and output gates."""

PEEPHOLES = {1: 9, 2: 10, 4: 11}
"""Maps the input index of a gate's weights to the input index of the gate's peephole weights."""

LEAST_CELL, MOST_CELL = -15, -9
"""The exponents of the cell state's scale that LiteRT's hyperbolic tangent supports."""


@dataclass(frozen=True)
class Products:
    """The int8 weights (length, gates and units) of all gates, and int32 biases.

    ``factors`` convert the sums of each gate to Q3.12. ``largest`` is a bound of all sums.
    """

    weights: Any
    bias: Any
    factors: Mapping[int, np.float32]
    largest: int


@dataclass(frozen=True)
class Peephole:
    """The int16 weights (units) of the cell state in a gate's sums, and the factor to Q3.12."""

    weights: Any
    factor: np.float32


@dataclass(frozen=True)
class Projection:
    """A product of hidden values and int8 weights (units, outputs). A clip of 0 has no effect."""

    weights: Any
    bias: Any
    factor: np.float32
    zero_point: int
    clip: int


@dataclass(frozen=True)
class IntegerCell:
    """The constants of all steps.

    The keys of mappings are input indices of a gate's weights, 1 to 4. ``products`` contains the
    products with the input, and the products with the output state. ``clip`` is the maximum
    magnitude of the cell state, or 0 without a clip.
    """

    products: tuple[Products, Products]
    peepholes: Mapping[int, Peephole]
    cell_exponent: int
    hidden_factor: np.float32
    hidden_zero_point: int
    clip: int
    projection: Projection | None

    @property
    def table_step(self) -> int:
        """Return the ``step`` of :func:`list_exponentials`."""
        return min(SIGMOID_BITS, 16 + self.cell_exponent)


def list_exponentials(step: int) -> npt.NDArray[np.int16]:
    """Return e^(n - 1/4) in Q0.15 for n from 0 to 1/4 in steps of 2^(step - 15).

    Source: exp_on_interval_between_negative_one_quarter_and_0_excl of gemmlowp, a polynomial around
    -1/8 with rounded products.
    """

    def multiply(x: Any, y: Any) -> Any:
        return (x * y + 16384) >> 15

    def shift(x: Any, bits: int) -> Any:
        return (((x * 2 - (x < 0)) >> bits) + 1) >> 1

    near = np.arange(-4096, 4096, 1 << step, dtype="int64")
    square = multiply(near, near)
    cubes = shift(multiply(square, square), 2) + multiply(square, near)
    series = near + shift(multiply(cubes, 10923) + square, 1)
    exponentials: npt.NDArray[np.int16] = (28918 + multiply(28918, series)).astype("int16")
    return exponentials


def read_integer_cell(converter: Any, op: Any, options: Any) -> IntegerCell:
    """Return the integers of an operator. Raises UserError if its variant is not supported.

    Source: tensorflow/lite/kernels/unidirectional_sequence_lstm.cc
    (PopulateQuantizedLstmParams8x8_16).
    """
    tensors = converter.get_input_tensors(op)
    if any(tensor.tensor_idx >= 0 for tensor in tensors[20:]):
        raise UserError(
            "has layer normalization in int8; firmwright supports it in float32: keep the layer in "
            "float32, or train it without layer normalization"
        )
    for name, (position, wanted) in TYPES.items():
        dtype = converter.get_tensor_type_str(tensors[position].tensor.Type())
        if dtype != wanted:
            raise UserError(
                f"has {name} of {dtype}; LiteRT supports {wanted}, or float32 for all tensors: "
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
    scale, zero_point = read_hidden_params(converter, op)
    refuse_several_samples(tensors, options)
    projection = None
    outputs = converter.get_tensor_value(tensors[8]).shape[-1]
    if tensors[16].tensor_idx >= 0:
        projection = read_projection(converter, op, options.ProjClip())
        zero_point = -zero_point  # Source: CalculateLstmOutputInteger8x8_16 in lstm_eval.cc
    gates = [position for position in GATES if tensors[position].tensor_idx >= 0]
    biases = [converter.get_tensor_value(tensors[position + 11]) for position in gates]
    products = (
        read_products(converter, source, {g: tensors[g] for g in gates}, biases),
        read_products(converter, hidden_state, {g: tensors[g + 4] for g in gates}, None),
    )
    peepholes = read_peepholes(converter, tensors, outputs)
    factor = np.float32(2.0**-15) / scale * np.float32(2.0**-15)
    limit = quantize_clip(options.CellClip(), read_scale(tensors[19]), 32767)
    return IntegerCell(products, peepholes, cell, factor, zero_point, limit, projection)


def refuse_several_samples(tensors: Any, options: Any) -> None:
    """Raise UserError if LiteRT's peephole weights of a sample depend on the sample's position.

    With a projection, LiteRT advances the weights by the number of outputs per sample instead of
    the number of units. A step has one sample if the batch is the first axis.
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
    """Return a limit in steps of ``scale``, truncated as in LiteRT. The result 0 means no limit."""
    return max(int(min(np.float32(clip) / scale, np.float32(most))), 0)


def read_products(
    converter: Any, source: Any, weights: Mapping[int, Any], biases: Sequence[Any] | None
) -> Products:
    """Return the products of a tensor and the weights (units, length) of each gate."""
    values = [converter.get_tensor_value(tensor) for tensor in weights.values()]
    joined = np.concatenate(values)
    zeros = np.zeros(len(joined), "int32")
    bias = add_zero_point(zeros if biases is None else np.concatenate(biases), joined, source)
    largest = 128 * np.abs(joined.astype("int64")).sum(1) + np.abs(bias.astype("int64"))
    scale = read_scale(source)
    return Products(
        weights=relax.const(joined.T.copy()),
        bias=relax.const(bias),
        factors={g: read_scale(tensor) * scale / GATE_SCALE for g, tensor in weights.items()},
        largest=int(largest.max()),
    )


def read_peepholes(converter: Any, tensors: Any, outputs: int) -> dict[int, Peephole]:
    """Return the gates' peephole weights and their factors.

    LiteRT applies the weights only to as many units as the cell has outputs. A cell with a
    projection has fewer outputs than units.
    """
    peepholes = {}
    for gate, index in PEEPHOLES.items():
        if tensors[gate].tensor_idx < 0 or tensors[index].tensor_idx < 0:
            continue
        weights = converter.get_tensor_value(tensors[index]).copy()
        weights[outputs:] = 0
        factor = read_scale(tensors[19]) * read_scale(tensors[index]) / GATE_SCALE
        peepholes[gate] = Peephole(relax.const(weights), factor)
    return peepholes


def read_projection(converter: Any, op: Any, clip: float) -> Projection:
    """Return the projection.

    The zero point of the hidden values is the negative of the stored zero point.
    """
    tensors = converter.get_input_tensors(op)
    weights = converter.get_tensor_value(tensors[16])
    bias = np.zeros(len(weights), "int32")
    if tensors[17].tensor_idx >= 0:
        bias = converter.get_tensor_value(tensors[17])
    hidden, zero_point = read_hidden_params(converter, op)
    (target, *_) = converter.get_output_tensors(op)
    return Projection(
        weights=relax.const(weights.T.copy()),
        bias=relax.const((bias + zero_point * weights.astype("int32").sum(1)).astype("int32")),
        factor=read_scale(tensors[16]) * hidden / read_scale(tensors[18]),
        zero_point=read_zero_point(tensors[18]),
        clip=quantize_clip(clip, read_scale(target), 127),
    )


def add_zero_point(bias: Any, weights: Any, source: Any) -> Any:
    """Subtract the contribution of the other factor's zero point from the biases."""
    sums = weights.astype("int32").sum(1)
    return (bias - read_zero_point(source) * sums).astype("int32")


def read_hidden_params(converter: Any, op: Any) -> tuple[np.float32, int]:
    """Return the parameters of the fifth intermediate tensor, the output before a projection.

    Raises UserError if the operator does not have this tensor.
    """
    if op.IntermediatesLength() < 5:
        raise UserError(
            "has no quantization parameters of its hidden state (a fifth intermediate tensor): "
            "quantize the model again with TensorFlow's converter"
        )
    params = converter.subgraph.Tensors(op.Intermediates(4)).Quantization()
    return np.float32(params.Scale(0)), int(params.ZeroPoint(0))


def advance(
    converter: Any, cell: IntegerCell, data: relax.Expr, hidden: relax.Expr, state: relax.Expr
) -> tuple[relax.Expr, relax.Expr]:
    """Return the next output (samples, outputs) in int8, and the next cell state in int16."""
    pairs = zip((data, hidden), cell.products, strict=True)
    sums = [add_products(converter, factor, products) for factor, products in pairs]
    exponent, step, shape = cell.cell_exponent, cell.table_step, static_shape(state)
    peepholes = (peephole.weights for peephole in cell.peepholes.values())
    given = (relax.const(list_exponentials(step)), *sums, *peepholes)

    def update(at: Position, old: te.Tensor, table: te.Tensor, *given: te.Tensor) -> Any:
        before = old[at].astype("int32")
        keep = call_sigmoid(add_sums(cell, 2, at, before, given), table, step)
        new = call_tanh(add_sums(cell, 3, at, before, given), 3, table, step)
        taken = number(32767) - keep
        if 1 in cell.products[0].factors:
            taken = call_sigmoid(add_sums(cell, 1, at, before, given), table, step)
        sums = clip(shift_right(keep * before, 15) + shift_right(taken * new, 30 + exponent))
        limit = number(cell.clip)
        return tirx.max(tirx.min(sums, limit), -limit) if cell.clip else sums

    after = compute(converter, update, "int16", shape, state, *given)

    def show(at: Position, new: te.Tensor, table: te.Tensor, *given: te.Tensor) -> Any:
        value = new[at].astype("int32")
        gate = call_sigmoid(add_sums(cell, 4, at, value, given), table, step)
        low, high = (number(end - cell.hidden_zero_point) for end in (-128, 127))
        shown = gate * call_tanh(value, 15 + exponent, table, step)
        scaled = scale_values(shown, cell.hidden_factor, 32767**2)
        return tirx.max(tirx.min(scaled, high), low) + cell.hidden_zero_point

    result = compute(converter, show, "int8", shape, after, *given)
    if cell.projection is not None:
        result = project(converter, cell.projection, result)
    return result, after


def project(converter: Any, projection: Projection, hidden: relax.Expr) -> relax.Expr:
    """Return the int8 outputs (samples, outputs) of the hidden values (samples, units)."""
    product = relax.op.matmul(hidden, projection.weights, out_dtype="int32")
    sums = relax.op.add(product, projection.bias)
    limits = (-projection.clip, projection.clip) if projection.clip else (-128, 127)
    low, high = (number(limit - projection.zero_point) for limit in limits)

    def scale(at: Position, sums: te.Tensor) -> Any:
        scaled = scale_fixed(sums[at], projection.factor)
        return tirx.max(tirx.min(scaled, high), low) + projection.zero_point

    return compute(converter, scale, "int8", static_shape(converter.bb.normalize(sums)), sums)


def add_products(converter: Any, factor: relax.Expr, products: Products) -> relax.Expr:
    """Return the int32 sums (samples, gates and units) of all gates."""
    product = relax.op.matmul(factor, products.weights, out_dtype="int32")
    return converter.bb.emit(relax.op.add(product, products.bias))


def add_sums(
    cell: IntegerCell, gate: int, at: Position, state: Any, given: Sequence[te.Tensor]
) -> Any:
    """Return a gate's sum in Q3.12. Each product has a separate factor.

    ``given`` contains the sums of both products, and the weights of the peepholes.
    """
    gates, units = list(cell.products[0].factors), int(given[0].shape[1])
    column = at[1] + gates.index(gate) * (units // len(gates))
    first, second = (
        scale_values(sums[at[0], column], products.factors[gate], products.largest)
        for sums, products in zip(given, cell.products, strict=False)
    )
    value = clip(clip(first) + second)
    if gate in cell.peepholes:
        weights = given[2 + list(cell.peepholes).index(gate)][at[1]].astype("int32")
        value = clip(scale_fixed(weights * state, cell.peepholes[gate].factor) + value)
    return value


def scale_values(values: Any, factor: np.float32, largest: int) -> Any:
    """Scale values of at most ``largest`` like scale_fixed.

    C has a faster function for values below 2^30 and right shifts of at most 31 bits. Other results
    are limited to 2^20, because all later operators clip larger values.
    """
    multiplier, left, right = find_factor(factor)
    if right < 32 and largest << left < 1 << 30:
        given = (values * number(1 << left), number(multiplier), number(right))
        return tirx.call_pure_extern("int32", "gate_scale", *given)
    limit = number(1 << 20)
    return tirx.max(tirx.min(scale_fixed(values, factor), limit), -limit)


def call_sigmoid(value: Any, table: te.Tensor, step: int) -> Any:
    return call_gate("gate_sigmoid", value, [], SIGMOID_BITS, table, step)


def call_tanh(value: Any, bits: int, table: te.Tensor, step: int) -> Any:
    return call_gate("gate_tanh", value, [number(bits)], bits + 1, table, step)


def call_gate(
    name: str, value: Any, given: Sequence[Any], bits: int, table: te.Tensor, step: int
) -> Any:
    """Return a call of a gate's function for a value and its entry in ``list_exponentials``."""
    x = tirx.Var("x", "int32")
    gate_index = tirx.call_pure_extern("int32", "gate_place", x, number(bits), number(step))
    start = table[gate_index].astype("int32")
    return tirx.Let(x, value, tirx.call_pure_extern("int32", name, x, *given, start))


def number(value: int) -> Any:
    return tirx.const(value, "int32")


def clip(value: Any) -> Any:
    return tirx.max(tirx.min(value, number(32767)), number(-32768))


def shift_right(value: Any, bits: int) -> Any:
    """Return an int32 expression / 2^bits, rounded to nearest, ties away from zero."""
    return tirx.call_pure_extern("int32", "gate_shift", value, number(bits))


def compute(
    converter: Any,
    function: Callable[..., Any],
    dtype: str,
    shape: tuple[int, ...],
    *values: relax.Expr,
) -> relax.Expr:
    """Return a tensor that ``function`` computes in int32, cast to ``dtype``.

    The arguments of ``function`` are a position and all ``values``.
    """

    def build(*tensors: te.Tensor) -> te.Tensor:
        return te.compute(shape, lambda *at: function(at, *tensors).astype(dtype), "computed")

    given = [converter.bb.emit(value) for value in values]
    return converter.bb.emit_te(build, *given, primfunc_name_hint="gate")
