"""Describes the tensors of a rebuilt region: real numbers or quantized integers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from firmwright.ir.chains import is_per_tensor
from firmwright.ir.nodes import Call, Expr
from firmwright.ir.quant_params import find_integer_limits, read_quant_params
from firmwright.ir.relax import Constant, constant_array, dtype_of, static_shape
from firmwright.ir.tensors import ELEMENT_BYTES

BATCH_MATMUL = "product of stacks of matrices"
"""The operator of sums of products of two activations, like TFLite's BATCH_MATMUL."""

RoundFunction: TypeAlias = Callable[[Any], Any]
"""Rounds float32 numbers to whole numbers."""


@dataclass(frozen=True)
class QuantizedTensor:
    """A tensor scale · (data - zero_point), whose parameters are (1,) or per channel on ``axis``.

    ``largest`` bounds the magnitude of data - zero_point. ``operator`` is the operator that
    computed the sums, or '' for stored integers. ``activation_dtype`` is the type of the
    activations from which the sums were computed.
    """

    data: Expr
    scale: npt.NDArray[np.float64]
    zero_point: npt.NDArray[np.int64]
    axis: int
    largest: int
    operator: str = ""
    activation_dtype: str = ""

    @property
    def is_per_tensor(self) -> bool:
        return self.scale.size == 1 and self.zero_point.size == 1

    @property
    def bits(self) -> int:
        return 8 * ELEMENT_BYTES[dtype_of(self.data)]

    @property
    def width(self) -> int:
        """The width in bits: 8, or 16 for int16 with the zero point 0 as in TFLite, else 0."""
        if self.bits == 8:
            return 8
        return 16 if dtype_of(self.data) == "int16" and not self.zero_point.any() else 0

    @property
    def has_wide_sums(self) -> bool:
        return self.activation_dtype in ("int16", "uint16")

    def has_same_params(self, other: QuantizedTensor) -> bool:
        return bool(
            dtype_of(self.data) == dtype_of(other.data)
            and np.array_equal(np.float32(self.scale), np.float32(other.scale))
            and np.array_equal(self.zero_point, other.zero_point)
        )

    def reshape_for_broadcast(self, values: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Return per-channel values in a shape that broadcasts against the data."""
        if values.size == 1:
            return values.reshape(())
        rank = len(static_shape(self.data))
        shape = [1] * rank
        shape[self.axis] = values.size
        return values.reshape(shape)


Value: TypeAlias = Expr | QuantizedTensor


@dataclass(frozen=True)
class OutputQuantParams:
    """The integers that store a real tensor: scale · (integer - zero_point).

    ``low`` and ``high`` are the smallest and the largest integer that an activation allows.
    """

    dtype: str
    scale: np.float32
    zero_point: int
    low: int
    high: int

    def clamp_to(self, low: float, high: float, nearest: RoundFunction) -> OutputQuantParams:
        """Return the parameters with integers limited to the real interval [low, high].

        The bounds are quantized like all values: ``nearest`` rounds the float32 quotient. TFLite's
        CalculateActivationRangeQuantized (kernels/kernel_util.cc) computes equal bounds.
        """
        bounds = [self.low, self.high]
        for position, value in enumerate((low, high)):
            if np.isfinite(value):
                with np.errstate(over="ignore"):
                    whole = nearest(np.float32(value) / self.scale) + self.zero_point
                bounds[position] = int(np.clip(whole, self.low, self.high))
        return replace(self, low=bounds[0], high=bounds[1])


def read_dequantize(call: Call, data: Value) -> QuantizedTensor | None:
    """Return the quantized tensor that a ``relax.dequantize`` of ``data`` represents.

    The result is None if the quantization parameters are not constant.
    """
    scale, zero_point = call.args[1:]
    if isinstance(data, QuantizedTensor) or not dtype_of(data).startswith(("int", "uint")):
        return None
    if not (isinstance(scale, Constant) and isinstance(zero_point, Constant)):
        return None
    scales = constant_array(scale).astype("float64").reshape(-1)
    points = constant_array(zero_point).astype("int64").reshape(-1)
    return QuantizedTensor(
        data, scales, points, int(call.attrs.axis), bound_magnitude(data, points)
    )


def bound_magnitude(data: Expr, zero_point: npt.NDArray[np.int64]) -> int:
    """Return a bound of |data - zero_point| from a constant's values or from the type."""
    if isinstance(data, Constant):
        values = constant_array(data).astype("int64")
        low, high = int(values.min()), int(values.max())
    else:
        low, high = find_integer_limits(dtype_of(data))
    return max(abs(bound - int(point)) for bound in (low, high) for point in set(zero_point))


def read_output_params(call: Call) -> OutputQuantParams | None:
    """Return the parameters of a ``relax.quantize`` to integers if they are per tensor.

    The result is None if the parameters are per channel or not constant.
    """
    if not is_per_tensor(call) or not str(call.attrs.out_dtype).startswith(("int", "uint")):
        return None
    params = read_quant_params(call)
    return OutputQuantParams(
        params.dtype, np.float32(params.scale), params.zero_point, *params.limits
    )


def has_quant_params(source: QuantizedTensor, params: OutputQuantParams) -> bool:
    return bool(
        source.is_per_tensor
        and dtype_of(source.data) == params.dtype
        and np.float32(source.scale[0]) == params.scale
        and source.zero_point[0] == params.zero_point
    )
