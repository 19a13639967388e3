"""Evaluates an ONNX model with ONNX Runtime and returns every tensor, without TVM."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import onnx

from firmwright.errors import UserError, first_line
from firmwright.ir.tensors import State
from firmwright.models.formats import Samples, TensorValues
from firmwright.models.onnx.accepted_forms import normalize_forms
from firmwright.models.onnx.graph.session import open_session
from firmwright.models.onnx.onnxruntime_outputs import take_bytes
from firmwright.models.onnx.unsigned_weights import make_weights_unsigned
from firmwright.models.sequence import run_in_sequence


def read_tensors(data: bytes, inputs: Samples, states: Sequence[State] = ()) -> TensorValues:
    """Return the results of all nodes outside subgraphs; each result becomes a model output.

    Raises UserError if ONNX Runtime rejects the model.
    """
    model = onnx.load_model_from_string(data)
    normalize_forms(model)
    make_weights_unsigned(model)
    outputs = [value.name for value in model.graph.output]
    written = dict.fromkeys(name for node in model.graph.node for name in node.output if name)
    more = [name for name in written if name not in outputs]
    model.graph.output.extend(onnx.helper.make_empty_tensor_value_info(name) for name in more)
    names = [*outputs, *more]
    found: TensorValues = []
    try:
        run = take_bytes(partial(open_session(model).run, names), model)

        def record(given: Mapping[str, Any]) -> list[Any]:
            values = run(given)
            found.append(dict(zip(names, values, strict=True)))
            return values[: len(outputs)]

        run_in_sequence(inputs, states, outputs, record)
    except Exception as error:  # ONNX Runtime's errors have no common base class
        raise UserError(f"ONNX Runtime: {first_line(error)}") from error
    return found
