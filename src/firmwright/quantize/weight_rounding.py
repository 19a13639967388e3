"""Rounds weights one by one. Each weight compensates the errors of the previous weights.

Rounding every weight to the nearest step has the minimum error in the weights. However, the error
of the layer's results is important, and inputs depend on each other. An error at one pixel can be
compensated at a neighbor. Weights are rounded in order. Each error is spread over the remaining
weights so that the mean square of the results' error over the calibration samples grows least.
Method: Frantar, Ashkboos, Hoefler, Alistarh, "GPTQ: Accurate Post-Training Quantization for
Generative Pre-trained Transformers", 2023, section 3.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import deepcopy
from math import prod
from types import MappingProxyType
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx

from firmwright.data.samples import Sample
from firmwright.ir.quant_params import QuantParams
from firmwright.quantize.clusters import round_to_values
from firmwright.quantize.float_graph import evaluate, read_attributes
from firmwright.quantize.weights import channel_axis

Array = npt.NDArray[Any]
ROUNDED_OPERATORS = ("Conv", "Gemm", "MatMul")
MAX_INPUTS = 2304
"""The maximum number of inputs of a result, 3 · 3 · 256. More second moments need too much
memory and time.
"""
MAX_SAMPLES = 64
"""The maximum number of samples, which is enough for second moments of a few hundred inputs."""
DAMPING = 0.01
"""The part of the inputs' mean square that is added to each mean square.

This part regularizes moments of few samples, and avoids a division by zero if an input is constant.
The authors of the method use this value.
"""


def round_weights(
    model: onnx.ModelProto,
    samples: Sequence[Sample],
    params_of: Mapping[str, Sequence[QuantParams]],
    clusters: Mapping[str, Array] = MappingProxyType({}),
    factors: Mapping[str, Array] = MappingProxyType({}),
) -> onnx.ModelProto:
    """Return the float network with weights that are rounded to their quantization steps.

    ``params_of`` are the parameters of each weight, one for all channels or one per channel.
    ``clusters`` are the values of clustered weights. ``factors`` are the factors of blocks.
    Weights of transposed convolutions, and of results with more than MAX_INPUTS inputs, do not
    change: they are rounded to the nearest step later.
    """
    result = deepcopy(model)
    constants = {i.name: i for i in result.graph.initializer}
    layers = {
        n.input[1]: n
        for n in model.graph.node
        if n.op_type in ROUNDED_OPERATORS
        and n.input[1] in params_of
        and count_inputs(n, constants) <= MAX_INPUTS
    }
    moments = second_moments(layers, constants, model, samples[:MAX_SAMPLES])
    for name, node in layers.items():
        weights = onnx.numpy_helper.to_array(constants[name])
        allowed = clusters.get(name), factors.get(name)
        values = round_layer(node, weights, moments[name], params_of[name], *allowed)
        constants[name].CopyFrom(onnx.numpy_helper.from_array(values, name))
    return result


def round_layer(
    node: onnx.NodeProto,
    weights: Array,
    moments: Array,
    params: Sequence[QuantParams],
    clusters: Array | None = None,
    factors: Array | None = None,
) -> Array:
    """Return a layer's rounded weights. ``moments`` are the second moments of each group."""
    rows = weights_to_rows(node, weights.astype("float64"))
    of_blocks = None if factors is None else weights_to_rows(node, factors)
    channels = rows.shape[0] * rows.shape[1]
    by_channel = params if len(params) > 1 else [*params] * channels
    for group, moment in enumerate(moments):
        first = group * rows.shape[1]
        row_params = by_channel[first : first + rows.shape[1]]
        of_group = None if of_blocks is None else of_blocks[group]
        rows[group] = round_with_compensation(rows[group], moment, row_params, clusters, of_group)
    return rows_to_weights(node, rows, weights.shape).astype("float32")


def count_inputs(node: onnx.NodeProto, constants: Mapping[str, onnx.TensorProto]) -> int:
    """Return the number of inputs in the sum of each result of the layer."""
    shape = constants[node.input[1]].dims
    return prod(shape[1:]) if channel_axis(node) == 0 else int(shape[0])


def second_moments(
    layers: Mapping[str, onnx.NodeProto],
    constants: Mapping[str, onnx.TensorProto],
    model: onnx.ModelProto,
    samples: Sequence[Sample],
) -> dict[str, Array]:
    """Return the sum of x · xᵀ over samples and positions, (groups, K, K), for each weight.

    x are the K inputs of one result.
    """
    inputs = sorted({node.input[0] for node in layers.values()})
    shapes = {name: tuple(constants[name].dims) for name in layers}
    totals: dict[str, Array] = {}
    for arrays in evaluate(model, samples, inputs):
        for name, node in layers.items():
            rows = im2col(node, arrays[node.input[0]], shapes[name]).astype("float64")
            moment = rows @ rows.transpose(0, 2, 1)
            totals[name] = totals[name] + moment if name in totals else moment
    return totals


def round_with_compensation(
    weights: Array,
    moment: Array,
    params_of: Sequence[QuantParams],
    clusters: Array | None = None,
    factors: Array | None = None,
) -> Array:
    """Round (channels, K) weights to the channels' scales, one K at a time. Zero points are 0."""
    scales = np.array([params.scale for params in params_of])
    damped = moment + np.eye(len(moment)) * (DAMPING * np.trace(moment) / len(moment) or 1.0)
    spread = np.linalg.cholesky(np.linalg.inv(damped)).T
    left, result = weights.copy(), np.empty_like(weights)
    for k in range(weights.shape[1]):
        column = left[:, k]
        of_column = None if factors is None else factors[:, k]
        result[:, k] = round_to_values(column / scales, params_of[0], clusters, of_column) * scales
        errors = (column - result[:, k]) / spread[k, k]
        left[:, k + 1 :] -= np.outer(errors, spread[k, k + 1 :])
    return result


def weights_to_rows(node: onnx.NodeProto, weights: Array) -> Array:
    """Return weights as (groups, channels of a group, K). A result is a row times its inputs."""
    if node.op_type == "Conv":
        groups = read_attributes(node).get("group", 1)
        return weights.reshape(groups, len(weights) // groups, -1).copy()
    return (weights if is_transposed(node) else weights.T)[None].copy()


def rows_to_weights(node: onnx.NodeProto, rows: Array, shape: tuple[int, ...]) -> Array:
    """Reverse :func:`weights_to_rows`."""
    if node.op_type == "Conv":
        return rows.reshape(shape)
    return np.ascontiguousarray(rows[0] if is_transposed(node) else rows[0].T)


def is_transposed(node: onnx.NodeProto) -> bool:
    """Return whether the second operand of a product is (channels, K)."""
    return bool(read_attributes(node).get("transB", 0))


def im2col(node: onnx.NodeProto, x: Array, weights: tuple[int, ...]) -> Array:
    """Return the inputs of each result from ``x``: (groups, K, results of one channel).

    ``weights`` is the shape of the weights; x is (N, C, …) for a convolution.
    """
    if node.op_type != "Conv":
        across = read_attributes(node).get("transA", 0)
        return (x if across else np.moveaxis(x, -1, 0).reshape(x.shape[-1], -1))[None]
    given = read_attributes(node)
    kernel, axes = weights[2:], range(2, x.ndim)
    dilations = given.get("dilations", [1] * len(kernel))
    strides = given.get("strides", [1] * len(kernel))
    reach = [(k - 1) * d + 1 for k, d in zip(kernel, dilations, strict=True)]
    x = np.pad(x, [(0, 0), (0, 0), *read_paddings(given, x.shape[2:], reach, strides)])
    windows = np.lib.stride_tricks.sliding_window_view(x, reach, axis=tuple(axes))
    steps = [slice(None, None, s) for s in strides] + [slice(None, None, d) for d in dilations]
    windows = windows[(slice(None), slice(None), *steps)]
    # (N, C, positions …, taps …) -> (C, taps …, N, positions …)
    count = len(kernel)
    order = [1, *range(2 + count, 2 + 2 * count), 0, *range(2, 2 + count)]
    groups = given.get("group", 1)
    taps = weights[1] * int(np.prod(kernel))
    return windows.transpose(order).reshape(groups, taps, -1)


def read_paddings(
    given: dict[str, Any], image: tuple[int, ...], reach: list[int], strides: list[int]
) -> list[tuple[int, int]]:
    """Return the number of zeros before and after each axis of the image."""
    count = len(image)
    kind = given.get("auto_pad", b"NOTSET")
    if not kind.startswith(b"SAME"):
        pads = given.get("pads", [0] * 2 * count) if kind == b"NOTSET" else [0] * 2 * count
        return list(zip(pads[:count], pads[count:], strict=True))
    missing = [
        max((-(-size // step) - 1) * step + wide - size, 0)
        for size, step, wide in zip(image, strides, reach, strict=True)
    ]
    halves = [(total // 2, total - total // 2) for total in missing]
    return halves if kind == b"SAME_UPPER" else [(b, a) for a, b in halves]
