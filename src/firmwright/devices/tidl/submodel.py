"""Exports a region as a separate ONNX graph for TI's import tool, quantized or in floats."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import tvm
from tvm import relax

from firmwright.ir.relax import (
    constant_array,
    find_outputs,
    operator_name,
    read_all_variables,
    static_shape,
)
from firmwright.ir.tensors import ModelInterface, Tensor
from firmwright.models.onnx.export import OnnxValue
from firmwright.models.onnx.quantized_export import DequantizedConstant, QuantizedExporter
from firmwright.partition.outline import make_tensor

CONVOLUTIONS = ("relax.nn.conv2d", "relax.nn.conv2d_transpose")


@dataclass(frozen=True)
class SubModel:
    """An ONNX graph. ``inputs`` and ``outputs`` are the region's boundary tensors, in order.

    Their names are the names of TI's compilers, ``tidl_<number>_i0`` … and ``tidl_<number>_o0`` ….
    Their shapes and types are the shapes and types of the boundary tensors.
    """

    data: bytes
    inputs: tuple[Tensor, ...]
    outputs: tuple[Tensor, ...]


def export_sub_model(function: relax.Function, number: int) -> SubModel:
    """Return the ``number``-th region's function as ONNX.

    Raises UserError that lists the operators that cannot be exported.
    """
    module = tvm.IRModule({"main": function.without_attr("global_symbol")})
    inputs = make_tensors(f"tidl_{number}_i", function.params)
    outputs = make_tensors(f"tidl_{number}_o", function.body.body.fields)
    exporter = RegionExporter(module, ModelInterface("relax", "", inputs, outputs, ()))
    return SubModel(exporter.run(), inputs, outputs)


def make_tensors(stem: str, variables: Sequence[relax.Var]) -> tuple[Tensor, ...]:
    return tuple(make_tensor(f"{stem}{index}", v) for index, v in enumerate(variables))


class RegionExporter(QuantizedExporter):
    """Writes a convolution's bias as the third input, because TI's tool requires this form."""

    refusal = "tidl: operators that have no form in a sub-model:"

    def __init__(self, module: tvm.IRModule, interface: ModelInterface) -> None:
        super().__init__(module, interface)
        self.makers = {b.var: b.value for b in self.bindings}
        returned, _ = find_outputs(self.main, self.bindings)
        self.readers = Counter([*read_all_variables(self.bindings), *returned])

    def elementwise(self, call: tvm.ir.Call) -> OnnxValue:
        if operator_name(call) == "relax.add":
            convolution, bias = sorted(call.args, key=self.is_constant)
            if self.is_bias(bias, convolution):
                return self.give_bias(convolution, bias)
        return super().elementwise(call)

    def is_bias(self, bias: relax.Expr, convolution: relax.Expr) -> bool:
        """Return whether a constant has one number per channel of a convolution.

        The result is False if another operator also reads the convolution.
        """
        maker = self.makers.get(convolution)
        if maker is None or operator_name(maker) not in CONVOLUTIONS:
            return False
        if self.readers[convolution] > 1:
            return False
        shape, given = static_shape(convolution), static_shape(bias)
        channel = str(maker.attrs.data_layout).index("C")
        by_channel = tuple(n if i == channel else 1 for i, n in enumerate(shape))
        return self.is_constant(bias) and (1,) * (len(shape) - len(given)) + given == by_channel

    def give_bias(self, convolution: relax.Var, bias: relax.Expr) -> OnnxValue:
        result = self.values[convolution]
        (node,) = (n for n in self.nodes if result.name in n.output)
        self.nodes.remove(node)
        node.input.append(self.add_bias(bias))
        self.nodes.append(node)  # after the node that dequantizes the bias
        return result

    def add_bias(self, bias: relax.Expr) -> str:
        value = self.values.get(bias)
        if not isinstance(value, DequantizedConstant):
            return self.add_constant(constant_array(bias).reshape(-1))
        assert value.call is not None
        data, *params = value.call.args
        plain = relax.const(constant_array(data).reshape(-1))
        call = relax.op.dequantize(plain, *params, axis=0)
        return self.emit_dequantized(DequantizedConstant("", call=call), (0,))
