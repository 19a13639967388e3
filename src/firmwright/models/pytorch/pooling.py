"""Imports maxima of windows with their indices, and maxima of windows with different lengths.

TVM's pooling has no indices, and TVM's adaptive pooling supports only equal windows.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np
import torch
import tvm
from tvm import relax, te, tirx

from firmwright.ir.relax import dtype_of, static_shape
from firmwright.ir.tensors import SIXTEEN_BIT_FLOATS
from firmwright.models.pytorch.nodes import Convert, Importer


@dataclass(frozen=True)
class PoolingWindows:
    """The windows of an axis. Each result reads up to ``size`` elements.

    ``parts`` is the number of results of adaptive windows, whose begin and end are fractions. For
    other windows, ``parts`` is 0.
    """

    length: int
    size: int
    step: int = 1
    pad: int = 0
    dilation: int = 1
    parts: int = 0

    def locate(self, result: Any, tap: Any) -> tuple[Any, Any]:
        """Return the index of an element, and whether the element is in the window."""
        if not self.parts:
            index_of = result * self.step - self.pad + tap * self.dilation
            return index_of, tirx.And(index_of >= 0, index_of < self.length)
        index_of = tirx.floordiv(result * self.length, self.parts) + tap
        end = tirx.floordiv((result + 1) * self.length + self.parts - 1, self.parts)
        return index_of, index_of < end


def find_windows(node: torch.fx.Node, image: Sequence[int]) -> list[PoolingWindows]:
    rank = len(image)
    if "adaptive" in str(node.target):
        return [
            PoolingWindows(
                length, max(-(-(i + 1) * length // n) - i * length // n for i in range(n)), parts=n
            )
            for length, n in zip(image, node.args[1], strict=True)
        ]
    kernel, *options = (
        list(option) * (rank // len(option)) if option else [] for option in node.args[1:5]
    )
    strides, pads, dilations = [*options, *[[]] * 3][:3]
    return [
        PoolingWindows(image[a], kernel[a], (strides or kernel)[a], pads[a] if pads else 0,
                dilations[a] if dilations else 1)
        for a in range(rank)
    ]  # fmt: skip


def find_maxima(importer: Importer, node: torch.fx.Node) -> relax.Expr:
    """Import ``max_pool`` and ``adaptive_max_pool``: values, and indices in the image."""
    builder, x = importer.block_builder, importer.env[node.args[0]]
    emit, kind = builder.emit_te, dtype_of(x)
    if kind in SIXTEEN_BIT_FLOATS:
        x = builder.emit(relax.op.astype(x, "float32"))
    values, _ = node.meta["val"]
    shape = [int(n) for n in values.shape]
    rank = 3 if "3d" in str(node.target) else 2
    windows = find_windows(node, static_shape(x)[-rank:])
    largest = emit(lambda data: find_values(data, shape, windows), x)
    positions = emit(lambda data, maxima: find_positions(data, maxima, windows), x, largest)
    if dtype_of(largest) != kind:
        largest = builder.emit(relax.op.astype(largest, kind))
    return builder.emit(relax.Tuple([largest, positions]))


def find_adaptive_maxima(importer: Importer, node: torch.fx.Node) -> relax.Expr:
    """Import ``adaptive_max_pool(x, size)``. Equal windows without indices are plain pooling."""
    x, size = importer.env[node.args[0]], node.args[1]
    image = static_shape(x)[-len(size) :]
    divides = not any(whole % parts for whole, parts in zip(image, size, strict=True))
    if reads_indices(node) or not divides or len(static_shape(x)) != len(size) + 2:
        return find_maxima(importer, node)
    window = [whole // parts for whole, parts in zip(image, size, strict=True)]
    pool = relax.op.nn.max_pool2d if len(size) == 2 else relax.op.nn.max_pool3d
    maxima = importer.block_builder.emit(pool(x, window, window))
    return importer.block_builder.emit(relax.Tuple([maxima, maxima]))


def reads_indices(node: torch.fx.Node) -> bool:
    return any(u.target is operator.getitem and u.args[1] == 1 and u.users for u in node.users)


def make_taps(windows: Sequence[PoolingWindows]) -> list[Any]:
    return [te.reduce_axis((0, w.size), f"tap_{i}") for i, w in enumerate(windows)]


def read_taps(
    data: te.Tensor, index: Sequence[Any], windows: Sequence[PoolingWindows], taps: Sequence[Any]
) -> tuple[Any, Any, Any]:
    """Return an element of a window, whether the element exists, and its position."""
    first = len(index) - len(windows)
    pairs = [w.locate(i, tap.var) for w, i, tap in zip(windows, index[first:], taps, strict=True)]
    inside = tirx.all(*(is_inside for _, is_inside in pairs))
    start = tirx.const(lowest_of(str(data.dtype)), str(data.dtype))
    positions = [index_of for index_of, _ in pairs]
    value = tirx.if_then_else(inside, data(*index[:first], *positions), start)
    position = positions[0]
    for index_of, w in zip(positions[1:], windows[1:], strict=True):
        position = position * w.length + index_of
    return value, inside, position


def find_values(
    data: te.Tensor, shape: Sequence[int], windows: Sequence[PoolingWindows]
) -> te.Tensor:
    taps = make_taps(windows)
    return te.compute(
        shape, lambda *index: te.max(read_taps(data, index, windows, taps)[0], taps), "largest"
    )


def find_positions(
    data: te.Tensor, maxima: te.Tensor, windows: Sequence[PoolingWindows]
) -> te.Tensor:
    """Return the position of each maximum in the image: the first one, or for NaN the last one."""
    taps, last = make_taps(windows), prod(w.length for w in windows) - 1

    def element(*index: Any) -> Any:
        value, inside, position = read_taps(data, index, windows, taps)
        chosen = tirx.And(inside, value == maxima(*index))
        index_of = tirx.Select(chosen, tirx.Cast("int64", position), tirx.const(last, "int64"))
        return te.min(index_of, taps)

    return te.compute(maxima.shape, element, "place")


def lowest_of(dtype: str) -> float:
    return -np.inf if "float" in dtype else tvm.tirx.min_value(dtype).value


POOLING: dict[str, Convert] = {
    "adaptive_max_pool2d.default": find_adaptive_maxima,
    "adaptive_max_pool3d.default": find_adaptive_maxima,
}
