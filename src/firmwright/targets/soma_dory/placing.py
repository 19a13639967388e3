"""What the accelerator takes of a network, and why it does not take the rest."""

from __future__ import annotations

from math import frexp

import numpy as np
import tvm
from tvm import relax

from firmwright.partition.placement import Composite, Objection, Placement
from firmwright.targets import Context
from firmwright.targets.soma_dory.matching import (
    Match,
    Unmatched,
    find_layers,
    matched_layer,
)
from firmwright.targets.soma_dory.rules import broken_by_layer, broken_by_operators
from firmwright.transforms.rewriting import (
    Constant,
    constant_array,
    dtype_of,
    main_bindings,
    operator_name,
)

REMEDY = "`quantize: {scheme: pow2, arithmetic: shift}` makes one"


def place_layers(module: tvm.IRModule, context: Context) -> Placement:
    """Take every layer that breaks no rule."""
    matches, unmatched = find_layers(module["main"])
    composites: list[Composite] = []
    objections: dict[relax.Var, tuple[Objection, ...]] = {}
    for match in matches:
        broken = broken_rules(match, context)
        if broken:
            objections.update(dict.fromkeys(match.variables, broken))
        else:
            composites.append(Composite(match.kind.value, match.variables))
    values = {b.var: b.value for b in main_bindings(module)}
    for single in unmatched:
        objections[single.anchor.var] = (unmatched_objection(single, values),)
    return Placement(tuple(composites), objections)


def broken_rules(match: Match, context: Context) -> tuple[Objection, ...]:
    broken = broken_by_operators(match)
    accelerator = context.platform.accelerators["soma_dory"]
    return broken or broken_by_layer(matched_layer(match), accelerator)


def unmatched_objection(single: Unmatched, values: dict[relax.Var, relax.Expr]) -> Objection:
    """Say what is missing behind an operator that could start a layer."""
    if single.analog:
        return Objection(
            "analog core",
            "it has the requantisation of DIANA's analog core (a converter's clip, then a batch "
            "normalisation), which has no device here; the digital core's is int32 sums, bias, "
            "right_shift, clip, int8",
        )
    return Objection("requantisation", f"{what_is_there(single, values)}; {REMEDY}")


def what_is_there(single: Unmatched, values: dict[relax.Var, relax.Expr]) -> str:
    """Describe an operator that has not the accelerator's requantisation."""
    asked = "DIANA's requantisation (int32 sums, right_shift, clip, int8)"
    scale = odd_scale(single.anchor.value, values)
    if scale is not None:
        return f"its scale {scale:.6g} is no power of two, so that it has not {asked}"
    if dtype_of(single.anchor.var) not in ("int32", "uint32"):
        return f"it computes {dtype_of(single.anchor.var)}; it has not {asked}"
    behind = single.followers[0].removeprefix("relax.") if single.followers else "nothing alone"
    return f"{behind} follows its sums, not {asked}"


def odd_scale(call: tvm.ir.Call, values: dict[relax.Var, relax.Expr]) -> float | None:
    """Return the first scale of the operator's dequantized operands that is no power of two."""
    for operand in call.args:
        value = values.get(operand, operand) if isinstance(operand, relax.Var) else operand
        if operator_name(value) != "relax.dequantize" or not isinstance(value.args[1], Constant):
            continue
        for scale in np.asarray(constant_array(value.args[1]), "float64").reshape(-1):
            if frexp(scale)[0] != 0.5:
                return float(scale)
    return None
