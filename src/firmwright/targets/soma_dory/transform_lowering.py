"""A layout transform becomes one C function, which the CPU runs."""

from __future__ import annotations

import textwrap
from math import prod

import tvm

from firmwright.codegen.templates import make_environment, render
from firmwright.ir.kernels import Kernel, LoweredRegion, Parameter
from firmwright.ir.regions import Region
from firmwright.ir.relax import dtype_of, static_shape

TEMPLATE = "soma_dory/layers/layout_transform.c.j2"


def lower_transform(region: Region, module: tvm.IRModule) -> LoweredRegion:
    """Lower a transform to or from device layout; its function's shapes tell which.

    Where rows need no padding it is the same in both directions.
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
