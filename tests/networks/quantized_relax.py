"""Small quantized networks in Relax, as the importers write them, in either layout."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import tvm
from tvm import relax

from firmwright.ir.quant_params import QuantParams
from firmwright.ir.relax import static_shape

LENGTHS = {"N": 1, "H": 6, "W": 5, "C": 4}
"""The axes of every network's input."""

INPUT = QuantParams("int8", 2.0**-4, -3)
RELU = QuantParams("int8", 0.1, -128)
"""Quantization parameters whose lowest integer is zero, as after a ReLU."""
SIGNED = QuantParams("int8", 0.1, 7)

Bias = list[float]
"""Biases in steps of the sums, one per channel."""


@dataclass(frozen=True)
class Tensor:
    """Integers with quantization parameters, in a layout."""

    stored: relax.Var
    grid: QuantParams
    layout: str

    @property
    def channels(self) -> int:
        return static_shape(self.stored)[self.layout.index("C")]


class Net:
    """Adds quantized operators to a function; a seed decides all random values."""

    def __init__(self, builder: relax.BlockBuilder, seed: int) -> None:
        self.emit = builder.emit
        self.random = np.random.default_rng(seed)

    def real(self, x: Tensor) -> relax.Var:
        return self.emit(dequantize(x.stored, x.grid.scale, x.grid.zero_point))

    def store(self, real: relax.Expr, grid: QuantParams, layout: str) -> Tensor:
        scale, point = relax.const(grid.scale, "float32"), relax.const(grid.zero_point, "int32")
        stored = relax.op.quantize(self.emit(real), scale, point, out_dtype=grid.dtype)
        return Tensor(self.emit(stored), grid, layout)

    def conv(
        self,
        x: Tensor,
        bias: Bias | int,
        grid: QuantParams = RELU,
        window: int = 1,
        padding: int = 0,
        depthwise: bool = False,
        scale: float | None = None,
        weights: int | None = None,
    ) -> Tensor:
        """Add a convolution with a bias, or with a number of channels and no bias.

        ``scale`` is the scale of the weights; without it each channel has a separate scale. The
        weights are random, or all equal.
        """
        channels = bias if isinstance(bias, int) else len(bias)
        inner = 1 if depthwise else x.channels
        low, high = (-127, 128) if weights is None else (weights, weights + 1)
        stored = self.random.integers(low, high, (channels, inner, window, window), "int8")
        kernel = "OIHW"
        if x.layout == "NHWC":
            kernel = "HWOI" if depthwise else "HWIO"
            stored = stored.transpose(["OIHW".index(letter) for letter in kernel])
        scales = self.random.uniform(0.002, 0.01, channels) if scale is None else scale
        real_weights = self.emit(dequantize(relax.const(stored), scales, 0, kernel.index("O")))
        sums = relax.op.nn.conv2d(
            self.real(x), real_weights, padding=padding, groups=x.channels if depthwise else 1,
            data_layout=x.layout, kernel_layout=kernel, out_layout=x.layout,
        )  # fmt: skip
        real = self.emit(sums)
        if not isinstance(bias, int):
            real = self.add_bias(real, bias, x.grid.scale * np.float32(scales), x.layout)
        activated = relax.op.nn.relu(real) if grid.zero_point == -128 else real
        return self.store(activated, grid, x.layout)

    def dense(self, x: Tensor, bias: Bias, grid: QuantParams = SIGNED) -> Tensor:
        stored = self.random.integers(-127, 128, (x.channels, len(bias)), "int8")
        weights = self.emit(dequantize(relax.const(stored), 0.004, 0))
        real = self.emit(relax.op.matmul(self.real(x), weights))
        return self.store(self.add_bias(real, bias, x.grid.scale * 0.004, "NC"), grid, "NC")

    def add_bias(self, real: relax.Var, bias: Bias, scale: Any, layout: str) -> relax.Var:
        along = [-1 if letter == "C" else 1 for letter in layout]
        stored = relax.const(np.array(bias).astype("int32").reshape(along))
        return self.emit(
            relax.op.add(real, self.emit(dequantize(stored, scale, 0, layout.index("C"))))
        )

    def pool(self, x: Tensor, name: str, window: int, **options: Any) -> Tensor:
        operator = getattr(relax.op.nn, name)
        pooled = operator(self.real(x), [window, window], layout=x.layout, **options)
        return self.store(pooled, x.grid, x.layout)

    def mean(self, x: Tensor, grid: QuantParams, keepdims: bool) -> Tensor:
        axes = [x.layout.index(letter) for letter in "HW"]
        real = relax.op.mean(self.real(x), axes, keepdims)
        return self.store(real, grid, x.layout if keepdims else "NC")

    def flatten(self, x: Tensor) -> Tensor:
        return Tensor(self.emit(relax.op.reshape(x.stored, (1, x.channels))), x.grid, "NC")

    def join(self, operator: Callable[..., relax.Expr], one: Tensor, other: Tensor) -> Tensor:
        return self.store(operator(self.real(one), self.real(other)), RELU, one.layout)


def dequantize(stored: relax.Expr, scale: Any, point: int, axis: int = -1) -> relax.Expr:
    numbers = relax.const(np.asarray(scale, "float32")), relax.const(point, "int32")
    return relax.op.dequantize(stored, *numbers, axis, "float32")


Build = Callable[[Net, Tensor], Tensor | tuple[Tensor, ...]]


def make_module(networks: Mapping[str, Build], layout: str) -> tvm.IRModule:
    """Return a module with a function of several networks, each with an input of its name."""
    builder = relax.BlockBuilder()
    kind = relax.TensorType([LENGTHS[letter] for letter in layout], INPUT.dtype)
    inputs = {name: relax.Var(name, kind) for name in networks}
    with builder.function("main", list(inputs.values())):
        with builder.dataflow():
            results: list[Tensor] = []
            for seed, (name, build) in enumerate(networks.items()):
                made = build(Net(builder, seed), Tensor(inputs[name], INPUT, layout))
                results += made if isinstance(made, tuple) else (made,)
            outputs = builder.emit_output(relax.Tuple([r.stored for r in results]))
        builder.emit_func_output(outputs)
    return builder.get()
