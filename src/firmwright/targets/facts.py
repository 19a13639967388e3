"""Reads the facts that rules of devices use: plain values that describe an operator."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import prod

import numpy as np
import tvm
from tvm import relax

from firmwright.ir.operators import short_name
from firmwright.ir.relax import Constant, constant_array, dtype_of, static_shape
from firmwright.targets.fact_context import (
    BINARY_KINDS,
    FactContext,
    Facts,
    Values,
    constant_or_computed,
    count_channels,
    first_tensor,
    is_constant,
    kind_of,
    locate_axis,
    to_ints,
)


def slice_facts(call: tvm.ir.Call, network: FactContext) -> Facts:
    before, after = static_shape(call.args[0]), static_shape(call)
    given = call.args[4] if len(call.args) > 4 else relax.Tuple([])
    given = network.values.get(given, given) if isinstance(given, relax.Var) else given
    strides = [int(getattr(s, "value", 1)) for s in getattr(given, "fields", [])]
    sliced = sum(a != b for a, b in zip(before, after, strict=True))
    return {"sliced_axes": sliced, "slice_strides": strides}


def pad_facts(call: tvm.ir.Call, network: FactContext) -> Facts:
    """Return a pad's facts.

    ``pad_width`` has the elements before and after each axis of the model.
    """
    widths = to_ints(call.attrs.pad_width)
    count = len(widths) // 2
    image = {axis for axis in range(count) if network.nchw_position(axis, count) >= count - 2}
    return {
        "pad_width": widths,
        "pad_mode": str(call.attrs.pad_mode),
        "pad_value": float(call.attrs.pad_value),
        "padded_outside_image": any(w for i, w in enumerate(widths) if i // 2 not in image),
        "pads_alike": widths[::2] == widths[1::2],
    }


def take_facts(call: tvm.ir.Call, network: FactContext) -> Facts:
    """Return a gather's facts.

    ``length_before`` is the number of elements before the gathered axis.
    """
    data, index = call.args
    flat = call.attrs.axis is None
    axis_facts: Facts = {"axis": 0, "position_from_end": 0} if flat else locate_axis(call, network)
    return {
        "index": constant_or_computed([index], network),
        "index_axes": len(static_shape(index)),
        "data": constant_or_computed([data], network),
        **axis_facts,
        "length_before": prod(static_shape(data)[: axis_facts["axis"]]),
    }


def topk_facts(call: tvm.ir.Call, network: FactContext) -> Facts:
    return {**locate_axis(call, network), "returns": str(call.attrs.ret_type)}


def scatter_facts(call: tvm.ir.Call, network: FactContext) -> Facts:
    """Return facts about an operator that scatters updates.

    ``zeros`` states whether the data is a constant of zeros. ``update_channels`` is the number of
    channels of the updates.
    """
    data, index, updates = (network.values.get(a, a) for a in call.args)
    shape = static_shape(updates)
    return {
        **locate_axis(call, network),
        "reduction": str(call.attrs.reduction),
        "index": constant_or_computed([index], network),
        "update_channels": shape[-3] if len(shape) > 2 else 1,
        "zeros": isinstance(data, Constant) and not np.any(constant_array(data)),
    }


def transpose_facts(call: tvm.ir.Call, _network: FactContext) -> Facts:
    count = len(static_shape(call.args[0]))
    stated = call.attrs.axes
    order = list(range(count))[::-1] if stated is None else [a % count for a in to_ints(stated)]
    return {"position_of_last": order.index(count - 1), "keeps_batch": order[0] == 0}


def operator_facts(call: tvm.ir.Call, network: FactContext) -> Facts:
    """Return the facts about an operator of its kind. Every kind has ``kind`` and ``axes``.

    An ``axis`` is an axis of the model. A ``position`` is the position of an image's axis in NCHW.
    """
    kind = kind_of(call)
    shape = static_shape(first_tensor(call))
    long_axes = sum(length > 1 for length in shape)
    facts: Facts = {"kind": kind, "axes": len(shape), "long_axes": long_axes}
    facts["batch"] = shape[0] if shape else 1
    facts["image_layout"] = network.layout
    describe = FACTS_BY_KIND.get(kind)
    return {**facts, **(describe(call, network) if describe else {})}


def convolution_facts(call: tvm.ir.Call, network: FactContext) -> Facts:
    """Return a convolution's facts. Kernel, strides and dilation are (height, width) in elements.

    ``padding`` is (top, left, bottom, right). ``more_padding_behind`` is (bottom - top, right -
    left).
    """
    attrs = call.attrs
    weights = dict(zip(str(attrs.kernel_layout), static_shape(call.args[1]), strict=True))
    width = static_shape(call.args[0])[str(attrs.data_layout).index("W")]
    kernel, strides = [weights["H"], weights["W"]], to_ints(attrs.strides)
    padding = to_ints(attrs.padding)
    return {
        "layout": str(attrs.data_layout),
        "kernel": kernel,
        "largest_side": max(kernel),
        "strides": strides,
        "stride_height": strides[0],
        "stride_width": strides[1],
        "padding": padding,
        "padding_exceeds_input": max(padding[1::2]) > width,
        "more_padding_behind": [b - a for a, b in zip(padding[:2], padding[2:], strict=True)],
        "width": width,
        "groups": int(attrs.groups),
        "single_channels": 1 < int(attrs.groups) == count_channels(call),
        "dilation": to_ints(attrs.dilation),
        **weight_facts(call, network),
    }


def pooling_facts(call: tvm.ir.Call, _network: FactContext) -> Facts:
    """Return a pooling's facts. Kernel, strides and dilation are (height, width).

    ``plane`` is the number of elements of an image.
    """
    attrs, shape = call.attrs, static_shape(call.args[0])
    layout = str(attrs.layout)
    image = [shape[layout.index("H")], shape[layout.index("W")]]
    return {
        "layout": layout,
        "kernel": to_ints(attrs.pool_size),
        "strides": to_ints(attrs.strides),
        "dilation": to_ints(attrs.dilation),
        "whole_image": "avg" in short_name(call) and to_ints(attrs.pool_size) == image,
        "plane": image[0] * image[1],
        "counts_padding": bool(attrs.count_include_pad) or not any(to_ints(attrs.padding)),
    }


def adaptive_pooling_facts(call: tvm.ir.Call, _network: FactContext) -> Facts:
    """Return facts about an adaptive pooling.

    ``plane`` is the number of elements of an image. ``reduced`` is a text about the windows.
    """
    layout = str(call.attrs.layout)
    before, after = (
        [shape[layout.index(axis)] for axis in "HW"]
        for shape in (static_shape(call.args[0]), static_shape(call))
    )
    return {
        "whole_image": after == [1, 1],
        "plane": before[0] * before[1],
        "reduced": f"windows that make {after} of {before}",
    }


def reduction_facts(call: tvm.ir.Call, network: FactContext) -> Facts:
    """Return the facts of a reduction. ``reduced`` has the reduced axes of the model's tensor.

    ``plane`` is the number of elements of an image, or 0 if no whole image is reduced.
    ``reduced_elements`` is the number of elements that become one element.
    """
    shape = static_shape(call.args[0])
    stated = call.attrs.axis
    axes = list(range(len(shape))) if stated is None else to_ints(stated)
    axes = sorted(axis % len(shape) for axis in axes)
    positions = sorted(network.nchw_position(axis, len(shape)) for axis in axes)
    whole = len(shape) == 4 and positions == [2, 3]
    plane = shape[axes[0]] * shape[axes[1]] if whole else 0
    return {
        "reduced": axes,
        "reduced_positions": positions,
        "keeps_axes": bool(call.attrs.keepdims),
        "whole_image": whole,
        "plane": plane,
        "reduced_elements": prod(shape[axis] for axis in axes),
    }


def axis_facts(call: tvm.ir.Call, network: FactContext) -> Facts:
    keeps = bool(getattr(call.attrs, "keepdims", True))
    return {**locate_axis(call, network), "keeps_axes": keeps}


def resize_facts(call: tvm.ir.Call, _network: FactContext) -> Facts:
    """Return a resize's facts.

    A scale is the length of the output divided by the length of the input.
    """
    layout = str(call.attrs.layout)
    before, after = static_shape(call.args[0]), static_shape(call)
    height, width = (after[layout.index(a)] / before[layout.index(a)] for a in "HW")
    return {
        "layout": layout,
        "scale_height": height,
        "scale_width": width,
        "even_scale": height == width and height % 2 == 0,
        "method": str(call.attrs.method),
        "coordinates": str(call.attrs.coordinate_transformation_mode),
        "rounding": str(call.attrs.rounding_method),
    }


def clip_facts(call: tvm.ir.Call, _network: FactContext) -> Facts:
    low, high = (float(limit.value) for limit in call.args[1:])
    return {"low": low, "high": high, "low_is_positive": low > 0, "high_is_positive": high > 0}


def prelu_facts(call: tvm.ir.Call, network: FactContext) -> Facts:
    return {**axis_facts(call, network), "slopes": constant_or_computed(call.args[1:], network)}


def layer_norm_facts(call: tvm.ir.Call, network: FactContext) -> Facts:
    count = len(static_shape(call.args[0]))
    axes = [axis % count for axis in to_ints(call.attrs.axes)]
    return {
        "normalized": axes,
        "normalized_positions": [network.nchw_position(axis, count) - count for axis in axes],
        "scales": constant_or_computed(call.args[1:], network),
    }


def instance_norm_facts(call: tvm.ir.Call, network: FactContext) -> Facts:
    axis, count = int(call.attrs.channel_axis), len(static_shape(call.args[0]))
    return {
        "channel_axis": axis,
        "channel_position": network.nchw_position(axis, count),
        "scales": constant_or_computed(call.args[1:], network),
    }


def divide_facts(call: tvm.ir.Call, network: FactContext) -> Facts:
    divisor = call.args[1]
    divisor = network.values.get(divisor, divisor) if isinstance(divisor, relax.Var) else divisor
    by_zero = isinstance(divisor, Constant) and not np.all(constant_array(divisor))
    return {**binary_facts(call, network), "divides_by_zero": by_zero}


def power_facts(call: tvm.ir.Call, network: FactContext) -> Facts:
    """Return a power's facts.

    ``exponent`` is a number if the exponent is one constant, else None.
    """
    exponent = call.args[1]
    exponent = (
        network.values.get(exponent, exponent) if isinstance(exponent, relax.Var) else exponent
    )
    stated = constant_array(exponent) if isinstance(exponent, Constant) else np.zeros(0)
    number = float(stated.item()) if stated.size == 1 else None
    return {**binary_facts(call, network), "exponent": number}


def binary_facts(call: tvm.ir.Call, network: FactContext) -> Facts:
    """Return ``other``: a description of the constant operand, or else of the second operand."""
    constant = [is_constant(a, network.values) for a in call.args]
    shapes = [static_shape(a) for a in call.args]
    if not any(constant):
        same = shapes[0] == shapes[1]
        return {"other": "a tensor of the same shape" if same else f"a tensor of {list(shapes[1])}"}
    other = shapes[constant.index(True)]
    count = len(static_shape(call))
    long = [axis for axis, length in enumerate(other, count - len(other)) if length > 1]
    if not long:
        return {"other": "a constant"}
    channel = 1 if count == 4 else count - 1
    by_channel = [network.nchw_position(axis, count) for axis in long] == [channel]
    return {
        "other": "a constant for each channel" if by_channel else f"a constant of {list(other)}"
    }


def bits_of(dtype: str) -> int | None:
    """Return the bits of an element, or None if accelerators do not store the type."""
    known = {"int8": 8, "uint8": 8, "int16": 16, "uint16": 16, "float32": 32}
    return known.get(dtype)


def element_facts(result: relax.Var) -> Facts:
    """Return the type of an operator's result, or of the first result if there are several."""
    several = isinstance(result.ty, relax.TupleType)
    dtype = str(result.ty.fields[0].dtype) if several else dtype_of(result)
    return {"dtype": dtype, "bits": bits_of(dtype)}


def weights_dtype(call: tvm.ir.Call, values: Values) -> str | None:
    """Return the stored type of a convolution's or product's constant weights, or None."""
    kind = kind_of(call)
    if kind not in WEIGHTED_KINDS or not is_constant(call.args[1], values):
        return None
    stored = call.args[1]
    while not isinstance(stored, Constant):
        stored = values[stored] if isinstance(stored, relax.Var) else stored.args[0]
    return dtype_of(stored)


def weight_facts(call: tvm.ir.Call, network: FactContext) -> Facts:
    dtype = weights_dtype(call, network.values)
    known = "computed" if dtype is None else "constant"
    return {"weights": known, "weight_bits": dtype and bits_of(dtype)}


WEIGHTED_KINDS = ("conv2d", "depthwise_conv2d", "conv2d_transpose", "matmul")

FACTS_BY_KIND: Mapping[str, Callable[[tvm.ir.Call, FactContext], Facts]] = {
    **dict.fromkeys(("conv2d", "depthwise_conv2d", "conv2d_transpose"), convolution_facts),
    **dict.fromkeys(("max_pool2d", "avg_pool2d"), pooling_facts),
    "adaptive_avg_pool2d": adaptive_pooling_facts,
    **dict.fromkeys(("mean", "max", "min", "sum"), reduction_facts),
    **dict.fromkeys(("softmax", "concat", "argmax", "argmin"), axis_facts),
    "prelu": prelu_facts,
    "take": take_facts,
    "topk": topk_facts,
    "scatter_elements": scatter_facts,
    "layer_norm": layer_norm_facts,
    "instance_norm": instance_norm_facts,
    "permute_dims": transpose_facts,
    "pad": pad_facts,
    "matmul": weight_facts,
    "strided_slice": slice_facts,
    "resize2d": resize_facts,
    "clip": clip_facts,
    **dict.fromkeys(BINARY_KINDS, binary_facts),
    "divide": divide_facts,
    "power": power_facts,
}
