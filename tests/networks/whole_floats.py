"""ONNX graphs of whole numbers in float32, as diana-quantlib, quantlab and NEMO write them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
from onnx import TensorProto

from .onnx_models import graph, node, value

Array = npt.NDArray[Any]


class WholeFloats:
    """A graph that grows by layers; ``x`` is the last tensor.

    The graph quantizes its input ``input``, unless ``bounded`` is False: then its range is unknown.
    """

    def __init__(self, shape: Sequence[int], seed: int = 1, bounded: bool = True) -> None:
        self.random = np.random.default_rng(seed)
        self.nodes: list[onnx.NodeProto] = []
        self.constants: dict[str, Array] = {}
        self.inputs = [value("input", shape)]
        self.x, self.channels = "input", shape[1]
        if bounded:
            self.shift(1 / 64, (-128, 127))

    def name(self, stem: str) -> str:
        return f"{stem}_{len(self.nodes)}"

    def constant(self, array: Any, dtype: str = "float32") -> str:
        name = self.name(f"c{len(self.constants)}")
        self.constants[name] = np.asarray(array, dtype)
        return name

    def add(self, kind: str, *operands: str, **attributes: Any) -> str:
        """Append a node whose first input is ``x``, and make its result ``x``."""
        result = self.name(kind.lower())
        self.nodes.append(node(kind, [self.x, *operands], [result], result, **attributes))
        self.x = result
        return result

    def conv(
        self, out: int, kernel: int = 3, *, groups: int = 1, largest: int = 127, **attributes: Any
    ) -> WholeFloats:
        shape = (out, self.channels // groups, kernel, kernel)
        weights = self.random.integers(-largest, largest, shape, endpoint=True)
        bias = self.random.integers(-999, 999, out)
        attributes.setdefault("pads", [kernel // 2] * 4)
        self.add("Conv", self.constant(weights), self.constant(bias), group=groups, **attributes)
        self.channels = out
        return self

    def dense(self, out: int) -> WholeFloats:
        weights = self.random.integers(-127, 127, (out, self.channels), endpoint=True)
        self.add("Flatten")
        bias = self.constant(self.random.integers(-999, 999, out))
        self.add("Gemm", self.constant(weights), bias, transB=1)
        return self

    def shift(self, divisor: float, limits: tuple[int, int]) -> WholeFloats:
        """diana-quantlib's requantization."""
        self.add("Div", self.constant(divisor))
        self.add("Floor")
        self.add("Max", self.constant(limits[0]))
        self.add("Min", self.constant(limits[1]))
        return self

    def divide(self, divisors: Array) -> WholeFloats:
        """quantlab's and NEMO's division after a sum or a pool."""
        self.add("Div", self.constant(divisors))
        self.add("Floor")
        self.add("Clip", self.constant(0), self.constant(127))
        return self

    def scale(self, factor: float, bits: int, low: int = 0) -> WholeFloats:
        """quantlab's requantization: factors about ``factor`` · 2^``bits``, per channel."""
        along = (self.channels, 1, 1)
        factors = np.rint(self.random.uniform(0.5, 1.5, along) * factor * 2**bits)
        self.add("Mul", self.constant(factors))
        self.add("Add", self.constant(self.random.integers(-(2**bits) * 8, 2**bits * 8, along)))
        self.add("Div", self.constant(2.0**bits))
        self.add("Floor")
        self.add("Clip", self.constant(low), self.constant(low + 255))
        return self

    def truncate(self, factor: float, numerator: int, divisor: int) -> WholeFloats:
        """NEMO's requantization: products in float32 and int64, a division towards zero."""
        along = (1, self.channels, 1, 1)
        about = factor * divisor / numerator
        signs = self.random.choice([-1, 1], along)
        factors = signs * np.rint(self.random.uniform(0.5, 1.5, along) * about)
        self.add("Mul", self.constant(factors))
        self.add("Add", self.constant(self.random.integers(-99, 99, along) * int(about)))
        self.add("Cast", to=TensorProto.INT64)
        self.add("Mul", self.constant([numerator], "int64"))
        self.add("Div", self.constant([divisor], "int64"))
        self.add("Cast", to=TensorProto.FLOAT)
        self.add("Clip", self.constant(0), self.constant(255))
        return self

    def apply(self, change: Callable[[WholeFloats], object]) -> WholeFloats:
        change(self)
        return self

    def model(self, **notes: Any) -> onnx.ModelProto:
        """Return the model with the output ``x``; ``notes`` are attributes that ONNX lacks."""
        made = graph(
            self.nodes, self.inputs, [value(self.x, ["a", "b", "c", "d"][: self.rank()])],
            self.constants, 13,
        )  # fmt: skip
        for convolution in (n for n in made.graph.node if n.op_type == "Conv"):
            convolution.attribute.extend(onnx.helper.make_attribute(*n) for n in notes.items())
        return made

    def rank(self) -> int:
        return 2 if any(n.op_type in ("Gemm", "Flatten") for n in self.nodes) else 4


def residual_block(network: WholeFloats, channels: int) -> None:
    """Append two convolutions and the sum of both their input and result, as diana-quantlib."""
    start = network.x
    network.conv(channels).shift(2.0**9, (0, 127))
    network.conv(channels).shift(2.0**9, (-128, 127))
    network.add("Add", start)
    network.shift(2, (0, 127))


def add_unclipped(network: WholeFloats, channels: int, factor: float = 1.0) -> None:
    """Append the sum of two convolutions without a clip, as quantlab; NEMO scales both by 32."""
    start = network.x
    network.conv(channels, largest=20).scale(2**-6, 12)
    if factor == 1:
        network.add("Add", start)
        return
    right = network.add("Mul", network.constant(factor))
    network.x = start
    network.add("Mul", network.constant(factor))
    network.add("Add", right)
    network.add("Div", network.constant(factor))
    network.add("Floor")


def diana_network(size: int = 16) -> WholeFloats:
    network = WholeFloats((1, 3, size, size))
    network.conv(16).shift(2.0**9, (0, 127))
    residual_block(network, 16)
    network.conv(32, strides=[2, 2]).shift(2.0**9, (0, 127))
    network.conv(32, groups=32).shift(2.0**8, (0, 127))
    return network


def quantlab_network(size: int = 16) -> WholeFloats:
    network = WholeFloats((1, 3, size, size), seed=2)
    network.conv(16).scale(2**-9, 16)
    network.conv(16, groups=16).scale(2**-9, 19)
    return network.conv(32, 1).scale(2**-9, 12)


def nemo_network(size: int = 16) -> WholeFloats:
    network = WholeFloats((1, 3, size, size), seed=3)
    network.conv(16).truncate(2**-9, 54, 2**21 - 1)
    network.conv(16, groups=16).truncate(2**-9, 37, 2**20 - 1)
    return network.conv(32, 1).truncate(2**-9, 3, 2**24)
