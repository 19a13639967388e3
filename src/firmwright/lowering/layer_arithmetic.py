"""Computes a layer's results from the sums with NumPy, and finds constant channels."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from firmwright.ir.layer import Array, Layer, LayerRounding


def requantize_sums(layer: Layer, sums: Array) -> Array:
    """Return the stored integers of int64 sums (…, O), like TFLite's or ONNX Runtime's kernels.

    Sources: :mod:`firmwright.lowering.kernels.fixed_point`,
    :class:`firmwright.lowering.onnx_rounding.OnnxRounding`. The graph defines the rounding of
    shifts.
    """
    scaling = layer.scaling
    mantissas, shifts = scaling.mantissas, scaling.shifts
    if scaling.rounding is LayerRounding.FLOAT:
        real = np.rint(sums.astype("float32") * scaling.factors)
        steps = np.clip(real, -(2.0**20), 2.0**20).astype("int64")
    elif scaling.rounding is LayerRounding.ONCE:
        # The product has two halves, because the product of a factor and a sum of 16-bit
        # activations exceeds 64 bits.
        low = ((sums & 0xFFFF) * mantissas + (np.int64(1) << (30 + shifts))) >> 16
        steps = ((sums >> 16) * mantissas + low) >> (15 + shifts)
    elif scaling.rounding is LayerRounding.SHIFT:
        steps = (sums * mantissas + scaling.offsets) >> shifts
    else:
        product = ((sums << np.maximum(-shifts, 0)) * mantissas + 2**30) >> 31
        doubled = 2 * product - (product < 0)
        steps = ((doubled >> np.maximum(shifts, 0)) + 1) >> 1
    result: Array = np.clip(steps + layer.zero_point, layer.low, layer.high)
    return result


def fold_constant_channels(layer: Layer) -> Layer:
    """Return the layer with simple parameters for channels that do not depend on the input.

    Training can produce channels that a ReLU always clamps. Some forms do not support the biases
    and factors of such channels. These channels get zero weights, a factor of 1/4, and a bias of
    four times the result.
    """
    limits = np.iinfo(layer.input_dtype)
    ends = [int(limit) - layer.input_zero_point for limit in (limits.min, limits.max)]
    positive, negative = np.maximum(layer.matrix, 0).sum(1), np.minimum(layer.matrix, 0).sum(1)
    # The padding counts as zero, which is between the ends.
    lowest, highest = (
        layer.bias + positive * first + negative * second for first, second in (ends, ends[::-1])
    )
    results, other = requantize_sums(layer, lowest), requantize_sums(layer, highest)
    constant = results == other
    if not constant.any():
        return layer
    # The factor 1/4 is 2^30 · 2^(-31 - 1), or 1 · 2^-2.
    quarter = (1, 2) if layer.scaling.rounding is LayerRounding.SHIFT else (2**30, 1)
    scaling = replace(
        layer.scaling,
        mantissas=np.where(constant, quarter[0], layer.scaling.mantissas),
        shifts=np.where(constant, quarter[1], layer.scaling.shifts),
        factors=np.where(constant, np.float32(0.25), layer.scaling.factors),
        offsets=np.where(constant, 0, layer.scaling.offsets),
    )
    return replace(
        layer,
        weights=np.where(constant[:, None, None, None], 0, layer.weights),
        bias=np.where(constant, 4 * (results - layer.zero_point), layer.bias),
        scaling=scaling,
    )
