"""The same network for several samples at once: its batch axis, followed and lengthened.

Works on the Relax module, so it is the same for every model format. An axis is followed, never
guessed from its length, from the inputs through every operator; one that mixes samples is refused.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from math import prod
from typing import Any

import tvm
from tvm import relax

from firmwright.errors import UserError
from firmwright.ir.operators import ELEMENTWISE, short_name
from firmwright.ir.relax import main_bindings, operator_name, static_shape


@dataclass(frozen=True)
class BatchedExpr:
    """An expression of the new module and its batch axis, None where every sample shares it.

    The axis holds ``inner`` elements of the first sample, then as many of the second and so on:
    more than one where a reshape has merged the batch with the axis behind it.
    """

    value: relax.Expr
    axis: int | None
    inner: int = 1


class MixedSamplesError(Exception):
    """An operator computes one sample's result from other samples; the text says how."""


BatchRule = Callable[[tvm.ir.Call, list[BatchedExpr], int], BatchedExpr]
"""From the call at batch 1, its batched arguments and the batch size to the call at that size."""


def batch_module(module: tvm.IRModule, size: int) -> tuple[tvm.IRModule, tuple[int | None, ...]]:
    """Return a module whose ``main`` takes ``size`` samples along axis 0 of every input.

    Beside it the batch axis of each output, None where the output is the same for all samples.
    Raises UserError naming the operator that mixes samples, or that cannot be followed.
    """
    main = module["main"]
    functions = {v: f for v, f in module.functions.items() if v.name_hint != "main"}
    builder = relax.BlockBuilder(tvm.IRModule(functions))
    parameters = [batch_parameter(p, size) for p in main.params]
    values = {p: BatchedExpr(q, 0) for p, q in zip(main.params, parameters, strict=True)}
    definitions = {b.var: b.value for b in main_bindings(module)}
    result = definitions.get(main.body.body, main.body.body)
    outputs = list(result.fields) if isinstance(result, relax.Tuple) else [main.body.body]
    with builder.function("main", parameters):
        with builder.dataflow():
            for variable, value in definitions.items():
                if value is not result or not isinstance(value, relax.Tuple):
                    found = batch_binding(variable, value, values, size)
                    emitted = builder.emit(found.value, name_hint=str(variable.name))
                    values[variable] = replace(found, value=emitted)
            returned = [batch_argument(o, values) for o in outputs]
            refuse_merged(returned)
            whole = relax.Tuple([r.value for r in returned])
            single = returned[0].value if len(returned) == 1 else whole
            handed_out = builder.emit_output(single)
        builder.emit_func_output(handed_out)
    return builder.get(), tuple(r.axis for r in returned)


def refuse_merged(outputs: list[BatchedExpr]) -> None:
    for output in outputs:
        if output.inner > 1:
            shape = list(static_shape(output.value))
            raise UserError(
                f"batch: an output of shape {shape} has no axis for the samples alone; "
                "the model runs with a batch of 1 only"
            )


def batch_parameter(parameter: relax.Var, size: int) -> relax.Var:
    """Return the parameter with ``size`` elements along axis 0 instead of one."""
    shape = static_shape(parameter)
    if not shape or shape[0] != 1:
        raise UserError(
            f"batch: input '{parameter.name}' has the shape {list(shape)}; a batch needs inputs "
            "whose first axis has length 1"
        )
    return relax.Var(str(parameter.name), relax.TensorType((size, *shape[1:]), parameter.ty.dtype))


def batch_binding(
    variable: relax.Var, value: relax.Expr, values: dict[relax.Var, BatchedExpr], size: int
) -> BatchedExpr:
    """Rebuild one binding; UserError where the batch axis is lost."""
    if isinstance(value, relax.Var):
        return values[value]
    if not isinstance(value, tvm.ir.Call):
        return BatchedExpr(value, None)
    arguments = [batch_argument(a, values) for a in value.args]
    if all(a.axis is None for a in arguments):
        return BatchedExpr(rebuild_call(value, arguments), None)
    name = operator_name(value)
    rule = batch_elementwise if name in ELEMENTWISE else RULES.get(name)
    try:
        if rule is None:
            raise MixedSamplesError("has no rule that tells where its batch axis goes")
        if rule not in TAKE_MERGED and any(a.inner > 1 for a in arguments):
            raise MixedSamplesError("reads an axis that a reshape merged with the batch")
        return rule(value, arguments, size)
    except MixedSamplesError as problem:
        raise UserError(
            f"batch: operator {short_name(value)} ('{variable.name}') {problem}; "
            "the model runs with a batch of 1 only"
        ) from None


def batch_argument(argument: relax.Expr, values: dict[relax.Var, BatchedExpr]) -> BatchedExpr:
    if isinstance(argument, relax.Var):
        return values[argument]
    if isinstance(argument, relax.Tuple):
        fields = [batch_argument(f, values) for f in argument.fields]
        axes = {(f.axis, f.inner) for f in fields if f.axis is not None}
        if len(axes) > 1:
            raise UserError("batch: tensors with different batch axes are joined")
        return BatchedExpr(relax.Tuple([f.value for f in fields]), *next(iter(axes), (None, 1)))
    return BatchedExpr(argument, None)


def rebuild_call(call: tvm.ir.Call, arguments: list[BatchedExpr]) -> relax.Expr:
    return tvm.ir.Call(call.op, [a.value for a in arguments], call.attrs, call.ty_args)


def batch_elementwise(call: tvm.ir.Call, arguments: list[BatchedExpr], _size: int) -> BatchedExpr:
    """Broadcasting aligns axes at the end; a shared tensor must have length 1 along the batch."""
    rank = len(static_shape(call))
    places = {(rank - rank_of(a) + a.axis, a.inner) for a in arguments if a.axis is not None}
    if len(places) > 1:
        raise MixedSamplesError("combines tensors whose batch axes differ")
    ((axis, inner),) = places
    if any(a.axis is None and length_at(a, axis - rank) > 1 for a in arguments):
        raise MixedSamplesError("spreads a tensor along the batch axis")
    if operator_name(call) in ("relax.quantize", "relax.dequantize"):
        channels = max(prod(shape) for shape in (static_shape(a) for a in call.args[1:]))
        if channels > 1 and int(call.attrs.axis) % rank == axis:
            raise MixedSamplesError("has a scale for each sample")
    return BatchedExpr(rebuild_call(call, arguments), axis, inner)


def length_at(argument: BatchedExpr, place: int) -> int:
    """Return the length of an axis counted from the end, 1 where there is none."""
    return int(static_shape(argument.value)[place]) if rank_of(argument) >= -place else 1


def rank_of(argument: BatchedExpr) -> int:
    """Attributes such as a clip's bounds are scalars without a shape."""
    shape = getattr(argument.value.ty, "shape", None)
    return len(shape) if shape is not None else 0


def batch_window(call: tvm.ir.Call, arguments: list[BatchedExpr], _size: int) -> BatchedExpr:
    """Convolutions, poolings and resizes name their batch axis ``N`` in the layout."""
    layout = str(getattr(call.attrs, "data_layout", "") or call.attrs.layout)
    if any(a.axis is not None for a in arguments[1:]):
        raise MixedSamplesError("has weights that depend on the sample")
    if arguments[0].axis != layout.index("N"):
        raise MixedSamplesError(
            f"reads the batch axis as axis {layout[arguments[0].axis or 0]} of {layout}"
        )
    out_layout = str(getattr(call.attrs, "out_layout", "")) or layout
    return BatchedExpr(rebuild_call(call, arguments), out_layout.index("N"))


def batch_matmul(call: tvm.ir.Call, arguments: list[BatchedExpr], _size: int) -> BatchedExpr:
    left, right = arguments
    rank = len(static_shape(call))
    for argument, summed in ((left, -1), (right, -2)):
        own = rank_of(argument)
        if argument.axis is not None and argument.axis == (own + summed if own > 1 else 0):
            raise MixedSamplesError("sums over the batch axis")
    if right.axis is None:
        axis = rank - rank_of(left) + (left.axis or 0)
        return BatchedExpr(rebuild_call(call, arguments), axis, left.inner)
    places = {(rank - rank_of(a) + a.axis, a.inner) for a in arguments if a.axis is not None}
    if len(places) > 1 or max(places)[0] >= rank - 2:
        raise MixedSamplesError("multiplies each sample with every other")
    return BatchedExpr(rebuild_call(call, arguments), *places.pop())


def batch_reduction(call: tvm.ir.Call, arguments: list[BatchedExpr], _size: int) -> BatchedExpr:
    axis = arguments[0].axis or 0
    rank = rank_of(arguments[0])
    given = call.attrs.axis
    given = given if given is None or not isinstance(given, int) else [given]
    reduced = None if given is None else {int(a) % rank for a in given}
    if reduced is None or axis in reduced:
        raise MixedSamplesError("reduces over the batch axis")
    if not call.attrs.keepdims:
        axis -= sum(a < axis for a in reduced)
    return BatchedExpr(rebuild_call(call, arguments), axis, arguments[0].inner)


def batch_along_axes(call: tvm.ir.Call, arguments: list[BatchedExpr], _size: int) -> BatchedExpr:
    """Softmax, normalizations, sorting and cumulative sums: any axes but the batch axis."""
    axis = arguments[0].axis
    given = getattr(call.attrs, "axes", None) or [call.attrs.axis]
    used = {int(a) % rank_of(arguments[0]) for a in given}
    if axis in used:
        raise MixedSamplesError("computes along the batch axis")
    return BatchedExpr(rebuild_call(call, arguments), axis, arguments[0].inner)


def batch_reshape(call: tvm.ir.Call, arguments: list[BatchedExpr], size: int) -> BatchedExpr:
    """The batch axis goes where the same number of elements stands before it.

    That is an axis of length 1, or else one in front of whose elements the samples are put.
    """
    source = arguments[0]
    before = prod(static_shape(call.args[0])[: source.axis])
    target = list(static_shape(call))
    places = [i for i in range(len(target)) if prod(target[:i]) == before]
    alone = [i for i in places if target[i] == 1]
    if not places:
        raise MixedSamplesError(f"to {target} leaves no axis for the batch")
    axis = source.axis if source.axis in alone else (alone or places)[0]
    inner = target[axis]
    target[axis] *= size
    return BatchedExpr(relax.op.reshape(source.value, target), axis, inner)


def batch_permute(call: tvm.ir.Call, arguments: list[BatchedExpr], _size: int) -> BatchedExpr:
    rank = rank_of(arguments[0])
    given = call.attrs.axes
    order = list(range(rank))[::-1] if given is None else [int(a) % rank for a in given]
    axis = order.index(arguments[0].axis or 0)
    return BatchedExpr(rebuild_call(call, arguments), axis, arguments[0].inner)


def batch_concat(call: tvm.ir.Call, arguments: list[BatchedExpr], size: int) -> BatchedExpr:
    """Join along another axis; a part that all samples share is repeated for each."""
    axis = arguments[0].axis or 0
    if int(call.attrs.axis or 0) % len(static_shape(call)) == axis:
        raise MixedSamplesError("joins tensors along the batch axis")
    parts: list[Any] = []
    for part in arguments[0].value.fields:
        shape = list(static_shape(part))
        if shape[axis] != size:
            shape[axis] = size
            part = relax.op.broadcast_to(part, shape)
        parts.append(part)
    joined = tvm.ir.Call(call.op, [relax.Tuple(parts)], call.attrs, call.ty_args)
    return BatchedExpr(joined, axis)


def batch_strided_slice(call: tvm.ir.Call, arguments: list[BatchedExpr], _size: int) -> BatchedExpr:
    axis = arguments[0].axis
    axes = [int(a.value) % rank_of(arguments[0]) for a in call.args[1].fields]
    if axis in axes:
        raise MixedSamplesError("cuts the batch axis")
    return BatchedExpr(rebuild_call(call, arguments), axis)


def batch_pad(call: tvm.ir.Call, arguments: list[BatchedExpr], _size: int) -> BatchedExpr:
    axis = arguments[0].axis or 0
    if any(int(n) for n in list(call.attrs.pad_width)[2 * axis : 2 * axis + 2]):
        raise MixedSamplesError("pads the batch axis")
    return BatchedExpr(rebuild_call(call, arguments), axis)


def batch_take(call: tvm.ir.Call, arguments: list[BatchedExpr], _size: int) -> BatchedExpr:
    """Either the table is shared and the indices are the sample's, or the other way round."""
    table, indices = arguments
    if call.attrs.axis is None or (table.axis is not None and indices.axis is not None):
        raise MixedSamplesError("picks elements of one sample by another")
    axis = int(call.attrs.axis) % rank_of(table)
    if table.axis is None:
        return BatchedExpr(rebuild_call(call, arguments), axis + (indices.axis or 0))
    if table.axis == axis:
        raise MixedSamplesError("picks samples out of the batch")
    moved = table.axis + (rank_of(indices) - 1 if table.axis > axis else 0)
    return BatchedExpr(rebuild_call(call, arguments), moved)


def batch_broadcast_to(call: tvm.ir.Call, arguments: list[BatchedExpr], size: int) -> BatchedExpr:
    target = list(static_shape(call))
    axis = len(target) - rank_of(arguments[0]) + (arguments[0].axis or 0)
    if target[axis] != 1:
        raise MixedSamplesError("spreads a tensor along the batch axis")
    target[axis] = size
    return BatchedExpr(relax.op.broadcast_to(arguments[0].value, target), axis)


def _make_rules() -> dict[str, BatchRule]:
    rules: dict[BatchRule, str] = {
        batch_window: "nn.conv1d nn.conv2d nn.conv3d nn.conv1d_transpose nn.conv2d_transpose "
        "nn.max_pool1d nn.max_pool2d nn.max_pool3d nn.avg_pool1d nn.avg_pool2d nn.avg_pool3d "
        "nn.adaptive_avg_pool2d image.resize2d",
        batch_reduction: "mean sum max min prod variance std argmax argmin",
        batch_along_axes: "nn.softmax nn.log_softmax nn.layer_norm nn.rms_norm cumsum sort argsort",
        batch_reshape: "reshape expand_dims squeeze flatten",
        batch_permute: "permute_dims",
        batch_concat: "concat",
        batch_strided_slice: "strided_slice",
        batch_pad: "nn.pad",
        batch_take: "take",
        batch_matmul: "matmul",
        batch_broadcast_to: "broadcast_to",
    }
    return {f"relax.{name}": rule for rule, names in rules.items() for name in names.split()}


RULES = _make_rules()
"""Where the batch axis goes, for operators that are not elementwise."""

TAKE_MERGED = frozenset(
    {
        batch_elementwise,
        batch_matmul,
        batch_reduction,
        batch_along_axes,
        batch_reshape,
        batch_permute,
    }
)
"""Rules for operators that do not care how many elements of a sample an axis holds."""
