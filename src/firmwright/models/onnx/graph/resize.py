"""Resize and Upsample as weighted sums of picked elements, one axis after the other.

TVM's resize takes a scale for the quotient of the sizes, and has no antialiasing, no axes and not
all coordinate transformations. Resizing is an affine function along each axis; its weights are
what ONNX's own evaluator makes of the unit vectors.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
from onnx import helper

from firmwright.models.onnx.graph.body import NodeBuilder, along_axis, get_attribute
from firmwright.models.onnx.graph.specialize import Nodes, Specializer, evaluate_node

Array = npt.NDArray[Any]

AXIS_ATTRIBUTES = ("antialias", "coordinate_transformation_mode", "cubic_coeff_a",
                   "exclude_outside", "extrapolation_value", "mode", "nearest_mode")  # fmt: skip


RESIZE_OPSET = 19
"""The opset whose Resize is evaluated; it has what all before it have."""

TVM_COORDINATE_MODES = ("half_pixel", "asymmetric", "align_corners", "pytorch_half_pixel")


@dataclass(frozen=True)
class AxisResize:
    """How one axis is resized: ``parameter`` (of Resize: scales or sizes) is ``value``."""

    parameter: str
    value: float
    roi: tuple[float, float]


def rewrite_resize(node: onnx.NodeProto, walk: Specializer) -> Nodes | None:
    """Rewrite a Resize or Upsample whose scales or sizes are constant."""
    shape, dtype = walk.shape(node.input[0]), walk.dtype(node.input[0])
    stretches = find_axis_resizes(node, walk, shape) if shape is not None else None
    if shape is None or stretches is None:
        return None
    settings = {n: get_attribute(node, n, None) for n in AXIS_ATTRIBUTES}
    if not walk.has_attribute(node, "coordinate_transformation_mode"):
        # Upsample, and Resize before opset 11.
        settings |= {"coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"}
    if node.op_type == "Resize" and is_native_to_tvm(settings, stretches, shape):
        return None
    body = NodeBuilder(node, walk)
    result = node.input[0]
    for axis, stretch in sorted(stretches.items()):
        lines = np.vstack([np.zeros((1, shape[axis])), np.eye(shape[axis])]).astype("float32")
        images = resize_rows(lines, stretch, settings)
        if images is None:
            return None
        offset, weights = images[0], images[1:] - images[0]
        if np.array_equal(weights, np.eye(shape[axis])) and not offset.any():
            continue
        picks = np.argmax(weights, axis=0)
        if np.array_equal(weights, np.eye(shape[axis])[:, picks]) and not offset.any():
            result = body.add("Gather", result, body.constant(picks, "int64"), axis=axis)
        elif dtype.kind != "f":
            return None
        else:
            along = along_axis(axis, len(shape))
            result = add_weighted_sum(body, result, along, weights, offset, dtype.name)
    return body.finish(result)


def find_axis_resizes(
    node: onnx.NodeProto, walk: Specializer, shape: tuple[int, ...]
) -> dict[int, AxisResize] | None:
    """Return what is done to each axis, or None where that depends on run-time values."""
    given = dict(zip(walk.input_names(node), node.input, strict=False))
    constants = {k: walk.constants[v] for k, v in given.items() if v in walk.constants}
    if any(v and k not in constants for k, v in given.items() if k in ("roi", "scales", "sizes")):
        return None
    constants.setdefault("scales", np.array(get_attribute(node, "scales", []), "float32"))
    parameter = "scales" if constants["scales"].size else "sizes"
    values = constants.get(parameter, np.zeros(0))
    axes = [a % len(shape) for a in get_attribute(node, "axes", range(len(shape)))]
    roi = constants.get("roi", np.zeros(0))
    roi = roi if roi.size == 2 * len(axes) else np.repeat([0.0, 1.0], len(axes))
    if values.size != len(axes):
        return None
    policy = get_attribute(node, "keep_aspect_ratio_policy", "stretch")
    if parameter == "sizes" and policy != "stretch":
        scales = [values[i] / shape[a] for i, a in enumerate(axes)]
        scale = np.float32(min(scales) if policy == "not_larger" else max(scales))
        if any(int(scale * shape[a]) != int(scale * shape[a] + 0.5) for a in axes):
            return None  # a size that is rounded up cannot be stated as a scale
        parameter, values = "scales", np.repeat(scale, len(axes))
    return {
        axis: AxisResize(parameter, values[i], (float(roi[i]), float(roi[i + len(axes)])))
        for i, axis in enumerate(axes)
    }


def is_native_to_tvm(
    settings: Mapping[str, Any], stretches: Mapping[int, AxisResize], shape: tuple[int, ...]
) -> bool:
    """Tell what TVM does right: pictures enlarged by whole numbers. That takes no tables."""

    factors = [
        stretch.value / (1 if stretch.parameter == "scales" else shape[axis])
        for axis, stretch in sorted(stretches.items())
    ]
    return (
        len(shape) == len(stretches) == 4
        and factors[:2] == [1.0, 1.0]
        and all(float(f).is_integer() for f in factors)
        and settings["mode"] in (None, "nearest", "linear")
        and settings["coordinate_transformation_mode"] in (None, *TVM_COORDINATE_MODES)
        and not settings["antialias"]
    )


def resize_rows(lines: Array, stretch: AxisResize, settings: Mapping[str, Any]) -> Array | None:
    """Resize lines, given as rows, with ONNX's own evaluator."""
    rows = 1 if stretch.parameter == "scales" else len(lines)
    dtype = "float32" if stretch.parameter == "scales" else "int64"
    roi = np.array([0, stretch.roi[0], 1, stretch.roi[1]], "float32")
    value = np.array([rows, stretch.value], dtype)
    names = ["lines", "roi", "value"] if dtype == "float32" else ["lines", "roi", "", "value"]
    known = {n: v for n, v in settings.items() if v is not None}
    node = helper.make_node("Resize", names, ["resized"], **known)
    results = evaluate_node(node, [lines, roi, value], [helper.make_opsetid("", RESIZE_OPSET)])
    return None if results is None else results[0]


def add_weighted_sum(
    body: NodeBuilder, data: str, along: list[int], weights: Array, offset: Array, dtype: str
) -> str:
    """Add up as many picked and weighted elements as any result needs; ``weights`` is (in, out)."""
    taps = max(int(np.count_nonzero(weights, axis=0).max()), 1)
    picks = np.argsort(weights == 0, axis=0, kind="stable")[:taps]
    axis = along.index(-1)
    total = ""
    for pick in picks:
        factors = weights[pick, np.arange(weights.shape[1])].reshape(along)
        picked = body.add("Gather", data, body.constant(pick, "int64"), axis=axis)
        term = body.add("Mul", picked, body.constant(factors, dtype))
        total = body.add("Add", total, term) if total else term
    if offset.any():
        total = body.add("Add", total, body.constant(offset.reshape(along), dtype))
    return total
