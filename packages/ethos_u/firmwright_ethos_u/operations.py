"""Executes convolutions and poolings."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from ethosu.vela.ethos_u55_regs import ethos_u55_regs as tables
from ethosu.vela.scaling import quantise_pooling_scale

from firmwright_ethos_u.arithmetic import finish, rescale, rounding
from firmwright_ethos_u.memory import Array, Memory, input_map, output_map
from firmwright_ethos_u.stream import Accelerator, Operation
from firmwright_ethos_u.weights import kernel_size, kernel_stride, read_weights

NEAREST, ZEROS = 1, 2
"""The modes of IFM_UPSCALE."""

MAX, AVERAGE, REDUCE_SUM = (mode.value for mode in tables.pooling_mode)


class Windows:
    """The padded input of an operation with a kernel."""

    def __init__(self, operation: Operation, memory: Memory, depth: int):
        """Read the input.

        The registers of output, kernel and padding determine its height and width.
        """
        self.operation = operation
        self.kernel, self.dilation = kernel_size(operation)
        self.stride = kernel_stride(operation)
        self.output = output_map(operation).shape[:2]
        pads = [operation[f"IFM_PAD_{side}"] for side in ("TOP", "BOTTOM", "LEFT", "RIGHT")]
        upscale = operation["IFM_UPSCALE"]
        if upscale > ZEROS:
            raise operation.reject(f"has an unknown upscaling mode ({upscale})")
        factor = 2 if upscale else 1
        spans = [
            (self.output[axis] - 1) * self.stride[axis]
            + (self.kernel[axis] - 1) * self.dilation[axis]
            + 1
            - sum(pads[2 * axis : 2 * axis + 2])
            for axis in (0, 1)
        ]
        if min(spans) < 1:
            raise operation.reject("has a window that contains padding only")
        tensor = input_map(
            operation, "IFM", (-(-spans[0] // factor), -(-spans[1] // factor), depth)
        )
        self.dtype = tensor.dtype
        values = tensor.read(memory) - zero_point(operation, "IFM", self.dtype)
        present = np.ones(values.shape[:2], bool)
        if upscale:
            values = values.repeat(2, 0).repeat(2, 1)[: spans[0], : spans[1]]
            present = np.ones(values.shape[:2], bool)
        if upscale == ZEROS:
            values[1::2] = 0
            values[:, 1::2] = 0
        margins = (tuple(pads[:2]), tuple(pads[2:]))
        self.values = np.pad(values, (*margins, (0, 0)))
        self.present = np.pad(present, margins)

    def positions(self) -> Iterator[tuple[int, int, Array, Array]]:
        """Yield y, x, the inputs (height, width, depth), and whether each input is not padding."""
        height, width = self.output
        for y in range(self.kernel[0]):
            for x in range(self.kernel[1]):
                rows = slice(y * self.dilation[0], None, self.stride[0])
                columns = slice(x * self.dilation[1], None, self.stride[1])
                inputs = self.values[rows, columns][:height, :width]
                yield y, x, inputs, self.present[rows, columns][:height, :width]


def zero_point(operation: Operation, prefix: str, dtype: np.dtype) -> int:
    value = operation.signed(f"{prefix}_ZERO_POINT")
    return value if dtype.kind == "i" else value & 0xFFFF


def check_accumulator(operation: Operation) -> None:
    """Raise StreamError for accumulators of 16-bit floating point."""
    if operation["ACC_FORMAT"] not in (0, 1):
        raise operation.reject(f"has an unsupported ACC_FORMAT ({operation['ACC_FORMAT']})")


def convolve(operation: Operation, memory: Memory, accelerator: Accelerator) -> None:
    """Execute a convolution or a depthwise convolution with a scale per output channel.

    The sums are exact in float64, because the sums have less than 53 bits.
    """
    check_accumulator(operation)
    target = output_map(operation)
    depthwise = operation.name == "NPU_OP_DEPTHWISE"
    depth = target.shape[2] if depthwise else operation["IFM_DEPTH_M1"] + 1
    windows = Windows(operation, memory, depth)
    weights, bias, scale, shift = read_weights(
        operation, memory, accelerator, 1 if depthwise else depth, 8 * windows.dtype.itemsize
    )
    total = np.zeros(target.shape)
    for y, x, inputs, _ in windows.positions():
        if depthwise:
            total += inputs * weights[:, y, x, 0]
        else:
            total += inputs.astype(np.float64) @ weights[:, y, x].T
    sums = total.astype(np.int64) + bias
    if operation.fields("OFM_PRECISION")["scaling"]:
        scale, shift = split_scale(operation["OFM_SCALE"])
    values = rescale(sums, scale, shift, rounding(operation))
    target.write(memory, finish(operation, memory, accelerator, values, target.dtype))


def split_scale(register: int) -> tuple[Array, Array]:
    """Return scale and shift of a register. The upper half of the register is the shift."""
    return np.asarray(register & 0xFFFFFFFF), np.asarray(register >> 32)


def pool(operation: Operation, memory: Memory, accelerator: Accelerator) -> None:
    """Execute a maximum, an average, or a sum over the channels."""
    mode = operation.parameter
    if mode not in (MAX, AVERAGE, REDUCE_SUM):
        raise operation.reject(f"has an unknown mode ({mode})")
    check_accumulator(operation)
    target = output_map(operation)
    depth = operation["IFM_DEPTH_M1"] + 1 if mode == REDUCE_SUM else target.shape[2]
    windows = Windows(operation, memory, depth)
    if mode == MAX:
        values = maximum(operation, windows)
    else:
        values = average(operation, windows, mode == REDUCE_SUM)
    target.write(memory, finish(operation, memory, accelerator, values, target.dtype))


def maximum(operation: Operation, windows: Windows) -> Array:
    """Return the maximum of each window without its padding."""
    if operation.fields("OFM_PRECISION")["scaling"] and operation["OFM_SCALE"] != 1:
        raise operation.reject("has a maximum and a scale: unsupported")
    lowest = np.iinfo(np.int64).min
    candidates = [
        np.where(present[..., None], inputs, lowest)
        for _, _, inputs, present in windows.positions()
    ]
    return np.asarray(np.max(candidates, axis=0))


def average(operation: Operation, windows: Windows, over_channels: bool) -> Array:
    """Return the scaled sum of each window.

    If a window contains padding, the accelerator divides by the number of other inputs.
    """
    positions = list(windows.positions())
    sums = np.sum([inputs for _, _, inputs, _ in positions], axis=0)
    if over_channels:
        sums = sums.sum(axis=2, keepdims=True)
    has_scale = operation.fields("OFM_PRECISION")["scaling"]
    if has_scale and windows.present.all():
        return rescale(sums, *split_scale(operation["OFM_SCALE"]), rounding(operation))
    if has_scale and operation["OFM_SCALE"] != 1:
        raise operation.reject("has padding and a scale: unsupported")
    counts = np.sum([present for _, _, _, present in positions], axis=0)
    pairs = np.array(
        [quantise_pooling_scale(n) if n > 1 else (1, 0) for n in range(counts.max() + 1)]
    )
    scale, shift = pairs[counts][..., None, 0], pairs[counts][..., None, 1]
    return rescale(sums, scale, shift, rounding(operation))
