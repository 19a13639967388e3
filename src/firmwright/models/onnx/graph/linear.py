"""Operators that are linear: sums of weighted elements, products with a constant matrix.

TVM's resize takes a scale for the quotient of the sizes, and has no antialiasing, no axes and not
all coordinate transformations; it has no DFT, no STFT and no Col2Im. Resizes and DFTs are affine
along each axis, which are taken one after the other; their weights are what ONNX's own evaluator
makes of the unit vectors.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
from onnx import TensorProto, helper

from firmwright.models.onnx.graph.body import NodeBuilder, along_axis, get_attribute
from firmwright.models.onnx.graph.specialize import Nodes, Specializer, evaluate_node

Array = npt.NDArray[Any]

AXIS_ATTRIBUTES = ("antialias", "coordinate_transformation_mode", "cubic_coeff_a",
                   "exclude_outside", "extrapolation_value", "mode", "nearest_mode")  # fmt: skip


RESIZE_OPSET = 19
"""The opset whose Resize is evaluated; it has what all before it have."""

LARGEST_DENOMINATOR = 4096
"""That of the fractions that scales may stand for; sizes in firmware are smaller."""

EARLY_MODE = "simple"
"""The nearest mode of an operator that has no such attribute, as ONNX Runtime calls it."""

WHOLE = (0.0, 1.0)
"""The region that is an axis as a whole."""

TVM_COORDINATE_MODES = ("half_pixel", "asymmetric", "align_corners", "pytorch_half_pixel")


@dataclass(frozen=True)
class AxisResize:
    """How one axis is resized: ``parameter`` (of Resize: scales or sizes) is ``value``."""

    parameter: str
    value: float
    roi: tuple[float, float]
    guide: tuple[int, int] | None = None
    """Length and wanted size of the axis whose scale this one takes, where sizes are rounded up."""


def rewrite_resize(node: onnx.NodeProto, walk: Specializer) -> Nodes | None:
    """Rewrite a Resize or Upsample whose scales or sizes are constant."""
    shape = walk.shape(node.input[0])
    stretches = find_axis_resizes(node, walk, shape) if shape is not None else None
    if shape is None or stretches is None:
        return None
    result, settings = node.input[0], {n: get_attribute(node, n, None) for n in AXIS_ATTRIBUTES}
    if not walk.has_attribute(node, "coordinate_transformation_mode"):
        # Upsample, and Resize before opset 11, whose inputs TVM takes for those of later ones.
        settings |= {"coordinate_transformation_mode": "asymmetric", "nearest_mode": EARLY_MODE}
    elif is_native_to_tvm(settings, stretches, shape):
        stored = any(n.op_type == "DequantizeLinear" and result in n.output for n in walk.nodes)
        if stored or are_whole(stretches, shape):
            return None
    body, dtype = NodeBuilder(node, walk), walk.dtype(result)
    for axis, stretch in sorted(stretches.items()):
        lines = np.vstack([np.zeros((1, shape[axis])), np.eye(shape[axis])]).astype("float32")
        images = resize_rows(lines, stretch, settings)
        if images is None:
            return None
        along = along_axis(axis, len(shape))
        result = add_images(body, result, along, images, dtype)
        if not result:
            return None
    return body.finish(result)


def add_images(
    body: NodeBuilder, data: str, along: list[int], images: Array, dtype: np.dtype[Any]
) -> str:
    """Append an axis's affine function, given as what becomes of zero and of the unit vectors.

    Return an empty name where that weighs elements which are no floats.
    """
    units = np.eye(len(images) - 1)
    offset, weights = images[0], images[1:] - images[0]
    if np.array_equal(weights, units) and not offset.any():
        return data
    picks = np.argmax(weights, axis=0)
    if np.array_equal(weights, units[:, picks]) and not offset.any():
        return body.add("Gather", data, body.constant(picks, "int64"), axis=along.index(-1))
    if dtype.kind != "f":
        return ""
    return add_weighted_sum(body, data, along, weights, offset, dtype.name)


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
            # A size that is rounded up cannot be stated as a scale.
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
    """Tell what TVM does right: pictures enlarged by whole numbers, or weighed by their sizes."""
    extents = {axis: find_factor(s, shape[axis]) * shape[axis] for axis, s in stretches.items()}
    sized = settings["mode"] == "linear" and all(
        stretch.parameter == "sizes" or extents[axis].is_integer()
        for axis, stretch in stretches.items()
    )
    sized = sized and all(extents.get(axis, 0) > 1 for axis in (2, 3))  # it divides by that less 1
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
    """Tell whether every axis is enlarged by a whole number: in floats, others take tables."""
    return all(
        find_factor(stretch, shape[axis]).is_integer() for axis, stretch in stretches.items()
    )


def find_factor(stretch: AxisResize, length: int) -> float:
    return float(stretch.value / (1 if stretch.parameter == "scales" else length))


def resize_rows(lines: Array, stretch: AxisResize, settings: Mapping[str, Any]) -> Array | None:
    """Resize lines, given as rows, with ONNX's own evaluator."""
    if settings["nearest_mode"] == EARLY_MODE and settings["mode"] in (None, "nearest"):
        return pick_early_rows(lines, stretch.value)
    if stretch.guide:
        return resize_guided_rows(lines, stretch.value, stretch.guide, settings)
    roi = np.array([0, stretch.roi[0], 1, stretch.roi[1]], "float32")
    if stretch.parameter == "scales":
        names, value = ["value"], np.array([1, settle_scale(stretch.value, lines.shape[1])])
    else:
        names, value = ["", "value"], np.array([len(lines), stretch.value], "int64")
    known = {n: v for n, v in settings.items() if v not in (None, EARLY_MODE)}
    node = helper.make_node("Resize", ["lines", "roi", *names], ["resized"], **known)
    results = evaluate_node(node, [lines, roi, value], [helper.make_opsetid("", RESIZE_OPSET)])
    return None if results is None else results[0]


def settle_scale(scale: float, length: int) -> float:
    """Return a scale by which ONNX's evaluator places the elements as ONNX Runtime does.

    The evaluator multiplies in double precision, ONNX Runtime in single precision: there seven
    twelfths of 12, say, are 7 and not just below. So the scale is a fraction if it is one in
    single precision, and another where it would not make as many elements.
    """
    fraction = float(Fraction(float(scale)).limit_denominator(LARGEST_DENOMINATOR))
    size = count_scaled(scale, length)
    candidates = [fraction] if np.float32(fraction) == np.float32(scale) else []
    candidates += [float(scale), size / length, float(np.nextafter(size / length, np.inf))]
    return next(c for c in candidates if int(c * length) == size)


def count_scaled(scale: float, length: int) -> int:
    return int(np.float32(scale) * np.float32(length))


def pick_early_rows(lines: Array, scale: float) -> Array:
    """Pick what ONNX Runtime takes as nearest before opset 11: what is above where lines shrink."""
    length = lines.shape[1]
    places = np.arange(count_scaled(scale, length), dtype="float32") / np.float32(scale)
    picks = (np.ceil if scale < 1 else np.floor)(places).astype("int64")
    return lines[:, np.minimum(picks, length - 1)]


def resize_guided_rows(
    lines: Array, size: float, guide: tuple[int, int], settings: Mapping[str, Any]
) -> Array | None:
    """Resize lines together with an axis whose scale they take: all are the same along that."""
    length, wanted = guide
    planes = np.repeat(lines[:, None], length, axis=1)
    known = {n: v for n, v in settings.items() if v is not None}
    policy = "not_larger" if size / lines.shape[1] > wanted / length else "not_smaller"
    node = helper.make_node("Resize", ["planes", "", "", "sizes"], ["resized"], axes=[1, 2],
                            keep_aspect_ratio_policy=policy, **known)  # fmt: skip
    sizes = np.array([wanted, size], "int64")
    results = evaluate_node(node, [planes, sizes], [helper.make_opsetid("", RESIZE_OPSET)])
    return None if results is None else results[0][:, 0]


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


AXIS_INPUT_OPSET = 20
"""The opset since which DFT's axis is an input; it was an attribute before."""


def rewrite_dft(node: onnx.NodeProto, walk: Specializer) -> Nodes | None:
    """Rewrite a DFT of constant axis and length; the matrix is what ONNX makes of unit vectors.

    The data are (…, length, …, components), components being 1 (real) or 2 (complex). Sums are
    double: most of their terms cancel out.
    """
    shape = walk.shape(node.input[0])
    parameters = [walk.constants.get(i) for i in node.input[1:] if i]
    if shape is None or any(p is None for p in parameters):
        return None
    by_input = walk.opsets[""] >= AXIS_INPUT_OPSET
    length = walk.constants.get(node.input[1]) if len(node.input) > 1 else None
    axis = get_attribute(node, "axis", -2 if by_input else 1)
    if by_input and len(node.input) > 2:
        axis = int(walk.constants[node.input[2]].item())
    axis %= len(shape)
    size = shape[axis] * shape[-1]
    units = np.eye(size).reshape(size, shape[axis], shape[-1])
    settings = {n: get_attribute(node, n, 0) for n in ("inverse", "onesided")}
    names = ["units", "length" if length is not None else "", "axis"]
    values = [units, *([] if length is None else [length]), np.array(1)]
    unit = helper.make_node("DFT", names, ["image"], **settings)
    images = evaluate_node(unit, values, [helper.make_opsetid("", AXIS_INPUT_OPSET)])
    if images is None:
        return None
    image = images[0]
    body = NodeBuilder(node, walk)
    order = [a for a in range(len(shape) - 1) if a != axis] + [axis, len(shape) - 1]
    others = [shape[a] for a in order[:-2]]
    last = body.add("Transpose", node.input[0], perm=order)
    rows = body.add("Reshape", last, body.constant([*others, size], "int64"))
    rows = body.add("Cast", rows, to=TensorProto.DOUBLE)
    matrix = body.constant(image.reshape(size, -1), image.dtype)
    product = body.add("MatMul", rows, matrix)
    product = body.add("Cast", product, to=walk.types[node.input[0]].tensor_type.elem_type)
    result = body.add("Reshape", product, body.constant([*others, *image.shape[1:]], "int64"))
    back = [order.index(a) for a in range(len(shape))]
    return body.finish(body.add("Transpose", result, perm=back))


MAX_ORDER = 32
"""Rows of a matrix whose determinant is computed; each of them becomes code."""


def rewrite_det(node: onnx.NodeProto, walk: Specializer) -> Nodes | None:
    """TVM has no converter for Det: elimination, each step by the row of the largest element.

    A step takes that row's place, scaled, from all others, and leaves a matrix (…, n - 1, n - 1).
    """
    shape = walk.shape(node.input[0])
    if shape is None or shape[-1] > MAX_ORDER:
        return None
    body, dtype = NodeBuilder(node, walk), walk.dtype(node.input[0])
    zero, one = (body.constant(n, dtype) for n in (0, 1))
    batch = body.constant(shape[:-2], "int64")
    rest = body.add("Reshape", node.input[0], body.constant([-1, *shape[-2:]], "int64"))
    result = ""
    for size in range(shape[-1], 0, -1):
        column = body.add("Gather", rest, body.constant([0], "int64"), axis=2)
        place = body.add("ArgMax", body.add("Abs", column), axis=1, keepdims=1)
        rows = body.constant(np.arange(size)[:, None], "int64")
        chosen = body.add("Equal", rows, place)
        row = body.reduce("ReduceSum", body.add("Where", chosen, rest, zero), 1)
        first = body.add("Gather", rest, body.constant([0], "int64"), axis=1)
        others = body.add("Where", chosen, first, rest)
        pivot, row = (cut(body, row, 2, *ends) for ends in ((0, 1), (1, size)))
        stays = body.add("Equal", place, body.constant(0, "int64"))
        signed = body.add("Where", stays, pivot, body.add("Neg", pivot))
        result = body.add("Mul", result, signed) if result else signed
        if size > 1:
            others = cut(body, others, 1, 1, size)
            column, others = (cut(body, others, 2, *ends) for ends in ((0, 1), (1, size)))
            divisor = body.add("Where", body.add("Equal", pivot, zero), one, pivot)
            factor = body.add("Div", column, divisor)
            rest = body.add("Sub", others, body.add("Mul", factor, row))
    return body.finish(body.add("Reshape", result, batch))


def cut(body: NodeBuilder, name: str, axis: int, first: int, end: int) -> str:
    """Append a part of a tensor along an axis."""
    places = (body.constant([n], "int64") for n in (first, end, axis))
    return body.add("Slice", name, *places)


def rewrite_stft(node: onnx.NodeProto, walk: Specializer) -> Nodes | None:
    """Rewrite an STFT of constant step and length: its frames, windowed, and a DFT of each."""
    shape = walk.shape(node.input[0])
    step, window, length = [*node.input[1:], "", ""][:3]
    sizes = walk.shape(window) if window else None
    if shape is None or step not in walk.constants:
        return None
    if length in walk.constants:
        width = int(walk.constants[length].item())
    elif sizes is not None:
        width = sizes[0]
    else:
        return None
    hop = int(walk.constants[step].item())
    starts = np.arange((shape[1] - width) // hop + 1) * hop
    body = NodeBuilder(node, walk)
    places = body.constant(starts[:, None] + np.arange(width), "int64")
    frames = body.add("Gather", node.input[0], places, axis=1)
    if window:
        frames = body.add(
            "Mul", frames, body.add("Reshape", window, body.constant([-1, 1], "int64"))
        )
    onesided = get_attribute(node, "onesided", 1)
    if body.opset >= AXIS_INPUT_OPSET:
        axis = body.constant(2, "int64")
        return body.finish(body.add("DFT", frames, "", axis, onesided=onesided))
    return body.finish(body.add("DFT", frames, axis=2, onesided=onesided))


def rewrite_col2im(node: onnx.NodeProto, walk: Specializer) -> Nodes | None:
    """TVM has no converter for Col2Im: a transposed convolution whose kernels are one element each.

    The columns (N, C · block, L) become images (N · C, block, ...) of as many pixels as there are
    blocks along each axis; kernel i moves channel i to its place in the block.
    """
    shape = walk.shape(node.input[0])
    sizes = [walk.constants.get(i) for i in node.input[1:3]]
    if shape is None or any(s is None for s in sizes):
        return None
    image, block = ([int(n) for n in np.asarray(s)] for s in sizes)
    axes = len(image)
    strides = get_attribute(node, "strides", [1] * axes)
    dilations = get_attribute(node, "dilations", [1] * axes)
    pads = get_attribute(node, "pads", [0] * 2 * axes)
    moved = [image[i] + pads[i] + pads[i + axes] - dilations[i] * (block[i] - 1) - 1
             for i in range(axes)]  # fmt: skip
    blocks = [m // s + 1 for m, s in zip(moved, strides, strict=True)]
    elements = int(np.prod(block))
    body = NodeBuilder(node, walk)
    columns = body.constant([-1, elements, *blocks], "int64")
    kernel = np.eye(elements).reshape(elements, 1, *block)
    images = body.add(
        "ConvTranspose",
        body.add("Reshape", node.input[0], columns),
        body.constant(kernel, walk.dtype(node.input[0])),
        strides=strides,
        dilations=dilations,
        pads=pads,
        output_padding=[m % s for m, s in zip(moved, strides, strict=True)],
    )
    result = body.constant([shape[0], shape[1] // elements, *image], "int64")
    return body.finish(body.add("Reshape", images, result))
