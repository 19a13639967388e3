"""A region of many layers in plain C: the layers one by one, joined again."""

from __future__ import annotations

import tvm
from tvm import relax

from firmwright.ir.kernels import LoweredRegion
from firmwright.ir.regions import Region
from firmwright.ir.relax import dtype_of, static_shape
from firmwright.ir.tensors import ModelInterface, Tensor
from firmwright.lowering.region import lower_region
from firmwright.partition.outline import partition_module
from firmwright.planning.join_kernels import join_kernels
from firmwright.targets import Context


def lower_in_layers(
    region: Region, module: tvm.IRModule, context: Context, stand_in: str | None = None
) -> LoweredRegion:
    """Cut the region into layers as for the device that takes the rest, and join their C.

    The loops are plain ones, not those of the device behind: they are not its work. ``stand_in``
    is the kernel's.
    """
    assert context.fallback is not None  # a mix ends with a device that takes the rest
    functions = {g: f for g, f in module.functions.items() if isinstance(f, tvm.tirx.PrimFunc)}
    main = module[region.name].without_attr("global_symbol")
    whole = tvm.IRModule({**functions, tvm.ir.GlobalVar("main"): main})
    inner, partition = partition_module(whole, make_interface(main), (context.fallback,))
    regions = [r for r in partition.regions if not r.view]
    layers = [lower_region(r, inner, context.rounding) for r in regions]
    return join_kernels(region, partition, layers, stand_in)


def make_interface(main: relax.Function) -> ModelInterface:
    """Describe a region's inputs and outputs by the names of their variables."""
    inputs, outputs = ([make_tensor(v) for v in vs] for vs in (main.params, main.body.body.fields))
    return ModelInterface("relax", "", tuple(inputs), tuple(outputs), ())


def make_tensor(variable: relax.Var) -> Tensor:
    return Tensor(str(variable.name), static_shape(variable), dtype_of(variable))
