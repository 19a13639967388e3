"""Jobs for DIANA's accelerator: the console input of ``soma.c``, and numpy's results."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]

WEIGHTS = 32768
"""Offset of the weights in the firmware's buffer; activations are before them."""


def words(*values: int) -> bytes:
    return struct.pack(f"<{len(values)}I", *values)


def rounded(number: int) -> int:
    return -(-number // 16) * 16


def swapped(data: bytes) -> bytes:
    """Reverse the bytes within each 32-bit word."""
    return np.frombuffer(data, "<u4").byteswap().tobytes()


def store_at(offset: int, data: bytes) -> bytes:
    return b"i" + words(offset, len(data)) + data


def copy(l1: int, planes: int, plane_bytes: int, l2_stride: int) -> bytes:
    return words(l1, planes, plane_bytes, l2_stride)


@dataclass(frozen=True)
class Window:
    """A convolution's geometry; ``padding`` is (top, left, bottom, right)."""

    kernel: tuple[int, int]
    stride: int
    padding: tuple[int, int, int, int]

    def results(self, height: int, width: int) -> tuple[int, int]:
        top, left, bottom, right = self.padding
        return (
            (height + top + bottom - self.kernel[0]) // self.stride + 1,
            (width + left + right - self.kernel[1]) // self.stride + 1,
        )


def requantized(sums: Array, shift: int, relu: bool) -> Array:
    wrapped = sums.astype(np.int64).astype(np.int32)
    return np.asarray(np.clip(wrapped >> shift, 0 if relu else -128, 127), np.int8)


def convolved(x: Array, weights: Array, bias: Array, window: Window, depthwise: bool) -> Array:
    """Return the 64-bit sums of a convolution of x (C, H, W) with weights (O, I, KH, KW)."""
    top, left, bottom, right = window.padding
    padded = np.pad(x.astype(np.int64), ((0, 0), (top, bottom), (left, right)))
    rows, columns = window.results(*x.shape[1:])
    sums = np.tile(bias.astype(np.int64)[:, None, None], (1, rows, columns))
    step = window.stride
    for ky in range(window.kernel[0]):
        for kx in range(window.kernel[1]):
            seen = padded[:, ky : ky + rows * step : step, kx : kx + columns * step : step]
            seen = seen[:, :rows, :columns]
            taps = weights[:, :, ky, kx].astype(np.int64)
            sums += taps[:, 0, None, None] * seen if depthwise else np.tensordot(taps, seen, 1)
    return sums


def convolution_weights(weights: Array, bias: Array) -> bytes:
    """Pack weights (O, I, KH, KW) and int32 biases in blocks of 16 outputs."""
    spare = -len(weights) % 16
    weights = np.pad(weights, ((0, spare), (0, 0), (0, 0), (0, 0)))
    bias = np.pad(bias, (0, spare)).astype("<i4")
    blocks = b""
    for first in range(0, len(weights), 16):
        blocks += weights[first : first + 16].transpose(1, 2, 3, 0).tobytes()
        planes = bias[first : first + 16, None].view(np.uint8)
        blocks += np.ascontiguousarray(planes.T).tobytes()
    return swapped(blocks)


def analog_weights(weights: Array, factors: Array, offsets: Array) -> bytes:
    """Pack weights (O, I, KH, KW) of -1, 0, 1 in blocks of 16 outputs: 16 bits of 1, 16 of -1."""
    blocks = b""
    for first in range(0, len(weights), 16):
        each = slice(first, first + 16)
        for lanes in weights[each].reshape(16, -1).T.tolist():
            ones, minus = (
                sum(1 << lane for lane, weight in enumerate(lanes) if weight == sign)
                for sign in (1, -1)
            )
            blocks += struct.pack("<HH", ones, minus)
        blocks += factors[each].tobytes() + offsets[each].tobytes()
    return swapped(blocks)


def depthwise_weights(weights: Array, bias: Array) -> bytes:
    """Pack weights (C, 1, KH, KW): three outputs of zeros after every channel."""
    spaced = [np.zeros((4 * len(a), *a.shape[1:]), a.dtype) for a in (weights, bias)]
    spaced[0][::4], spaced[1][::4] = weights, bias
    return convolution_weights(*spaced)


def dense_weights(weights: Array, bias: Array) -> bytes:
    """Pack weights (O, I), both multiples of 16: blocks of 16 x 16, then 16 bytes per bias."""
    outputs, inputs = weights.shape
    blocks = b""
    for first in range(0, outputs, 16):
        tiles = weights[first : first + 16].reshape(16, inputs // 16, 16).transpose(1, 0, 2)
        blocks += tiles.tobytes()
        part = bias[first : first + 16].astype("<i4")
        wide = np.stack([part, *3 * [part >> 31]], axis=1)
        blocks += wide.tobytes()
    return swapped(blocks)


def image_bytes(image: Array, gap: int = 0) -> bytes:
    """Lay out (C, H, W): three columns of zeros after a row, ``gap`` bytes after a channel."""
    channels, height, width = image.shape
    rows = np.full((channels, height, rounded(width)), 0x55, np.int8)
    rows[:, :, :width] = image
    rows[:, :, width : width + 3] = 0
    planes = np.pad(rows.reshape(channels, -1), ((0, 0), (0, gap)))
    return swapped(planes.tobytes())


def image_of(data: bytes, shape: tuple[int, int, int]) -> Array:
    channels, height, width = shape
    rows = np.frombuffer(swapped(data), np.int8).reshape(channels, height, rounded(width))
    return rows[:, :, :width]
