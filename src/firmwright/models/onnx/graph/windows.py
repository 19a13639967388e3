"""Rewrites operators on windows of images: pooling with indices, and interpolated samples.

TVM does not support MaxPool with indices, MaxUnpool with output_shape, and DeformConv. TVM's
RoiAlign scales regions too late, and returns the maximum interpolated value instead of the maximum
weighted neighbor. TVM converts ``auto_pad`` to a separate operator, which runs in float32 before a
quantized layer.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from math import prod
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from firmwright.models.onnx.graph.body import copy_node
from firmwright.models.onnx.graph.specialize import NodeBuilder, Nodes, Rewrite

Positions = npt.NDArray[np.int64]


def state_pads(body: NodeBuilder) -> Nodes | None:
    """Replace ``auto_pad`` (SAME_UPPER or SAME_LOWER) with explicit pads."""
    same = body.attribute("auto_pad", "NOTSET")
    shape = body.shape(0)
    kernel = body.attribute("kernel_shape", None)
    if kernel is None and len(body.node.input) > 1:
        kernel = (body.shape(1) or ())[2:]
    if not same.startswith("SAME") or shape is None or not kernel:
        return None
    image = shape[2:]
    strides = body.attribute("strides", [1] * len(image))
    dilations = body.attribute("dilations", [1] * len(image))
    total = [
        max((length - 1) // stride * stride + (taps - 1) * dilation + 1 - length, 0)
        for length, taps, stride, dilation in zip(image, kernel, strides, dilations, strict=True)
    ]
    small, large = [t // 2 for t in total], [t - t // 2 for t in total]
    pads = [*small, *large] if same == "SAME_UPPER" else [*large, *small]
    return [copy_node(body.node, ("auto_pad",), pads=pads)]


def rewrite_lp_pool(body: NodeBuilder) -> Nodes | None:
    """Replace ``ceil_mode`` with pads, because TVM averages incorrectly at the edges.

    TVM divides by the number of pixels inside the image, and multiplies by the number of all pixels
    of the window.
    """
    shape = body.shape(0)
    if shape is None or not body.attribute("ceil_mode", 0):
        return state_pads(body)
    body.walk.infer_types(body.node)
    pooled = body.walk.shape(body.node.output[0])
    if pooled is None:
        return None
    positions = find_window_positions(body, shape[2:], pooled[2:]).reshape(-1, len(shape) - 2)
    begin = np.maximum(-positions.min(axis=0), 0)
    end = np.maximum(positions.max(axis=0) + 1 - shape[2:], 0)
    pads = [*begin.tolist(), *end.tolist()]
    return [copy_node(body.node, ("auto_pad", "ceil_mode"), pads=pads)]


def rewrite_max_pool(body: NodeBuilder) -> Nodes | None:
    """Rewrite a MaxPool with indices as gathered windows, maxima and positions.

    An index is the position in the whole tensor, in row order or (``storage_order``) column order.
    """
    shape = body.shape(0)
    if len(body.node.output) < 2 or not body.node.output[1] or shape is None:
        return state_pads(body)
    body.walk.infer_types(body.node)
    pooled = body.walk.shape(body.node.output[0])
    if pooled is None:
        return None
    image, count = shape[2:], shape[0] * shape[1]
    positions = find_window_positions(body, image, pooled[2:])
    inside = np.all((positions >= 0) & (positions < np.array(image)), axis=-1)
    clipped = tuple(np.where(inside, positions[..., a], 0) for a in range(len(image)))
    table = np.where(inside, np.ravel_multi_index(clipped, image), prod(image))
    stored = table
    if body.attribute("storage_order", 0):
        stored = np.ravel_multi_index(clipped, image, order="F")
    dtype = body.dtype(0)
    flat = body.reshape(body.input(0), [count, -1])
    if not inside.all():
        lowest = -np.inf if dtype.kind != "i" and dtype.kind != "u" else np.iinfo(dtype).min
        outside = body.constant(np.full((count, 1), lowest), dtype)
        flat = body.add("Concat", flat, outside, axis=1)
    windows = body.add("Gather", flat, body.constant(table, "int64"), axis=1)
    largest = body.reduce("ReduceMax", windows, -1)
    best = body.add("ArgMax", windows, axis=2, keepdims=0)
    first = body.constant(np.arange(len(stored)) * stored.shape[1], "int64")
    index = body.add("Gather", body.constant(stored.reshape(-1), "int64"),
                     body.add("Add", best, first), axis=0)  # fmt: skip
    plane = body.constant(np.arange(count)[:, None] * prod(image), "int64")
    index = body.add("Add", index, plane)
    whole = body.constant(pooled, "int64")
    return body.finish(*(body.add("Reshape", r, whole) for r in (largest, index)))


def find_window_positions(
    body: NodeBuilder, image: tuple[int, ...], pooled: tuple[int, ...]
) -> Positions:
    """Return the pixels of each window as constants (results, elements of a window, axes)."""
    axes = len(image)
    kernel = body.attribute("kernel_shape", [])
    strides = body.attribute("strides", [1] * axes)
    dilations = body.attribute("dilations", [1] * axes)
    begin = list(body.attribute("pads", [0] * 2 * axes))[:axes]
    same = body.attribute("auto_pad", "NOTSET")
    if same.startswith("SAME"):
        spans = [(pooled[a] - 1) * strides[a] + (kernel[a] - 1) * dilations[a] + 1
                 for a in range(axes)]  # fmt: skip
        total = [max(span - length, 0) for span, length in zip(spans, image, strict=True)]
        begin = [t // 2 if same == "SAME_UPPER" else t - t // 2 for t in total]
    starts = np.array([*product(*map(range, pooled))]) * strides - begin
    steps = np.array([*product(*map(range, kernel))]) * dilations
    positions: Positions = starts[:, None] + steps
    return positions


def rewrite_max_unpool(body: NodeBuilder) -> Nodes | None:
    """Rewrite a MaxUnpool with output_shape, which appends zeros to the default result."""
    shape = body.shape(0)
    wanted = body.walk.constants.get(body.input(2)) if len(body.node.input) > 2 else None
    if shape is None or wanted is None:
        return None
    kernel = body.attribute("kernel_shape", [])
    strides = body.attribute("strides", [1] * len(kernel))
    pads = body.attribute("pads", [0] * 2 * len(kernel))
    made = [
        (length - 1) * strides[a] + kernel[a] - pads[a] - pads[a + len(kernel)]
        for a, length in enumerate(shape[2:])
    ]
    missing = [int(w) - m for w, m in zip(wanted, [*shape[:2], *made], strict=True)]
    if min(missing) < 0:
        body.refuse_inconsistent(
            f"its output_shape is {wanted.tolist()}; expected at least {made}, the shape that its "
            "windows fill"
        )
    stated = {"kernel_shape": kernel, "strides": strides, "pads": pads}
    result = body.add("MaxUnpool", *body.node.input[:2], **stated)
    ends = [*[0] * len(missing), *missing]
    if body.opset < 11:
        return body.finish(body.add("Pad", result, pads=ends))
    return body.finish(body.add("Pad", result, body.constant(ends, "int64")))


def rewrite_deform_conv(body: NodeBuilder) -> Nodes | None:
    """Rewrite a DeformConv of images as interpolated samples and a product.

    Pixels outside the image are zeros.
    """
    shapes = [body.walk.shape(i) for i in body.node.input[:3]]
    if any(s is None or len(s) != 4 for s in shapes):
        return None
    (batch, channels, *image), (results, _, *kernel), (_, _, *size) = (s or () for s in shapes)
    taps, points = prod(kernel), prod(size)
    groups, moves = (body.attribute(n, 1) for n in ("group", "offset_group"))
    dtype = body.dtype(0)
    stated = NodeBuilder(copy_node(body.node, kernel_shape=kernel), body.walk)
    positions = find_window_positions(stated, tuple(image), tuple(size))
    offset = body.reshape(body.input(2), [batch * moves, taps, 2, points])
    neighbors = []
    for axis in range(2):
        moved = body.add("Gather", offset, body.constant(axis, "int64"), axis=2)
        position = body.add("Add", moved, body.constant(positions[..., axis].T, dtype))
        neighbors.append(add_neighbors(body, dtype, position, image[axis]))
    planes = body.constant(np.arange(batch * moves).reshape(-1, 1, 1) * prod(image), "int64")
    data = body.reshape(body.input(0), [batch * moves, channels // moves, *image])
    total = ""
    for value in add_weighted_pixels(body, data, image, planes, neighbors):
        total = body.add("Add", total, value) if total else value
    bias, mask = [*body.node.input[3:], "", ""][:2]
    if mask:
        total = body.add("Mul", total, body.reshape(mask, [batch * moves, taps, points, 1]))
    depth = channels // groups * taps
    moved = body.add("Transpose", total, perm=[0, 3, 1, 2])
    columns = body.reshape(moved, [batch, groups, depth, points])
    weights = body.reshape(body.input(1), [groups, results // groups, depth])
    result = body.reshape(body.add("MatMul", weights, columns), [batch, results, *size])
    return body.finish(body.add("Add", result, body.reshape(bias, [-1, 1, 1])) if bias else result)


class Neighbors(NamedTuple):
    """The pixels (int64) before and after each sample along an axis, and their weights."""

    pixels: list[str]
    weights: list[str]


def add_neighbors(body: NodeBuilder, dtype: np.dtype[Any], position: str, length: int) -> Neighbors:
    """Append the neighbors of positions along an axis. The weights outside the image are zero."""
    zero, one, last = (body.constant(n, dtype) for n in (0, 1, length - 1))
    low = body.add("Floor", position)
    rest = body.add("Sub", position, low)
    pixels, weights = [], []
    for pixel, weight in ((low, body.add("Sub", one, rest)), (body.add("Add", low, one), rest)):
        inside = body.add("Min", body.add("Max", pixel, zero), last)
        weights.append(body.add("Where", body.add("Equal", inside, pixel), weight, zero))
        pixels.append(body.cast(inside, "int64"))
    return Neighbors(pixels, weights)


def add_weighted_pixels(
    body: NodeBuilder,
    images: str,
    size: Sequence[int],
    first: str,
    neighbors: Sequence[Neighbors],
) -> list[str]:
    """Append the four weighted pixels around each sample. Each result is (…, channels).

    ``images`` is (images, channels, height, width). ``first`` is the index of the first pixel of
    each sample's image. ``neighbors`` contains the neighbors along rows and along columns.
    """
    channels_last = body.add("Transpose", images, perm=[0, 2, 3, 1])
    pixels = body.add("Flatten", channels_last, axis=3)
    width = body.constant(size[1], "int64")
    rows, columns = neighbors
    values = []
    for y, x in product(range(2), range(2)):
        row = body.add("Add", first, body.add("Mul", rows.pixels[y], width))
        value = body.add("Gather", pixels, body.add("Add", row, columns.pixels[x]), axis=0)
        weight = body.add("Mul", rows.weights[y], columns.weights[x])
        values.append(body.add("Mul", value, body.unsqueeze(weight, -1)))
    return values


def rewrite_roi_align(body: NodeBuilder) -> Nodes | None:
    """Rewrite a RoiAlign of mode max, or scale the regions of a RoiAlign of mode avg.

    TVM moves a region by half a pixel before the scaling, but ONNX moves the region after the
    scaling.
    """
    if body.attribute("mode", "avg") == "max":
        return rewrite_roi_max(body)
    scale = body.attribute("spatial_scale", 1.0)
    if scale == 1:
        return None
    regions = body.add("Mul", body.input(1), body.constant(scale, body.dtype(1)))
    stated = body.attributes()
    inputs = [body.input(0), regions, body.input(2)]
    return body.finish(body.add("RoiAlign", *inputs, **stated | {"spatial_scale": 1.0}))


def rewrite_roi_max(body: NodeBuilder) -> Nodes | None:
    """Rewrite a RoiAlign of mode max as the maximum of all weighted neighbors of all samples.

    The weights of samples that are more than one pixel outside the image are zero. Other samples
    outside the image are moved to the edge, as in ONNX's evaluator and ONNX Runtime. Raises
    UserError if the number of samples depends on the regions.
    """
    shape = body.shape(0)
    if shape is None:
        return None
    samples = body.attribute("sampling_ratio", 0)
    if samples <= 0:
        body.refuse(
            "its sampling_ratio is 0, so the number of samples depends on the size of a region; "
            "state a ratio of 1 or more"
        )
    channels, *image = shape[1:]
    sizes = [body.attribute(f"output_{n}", 1) for n in ("height", "width")]
    dtype = body.dtype(0)
    neighbors = []
    for axis, along in enumerate(([0, -1, 1], [0, 1, -1])):
        position = add_region_positions(body, dtype, axis, sizes[axis] * samples)
        position = body.reshape(position, along)
        far, zero, last = (body.constant(n, dtype) for n in (-1, 0, image[axis] - 1))
        inside = body.add("Min", body.add("Max", position, zero), last)
        beyond = body.add("Greater", position, body.constant(image[axis], dtype))
        outside = body.add("Or", body.add("Less", position, far), beyond)
        axis_neighbors = add_neighbors(body, dtype, inside, image[axis])
        weights = [body.add("Where", outside, zero, w) for w in axis_neighbors.weights]
        neighbors.append(Neighbors(axis_neighbors.pixels, weights))
    region = body.cast(body.input(2), "int64")
    first = body.add("Mul", region, body.constant(prod(image), "int64"))
    first = body.reshape(first, [-1, 1, 1])
    values = add_weighted_pixels(body, body.input(0), image, first, neighbors)
    split = [0, sizes[0], samples, sizes[1], samples, channels]
    largest = body.add("Reshape", body.add("Max", *values), body.constant(split, "int64"))
    for axis in (2, 4):
        largest = body.reduce("ReduceMax", largest, axis)
    largest = body.reshape(largest, [-1, *sizes, channels])
    return body.finish(body.add("Transpose", largest, perm=[0, 3, 1, 2]))


def add_region_positions(body: NodeBuilder, dtype: np.dtype[Any], axis: int, count: int) -> str:
    """Append the ``count`` sample positions of each region along an axis: (regions, count)."""
    aligned = body.walk.has_attribute(body.node, "coordinate_transformation_mode") and (
        body.attribute("coordinate_transformation_mode", "half_pixel") == "half_pixel"
    )
    scale = body.constant(body.attribute("spatial_scale", 1.0), dtype)
    ends = []
    for corner in (1 - axis, 3 - axis):
        end = body.add("Gather", body.input(1), body.constant([corner], "int64"), axis=1)
        end = body.add("Mul", end, scale)
        ends.append(body.add("Sub", end, body.constant(0.5, dtype)) if aligned else end)
    extent = body.add("Sub", ends[1], ends[0])
    if not aligned:
        extent = body.add("Max", extent, body.constant(1, dtype))
    parts = body.constant((np.arange(count) + 0.5)[None] / count, dtype)
    return body.add("Add", ends[0], body.add("Mul", extent, parts))


WINDOWS: dict[str, Rewrite] = {
    "AveragePool": state_pads,
    "Conv": state_pads,
    "DeformConv": rewrite_deform_conv,
    "LpPool": rewrite_lp_pool,
    "MaxPool": rewrite_max_pool,
    "MaxUnpool": rewrite_max_unpool,
    "RoiAlign": rewrite_roi_align,
}
