"""The inputs that each result of a convolution or matrix product is a sum of, as plain matrices."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import onnx

Array = npt.NDArray[Any]


def read_attributes(node: onnx.NodeProto) -> dict[str, Any]:
    return {a.name: onnx.helper.get_attribute_value(a) for a in node.attribute}


def weights_to_rows(node: onnx.NodeProto, weights: Array) -> Array:
    """Return weights as (groups, channels of a group, K): a result is a row times its inputs."""
    if node.op_type == "Conv":
        groups = read_attributes(node).get("group", 1)
        return weights.reshape(groups, len(weights) // groups, -1).copy()
    return (weights if is_transposed(node) else weights.T)[None].copy()


def rows_to_weights(node: onnx.NodeProto, rows: Array, shape: tuple[int, ...]) -> Array:
    """Undo :func:`weights_to_rows`."""
    if node.op_type == "Conv":
        return rows.reshape(shape)
    return np.ascontiguousarray(rows[0] if is_transposed(node) else rows[0].T)


def is_transposed(node: onnx.NodeProto) -> bool:
    """Tell whether the second operand of a product is (channels, K)."""
    return bool(read_attributes(node).get("transB", 0))


def im2col(node: onnx.NodeProto, x: Array, weights: tuple[int, ...]) -> Array:
    """Return what each result reads of ``x``, (groups, K, results of one channel).

    ``weights`` is the weights' shape; x is (N, C, …) for a convolution.
    """
    if node.op_type != "Conv":
        across = read_attributes(node).get("transA", 0)
        return (x if across else np.moveaxis(x, -1, 0).reshape(x.shape[-1], -1))[None]
    given = read_attributes(node)
    kernel, axes = weights[2:], range(2, x.ndim)
    dilations = given.get("dilations", [1] * len(kernel))
    strides = given.get("strides", [1] * len(kernel))
    reach = [(k - 1) * d + 1 for k, d in zip(kernel, dilations, strict=True)]
    x = np.pad(x, [(0, 0), (0, 0), *read_paddings(given, x.shape[2:], reach, strides)])
    windows = np.lib.stride_tricks.sliding_window_view(x, reach, axis=tuple(axes))
    steps = [slice(None, None, s) for s in strides] + [slice(None, None, d) for d in dilations]
    windows = windows[(slice(None), slice(None), *steps)]
    # (N, C, positions …, taps …) -> (C, taps …, N, positions …)
    count = len(kernel)
    order = [1, *range(2 + count, 2 + 2 * count), 0, *range(2, 2 + count)]
    groups = given.get("group", 1)
    taps = weights[1] * int(np.prod(kernel))
    return windows.transpose(order).reshape(groups, taps, -1)


def read_paddings(
    given: dict[str, Any], image: tuple[int, ...], reach: list[int], strides: list[int]
) -> list[tuple[int, int]]:
    """Return the zeros before and behind each axis of the image."""
    count = len(image)
    kind = given.get("auto_pad", b"NOTSET")
    if not kind.startswith(b"SAME"):
        pads = given.get("pads", [0] * 2 * count) if kind == b"NOTSET" else [0] * 2 * count
        return list(zip(pads[:count], pads[count:], strict=True))
    missing = [
        max((-(-size // step) - 1) * step + wide - size, 0)
        for size, step, wide in zip(image, strides, reach, strict=True)
    ]
    halves = [(total // 2, total - total // 2) for total in missing]
    return halves if kind == b"SAME_UPPER" else [(b, a) for a, b in halves]
