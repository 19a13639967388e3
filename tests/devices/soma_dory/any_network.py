"""Small random networks in the accelerator's format: odd widths, sums, clips."""

from __future__ import annotations

from math import prod

import numpy as np
import tvm
from tvm import relax

from firmwright.builder import Graph
from firmwright.ir.layer import Array
from firmwright.ir.relax import static_shape

WIDTHS = (3, 6, 8, 12, 15, 16, 17, 24, 25, 31, 32, 40, 48)


class NetworkMaker:
    """Appends layers to a network; the seed decides all their parameters."""

    def __init__(self, seed: int) -> None:
        self.random = np.random.default_rng(seed)
        self.graph, self.count = Graph(), 0

    def make(self) -> tvm.IRModule:
        shape = (1, int(self.random.integers(1, 20)), self.draw(range(3, 14)), self.draw(WIDTHS))
        x = self.graph.input("input", shape)
        for _ in range(int(self.random.integers(2, 5))):
            layers = (self.conv2d, self.depthwise, self.residual, self.concat, self.clipped)
            x = layers[int(self.random.integers(len(layers)))](x)
        if self.random.integers(0, 2) and prod(static_shape(x)) < 3000:
            x = self.dense(self.graph.flatten(x, self.name("flat")))
        return self.graph.output(x).module()

    def draw(self, values: range | tuple[int, ...]) -> int:
        return int(self.random.choice(list(values)))

    def name(self, kind: str) -> str:
        self.count += 1
        return f"{kind}_{self.count}"

    def weights(self, *shape: int) -> Array:
        return self.random.integers(-128, 128, shape).astype("int8")

    def bias(self, channels: int) -> Array:
        return self.random.integers(-(2**13), 2**13, channels).astype("int32")

    def conv2d(self, x: relax.Var, channels: int | None = None) -> relax.Var:
        depth = static_shape(x)[1]
        outputs = channels or int(self.random.integers(1, 40))
        side, stride = self.draw((1, 3, 3, 5)), 1 if channels else self.draw((1, 1, 2))
        return self.graph.conv2d(
            x, self.name("conv"), self.weights(outputs, depth, side, side), self.bias(outputs),
            strides=(stride, stride), act=bool(self.random.integers(0, 2)), shift_bits=9,
        )  # fmt: skip

    def depthwise(self, x: relax.Var) -> relax.Var:
        depth, stride = static_shape(x)[1], self.draw((1, 1, 2))
        return self.graph.depthwise_conv2d(
            x, self.name("depthwise"), self.weights(depth, 1, 3, 3), self.bias(depth),
            strides=(stride, stride), shift_bits=6,
        )  # fmt: skip

    def clipped(self, x: relax.Var) -> relax.Var:
        """Convolve without padding, and clip the sums to a part of int8."""
        depth, height, width = static_shape(x)[1:]
        outputs = int(self.random.integers(1, 20))
        side = self.draw(range(1, min(height, width, 7) + 1))
        kernel = relax.const(self.weights(outputs, depth, side, side))
        stride = self.draw((1, 1, 2))
        sums = self.emit(relax.op.nn.conv2d(x, kernel, [stride, stride], out_dtype="int32"))
        shifted = self.emit(relax.op.right_shift(sums, relax.const(9, "int32")))
        limits = ((0, 96), (-3, 127), (5, 60))[int(self.random.integers(0, 3))]
        return self.emit(relax.op.astype(self.emit(relax.op.clip(shifted, *limits)), "int8"))

    def emit(self, expression: relax.Expr) -> relax.Var:
        return self.graph.emit(expression, self.name("step"))

    def residual(self, x: relax.Var) -> relax.Var:
        y = self.conv2d(x, channels=static_shape(x)[1])
        return self.graph.add(
            x, y, self.name("sum"), act=bool(self.random.integers(0, 2)), shift_bits=1
        )

    def concat(self, x: relax.Var) -> relax.Var:
        y = self.conv2d(x, channels=int(self.random.integers(1, 20)))
        return self.graph.emit(relax.op.concat([x, y], axis=1), self.name("both"))

    def dense(self, x: relax.Var) -> relax.Var:
        inputs, outputs = static_shape(x)[1], int(self.random.integers(1, 40))
        weights = self.weights(outputs, inputs)
        return self.graph.dense(x, self.name("dense"), weights, self.bias(outputs), shift_bits=10)


def make_network(seed: int) -> tvm.IRModule:
    return NetworkMaker(seed).make()
