"""Rewrites com.microsoft's DynamicQuantizeLSTM, which ONNX Runtime's quantizer writes."""

from __future__ import annotations

import numpy as np
from onnx import TensorProto

from firmwright.models.onnx.graph.recurrent import Direction, RecurrentLayer, add_lstm_cell
from firmwright.models.onnx.graph.specialize import Rewrite

STEPS = 255
"""The number of quantization steps in the uint8 range."""


class QuantizedDirection(Direction):
    """Quantized weights of 8 bits: W (input, 4 · size), R (size, 4 · size).

    The input is quantized once, and the state in each step. The minimum and maximum of the values
    determine the scale.
    """

    def read_weights(self) -> tuple[int, list[str]]:
        scales, zeros = ([self.pick(self.node.input[i + n], self.index) for i in (8, 10)]
                         for n in (0, 1))  # fmt: skip
        self.params_of = list(zip(scales, zeros, strict=True))
        self.data, self.data_params = self.quantize(self.data)
        size = (self.walk.shape(self.node.input[2]) or (0, 0))[1]
        return size, [self.pick(i, self.index) for i in self.node.input[1:3]]

    def quantize(self, value: str) -> tuple[str, tuple[str, str]]:
        """Append a quantized value, its scale and its zero point.

        The scale is 1 if all elements are 0.
        """
        add, body = self.body.add, self.body
        zero, one = body.constant(0), body.constant(1)
        last = body.constant(STEPS)
        flat = add("Reshape", value, body.constant([-1], "int64"))
        low = add("Min", body.reduce("ReduceMin", flat, 0), zero)
        high = add("Max", body.reduce("ReduceMax", flat, 0), zero)
        scale = add("Div", add("Sub", high, low), last)
        scale = add("Where", add("Equal", scale, zero), one, scale)
        point = add("Clip", add("Round", add("Div", add("Neg", low), scale)), zero, last)
        stored = add("Add", add("Round", add("Div", value, scale)), point)
        stored = body.cast(add("Clip", stored, zero, last), "uint8")
        point = body.cast(point, "uint8")
        return stored, (scale, add("Reshape", point, body.constant(np.zeros(0), "int64")))

    def apply_weights(self, value: str, source: int, first: int = 0, gates: int = 0) -> str:
        del first, gates  # an LSTM uses all of its gates at once
        stored, params = (value, self.data_params) if source == 0 else self.quantize(value)
        scale, zero = self.params_of[source]
        product = self.body.add("MatMulInteger", stored, self.weights[source], params[1], zero)
        product = self.body.add("Cast", product, to=TensorProto.FLOAT)
        product = self.body.add("Mul", product, self.body.add("Mul", params[0], scale))
        return self.body.add("Add", product, self.biases[source]) if self.biases else product


QUANTIZED_LSTM: dict[str, Rewrite] = {
    "com.microsoft.DynamicQuantizeLSTM": RecurrentLayer(
        4, 2, add_lstm_cell, ["Sigmoid", "Tanh", "Tanh"], QuantizedDirection
    ).write_out
}
