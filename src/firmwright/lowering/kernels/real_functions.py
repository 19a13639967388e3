"""Computes Relax's elementwise operators on NumPy arrays for tables.

:func:`evaluate` rounds each operator's result once, from double precision to float32. For + - * /
and the square root, the result is IEEE's float32 result. For other operators, the result is the
float32 nearest to the mathematical value, except for rare near-ties.
"""

from __future__ import annotations

from collections.abc import Callable
from math import erf, sqrt
from typing import Any

import numpy as np
import numpy.typing as npt

from firmwright.ir.nodes import Call
from firmwright.ir.relax import operator_name

Real = npt.NDArray[np.float64]


def sigmoid(x: Real) -> Real:
    return 1.0 / (1.0 + np.exp(-x))


def gelu(x: Real) -> Real:
    result: Real = 0.5 * x * (1.0 + np.vectorize(erf)(x / sqrt(2.0)))
    return result


def gelu_tanh(x: Real) -> Real:
    return 0.5 * x * (1.0 + np.tanh(sqrt(2.0 / np.pi) * (x + 0.044715 * x**3)))


def softplus(x: Real, beta: float, threshold: float) -> Real:
    return np.where(beta * x > threshold, x, np.log1p(np.exp(beta * x)) / beta)


NUMPY_NAMES = (
    "abs acos acosh add asin asinh atan atanh ceil clip cos cosh divide equal exp floor greater "
    "greater_equal isfinite isinf isnan less less_equal log logical_and logical_not logical_or "
    "maximum minimum multiply negative not_equal power sign sin sinh sqrt square subtract tan tanh "
    "where"
)
"""Operators that have equal names in Relax and NumPy."""

FUNCTIONS: dict[str, Callable[..., npt.NDArray[Any]]] = {
    **{name: getattr(np, name) for name in NUMPY_NAMES.split()},
    "astype": lambda x: x,
    "erf": np.vectorize(erf),
    "nn.gelu": gelu,
    "nn.gelu_tanh": gelu_tanh,
    "nn.prelu": lambda x, slope: np.where(x > 0.0, x, x * slope),
    "nn.relu": lambda x: np.maximum(x, 0.0),
    "nn.relu6": lambda x: np.clip(x, 0.0, 6.0),
    "nn.silu": lambda x: x * sigmoid(x),
    "round": np.rint,
    "rsqrt": lambda x: 1.0 / np.sqrt(x),
    "sigmoid": sigmoid,
}
"""A mapping from Relax's names of operators without relevant attributes to functions."""

FUNCTIONS_WITH_ATTRIBUTES: dict[str, Callable[..., Real]] = {
    "nn.leakyrelu": lambda a, x: np.where(x > 0.0, x, x * np.float32(a.alpha)),
    "nn.softplus": lambda a, x: softplus(x, float(a.beta), float(a.threshold)),
}


def can_evaluate(call: Call) -> bool:
    name = operator_name(call).removeprefix("relax.")
    return name in FUNCTIONS or name in FUNCTIONS_WITH_ATTRIBUTES


def evaluate(call: Call, arguments: list[npt.NDArray[Any]]) -> npt.NDArray[Any]:
    """Return the result of a call's operator.

    Inputs and outputs are float32 numbers or Booleans.
    """
    name = operator_name(call).removeprefix("relax.")
    wide = [a if a.dtype == bool else a.astype("float64") for a in arguments]
    with np.errstate(
        all="ignore"
    ):  # a table also has entries for inputs for which the function is undefined
        if name in FUNCTIONS:
            result = FUNCTIONS[name](*wide)
        else:
            result = FUNCTIONS_WITH_ATTRIBUTES[name](call.attrs, *wide)
        return result if result.dtype == bool else result.astype("float32")
