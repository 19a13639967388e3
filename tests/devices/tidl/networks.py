"""Float networks of a few operators, as users of TIDL have them before the quantization."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import tvm
from tvm import relax

from firmwright.devices.tidl.placing import place_regions
from firmwright.models.relax.importer import run_reference
from firmwright.partition.grouping import Group
from firmwright.partition.outline import outline, read_graph
from firmwright.targets import Context
from firmwright.targets.placement import Placement
from firmwright.toolchain import load_platform
from firmwright.transforms import canonicalize

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


def float_convolution() -> tvm.IRModule:
    """Return a convolution ``conv`` with a ReLU."""

    def build(builder: relax.BlockBuilder, x: relax.Var) -> list[relax.Expr]:
        return [relax.op.nn.relu(builder.emit(relax.op.nn.conv2d(x, values(4, 4, 3, 3)), "conv"))]

    return network(build)


def quantized_convolution(
    results: str,
    weights: str,
    behind: Callable[[relax.Expr], relax.Expr] | None = None,
    transposed: bool = False,
    scale: float | list[float] = 0.25,
    zero_point: int = 0,
) -> tvm.IRModule:
    """Return a convolution ``conv`` in QDQ form, followed by the operator ``behind``.

    ``scale`` is the scale of the weights, by channel if there are several, and of the result,
    which has the ``zero_point``.
    """
    grid = relax.const(np.float32(np.max(scale))), relax.const(np.array(zero_point, results))
    quarter = relax.const(np.float32(0.25)), relax.const(np.int8(0))
    of_weights = (
        relax.const(np.array(scale, "float32")),
        relax.const(np.zeros(np.shape(scale), weights)),
    )

    def build(builder: relax.BlockBuilder, x: relax.Var) -> list[relax.Expr]:
        kernel = relax.const((np.arange(4 * 4 * 4) % 7 - 3).reshape(4, 4, 2, 2).astype(weights))
        arguments = [
            relax.op.dequantize(x, *quarter),
            relax.op.dequantize(kernel, *of_weights, axis=0),
        ]
        operator = relax.op.nn.conv2d_transpose if transposed else relax.op.nn.conv2d
        conv = builder.emit(operator(*arguments, strides=[2, 2]), "conv")
        found = builder.emit(relax.op.quantize(conv, *grid, out_dtype=results))
        if behind is None:
            return [found]
        last = builder.emit(behind(relax.op.dequantize(found, *grid)), "behind")
        return [relax.op.quantize(last, *grid, out_dtype=results)]

    return network(build, dtype="int8")


def placed(module: tvm.IRModule, platform: str = "am62a", **options: str) -> Placement:
    """Return the regions that TIDL supports; it uses floats unless the options state otherwise."""
    module = canonicalize(module)
    given = {"tensor_bits": "32", **{k.replace("__", ":"): v for k, v in options.items()}}
    return place_regions(module, Context(load_platform(platform), "onnx", given))


def names(placement: Placement) -> list[list[str]]:
    return [[str(v.name) for v in c.variables] for c in placement.composites]


def sentences(placement: Placement) -> dict[str, str]:
    """Return the message for each rule that layers break."""
    return {o.rule: o.sentence for found in placement.violations.values() for o in found}


def region_of(module: tvm.IRModule) -> relax.Function:
    """Return the whole network as the function of a region, which returns a tuple."""
    bindings, outputs = read_graph(module)
    group = Group(bindings, read_outside=outputs)
    return outline(group)[0]


def saved(module: tvm.IRModule) -> bytes:
    data: bytes = tvm.ir.save_json(module).encode()
    return data


def vm_outputs(module: tvm.IRModule, *inputs: Any) -> list[Any]:
    """Return the result of TVM's virtual machine for the inputs."""
    names = [str(p.name) for p in module["main"].params]
    sample = dict(zip(names, inputs, strict=True))
    return run_reference(saved(module), [sample]).outputs[0]
