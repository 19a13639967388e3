"""Packs weights and biases for DIANA's digital accelerator.

The packed data are blocks of 16 output channels, and each block ends with its biases. Channels are
padded with zeros to a multiple of 16. Bytes are reversed in each 32-bit word, as in activations.
The source is the blocks of DORY's ``adjust_data_layout``. If 16 does not divide the number of
channels, this function of DORY has an error in the biases, which DORY 9e2dbba corrects. The packed
biases do not have this error.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from firmwright.devices.soma_dory.accelerator_layer import AcceleratorLayer
from firmwright.devices.soma_dory.device_layout import ROW, WORD, reverse_device_words
from firmwright.devices.soma_dory.tiles import BIAS_BYTES, LANES, SPACING, align
from firmwright.ir.layer import Array, LayerKind


def pack_weights(layer: AcceleratorLayer) -> Array:
    """Return the bytes (uint8) of a layer's weights and biases. A job reads whole blocks.

    The layer must not be an addition, which has no weights.
    """
    assert layer.weights is not None and layer.bias is not None
    if layer.factors is not None:
        weights, bias = pack_analog(layer.weights, layer.factors, layer.bias)
    else:
        weights, bias = PACKERS[layer.kind](layer.weights, layer.bias)
    blocks = np.concatenate([weights.view("uint8"), bias.view("uint8")], axis=1)
    return np.pad(reverse_device_words(blocks.reshape(-1)), (0, SPARE_BYTES.get(layer.kind, 0)))


SPARE_BYTES = {LayerKind.DEPTHWISE_CONV2D: 3 * WORD}
"""The number of bytes after the last block that the chip also fetches (diana-driver.md, J4)."""


def pack_conv2d(weights: Array, bias: Array) -> tuple[Array, Array]:
    """Return weights (blocks, [input][row][column][lane]) and biases (blocks, [byte][lane])."""
    padded = pad_axis(weights, 0)
    blocks = padded.reshape(-1, LANES, *padded.shape[1:]).transpose(0, 2, 3, 4, 1)
    return blocks.reshape(len(blocks), -1), split_bias(pad_axis(bias, 0).reshape(-1, LANES))


def pack_depthwise(weights: Array, bias: Array) -> tuple[Array, Array]:
    """Return one block per four channels, which are in lanes 0, 4, 8 and 12 of the block."""
    return pack_conv2d(insert_zeros(weights), insert_zeros(bias))


def pack_dense(weights: Array, bias: Array) -> tuple[Array, Array]:
    """Return weights (blocks, [inputs / 16][output][input]) and 16 bytes of bias per output.

    A bias is a number of 128 bits. Its sign fills the upper 12 bytes.
    """
    padded = pad_axis(pad_axis(weights, 0), 1)
    blocks = padded.reshape(-1, LANES, padded.shape[1] // ROW, ROW).transpose(0, 2, 1, 3)
    words = pad_axis(bias, 0).astype("<i4")
    signs = np.repeat(words >> 31, BIAS_BYTES[LayerKind.DENSE] // 4 - 1).reshape(len(words), -1)
    biases = np.concatenate([words[:, None], signs.astype("<i4")], axis=1).view("uint8")
    return blocks.reshape(len(blocks), -1), biases.reshape(len(blocks), -1)


def pack_analog(weights: Array, factors: Array, bias: Array) -> tuple[Array, Array]:
    """Return two bits per weight, and 16-bit factors and biases, for the emulated analog core.

    A word has two bits for each of the 16 lanes of a convolution. The bits of the lanes with 1
    precede the bits of the lanes with -1. The 16 factors of a block precede its biases.
    """
    lanes, _ = pack_conv2d(weights, bias)
    lanes = lanes.reshape(len(lanes), -1, LANES)
    planes = [np.packbits(lanes == sign, axis=2, bitorder="little") for sign in (1, -1)]
    numbers = [pad_axis(n, 0).astype("<i2").reshape(-1, LANES) for n in (factors, bias)]
    return np.concatenate(planes, axis=2).reshape(len(lanes), -1), np.concatenate(numbers, axis=1)


PACKERS: dict[LayerKind, Callable[[Array, Array], tuple[Array, Array]]] = {
    LayerKind.CONV2D: pack_conv2d,
    LayerKind.DEPTHWISE_CONV2D: pack_depthwise,
    LayerKind.DENSE: pack_dense,
}


def split_bias(bias: Array) -> Array:
    """Return biases (blocks, 16) as four planes of bytes, the least significant first."""
    split = bias.astype("<i4").view("uint8").reshape(*bias.shape, 4)
    return np.ascontiguousarray(split.transpose(0, 2, 1)).reshape(len(bias), -1)


def insert_zeros(array: Array) -> Array:
    """Return the array with three zeros after each element of the first axis."""
    result = np.zeros((len(array) * SPACING, *array.shape[1:]), array.dtype)
    result[::SPACING] = array
    return result


def pad_axis(array: Array, axis: int) -> Array:
    """Return the array with an axis that is padded with zeros to a multiple of 16."""
    widths = [(0, 0)] * array.ndim
    widths[axis] = (0, align(array.shape[axis]) - array.shape[axis])
    return np.pad(array, widths)
