"""Estimates the instructions of a region on the device ``c``, and suggests changes that save
instructions."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from math import prod

from firmwright.devices.cpu.all_forms import FORMS
from firmwright.devices.cpu.forms.form import Form, FormChoice, choose
from firmwright.devices.cpu.lowering import select_kernel
from firmwright.ir.byte_layers import AnyLayer, ByteFunction
from firmwright.ir.layer import FloatLayer, Layer, LayerKind, LayerRounding, Pair
from firmwright.ir.nodes import IRModule
from firmwright.ir.regions import Region, Suggestion
from firmwright.ir.relax import dtype_of, static_shape
from firmwright.lowering.integer_arithmetic import use_integer_arithmetic
from firmwright.lowering.region import ROUNDINGS
from firmwright.targets import Context
from firmwright.toolchain.families import find_family, load_families

LOOPS = 5.0
"""Instructions per multiply-accumulate in loops from TIR."""
ELEMENT = 3.5
"""Instructions per element of the largest tensor for additions and shifts of integers."""
MOVED = 2.0
"""Instructions per element of the largest tensor for moves."""
MOVING = frozenset({
    "concat", "copy", "flatten", "expand_dims", "layout_transform", "pad", "permute_dims",
    "reshape", "split", "squeeze", "strided_slice", "take",
})  # fmt: skip
SOFT_FLOAT = 140.0
"""Instructions per multiply-accumulate of floats in software."""
SHARED = dict.fromkeys(LayerRounding, 3.0) | {LayerRounding.FLOAT: 10.0}
"""Additional instructions per result in a function that several layers share."""

WITHOUT_FLOATS = frozenset({
    "cortex-m0", "cortex-m0+", "cortex-m3", "cortex-m4", "cortex-m7", "cortex-m33",
    "rv32ic", "rv32imc", "rv32imac", "rv32imc_xcv",
})  # fmt: skip
"""Architectures that compute floats in software."""

ON_INTEGERS = {
    LayerKind.FLOAT_CONV2D: LayerKind.CONV2D,
    LayerKind.FLOAT_DEPTHWISE_CONV2D: LayerKind.DEPTHWISE_CONV2D,
}


def estimate_cycles(region: Region, module: IRModule, context: Context) -> int | None:
    """Return the approximate instructions of a region, or None for float regions without
    products."""
    if region.moves:
        return estimate_moves(region, module)
    layer, choice = select_kernel(region, module, context)
    if region.macs:
        return estimate_products(region, module, context, layer, choice)
    in_integers = choice.form is not None and isinstance(layer, Layer | Pair | ByteFunction)
    is_known = in_integers or not has_floats(region, module, context)
    return estimate_moves(region, module) if is_known else None


def estimate_products(
    region: Region, module: IRModule, context: Context, layer: AnyLayer | None, choice: FormChoice
) -> int:
    is_float = isinstance(layer, FloatLayer) if layer else has_floats(region, module, context)
    cost = estimate_mac(choice.form, is_float, context.platform.architecture)
    return round(region.macs * cost)


def estimate_moves(region: Region, module: IRModule) -> int:
    function = module[region.name]
    tensors = (*function.params, *function.body.body.fields)
    each = MOVED if {*region.operators} <= MOVING else ELEMENT
    return round(each * max(prod(static_shape(tensor)) for tensor in tensors))


def estimate_mac(form: Form | None, is_float: bool, architecture: str) -> float:
    if is_float and architecture in WITHOUT_FLOATS:
        return SOFT_FLOAT
    return form.cost if form else LOOPS


def has_floats(region: Region, module: IRModule, context: Context) -> bool:
    """Return whether loops compute floats of the model, or quantized values in float32."""
    use = use_integer_arithmetic(region, module, ROUNDINGS[context.rounding])[1]
    result = module[region.name].body.body.fields[0]
    is_float_model = not use.quantized_operators and dtype_of(result).startswith("float")
    return bool(use.float_operators) or is_float_model


def suggest(region: Region, module: IRModule, context: Context) -> Iterator[Suggestion]:
    """Yield fewer channels, integers, another core or another function, if they save
    instructions. The region has a cost."""
    layer, choice = select_kernel(region, module, context)
    now = None
    if region.macs:
        now = estimate_products(region, module, context, layer, choice)
        yield Suggestion("half as many output channels", now // 2, shrinks=True)
    elif layer:
        now = estimate_moves(region, module)
    if now is None or layer is None:
        return
    kind = ON_INTEGERS.get(layer.kind)
    if kind:
        yield Suggestion(
            "quantize: float32 → int8",
            round(region.macs * estimate_integers(kind, context.platform.features)),
        )
    if region.macs:
        yield from suggest_core(region, layer, context)
    if choice.shared and isinstance(layer, Layer):
        more = round(SHARED[layer.scaling.rounding] * layer.batch * layer.output_elements)
        yield Suggestion("target: c -specialize=speed", now - more)


def estimate_integers(kind: LayerKind, features: Collection[str]) -> float:
    for_bytes = (f for f in FORMS if f.kind is kind and f.bits == 8)
    fitting = (f.cost for f in for_bytes if f.features <= {*features})
    return next(fitting, LOOPS)


def suggest_core(region: Region, layer: AnyLayer, context: Context) -> Iterator[Suggestion]:
    """Yield the next core of the platform's family that needs fewer instructions.

    The platform's core comes first, because it may have more features than the platform lists.
    """
    platform = context.platform
    members = load_families().get(find_family(platform.architecture) or "", {})
    is_float = isinstance(layer, FloatLayer)
    current = choose(layer, platform.features, FORMS).form
    now = estimate_mac(current, is_float, platform.architecture)
    for architecture, features in sorted(
        members.items(), key=lambda member: member[0] != platform.architecture
    ):
        form = choose(layer, features, FORMS).form
        cost = estimate_mac(form, is_float, architecture)
        if {*platform.features} <= {*features} and cost < now:
            more = [f for f in features if f not in platform.features]
            named = f"{architecture} with {' and '.join(more)}" if more else architecture
            yield Suggestion(f"build for {named}", round(region.macs * cost))
            return
