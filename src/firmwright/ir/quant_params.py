"""Describes quantization parameters: a real number is scale · (integer - zero point)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from firmwright.ir.nodes import Call
from firmwright.ir.relax import constant_array, dtype_of, operator_name


def find_integer_limits(dtype: str) -> tuple[int, int]:
    """Return the smallest and the largest integer of a type of 1 to 64 bits, such as int3."""
    bits = int(dtype.removeprefix("u").removeprefix("int"))
    if dtype.startswith("u"):
        return 0, 2**bits - 1
    return -(2 ** (bits - 1)), 2 ** (bits - 1) - 1


@dataclass(frozen=True)
class QuantParams:
    """The type of the integers, the scale (a float32 number) and the zero point of a tensor."""

    dtype: str
    scale: float
    zero_point: int

    @property
    def numpy_dtype(self) -> np.dtype[Any]:
        return np.dtype(self.dtype)

    @property
    def limits(self) -> tuple[int, int]:
        return find_integer_limits(self.dtype)

    def dequantize(self, integer: int) -> float:
        return self.scale * (integer - self.zero_point)

    def fake_quantize(self, values: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        """Return ``values`` quantized and dequantized: rounded half to even, clamped."""
        steps = np.rint(values / self.scale) + self.zero_point
        kept: npt.NDArray[np.float64] = np.clip(steps, *self.limits) - self.zero_point
        return kept * self.scale


def read_quant_params(call: Call) -> QuantParams:
    """Return the constant parameters of a Relax quantize or dequantize of a whole tensor."""
    scale, zero_point = (constant_array(a).reshape(-1)[0] for a in call.args[1:3])
    quantizes = operator_name(call) == "relax.quantize"
    dtype = str(call.attrs.out_dtype) if quantizes else dtype_of(call.args[0])
    return QuantParams(dtype, float(scale), int(zero_point))
