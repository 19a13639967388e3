"""Functions of one 8-bit value as tables of 256 entries, made at build time."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import tvm
from tvm import relax, te

from firmwright.targets.cpu.quantised import (
    Grid,
    Quantised,
    largest_integer,
    on_grid,
    smallest_integer,
)
from firmwright.transforms.rewriting import Constant, constant_array, dtype_of, operator_name

if TYPE_CHECKING:
    from firmwright.targets.cpu.integer_arithmetic import IntegerArithmetic

Numbers = npt.NDArray[np.float64]

ERF = np.vectorize(math.erf)
GELU_TANH = math.sqrt(2 / math.pi)

FUNCTIONS: dict[str, Callable[..., Numbers]] = {
    "relax.abs": np.abs,
    "relax.add": np.add,
    "relax.ceil": np.ceil,
    "relax.clip": np.clip,
    "relax.cos": np.cos,
    "relax.divide": np.divide,
    "relax.erf": ERF,
    "relax.exp": np.exp,
    "relax.floor": np.floor,
    "relax.log": np.log,
    "relax.maximum": np.maximum,
    "relax.minimum": np.minimum,
    "relax.multiply": np.multiply,
    "relax.negative": np.negative,
    "relax.nn.gelu": lambda x: x * 0.5 * (1 + ERF(x / np.sqrt(2))),
    "relax.nn.gelu_tanh": lambda x: 0.5 * x * (1 + np.tanh(GELU_TANH * (x + 0.044715 * x**3))),
    "relax.nn.relu": lambda x: np.maximum(x, 0),
    "relax.power": np.power,
    "relax.rsqrt": lambda x: 1 / np.sqrt(x),
    "relax.sigmoid": lambda x: 1 / (1 + np.exp(-x)),
    "relax.sin": np.sin,
    "relax.sqrt": np.sqrt,
    "relax.square": np.square,
    "relax.subtract": np.subtract,
    "relax.tanh": np.tanh,
}
"""Elementwise operators whose arguments are all in the call's argument list."""


def looked_up_chain(
    region: IntegerArithmetic, expression: relax.Expr, grid: Grid
) -> relax.Expr | None:
    """Put a chain of operators on one 8-bit tensor and constants into a table, whatever it is.

    In float32 as TFLite fills its tables (tensorflow/lite/kernels/internal/common.h, LUTPopulate):
    scaled by the reciprocal of the output's scale, rounded half away from zero. What is not a
    number becomes the smallest one, as in TFLite's LOG.
    """
    sources: list[Quantised] = []
    with np.errstate(all="ignore"):
        values = evaluated(region, expression, sources)
    if values is None or not sources:
        return None
    scaled = values.astype("float32") * (np.float32(1) / grid.scale)
    nearest = np.trunc(scaled + np.copysign(np.float32(0.5), scaled))
    nearest = np.where(np.isnan(nearest), -np.inf, nearest)
    entries = np.clip(nearest + grid.zero_point, grid.low, grid.high).astype(grid.dtype)
    return looked_up(region, sources[0], entries)


def evaluated(
    region: IntegerArithmetic, expression: relax.Expr, sources: list[Quantised]
) -> Numbers | None:
    """Evaluate at every value of the source's type; append the source. None where there is no way.

    Every step is rounded to float32.
    """
    if isinstance(expression, Constant):
        number = constant_array(expression)
        return number.astype("float64").reshape(()) if number.size == 1 else None
    if isinstance(expression, tvm.tirx.IntImm | tvm.tirx.FloatImm):
        return np.array(float(expression.value), "float64")
    call = region.definitions.get(expression)
    name = "" if call is None else operator_name(call)
    if call is None or name == "relax.dequantize":
        return every_value(region, expression, sources)
    if name not in FUNCTIONS:
        return None
    arguments = [evaluated(region, a, sources) for a in call.args]
    if any(a is None for a in arguments):
        return None
    return FUNCTIONS[name](*arguments).astype("float32").astype("float64")


def every_value(
    region: IntegerArithmetic, expression: relax.Expr, sources: list[Quantised]
) -> Numbers | None:
    source = eight_bit_source(region, expression)
    if source is None or any(not same_source(source, s) for s in sources):
        return None
    sources.append(source)
    real = np.float32(source.scale[0]) * np.float32(every_integer(source) - source.zero_point[0])
    return np.asarray(real, "float64")


def same_source(left: Quantised, right: Quantised) -> bool:
    return bool(left.data.same_as(right.data) and left.same_grid(right))


def every_integer(source: Quantised) -> npt.NDArray[np.int64]:
    """Return all values of the source's type, smallest first."""
    dtype = dtype_of(source.data)
    return np.arange(smallest_integer(dtype), largest_integer(dtype) + 1)


def eight_bit_source(region: IntegerArithmetic, expression: relax.Expr) -> Quantised | None:
    source = region.value(expression)
    plain = isinstance(source, Quantised) and source.per_tensor and source.eight_bit
    return source if plain else None


def concatenation(region: IntegerArithmetic, call: tvm.ir.Call, grid: Grid) -> relax.Expr | None:
    """Look the parts that are on other grids up in a table each, then join all.

    Source: tensorflow/lite/kernels/internal/reference/concatenation.h, ConcatenationWithScaling.
    """
    parts = []
    for field in call.args[0].fields:
        source = eight_bit_source(region, field)
        if source is None:
            return None
        parts.append(source.data if on_grid(source, grid) else rescaled(region, source, grid))
    return region.emit(tvm.ir.Call(call.op, [relax.Tuple(parts)], call.attrs, call.ty_args))


def rescaled(region: IntegerArithmetic, source: Quantised, grid: Grid) -> relax.Expr:
    factor = np.float32(source.scale[0]) * (np.float32(1) / grid.scale)
    bias = np.float32(-source.zero_point[0]) * factor
    real = every_integer(source).astype("float32") * factor + bias
    nearest = np.trunc(real + np.copysign(np.float32(0.5), real)) + grid.zero_point
    return looked_up(region, source, np.clip(nearest, grid.low, grid.high).astype(grid.dtype))


def integer_table(
    region: IntegerArithmetic, source: Quantised, grid: Grid, function: Callable[[int], int]
) -> relax.Expr:
    """Look up a function from data - zero point to the result's integer - zero point."""
    centred = every_integer(source) - source.zero_point[0]
    results = np.array([function(int(x)) for x in centred])
    entries = np.clip(results + grid.zero_point, grid.low, grid.high).astype(grid.dtype)
    return looked_up(region, source, entries)


def looked_up(
    region: IntegerArithmetic, source: Quantised, entries: npt.NDArray[Any]
) -> relax.Expr:
    """Look the source's integers up in a table that starts at its type's smallest one."""
    table = region.constant("table", entries)
    first = smallest_integer(dtype_of(source.data))

    def compute(data: te.Tensor, table: te.Tensor) -> te.Tensor:
        def element(*indices: Any) -> Any:
            return table(data(*indices).astype("int32") - first)

        return te.compute(data.shape, element, name="looked_up")

    return region.emit_te("look_up", compute, source.data, table)
