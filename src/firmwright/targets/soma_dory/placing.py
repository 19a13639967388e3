"""What the accelerator takes of a network, and why it does not take the rest."""

from __future__ import annotations

from math import frexp

import numpy as np
import tvm
from tvm import relax

from firmwright.ir.relax import Constant, constant_array, dtype_of, main_bindings, operator_name
from firmwright.targets import Context
from firmwright.targets.placement import Composite, Objection, Placement
from firmwright.targets.soma_dory.cost import Accelerator, cycles
from firmwright.targets.soma_dory.layer import Layer
from firmwright.targets.soma_dory.matching import (
    Match,
    Unmatched,
    find_layers,
    matched_layer,
)
from firmwright.targets.soma_dory.orientation import lay_on_side
from firmwright.targets.soma_dory.rewrites import rewrite_refused
from firmwright.targets.soma_dory.rules import broken_by_layer, broken_by_operators
from firmwright.targets.soma_dory.tiles import Tile

FORM = "the accelerator's form is int32 sums, bias, right_shift, clip, int8"
REMEDY = "which `quantize: {scheme: pow2, arithmetic: shift}` makes"


def prepare_layers(module: tvm.IRModule, context: Context) -> tvm.IRModule:
    """Write convolutions anew where another form of them breaks no rule, or takes less time."""
    numbers = context.platform.accelerators["soma_dory"]
    accelerator = Accelerator.of(numbers)

    def accepted(layer: Layer) -> bool:
        return not broken_by_layer(layer, numbers)

    layers = layers_by_match(module)
    sums = {match.sums.anchor.var: layer for match, layer in layers.items()}
    module = rewrite_refused(module, sums, accepted)
    taken = {m: layer for m, layer in layers_by_match(module).items() if accepted(layer)}
    return lay_on_side(
        module, taken, accepted, lambda layer: cycles_in_one_tile(layer, accelerator)
    )


def layers_by_match(module: tvm.IRModule) -> dict[Match, Layer]:
    """Return what breaks no rule for operators; its geometry may be any."""
    matches, _ = find_layers(module["main"])
    return {m: matched_layer(m) for m in matches if not broken_by_operators(m)}


def cycles_in_one_tile(layer: Layer, accelerator: Accelerator) -> int:
    """Return the cycles of a layer whose memories are large enough for it."""
    tile = Tile(layer.out_channels, layer.out_height, layer.out_width, layer.in_channels)
    return cycles(layer, tile, accelerator).total


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
            "it is requantised as DIANA's analog core does it, by a converter's clip and a batch "
            f"normalisation; that core is no device here, and of the digital one {FORM}",
        )
    return Objection("requantisation", f"{what_is_there(single, values)}; {FORM}, {REMEDY}")


def what_is_there(single: Unmatched, values: dict[relax.Var, relax.Expr]) -> str:
    """Describe an operator that has not the accelerator's requantisation."""
    scale = odd_scale(single.anchor.value, values)
    if scale is not None:
        return f"a scale of what it reads, {scale:.6g}, is no power of two"
    dtype = dtype_of(single.anchor.var)
    if dtype not in ("int32", "uint32"):
        return f"it computes {dtype}"
    return f"its sums are followed by {', '.join(single.shown) or 'no operator of their own'}"


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
