"""Constants of types that TVM's importer does not know become such that it does, same values."""

from __future__ import annotations

from typing import Any

import flatbuffers
import numpy as np
import numpy.typing as npt
from ai_edge_litert import schema_py_generated as schema

from firmwright.errors import UserError


def convert_constants(data: bytes) -> bytes:
    """Return the file with its int4 constants as int8, and its quantized int64 ones as int32.

    int4 weights are stored two in a byte, the first in the lower half (TFLite's schema.fbs).
    The biases of layers with int16 activations are int64. UserError where one needs over 32 bits.
    """
    model = schema.ModelT.InitFromPackedBuf(data, 0)
    changed = [convert_constant(model, t) for graph in model.subgraphs for t in graph.tensors or ()]
    if not any(changed):
        return data
    builder = flatbuffers.Builder(len(data))
    builder.Finish(model.Pack(builder), b"TFL3")
    return bytes(builder.Output())


def convert_constant(model: Any, tensor: Any) -> bool:
    """Change one tensor of the model where that is needed; tell whether it was."""
    stored = model.buffers[tensor.buffer].data
    if stored is None:
        return False
    array: npt.NDArray[Any]
    if tensor.type == schema.TensorType.INT4:
        tensor.type = schema.TensorType.INT8
        array = unpack_int4(np.asarray(stored, np.uint8), int(np.prod(tensor.shape)))
    elif tensor.type == schema.TensorType.INT64 and has_scales(tensor):
        wide = np.asarray(stored, np.uint8).view("<i8")
        array = wide.astype("<i4")
        if (array != wide).any():
            name = tensor.name.decode()
            raise UserError(f"the bias '{name}' has values of more than 32 bits; firmware has none")
        tensor.type = schema.TensorType.INT32
    else:
        return False
    buffer = schema.BufferT()
    buffer.data = np.frombuffer(array.tobytes(), np.uint8)
    model.buffers.append(buffer)
    tensor.buffer = len(model.buffers) - 1
    return True


def has_scales(tensor: Any) -> bool:
    scales = None if tensor.quantization is None else tensor.quantization.scale
    return scales is not None and len(scales) > 0


def unpack_int4(stored: npt.NDArray[np.uint8], count: int) -> npt.NDArray[np.int8]:
    """Return ``count`` int4 values as int8."""
    halves = np.stack([stored & 15, stored >> 4], axis=-1).reshape(-1)[:count].astype("int8")
    return np.where(halves > 7, halves - 16, halves).astype("int8")
