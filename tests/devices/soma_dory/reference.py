"""A numpy evaluator of networks in shift arithmetic that shares no code with the project.

Sums are int64, so that a sum that exceeds int32 is detected. Shifts round towards minus infinity.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import tvm
from tvm import relax

Array = npt.NDArray[Any]
INT8 = np.dtype("int8")


def evaluated(module: tvm.IRModule, inputs: Mapping[str, Array]) -> list[Array]:
    """Return the outputs of ``main`` for one sample."""
    main = module["main"]
    values: dict[Any, Any] = {p: inputs[str(p.name)] for p in main.params}

    def value(argument: Any) -> Any:
        if isinstance(argument, tvm.ir.GenericConst):
            return np.asarray(argument.value.numpy())
        if isinstance(argument, relax.Tuple):
            return [value(f) for f in argument.fields]
        if isinstance(argument, relax.ShapeExpr):
            return [int(n) for n in argument.values]
        if isinstance(argument, tvm.ir.Call):
            operator = OPERATORS[str(argument.op.name)]
            return operator(argument.attrs, *(value(a) for a in argument.args))
        if isinstance(argument, relax.Var):
            return values[argument]
        return argument.value  # a number

    for block in main.body.blocks:
        for binding in block.bindings:
            values[binding.var] = value(binding.value)
    result = value(main.body.body)
    return result if isinstance(result, list) else [result]


def in_int32(sums: Array) -> Array:
    assert np.abs(sums).max() < 2**31, "a sum leaves int32"
    return sums


def convolution(attributes: Any, x: Array, weights: Array) -> Array:
    """Convolve (1, C, H, W) int8 with (O, C / groups, height, width) int8."""
    assert (x.dtype, weights.dtype, len(x)) == (INT8, INT8, 1)
    top, left, bottom, right = (int(p) for p in attributes.padding)
    padded = np.pad(x[0].astype("int64"), [(0, 0), (top, bottom), (left, right)])
    down, across = (int(s) for s in attributes.strides)
    windows = np.lib.stride_tricks.sliding_window_view(padded, weights.shape[2:], axis=(1, 2))
    windows = windows[:, ::down, ::across]
    groups = int(attributes.groups)
    per_group = len(weights) // groups
    channels = weights.shape[1]
    sums = []
    for group in range(groups):
        seen = windows[group * channels : (group + 1) * channels]
        kernels = weights[group * per_group : (group + 1) * per_group].astype("int64")
        # float64 is exact here, because sums are below 2 ** 53, and much faster than int64.
        sums.append(np.tensordot(kernels.astype("float64"), seen.astype("float64"),
                                 axes=([1, 2, 3], [0, 3, 4])))  # fmt: skip
    return in_int32(np.rint(np.concatenate(sums)).astype("int64")[None])


def product(_: Any, x: Array, weights: Array) -> Array:
    assert (x.dtype, weights.dtype) == (INT8, INT8)
    return in_int32(x.astype("int64") @ weights.astype("int64"))


def maximum(attributes: Any, x: Array) -> Array:
    assert not any(int(p) for p in attributes.padding)
    height, width = (int(n) for n in attributes.pool_size)
    down, across = (int(s) for s in attributes.strides)
    windows = np.lib.stride_tricks.sliding_window_view(x, (height, width), axis=(2, 3))
    largest: Array = windows[:, :, ::down, ::across].max(axis=(4, 5))
    return largest


def softmax(attributes: Any, x: Array) -> Array:
    axis = int(attributes.axis)
    powers = np.exp(x - x.max(axis=axis, keepdims=True))
    result: Array = powers / powers.sum(axis=axis, keepdims=True)
    return result


def quantized(attributes: Any, x: Array, scale: Array, zero_point: Array) -> Array:
    kind = np.iinfo(str(attributes.out_dtype))
    return np.asarray(np.clip(np.rint(x / scale) + zero_point, kind.min, kind.max), kind.dtype)


def cast(attributes: Any, x: Array) -> Array:
    result = x.astype(str(attributes.dtype))
    assert np.array_equal(result, x), "a cast changes a number"
    return result


def summed(attributes: Any, x: Array) -> Array:
    axes = tuple(int(a) for a in attributes.axis)
    return in_int32(x.astype("int64").sum(axis=axes, keepdims=bool(attributes.keepdims)))


OPERATORS: dict[str, Callable[..., Any]] = {
    "relax.nn.conv2d": convolution,
    "relax.matmul": product,
    "relax.nn.max_pool2d": maximum,
    "relax.add": lambda _, a, b: in_int32(a.astype("int64") + b),
    "relax.multiply": lambda _, a, b: in_int32(a.astype("int64") * b),
    "relax.divide": lambda _, a, b: a / b,
    "relax.floor": lambda _, x: np.floor(x),
    "relax.sum": summed,
    "relax.right_shift": lambda _, a, b: np.floor_divide(a, 2 ** b.astype("int64")),
    "relax.clip": lambda _, x, low, high: np.clip(x, int(low), int(high)),
    "relax.astype": cast,
    "relax.reshape": lambda _, x, shape: x.reshape(shape),
    "relax.permute_dims": lambda a, x: x.transpose([int(n) for n in a.axes]),
    "relax.concat": lambda a, tensors: np.concatenate(tensors, axis=int(a.axis)),
    "relax.dequantize": lambda _, x, scale, zero_point: scale * (x.astype("float32") - zero_point),
    "relax.quantize": quantized,
    "relax.nn.softmax": softmax,
}
