"""Replaces transposed convolutions by convolutions that each compute some pixels.

If the stride is s, every s-th pixel of a row reads equal taps of the kernel. Therefore a
convolution with a stride of 1 can compute these pixels. Results of quantized convolutions are
quantized, and then the pixels are interleaved. Each sum has the original products except the
products with zeros between the input's pixels. Convolutions of float32 tensors need constant
weights.
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
    Constant,
    constant_array,
    count_readers,
    definition,
    dtype_of,
    main_bindings,
    operator_name,
    rewrite_calls,
    static_shape,
)
from firmwright.transforms.integers.remarks import name_layer

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
class MatchedConvolution:
    """A transposed convolution and the operators up to the result, in reverse order.

    ``quantize`` is the result's operator, or None for float32.
    """

    call: tvm.ir.Call
    activations: tuple[tvm.ir.Call, ...]
    bias: relax.Expr | None
    quantize: tvm.ir.Call | None


def split_transposed_convolutions(module: tvm.IRModule) -> tvm.IRModule:
    readers = count_readers(module)
    ends = list_ends(module)

    def rewrite(builder: relax.BlockBuilder, call: tvm.ir.Call) -> relax.Expr:
        if operator_name(call) == "relax.quantize":
            convolution = match(builder, call.args[0], readers, call)
        elif (operator_name(call), call.args[0]) in ends:
            convolution = match(builder, call, readers)
        else:
            return call
        replaced = None if convolution is None else split(builder, convolution, static_shape(call))
        return call if replaced is None else replaced

    return rewrite_calls(module, rewrite)


def list_ends(module: tvm.IRModule) -> set[tuple[str, relax.Expr]]:
    """Return the operators, and their first arguments, that no bias or activation follows.

    The operators are transposed convolutions, biases and activations.
    """
    calls = [
        (binding.var, binding.value)
        for binding in main_bindings(module)
        if operator_name(binding.value) in (*ACTIVATIONS, *LAYOUTS)
        or (
            operator_name(binding.value) == "relax.add" and is_float_constant(binding.value.args[1])
        )
    ]
    if all(operator_name(call) not in LAYOUTS for _, call in calls):
        return set()
    continued = {call.args[0] for _, call in calls if operator_name(call) not in LAYOUTS}
    return {(operator_name(call), call.args[0]) for var, call in calls if var not in continued}


def is_float_constant(value: relax.Expr) -> bool:
    return isinstance(value, Constant) and dtype_of(value) == "float32"


def match(
    builder: relax.BlockBuilder,
    value: relax.Expr,
    readers: Any,
    quantize: tvm.ir.Call | None = None,
) -> MatchedConvolution | None:
    """Return the transposed convolution that computes a value if each value has one reader.

    The value is the argument of ``quantize``, or the call that computes the float32 result.
    """
    activations = []

    def is_read_once(value: relax.Expr) -> bool:
        return readers[value] == 1 or not isinstance(value, relax.Var)

    call = definition(builder, value)
    while operator_name(call) in ACTIVATIONS and is_read_once(value):
        activations.append(call)
        value = call.args[0]
        call = definition(builder, value)
    bias = None
    if operator_name(call) == "relax.add" and is_read_once(value):
        value, added = call.args
        call, bias = definition(builder, value), definition(builder, added)
        if not (is_float_constant(bias) if quantize is None else is_dequantized_constant(bias)):
            return None
    if operator_name(call) not in LAYOUTS or not is_read_once(value):
        return None
    return MatchedConvolution(call, tuple(activations), bias, quantize)


def split(
    builder: relax.BlockBuilder, convolution: MatchedConvolution, shape: tuple[int, ...]
) -> relax.Expr | None:
    """Return the result of a transposed convolution, or None for unsupported forms."""
    call, quantize = convolution.call, convolution.quantize
    data, weights = (definition(builder, a) for a in call.args)
    if find_obstacle(call):
        return None
    if not (is_float_constant(weights) if quantize is None else reads_bytes(data, weights)):
        return None
    if not (convolution.bias is None or is_per_channel(convolution.bias, static_shape(call))):
        return None
    axes = list_axes(call)
    stored = constant_array(weights if quantize is None else weights.args[0])
    kernel = stored.reshape(*stored.shape[:2], *([1] * (4 - stored.ndim)), *stored.shape[2:])
    source = move_last(builder, call.args[0] if quantize is None else data.args[0])
    pieces = [
        (phases, kernel[:, :, list(phases[0].taps)][..., list(phases[1].taps)])
        for phases in product(*axes)
    ]
    strides = [len(axis) for axis in axes]
    if len({tuple((len(p.taps), p.before, p.after) for p in phases) for phases, _ in pieces}) == 1:
        pieces = [(pieces[0][0], np.concatenate([piece for _, piece in pieces], 1))]
    followers = [*reversed(convolution.activations), *([] if quantize is None else [quantize])]
    results = []
    for phases, piece in pieces:
        real = source
        if quantize is not None:
            real = builder.emit(relax.op.dequantize(source, *data.args[1:], axis=0))
        value = convolve(builder, real, phases, piece, weights)
        if convolution.bias is not None:
            copies = piece.shape[1] // kernel.shape[1]
            value = builder.emit(
                relax.op.add(value, repeat_bias(builder, convolution.bias, copies))
            )
        for follower in followers:
            arguments = [value, *follower.args[1:]]
            value = builder.emit(tvm.ir.Call(follower.op, arguments, follower.attrs))
        results.append(value)
    return move_first(builder, interleave(builder, results, strides), shape)


def reads_bytes(data: relax.Expr, weights: relax.Expr) -> bool:
    """Return whether a convolution reads bytes, and constant weights that are quantized."""
    if operator_name(data) != "relax.dequantize" or not is_dequantized_constant(weights):
        return False
    return dtype_of(data.args[0]) in BYTES


def is_per_channel(bias: relax.Expr, shape: tuple[int, ...]) -> bool:
    """Return whether a bias has one number per channel of a result (N, C, ...)."""
    lengths = static_shape(bias)
    return lengths in ((shape[1], *[1] * (len(shape) - 2)), (1, shape[1], *[1] * (len(shape) - 2)))


def find_obstacle(call: tvm.ir.Call) -> str:
    """Return the reason why phases cannot compute a transposed convolution, or ''."""
    attrs, name = call.attrs, operator_name(call)
    if (str(attrs.data_layout), str(attrs.kernel_layout)) != LAYOUTS.get(name):
        return "only images of one or two axes with channels first are split"
    if int(attrs.groups) != 1:
        return f"it has {int(attrs.groups)} groups"
    if any(int(d) != 1 for d in attrs.dilation):
        return "its kernel has dilations"
    sizes = zip(static_shape(call)[2:], static_shape(call.args[1])[2:], attrs.strides, strict=True)
    for results, taps, stride in sizes:
        if results % int(stride):
            return f"its output of {results} along an axis is not a multiple of the stride {stride}"
        if taps < int(stride):
            return f"its kernel of {taps} along an axis is smaller than the stride {stride}"
    if any(min(phase.before, phase.after) < 0 for axis in list_axes(call) for phase in axis):
        return "its padding removes more results than its kernel adds"
    return ""


def explain_whole(module: tvm.IRModule) -> list[tuple[str, str]]:
    """Return the transposed convolutions of ``main`` that are not split, and the reasons."""
    bindings = main_bindings(module)
    return [
        (
            name_layer(b.var, bindings),
            find_obstacle(b.value)
            or "its weights are computed, or another operator also reads its sums",
        )
        for b in bindings
        if operator_name(b.value) in (*LAYOUTS, "relax.nn.conv3d_transpose")
    ]


def list_axes(call: tvm.ir.Call) -> list[list[Phase]]:
    """Return the phases along height and width."""
    attrs = call.attrs
    data, kernel, result = (static_shape(e)[2:] for e in (call.args[0], call.args[1], call))
    padding = [int(n) for n in attrs.padding]
    axes: list[list[Phase]] = [[Phase((0,), 0, 0)]] if len(data) == 1 else []
    for axis, (length, taps, results) in enumerate(zip(data, kernel, result, strict=True)):
        stride = int(attrs.strides[axis])
        axes.append(
            [
                make_phase(length, taps, results // stride, stride, padding[axis], remainder)
                for remainder in range(stride)
            ]
        )
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
    weights: relax.Expr,
) -> relax.Var:
    """Emit the convolution for a phase of height and a phase of width. The kernel is IOHW."""
    rows, columns = phases
    stored = np.ascontiguousarray(kernel.transpose(1, 2, 3, 0))
    copies = stored.shape[0] // static_shape(weights)[1]
    repeated: relax.Expr = relax.const(stored)
    if not isinstance(weights, Constant):
        repeated = builder.emit(repeat_params(weights, stored, copies))
    return builder.emit(
        relax.op.nn.conv2d(
            data,
            repeated,
            padding=(rows.before, columns.before, rows.after, columns.after),
            data_layout="NHWC",
            kernel_layout="OHWI",
            out_layout="NHWC",
        )
    )


def repeat_bias(builder: relax.BlockBuilder, bias: relax.Expr, copies: int) -> relax.Expr:
    """Return a bias whose channels are along the last axis, ``copies`` times in sequence."""
    if isinstance(bias, Constant):
        return relax.const(np.tile(constant_array(bias).reshape(-1), copies))
    stored = constant_array(bias.args[0]).reshape(-1)
    return builder.emit(repeat_params(bias, stored, copies))


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
