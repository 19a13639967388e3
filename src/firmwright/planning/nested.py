"""Lowers a region of several layers to plain C code.

Each layer is lowered separately, and one kernel contains all layers.
"""

from __future__ import annotations

from collections.abc import Sequence
from textwrap import indent

import tvm

from firmwright.ir.kernels import Kernel, Kernels, LoweredRegion, Parameter
from firmwright.ir.regions import Partition, Region
from firmwright.ir.tensors import ELEMENT_BYTES
from firmwright.lowering.region import lower_region
from firmwright.partition.outline import cut_region
from firmwright.planning.overwritten_inputs import share_pointers
from firmwright.planning.plan import Input, Location, Output, Plan, Slot, make_plan
from firmwright.targets import Context

SCRATCH_NAME = "memory"
"""The name of the parameter that contains the tensors between layers."""


def lower_in_layers(
    region: Region, module: tvm.IRModule, context: Context, stand_in: str | None = None
) -> LoweredRegion:
    """Cut the region into layers as for the fallback device, and join their C code.

    The loops are plain and not optimized for the fallback device, because the region does not run
    on it. ``stand_in`` becomes the kernel's ``stand_in``.
    """
    assert context.fallback is not None  # a mix ends with a fallback device
    inner, partition = cut_region(region, module, context.fallback)
    regions = [r for r in partition.regions if not r.view]
    layers = [lower_region(r, inner, context.rounding) for r in regions]
    return join_kernels(region, partition, layers, stand_in)


def join_kernels(
    region: Region, layers: Partition, lowered: Sequence[LoweredRegion], stand_in: str | None
) -> LoweredRegion:
    """Return a kernel that runs the ``lowered`` layers, in order, as one region.

    ``layers`` is the partition of the region. The tensors between layers are at planned offsets of
    one scratch buffer. The names of weights begin with the region's name.
    """
    kernels = Kernels(tuple(layer.kernel for layer in lowered))
    plan = make_plan(layers, kernels)
    inputs = make_parameters(layers, layers.inputs, region.inputs, "input")
    outputs = make_parameters(layers, layers.outputs, region.outputs, "output")
    scratch = (Parameter(SCRATCH_NAME, "uint8", plan.arena_bytes, f"{region.name}_{SCRATCH_NAME}"),)
    steps = {r.name: r for r in layers.regions}
    weights: list[Parameter] = []
    blocks = []
    for number, kernel in enumerate(share_pointers(k, plan.locations) for k in kernels.kernels):
        pointers = [
            Parameter(f"layer{number}_{w.name}", w.dtype, w.elements, f"{region.name}_{w.tensor}")
            for w in kernel.weights
        ]
        weights += pointers
        blocks.append(emit_block(steps[kernel.region], kernel, pointers, plan))
    return LoweredRegion(
        Kernel(
            region=region.name,
            inputs=tuple(inputs),
            weights=tuple(weights),
            outputs=tuple(outputs),
            scratch=scratch if plan.arena_bytes else (),
            body="\n".join(blocks),
            functions=tuple(sorted({f for k in kernels.kernels for f in k.functions})),
            quantized_operators=kernels.quantized_operators,
            float_operators=kernels.float_operators,
            headers=tuple(sorted({h for k in kernels.kernels for h in k.headers})),
            stand_in=stand_in,
            library_functions=tuple(
                dict.fromkeys(f for k in kernels.kernels for f in k.library_functions)
            ),
        ),
        {f"{region.name}_{n}": array for layer in lowered for n, array in layer.weights.items()},
    )


def make_parameters(
    layers: Partition, names: Sequence[str], tensors: Sequence[str], role: str
) -> list[Parameter]:
    """Return the region's parameters ``region_input_0`` … or ``region_output_0`` …."""
    known = {t.name: t for t in layers.tensors}
    return [
        Parameter(f"region_{role}_{i}", known[local].dtype, known[local].elements, tensor)
        for i, (local, tensor) in enumerate(zip(names, tensors, strict=True))
    ]


def emit_block(layer: Region, kernel: Kernel, weights: Sequence[Parameter], plan: Plan) -> str:
    """Return a layer as a C block that contains its parameters as pointers, then its body."""
    lines = [f"    /* {layer.anchor}: {', '.join(layer.sources).replace('*/', '* /')} */", "    {"]
    lines += [emit_pointer(p, plan.locations[p.tensor], "const ") for p in kernel.inputs]
    lines += [
        f"        const {weight.c_type} *restrict {weight.name} = {given.name};"
        for weight, given in zip(kernel.weights, weights, strict=True)
    ]
    results = (*kernel.outputs, *kernel.scratch)
    lines += [emit_pointer(p, plan.locations[p.tensor]) for p in results]
    return "\n".join([*lines, indent(kernel.body, "    ").rstrip(), "    }"])


def emit_pointer(parameter: Parameter, location: Location, const: str = "") -> str:
    """Return the C code of a pointer to a layer's tensor.

    The tensor is in the scratch buffer or in a parameter of the region.
    """
    kind = f"{const}{parameter.c_type} *"
    match location:
        case Input(index, offset):
            where = f"region_input_{index} + {offset // ELEMENT_BYTES[parameter.dtype]}"
        case Output(index, offset):
            where = f"region_output_{index} + {offset // ELEMENT_BYTES[parameter.dtype]}"
        case Slot(_, offset):
            where = f"({kind})&{SCRATCH_NAME}[{offset}]"
    return f"        {kind}restrict {parameter.name} = {where.removesuffix(' + 0')};"
