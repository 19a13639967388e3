"""Computes the reference of an ONNX model with ONNX Runtime. The module does not need TVM.

Constant int8 weights become uint8, so that ONNX Runtime multiplies exactly on every processor. On
x86 without VNNI, ONNX Runtime adds pairs of uint8 x int8 products in saturating int16
(``vpmaddubsw``). The option ``session.x64quantprecision`` prevents this saturation. But the option
is a graph optimization, and the reference runs without graph optimizations.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import onnx
from onnx import TensorProto, numpy_helper

from firmwright.errors import UserError, first_line
from firmwright.ir.small_types import from_bytes, to_bytes
from firmwright.ir.tensors import STORED_AS, STRING, State
from firmwright.models.formats import ReferenceOutputs, Samples, TensorValues
from firmwright.models.onnx.accepted_forms import load_evaluable
from firmwright.models.onnx.graph.sessions import find_types, open_session, split_model
from firmwright.models.sequence import run_in_sequence

if TYPE_CHECKING:
    import onnxruntime


def run_reference(data: bytes, inputs: Samples, states: Sequence[State] = ()) -> ReferenceOutputs:
    """Evaluate with ONNX Runtime, or with ONNX's evaluator if ONNX Runtime rejects the model.

    Nodes are not fused, because graph optimizations change a QDQ graph's roundings. ONNX Runtime
    rejects integers in operators that ONNX defines for floats, but NEMO and MATCH write these
    graphs.
    """
    import onnxruntime

    model = load_evaluable(data)
    make_weights_unsigned(model)
    names = [output.name for output in model.graph.output]
    try:
        sessions = [open_session(part) for part in split_model(model)]
        run = take_bytes(partial(run_sessions, sessions, names), model)
        outputs = run_in_sequence(inputs, states, names, run)
    except Exception as refusal:  # ONNX Runtime's errors have no common base class
        return run_onnx_evaluator(data, inputs, states, refusal)
    runtime = f"onnxruntime {onnxruntime.__version__} (graph optimizations off)"
    return ReferenceOutputs(runtime, outputs)


def run_sessions(
    sessions: Sequence[onnxruntime.InferenceSession],
    outputs: Sequence[str],
    given: Mapping[str, Any],
) -> list[Any]:
    values = dict(given)
    for session in sessions:
        ports = (*session.get_inputs(), *session.get_overridable_initializers())
        read = {port.name: values[port.name] for port in ports if port.name in values}
        results = [port.name for port in session.get_outputs()]
        values.update(zip(results, session.run(results, read), strict=True))
    return [values[name] for name in outputs]


def take_bytes(run: Callable[..., Any], model: onnx.ModelProto) -> Callable[..., list[Any]]:
    """Wrap a function that evaluates a model.

    The wrapper accepts and returns the stored form of small types.
    """
    kinds = {value.name: value.type.tensor_type.elem_type for value in model.graph.input}
    names = {name: onnx.helper.tensor_dtype_to_np_dtype(k).name for name, k in kinds.items() if k}
    names |= {name: STRING for name, k in kinds.items() if k == onnx.TensorProto.STRING}

    def evaluate(given: Mapping[str, Any]) -> list[Any]:
        typed = {
            name: from_bytes(array, names[name])
            if names.get(name) in (STRING, *STORED_AS)
            else array
            for name, array in given.items()
        }
        return [to_bytes(np.asarray(array)) for array in run(typed)]

    return evaluate


def run_onnx_evaluator(
    data: bytes, inputs: Samples, states: Sequence[State], refusal: Exception
) -> ReferenceOutputs:
    """Evaluate with ONNX's reference evaluator, which supports all types of numpy.

    Raises UserError if the evaluator also rejects the model.
    """
    from firmwright.models.onnx.graph.evaluator import make_evaluator

    try:
        model = load_evaluable(data)
        evaluator = make_evaluator(model)
        names = list(evaluator.output_names)
        run = take_bytes(partial(evaluator.run, None), model)
        outputs = run_in_sequence(inputs, states, names, run)
    except Exception as error:
        raise UserError(
            f"no reference can evaluate the model: ONNX Runtime says {first_line(refusal)}; "
            f"ONNX's reference evaluator says {first_line(error)}; export the model again, or use "
            "another operator"
        ) from error
    return ReferenceOutputs(f"onnx {onnx.__version__} reference evaluator", outputs)


def read_tensors(data: bytes, inputs: Samples, states: Sequence[State] = ()) -> TensorValues:
    """Return the results of all nodes outside subgraphs.

    Each result becomes an output of the model. Raises UserError if ONNX Runtime rejects the model.
    """
    model = load_evaluable(data)
    make_weights_unsigned(model)
    outputs = [value.name for value in model.graph.output]
    written = dict.fromkeys(name for node in model.graph.node for name in node.output if name)
    more = [name for name in written if name not in outputs]
    model.graph.output.extend(onnx.helper.make_empty_tensor_value_info(name) for name in more)
    names = [*outputs, *more]
    tensors: TensorValues = []
    try:
        run = take_bytes(partial(open_session(model).run, names), model)

        def record(given: Mapping[str, Any]) -> list[Any]:
            values = run(given)
            tensors.append(dict(zip(names, values, strict=True)))
            return values[: len(outputs)]

        run_in_sequence(inputs, states, outputs, record)
    except Exception as error:  # ONNX Runtime's errors have no common base class
        raise UserError(f"ONNX Runtime: {first_line(error)}") from error
    return tensors


OFFSET = 128
"""The number that is added to weights and zero points.

The difference of a weight and its zero point does not change.
"""


class WeightInputs(NamedTuple):
    """The input indices of a weight, its zero point and its activation."""

    weight: int
    zero_point: int
    activation: int | None
    """None if the operator quantizes its activation to uint8."""


WEIGHTS: Mapping[str, tuple[WeightInputs, ...]] = {
    "MatMulInteger": (WeightInputs(1, 3, 0),),
    "ConvInteger": (WeightInputs(1, 3, 0),),
    "QLinearMatMul": (WeightInputs(3, 5, 2),),
    "QLinearConv": (WeightInputs(3, 5, 2),),
    "MatMulIntegerToFloat": (WeightInputs(1, 5, 0),),
    "QGemm": (WeightInputs(3, 5, 2),),
    "QAttention": (WeightInputs(1, 7, 0),),
    "DynamicQuantizeMatMul": (WeightInputs(1, 3, None),),
    "DynamicQuantizeLSTM": (WeightInputs(1, 9, None), WeightInputs(2, 11, None)),
}


def make_weights_unsigned(model: onnx.ModelProto) -> None:
    """Replace constant int8 weights of uint8 activations. The results do not change."""
    constants = {tensor.name: tensor for tensor in model.graph.initializer}
    signed_weights = [
        (node, positions)
        for node in model.graph.node
        for positions in WEIGHTS.get(node.op_type, ())
        if len(node.input) > positions.weight
        and (tensor := constants.get(node.input[positions.weight])) is not None
        and tensor.data_type == TensorProto.INT8
    ]
    if not signed_weights:
        return
    types = find_types(model)
    for node, positions in signed_weights:
        activation = positions.activation
        if activation is None or types.get(node.input[activation]) == TensorProto.UINT8:
            shift_weight(model.graph, node, positions, constants)


def shift_weight(
    graph: onnx.GraphProto,
    node: onnx.NodeProto,
    positions: WeightInputs,
    constants: Mapping[str, onnx.TensorProto],
) -> None:
    node.input.extend([""] * (positions.zero_point + 1 - len(node.input)))
    given = node.input[positions.zero_point]
    if given and given not in constants:
        return  # the network computes the zero point
    zero = numpy_helper.to_array(constants[given]) if given else np.zeros((), "int8")
    weight = numpy_helper.to_array(constants[node.input[positions.weight]])
    for position, array in ((positions.weight, weight), (positions.zero_point, zero)):
        name = f"{node.input[position] or 'zero'} as uint8 of {node.output[0]}"
        shifted = (array.astype("int16") + OFFSET).astype("uint8")
        graph.initializer.append(numpy_helper.from_array(shifted, name))
        node.input[position] = name
