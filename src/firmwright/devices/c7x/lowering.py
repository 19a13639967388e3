"""Lowers layers to calls of the C7x's multiply-accumulate code, and other regions to loops."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from math import ceil

from firmwright.devices.c7x.cost import Core, add_transfer, read_core
from firmwright.devices.c7x.forms import cut, make_forms
from firmwright.devices.c7x.function_names import MMALIB_FORM, OFF
from firmwright.devices.c7x.injective import schedule_for_c7x, use_annotations
from firmwright.devices.c7x.loop_strategies import STRATEGIES
from firmwright.devices.c7x.matrix_unit import (
    describe_differences,
    estimate_calls,
    make_matrix_forms,
)
from firmwright.devices.cpu.forms.form import Form, FormChoice, choose
from firmwright.devices.cpu.lowering import find_form, has_strategy, lower_by_form
from firmwright.ir.byte_layers import AnyLayer
from firmwright.ir.kernels import Cycles, LoweredRegion
from firmwright.ir.layer import Layer, Pair
from firmwright.ir.nodes import IRModule
from firmwright.ir.regions import Region
from firmwright.lowering.integer_layers import CHANNELS_FIRST, read_layer
from firmwright.lowering.region import lower_region
from firmwright.lowering.shifted_layers import read_shifted_layer
from firmwright.targets import Context

PAIR_CYCLES = 3
"""The assumed cycles per vector of sums of two tensors: nine instructions, three per cycle."""


def lower_to_c7x(region: Region, module: IRModule, context: Context) -> LoweredRegion:
    """Lower a region with a form, or to loops if it has no form or a user's strategy."""
    core = read_core(context.platform)
    layer, choice = find_kernel(region, module, context, core)
    if layer is None or choice.form is None:
        lowered = lower_to_loops(region, module, context, core)
        said = " ".join(f"{why}." for why in choice.refusals)
        note = " ".join(part for part in (said, lowered.kernel.note) if part)
        return replace(lowered, kernel=replace(lowered.kernel, note=note or None))
    if choice.form.name == MMALIB_FORM:
        assert isinstance(layer, Layer)
        return lower_by_matrix_unit(region, module, layer, choice.form, core)
    lowered = lower_by_form(region, module, layer, choice.form)
    return replace(lowered, kernel=replace(lowered.kernel, cycles=estimate_layer(core, layer)))


def find_kernel(
    region: Region, module: IRModule, context: Context, core: Core
) -> tuple[AnyLayer | None, FormChoice]:
    """Return the layer of a region and the form for it, with the reasons against other forms."""
    planar, matrix = find_matrix_form(region, module, context, core)
    if matrix.form:
        return planar, matrix
    layer, choice = find_form(region, module, context, make_forms(core))
    return layer, replace(choice, refusals=(*matrix.refusals, *choice.refusals))


def find_matrix_form(
    region: Region, module: IRModule, context: Context, core: Core
) -> tuple[Layer | None, FormChoice]:
    """Return the layer with channels first of a region, and MMALIB's form if it fits."""
    mode, function = context.options.get("mmalib", OFF), module[region.name]
    if mode == OFF or has_strategy(function, context):
        return None, FormChoice(None, ())
    layer = read_layer(function, context.rounding, CHANNELS_FIRST)
    layer = layer or read_shifted_layer(function, CHANNELS_FIRST)
    if layer is None:
        return None, FormChoice(None, ())
    return layer, choose(layer, (), make_matrix_forms(core, mode))


def lower_by_matrix_unit(
    region: Region, module: IRModule, layer: Layer, form: Form, core: Core
) -> LoweredRegion:
    """Lower a layer with channels first to calls of MMALIB."""
    lowered = lower_by_form(region, module, layer, form)
    note = " ".join(filter(None, [lowered.kernel.note, describe_differences(layer)]))
    kernel = replace(lowered.kernel, cycles=estimate_calls(core, layer), note=note)
    return replace(lowered, kernel=kernel)


def lower_to_loops(region: Region, module: IRModule, context: Context, core: Core) -> LoweredRegion:
    strategies = (*context.strategies, *STRATEGIES)
    scheduler = partial(schedule_for_c7x, core=core)
    lowered = lower_region(region, module, context.rounding, strategies, scheduler, use_annotations)
    # No buffers are shared, because streams read ahead. A message to this core also lists its input
    # buffers separately.
    return replace(lowered, kernel=replace(lowered.kernel, in_place=()))


def estimate_layer(core: Core, layer: AnyLayer) -> Cycles | None:
    if isinstance(layer, Pair):
        vectors = ceil(layer.elements / (core.vector // 4))
        return add_transfer(core, vectors * PAIR_CYCLES, 3 * layer.elements, beside=True)
    assert isinstance(layer, Layer)  # no form supports floats
    strips = cut(core, layer)
    return add_transfer(core, strips.compute_cycles, strips.moved_bytes, beside=True)


def describe_kernel(region: Region, module: IRModule, context: Context) -> str:
    layer, choice = find_kernel(region, module, context, read_core(context.platform))
    if choice.form:
        return choice.form.name
    if layer is not None and not choice.refusals:
        return f"loops: no form for {layer.kind.value}"
    return f"loops: {'; '.join(choice.refusals)}" if choice.refusals else "loops"
