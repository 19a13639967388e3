"""Where the batch axis goes, operator by operator; one that mixes samples is refused."""

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
    """An expression of the new module and its batch axis, None where every sample shares it.

    The axis holds ``inner`` elements of the first sample, then as many of the second and so on:
    more than one where a reshape has merged the batch with the axis behind it.
    """

    value: relax.Expr
    axis: int | None
    inner: int = 1

    @property
    def rank(self) -> int:
        """The number of axes; 0 for attributes such as a clip's bounds, which have no shape."""
        shape = getattr(self.value.ty, "shape", None)
        return len(shape) if shape is not None else 0

    def length_at(self, place: int) -> int:
        """Return the length of an axis counted from the end, 1 where there is none."""
        return int(static_shape(self.value)[place]) if self.rank >= -place else 1


class MixedSamplesError(Exception):
    """An operator computes one sample's result from other samples; the text says how."""


def rebuild_call(
    call: tvm.ir.Call, arguments: list[BatchedExpr], _axis: int | None = None, _size: int = 1
) -> relax.Expr:
    return tvm.ir.Call(call.op, [a.value for a in arguments], call.attrs, call.ty_args)


FindAxis = Callable[[tvm.ir.Call, list[BatchedExpr]], int]
"""From the call at batch 1 and its batched arguments to the result's batch axis."""


@dataclass(frozen=True)
class BatchRule:
    """How some operators pass the batch axis on.

    ``build`` makes the call from the one at batch 1, its batched arguments, the result's batch
    axis and the batch size. With ``takes_merged`` an axis may hold several elements of a sample.
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
    """Return what leaves the batch axis where it is, unless it is among the ``touched`` axes."""

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


def find_places(call: tvm.ir.Call, arguments: list[BatchedExpr]) -> set[tuple[int, int]]:
    """Return where the arguments have their batch in the result, whose last axes are theirs."""
    rank = len(static_shape(call))
    return {(rank - a.rank + a.axis, a.inner) for a in arguments if a.axis is not None}


def refuse_spread(arguments: list[BatchedExpr], place: int) -> None:
    """Refuse a tensor that all samples share and that has a length of its own along the batch."""
    if any(a.axis is None and a.length_at(place) > 1 for a in arguments):
        raise MixedSamplesError("spreads a tensor along the batch axis")


def elementwise_axis(call: tvm.ir.Call, arguments: list[BatchedExpr]) -> int:
    """Broadcasting aligns axes at the end; a shared tensor must have length 1 along the batch."""
    places, rank = find_places(call, arguments), len(static_shape(call))
    if len(places) > 1:
        raise MixedSamplesError("combines tensors whose batch axes differ")
    ((axis, _),) = places
    refuse_spread(arguments, axis - rank)
    if operator_name(call) in ("relax.quantize", "relax.dequantize"):
        channels = max(prod(static_shape(a)) for a in call.args[1:])
        if channels > 1 and int(call.attrs.axis) % rank == axis:
            raise MixedSamplesError("has a scale for each sample")
    return axis


def window_axis(call: tvm.ir.Call, arguments: list[BatchedExpr]) -> int:
    """Convolutions, poolings and resizes name their batch axis ``N`` in the layout."""
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
    places = find_places(call, arguments)
    axis, _ = max(places)
    if right.axis is not None and (len(places) > 1 or axis >= rank - 2):
        raise MixedSamplesError("multiplies each sample with every other")
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
    """The batch axis goes where the same number of elements stands before it.

    That is an axis of length 1, or else one in front of whose elements the samples are put.
    """
    axis = arguments[0].axis or 0
    before = prod(static_shape(call.args[0])[:axis])
    target = static_shape(call)
    places = [i for i in range(len(target)) if prod(target[:i]) == before]
    alone = [i for i in places if target[i] == 1]
    if not places:
        raise MixedSamplesError(f"to {list(target)} leaves no axis for the batch")
    return axis if axis in alone else (alone or places)[0]


def permuted_axis(call: tvm.ir.Call, arguments: list[BatchedExpr]) -> int:
    rank = arguments[0].rank
    given = call.attrs.axes
    order = list(range(rank))[::-1] if given is None else [int(a) % rank for a in given]
    return order.index(arguments[0].axis or 0)


def take_axis(call: tvm.ir.Call, arguments: list[BatchedExpr]) -> int:
    """Either the table is shared and the indices are the sample's, or the other way round."""
    table, indices = arguments
    if call.attrs.axis is None or (table.axis is not None and indices.axis is not None):
        raise MixedSamplesError("picks elements of one sample by another")
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
    """Return what builds an operator that takes the result's shape, longer along the batch."""

    def build(call: tvm.ir.Call, arguments: list[BatchedExpr], axis: int, size: int) -> relax.Expr:
        target = list(static_shape(call))
        target[axis] *= size
        return operator(arguments[0].value, target)

    return build


def build_concat(
    call: tvm.ir.Call, arguments: list[BatchedExpr], axis: int, size: int
) -> relax.Expr:
    """Join tensors; a part that all samples share is repeated for each."""
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
"""The rule of every operator that a batch can go through, by its name."""
