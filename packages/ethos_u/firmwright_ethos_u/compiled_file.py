"""Reads a TFLite file from Vela, which contains one operator `ethos-u`.

The operator's inputs are the driver's payload, the constants, the scratch memory, the fast scratch
memory, and the network's inputs. Region 0 contains the constants, and regions 1 and 2 are the
scratch memories. The metadata `OfflineMemoryAllocation` contains the offset of each tensor in the
arena.
"""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np
from ai_edge_litert import schema_py_generated as schema

from firmwright.device import Tensor, UserError
from firmwright_ethos_u.compiler import CompiledNetwork, Port

IDENTIFIER = b"TFL3"
OPERATOR = b"ethos-u"
CONSTANTS, SCRATCH, FAST_SCRATCH = 0, 1, 2
PLAN = b"OfflineMemoryAllocation"
PLAN_HEADER = 3
"""The number of integers before the offsets: version, number of subgraphs, number of tensors."""

DTYPES = {
    schema.TensorType.INT8: "int8",
    schema.TensorType.UINT8: "uint8",
    schema.TensorType.INT16: "int16",
    schema.TensorType.INT32: "int32",
}


def read_compiled(data: bytes) -> CompiledNetwork:
    """Return the network of a compiled file.

    Raises UserError if the file is not a TFLite file, has other operators, or has no plan of the
    arena.
    """
    if data[4:8] != IDENTIFIER:
        raise UserError(
            f"the file is not a TFLite file (bytes 4 to 7 are {data[4:8]!r}); "
            f"expected {IDENTIFIER!r}"
        )
    model: Any = schema.ModelT.InitFromObj(schema.Model.GetRootAs(data, 0))
    graphs = model.subgraphs or []
    operators = [operator for graph in graphs for operator in graph.operators or []]
    kinds = [model.operatorCodes[operator.opcodeIndex].customCode for operator in operators]
    if len(graphs) != 1 or kinds != [OPERATOR]:
        raise UserError(
            f"the file has {len(graphs)} subgraphs and {len(kinds)} operators "
            f"({kinds.count(OPERATOR)} of them compiled by Vela); expected one compiled operator"
        )
    (graph,) = graphs
    operator = graph.operators[0]
    payload, constants, scratch, fast = operator.inputs[:4]
    offsets = read_plan(model)
    sizes = {SCRATCH: prod(int(n) for n in graph.tensors[scratch].shape)}
    if fast != scratch:
        sizes[FAST_SCRATCH] = prod(int(n) for n in graph.tensors[fast].shape)

    def locate(index: int) -> Port:
        tensor = graph.tensors[index]
        if tensor.type not in DTYPES:
            raise UserError(f"tensor '{tensor.name.decode()}' has an unsupported type")
        address = int(offsets[index] - offsets[scratch])
        width = np.dtype(DTYPES[tensor.type]).itemsize
        shape = tuple(int(length) for length in tensor.shape)
        return Port(SCRATCH, address, prod(shape) * width, width, shape, DTYPES[tensor.type])

    def read(index: int) -> bytes:
        found = model.buffers[graph.tensors[index].buffer].data
        return b"" if found is None else bytes(found)

    return CompiledNetwork(
        payload=read(payload),
        constants=read(constants),
        constants_region=CONSTANTS,
        scratch=sizes,
        inputs=tuple(locate(index) for index in graph.inputs),
        outputs=tuple(locate(index) for index in graph.outputs),
        estimated_cycles=None,
    )


def read_tensors(data: bytes) -> tuple[list[Tensor], list[Tensor]]:
    """Return the inputs and the outputs of a compiled file."""
    model: Any = schema.ModelT.InitFromObj(schema.Model.GetRootAs(data, 0))
    (graph,) = model.subgraphs
    inputs, outputs = (
        [describe_tensor(graph.tensors[index]) for index in indices]
        for indices in (graph.inputs, graph.outputs)
    )
    return inputs, outputs


def describe_tensor(tensor: Any) -> Tensor:
    grid = tensor.quantization
    quantized = grid is not None and grid.scale is not None and len(grid.scale) == 1
    return Tensor(
        tensor.name.decode(),
        tuple(int(length) for length in tensor.shape),
        DTYPES[tensor.type],
        float(grid.scale[0]) if quantized else None,
        int(grid.zeroPoint[0]) if quantized else None,
    )


def read_plan(model: Any) -> list[int]:
    """Return the offset of each tensor in the arena.

    Raises UserError if the file does not contain the offsets.
    """
    for entry in model.metadata or []:
        if entry.name == PLAN:
            data = bytes(model.buffers[entry.buffer].data)
            return [int(offset) for offset in np.frombuffer(data, "<i4")[PLAN_HEADER:]]
    raise UserError(f"the file has no metadata {PLAN.decode()}; compile it with Vela again")
