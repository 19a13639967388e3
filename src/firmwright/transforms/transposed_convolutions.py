"""Replaces quantized transposed convolutions by convolutions that each compute some pixels.

If the stride is s, every s-th pixel of a row reads equal taps of the kernel. Therefore a
convolution with a stride of 1 can compute these pixels. The results are quantized, and then the
pixels are interleaved. Each sum has the original products except the products with zeros between
the input's pixels.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np
import numpy.typing as npt
import tvm
from tvm import relax

from firmwright.ir.chains import BYTES, is_dequantized_constant
from firmwright.ir.relax import (
    TO_FIRST,
    TO_LAST,
    constant_array,
    count_readers,
    definition,
    dtype_of,
    operator_name,
    rewrite_calls,
    static_shape,
)

LAYOUTS = {
    "relax.nn.conv1d_transpose": ("NCW", "IOW"),
    "relax.nn.conv2d_transpose": ("NCHW", "IOHW"),
}
ACTIVATIONS = ("relax.nn.relu", "relax.clip")

Array = npt.NDArray[Any]


@dataclass(frozen=True)
class Phase:
    """Every ``stride``-th position along an axis, and the kernel taps of its convolution."""

    taps: tuple[int, ...]
    before: int
    after: int


@dataclass(frozen=True)
class Match:
    """A transposed convolution and the operators up to the quantize, in reverse order."""

    call: tvm.ir.Call
    activations: tuple[tvm.ir.Call, ...]
    bias: tvm.ir.Call | None


def split_transposed_convolutions(module: tvm.IRModule) -> tvm.IRModule:
    readers = count_readers(module)

    def rewrite(builder: relax.BlockBuilder, call: tvm.ir.Call) -> relax.Expr:
        if operator_name(call) != "relax.quantize":
            return call
        found = match(builder, call.args[0], readers)
        replaced = None if found is None else split(builder, found, call)
        return call if replaced is None else replaced

    return rewrite_calls(module, rewrite)


def match(builder: relax.BlockBuilder, value: relax.Expr, readers: Any) -> Match | None:
    """Return the transposed convolution that computes a value if the value has one reader."""
    activations = []
    found = definition(builder, value)
    while operator_name(found) in ACTIVATIONS and readers[value] == 1:
        activations.append(found)
        value = found.args[0]
        found = definition(builder, value)
    bias = None
    if operator_name(found) == "relax.add" and readers[value] == 1:
        value, added = found.args
        found, bias = definition(builder, value), definition(builder, added)
        if not is_dequantized_constant(bias):
            return None
    if operator_name(found) not in LAYOUTS or readers[value] != 1:
        return None
    return Match(found, tuple(activations), bias)


def split(builder: relax.BlockBuilder, found: Match, quantize: tvm.ir.Call) -> relax.Expr | None:
    """Return the quantized result of a transposed convolution, or None for unsupported forms."""
    call = found.call
    data, weights = (definition(builder, a) for a in call.args)
    layouts = (str(call.attrs.data_layout), str(call.attrs.kernel_layout))
    if layouts != LAYOUTS[operator_name(call)] or int(call.attrs.groups) != 1:
        return None
    if operator_name(data) != "relax.dequantize" or not is_dequantized_constant(weights):
        return None
    if dtype_of(data.args[0]) not in BYTES:
        return None
    axes = list_axes(call)
    if axes is None:
        return None
    stored = constant_array(weights.args[0])
    kernel = stored.reshape(*stored.shape[:2], *([1] * (4 - stored.ndim)), *stored.shape[2:])
    source = move_last(builder, data.args[0])
    pieces = [
        (phases, kernel[:, :, list(phases[0].taps)][..., list(phases[1].taps)])
        for phases in product(*axes)
    ]
    strides = [len(axis) for axis in axes]
    if len({tuple((len(p.taps), p.before, p.after) for p in phases) for phases, _ in pieces}) == 1:
        pieces = [(pieces[0][0], np.concatenate([piece for _, piece in pieces], 1))]
    results = []
    for phases, piece in pieces:
        real = relax.op.dequantize(source, *data.args[1:], axis=0)
        value = convolve(builder, builder.emit(real), phases, piece, weights)
        copies = piece.shape[1] // kernel.shape[1]
        if found.bias is not None:
            bias = repeat_params(found.bias, constant_array(found.bias.args[0]).reshape(-1), copies)
            value = builder.emit(relax.op.add(value, builder.emit(bias)))
        for activation in reversed(found.activations):
            arguments = [value, *activation.args[1:]]
            value = builder.emit(tvm.ir.Call(activation.op, arguments, activation.attrs))
        arguments = [value, *quantize.args[1:]]
        results.append(builder.emit(tvm.ir.Call(quantize.op, arguments, quantize.attrs)))
    return move_first(builder, interleave(builder, results, strides), static_shape(quantize))


def list_axes(call: tvm.ir.Call) -> list[list[Phase]] | None:
    """Return the phases along height and width, or None if phases cannot compute the pixels."""
    attrs = call.attrs
    data, kernel, result = (static_shape(e)[2:] for e in (call.args[0], call.args[1], call))
    padding = [int(n) for n in attrs.padding]
    axes: list[list[Phase]] = [[Phase((0,), 0, 0)]] if len(data) == 1 else []
    for axis, (length, taps, results) in enumerate(zip(data, kernel, result, strict=True)):
        stride = int(attrs.strides[axis])
        phases = [
            make_phase(length, taps, results // stride, stride, padding[axis], remainder)
            for remainder in range(stride)
        ]
        if int(attrs.dilation[axis]) != 1 or results % stride or taps < stride:
            return None
        if any(min(phase.before, phase.after) < 0 for phase in phases):
            return None
        axes.append(phases)
    return axes


def make_phase(
    length: int, taps: int, results: int, stride: int, padding: int, remainder: int
) -> Phase:
    """Return the phase for the ``results`` positions stride · n + remainder of an axis.

    Position y is the sum of x[i] · w[k] with i · stride + k = y + padding.
    """
    first = (remainder + padding) % stride
    ahead = (remainder + padding - first) // stride
    read = tuple(range(first, taps, stride))[::-1]
    return Phase(read, len(read) - 1 - ahead, results + ahead - length)


def convolve(
    builder: relax.BlockBuilder,
    data: relax.Expr,
    phases: tuple[Phase, ...],
    kernel: Array,
    weights: tvm.ir.Call,
) -> relax.Var:
    """Emit the convolution for a phase of height and a phase of width. The kernel is IOHW."""
    rows, columns = phases
    stored = np.ascontiguousarray(kernel.transpose(1, 2, 3, 0))
    copies = stored.shape[0] // static_shape(weights)[1]
    return builder.emit(
        relax.op.nn.conv2d(
            data,
            builder.emit(repeat_params(weights, stored, copies)),
            padding=(rows.before, columns.before, rows.after, columns.after),
            data_layout="NHWC",
            kernel_layout="OHWI",
            out_layout="NHWC",
        )
    )


def repeat_params(dequantize: tvm.ir.Call, stored: Array, copies: int) -> relax.Expr:
    """Dequantize integers whose first axis contains the channels ``copies`` times."""
    params = []
    for constant in dequantize.args[1:]:
        array = constant_array(constant)
        params.append(relax.const(np.tile(array, copies) if array.size > 1 else array))
    if stored.ndim == 1:
        stored = np.tile(stored, copies)
    return relax.op.dequantize(relax.const(stored), *params, axis=0)


def interleave(
    builder: relax.BlockBuilder, results: list[relax.Var], strides: list[int]
) -> relax.Var:
    """Return the pixels of all phases in order.

    Each result is (N, H, W, C), or one result contains the channels of all phases in sequence.
    """
    joined = results[0] if len(results) == 1 else relax.op.concat(relax.Tuple(results), 3)
    if strides == [1, 1]:
        return results[0]
    value = builder.emit(joined)
    batch, height, width, channels = static_shape(value)
    down, across = strides
    apart = (batch, height, width, down, across, channels // (down * across))
    value = builder.emit(relax.op.reshape(value, apart))
    value = builder.emit(relax.op.permute_dims(value, (0, 1, 3, 2, 4, 5)))
    return builder.emit(relax.op.reshape(value, (batch, height * down, width * across, apart[5])))


def move_last(builder: relax.BlockBuilder, value: relax.Expr) -> relax.Expr:
    """Return a tensor (N, C, H, W) or (N, C, W) as (N, H, W, C)."""
    made = definition(builder, value)
    if operator_name(made) == "relax.permute_dims" and [int(a) for a in made.attrs.axes or ()] == [
        *TO_FIRST
    ]:
        return made.args[0]
    shape = static_shape(value)
    if len(shape) == 3:
        value = builder.emit(relax.op.reshape(value, (*shape[:2], 1, shape[2])))
    return builder.emit(relax.op.permute_dims(value, TO_LAST))


def move_first(
    builder: relax.BlockBuilder, value: relax.Expr, shape: tuple[int, ...]
) -> relax.Expr:
    moved = relax.op.permute_dims(value, TO_FIRST)
    return moved if len(shape) == 4 else relax.op.reshape(builder.emit(moved), shape)
