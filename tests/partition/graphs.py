"""Partitions and Relax functions in few lines, for tests of single modules."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

import tvm
from tvm import relax

from firmwright.ir.regions import Partition, Region
from firmwright.ir.relax import main_bindings
from firmwright.ir.tensors import Tensor

Shape = tuple[int, ...]


def make_region(
    name: str, device: str, *inputs: str, view: bool = False, operator: str = "conv2d"
) -> Region:
    """Return a region that writes the tensor ``<name>_result``."""
    result = (f"{name}_result",)
    return Region(name, device, "", "", (), (operator,), inputs, result, 0, view, ())


def make_partition(
    inputs: tuple[str, ...],
    outputs: tuple[str, ...],
    *regions: Region,
    states: int = 0,
    shapes: Mapping[str, Shape] = MappingProxyType({}),
) -> Partition:
    """Return regions over int8 tensors of 4 bytes, or of the ``shapes`` given by name."""
    names = (*inputs, *(name for region in regions for name in region.outputs))
    tensors = tuple(Tensor(name, shapes.get(name, (4,)), "int8") for name in names)
    return Partition(inputs, outputs, tensors, regions, states=states)


def build_main(
    write: Callable[..., relax.Expr], *parameters: tuple[Shape, str]
) -> tuple[tvm.IRModule, list[relax.VarBinding]]:
    """Return a module whose ``main`` returns the expression that ``write`` returns, and its body.

    ``parameters`` are shapes and types of what ``write`` receives.
    """
    builder = relax.BlockBuilder()
    given = [relax.Var(f"p{i}", relax.TensorType(s, t)) for i, (s, t) in enumerate(parameters)]
    with builder.function("main", given):
        with builder.dataflow():
            result = builder.emit_output(builder.normalize(write(*given)))
        builder.emit_func_output(result)
    module = builder.get()
    return module, main_bindings(module)
