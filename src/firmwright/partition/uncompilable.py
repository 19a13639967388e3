"""Rejects operators whose results the generated C code cannot represent."""

from __future__ import annotations

import tvm
from tvm import relax

from firmwright.errors import UserError
from firmwright.ir.operators import is_same_kind, short_name
from firmwright.ir.relax import operator_name
from firmwright.ir.tensors import (
    ELEMENT_BYTES,
    LARGEST_TENSOR,
    ModelInterface,
    Tensor,
    is_source_name,
)


def refuse_uncompilable(bindings: list[relax.VarBinding], interface: ModelInterface) -> None:
    """Raise one UserError that lists all operators whose results generated C cannot represent."""
    lines = []
    for binding in bindings:
        what = operator_name(binding.value) and find_problem(binding)
        if not what:
            continue
        sources = "', '".join(find_sources(binding, bindings, interface))
        named = f" ('{sources}')" if sources else ""
        lines.append(f"  {short_name(binding.value)}{named} {what}")
    if lines:
        raise UserError("\n".join(["operators that cannot be compiled:", *lines]))


def find_items(
    binding: relax.VarBinding, bindings: list[relax.VarBinding]
) -> list[relax.VarBinding]:
    items = [b for b in bindings if isinstance(b.value, relax.TupleGetItem)]
    return [b for b in items if b.value.tuple_value.same_as(binding.var)]


def find_sources(
    binding: relax.VarBinding, bindings: list[relax.VarBinding], interface: ModelInterface
) -> list[str]:
    """Return an operator's name in the model, or else the names of all operators of its kind."""
    names = [str(b.var.name) for b in (binding, *find_items(binding, bindings))]
    sources = [name for name in names if is_source_name(name)]
    kind = short_name(binding.value)
    return sources[:1] or [o.name for o in interface.operators if is_same_kind(o.kind, kind)]


def find_problem(binding: relax.VarBinding) -> str:
    """Return the problem with an operator's results, or '' if there is no problem."""
    kind = binding.var.ty
    results = list(kind.fields) if isinstance(kind, relax.TupleType) else [kind]
    return next(filter(None, map(find_result_problem, results)), "")


def find_result_problem(result: tvm.ir.Type) -> str:
    if not isinstance(result, relax.TensorType):
        return "has a result that is not a tensor"
    if result.shape is None or not all(isinstance(d, tvm.tirx.IntImm) for d in result.shape):
        return "has a result whose shape is known only at run time; firmware needs fixed shapes"
    if str(result.dtype) not in ELEMENT_BYTES:
        return f"computes {result.dtype}, which firmware does not support; use another type"
    shape = [int(d) for d in result.shape]
    if min(shape, default=1) < 1:
        return f"computes a tensor without elements, {shape}; remove it from the model"
    if Tensor("", tuple(shape), str(result.dtype)).bytes > LARGEST_TENSOR:
        return f"computes {shape}; a tensor has to be smaller than 2 GiB"
    return ""
