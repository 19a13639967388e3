"""Keeps the quantized values of a CPU region as integers if the results are exact.

A dequantized tensor is scale · (data - zero point). Convolutions and matrix products are linear, so
they run on the integers, and only the sum is scaled. Max-pooling, ReLU and layout changes commute
with a positive scale. The rounding of the scaled sum depends on the model format
(:mod:`firmwright.lowering.kernels.rounding`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from math import prod

import numpy as np
import tvm
from tvm import relax, te

from firmwright.codegen.names import c_identifier
from firmwright.ir.chains import INT32_LIMIT
from firmwright.ir.operators import SCALE_COMMUTING
from firmwright.ir.quant_params import find_integer_limits
from firmwright.ir.regions import Region
from firmwright.ir.relax import Constant, constant_array, dtype_of, operator_name, static_shape
from firmwright.lowering.float_use import ArithmeticUse, summarize_use
from firmwright.lowering.kernels.builder import RegionBuilder
from firmwright.lowering.kernels.normalization import normalize_rows
from firmwright.lowering.kernels.quantized_tensor import (
    BATCH_MATMUL,
    QuantizedTensor,
    Value,
    has_quant_params,
    read_dequantize,
    read_output_params,
)
from firmwright.lowering.kernels.rounding import Rounding

CONVOLUTION_ATTRIBUTES = (
    "strides", "padding", "output_padding", "dilation", "groups", "data_layout", "kernel_layout",
)  # fmt: skip


class IntegerRewriter:
    """Rebuilds one region function for :func:`use_integer_arithmetic`."""

    def __init__(self, region: Region, module: tvm.IRModule, rounding: Rounding) -> None:
        self.region = region
        self.function = module[region.name]
        self.rounding = rounding
        self.builder = RegionBuilder(module, self.function)

    def run(self) -> tuple[tvm.IRModule, ArithmeticUse]:
        name, block_builder = self.region.name, self.builder.block_builder
        # TVM derives the names of temporaries from the names of the parameters.
        parameters = [relax.Var(c_identifier(str(p.name)), p.ty) for p in self.function.params]
        self.builder.values.update(zip(self.function.params, parameters, strict=True))
        with block_builder.function(name, parameters):
            with block_builder.dataflow():
                for block in self.function.body.blocks:
                    for binding in block.bindings:
                        self.translate_binding(binding)
                returned = self.function.body.body.fields
                results = [block_builder.emit_output(self.compute_result(r)) for r in returned]
            block_builder.emit_func_output(relax.Tuple(results))
        # The translation emits an operator in float32, and a rounding may emit it again on
        # integers.
        module = relax.transform.DeadCodeElimination([name])(block_builder.get())
        return module, summarize_use(self.region, self.function, self.builder.values, module[name])

    def compute_result(self, returned: relax.Var) -> relax.Expr:
        """Return a result as a value that an operator computes, and copy constants.

        The cast of a constant counts as a constant, because TVM evaluates the cast at build time.
        The function would then have no operator.
        """
        value = self.builder.materialize_argument(returned)
        call = self.builder.definitions.get(returned)
        if call is not None and is_cast_constant(call):
            value = relax.const(constant_array(call.args[0]).astype(dtype_of(call)))
        inputs = (self.builder.values[p] for p in self.function.params)
        if isinstance(value, Constant) or any(value.same_as(p) for p in inputs):
            value = self.builder.emit_te("copy", copy_tensor, value)
        return value

    def translate_binding(self, binding: relax.VarBinding) -> None:
        self.builder.definitions[binding.var] = binding.value
        self.builder.values[binding.var] = self.translate(binding.value)

    def translate(self, call: relax.Expr) -> Value:
        """Return the value of a call as integers with a scale if the integers are exact.

        A constant is returned unchanged. The results of an operator with several results are
        ordinary tensors.
        """
        if isinstance(call, Constant):
            return call
        if isinstance(call, relax.TupleGetItem):
            results = self.builder.values[call.tuple_value]
            return self.builder.emit(relax.TupleGetItem(results, call.index))
        handler = {
            "relax.dequantize": self.dequantize,
            "relax.quantize": self.quantize,
            "relax.nn.conv1d": self.convolve,
            "relax.nn.conv2d": self.convolve,
            "relax.nn.conv3d": self.convolve,
            "relax.nn.conv1d_transpose": self.convolve,
            "relax.nn.conv2d_transpose": self.convolve,
            "relax.nn.conv3d_transpose": self.convolve,
            "relax.matmul": self.matmul,
            "relax.add": self.add,
            "relax.nn.relu": self.relu,
            "relax.clip": self.clip,
            "relax.concat": self.concat,
            "relax.nn.instance_norm": self.normalize,
            "relax.nn.layer_norm": self.normalize,
        }.get(
            operator_name(call),
            self.commute if operator_name(call) in SCALE_COMMUTING else None,
        )
        if handler is None:
            result: Value | None = self.rounding.lower_to_integers(self.builder, call)
        else:
            result = handler(call)
        return self.builder.emit_materialized(call) if result is None else result

    def dequantize(self, call: tvm.ir.Call) -> Value | None:
        return read_dequantize(call, self.builder.value(call.args[0]))

    def quantize(self, call: tvm.ir.Call) -> Value | None:
        """Round integers to new parameters, or keep integers whose parameters match."""
        params = read_output_params(call)
        if params is None:
            return None
        source = self.builder.value(call.args[0])
        if isinstance(source, QuantizedTensor) and has_quant_params(source, params):
            return source.data
        return self.rounding.quantize(self.builder, call.args[0], params)

    def convolve(self, call: tvm.ir.Call) -> Value | None:
        """Convolve integers. A grouped transposed convolution needs weights with one scale."""
        operator = operator_name(call).removeprefix("relax.nn.")
        if operator.endswith("transpose") and int(call.attrs.groups) != 1:
            weights = self.builder.value(call.args[1])
            if not isinstance(weights, QuantizedTensor) or not weights.is_per_tensor:
                return None
        kernel = static_shape(call.args[1])
        channels = str(call.attrs.kernel_layout).index("O")
        out_layout = str(call.attrs.out_layout) or str(call.attrs.data_layout)
        convolution = partial(
            getattr(relax.op.nn, operator),
            **{n: getattr(call.attrs, n) for n in CONVOLUTION_ATTRIBUTES if hasattr(call.attrs, n)},
            out_layout=out_layout,
        )
        products = self.sum_products(call, channels, prod(kernel) // kernel[channels], convolution)
        return None if products is None else replace(products, axis=out_layout.index("C"))

    def matmul(self, call: tvm.ir.Call) -> Value | None:
        right = static_shape(call.args[1])
        terms = right[max(len(right) - 2, 0)]
        products = self.sum_products(call, len(right) - 1, terms, relax.op.matmul)
        if products is None:
            return None
        operator = BATCH_MATMUL if len(right) > 2 else products.operator
        axis = len(static_shape(products.data)) - 1
        return replace(products, axis=axis, operator=operator)

    def sum_products(
        self, call: tvm.ir.Call, channel_axis: int, terms: int, compute: Callable[..., relax.Expr]
    ) -> QuantizedTensor | None:
        """Return the result of ``compute`` on both operands without their zero points.

        Each result is a sum of ``terms`` products. The channels of the second operand are along
        ``channel_axis``. The result is None if the sum of 8-bit operands might not fit int32.
        """
        data, weights = (self.builder.value(a) for a in call.args)
        if not (isinstance(data, QuantizedTensor) and isinstance(weights, QuantizedTensor)):
            return None
        if not (data.is_per_tensor and weights.bits <= data.bits <= 16):
            return None
        if not weights.is_per_tensor and weights.axis != channel_axis:
            return None
        largest = terms * data.largest * weights.largest
        if largest >= INT32_LIMIT and data.bits == 8:
            return None
        operands = [self.builder.subtract_zero_point(o) for o in (data, weights)]
        return QuantizedTensor(
            data=self.builder.emit(compute(*operands, out_dtype=sum_type(largest))),
            scale=data.scale * weights.scale,
            zero_point=np.zeros(1, "int64"),
            axis=0,
            largest=largest,
            operator=operator_name(call),
            activation_dtype=dtype_of(data.data),
        )

    def add(self, call: tvm.ir.Call) -> Value | None:
        """Add a bias as an integer if the bias has the accumulator's scale."""
        left, right = (self.builder.value(a) for a in call.args)
        if not (isinstance(left, QuantizedTensor) and isinstance(right, QuantizedTensor)):
            return None
        if dtype_of(left.data) not in ("int32", "int64") or dtype_of(right.data) != "int32":
            return None
        if not left.operator:
            left, right = right, left
        if left.zero_point.any() or right.zero_point.any():
            return None
        if not np.allclose(left.scale, right.scale, rtol=1e-5, atol=0.0):
            return None
        largest = left.largest + right.largest
        if largest >= INT32_LIMIT and not left.has_wide_sums:
            return None
        terms = [self.builder.cast(v.data, sum_type(largest)) for v in (left, right)]
        total = self.builder.emit(relax.op.add(*terms))
        if static_shape(total) != static_shape(left.data):
            return None
        return replace(left, data=total, largest=largest)

    def relu(self, call: tvm.ir.Call) -> Value | None:
        source = self.builder.value(call.args[0])
        if not isinstance(source, QuantizedTensor) or source.zero_point.any():
            return None
        zero = relax.const(0, dtype_of(source.data))
        clamped = self.builder.emit(relax.op.maximum(source.data, zero))
        return replace(source, data=clamped)

    def clip(self, call: tvm.ir.Call) -> Value | None:
        """Remove a clip to the whole range of the integers. Importers may emit such clips."""
        source = self.builder.value(call.args[0])
        if isinstance(source, QuantizedTensor) or not dtype_of(source).startswith(("int", "uint")):
            return None
        low, high = (float(a.value) for a in call.args[1:])
        smallest, largest = find_integer_limits(dtype_of(source))
        whole = low <= smallest and high >= largest
        return source if whole else None

    def concat(self, call: tvm.ir.Call) -> Value | None:
        """Join integers with equal quantization parameters."""
        parts = [self.builder.value(field) for field in getattr(call.args[0], "fields", ())]
        sources = [p for p in parts if isinstance(p, QuantizedTensor)]
        if not sources or len(sources) < len(parts) or not sources[0].is_per_tensor:
            return None
        if not all(s.has_same_params(sources[0]) for s in sources):
            return None
        joined = self.builder.emit_like(call, relax.Tuple([s.data for s in sources]))
        return replace(sources[0], data=joined, largest=max(s.largest for s in sources))

    def normalize(self, call: tvm.ir.Call) -> Value | None:
        return normalize_rows(self.builder, call)

    def commute(self, call: tvm.ir.Call) -> Value | None:
        source = self.builder.value(call.args[0])
        if not isinstance(source, QuantizedTensor) or not source.is_per_tensor:
            return None
        others = [self.builder.materialize_argument(a) for a in call.args[1:]]
        moved = self.builder.emit_like(call, source.data, *others)
        return replace(source, data=moved, axis=0)


def is_cast_constant(call: tvm.ir.Call) -> bool:
    return operator_name(call) == "relax.astype" and isinstance(call.args[0], Constant)


def sum_type(largest: int) -> str:
    return "int32" if largest < INT32_LIMIT else "int64"


def copy_tensor(data: te.Tensor) -> te.Tensor:
    """Return a copy of a tensor, because a region writes to a separate output."""
    return te.compute(data.shape, lambda *indices: data(*indices), name="copied")


def use_integer_arithmetic(
    region: Region, module: tvm.IRModule, rounding: Rounding
) -> tuple[tvm.IRModule, ArithmeticUse]:
    """Return a module in which the region's function uses integers if the results are exact.

    The second result lists the operators that still run in float32.
    """
    return IntegerRewriter(region, module, rounding).run()
