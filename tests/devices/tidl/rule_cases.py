"""For each rule of TIDL, an accepted case at the limit, and the message of a rejected case."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from tvm import relax

from .networks import values

op = relax.op


@dataclass(frozen=True)
class Form:
    """One operator on an input, and the chip whose rules apply."""

    build: Callable[[relax.Var], relax.Expr]
    shape: tuple[int, ...] = (1, 4, 8, 8)
    platform: str = "am62a"
    bits: str = "32"


def conv(
    *kernel: int, shape: tuple[int, ...] = (1, 4, 16, 16), platform: str = "am62a", **a: Any
) -> Form:
    return Form(lambda x: op.nn.conv2d(x, values(6, 4, *kernel), **a), shape, platform)


def depthwise(*kernel: int, **a: Any) -> Form:
    return Form(lambda x: op.nn.conv2d(x, values(4, 1, *kernel), groups=4, **a), (1, 4, 16, 16))


def transposed(*kernel: int, **a: Any) -> Form:
    return Form(lambda x: op.nn.conv2d_transpose(x, values(4, 6, *kernel), **a))


def pool(*window: int, shape: tuple[int, ...] = (1, 4, 8, 8), **a: Any) -> Form:
    return Form(lambda x: op.nn.max_pool2d(x, pool_size=list(window), **a), shape)


def average(*window: int, shape: tuple[int, ...]) -> Form:
    return Form(lambda x: op.nn.avg_pool2d(x, pool_size=list(window)), shape)


def resized(height: int, width: int, **a: str) -> Form:
    chosen = {"method": "linear", "coordinate_transformation_mode": "half_pixel", **a}
    return Form(lambda x: op.image.resize2d(x, (height, width), layout="NCHW", **chosen))


NEAREST = {"method": "nearest_neighbor", "coordinate_transformation_mode": "asymmetric"}


def padded(widths: list[int], **a: Any) -> Form:
    return Form(lambda x: op.nn.pad(x, widths, **a))


def form(
    build: Callable[[relax.Var], relax.Expr], shape: tuple[int, ...] = (1, 4, 8, 8), **a: Any
) -> Form:
    return Form(build, shape, **a)


def sliced(axes: list[int], step: int = 1) -> Form:
    ends, steps = [4] * len(axes), [step] * len(axes)
    return form(lambda x: op.strided_slice(x, axes, [0] * len(axes), ends, steps))


IMAGE = (1, 4, 8, 8)


def taken(indices: list[Any], axis: int, shape: tuple[int, ...] = (1, 1, 8, 8)) -> Form:
    return form(lambda x: op.take(x, relax.const(np.array(indices)), axis), shape)


def scattered(
    channels: int = 1, axis: int = 3, reduction: str = "update", first: float = 0
) -> Form:
    """Return a scatter of three rows, or columns, of updates into zeros or other numbers."""
    base = np.full((1, channels, 4, 4), first, "float32")
    places = np.tile(np.array([0, 3, 1]), (1, channels, 4, 1))
    if axis == 2:
        places = places.swapaxes(2, 3)
    return form(
        lambda x: op.scatter_elements(
            relax.const(base), relax.const(places), x, axis=axis, reduction=reduction
        ),
        places.shape,
    )


CASES: dict[str, tuple[tuple[Form, ...], tuple[tuple[Form, str], ...]]] = {
    "element type": (
        (form(op.nn.relu), form(op.nn.relu, bits="8"), form(op.nn.relu, bits="16")),
        (
            (
                form(lambda x: op.nn.relu(op.astype(x, "int32"))),
                "its results are int32; TIDL supports",
            ),
        ),
    ),
    "axes": (
        (
            form(op.nn.relu, (1, 1, 1, 1, 2, 3)),
            form(lambda x: op.subtract(relax.const(np.float32(1)), x)),
        ),
        ((form(op.nn.relu, (1, 1, 1, 1, 1, 2, 3)), "has 7 axes"),),
    ),
    "batch": (
        (conv(3, 3), conv(3, 3, shape=(4, 4, 16, 16)), form(op.nn.max_pool2d, (4, 4, 8, 8))),
        (
            (
                form(lambda x: op.nn.max_pool2d(op.reshape(x, (4, 1, 8, 8)))),
                "it has 4 samples; TIDL supports 1, the number of the network's inputs",
            ),
        ),
    ),
    "one sample": (
        (form(op.flatten),),
        ((form(op.flatten, (4, 4, 8, 8)), "has 4 samples"),),
    ),
    "image axes": (
        (pool(2, 2), pool(2, 2, layout="NHWC")),
        (
            (
                form(lambda x: op.nn.max_pool2d(op.nn.max_pool2d(x), layout="NHWC")),
                "4 axes in the layout NHWC",
            ),
        ),
    ),
    "axes of more than one element": (
        (form(lambda x: op.matmul(x, values(2, 2)), (2, 1, 2, 2, 2)),),
        ((form(lambda x: op.matmul(x, values(2, 2)), (2, 2, 2, 2, 2)), "has 5 axes of more"),),
    ),
    "weights": (
        (form(lambda x: op.matmul(x, values(4, 2)), (3, 4)),),
        ((form(lambda x: op.matmul(x, op.permute_dims(x)), (3, 4)), "weights are computed"),),
    ),
    "equal strides": (
        (conv(3, 3, strides=[2, 2]),),
        ((conv(3, 3, strides=[1, 2]), "its strides are [1, 2]"),),
    ),
    "strides": (
        (conv(1, 1, strides=[2, 2]),),
        ((conv(1, 1, strides=[5, 5]), "its strides are [5, 5]"),),
    ),
    "stride 2 of a large kernel": (
        (conv(7, 7, strides=[2, 2]), conv(9, 9)),
        ((conv(9, 9, strides=[2, 2]), "its kernel is [9, 9] with stride 2"),),
    ),
    "stride 3": (
        (conv(3, 3, strides=[3, 3], platform="j721e"),),
        (
            (conv(3, 3, strides=[3, 3]), "not on every chip"),
            (conv(5, 5, strides=[3, 3], platform="j721e"), "kernel [5, 5] and stride 3"),
        ),
    ),
    "stride 4": (
        (conv(11, 11, strides=[4, 4]),),
        ((conv(7, 7, strides=[4, 4]), "only for 11 x 11"),),
    ),
    "depthwise kernel": (
        (depthwise(3, 3), depthwise(7, 7, strides=[2, 2])),
        ((depthwise(1, 1), "kernel is [1, 1]"), (depthwise(3, 3, strides=[3, 3]), "[3, 3]")),
    ),
    "padding": (
        (
            conv(3, 9, shape=(1, 4, 8, 4), padding=[1, 4, 1, 4]),
            conv(3, 9, shape=(1, 4, 8, 4), padding=[1, 5, 1, 5], platform="j721s2"),
        ),
        ((conv(3, 9, shape=(1, 4, 8, 4), padding=[1, 5, 1, 5]), "by [1, 5, 1, 5] (top"),),
    ),
    "equal padding": (
        (conv(3, 3, padding=[1, 2, 1, 2]), conv(3, 3, padding=[0, 0, 1, 1], strides=[2, 2])),
        (
            (conv(2, 2, padding=[0, 0, 1, 1]), "pads by [0, 0, 1, 1] (top"),
            (depthwise(3, 3, padding=[1, 2, 1, 1]), "with stride 1 TIDL supports equal padding on"),
        ),
    ),
    "padding of stride 2": (
        (conv(3, 3, padding=[0, 1, 1, 1], strides=[2, 2]),),
        (
            (conv(3, 3, padding=[1, 1, 0, 0], strides=[2, 2]), "or one more after the input"),
            (conv(5, 5, padding=[0, 0, 2, 2], strides=[2, 2]), "pads by [0, 0, 2, 2]"),
        ),
    ),
    "transposed convolution of 16 bits": (
        (
            replace(transposed(2, 2, strides=[2, 2]), platform="j721e", bits="16"),
            replace(transposed(2, 2, strides=[2, 2]), bits="8"),
        ),
        ((replace(transposed(2, 2, strides=[2, 2]), bits="16"), "tensor_bits is 16; this chip"),),
    ),
    "transposed convolution": (
        (transposed(2, 2, strides=[2, 2]), transposed(4, 4, strides=[2, 2])),
        (
            (transposed(3, 3, strides=[2, 2]), "kernel [3, 3]"),
            (transposed(2, 2), "strides [1, 1], 1 groups"),
            (transposed(2, 2, strides=[2, 2], dilation=[2, 2]), "groups and dilation [2, 2]"),
        ),
    ),
    "pooling": (
        (pool(3, 3, strides=[2, 2]), pool(1, 1, strides=[2, 2])),
        ((pool(1, 1, strides=[1, 2]), "[1, 1] with strides [1, 2]"), (pool(4, 4), "is [4, 4]")),
    ),
    "average of an image": (
        (form(lambda x: op.mean(x, [2, 3], True), (1, 4, 32, 32)),),
        (
            (form(lambda x: op.mean(x, [2, 3], True), (1, 4, 32, 33)), "1056 elements"),
            (average(32, 33, shape=(1, 4, 32, 33)), "1056 elements"),
        ),
    ),
    "averaged axes": (
        (form(lambda x: op.nn.adaptive_avg_pool2d(x, [1, 1])),),
        (
            (form(lambda x: op.mean(x, [1])), "averages over [1]"),
            (form(lambda x: op.nn.adaptive_avg_pool2d(x, [2, 2])), "windows that make [2, 2]"),
        ),
    ),
    "softmax axis": (
        (form(lambda x: op.nn.softmax(x, -1)), form(lambda x: op.nn.softmax(x, 2))),
        ((form(lambda x: op.nn.softmax(x, 1)), "along axis 1 of 4"),),
    ),
    "concatenation axis": (
        (form(lambda x: op.concat([x, op.nn.relu(x)], 1)),),
        ((form(lambda x: op.concat([x, op.nn.relu(x)], 0)), "joins along axis 0 of 4"),),
    ),
    "slice": (
        (sliced([2]),),
        (
            (sliced([2, 3]), "slices 2 of 4 axes"),
            (sliced([2], 2), "with strides [2]"),
            (replace(sliced([2]), shape=(1, 1, 8, 8, 8)), "slices 1 of 5 axes"),
        ),
    ),
    "argmax axis": (
        (form(lambda x: op.argmax(x, 1, True)),),
        (
            (form(lambda x: op.argmax(x, 2, True)), "along axis 2 of 4"),
            (form(lambda x: op.argmin(x, 1, False)), "the channel axis, and keeps it"),
        ),
    ),
    "gathered lines": (
        (taken([5, 0, 2], 2), taken([5, 0, 2], 0, (8, 4))),
        (
            (taken([1, 0], 3), "along axis 3 of 4"),
            (taken([5, 0, 2], 2, IMAGE), "4 slices come before this axis. TIDL"),
            (taken([[1, 0]], 2), "by constant indices of 2 axes"),
            (form(lambda x: op.take(values(1, 1, 8, 8), op.argmax(x, 0), 2), (4,)), "by computed"),
        ),
    ),
    "largest elements": (
        (form(lambda x: relax.TupleGetItem(op.topk(x, 3, 2), 0)),),
        (
            (form(lambda x: relax.TupleGetItem(op.topk(x, 3, 1), 0)), "along axis 1 of 4"),
            (form(lambda x: op.topk(x, 3, 2, ret_type="values")), "and returns values"),
        ),
    ),
    "scattered elements": (
        (scattered(),),
        (
            (scattered(axis=2), "along axis 2 of 4"),
            (scattered(reduction="add"), "(add)"),
            (scattered(2), "scatters 2 channels"),
            (scattered(first=1.0), "into zeros: False"),
        ),
    ),
    "resize": (
        (resized(16, 16), resized(32, 32, method="nearest_neighbor")),
        (
            (resized(16, 32), "by 2.0 and 4.0"),
            (resized(24, 24), "by 3.0 and 3.0"),
            (resized(16, 16, coordinate_transformation_mode="align_corners"), "align_corners"),
        ),
    ),
    "interpolation": (
        (resized(16, 16, **NEAREST, rounding_method="floor"),),
        (
            (resized(16, 16, **NEAREST, rounding_method="round"), "rounding: round"),
            (resized(16, 16, coordinate_transformation_mode="asymmetric"), "with linear"),
        ),
    ),
    "clip": (
        (form(lambda x: op.clip(x, -1, 1)),),
        ((form(lambda x: op.clip(x, 1, 2)), "clips to 1.0 and 2.0"),),
    ),
    "reduced axis": (
        (form(lambda x: op.max(x, [2], True)),),
        ((form(lambda x: op.max(x, [1], True)), "reduces axes [1]"),),
    ),
    "operands": (
        (
            form(lambda x: op.add(x, op.nn.relu(x))),
            form(lambda x: op.multiply(x, values(4, 1, 1))),
            form(lambda x: op.add(x, values(1))),
        ),
        (
            (form(lambda x: op.add(x, values(8, 8))), "a constant of [8, 8]"),
            (form(lambda x: op.add(x, op.max(x, [2], True))), "a tensor of [1, 4, 1, 8]"),
            (form(lambda x: op.minimum(x, values(8))), "a constant of [8]"),
        ),
    ),
    "divisor": (
        (form(lambda x: op.divide(x, relax.const(2.0))),),
        ((form(lambda x: op.divide(x, values(4, 1, 1))), "divisor has a zero"),),
    ),
    "exponent": (
        (form(lambda x: op.power(x, relax.const(2.0))),),
        (
            (form(lambda x: op.power(x, values(4, 1, 1))), "a constant for each channel"),
            (form(lambda x: op.power(x, op.nn.relu(x))), "is a tensor of the same shape"),
        ),
    ),
    "slope": (
        (form(lambda x: op.nn.prelu(x, values(4), 1)),),
        (
            (form(lambda x: op.nn.prelu(x, values(8), 3)), "constant, along axis 3 of 4"),
            (form(lambda x: op.nn.prelu(x, op.mean(x, [0, 2, 3]), 1)), "slopes are computed"),
        ),
    ),
    "pad": (
        (padded([0, 0, 0, 0, 1, 1, 2, 2]),),
        (
            (padded([0, 0, 1, 1, 0, 0, 0, 0]), "pads by [0, 0, 1, 1, 0, 0, 0, 0]"),
            (padded([0, 0, 0, 0, 0, 1, 0, 0]), "pads by [0, 0, 0, 0, 0, 1, 0, 0]"),
            (padded([0, 0, 0, 0, 1, 1, 1, 1], pad_value=1.0), "(constant, 1.0)"),
            (padded([0, 0, 0, 0, 1, 1, 1, 1], pad_mode="reflect"), "(reflect, 0.0)"),
        ),
    ),
    "normalized axes": (
        (form(lambda x: op.nn.layer_norm(x, values(8), values(8), [-1])),),
        (
            (form(lambda x: op.nn.layer_norm(x, values(4), values(4), [1])), "axes [1]"),
            (form(lambda x: op.nn.layer_norm(x, op.mean(x, [0, 1, 2]), values(8), [3])), "comp"),
        ),
    ),
    "normalized instances": (
        (form(lambda x: op.nn.instance_norm(x, values(4), values(4), 1, [2, 3])),),
        (
            (form(lambda x: op.nn.instance_norm(x, values(8), values(8), 3, [1, 2])), "axis 3,"),
            (
                form(lambda x: op.nn.instance_norm(x, op.mean(x, [0, 2, 3]), values(4), 1, [2, 3])),
                "and computed scales",
            ),
        ),
    ),
    "transposed axes": (
        (
            form(lambda x: op.permute_dims(x, [0, 2, 4, 3, 1]), (1, 2, 3, 4, 5)),
            form(lambda x: op.permute_dims(x, [3, 2, 1, 0])),
        ),
        (
            (
                form(lambda x: op.permute_dims(x, [0, 4, 1, 2, 3]), (1, 2, 3, 4, 5)),
                "to position 1;",
            ),
            (form(op.permute_dims, (1, 2, 3, 4, 5)), "to position 0;"),
        ),
    ),
    "tanh": (
        (form(op.tanh, platform="j784s4"),),
        ((form(op.tanh), "no lookup tables"),),
    ),
}
