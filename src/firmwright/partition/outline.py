"""Groups become functions of their own, and ``main`` a list of regions over tensors."""

from __future__ import annotations

import re

import tvm
from tvm import relax

from firmwright.errors import UserError
from firmwright.models.interface import ELEMENT_BYTES, ModelInterface, Tensor
from firmwright.partition.grouping import Group, group_operators, read_variables
from firmwright.partition.operators import (
    RESHAPES,
    kinds_in,
    multiply_accumulates,
    short_name,
)
from firmwright.partition.regions import Partition, Region
from firmwright.transforms.rewriting import dtype_of, main_bindings, operator_name, static_shape


def partition_module(
    module: tvm.IRModule, interface: ModelInterface, device: str, reason: str
) -> tuple[tvm.IRModule, Partition]:
    """Put every operator of ``main`` into a region of ``device``.

    Returns a module with one Relax function a region (and the TIR functions that they call), and
    the graph over them.
    """
    main = module["main"]
    bindings = main_bindings(module)
    outputs = returned_variables(main, bindings)
    aliases = {b.var: b.value for b in bindings if isinstance(b.value, relax.Var)}
    bindings = [b for b in bindings if operator_name(b.value)]
    refuse_uncompilable(bindings, interface)
    outputs = [resolve(v, aliases) for v in outputs]
    groups = group_operators(bindings, outputs, kinds_in(module))

    makers = {tensor: o.name for o in interface.operators for tensor in o.results}
    named_outputs = {
        variable: makers.get(tensor.name, tensor.name)
        for variable, tensor in zip(outputs, interface.outputs, strict=True)
    }
    names = {p: f"input_{i}" for i, p in enumerate(main.params)}
    tensors = [described(names[p], p) for p in main.params]
    functions = {v: f for v, f in module.functions.items() if isinstance(f, tvm.tirx.PrimFunc)}
    regions = []
    for index, group in enumerate(groups):
        name = region_name(index, group)
        names[group.result] = f"{name}_result"
        function, inputs = outline(group)
        functions[tvm.ir.GlobalVar(name)] = function.with_attr("global_symbol", name)
        tensors.append(described(names[group.result], group.result))
        regions.append(
            Region(
                name=name,
                device=device,
                reason=reason,
                anchor=anchor_of(group),
                sources=source_names(group, named_outputs),
                operators=tuple(short_name(b.value) for b in group.bindings),
                inputs=tuple(names[v] for v in inputs),
                output=names[group.result],
                macs=sum(multiply_accumulates(b.value) for b in group.bindings),
                view=is_view(group, outputs),
            )
        )
    return tvm.IRModule(functions), Partition(
        inputs=tuple(names[p] for p in main.params),
        outputs=tuple(names[v] for v in outputs),
        tensors=tuple(tensors),
        regions=tuple(regions),
    )


def returned_variables(main: relax.Function, bindings: list[relax.VarBinding]) -> list[relax.Var]:
    """Return the variables that ``main`` returns, one an output."""
    values = {b.var: b.value for b in bindings}
    result = main.body.body
    result = values.get(result, result) if isinstance(result, relax.Var) else result
    fields = list(result.fields) if isinstance(result, relax.Tuple) else [main.body.body]
    for value in fields:
        if not isinstance(value, relax.Var):
            raise UserError("an output of the network is a constant: there is nothing to compute")
    return fields


def resolve(variable: relax.Var, aliases: dict[relax.Var, relax.Var]) -> relax.Var:
    while variable in aliases:
        variable = aliases[variable]
    return variable


def refuse_uncompilable(bindings: list[relax.VarBinding], interface: ModelInterface) -> None:
    """Name, in one message, every operator whose results the generated C cannot carry."""
    lines = []
    for binding in bindings:
        if not isinstance(binding.var.ty, relax.TensorType):
            what = "has several results"
        elif dtype_of(binding.var) not in ELEMENT_BYTES:
            what = f"computes {dtype_of(binding.var)}"
        else:
            continue
        kind = short_name(binding.value)
        named = [o.name for o in interface.operators if same_kind(o.kind, kind)]
        source = str(binding.var.name) if is_source_name(binding.var.name) else "', '".join(named)
        lines.append(f"  {kind} ('{source}') {what}")
    if lines:
        raise UserError("\n".join(["operators that cannot be compiled:", *lines]))


def same_kind(source: str, relax_name: str) -> bool:
    """Tell whether a source operator's kind, e.g. ``TopK`` or ``TOPK_V2``, is this Relax one."""
    plain = relax_name.replace("_", "").lower()
    return source.replace("_", "").lower().removesuffix("v2") == plain


def is_source_name(name: str) -> bool:
    """Tell a name of the source model from one that the importer made up."""
    return not re.fullmatch(r"(lv|gv)[0-9_]*", name)


def outline(group: Group) -> tuple[relax.Function, list[relax.Var]]:
    """Return the group as a function of the variables it reads from outside, in reading order."""
    inside = {b.var for b in group.bindings}
    outside = [
        v
        for v in dict.fromkeys(v for b in group.bindings for v in read_variables(b.value))
        if v not in inside
    ]
    block = relax.DataflowBlock([*group.bindings[:-1], as_output(group.bindings[-1])])
    result = block.bindings[-1].var
    function = relax.Function(outside, relax.SeqExpr([block], result), result.ty)
    return relax.utils.copy_with_new_vars(function), outside


def as_output(binding: relax.VarBinding) -> relax.VarBinding:
    """A dataflow block hands out plain variables only."""
    return relax.VarBinding(relax.Var(binding.var.name, binding.var.ty), binding.value)


def described(name: str, variable: relax.Var) -> Tensor:
    return Tensor(name, static_shape(variable), dtype_of(variable))


def anchor_of(group: Group) -> str:
    """Name the operator that the region is about: the costliest, else the last that computes."""
    by_cost = max(group.bindings, key=lambda b: multiply_accumulates(b.value))
    if multiply_accumulates(by_cost.value):
        return short_name(by_cost.value)
    kinds = [short_name(b.value) for b in group.bindings]
    telling = [k for k in kinds if k not in ("quantize", "dequantize", "clip", "astype")]
    return telling[-1] if telling else kinds[-1]


def region_name(index: int, group: Group) -> str:
    return f"region_{index:03d}_{re.sub(r'[^0-9a-zA-Z]+', '_', anchor_of(group))}"


def source_names(group: Group, outputs: dict[relax.Var, str]) -> tuple[str, ...]:
    """Return the source model's names in the group; importer-made ones say nothing."""
    names = [
        outputs.get(b.var, "lv") if not is_source_name(b.var.name) else str(b.var.name)
        for b in group.bindings
    ]
    return tuple(n for n in dict.fromkeys(names) if is_source_name(n))


def is_view(group: Group, outputs: list[relax.Var]) -> bool:
    """A reshape needs no code, unless it would have to fill the caller's output buffer."""
    return group.result not in outputs and all(
        operator_name(b.value) in RESHAPES for b in group.bindings
    )
