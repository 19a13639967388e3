"""Small quantized TFLite models: any number of operators, each with separate inputs and output."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import flatbuffers
import numpy as np
import numpy.typing as npt
from ai_edge_litert import schema_py_generated as schema
from flatbuffers import flexbuffers

Array = npt.NDArray[Any]


@dataclass(frozen=True)
class Quantization:
    """Scale and zero point of a tensor, or ``scales`` with one scale per channel along ``axis``."""

    scale: float
    zero_point: int = 0
    scales: tuple[float, ...] = ()
    axis: int = 0


@dataclass
class ModelBuilder:
    """Collects tensors and operators; :meth:`build` returns the file's bytes."""

    graph: Any = field(default_factory=schema.SubGraphT)
    model: Any = field(default_factory=schema.ModelT)
    limits: dict[str, tuple[float, float]] = field(default_factory=dict)
    """The limits of the values of some inputs; the upper limit is excluded."""

    def __post_init__(self) -> None:
        self.model.version = 3
        self.model.buffers = [schema.BufferT()]
        self.model.operatorCodes = []
        self.model.subgraphs = [self.graph]
        self.graph.tensors, self.graph.operators = [], []
        self.graph.inputs, self.graph.outputs = [], []

    def tensor(
        self,
        shape: tuple[int, ...],
        dtype: str,
        grid: Quantization | None,
        data: Array | None = None,
    ) -> int:
        tensor = schema.TensorT()
        tensor.name = f"t{len(self.graph.tensors)}"
        tensor.shape = list(shape)
        tensor.type = getattr(schema.TensorType, dtype.upper())
        if grid is not None:
            scales = list(grid.scales) or [grid.scale]
            tensor.quantization = schema.QuantizationParametersT()
            tensor.quantization.scale = scales
            tensor.quantization.zeroPoint = [grid.zero_point] * len(scales)
            tensor.quantization.quantizedDimension = grid.axis
        if data is not None:
            buffer = schema.BufferT()
            buffer.data = np.frombuffer(np.ascontiguousarray(data).tobytes(), np.uint8)
            self.model.buffers.append(buffer)
            tensor.buffer = len(self.model.buffers) - 1
        self.graph.tensors.append(tensor)
        return len(self.graph.tensors) - 1

    def input(self, shape: tuple[int, ...], dtype: str, grid: Quantization | None) -> int:
        index = self.tensor(shape, dtype, grid)
        self.graph.inputs.append(index)
        return index

    def constant(self, data: Array, grid: Quantization | None = None, packed: bool = False) -> int:
        """Add a constant; ``packed`` stores it as int4, two per byte, the first one in the low
        bits."""
        if not packed:
            return self.tensor(data.shape, str(data.dtype), grid, data)
        halves = np.append(data.reshape(-1), [0] * (data.size % 2)).astype("uint8") & 15
        return self.tensor(data.shape, "int4", grid, halves[0::2] | halves[1::2] << 4)

    def output(self, shape: tuple[int, ...], dtype: str, grid: Quantization | None) -> int:
        index = self.tensor(shape, dtype, grid)
        self.graph.outputs.append(index)
        return index

    def operator(
        self,
        kind: str,
        inputs: list[int],
        outputs: list[int],
        options: str = "",
        version: int = 2,
        **values: Any,
    ) -> None:
        code = schema.OperatorCodeT()
        code.builtinCode = getattr(schema.BuiltinOperator, kind)
        code.deprecatedBuiltinCode = min(code.builtinCode, 127)
        code.version = 3 if kind == "CONV_2D" else version
        self.model.operatorCodes.append(code)
        operator = schema.OperatorT()
        operator.opcodeIndex = len(self.model.operatorCodes) - 1
        operator.inputs, operator.outputs = inputs, outputs
        if options:
            new = hasattr(schema.BuiltinOptions2, options)
            number = "2" if new else ""
            kinds = schema.BuiltinOptions2 if new else schema.BuiltinOptions
            record = getattr(schema, f"{options}T")()
            for name, value in values.items():
                assert hasattr(record, name)
                setattr(record, name, value)
            setattr(operator, f"builtinOptions{number}Type", getattr(kinds, options))
            setattr(operator, f"builtinOptions{number}", record)
        self.graph.operators.append(operator)

    def custom(
        self, name: str, inputs: list[int], outputs: list[int], options: Mapping[str, Any]
    ) -> None:
        """Add a custom operator with options in FlexBuffers."""
        self.operator("CUSTOM", inputs, outputs, version=1)
        self.model.operatorCodes[-1].customCode = name
        writer = flexbuffers.Builder()
        writer.MapFromElements(options)
        self.graph.operators[-1].customOptions = bytearray(writer.Finish())

    def build(self) -> bytes:
        builder = flatbuffers.Builder(1 << 16)
        builder.Finish(self.model.Pack(builder), b"TFL3")
        return bytes(builder.Output())


def add_signature(model: Any, name: str, index: int) -> None:
    """Add a signature of a subgraph, with the names ``inputs_0`` … and ``outputs_0`` …"""
    graph = model.subgraphs[index]
    signature = schema.SignatureDefT()
    signature.signatureKey, signature.subgraphIndex = name, index
    for key, tensors in (("inputs", graph.inputs), ("outputs", graph.outputs)):
        maps = [schema.TensorMapT() for _ in tensors]
        for position, tensor in enumerate(tensors):
            maps[position].name, maps[position].tensorIndex = f"{key}_{position}", tensor
        setattr(signature, key, maps)
    model.signatureDefs = [*(model.signatureDefs or []), signature]
