"""Provides the numbers of a layer in the format of the C of several families."""

from __future__ import annotations

import numpy as np

from firmwright.devices.cpu.forms.requantize import make_requantization
from firmwright.ir.layer import Array, Layer, LayerRounding, LinearLayer


def scale_arrays(layer: Layer) -> dict[str, Array]:
    """Return bias, multipliers and shifts by channel, and offsets that do not follow from
    shifts."""
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


def count_row_elements(layer: LinearLayer) -> int:
    """Return the number of elements in the input rows that the kernel covers, with borders."""
    rows, columns = ((k - 1) * d + 1 for k, d in zip(layer.kernel, layer.dilation, strict=True))
    return rows * ((layer.out_width - 1) * layer.strides[1] + columns) * layer.channels


def describe_record(layer: Layer) -> dict[str, int]:
    return {**describe_geometry(layer), "halves": 1 + 2 * (layer.zero_point - layer.low)}
