"""Rewrites a QDQ module whose scales are powers of two to a module of integers and shifts.

    int8 · int8 -> int32 sum, + int32 bias -> shift to the right -> clip -> int8

Small accelerators compute in these steps. Any CPU computes equal results, because sums are exact
and the shift rounds toward minus infinity. Half a step of the result is added to the bias, so that
results are rounded to the nearest step, halves upwards. Operators without a shift form (a softmax,
layers that stay float32) keep their dequantize and quantize.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import frexp, log2, prod
from typing import Any

import numpy as np
import numpy.typing as npt
import tvm
from tvm import relax

from firmwright.errors import UserError
from firmwright.ir.chains import CONVOLUTION, PRODUCT
from firmwright.ir.relax import (
    Constant,
    constant_array,
    definition,
    operator_name,
    rewrite_calls,
    static_shape,
)
from firmwright.ir.tensors import ModelInterface
from firmwright.models.relax import importer as relax_importer
from firmwright.models.stated_params import read_stated_params, state_in_relax
from firmwright.transforms import canonicalize

Array = npt.NDArray[Any]
LOWEST, LARGEST = -128, 127
LARGEST_SUM = 2**31 - 1
LARGEST_SHIFT = 31
PRODUCTS = (CONVOLUTION, PRODUCT)


@dataclass(frozen=True)
class ScaledInt8:
    """int8 integers that count steps of ``2 ** exponent``."""

    integers: relax.Expr
    exponent: int


@dataclass(frozen=True)
class Accumulator:
    """int32 integers that, after a shift to the right, count steps of the result's scale."""

    integers: relax.Expr
    shift: int


class NoShiftFormError(Exception):
    """Raised if an operator has no shift form, or has tensors other than int8."""


def make_shift_network(
    module: tvm.IRModule, interface: ModelInterface
) -> tuple[tvm.IRModule, ModelInterface]:
    """Return an imported QDQ graph in shift arithmetic: a Relax model with an equal interface."""
    params_of = read_stated_params((*interface.inputs, *interface.outputs))
    names = [tensor.name for tensor in interface.outputs]
    module = state_in_relax(rewrite_to_shifts(canonicalize(module)), params_of, names)
    data = tvm.ir.save_json(module).encode()
    _, described = relax_importer.import_model(data, "the quantized model", {})
    return module, replace(described, inputs=interface.inputs, outputs=interface.outputs)


def rewrite_to_shifts(module: tvm.IRModule) -> tvm.IRModule:
    """Return the module, in which layers of ``main`` have a shift form if such a form exists.

    Images are (N, C, H, W), convolutions' weights OIHW. Raises UserError with every layer that
    cannot be in this form. The scales of a layer must be powers of two and equal for all channels.
    The shift must be from 0 to 31, and the sums must fit int32.
    """
    problems: list[str] = []

    def rewrite(builder: relax.BlockBuilder, call: tvm.ir.Call) -> relax.Expr:
        if operator_name(call) != "relax.quantize" or str(call.attrs.out_dtype) != "int8":
            return call
        try:
            return ShiftLayer(builder, call).lower()
        except UserError as error:  # TVM would convert the error to a different exception
            problems.append(str(error))
        except NoShiftFormError:
            pass
        return call

    result = rewrite_calls(module, rewrite)
    if problems:
        raise UserError("\n".join(problems))
    return result


class ShiftLayer:
    """A layer that one quantize rounds: a sum of products or of two tensors, a mean, a maximum."""

    def __init__(self, builder: relax.BlockBuilder, quantize: tvm.ir.Call) -> None:
        self.builder = builder
        self.quantize = quantize
        self.name = str(getattr(quantize.args[0], "name", "a layer"))

    def lower(self) -> relax.Expr:
        value, low, high = self.strip_activation(self.find_definition(self.quantize.args[0]))
        if operator_name(value) == "relax.nn.max_pool2d":
            return self.lower_max_pool(value, low, high)
        sums = self.accumulate(value)
        shift = relax.const(np.array(sums.shift, "int32"), "int32")
        shifted = self.emit(relax.op.right_shift(sums.integers, shift))
        return relax.op.astype(self.emit(relax.op.clip(shifted, low, high)), "int8")

    def find_definition(self, value: relax.Expr) -> relax.Expr:
        return definition(self.builder, value)

    def emit(self, value: relax.Expr) -> relax.Var:
        return self.builder.emit(value, "lv")

    def strip_activation(self, value: relax.Expr) -> tuple[relax.Expr, int, int]:
        """Return the input of an activation, and the limits of the result's integers after it."""
        if operator_name(value) == "relax.nn.relu":
            return self.find_definition(value.args[0]), 0, LARGEST
        if operator_name(value) != "relax.clip":
            return value, LOWEST, LARGEST
        step = 2.0 ** self.read_exponent(self.quantize)
        limits = np.rint([float(a.value) / step for a in value.args[1:]])
        low, high = (int(v) for v in limits.clip(LOWEST, LARGEST))
        return self.find_definition(value.args[0]), low, high

    def accumulate(self, value: relax.Expr) -> Accumulator:
        name = operator_name(value)
        if name in PRODUCTS:
            return self.accumulate_products(value, None)
        if name == "relax.add":
            first = self.find_definition(value.args[0])
            if operator_name(first) in PRODUCTS:
                return self.accumulate_products(first, value.args[1])
            return self.accumulate_addition(value)
        if is_global_average(value):
            return self.accumulate_mean(value)
        raise NoShiftFormError

    def accumulate_products(self, call: tvm.ir.Call, bias: relax.Expr | None) -> Accumulator:
        """Return the sums of a convolution or matrix product, with the bias and the half step."""
        x, weights = (self.read_int8(argument) for argument in call.args)
        if not isinstance(weights.integers, Constant):
            raise NoShiftFormError
        array = constant_array(weights.integers)
        exponent = x.exponent + weights.exponent
        shift = self.compute_shift(exponent)
        biases = self.read_bias(bias, exponent) + rounding_offset(shift)
        by_channel = array if array.ndim == 4 else array.T
        reach = -LOWEST * np.abs(by_channel.astype("int64")).reshape(len(by_channel), -1).sum(1)
        self.expect_int32(int((reach + np.abs(biases)).max()))
        if operator_name(call) == PRODUCT:
            total = relax.op.matmul(x.integers, weights.integers, out_dtype="int32")
        else:
            a = call.attrs
            total = relax.op.nn.conv2d(
                x.integers, weights.integers, strides=list(a.strides), padding=list(a.padding),
                dilation=list(a.dilation), groups=int(a.groups), out_dtype="int32",
            )  # fmt: skip
        across = np.broadcast_to(biases, len(by_channel)).astype("int32")
        shape = (1, -1, 1, 1) if array.ndim == 4 else (-1,)
        constant = relax.const(across.reshape(shape), "int32")
        return Accumulator(self.emit(relax.op.add(self.emit(total), constant)), shift)

    def read_bias(self, bias: relax.Expr | None, exponent: int) -> Array:
        """Return the bias as int64 steps of the sum, per channel, or 0 if there is no bias."""
        if bias is None:
            return np.zeros(1, "int64")
        call = self.find_definition(bias)
        if operator_name(call) != "relax.dequantize" or not isinstance(call.args[0], Constant):
            raise NoShiftFormError
        if set(np.log2(constant_array(call.args[1])).reshape(-1)) != {exponent}:
            raise UserError(
                f"{self.name}: the bias and the layer's sums have different scales; quantize "
                "the float model"
            )
        return constant_array(call.args[0]).astype("int64").reshape(-1)

    def accumulate_addition(self, call: tvm.ir.Call) -> Accumulator:
        """Return the sum of two tensors of equal shapes and scales.

        The accelerator does not add half a step in this operator. Half a step is not needed,
        because the scales are equal (:mod:`firmwright.quantize.shift_scales`) and the shift is 0.
        """
        first, second = (self.read_int8(argument) for argument in call.args)
        if static_shape(first.integers) != static_shape(second.integers):
            raise NoShiftFormError
        if first.exponent != second.exponent:
            raise UserError(
                f"{self.name}: adds tensors of different scales; quantize the float model"
            )
        wide = [self.emit(relax.op.astype(t.integers, "int32")) for t in (first, second)]
        return Accumulator(self.emit(relax.op.add(*wide)), self.compute_shift(first.exponent))

    def accumulate_mean(self, call: tvm.ir.Call) -> Accumulator:
        """Return the sum over each channel's image, times a factor if a shift cannot divide it."""
        x = self.read_int8(call.args[0])
        count = prod(static_shape(x.integers)[2:])
        ratio = 2.0 ** (x.exponent - self.read_exponent(self.quantize)) / count
        wide = self.emit(relax.op.astype(x.integers, "int32"))
        total = self.emit(relax.op.sum(wide, [2, 3], keepdims=True))
        fraction, power = frexp(ratio)
        shift = 1 - power
        if fraction != 0.5 or shift not in range(LARGEST_SHIFT + 1):
            # Use all bits, except the bits that the largest sum and the half step need.
            shift = int(log2(LARGEST_SUM / (-LOWEST * count * ratio + 1)))
            factor = relax.const(np.array(round(ratio * 2**shift), "int32"), "int32")
            total = self.emit(relax.op.multiply(total, factor))
        half = relax.const(np.array(rounding_offset(shift), "int32"), "int32")
        return Accumulator(self.emit(relax.op.add(total, half)), shift)

    def lower_max_pool(self, call: tvm.ir.Call, low: int, high: int) -> relax.Expr:
        """Return the maximum of each window. Integers have the order of their real numbers."""
        x, a = self.read_int8(call.args[0]), call.attrs
        if x.exponent != self.read_exponent(self.quantize) or str(a.layout) != "NCHW":
            raise NoShiftFormError
        largest = relax.op.nn.max_pool2d(
            x.integers, pool_size=list(a.pool_size), strides=list(a.strides),
            padding=list(a.padding), dilation=list(a.dilation), ceil_mode=bool(a.ceil_mode),
        )  # fmt: skip
        if (low, high) == (LOWEST, LARGEST):
            return largest
        return relax.op.clip(self.emit(largest), low, high)

    def read_int8(self, value: relax.Expr) -> ScaledInt8:
        """Return the int8 integers before the dequantize of a tensor."""
        call = self.find_definition(value)
        if operator_name(call) != "relax.dequantize":
            raise NoShiftFormError
        if str(call.args[0].ty.dtype) != "int8":
            raise NoShiftFormError
        return ScaledInt8(call.args[0], self.read_exponent(call))

    def read_exponent(self, call: tvm.ir.Call) -> int:
        """Return the exponent of a quantize's or dequantize's scale, which is a power of two."""
        scales, zero_points = (constant_array(a).reshape(-1) for a in call.args[1:3])
        if len(set(scales)) > 1:
            raise UserError(
                f"{self.name}: its weights have a scale per channel, and a layer has one shift; "
                "quantize with `per_channel: false`"
            )
        fraction, power = frexp(float(scales[0]))
        if fraction != 0.5 or zero_points.any():
            raise UserError(
                f"{self.name}: scale {scales[0]:g} and zero point {zero_points[0]}: shifts need "
                "scales that are powers of two, and zero points of 0; quantize with `scheme: pow2`"
            )
        return power - 1

    def compute_shift(self, exponent: int) -> int:
        """Return the shift from steps of a sum to steps of the result."""
        shift = self.read_exponent(self.quantize) - exponent
        if not 0 <= shift <= LARGEST_SHIFT:
            raise UserError(
                f"{self.name}: needs a shift of {shift}; expected 0 to {LARGEST_SHIFT}. Its "
                "weights or results may be zero throughout: keep the layer float32 "
                "(`quantize.keep_float.layers`)"
            )
        return shift

    def expect_int32(self, reach: int) -> None:
        if reach > LARGEST_SUM:
            raise UserError(
                f"{self.name}: a sum can reach {reach}, which exceeds int32; keep the layer "
                "float32 (`quantize.keep_float.layers`)"
            )


def rounding_offset(shift: int) -> int:
    """Return the offset with which a shift rounds to the nearest step instead of down."""
    return 1 << shift - 1 if shift else 0


def is_global_average(call: relax.Expr) -> bool:
    """Return whether a call averages each channel over the whole image and keeps four axes."""
    name = operator_name(call)
    if name == "relax.mean":
        axes = call.attrs.axis
        return axes is not None and [int(a) for a in axes] == [2, 3] and bool(call.attrs.keepdims)
    if name == "relax.nn.avg_pool2d":
        a = call.attrs
        whole = list(static_shape(call.args[0])[2:]) == [int(n) for n in a.pool_size]
        return whole and str(a.layout) == "NCHW" and not any(int(p) for p in a.padding)
    if name == "relax.nn.adaptive_avg_pool2d":
        return str(call.attrs.layout) == "NCHW" and list(static_shape(call)[2:]) == [1, 1]
    return False
