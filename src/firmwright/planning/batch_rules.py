"""Finds the batch axis of each operator's result, and rejects operators that mix samples."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from math import prod
from typing import Any

import tvm
from tvm import relax

from firmwright.ir.operators import ELEMENTWISE
from firmwright.ir.relax import operator_name, static_shape


@dataclass(frozen=True)
class BatchedExpr:
    """An expression of the new module and its batch axis.

    ``axis`` is None if all samples share the expression. The axis has ``inner`` elements of the
    first sample, then ``inner`` elements of the second sample, and so on. ``inner`` is above 1 if a
    reshape has merged the batch with the next axis.
    """

    value: relax.Expr
    axis: int | None
    inner: int = 1

    @property
    def rank(self) -> int:
        """Return the number of axes, or 0 for attributes without a shape, such as clip bounds."""
        shape = getattr(self.value.ty, "shape", None)
        return len(shape) if shape is not None else 0

    def length_at(self, position: int) -> int:
        return int(static_shape(self.value)[position]) if self.rank >= -position else 1


class MixedSamplesError(Exception):
    """Reports an operator that computes one sample's result from other samples."""


def rebuild_call(
    call: tvm.ir.Call, arguments: list[BatchedExpr], _axis: int | None = None, _size: int = 1
) -> relax.Expr:
    return tvm.ir.Call(call.op, [a.value for a in arguments], call.attrs, call.ty_args)


FindAxis = Callable[[tvm.ir.Call, list[BatchedExpr]], int]
"""Returns the result's batch axis for the call at batch 1 and its batched arguments."""


@dataclass(frozen=True)
class BatchRule:
    """A rule for operators that keep or move the batch axis.

    ``build`` returns the batched call. Its parameters are the call at batch 1, the batched
    arguments, the result's batch axis and the batch size. If ``takes_merged`` is true, an axis may
    have several elements of a sample.
    """

    operators: str
    find_axis: FindAxis
    build: Callable[[tvm.ir.Call, list[BatchedExpr], int, int], relax.Expr] = rebuild_call
    takes_merged: bool = False

    def apply(self, call: tvm.ir.Call, arguments: list[BatchedExpr], size: int) -> BatchedExpr:
        if not self.takes_merged and any(a.inner > 1 for a in arguments):
            raise MixedSamplesError("reads an axis that a reshape merged with the batch")
        axis = self.find_axis(call, arguments)
        value = self.build(call, arguments, axis, size)
        return BatchedExpr(value, axis, static_shape(call)[axis])


def keep_axis(problem: str, touched: Callable[[tvm.ir.Call], Iterable[int]]) -> FindAxis:
    """Return a rule that keeps the batch axis and rejects ``touched`` batch axes."""

    def find_axis(call: tvm.ir.Call, arguments: list[BatchedExpr]) -> int:
        axis, rank = arguments[0].axis or 0, len(static_shape(call))
        if axis in {int(a) % rank for a in touched(call)}:
            raise MixedSamplesError(problem)
        return axis

    return find_axis


def list_axes(call: tvm.ir.Call) -> Iterable[int]:
    return getattr(call.attrs, "axes", None) or [call.attrs.axis or 0]


def list_sliced_axes(call: tvm.ir.Call) -> Iterable[int]:
    return [axis.value for axis in call.args[1].fields]


def list_padded_axes(call: tvm.ir.Call) -> Iterable[int]:
    return [i // 2 for i, width in enumerate(call.attrs.pad_width) if int(width)]


def find_positions(call: tvm.ir.Call, arguments: list[BatchedExpr]) -> set[tuple[int, int]]:
    """Return the positions of the arguments' batch axes in the result.

    The arguments are aligned at the last axis.
    """
    rank = len(static_shape(call))
    return {(rank - a.rank + a.axis, a.inner) for a in arguments if a.axis is not None}


def refuse_spread(arguments: list[BatchedExpr], position: int) -> None:
    """Raise MixedSamplesError if a shared tensor is longer than 1 along the batch axis."""
    if any(a.axis is None and a.length_at(position) > 1 for a in arguments):
        raise MixedSamplesError("spreads a tensor along the batch axis")


def elementwise_axis(call: tvm.ir.Call, arguments: list[BatchedExpr]) -> int:
    """Return the batch axis of a broadcast result, whose axes are aligned at the end.

    A shared tensor must have length 1 along the batch axis.
    """
    positions, rank = find_positions(call, arguments), len(static_shape(call))
    if len(positions) > 1:
        raise MixedSamplesError("combines tensors whose batch axes differ")
    ((axis, _),) = positions
    refuse_spread(arguments, axis - rank)
    if operator_name(call) in ("relax.quantize", "relax.dequantize"):
        channels = max(prod(static_shape(a)) for a in call.args[1:])
        if channels > 1 and int(call.attrs.axis) % rank == axis:
            raise MixedSamplesError("has a scale for each sample")
    return axis


def window_axis(call: tvm.ir.Call, arguments: list[BatchedExpr]) -> int:
    """Return the axis ``N`` of the layout of a convolution, pooling or resize."""
    layout = str(getattr(call.attrs, "data_layout", "") or call.attrs.layout)
    if any(a.axis is not None for a in arguments[1:]):
        raise MixedSamplesError("has weights that depend on the sample")
    if arguments[0].axis != layout.index("N"):
        raise MixedSamplesError(
            f"reads the batch axis as axis {layout[arguments[0].axis or 0]} of {layout}"
        )
    return (str(getattr(call.attrs, "out_layout", "")) or layout).index("N")


def matmul_axis(call: tvm.ir.Call, arguments: list[BatchedExpr]) -> int:
    left, right = arguments
    rank = len(static_shape(call))
    for argument, summed in ((left, -1), (right, -2)):
        if argument.axis == (argument.rank + summed if argument.rank > 1 else 0):
            raise MixedSamplesError("sums over the batch axis")
    positions = find_positions(call, arguments)
    axis, _ = max(positions)
    if right.axis is not None and (len(positions) > 1 or axis >= rank - 2):
        raise MixedSamplesError("multiplies each sample by every other sample")
    if axis < rank - 2:
        refuse_spread(arguments, axis - rank)
    return axis


def reduction_axis(call: tvm.ir.Call, arguments: list[BatchedExpr]) -> int:
    axis, rank = arguments[0].axis or 0, arguments[0].rank
    given = range(rank) if call.attrs.axis is None else call.attrs.axis
    reduced = {int(a) % rank for a in ([given] if isinstance(given, int) else given)}
    if axis in reduced:
        raise MixedSamplesError("reduces over the batch axis")
    return axis if call.attrs.keepdims else axis - sum(a < axis for a in reduced)


def reshape_axis(call: tvm.ir.Call, arguments: list[BatchedExpr]) -> int:
    """Return the axis of the result that has as many elements before it as the batch axis had.

    An axis of length 1 is preferred. In any other axis, the samples are the outer dimension.
    """
    axis = arguments[0].axis or 0
    before = prod(static_shape(call.args[0])[:axis])
    target = static_shape(call)
    positions = [i for i in range(len(target)) if prod(target[:i]) == before]
    alone = [i for i in positions if target[i] == 1]
    if not positions:
        raise MixedSamplesError(f"to {list(target)} keeps no axis for the batch")
    return axis if axis in alone else (alone or positions)[0]


def permuted_axis(call: tvm.ir.Call, arguments: list[BatchedExpr]) -> int:
    rank = arguments[0].rank
    given = call.attrs.axes
    order = list(range(rank))[::-1] if given is None else [int(a) % rank for a in given]
    return order.index(arguments[0].axis or 0)


def take_axis(call: tvm.ir.Call, arguments: list[BatchedExpr]) -> int:
    """Return the batch axis of a ``take``, whose table or indices differ per sample."""
    table, indices = arguments
    if call.attrs.axis is None or (table.axis is not None and indices.axis is not None):
        raise MixedSamplesError("picks elements of one sample by another sample")
    axis = int(call.attrs.axis) % table.rank
    if table.axis is None:
        return axis + (indices.axis or 0)
    if table.axis == axis:
        raise MixedSamplesError("picks samples out of the batch")
    return table.axis + (indices.rank - 1 if table.axis > axis else 0)


def broadcast_axis(call: tvm.ir.Call, arguments: list[BatchedExpr]) -> int:
    target = static_shape(call)
    axis = len(target) - arguments[0].rank + (arguments[0].axis or 0)
    if target[axis] != 1:
        raise MixedSamplesError("spreads a tensor along the batch axis")
    return axis


def build_to_shape(operator: Callable[..., relax.Expr]) -> Callable[..., relax.Expr]:
    """Return a function that builds an operator from the result's shape at the new batch size."""

    def build(call: tvm.ir.Call, arguments: list[BatchedExpr], axis: int, size: int) -> relax.Expr:
        target = list(static_shape(call))
        target[axis] *= size
        return operator(arguments[0].value, target)

    return build


def build_concat(
    call: tvm.ir.Call, arguments: list[BatchedExpr], axis: int, size: int
) -> relax.Expr:
    """Return the concatenation, in which a shared part is repeated for each sample."""
    parts: list[Any] = []
    for part in arguments[0].value.fields:
        shape = list(static_shape(part))
        if shape[axis] != size:
            shape[axis] = size
            part = relax.op.broadcast_to(part, shape)
        parts.append(part)
    return tvm.ir.Call(call.op, [relax.Tuple(parts)], call.attrs, call.ty_args)


ROWS = (
    BatchRule(
        "nn.conv1d nn.conv2d nn.conv3d nn.conv1d_transpose nn.conv2d_transpose "
        "nn.max_pool1d nn.max_pool2d nn.max_pool3d nn.avg_pool1d nn.avg_pool2d nn.avg_pool3d "
        "nn.adaptive_avg_pool2d image.resize2d",
        window_axis,
    ),
    BatchRule("matmul", matmul_axis, takes_merged=True),
    BatchRule(
        "mean sum max min prod variance std argmax argmin", reduction_axis, takes_merged=True
    ),
    BatchRule(
        "nn.softmax nn.log_softmax nn.layer_norm nn.rms_norm cumsum sort argsort",
        keep_axis("computes along the batch axis", list_axes),
        takes_merged=True,
    ),
    BatchRule(
        "reshape expand_dims squeeze flatten",
        reshape_axis,
        build_to_shape(relax.op.reshape),
        takes_merged=True,
    ),
    BatchRule("permute_dims", permuted_axis, takes_merged=True),
    BatchRule("nn.instance_norm", keep_axis("computes along the batch axis", list_axes)),
    BatchRule("concat", keep_axis("joins tensors along the batch axis", list_axes), build_concat),
    BatchRule("strided_slice", keep_axis("cuts the batch axis", list_sliced_axes)),
    BatchRule("nn.pad", keep_axis("pads the batch axis", list_padded_axes)),
    BatchRule("take", take_axis),
    BatchRule("broadcast_to", broadcast_axis, build_to_shape(relax.op.broadcast_to)),
)

RULES = {f"relax.{name}": rule for rule in ROWS for name in rule.operators.split()}
RULES |= dict.fromkeys(ELEMENTWISE, BatchRule("", elementwise_axis, takes_merged=True))
"""A mapping from operators that support a batch to their rules."""
