"""Estimates the cycles of a layer, even if the layer breaks rules, and suggests changes.

The estimates use the cost model with memories that hold the whole layer.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields, replace
from math import ceil
from typing import Any

import numpy as np

from firmwright.devices.soma_dory.accelerator_layer import AcceleratorLayer
from firmwright.devices.soma_dory.cost import Accelerator, estimate_cycles
from firmwright.devices.soma_dory.geometry import generate_forms
from firmwright.devices.soma_dory.matching import find_layers, make_layer
from firmwright.devices.soma_dory.rules import check_layer
from firmwright.devices.soma_dory.tiles import Tile
from firmwright.ir.layer import LayerGeometry, LayerKind
from firmwright.ir.nodes import Call, Function
from firmwright.ir.operators import short_name
from firmwright.ir.regions import Change, RuleViolation, Suggestion
from firmwright.ir.relax import static_shape
from firmwright.lowering.integer_layers import (
    CHANNELS_FIRST,
    describe_convolution,
    describe_product,
)

SIDES = ("pad_top", "pad_left", "pad_bottom", "pad_right")
"""The names of a layer's padding in the rules, in the order of the padding."""
GEOMETRY = (*SIDES, "strides", "kernel_height", "kernel_width")
"""The names of the values of a convolution's geometry in the rules."""
MAX_CHANGES = 9
"""The maximum number of rules that changes fulfill one after the other."""


def estimate_untiled_cycles(layer: AcceleratorLayer, accelerator: Accelerator) -> int:
    """Return the cycles of a layer for memories that hold the whole layer."""
    tile = Tile(layer.out_channels, layer.out_height, layer.out_width)
    return estimate_cycles(layer, tile, accelerator).total


def estimate_function(
    function: Function, numbers: Mapping[str, Any], changes: Sequence[Change]
) -> int | None:
    """Return the cycles of a region's function after ``changes``, or None if it is not a layer
    then."""
    layer = read_any_layer(function)
    if layer is None:
        return None
    for change in changes:
        layer = apply_change(layer, change)
    accepted = find_accepted(layer, numbers)
    if accepted is None:
        return None
    return estimate_untiled_cycles(accepted, Accelerator.from_numbers(numbers))


def find_accepted(layer: AcceleratorLayer, numbers: Mapping[str, Any]) -> AcceleratorLayer | None:
    """Return the first form of a layer that the accelerator accepts, or None."""
    forms = [layer]
    if layer.kind in (LayerKind.CONV2D, LayerKind.DEPTHWISE_CONV2D):
        forms += [form.layer for form in generate_forms(layer)]
    return next((form for form in forms if not check_layer(form, numbers)), None)


def complete_changes(
    function: Function, numbers: Mapping[str, Any], changes: Sequence[Change]
) -> Sequence[Change] | RuleViolation:
    """Return the changes after which the accelerator accepts a function's layer.

    Changes of the geometry are found one after the other, because the kernel limits the padding.
    Returns the rule that no change fulfills if there is one.
    """
    layer = read_any_layer(function)
    if layer is None:
        return changes
    by_fact = {change.fact: change for change in changes if change.fact not in GEOMETRY}
    for _ in range(MAX_CHANGES):
        if find_accepted(layer, numbers) is not None:
            return [*by_fact.values()]
        violation = check_layer(layer, numbers)[0]
        if not violation.changes:
            return violation
        for change in violation.changes:
            first = by_fact.get(change.fact, change)
            by_fact[change.fact] = replace(change, found=first.found)
            layer = apply_change(layer, change)
    return violation


def read_any_layer(function: Function) -> AcceleratorLayer | None:
    """Return the layer of a function, or the geometry of its products if it is not an integer
    layer.

    The result is None for a layer of the analog core, because the core's cycles are unknown.
    """
    matches, unmatched = find_layers(function)
    if len(matches) == 1:
        return make_layer(matches[0])
    anchors = [u.anchor.value for u in unmatched]
    if len(anchors) != 1 or unmatched[0].is_analog:
        return None
    return read_products(anchors[0])


def read_products(call: Call) -> AcceleratorLayer | None:
    """Return the geometry of a convolution or product of any type, with weights of zero.

    The result is None for other operators.
    """
    sums, weights = None, np.zeros(static_shape(call.args[1]), "int8")
    if short_name(call) == "conv2d" and str(call.attrs.kernel_layout) == "OIHW":
        sums = describe_convolution(call, weights, CHANNELS_FIRST)
    elif short_name(call) == "matmul" and len(static_shape(call.args[0])) == 2:
        sums = describe_product(call, weights)
    if sums is None or sums.kind is LayerKind.GROUPED_CONV2D:
        return None
    return AcceleratorLayer(
        **{field.name: getattr(sums, field.name) for field in fields(LayerGeometry)},
        shift=0,
        relu=False,
        weights=weights.T if sums.kind is LayerKind.DENSE else weights,
        bias=np.zeros(sums.out_channels, "int32"),
    )


def apply_change(layer: AcceleratorLayer, change: Change) -> AcceleratorLayer:
    if change.fact == "strides":
        return resize(replace(layer, strides=tuple(change.wanted)))
    if change.fact in SIDES:
        side = SIDES.index(change.fact)
        top, left, bottom, right = (
            change.wanted if index == side else pad for index, pad in enumerate(layer.padding)
        )
        return resize(replace(layer, padding=(top, left, bottom, right)))
    if change.fact in ("kernel_height", "kernel_width") and layer.weights is not None:
        height, width = layer.kernel
        if change.fact == "kernel_height":
            height = change.wanted
        else:
            width = change.wanted
        weights = np.zeros((*layer.weights.shape[:2], height, width), "int8")
        keeps_size = layer.padding == pad_half(layer.kernel)
        padding = pad_half((height, width)) if keeps_size else layer.padding
        changed = replace(layer, kernel=(height, width), padding=padding, weights=weights)
        return resize(changed)
    return layer


def pad_half(kernel: tuple[int, int]) -> tuple[int, int, int, int]:
    """Return the padding by half of the kernel, which keeps the size of an image."""
    rows, columns = kernel[0] // 2, kernel[1] // 2
    return rows, columns, rows, columns


def resize(layer: AcceleratorLayer) -> AcceleratorLayer:
    """Return the convolution with the output size that follows from kernel, strides and padding."""
    top, left, bottom, right = layer.padding
    height = (layer.height + top + bottom - layer.kernel[0]) // layer.strides[0] + 1
    width = (layer.width + left + right - layer.kernel[1]) // layer.strides[1] + 1
    return replace(layer, out_height=height, out_width=width)


def suggest(function: Function, numbers: Mapping[str, Any]) -> Iterator[Suggestion]:
    """Yield numbers of output channels that fill the accelerator's lanes.

    The numbers are near the current number, and near half of the current number.
    """
    layer = read_any_layer(function)
    accelerator = Accelerator.from_numbers(numbers)
    if layer is None or layer.kind not in (LayerKind.CONV2D, LayerKind.DENSE):
        return
    lanes, now = accelerator.lanes, layer.out_channels
    for channels, shrinks in (
        (round(now / lanes) * lanes, False),
        (ceil(now / 2 / lanes) * lanes, True),
    ):
        if 0 < channels < now:
            fewer = crop_channels(layer, channels)
            change = f"crop output channels {now} → {channels}"
            yield Suggestion(change, estimate_untiled_cycles(fewer, accelerator), shrinks)


def crop_channels(layer: AcceleratorLayer, channels: int) -> AcceleratorLayer:
    assert layer.weights is not None
    assert layer.bias is not None
    return replace(
        layer,
        out_channels=channels,
        weights=layer.weights[:channels],
        bias=layer.bias[:channels],
    )
