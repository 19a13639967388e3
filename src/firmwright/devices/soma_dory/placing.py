"""Places the layers of a network on the accelerator, and reports why it rejects other layers."""

from __future__ import annotations

from collections.abc import Sequence
from math import frexp

import numpy as np
import tvm
from tvm import relax
from tvm_ffi import structural_equal

from firmwright.devices.soma_dory import matching
from firmwright.devices.soma_dory.accelerator_layer import AcceleratorLayer
from firmwright.devices.soma_dory.advice import estimate_untiled_cycles
from firmwright.devices.soma_dory.analog import find_analog_layers
from firmwright.devices.soma_dory.clips import split_clips, widen_clip
from firmwright.devices.soma_dory.convolution_rewrites import rewrite_convolutions
from firmwright.devices.soma_dory.cost import Accelerator
from firmwright.devices.soma_dory.orientation import transpose_images
from firmwright.devices.soma_dory.requantization import narrow_operands, replace_divisions
from firmwright.devices.soma_dory.rules import check_layer, check_operators, list_open_questions
from firmwright.errors import UserError
from firmwright.ir.layer import LayerKind
from firmwright.ir.regions import Change, Region, RuleViolation
from firmwright.ir.relax import Constant, constant_array, dtype_of, main_bindings, operator_name
from firmwright.targets import Context
from firmwright.targets.placement import Composite, Placement

ACCELERATOR_FORM = "the accelerator's form is int32 sums, bias, right_shift, clip, int8"
QUANTIZED = "{scheme: pow2, arithmetic: shift}"
ANALOG_FORM = (
    "that core's form is conv2d, divide, floor, clip, multiply, add, right_shift, clip, "
    "int8, each of them read only by the next"
)
ANALOG_REASON = (
    "it has the form of DIANA's analog core; its cycles are assumed to equal the digital "
    "core's, because no model of the analog core is public"
)
NO_ANALOG_CORE = (
    "soma_dory -analog: the analog core of '{}' cannot be programmed. Remove the option, or "
    "build for 'diana', which emulates that core without noise. No public source says:"
)
QUANTIZED_AGAIN = "{scheme: pow2, arithmetic: shift, calibration: {method: model}}"
"""The value of ``quantize`` for a quantized model, whose scales define the ranges of its
tensors."""


def prepare_layers(module: tvm.IRModule, context: Context) -> tvm.IRModule:
    """Rewrite layers to a form that breaks no rule or needs fewer cycles.

    Raises UserError if ``-analog`` requests a core that the platform does not have.
    """
    numbers = context.platform.accelerators["soma_dory"]
    if uses_analog_core(context) and not numbers["analog_rows"]:
        unknown = list_open_questions({LayerKind.ANALOG_CONV2D.value})
        raise UserError("\n    ".join([NO_ANALOG_CORE.format(context.platform.name), *unknown]))
    accelerator = Accelerator.from_numbers(numbers)

    def is_accepted(layer: AcceleratorLayer) -> bool:
        return not check_layer(layer, numbers)

    def find_accepted(module: tvm.IRModule) -> dict[matching.Match, AcceleratorLayer]:
        layers = layers_by_match(module, context)
        return {m: layer for m, layer in layers.items() if is_accepted(layer)}

    module = rewrite_convolutions(module, layers_by_match(module, context), is_accepted)
    module = split_clips(module, find_accepted(module))
    return transpose_images(
        module,
        find_accepted(module),
        is_accepted,
        lambda layer: estimate_untiled_cycles(layer, accelerator),
    )


def list_idle_options(
    regions: Sequence[Region], module: tvm.IRModule, context: Context
) -> list[str]:
    """Return a note for each option of the target that does not affect the network."""
    notes = []
    if uses_analog_core(context) and all(
        region.anchor != LayerKind.ANALOG_CONV2D.value for region in regions
    ):
        notes.append(f"-analog: no effect: no layer runs on the analog core; {ANALOG_FORM}")
    if context.options.get("requant_transform") == "0":
        narrowed = narrow_operands(module)
        if structural_equal(replace_divisions(narrowed), narrowed):
            notes.append(
                "-requant_transform=0: no effect: no layer divides by powers of two, so there is "
                "no division to replace"
            )
    return notes


def uses_analog_core(context: Context) -> bool:
    return context.options.get("analog") == "1"


def find_layers(
    module: tvm.IRModule, context: Context
) -> tuple[list[matching.Match], list[matching.UnmatchedOperator]]:
    """Return matches of layers, and unmatched operators.

    Layers of the analog core match only if the target has this core. A layer that fits both cores
    is placed on the analog core. If only the form of the analog core matches, the rules of this
    core decide.
    """
    matches, unmatched = matching.find_layers(module["main"])
    if not uses_analog_core(context):
        return matches, unmatched
    digital = {m.sums.anchor.var for m in matches}
    analog = {
        m.sums.anchor.var: m
        for m in find_analog_layers(module["main"])
        if m.sums.anchor.var not in digital or not check_match(widen_clip(m), context)
    }
    matches = [m for m in matches if m.sums.anchor.var not in analog]
    unmatched = [u for u in unmatched if u.anchor.var not in analog]
    return [*matches, *analog.values()], unmatched


def layers_by_match(
    module: tvm.IRModule, context: Context
) -> dict[matching.Match, AcceleratorLayer]:
    """Return the layers whose operators break no rule, except rules on clips.

    The geometry of these layers is not checked.
    """
    matches, _ = find_layers(module, context)
    widened = {m: widen_clip(m) for m in matches}
    return {m: matching.make_layer(w) for m, w in widened.items() if not check_operators(w)}


def place_layers(module: tvm.IRModule, context: Context) -> Placement:
    matches, unmatched = find_layers(module, context)
    composites: list[Composite] = []
    violations: dict[relax.Var, tuple[RuleViolation, ...]] = {}
    for match in matches:
        broken = check_match(match, context)
        if broken:
            violations.update(dict.fromkeys(match.variables, broken))
        else:
            reason = ANALOG_REASON if match.conversion else ""
            composites.append(Composite(match.kind.value, match.variables, reason))
    values = {b.var: b.value for b in main_bindings(module)}
    for single in unmatched:
        violations[single.anchor.var] = (explain_unmatched(single, values, context),)
    return Placement(tuple(composites), violations)


def check_match(match: matching.Match, context: Context) -> tuple[RuleViolation, ...]:
    broken = check_operators(match)
    accelerator = context.platform.accelerators["soma_dory"]
    return broken or check_layer(matching.make_layer(match), accelerator)


def explain_unmatched(
    single: matching.UnmatchedOperator, values: dict[relax.Var, relax.Expr], context: Context
) -> RuleViolation:
    if single.is_analog:
        core = (
            ANALOG_FORM
            if uses_analog_core(context)
            else "the core is used only with `soma_dory -analog`"
        )
        return RuleViolation(
            "analog core",
            "its requantization is the analog core's, a converter's clip and a batch "
            f"normalization; {core}; {ACCELERATOR_FORM}",
        )
    scale = find_unsupported_scale(single.anchor.value, values)
    if scale is None:
        current, wanted = dtype_of(single.anchor.var), QUANTIZED
        reason = describe_unmatched(single)
    else:
        current, wanted = "the model's scales", QUANTIZED_AGAIN
        reason = f"a scale of its inputs, {scale:.6g}, is not a power of two"
    return RuleViolation(
        "requantization",
        f"{reason}; {ACCELERATOR_FORM}; use `quantize: {wanted}`",
        changes=(Change("arithmetic", "quantize:", current, wanted),),
    )


def describe_unmatched(single: matching.UnmatchedOperator) -> str:
    dtype = dtype_of(single.anchor.var)
    if dtype not in ("int32", "uint32"):
        return f"it computes {dtype}"
    followers = ", ".join(single.first_followers) or "no operator that reads only these sums"
    return f"its sums are followed by {followers}"


def find_unsupported_scale(call: tvm.ir.Call, values: dict[relax.Var, relax.Expr]) -> float | None:
    """Return the first scale of an operator's dequantized operands that is not a power of two."""
    for operand in call.args:
        value = values.get(operand, operand) if isinstance(operand, relax.Var) else operand
        if operator_name(value) != "relax.dequantize" or not isinstance(value.args[1], Constant):
            continue
        for scale in np.asarray(constant_array(value.args[1]), "float64").reshape(-1):
            if frexp(scale)[0] != 0.5:
                return float(scale)
    return None
