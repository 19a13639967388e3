"""Folds the operators whose results are known before a run. LiteRT computes the results.

Converters write the arithmetic of sizes as operators (SHAPE, STRIDED_SLICE, PACK, MUL, …). These
sizes are constant, because the shapes of the inputs are fixed.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from firmwright.errors import UserError, first_line
from firmwright.forked import run_in_copy
from firmwright.models.formats import Shapes
from firmwright.models.tflite.interpreters import OPTIMIZED, make_interpreter
from firmwright.models.tflite.repairs import kind_of, pack, store_data, unpack

Array = npt.NDArray[Any]

OF_SHAPE_ALONE = frozenset({"SHAPE", "RANK", "ZEROS_LIKE"})
"""Operators that read only the shape of the input."""

NEVER_FOLDED = frozenset(
    """
    CALL CALL_ONCE CUSTOM DENSIFY DEQUANTIZE IF MULTINOMIAL PLACEHOLDER_FOR_GREATER_OP_CODES
    RANDOM_STANDARD_NORMAL RANDOM_UNIFORM READ_VARIABLE VAR_HANDLE WHILE
    """.split()
)
"""Operators with effects, random results or subgraphs, and operators that enlarge weights."""


def fold_known_values(data: bytes, shapes: Shapes) -> bytes:
    """Return the model with known values as constants, and with the shapes that LiteRT computes.

    ``shapes`` maps inputs to shapes. The model remains unchanged without shapes, known values and
    open lengths. Raises UserError if LiteRT cannot evaluate the model.
    """
    model: Any = unpack(data)
    known = find_known_results(model)
    if not known and not shapes and not has_open_results(model):
        return data
    what = "LiteRT crashes when it computes the model's shapes"
    lengths, values = run_in_copy(what, compute_known_values, data, sorted(known), dict(shapes))
    graph = model.subgraphs[0]
    for tensor, shape in zip(graph.tensors, lengths, strict=False):
        if shape is not None:
            tensor.shape = shape
    for index, value in values.items():
        tensor = graph.tensors[index]
        store_data(model, tensor, np.ascontiguousarray(value).tobytes())
        tensor.shape, tensor.shapeSignature = list(value.shape), None
    graph.operators = [o for o in graph.operators if not known.issuperset(map(int, o.outputs))]
    return pack(model, len(data))


def find_known_results(model: Any) -> set[int]:
    """Return the results of operators in the first subgraph that read only known values.

    Results of the graph are not folded.
    """
    graph = model.subgraphs[0]
    inputs, outputs = ({int(i) for i in each} for each in (graph.inputs, graph.outputs))
    written = {int(i) for operator in graph.operators for i in operator.outputs}
    constants = {
        index
        for index, tensor in enumerate(graph.tensors)
        if (has_data(model, tensor) or (is_empty(tensor) and index not in written))
        and not tensor.isVariable
        and index not in inputs
    }
    results: set[int] = set()
    for operator in graph.operators:
        kind = kind_of(model, operator)
        reads = set() if operator.inputs is None else {int(i) for i in operator.inputs} - {-1}
        writes = {int(i) for i in operator.outputs}
        is_known = kind in OF_SHAPE_ALONE or (reads and reads <= constants | results)
        if is_known and kind not in NEVER_FOLDED and writes and not writes & outputs:
            results |= writes
    return results


def has_open_results(model: Any) -> bool:
    """Return whether operators of the first subgraph have results with an open length.

    TensorFlow's converter writes an open length as 1. In SPACE_TO_BATCH_ND, which a dilated
    convolution becomes, this number contradicts the other lengths.
    """
    graph = model.subgraphs[0]
    signatures = (graph.tensors[i].shapeSignature for o in graph.operators for i in o.outputs)
    return any(s is not None and -1 in s for s in signatures)


def has_data(model: Any, tensor: Any) -> bool:
    buffer = model.buffers[tensor.buffer]
    return bool(buffer.size) or (buffer.data is not None and len(buffer.data) > 0)


def is_empty(tensor: Any) -> bool:
    return tensor.shape is not None and 0 in tensor.shape


def compute_known_values(
    data: bytes, known: list[int], shapes: Shapes
) -> tuple[list[list[int] | None], dict[int, Array]]:
    """Return the shapes of all tensors, and the known values by tensor.

    A shape is None if LiteRT does not use the tensor. Raises UserError if LiteRT cannot compute the
    shapes.
    """
    interpreter = make_interpreter(data, OPTIMIZED, keep_all=True)
    try:
        for detail in interpreter.get_input_details():
            stated = shapes.get(detail["name"])
            if stated is not None:
                interpreter.resize_tensor_input(detail["index"], stated)
        interpreter.allocate_tensors()
        evaluate_any_inputs(interpreter)
    except (RuntimeError, ValueError) as error:
        raise UserError(
            f"LiteRT cannot compute the model's shapes: {first_line(error)}; convert the model "
            "with fixed shapes"
        ) from None
    details = {d["index"]: d for d in interpreter.get_tensor_details()}
    lengths = [
        [int(length) for length in details[i]["shape"]] if i in details else None
        for i in range(max(details, default=-1) + 1)
    ]
    return lengths, {i: np.array(interpreter.get_tensor(i)) for i in known}


def evaluate_any_inputs(interpreter: Any) -> None:
    """Evaluate the network for ones, or for zeros if LiteRT cannot evaluate the network for ones.

    Ones come first, because a mask of zeros can make a divisor zero.
    """
    for number in (1, 0):
        for detail in interpreter.get_input_details():
            array = np.full(detail["shape"], number, detail["dtype"])
            interpreter.set_tensor(detail["index"], array)
        try:
            interpreter.invoke()
        except (RuntimeError, ValueError):
            if number == 0:
                raise
        else:
            return
