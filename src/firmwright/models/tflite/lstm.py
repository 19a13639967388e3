"""Converts UNIDIRECTIONAL_SEQUENCE_LSTM, with the states that it keeps between runs."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt
import tflite
from tvm import relax

from firmwright.errors import UserError
from firmwright.ir.relax import static_shape
from firmwright.models.tflite.hybrid import multiply_rows, require_bytes
from firmwright.models.tflite.integer_products import reshape
from firmwright.models.tflite.lstm_integers import advance, read_cell
from firmwright.models.tflite.svdf import read_scale

INPUT, OUTPUT_STATE, CELL_STATE = 0, 18, 19
WEIGHTS, RECURRENT, BIASES = (1, 2, 3, 4), (5, 6, 7, 8), (12, 13, 14, 15)
"""The input indices per gate, in the order input, forget, cell and output."""

EXTENSIONS = {
    "peepholes": (9, 10, 11),
    "a projection": (16, 17),
    "layer normalization": (20, 21, 22, 23),
}

Weights = tuple[relax.Expr, npt.NDArray[Any] | None]
"""The weights (length, all units) of all gates, and their scales per unit if they are int8."""


def convert_lstm(converter: Any, op: Any) -> relax.Expr:
    """Convert an LSTM; TVM supports only coupled gates, and loses the next states.

    Returns the result (batch, time, units), the next output state and the next cell state.
    """
    tensors = converter.get_input_tensors(op)
    given = {i for i, tensor in enumerate(tensors) if tensor.tensor_idx >= 0}
    source = tensors[INPUT]
    extended = [name for name, inputs in EXTENSIONS.items() if given.intersection(inputs)]
    if extended:
        raise UserError(
            f"has {' and '.join(extended)}; firmwright supports only plain cells: train and "
            "convert the layer without these options"
        )
    options = converter._get_builtin_options(op, tflite.UnidirectionalSequenceLSTMOptions)
    if source.qnn_params is not None:
        return convert_integers(converter, op, options)
    coupled = WEIGHTS[0] not in given
    first = 1 if coupled else 0
    weights, recurrent, biases = ([tensors[i] for i in each[first:]]
                                  for each in (WEIGHTS, RECURRENT, BIASES))  # fmt: skip
    bias = np.concatenate([converter.get_tensor_value(tensor) for tensor in biases])
    symmetric = not options.AsymmetricQuantizeInputs()
    hidden, cell = (converter.get_tensor_expr(tensors[i]) for i in (OUTPUT_STATE, CELL_STATE))
    # The products with the input do not depend on earlier steps: one product serves all steps.
    axis = 0 if options.TimeMajor() else 1
    data = converter.get_tensor_expr(source)
    whole = multiply(converter, data, read_weights(converter, weights), symmetric)
    whole = converter.bb.emit(relax.op.add(whole, relax.const(bias)))
    steps = [int(d) for d in converter.get_tensor_shape(source)][axis]
    factors, outputs = read_weights(converter, recurrent), []
    for step in range(steps):
        at = relax.op.strided_slice(whole, axes=[axis], begin=[step], end=[step + 1])
        product = multiply(converter, hidden, factors, symmetric)
        sums = converter.bb.emit(relax.op.add(relax.op.squeeze(at, [axis]), product))
        hidden, cell = update_cell(converter, options, sums, cell, coupled)
        outputs.append(relax.op.expand_dims(hidden, axis))
    result = outputs[0] if steps == 1 else relax.op.concat(outputs, axis=axis)
    return relax.Tuple([result, hidden, cell])


def read_weights(converter: Any, tensors: Sequence[Any]) -> Weights:
    """Return the joined weights of all gates, which serve all steps."""
    gates = [converter.get_tensor_value(tensor) for tensor in tensors]
    stored = relax.const(np.concatenate(gates).T.copy())
    if tensors[0].qnn_params is None:
        return stored, None
    for tensor in tensors:
        require_bytes(converter, tensor)
    scales = [np.full(len(g), read_scale(t)) for g, t in zip(gates, tensors, strict=True)]
    return stored, np.concatenate(scales)


def multiply(converter: Any, data: relax.Expr, weights: Weights, symmetric: bool) -> relax.Expr:
    """Return the product (…, all units) of data (…, length) and the weights of all gates.

    ``symmetric`` is the quantization of the data, if the weights are int8.
    """
    stored, scales = weights
    if scales is None:
        return relax.op.matmul(data, stored)
    *axes, length = static_shape(converter.bb.normalize(data))
    rows = reshape(converter, data, [prod(axes), length])
    product = multiply_rows(converter, rows, stored, scales, symmetric)
    return reshape(converter, product, [*axes, len(scales)])


def convert_integers(converter: Any, op: Any, options: Any) -> relax.Expr:
    source, hidden, cell = (
        converter.get_input_tensors(op)[i] for i in (INPUT, OUTPUT_STATE, CELL_STATE)
    )
    numbers = read_cell(converter, op, options.CellClip())
    axis = 0 if options.TimeMajor() else 1
    steps = [int(d) for d in converter.get_tensor_shape(source)][axis]
    data, output, state = (converter.get_tensor_expr(t) for t in (source, hidden, cell))
    outputs = []
    for number in range(steps):
        at = relax.op.strided_slice(data, axes=[axis], begin=[number], end=[number + 1])
        frame = converter.bb.emit(relax.op.squeeze(at, [axis]))
        output, state = advance(converter, numbers, frame, output, state)
        outputs.append(relax.op.expand_dims(output, axis))
    result = outputs[0] if steps == 1 else relax.op.concat(outputs, axis=axis)
    return relax.Tuple([result, output, state])


def update_cell(
    converter: Any, options: Any, sums: relax.Expr, cell: relax.Expr, coupled: bool
) -> tuple[relax.Expr, relax.Expr]:
    """Return the next output and cell state; ``sums`` has the gates' sums along its last axis."""
    units = int(sums.ty.shape[1])
    length = units // (3 if coupled else 4)
    parts = [
        relax.op.strided_slice(sums, axes=[1], begin=[begin], end=[begin + length])
        for begin in range(0, units, length)
    ]
    *first, new, output = parts

    def activate(value: relax.Expr) -> relax.Expr:
        value = converter.bb.normalize(value)
        return converter.convert_fused_activation_function(value, options.FusedActivationFunction())

    forget = converter.bb.emit(relax.op.sigmoid(first[-1]))
    taken = (
        relax.op.subtract(relax.const(1.0, "float32"), forget)
        if coupled
        else relax.op.sigmoid(first[0])
    )
    kept = relax.op.multiply(forget, cell)
    after = relax.op.add(kept, relax.op.multiply(taken, activate(new)))
    if options.CellClip() > 0:
        after = relax.op.clip(after, -options.CellClip(), options.CellClip())
    after = converter.bb.emit(after)
    hidden = relax.op.multiply(relax.op.sigmoid(output), activate(after))
    return converter.bb.emit(hidden), after
