"""Decompresses weights and scales in the order in which the accelerator reads them.

Vela's codec restores the stream of weights. `order` is the inverse of the reordering in Vela's
encoder, which the accelerator's documentation defines. The order is blocks of outputs, blocks of
inputs, parts of the kernel (at most 8x8 elements), and units of a few channels.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from ethosu import mlw_codec

from firmwright.device import UserError, run_in_copy
from firmwright_ethos_u.memory import Array, Bytes, Memory
from firmwright_ethos_u.stream import Accelerator, Operation

SCALE_BYTES = 10
"""The number of bytes per output channel: 40 bits of bias, 32 bits of scale, 6 bits of shift."""


@dataclass(frozen=True)
class Traversal:
    """The parameters that determine the order of a stream of weights."""

    outputs: int
    kernel: tuple[int, int]
    inputs: int
    block_outputs: int
    depthwise: bool
    part_kernel: bool
    input_bits: int
    part: tuple[int, int]
    """The maximum part of the kernel (height, width)."""
    unit_outputs: int
    unit_inputs: int

    def block_inputs(self) -> int:
        """Return the number of inputs of a block."""
        return 16 if self.part_kernel or self.input_bits == 16 else 32


def round_up(value: int, multiple: int) -> int:
    """Return the smallest multiple that is not below the value."""
    return -(-value // multiple) * multiple


@lru_cache(maxsize=64)
def order(traversal: Traversal) -> Array:
    """Return the position of each weight of a stream in (output, y, x, input).

    Padding has position -1.
    """
    height, width = traversal.kernel
    shape = (traversal.outputs, height, width, traversal.inputs)
    chunks = []
    for output in range(0, traversal.outputs, traversal.block_outputs):
        block_outputs = min(traversal.block_outputs, traversal.outputs - output)
        for input_ in range(0, traversal.inputs, traversal.block_inputs()):
            for y in range(0, height, traversal.part[0]):
                for x in range(0, width, traversal.part[1]):
                    chunks.append(
                        block_order(traversal, shape, (output, y, x, input_), block_outputs)
                    )
    return np.concatenate(chunks)


def block_order(
    traversal: Traversal, shape: tuple[int, ...], start: tuple[int, ...], block_outputs: int
) -> Array:
    """Return the positions of one block and one part of the kernel, in the order of the stream."""
    rows = min(shape[1] - start[1], traversal.part[0])
    columns = min(shape[2] - start[2], traversal.part[1])
    elements = rows * columns
    if traversal.part_kernel:
        elements = round_up(elements, 2 if traversal.input_bits == 16 else 4)
    elif traversal.depthwise:
        elements = round_up(elements, 4)
    outputs = units(round_up(block_outputs, traversal.unit_outputs), traversal.unit_outputs)
    block = traversal.block_inputs()
    if traversal.part_kernel:
        block = round_up(min(block, shape[3] - start[3]), traversal.unit_inputs)
    inputs = units(1, 1) if traversal.depthwise else units(block, traversal.unit_inputs)
    element = np.arange(elements)
    # The axes are outer inputs, outputs, element, inner inputs, unit outputs, unit inputs.
    axes = (0, 1, 2, 3, 4, 5) if traversal.part_kernel else (3, 1, 2, 0, 4, 5)
    inner = start[3] + inputs.reshape(len(inputs), 1, 1, 1, 1, -1).transpose(axes)
    outer = start[0] + outputs.reshape(1, len(outputs), 1, 1, -1, 1)
    step = element.reshape(1, 1, -1, 1, 1, 1)
    y, x = step // columns, start[2] + step % columns
    place = ((outer * shape[1] + start[1] + y) * shape[2] + x) * shape[3] + inner
    valid = (outer < start[0] + block_outputs) & (inner < shape[3]) & (y < rows)
    return np.where(valid, place, -1).ravel()


def units(length: int, unit: int) -> Array:
    """Return the numbers below `length` as (units, numbers per unit)."""
    return np.arange(length).reshape(-1, unit)


def read_weights(
    operation: Operation, memory: Memory, accelerator: Accelerator, inputs: int, input_bits: int
) -> tuple[Array, Array, Array, Array]:
    """Return float64 weights (output, y, x, input), and bias, scale and shift per output.

    On n cores, each core has a stream for every n-th output channel.
    """
    outputs = operation["OFM_DEPTH_M1"] + 1
    kernel, dilation = kernel_size(operation)
    weights = np.zeros((outputs, *kernel, inputs))
    scales = np.zeros((outputs, 3), np.int64)
    cores = accelerator.cores if operation.registers.get("PARALLEL_MODE") else 1
    if operation["OFM_BLK_DEPTH_M1"] + 1 < cores:
        raise operation.reject(
            f"has a block of {operation['OFM_BLK_DEPTH_M1'] + 1} output channels for {cores} cores"
        )
    for core in range(min(cores, outputs)):
        suffix = "1" if core else ""
        traversal = Traversal(
            outputs=len(range(core, outputs, cores)),
            kernel=kernel,
            inputs=inputs,
            block_outputs=(operation["OFM_BLK_DEPTH_M1"] + cores - core) // cores,
            depthwise=operation.name == "NPU_OP_DEPTHWISE",
            part_kernel=bool(operation["KERNEL_STRIDE"] & 4),
            input_bits=input_bits,
            part=(8 // dilation[0], 8 // dilation[1]),
            unit_outputs=4 if accelerator.macs == 32 else 8,
            unit_inputs=8,
        )
        # The scales come first, because their length limits the number of outputs of a damaged
        # stream.
        scales[core::cores] = read_scales(operation, memory, traversal.outputs, suffix)
        weights[core::cores] = decode_weights(operation, memory, traversal, suffix)
    return weights, scales[:, 0], scales[:, 1], scales[:, 2]


def decode_weights(
    operation: Operation, memory: Memory, traversal: Traversal, suffix: str
) -> Array:
    """Return the weights of one core as (output, y, x, input).

    Raises StreamError if the weights are damaged.
    """
    start, length = operation[f"WEIGHT{suffix}_BASE"], operation[f"WEIGHT{suffix}_LENGTH"]
    packed = memory.read(operation, operation["WEIGHT_REGION"], start, length)
    positions = order(traversal)
    try:
        stream = decompress(packed.tobytes())
    except UserError as error:
        raise operation.reject(f"has damaged weights; {error}") from error
    # The encoder pads a stream with zeros.
    if stream.size < positions.size or stream[positions.size :].any():
        raise operation.reject(
            f"has damaged weights: {stream.size} of them; expected {positions.size}"
        )
    flat = np.zeros(positions.max() + 1 if positions.size else 0)
    valid = positions >= 0
    flat[positions[valid]] = stream[: positions.size][valid]
    return flat.reshape(traversal.outputs, *traversal.kernel, traversal.inputs)


@lru_cache(maxsize=256)
def decompress(packed: bytes) -> Array:
    """Decompress weights in a copy of this process, because damaged weights crash the codec."""
    return np.array(run_in_copy("Vela's codec", mlw_codec.decode, bytearray(packed)), np.int16)


def read_scales(operation: Operation, memory: Memory, outputs: int, suffix: str) -> Array:
    """Return bias, scale and shift of each output channel: int64, (outputs, 3)."""
    start, length = operation[f"SCALE{suffix}_BASE"], operation[f"SCALE{suffix}_LENGTH"]
    if length < outputs * SCALE_BYTES:
        raise operation.reject(f"has {length} bytes of scales; expected {outputs * SCALE_BYTES}")
    packed: Bytes = memory.read(operation, operation["SCALE_REGION"], start, outputs * SCALE_BYTES)
    rows = packed.reshape(outputs, SCALE_BYTES).astype(np.int64)
    bias = rows[:, :5] @ (1 << 8 * np.arange(5))
    bias -= (bias >> 39) << 40
    scale = rows[:, 5:9] @ (1 << 8 * np.arange(4))
    return np.stack([bias, scale, rows[:, 9] & 0x3F], axis=1)


def kernel_size(operation: Operation) -> tuple[tuple[int, int], tuple[int, int]]:
    """Return the kernel (height, width) and its dilation (y, x)."""
    bits = operation["KERNEL_STRIDE"]
    dilation = (1 + (bits >> 4 & 1), 1 + (bits >> 3 & 1))
    height = operation["KERNEL_HEIGHT_M1"] // dilation[0] + 1
    width = operation["KERNEL_WIDTH_M1"] // dilation[1] + 1
    return (height, width), dilation


def kernel_stride(operation: Operation) -> tuple[int, int]:
    """Return the stride (y, x)."""
    bits = operation["KERNEL_STRIDE"]
    x = (bits & 1) | (bits >> 6 & 7) << 1
    y = (bits >> 1 & 1) | (bits >> 9 & 7) << 1
    return y + 1, x + 1
