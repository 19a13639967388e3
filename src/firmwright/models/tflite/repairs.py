"""Adds facts to valid TFLite models that TVM's importer needs.

TVM identifies tensors by name, but a name may be missing, not UTF-8, or repeated. TVM reads the
shape of each tensor, but the shape of a scalar may be missing.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

import flatbuffers
import numpy as np
import numpy.typing as npt
import tflite
from ai_edge_litert import schema_py_generated as schema

from firmwright.errors import UserError
from firmwright.models.tflite.checks import SMALLEST_SCALE, decode_text

KINDS: Mapping[int, str] = {
    v: k for k, v in vars(schema.BuiltinOperator).items() if isinstance(v, int)
}

BIASED = {"CONV_2D": (0, 2), "FULLY_CONNECTED": (0, 2), "TRANSPOSE_CONV": (2, 3)}
"""The input indices of the activations and the bias of layers."""

OUTPUT_STATE = 18
"""The input index of an LSTM's output state."""


def kind_of(model: Any, operator: Any) -> str:
    """Return the name of an operator's kind. Return '' if the schema does not have this kind."""
    code = model.operatorCodes[operator.opcodeIndex]
    return KINDS.get(int(max(code.builtinCode, code.deprecatedBuiltinCode)), "")


@lru_cache(1)
def unpack(data: bytes) -> Any:
    """Return the objects of a file. The steps of an import share the objects of equal files.

    A step that changes objects must call :func:`pack`, after which files are unpacked again.
    """
    return schema.ModelT.InitFromPackedBuf(data, 0)


def pack(model: Any, size: int) -> bytes:
    """Return the file of a model. ``size`` is the estimated length in bytes."""
    unpack.cache_clear()
    builder = flatbuffers.Builder(size)
    builder.Finish(model.Pack(builder), b"TFL3")
    return bytes(builder.Output())


def store_data(model: Any, tensor: Any, data: bytes) -> None:
    """Store the data of a tensor in a new buffer."""
    buffer = schema.BufferT()
    buffer.data = np.frombuffer(data, np.uint8)
    model.buffers.append(buffer)
    tensor.buffer = len(model.buffers) - 1


def repair(data: bytes) -> bytes:
    """Return the model with the facts about its first subgraph that TVM and LiteRT need.

    A model that needs no repair is returned unchanged.
    """
    model: Any = unpack(data)
    steps = (repair_tensors, add_intermediates, state_bias_types)
    changed = [step(model) for step in steps]
    return pack(model, len(data)) if any(changed) else data


def repair_tensors(model: Any) -> bool:
    """Set unique names and missing shapes, and remove empty scales.

    Scales of float32 tensors are also removed, because LiteRT's kernels ignore these scales. Return
    whether the model changed.
    """
    tensors = model.subgraphs[0].tensors
    names = [t.name for t in tensors]
    unique = [n.encode() for n in make_unique_names(names)]
    changed = unique != names
    for tensor, name in zip(tensors, unique, strict=True):
        tensor.name = name
        if tensor.shape is None:
            tensor.shape, changed = [], True
        is_float = tensor.type == schema.TensorType.FLOAT32
        if tensor.quantization is not None and (is_float or not has_scales(tensor)):
            changed = changed or tensor.quantization.scale is not None
            tensor.quantization = None
    return changed


def add_intermediates(model: Any) -> bool:
    """Add LiteRT's intermediate tensors to int8 LSTMs without these tensors.

    TFLite Micro uses the output state's quantization parameters instead. Return whether the model
    changed.
    """
    graph = model.subgraphs[0]
    changed = False
    for position, operator in enumerate(graph.operators):
        lstm = kind_of(model, operator) in {"LSTM", "UNIDIRECTIONAL_SEQUENCE_LSTM"}
        if (
            not lstm
            or len(operator.inputs) <= OUTPUT_STATE
            or (operator.intermediates is not None and len(operator.intermediates))
        ):
            continue
        if graph.tensors[operator.inputs[0]].type != schema.TensorType.INT8:
            continue
        added = [copy.copy(graph.tensors[operator.inputs[OUTPUT_STATE]]) for _ in range(5)]
        for number, tensor in enumerate(added):
            tensor.name = f"intermediate_{position}_{number}".encode()
            tensor.isVariable = False
        operator.intermediates = range(len(graph.tensors), len(graph.tensors) + 5)
        graph.tensors.extend(added)
        changed = True
    return changed


def state_bias_types(model: Any) -> bool:
    """Set the type of int32 biases of int16 layers, because LiteRT's default is int64."""
    graph = model.subgraphs[0]
    changed = False
    for operator in graph.operators:
        source, bias = BIASED.get(kind_of(model, operator), (0, 0))
        if not bias or len(operator.inputs) <= bias or operator.inputs[bias] < 0:
            continue
        types = [graph.tensors[operator.inputs[i]].type for i in (source, bias)]
        if types == [schema.TensorType.INT16, schema.TensorType.INT32]:
            options = operator.builtinOptions
            changed = changed or options.quantizedBiasType != schema.TensorType.INT32
            options.quantizedBiasType = schema.TensorType.INT32
    return changed


def repair_scales(data: bytes) -> tuple[bytes, tuple[str, ...]]:
    """Return the model with a normal scale for zeros that have a smaller scale, and a note.

    Converters write the scale 0 for zeros, such as the initial state of an unrolled recurrent
    layer. A product with zeros has a scale below the normal numbers of float32. LiteRT computes
    zeros with all of these scales. Other tensors with these scales are rejected.
    """
    if not has_low_scales(tflite.Model.GetRootAsModel(data, 0).Subgraphs(0)):
        return data, ()
    model: Any = unpack(data)
    graph = model.subgraphs[0]
    zeros = {i for i, t in enumerate(graph.tensors) if is_low(t) and is_of_zeros(model, t)}
    for operator in graph.operators:
        if makes_zeros(kind_of(model, operator), [int(i) for i in operator.inputs], zeros):
            zeros |= {int(i) for i in operator.outputs if is_low(graph.tensors[i])}
    if not zeros:
        return data, ()
    for index in zeros:
        tensor = graph.tensors[index]
        tensor.quantization.scale = np.full_like(tensor.quantization.scale, SMALLEST_SCALE)
    name = decode_text(graph.tensors[min(zeros)].name)
    note = (
        f"{len(zeros)} tensors of zeros, such as '{name}', have a scale of 0 or below the normal "
        f"numbers of float32; the network has the scale {SMALLEST_SCALE:.3g} instead"
    )
    return pack(model, len(data)), (note,)


PRODUCTS = frozenset("BATCH_MATMUL CONV_2D DEPTHWISE_CONV_2D FULLY_CONNECTED MUL".split())
MOVES = {
    **dict.fromkeys(
        "BROADCAST_TO EXPAND_DIMS RESHAPE SLICE SPLIT_V SQUEEZE STRIDED_SLICE TILE TRANSPOSE "
        "UNPACK".split(),
        0,
    ),
    "FILL": 1,
    "SPLIT": 1,
}
"""Operators that only move or repeat the elements of an operand, and the index of this operand."""


def makes_zeros(kind: str, inputs: list[int], zeros: set[int]) -> bool:
    """Return whether an operator only moves zeros, or multiplies by zeros without a bias."""
    has_bias = len(inputs) > 2 and inputs[2] >= 0
    if kind in PRODUCTS:
        return not has_bias and bool(zeros.intersection(inputs))
    return kind in MOVES and inputs[MOVES[kind]] in zeros


def has_low_scales(graph: Any) -> bool:
    """Return whether a scale of the graph is 0, or below the normal numbers."""
    records = (graph.Tensors(i).Quantization() for i in range(graph.TensorsLength()))
    scales = [r.ScaleAsNumpy() for r in records if r is not None and r.ScaleLength()]
    return any((each >= 0).all() and (each < SMALLEST_SCALE).any() for each in scales)


def is_low(tensor: Any) -> bool:
    if not has_scales(tensor) or tensor.type == schema.TensorType.INT32:
        return False
    scales = np.asarray(tensor.quantization.scale)
    return bool(((scales >= 0) & (scales < SMALLEST_SCALE)).all())


def is_of_zeros(model: Any, tensor: Any) -> bool:
    """Return whether all elements and the zero point of a constant are 0."""
    stored, points = model.buffers[tensor.buffer].data, tensor.quantization.zeroPoint
    without_points = points is None or not np.any(points)
    return stored is not None and len(stored) > 0 and without_points and not np.any(stored)


def repair_dimensions(data: bytes) -> tuple[bytes, tuple[str, ...]]:
    """Return the model with valid quantized dimensions, and a note on each change.

    A single scale applies to the whole tensor, even if the file contains an axis. Tensors with
    several scales remain unchanged, and LiteRT rejects them.
    """
    graph = tflite.Model.GetRootAsModel(data, 0).Subgraphs(0)
    wrong = [i for i in range(graph.TensorsLength()) if has_idle_dimension(graph.Tensors(i))]
    if not wrong:
        return data, ()
    model: Any = unpack(data)
    for index in wrong:
        model.subgraphs[0].tensors[index].quantization.quantizedDimension = 0
    shown = decode_text(graph.Tensors(wrong[0]).Name())
    more = f" and {len(wrong) - 1} more" if len(wrong) > 1 else ""
    remark = (
        f"'{shown}'{more}: the scale is for an axis that the tensor does not have; firmwright "
        "uses it for the whole tensor"
    )
    return pack(model, len(data)), (remark,)


def has_idle_dimension(tensor: Any) -> bool:
    """Return whether a tensor has a single scale for an axis that does not exist."""
    params = tensor.Quantization()
    if params is None or params.ScaleLength() != 1:
        return False
    return not 0 <= params.QuantizedDimension() < max(tensor.ShapeLength(), 1)


def make_unique_names(names: Sequence[bytes | None]) -> list[str]:
    """Return a unique name for each tensor. A missing or repeated name gets the tensor's number.

    LiteRT reads names only up to a NUL.
    """
    readable = [decode_text(name).replace("\0", "\N{REPLACEMENT CHARACTER}") for name in names]
    taken = set(readable)
    seen: set[str] = set()
    result = []
    for index, name in enumerate(readable):
        unique = name
        if not name or name in seen:
            unique = f"{name or 'tensor'}_{index}"
            while unique in taken:
                unique += "_"
            taken.add(unique)
        seen.add(name)
        result.append(unique)
    return result


def convert_constants(data: bytes) -> bytes:
    """Return the file with int4 constants as int8, and quantized int64 constants as int32.

    The biases of layers with int16 activations are int64. Raises UserError if a bias needs more
    than 32 bits.
    """
    model = unpack(data)
    changed = [convert_constant(model, t) for graph in model.subgraphs for t in graph.tensors or ()]
    if not any(changed):
        return data
    return pack(model, len(data))


def convert_constant(model: Any, tensor: Any) -> bool:
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
            raise UserError(
                f"the bias '{name}' has values of more than 32 bits; firmwright supports 32: "
                "quantize the activations as int8"
            )
        tensor.type = schema.TensorType.INT32
    else:
        return False
    store_data(model, tensor, array.tobytes())
    return True


def has_scales(tensor: Any) -> bool:
    scales = None if tensor.quantization is None else tensor.quantization.scale
    return scales is not None and len(scales) > 0


def unpack_int4(stored: npt.NDArray[np.uint8], count: int) -> npt.NDArray[np.int8]:
    """Return ``count`` int4 values as int8.

    A byte stores two values, and the first value is in the lower half (TFLite's schema.fbs).
    """
    halves = np.stack([stored & 15, stored >> 4], axis=-1).reshape(-1)[:count].astype("int8")
    return np.where(halves > 7, halves - 16, halves).astype("int8")
