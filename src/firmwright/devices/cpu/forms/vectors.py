"""Arranges blocks of channels for cores with vectors. A vector has one element per channel."""

from __future__ import annotations

import numpy as np

from firmwright.devices.cpu.forms.layer_numbers import scale_vectors
from firmwright.ir.layer import Array, Layer, LayerRounding


def choose_lanes(channels: int) -> int:
    return 16 if channels >= 16 else 8


def fill_lanes(channels: int, lanes: int) -> Array:
    """Return the channels of blocks of ``lanes``, (blocks, lanes).

    The last block overlaps the previous block if ``channels`` is not a multiple of ``lanes``. If
    ``channels`` is less than ``lanes``, the block has indices of channels that do not exist.
    """
    last = max(channels - lanes, 0)
    starts = np.array([*range(0, last, lanes), last])
    filled: Array = starts[:, None] + np.arange(lanes)
    return filled


def pad_channels(array: Array, count: int, value: int = 0) -> Array:
    """Return the array, padded with ``value`` so that its first axis has ``count`` elements."""
    padding = [(0, count - len(array)), *[(0, 0)] * (array.ndim - 1)]
    return np.pad(array, padding, constant_values=value)


def pad_matrix(layer: Layer, count: int, words: int) -> Array:
    """Return the weights as int64 (``count`` channels, ``words`` taps), padded with zeros."""
    padding = (0, count - layer.out_channels), (0, words - layer.taps)
    return np.pad(layer.matrix.astype(np.int64), padding)


def pad_scales(layer: Layer, bias: Array, count: int) -> dict[str, Array]:
    arrays = {**scale_vectors(layer), "bias": bias.astype("int32")}
    return {
        name: pad_channels(array, count, int(name == "shifts")) for name, array in arrays.items()
    }


def arrange_scales(layer: Layer, bias: Array, indices: Array) -> dict[str, Array]:
    """Return bias, multipliers and shifts of channels as flat arrays (blocks, lanes)."""
    scales = pad_scales(layer, bias, max(layer.out_channels, indices.shape[1]))
    return {name: array[indices].reshape(-1) for name, array in scales.items()}


def compute_signed_bias(layer: Layer) -> Array:
    """Return the bias for inputs as signed bytes, which are unsigned bytes minus 128."""
    offset = 128 if layer.input_dtype == "uint8" else 0
    bias: Array = layer.folded_bias + offset * layer.matrix.sum(1)
    return bias


def compute_shifted_zero_point(layer: Layer) -> int:
    return layer.input_zero_point - (128 if layer.input_dtype == "uint8" else 0)


def describe_depthwise(layer: Layer, lanes: int) -> dict[str, int]:
    return {
        "float_scaled": layer.scaling.rounding is LayerRounding.FLOAT,
        "kernel_height": layer.kernel[0],
        "kernel_width": layer.kernel[1],
        "lanes": lanes,
        "whole": layer.channels >= lanes,
    }
