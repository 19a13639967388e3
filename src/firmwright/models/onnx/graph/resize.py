"""Rewrites Resize and Upsample as sums of weighted elements along each axis.

TVM's resize uses the quotient of the sizes instead of the scale. TVM's resize supports neither
antialiasing nor axes, and only some coordinate transformations. A resize is an affine function
along each axis, and the axes are resized one after another. ONNX Runtime's results for the unit
vectors are the weights.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
from onnx import TensorProto, helper, numpy_helper

from firmwright.models.onnx.graph.body import along_axis
from firmwright.models.onnx.graph.sessions import open_session
from firmwright.models.onnx.graph.specialize import NodeBuilder, Nodes, evaluate_node

Array = npt.NDArray[Any]

AXIS_ATTRIBUTES = ("antialias", "coordinate_transformation_mode", "cubic_coeff_a",
                   "exclude_outside", "extrapolation_value", "mode", "nearest_mode")  # fmt: skip


RESIZE_OPSET = 19
"""The opset in which Resize is evaluated.

Resize of this opset has all features of earlier opsets.
"""

EARLY_OPSET = 10
"""The last opset in which Resize has no coordinate transformation mode."""

IR = 9
"""The version of ONNX's format in which ONNX Runtime receives an operator."""
EARLY_MODE = "simple"
"""ONNX Runtime's name of the nearest mode of operators without a ``nearest_mode``."""

WHOLE = (0.0, 1.0)
LARGEST_WHOLE = 1 << 24
"""The limit up to which float32 represents all whole numbers."""

LONGEST = 1 << 14
"""The maximum length of an axis with weighted elements. The weights are a square matrix."""

BLOCK = 1 << 22
"""The number of float32 elements that ONNX Runtime resizes at once."""

CROP = "tf_crop_and_resize"
"""The coordinate transformation mode with regions, and with a value outside the image."""

TVM_COORDINATE_MODES = ("half_pixel", "asymmetric", "align_corners", "pytorch_half_pixel")


@dataclass(frozen=True)
class AxisResize:
    """The resize of an axis.

    ``value`` is the scale or the size. ``parameter`` is ``scales`` or ``sizes``.
    """

    parameter: str
    value: float
    roi: tuple[float, float]
    guide: tuple[int, int] | None = None
    """The length and requested size of the axis whose scale this axis uses, if sizes round up."""


@dataclass(frozen=True)
class AxisMap:
    """An affine function of an axis of ``length`` elements.

    Each result is ``offset`` plus a weighted sum. ``picks`` and ``weights`` are (terms, results).
    """

    length: int
    picks: Array
    weights: Array
    offset: Array


def rewrite_resize(body: NodeBuilder) -> Nodes | None:
    shape = body.shape(0)
    stretches = find_axis_resizes(body, shape) if shape is not None else None
    if shape is None or stretches is None:
        return None
    result, settings = body.input(0), {n: body.attribute(n, None) for n in AXIS_ATTRIBUTES}
    if not body.walk.has_attribute(body.node, "coordinate_transformation_mode"):
        # TVM misreads the inputs of Upsample and of Resize before opset 11 as inputs of later
        # opsets.
        settings |= {"coordinate_transformation_mode": "asymmetric", "nearest_mode": EARLY_MODE}
    elif must_state_sizes(settings, stretches):
        return state_sizes(body, stretches, shape)
    elif is_native_to_tvm(settings, stretches, shape):
        stored = any(
            n.op_type == "DequantizeLinear" and result in n.output for n in body.walk.nodes
        )
        if stored or are_whole(stretches, shape):
            return omit_empty_inputs(body)
    return resize_axes(body, stretches, settings, shape)


def resize_axes(
    body: NodeBuilder,
    stretches: Mapping[int, AxisResize],
    settings: Mapping[str, Any],
    shape: tuple[int, ...],
) -> Nodes | None:
    """Append the affine functions of the axes.

    Return None if neither evaluator accepts the node.
    """
    result = body.input(0)
    dtype = body.walk.dtype(result)
    for axis, stretch in sorted(stretches.items()):
        if is_identity(stretch, shape[axis], settings):
            continue
        if shape[axis] > LONGEST and settings["mode"] not in (None, "nearest"):
            body.refuse(
                f"it interpolates along {shape[axis]} elements; expected at most {LONGEST}: "
                "resize in the nearest mode, or split the axis"
            )
        taps = find_taps(shape[axis], stretch, settings)
        if taps is None:
            return None
        result = add_taps(body, result, along_axis(axis, len(shape)), taps, dtype)
        if not result:
            return None
    return body.finish(result)


def is_identity(stretch: AxisResize, length: int, settings: Mapping[str, Any]) -> bool:
    """Return whether an axis keeps its elements. A crop may move elements."""
    cropped = settings["coordinate_transformation_mode"] == CROP
    return not cropped and not stretch.guide and find_factor(stretch, length) == 1


def must_state_sizes(settings: Mapping[str, Any], stretches: Mapping[int, AxisResize]) -> bool:
    """Return whether the scales are fractional, and positions depend on the size of an axis."""
    aligned = settings["coordinate_transformation_mode"] == "align_corners"
    fractional = any(
        s.parameter == "scales" and not float(s.value).is_integer() for s in stretches.values()
    )
    return aligned and fractional and not settings["antialias"]


def state_sizes(
    body: NodeBuilder,
    stretches: Mapping[int, AxisResize],
    shape: tuple[int, ...],
) -> Nodes:
    """Return the Resize with sizes as its last input.

    TVM computes positions from the scale times the length, for example 4.5. With aligned corners,
    positions depend on the number of result elements, which is 4 in this example.
    """
    sizes = [int(np.float32(s.value) * np.float32(shape[axis])) for axis, s in stretches.items()]
    stated = body.attributes()
    stated.pop("keep_aspect_ratio_policy", None)
    inputs = [body.input(0), "", "", body.constant(sizes, "int64")]
    return body.finish(body.add("Resize", *inputs, **stated))


def omit_empty_inputs(body: NodeBuilder) -> Nodes | None:
    """Remove inputs that are empty constants. Return None if the Resize has no empty input.

    PyTorch exports empty scales in addition to sizes, and TVM accepts only one of these inputs.
    """
    empty = {
        n for n in body.node.input if n in body.walk.constants and not body.walk.constants[n].size
    }
    if not empty:
        return None
    inputs = ["" if name in empty else name for name in body.node.input]
    stated = body.attributes()
    return body.finish(body.add("Resize", *inputs, **stated))


def add_taps(
    body: NodeBuilder, data: str, along: list[int], taps: AxisMap, dtype: np.dtype[Any]
) -> str:
    """Append the affine function of an axis.

    Return an empty name if the function needs weights, but the elements are not floats.
    """
    axis, copies = along.index(-1), len(taps.picks) == 1 and bool((taps.weights == 1).all())
    if copies and not taps.offset.any():
        if np.array_equal(taps.picks[0], np.arange(taps.length)):
            return data
        return body.add("Gather", data, body.constant(taps.picks[0], "int64"), axis=axis)
    if dtype.kind != "f":
        return ""
    return add_weighted_sum(body, data, along, taps, dtype.name)


def find_axis_resizes(body: NodeBuilder, shape: tuple[int, ...]) -> dict[int, AxisResize] | None:
    """Return the resize of each axis. Return None if the resize depends on values at run time."""
    given = dict(zip(body.walk.input_names(body.node), body.node.input, strict=False))
    constants = {k: body.walk.constants[v] for k, v in given.items() if v in body.walk.constants}
    if any(v and k not in constants for k, v in given.items() if k in ("roi", "scales", "sizes")):
        return None
    constants.setdefault("scales", np.array(body.attribute("scales", []), "float32"))
    parameter = "scales" if constants["scales"].size else "sizes"
    values = constants.get(parameter, np.zeros(0))
    axes = [a % len(shape) for a in body.attribute("axes", range(len(shape)))]
    roi = constants.get("roi", np.zeros(0))
    roi = roi if roi.size == 2 * len(axes) else np.repeat([0.0, 1.0], len(axes))
    if values.size != len(axes):
        return None
    if not (np.isfinite(values) & (values > 0)).all():
        body.refuse(f"its {parameter} are {values.tolist()}; expected positive numbers")
    policy = body.attribute("keep_aspect_ratio_policy", "stretch")
    if parameter == "sizes" and policy != "stretch":
        scales = [values[i] / shape[a] for i, a in enumerate(axes)]
        scale = np.float32(min(scales) if policy == "not_larger" else max(scales))
        if any(int(scale * shape[a]) != int(scale * shape[a] + 0.5) for a in axes):
            # A scale cannot express a size that is rounded up.
            first = int(np.argmin(scales) if policy == "not_larger" else np.argmax(scales))
            guide = shape[axes[first]], int(values[first])
            return {a: AxisResize("sizes", values[i], WHOLE, guide) for i, a in enumerate(axes)}
        parameter, values = "scales", np.repeat(scale, len(axes))
    return {
        axis: AxisResize(parameter, values[i], (float(roi[i]), float(roi[i + len(axes)])))
        for i, axis in enumerate(axes)
    }


def is_native_to_tvm(
    settings: Mapping[str, Any], stretches: Mapping[int, AxisResize], shape: tuple[int, ...]
) -> bool:
    """Return whether TVM resizes images correctly, which requires whole factors or given sizes."""
    extents = {axis: find_factor(s, shape[axis]) * shape[axis] for axis, s in stretches.items()}
    sized = settings["mode"] == "linear" and all(
        stretch.parameter == "sizes" or extents[axis].is_integer()
        for axis, stretch in stretches.items()
    )
    sized = sized and all(extents.get(axis, 0) > 1 for axis in (2, 3))  # TVM divides by extent - 1
    return (
        len(shape) == len(stretches) == 4
        and not any(stretch.guide for stretch in stretches.values())
        and all(find_factor(stretches[axis], shape[axis]) == 1 for axis in (0, 1))
        and (sized or are_whole(stretches, shape))
        and settings["mode"] in (None, "nearest", "linear")
        and settings["coordinate_transformation_mode"] in (None, *TVM_COORDINATE_MODES)
        and not settings["antialias"]
    )


def are_whole(stretches: Mapping[int, AxisResize], shape: tuple[int, ...]) -> bool:
    """Return whether each axis is enlarged by a whole number. Other factors need tables."""
    return all(
        find_factor(stretch, shape[axis]).is_integer() for axis, stretch in stretches.items()
    )


def find_factor(stretch: AxisResize, length: int) -> float:
    return float(stretch.value / (1 if stretch.parameter == "scales" else length))


def find_taps(length: int, stretch: AxisResize, settings: Mapping[str, Any]) -> AxisMap | None:
    """Return the affine function of an axis. Return None if neither evaluator accepts the node.

    The unit vectors are resized in blocks, because an axis can have thousands of elements. In the
    nearest mode, the positions of the elements are resized instead.
    """
    cropped = settings["coordinate_transformation_mode"] == CROP
    if settings["mode"] in (None, "nearest") and not cropped and length <= LARGEST_WHOLE:
        line = resize_rows(np.arange(length, dtype="float32")[None], stretch, settings)
        if line is None:
            return None
        return AxisMap(length, line.astype("int64"), np.ones_like(line), np.zeros(line.shape[1]))
    zero = resize_rows(np.zeros((1, length), "float32"), stretch, settings)
    if zero is None:
        return None
    offset = zero[0]
    taps = []
    rows = max(BLOCK // length, 1)
    for first in range(0, length, rows):
        units = np.eye(min(rows, length - first), length, first, "float32")
        images = resize_rows(units, stretch, settings)
        if images is None:
            return None
        weights = images - offset
        element, result = np.nonzero(weights)
        taps.append((element + first, result, weights[element, result]))
    picked, results, weights = (np.concatenate(parts) for parts in zip(*taps, strict=True))
    return arrange_taps(length, offset, picked, results, weights)


def arrange_taps(
    length: int, offset: Array, picked: Array, results: Array, weights: Array
) -> AxisMap:
    """Return terms sorted by result. ``picked``, ``results`` and ``weights`` are lists of terms."""
    order = np.argsort(results, kind="stable")
    picked, results, weights = picked[order], results[order], weights[order]
    count = np.bincount(results, minlength=len(offset))
    number = np.arange(len(results)) - np.repeat(np.cumsum(count) - count, count)
    shape = (max(int(count.max(initial=0)), 1), len(offset))
    taps = AxisMap(length, np.zeros(shape, "int64"), np.zeros(shape, "float32"), offset)
    taps.picks[number, results] = picked
    taps.weights[number, results] = weights
    return taps


def resize_rows(lines: Array, stretch: AxisResize, settings: Mapping[str, Any]) -> Array | None:
    """Resize lines (rows, length). Return None if neither evaluator accepts the node.

    For a guided axis, the lines become planes (rows, length of the guide, length), in which
    elements along the guide are equal.
    """
    data = lines
    if stretch.guide:
        data = np.repeat(lines[:, None], stretch.guide[0], axis=1)
    others = data.shape[:-1]
    if settings["nearest_mode"] == EARLY_MODE and settings["mode"] in (None, "nearest"):
        node = helper.make_node("Resize", ["lines", "value"], ["resized"], mode="nearest")
        values = {"value": np.array([1] * len(others) + [stretch.value], "float32")}
        opset = EARLY_OPSET
    else:
        values, policy = describe_stretch(stretch, others, lines.shape[1])
        known = {n: v for n, v in settings.items() if v not in (None, EARLY_MODE)}
        names = ["roi", "value"] if stretch.parameter == "scales" else ["roi", "", "value"]
        node = helper.make_node("Resize", ["lines", *names], ["resized"], **known, **policy)
        opset = RESIZE_OPSET
    result = evaluate_in_runtime(node, {"lines": data, **values}, opset)
    if result is None:
        given = [data, *values.values()]
        outputs = evaluate_node(node, given, [helper.make_opsetid("", opset)])
        result = None if outputs is None else outputs[0]
    return result if result is None or not stretch.guide else result[:, 0]


def describe_stretch(
    stretch: AxisResize, others: tuple[int, ...], length: int
) -> tuple[dict[str, Array], dict[str, Any]]:
    rank = len(others)
    roi = [*[0.0] * rank, stretch.roi[0], *[1.0] * rank, stretch.roi[1]]
    constants = {"roi": np.array(roi, "float32")}
    if stretch.parameter == "scales":
        return {**constants, "value": np.array([1] * rank + [stretch.value], "float32")}, {}
    if not stretch.guide:
        return {**constants, "value": np.array([*others, stretch.value], "int64")}, {}
    extent, wanted = stretch.guide
    policy = "not_larger" if stretch.value / length > wanted / extent else "not_smaller"
    attributes = {"axes": [1, 2], "keep_aspect_ratio_policy": policy}
    return {
        "roi": np.array([0, 0, 1, 1], "float32"),
        "value": np.array([wanted, stretch.value], "int64"),
    }, attributes


def evaluate_in_runtime(
    node: onnx.NodeProto, values: Mapping[str, Array], opset: int
) -> Array | None:
    """Return the result of a node in ONNX Runtime, or None if the runtime rejects the node."""
    data, constants = next(iter(values)), list(values)[1:]
    graph = helper.make_graph(
        [node],
        "node",
        [helper.make_tensor_value_info(data, TensorProto.FLOAT, values[data].shape)],
        [helper.make_tensor_value_info(node.output[0], TensorProto.FLOAT, None)],
        [numpy_helper.from_array(values[name], name) for name in constants],
    )
    opsets = [helper.make_opsetid("", opset)]
    try:
        session = open_session(helper.make_model(graph, opset_imports=opsets, ir_version=IR))
        result: Array = session.run(None, {data: values[data]})[0]
    except Exception:  # ONNX Runtime's errors have no common base class
        return None
    return result


def add_weighted_sum(
    body: NodeBuilder, data: str, along: list[int], taps: AxisMap, dtype: str
) -> str:
    """Append sums of weighted elements.

    The result with the most terms determines the number of terms.
    """
    axis = along.index(-1)
    total = ""
    for pick, weights in zip(taps.picks, taps.weights, strict=True):
        picked = body.add("Gather", data, body.constant(pick, "int64"), axis=axis)
        term = body.add("Mul", picked, body.constant(weights.reshape(along), dtype))
        total = body.add("Add", total, term) if total else term
    if taps.offset.any():
        total = body.add("Add", total, body.constant(taps.offset.reshape(along), dtype))
    return total
