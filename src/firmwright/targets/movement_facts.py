"""Reads facts from operators that move elements, such as slices, pads and gathers."""

from __future__ import annotations

from math import prod

import numpy as np
import tvm
from tvm import relax

from firmwright.ir.relax import Constant, constant_array, static_shape
from firmwright.targets.fact_context import (
    FactContext,
    Facts,
    constant_or_computed,
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
    """Return facts; ``pad_width`` has the elements before and after each axis of the model."""
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
    """Return facts; ``length_before`` counts the elements of the axes before the gathered axis."""
    data, index = call.args
    flat = call.attrs.axis is None
    axis_facts: Facts = {"axis": 0, "place_from_end": 0} if flat else locate_axis(call, network)
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

    ``zeros`` is whether the data is a constant of zeros. ``update_channels`` is the number of
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
    return {"place_of_last": order.index(count - 1), "keeps_batch": order[0] == 0}
