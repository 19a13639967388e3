"""Transposes tall images, because the accelerator computes 16 columns of one row at a time.

An image of 25 rows and 5 columns has 25 blocks. After a transposition, the image has 10 blocks.
Layers that read each other's results are transposed together. Their kernels are also transposed, so
that no result changes. The core must transpose only the inputs and outputs of these layers. HTVM's
users transpose DS-CNN by hand.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from math import prod

import numpy as np
import tvm
from tvm import relax

from firmwright.devices.soma_dory.accelerator_layer import AcceleratorLayer
from firmwright.devices.soma_dory.convolution_rewrites import make_convolution
from firmwright.devices.soma_dory.matching import Match
from firmwright.ir.chains import CONVOLUTION
from firmwright.ir.layer import LayerKind
from firmwright.ir.relax import (
    bind,
    main_bindings,
    operator_name,
    read_variables,
    rewrite_bindings,
    static_shape,
)

CYCLES_PER_BYTE = 10
"""The maximum of the core's cycles per moved byte in the emulator."""

SWAP_ROWS_COLUMNS = [0, 1, 3, 2]

UPRIGHT = (LayerKind.DENSE, LayerKind.ANALOG_CONV2D)
"""Layers that are not transposed, because they have no images or no known cycles."""

LayersByMatch = Mapping[Match, AcceleratorLayer]


def transpose_images(
    module: tvm.IRModule,
    layers: LayersByMatch,
    accepted: Callable[[AcceleratorLayer], bool],
    cycles: Callable[[AcceleratorLayer], int],
) -> tvm.IRModule:
    """Transpose connected layers if the saved accelerator cycles exceed the cost.

    ``cycles`` are the accelerator's cycles. ``layers`` are the layers that the accelerator accepts.
    Variables with readers outside these layers keep their orientation.
    """
    turned: dict[relax.Var, Match] = {}
    for component in group_connected([m for m in layers if m.kind not in UPRIGHT]):
        before = [layers[m] for m in component]
        after = [transpose_layer(layer) for layer in before]
        saved = sum(map(cycles, before)) - sum(map(cycles, after))
        if all(map(accepted, after)) and saved > CYCLES_PER_BYTE * count_boundary_bytes(
            module, component
        ):
            turned.update((v, m) for m in component for v in m.variables)
    if not turned:
        return module
    sideways: dict[relax.Var, relax.Var] = {}

    def rewrite(binding: relax.VarBinding) -> list[relax.VarBinding]:
        match = turned.get(binding.var)
        return [binding] if match is None else transpose_operator(binding, match, layers, sideways)

    return rewrite_bindings(module, rewrite)


def group_connected(matches: list[Match]) -> list[list[Match]]:
    """Return groups of image layers that read each other's results, in order of execution."""
    components: list[list[Match]] = []
    for match in matches:
        if len(static_shape(match.result)) != 4:
            continue
        read = [c for c in components if any(m.result in match.sums.inputs for m in c)]
        components = [c for c in components if c not in read]
        components.append([*(m for c in read for m in c), match])
    return components


def transpose_layer(layer: AcceleratorLayer) -> AcceleratorLayer:
    top, left, bottom, right = layer.padding
    weights = layer.weights
    return replace(
        layer,
        height=layer.width,
        width=layer.height,
        out_height=layer.out_width,
        out_width=layer.out_height,
        kernel=layer.kernel[::-1],
        strides=layer.strides[::-1],
        padding=(left, top, right, bottom),
        weights=None if weights is None else np.ascontiguousarray(weights.swapaxes(2, 3)),
    )


def count_boundary_bytes(module: tvm.IRModule, component: list[Match]) -> int:
    inside = {v for m in component for v in m.variables}
    crossing = {x for m in component for x in m.sums.inputs if x not in inside}
    read = set(read_variables(module["main"].body.body))
    for binding in main_bindings(module):
        if binding.var not in inside:
            read.update(read_variables(binding.value))
    crossing |= inside & read
    return sum(prod(static_shape(v)) for v in crossing)


def transpose_operator(
    binding: relax.VarBinding,
    match: Match,
    layers: LayersByMatch,
    sideways: dict[relax.Var, relax.Var],
) -> list[relax.VarBinding]:
    """Return the bindings of a layer's operator on transposed images.

    ``sideways`` maps variables to the variables of the transposed images. The function adds entries
    to this map.
    """
    bindings: list[relax.VarBinding] = []

    def bind_sideways(expression: relax.Expr, upright: relax.Var) -> None:
        sideways[upright] = bind(bindings, expression, str(upright.name))

    call = binding.value
    for variable in read_variables(call):
        if variable not in sideways:
            bind_sideways(relax.op.permute_dims(variable, SWAP_ROWS_COLUMNS), variable)
    if operator_name(call) == CONVOLUTION:
        layer = transpose_layer(layers[match])
        turned = make_convolution(sideways[call.args[0]], layer, call)
    else:
        arguments = [sideways[a] if isinstance(a, relax.Var) else a for a in call.args]
        turned = tvm.ir.Call(call.op, arguments, call.attrs)
    bind_sideways(turned, binding.var)
    if binding.var.same_as(match.result):
        upright = relax.op.permute_dims(sideways[binding.var], SWAP_ROWS_COLUMNS)
        bind(bindings, upright, binding.var)
    return bindings
