"""A network of one max-pooling, lowered by a device."""

from __future__ import annotations

from collections.abc import Sequence

import tvm
from tvm import relax

from firmwright.ir.regions import Region
from firmwright.models.relax.importer import import_model
from firmwright.partition.outline import partition_module
from firmwright.recipe.target import parse_target
from firmwright.targets import Device
from firmwright.targets.load_devices import load_mix
from firmwright.toolchain import load_platform

POOL = "relax.nn.max_pool2d"
MIX = load_mix(parse_target("c"), load_platform("host"), "onnx")


def pooling(pool: int, mix: Sequence[Device] = MIX) -> tuple[tvm.IRModule, Region]:
    """Return the module and the only region of a pooling of float32 [1, 2, 4, 4] by 2."""
    x = relax.Var("x", relax.TensorType((1, 2, 4, 4), "float32"))
    builder = relax.BlockBuilder()
    with builder.function("main", [x]):
        call = relax.op.nn.max_pool2d(x, pool_size=[pool, pool], strides=[2, 2])
        builder.emit_func_output(builder.emit(call))
    module, interface = import_model(tvm.ir.save_json(builder.get()).encode(), "pool", {})
    module, partition = partition_module(module, interface, mix)
    return module, partition.regions[0]
