"""Lowers a layer of DIANA's accelerator to one C function: loops over tiles around jobs.

Transfers and jobs are calls of ``fw_soma.h``, which wait for the end. If a platform has double
buffering, tiles alternate between two buffers of L1. A driver may then start the next load during a
job. No driver in this repository does this, but the estimated cycles assume the overlap.
"""

from __future__ import annotations

import textwrap
from math import prod

from firmwright.codegen.templates import make_environment, render
from firmwright.devices.soma_dory.accelerator_layer import AcceleratorLayer
from firmwright.devices.soma_dory.cost import Accelerator
from firmwright.devices.soma_dory.device_layout import SPARE, ZEROS
from firmwright.devices.soma_dory.packed_weights import pack_weights
from firmwright.devices.soma_dory.tiled_body import render_layer
from firmwright.devices.soma_dory.tiles import align
from firmwright.devices.soma_dory.tiling import Tiling, find_best_tiling
from firmwright.ir.kernels import Kernel, LoweredRegion, Parameter
from firmwright.ir.layer import Array, LayerKind
from firmwright.ir.nodes import IRModule
from firmwright.ir.regions import Region
from firmwright.ir.relax import dtype_of, static_shape

TEMPLATE = "soma_dory/layers/layout_transform.c.j2"


def lower_layer(region: Region, layer: AcceleratorLayer, accelerator: Accelerator) -> LoweredRegion:
    """Return the region's function, its packed weights, and its estimated cycles.

    Inputs and outputs are int8 in device layout. Raises UserError if no tiling is possible.
    """
    tiling = find_best_tiling(layer, accelerator)
    weights: dict[str, Array] = {}
    if layer.kind is not LayerKind.ADD:
        # Words, not bytes, because the accelerator requires addresses that are multiples of 4.
        weights[f"{region.name}_weights"] = pack_weights(layer).view("<u4")
    names = ["input_0", "input_1"] if layer.kind is LayerKind.ADD else ["input"]
    # An addition of a tensor to itself has one input of the region.
    tensors = [region.inputs[0], region.inputs[-1]][: len(names)]
    kernel = Kernel(
        region=region.name,
        inputs=tuple(
            Parameter(name, "int8", input_bytes(layer), tensor)
            for name, tensor in zip(names, tensors, strict=True)
        ),
        weights=tuple(
            Parameter("weights", "uint32", array.size, name) for name, array in weights.items()
        ),
        outputs=(Parameter("output", "int8", output_bytes(layer), region.outputs[0]),),
        scratch=(),
        body=render_layer(tiling, accelerator.double_buffering, count_surplus(layer)),
        functions=(),
        quantized_operators=0,
        float_operators=(),
        headers=("fw_soma.h",),
        cycles=tiling.cycles,
        note=describe_tiling(tiling),
    )
    return LoweredRegion(kernel, weights)


def describe_tiling(tiling: Tiling) -> str:
    layer, tile = tiling.layer, tiling.tile
    jobs = layer.batch * tiling.jobs
    if jobs == 1:
        return "One job computes the whole layer."
    return f"{jobs} jobs compute up to {tile.channels} x {tile.rows} x {tile.columns} results each."


def count_surplus(layer: AcceleratorLayer) -> int:
    """Return the number of columns after the results that must be set to 0.

    Sums of zeros are zeros. A dense layer has weights of zeros for the padding of its outputs.
    """
    if layer.kind in (LayerKind.ADD, LayerKind.DENSE):
        return 0
    return min(ZEROS, align(layer.out_width) - layer.out_width)


def input_bytes(layer: AcceleratorLayer) -> int:
    """Return the bytes of one input in device layout."""
    sample = sample_bytes(layer, layer.channels, layer.height, layer.width)
    return layer.batch * sample + SPARE


def output_bytes(layer: AcceleratorLayer) -> int:
    sample = sample_bytes(layer, layer.out_channels, layer.out_height, layer.out_width)
    return layer.batch * sample + SPARE


def sample_bytes(layer: AcceleratorLayer, channels: int, height: int, width: int) -> int:
    if layer.kind is LayerKind.DENSE:
        return align(channels)
    return channels * height * align(width)


def lower_transform(region: Region, module: IRModule) -> LoweredRegion:
    """Lower a transform to or from device layout. The shapes of its function determine the
    direction.

    If rows need no padding, both directions are equal.
    """
    function = module[region.name]
    (read,), (written,) = function.params, function.body.body.fields
    before, after = static_shape(read), static_shape(written)
    sizes = {"rows": prod(before[:-1]), "before": before[-1], "after": after[-1]}
    body = render(make_environment(), TEMPLATE, sizes).rstrip()
    kernel = Kernel(
        region=region.name,
        inputs=(Parameter("input", dtype_of(read), prod(before), region.inputs[0]),),
        weights=(),
        outputs=(Parameter("output", dtype_of(written), prod(after), region.outputs[0]),),
        scratch=(),
        body=textwrap.indent(body, "    "),
        functions=(),
        quantized_operators=0,
        float_operators=(),
    )
    return LoweredRegion(kernel, {})
