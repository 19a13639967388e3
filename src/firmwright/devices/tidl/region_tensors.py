"""Computes the tensors between regions, with a run of the whole network on the host."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import tvm
from tvm import relax

from firmwright.errors import UserError, first_line
from firmwright.ir.regions import Partition, Region
from firmwright.ir.virtual_machine import make_virtual_machine

Array = npt.NDArray[Any]


def compute_tensors(
    module: tvm.IRModule,
    partition: Partition,
    samples: Sequence[Mapping[str, Array]],
    wanted: Sequence[str],
) -> Iterator[dict[str, Array]]:
    """Yield the partition's tensors with the names in ``wanted``, per sample.

    ``module`` is the result of the partition stage, with one function per region. A sample has one
    array per input of the partition, in the order of the inputs. TVM's Relax virtual machine
    computes the values. A quantized tensor may differ from the tensor in C by one step. Raises
    UserError if the machine rejects the network.
    """
    regions = select_regions(partition, wanted)
    given = [dict(zip(partition.inputs, sample.values(), strict=True)) for sample in samples]
    if not regions:
        yield from ({name: sample[name] for name in wanted} for sample in given)
        return
    whole = join_regions(module, partition, regions, wanted)
    try:
        machine = make_virtual_machine(whole)
        for sample in given:
            tensors = machine["main"](*(tvm.runtime.tensor(array) for array in sample.values()))
            yield dict(zip(wanted, (np.array(t.numpy()) for t in tensors), strict=True))
    except (RuntimeError, TypeError, ValueError) as error:  # the base classes of all TVM errors
        raise UserError(
            f"TVM's virtual machine cannot run the network's regions: {first_line(error)}; please "
            "report it with the model"
        ) from error


def select_regions(partition: Partition, wanted: Sequence[str]) -> list[Region]:
    read, regions = set(wanted), []
    for region in reversed(partition.regions):
        if not read.isdisjoint(region.outputs):
            read.update(region.inputs)
            regions.append(region)
    return regions[::-1]


def join_regions(
    module: tvm.IRModule, partition: Partition, regions: Sequence[Region], wanted: Sequence[str]
) -> tvm.IRModule:
    """Return a module whose ``main`` calls ``regions`` in order and returns ``wanted``."""
    described = {tensor.name: tensor for tensor in partition.tensors}
    functions = {str(v.name_hint): f for v, f in module.functions.items()}
    builder = relax.BlockBuilder()
    for name, function in sorted(functions.items()):
        if isinstance(function, tvm.tirx.PrimFunc):
            builder.add_func(function, name)
    called = {
        r.name: builder.add_func(functions[r.name].without_attr("global_symbol"), r.name)
        for r in regions
    }
    parameters = [
        relax.Var(n, relax.TensorType(described[n].shape, described[n].dtype))
        for n in partition.inputs
    ]
    values: dict[str, relax.Expr] = dict(zip(partition.inputs, parameters, strict=True))
    with builder.function("main", parameters):
        with builder.dataflow():
            for region in regions:
                call = relax.Call(called[region.name], [values[i] for i in region.inputs])
                results = builder.emit(call)
                for index, tensor in enumerate(region.outputs):
                    values[tensor] = builder.emit(relax.TupleGetItem(results, index))
            returned = builder.emit_output(relax.Tuple([values[name] for name in wanted]))
        builder.emit_func_output(returned)
    return builder.get()
