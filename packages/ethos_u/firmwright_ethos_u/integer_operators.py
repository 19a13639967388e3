"""Writes operators on integers as operators of a TFLite file."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from firmwright.device import static_shape
from firmwright_ethos_u.flatbuffer import NetworkWriter
from firmwright_ethos_u.layers import Layer

Writer = Callable[[NetworkWriter, Layer, Sequence[int], int], None]


def add_integers(writer: NetworkWriter, values: Any) -> int:
    return writer.constant(np.array(values, np.int32))


def result_shape(layer: Layer) -> list[int]:
    return [*static_shape(layer.result.value)]


def write_reshape(writer: NetworkWriter, layer: Layer, sources: Sequence[int], target: int) -> None:
    shape = result_shape(layer)
    operands = [*sources, add_integers(writer, shape)]
    writer.operator("RESHAPE", operands, [target], "ReshapeOptions", newShape=shape)


def write_transpose(
    writer: NetworkWriter, layer: Layer, sources: Sequence[int], target: int
) -> None:
    axes = add_integers(writer, [int(axis) for axis in layer.attributes.axes])
    writer.operator("TRANSPOSE", [*sources, axes], [target], "TransposeOptions")


def write_slice(writer: NetworkWriter, layer: Layer, sources: Sequence[int], target: int) -> None:
    """Add a slice with steps. The call may name only some axes."""
    shape = static_shape(layer.operands[0].value)
    first, last, step = [0] * len(shape), [*shape], [1] * len(shape)
    axes, *bounds = [[int(v.value) for v in part.fields] for part in layer.call.args[1:]]
    for limits, values in zip((first, last, step), bounds, strict=False):
        for axis, value in zip(axes, values, strict=True):
            limits[axis] = value
    operands = [*sources, *(add_integers(writer, limits) for limits in (first, last, step))]
    writer.operator("STRIDED_SLICE", operands, [target], "StridedSliceOptions")


def write_concat(writer: NetworkWriter, layer: Layer, sources: Sequence[int], target: int) -> None:
    options = {"axis": int(layer.attributes.axis)}
    writer.operator("CONCATENATION", sources, [target], "ConcatenationOptions", **options)


def write_pad(writer: NetworkWriter, layer: Layer, sources: Sequence[int], target: int) -> None:
    """Add a padding with zeros, which are stored as the zero point."""
    widths = np.array([int(width) for width in layer.attributes.pad_width]).reshape(-1, 2)
    writer.operator("PAD", [*sources, add_integers(writer, widths)], [target], "PadOptions")


def write_enlarged(
    writer: NetworkWriter, layer: Layer, sources: Sequence[int], target: int
) -> None:
    """Add a nearest-neighbor resize."""
    size = add_integers(writer, result_shape(layer)[1:3])
    table = "ResizeNearestNeighborOptions"
    writer.operator("RESIZE_NEAREST_NEIGHBOR", [*sources, size], [target], table)


def write_choice(kind: str) -> Writer:
    """Return the writer of a minimum or a maximum of two tensors."""

    def write(writer: NetworkWriter, _: Layer, sources: Sequence[int], target: int) -> None:
        writer.operator(kind, sources, [target], "MaximumMinimumOptions")

    return write


def write_maximum_pooling(
    writer: NetworkWriter, layer: Layer, sources: Sequence[int], target: int
) -> None:
    strides = [int(stride) for stride in layer.attributes.strides]
    options = {"padding": layer.padding, "strideH": strides[0], "strideW": strides[1]}
    options |= {"filterHeight": layer.window[0], "filterWidth": layer.window[1]}
    writer.operator("MAX_POOL_2D", sources, [target], "Pool2DOptions", **options)


def write_clip(writer: NetworkWriter, layer: Layer, sources: Sequence[int], target: int) -> None:
    """Add a maximum and a minimum, which limit the values."""
    low, high = (int(bound.value) for bound in layer.call.args[1:])
    result = layer.result
    parameters = ([float(result.scale.item())], int(result.zero_point.item()))
    between = writer.tensor(result_shape(layer), result.dtype, *parameters)
    shape = [1] * len(result_shape(layer))
    lowest, highest = (
        writer.constant(np.full(shape, v, result.dtype), parameters[0], zero_point=parameters[1])
        for v in (low, high)
    )
    writer.operator("MAXIMUM", [*sources, lowest], [between], "MaximumMinimumOptions")
    writer.operator("MINIMUM", [between, highest], [target], "MaximumMinimumOptions")


INTEGER_WRITERS: dict[str, Writer] = {
    "reshape": write_reshape,
    "expand_dims": write_reshape,
    "squeeze": write_reshape,
    "permute_dims": write_transpose,
    "strided_slice": write_slice,
    "concat": write_concat,
    "pad": write_pad,
    "take": write_enlarged,
    "minimum": write_choice("MINIMUM"),
    "maximum": write_choice("MAXIMUM"),
    "max_pool2d": write_maximum_pooling,
    "clip": write_clip,
}
