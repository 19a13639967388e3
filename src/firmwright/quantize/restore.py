"""Restores a float network and the ranges of its parameters from a quantized network.

Constants become the real numbers of their integers. Rounding is removed. Clamping remains if it is
part of the network. Clamping becomes a ReLU if the lowest integer represents 0. Clamping becomes a
clip if the limits are tighter than the integer type. Zero points disappear with the integers.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
import tvm
from tvm import relax

from firmwright.errors import UserError
from firmwright.ir.operators import relax_names, short_name
from firmwright.ir.quant_params import QuantParams, read_quant_params
from firmwright.ir.relax import (
    Constant,
    constant_array,
    main_bindings,
    operator_name,
    read_all_variables,
    static_shape,
)
from firmwright.ir.tensors import ModelInterface, Tensor, is_source_name
from firmwright.quantize.calibration import Distribution
from firmwright.quantize.float_graph import float_tensors
from firmwright.quantize.param_choice import SOFTMAX_RANGE, Interval
from firmwright.quantize.shift_scales import SAME_SCALE_OPERATORS

Array = npt.NDArray[Any]
NON_NEGATIVE_OPERATORS = relax_names("nn.relu nn.softmax sigmoid")
SIGN_PRESERVING_OPERATORS = relax_names(
    "nn.avg_pool2d nn.max_pool2d nn.adaptive_avg_pool2d mean reshape permute_dims dequantize clip"
)


@dataclass(frozen=True)
class RestoredNetwork:
    """The float network. ``ranges`` has the ranges of variables, inputs and outputs."""

    module: tvm.IRModule
    interface: ModelInterface
    ranges: dict[str, Interval]


@dataclass(frozen=True)
class QuantRange:
    """A tensor's quantization parameters, and the minimum and maximum integer that occur."""

    params: QuantParams
    low: int
    high: int

    @property
    def interval(self) -> Interval:
        return Interval(self.params.dequantize(self.low), self.params.dequantize(self.high))


def is_quantized(module: tvm.IRModule) -> bool:
    return any(operator_name(b.value) == "relax.dequantize" for b in main_bindings(module))


def restore_float(module: tvm.IRModule, interface: ModelInterface) -> RestoredNetwork:
    """Return the float network of a QDQ module, with float32 inputs and outputs.

    Raises UserError if the model does not state the scale of an integer input or output.
    """
    return Restorer(module, interface).run()


class Restorer:
    """Builds the float network binding by binding; use :func:`restore_float`."""

    def __init__(self, module: tvm.IRModule, interface: ModelInterface) -> None:
        self.main = module["main"]
        self.bindings = main_bindings(module)
        self.interface = interface
        self.builder = relax.BlockBuilder()
        self.definitions = {b.var: b.value for b in self.bindings}
        self.values: dict[relax.Var, relax.Expr] = {}
        self.ranges: dict[str, Interval] = {}
        self.clips = self.find_fused_clips()
        self.names = self.name_tensors()

    def find_fused_clips(self) -> dict[relax.Var, relax.VarBinding]:
        """Map each quantized variable to the clip that is its only reader: a fused activation."""
        uses = Counter(read_all_variables(self.bindings))
        return {
            b.value.args[0]: b
            for b in self.bindings
            if operator_name(b.value) == "relax.clip"
            and operator_name(self.definitions.get(b.value.args[0])) == "relax.quantize"
            and uses[b.value.args[0]] == 1
        }

    def name_tensors(self) -> dict[relax.Var, str]:
        """Return the name of each quantized tensor and of the float tensor before its rounding."""
        names: dict[relax.Var, str] = {}
        for number, binding in enumerate(self.bindings):
            if operator_name(binding.value) != "relax.quantize":
                continue
            rounded = binding.value.args[0]
            name = str(self.clips.get(binding.var, binding).var.name)
            if not is_source_name(name):
                name = f"{short_name(self.definitions.get(rounded, rounded))}_{number}"
            names[binding.var] = name
            if self.find_limits(binding) == (None, None):
                names[rounded] = name
        return names

    def run(self) -> RestoredNetwork:
        pairs = zip(self.main.params, self.interface.inputs, strict=True)
        inputs = [self.make_parameter(parameter, tensor) for parameter, tensor in pairs]
        with self.builder.function("main", inputs):
            with self.builder.dataflow():
                for binding in self.bindings:
                    self.values[binding.var] = self.convert_binding(binding)
                result = self.builder.emit_output(self.convert_argument(self.main.body.body))
            self.builder.emit_func_output(result)
        module = relax.transform.DeadCodeElimination(["main"])(self.builder.get())
        outputs = tuple(self.to_float_tensor(t) for t in self.interface.outputs)
        stated = tuple(self.to_float_tensor(t) for t in self.interface.inputs)
        interface = replace(self.interface, inputs=stated, outputs=outputs)
        return RestoredNetwork(module, interface, self.ranges)

    def make_parameter(self, parameter: relax.Var, tensor: Tensor) -> relax.Var:
        self.values[parameter] = relax.Var(
            str(parameter.name), relax.TensorType(tensor.shape, self.to_float_tensor(tensor).dtype)
        )
        return self.values[parameter]

    def to_float_tensor(self, tensor: Tensor) -> Tensor:
        """Return an input or output of the float network, and record its range."""
        if "int" not in tensor.dtype:
            return tensor
        if tensor.scale is None:
            raise UserError(
                f"quantize: the model states no quantization parameters of '{tensor.name}'; "
                "start from the float model, or from one with float32 inputs and outputs"
            )
        params = QuantParams(tensor.dtype, tensor.scale, tensor.zero_point or 0)
        self.ranges[tensor.name] = QuantRange(params, *params.limits).interval
        return replace(tensor, dtype="float32", scale=None, zero_point=None)

    def convert_argument(self, value: relax.Expr) -> relax.Expr:
        if isinstance(value, relax.Tuple):
            return relax.Tuple([self.convert_argument(f) for f in value.fields])
        return self.values.get(value, value) if isinstance(value, relax.Var) else value

    def convert_binding(self, binding: relax.VarBinding) -> relax.Expr:
        value, name = binding.value, operator_name(binding.value)
        if name == "relax.dequantize":
            if isinstance(value.args[0], Constant):
                return relax.const(dequantize_constant(value), "float32")
            return self.convert_argument(value.args[0])
        if name == "relax.quantize":
            return self.emit_limits(binding)
        if name == "relax.clip" and value.args[0] in self.clips:
            return self.convert_argument(value.args[0])
        if not isinstance(value, tvm.ir.Call):
            return self.convert_argument(value)
        given = [self.convert_argument(a) for a in value.args]
        call = tvm.ir.Call(value.op, given, value.attrs, value.ty_args)
        return self.builder.emit(call, self.names.get(binding.var, str(binding.var.name)))

    def read_quant_range(self, binding: relax.VarBinding) -> QuantRange:
        """Return the range of a quantize, limited by a fused activation."""
        params = read_quant_params(binding.value)
        low, high = params.limits
        if binding.var in self.clips:
            stated = [int(a.value) for a in self.clips[binding.var].value.args[1:]]
            low, high = max(low, stated[0]), min(high, stated[1])
        return QuantRange(params, low, high)

    def find_limits(self, binding: relax.VarBinding) -> tuple[float | None, float | None]:
        """Return the limits that a quantize's clamping adds to the network, or None."""
        quant_range = self.read_quant_range(binding)
        (least, largest), interval = quant_range.params.limits, quant_range.interval
        low = None
        if quant_range.low > least or (
            interval.low == 0 and self.may_be_negative(binding.value.args[0])
        ):
            low = interval.low
        return low, interval.high if quant_range.high < largest else None

    def may_be_negative(self, value: relax.Expr) -> bool:
        """Return whether a result may be negative, according to its operators and parameters.

        The result is False for an input, because its parameters already state its expected range.
        """
        call = self.definitions.get(value)
        if call is None:
            return False
        if operator_name(call) in SIGN_PRESERVING_OPERATORS:
            return self.may_be_negative(call.args[0])
        if operator_name(call) == "relax.quantize":
            params = read_quant_params(call)
            return params.zero_point > params.limits[0]
        return operator_name(call) not in NON_NEGATIVE_OPERATORS

    def emit_limits(self, binding: relax.VarBinding) -> relax.Expr:
        name, x = self.names[binding.var], self.convert_argument(binding.value.args[0])
        self.ranges[name] = self.read_quant_range(binding).interval
        low, high = self.find_limits(binding)
        if low is None and high is None:
            return x
        if low == 0 and high is None:
            return self.builder.emit(relax.op.nn.relu(x), name)
        ends = [-np.inf if low is None else low, np.inf if high is None else high]
        return self.builder.emit(relax.op.clip(x, *ends), name)


def dequantize_constant(call: tvm.ir.Call) -> Array:
    array, scale, zero_point = (constant_array(a) for a in call.args[:3])
    shape = [1] * array.ndim
    if scale.size > 1:
        shape[int(call.attrs.axis)] = scale.size
    along = [
        v.reshape(shape) if v.size > 1 else v.reshape([1] * array.ndim) for v in (scale, zero_point)
    ]
    real: Array = (array.astype("float64") - along[1]) * along[0].astype("float64")
    return real.reshape(static_shape(call)).astype("float32")


def infer_distributions(
    model: onnx.ModelProto, ranges: Mapping[str, Interval]
) -> dict[str, Distribution]:
    """Return limits, with empty histograms, for every float tensor of the restored network.

    These distributions replace the calibration if there are no samples. A tensor without a range in
    the model has the range of the tensor that it is moved to or from. Raises UserError with the
    tensors that have no known range.
    """
    tensors = float_tensors(model)
    known = {name: ranges[name] for name in tensors if name in ranges}
    moves = [
        (n.input[0], n.output[0]) for n in model.graph.node if n.op_type in SAME_SCALE_OPERATORS
    ]
    for before, after in moves:
        if before in known:
            known.setdefault(after, known[before])
    for before, after in reversed(moves):
        if after in known:
            known.setdefault(before, known[after])
    for node in model.graph.node:
        if node.op_type == "Softmax":
            known.setdefault(node.output[0], SOFTMAX_RANGE)
    missing = sorted(set(tensors) - set(known))
    if missing:
        raise UserError(
            "quantize: calibration.method: model: the model states no range for "
            f"{', '.join(missing)}; add samples (`calibration: {{inputs: …}}`)"
        )
    return {name: to_distribution(interval) for name, interval in known.items()}


def to_distribution(interval: Interval) -> Distribution:
    edges = np.array([interval.low, interval.high])
    return Distribution(interval.low, interval.high, np.zeros(1, "int64"), edges)
