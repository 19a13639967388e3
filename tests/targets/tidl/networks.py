"""Float networks of a few operators, as users of TIDL have them before it quantises."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import tvm
from tvm import relax

from firmwright.partition.placement import Placement
from firmwright.targets import Context
from firmwright.targets.tidl.placing import place_regions
from firmwright.toolchain import load_platform
from firmwright.transforms import CANONICAL

Build = Callable[[relax.BlockBuilder, relax.Var], list[relax.Expr]]


def values(*shape: int) -> relax.Expr:
    count = int(np.prod(shape))
    return relax.const((np.arange(count) % 7 - 3).reshape(shape).astype("float32"))


def network(build: Build, shape: tuple[int, ...] = (1, 4, 8, 8), dtype: Any = "float32") -> Any:
    """Return the module of ``build``, which emits named operators and returns the outputs."""
    builder = relax.BlockBuilder()
    x = relax.Var("x", relax.TensorType(shape, dtype))
    with builder.function("main", [x]):
        with builder.dataflow():
            outputs = [builder.emit_output(e) for e in build(builder, x)]
        builder.emit_func_output(outputs if len(outputs) > 1 else outputs[0])
    return builder.get()


def placed(module: tvm.IRModule, platform: str = "am62a", **options: str) -> Placement:
    """Ask TIDL what it takes; it takes floats unless the options say otherwise."""
    for transform in CANONICAL:
        module = transform.apply(module)
    given = {"tensor_bits": "32", **{k.replace("__", ":"): v for k, v in options.items()}}
    return place_regions(module, Context(load_platform(platform), "onnx", given))


def names(placement: Placement) -> list[list[str]]:
    return [[str(v.name) for v in c.variables] for c in placement.composites]


def sentences(placement: Placement) -> dict[str, str]:
    """Return what is said of the layers that TIDL does not take, by rule."""
    return {o.rule: o.sentence for found in placement.objections.values() for o in found}
