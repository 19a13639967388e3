"""Arranges the numbers of a layer in the formats of the C of several families.

Cores with vectors compute blocks of channels. A vector has one element per channel.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from firmwright.devices.cpu.forms.requantize import make_requantization
from firmwright.devices.cpu.forms.wide import NARROW_SUMS
from firmwright.ir.layer import Array, Layer, LayerRounding, LinearLayer


def scale_arrays(layer: Layer) -> dict[str, Array]:
    """Return bias, multipliers and shifts by channel, and offsets that do not follow from shifts.

    Layers with 16-bit activations use the mantissas, and have biases of 64 bits for wide sums.
    """
    if layer.is_wide:
        return {
            "bias": layer.folded_bias.astype("int32" if NARROW_SUMS.holds(layer) else "int64"),
            "multipliers": layer.scaling.mantissas.astype("int32"),
            "shifts": (layer.scaling.shifts - 1).astype("int8"),
        }
    numbers = make_requantization(layer)
    arrays = {
        "bias": layer.folded_bias.astype("int32"),
        "multipliers": numbers.multipliers.astype("int32"),
        "shifts": numbers.shifts.astype("int8"),
    }
    if layer.scaling.has_offsets:
        arrays["offsets"] = numbers.offsets.astype("int32")
    return arrays


def scale_vectors(layer: Layer) -> dict[str, Array]:
    """Return the scales for cores with floats in vectors. Multipliers have the bits of floats.

    A layer that is not scaled in float32 has the arrays of ``scale_arrays``.
    """
    if layer.scaling.rounding is not LayerRounding.FLOAT:
        return scale_arrays(layer)
    return {
        "bias": layer.folded_bias.astype("int32"),
        "multipliers": layer.scaling.factors.view("int32"),
        "shifts": np.zeros(layer.out_channels, "int8"),
    }


def make_border(layer: Layer) -> dict[str, Array]:
    """Return a constant row of zero points for a padded input, or {} without padding."""
    if not any(layer.padding):
        return {}
    row = layer.kernel[1] * layer.channels
    return {"border": np.full(row, layer.input_zero_point, layer.input_dtype)}


def describe_geometry(layer: LinearLayer) -> dict[str, int]:
    return {
        "height": layer.height,
        "width": layer.width,
        "channels": layer.channels,
        "out_width": layer.out_width,
        "out_channels": layer.out_channels,
        "pixels": layer.pixels,
        "kernel_height": layer.kernel[0],
        "kernel_width": layer.kernel[1],
        "stride_y": layer.strides[0],
        "stride_x": layer.strides[1],
        "dilation_y": layer.dilation[0],
        "dilation_x": layer.dilation[1],
        "top": layer.padding[0],
        "left": layer.padding[1],
    }


def describe_gather(layer: LinearLayer, pixels: int) -> dict[str, Any]:
    """Return the template variables for C that gathers the taps of ``pixels`` pixels."""
    return {"pointwise": layer.is_pointwise, "guarded": any(layer.padding), "pixels": pixels}


def count_row_elements(layer: LinearLayer) -> int:
    """Return the number of elements in the input rows that the kernel covers, with borders."""
    rows, columns = ((k - 1) * d + 1 for k, d in zip(layer.kernel, layer.dilation, strict=True))
    return rows * ((layer.out_width - 1) * layer.strides[1] + columns) * layer.channels


def describe_record(layer: Layer) -> dict[str, int]:
    return {**describe_geometry(layer), "halves": 1 + 2 * (layer.zero_point - layer.low)}


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
