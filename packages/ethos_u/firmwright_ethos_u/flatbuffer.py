"""Writes TFLite files for Vela."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import flatbuffers
import numpy as np
from ai_edge_litert import schema_py_generated as schema

from firmwright_ethos_u.memory import Array

VERSIONS = {"LEAKY_RELU": 2, "HARD_SWISH": 1, "RELU_N1_TO_1": 1, "RESHAPE": 1}
"""The versions of operators. All other operators have version 3."""


class NetworkWriter:
    """Collects the tensors and operators of one graph. `build` returns the bytes of the file."""

    def __init__(self) -> None:
        self.graph: Any = schema.SubGraphT()
        self.graph.tensors, self.graph.operators = [], []
        self.graph.inputs, self.graph.outputs = [], []
        self.model: Any = schema.ModelT()
        self.model.version = 3
        self.model.buffers = [schema.BufferT()]
        self.model.operatorCodes, self.model.subgraphs = [], [self.graph]

    def tensor(
        self,
        shape: Sequence[int],
        dtype: str,
        scales: Sequence[float] = (),
        zero_point: int = 0,
        axis: int = 0,
    ) -> int:
        """Add a tensor with one scale, or with a scale per channel of an axis. Return its index."""
        tensor: Any = schema.TensorT()
        tensor.name = f"tensor{len(self.graph.tensors)}"
        tensor.shape = list(shape)
        tensor.type = getattr(schema.TensorType, dtype.upper())
        if scales:
            tensor.quantization = schema.QuantizationParametersT()
            tensor.quantization.scale = list(scales)
            tensor.quantization.zeroPoint = [zero_point] * len(scales)
            tensor.quantization.quantizedDimension = axis
        self.graph.tensors.append(tensor)
        return len(self.graph.tensors) - 1

    def constant(
        self, values: Array, scales: Sequence[float] = (), axis: int = 0, zero_point: int = 0
    ) -> int:
        """Add a constant. Return its index."""
        index = self.tensor(values.shape, str(values.dtype), scales, zero_point, axis)
        buffer: Any = schema.BufferT()
        buffer.data = np.frombuffer(values.tobytes(), np.uint8)
        self.model.buffers.append(buffer)
        self.graph.tensors[index].buffer = len(self.model.buffers) - 1
        return index

    def operator(
        self,
        kind: str,
        inputs: Sequence[int],
        outputs: Sequence[int],
        options: str = "",
        **values: Any,
    ) -> None:
        """Add an operator. `options` is the name of its options table in TFLite's schema."""
        code: Any = schema.OperatorCodeT()
        code.builtinCode = getattr(schema.BuiltinOperator, kind)
        code.deprecatedBuiltinCode = min(code.builtinCode, 127)
        code.version = VERSIONS.get(kind, 3)
        operator: Any = schema.OperatorT()
        operator.opcodeIndex = len(self.model.operatorCodes)
        operator.inputs, operator.outputs = list(inputs), list(outputs)
        self.model.operatorCodes.append(code)
        if options:
            operator.builtinOptionsType = getattr(schema.BuiltinOptions, options)
            operator.builtinOptions = getattr(schema, f"{options}T")()
            for name, value in values.items():
                setattr(operator.builtinOptions, name, value)
        self.graph.operators.append(operator)

    def build(self, inputs: Sequence[int], outputs: Sequence[int]) -> bytes:
        """Return the bytes of the file."""
        self.graph.inputs, self.graph.outputs = list(inputs), list(outputs)
        builder = flatbuffers.Builder(1024)
        builder.Finish(self.model.Pack(builder), b"TFL3")
        return bytes(builder.Output())
