"""Networks with layers of DIANA's analog core, in which each part can be replaced."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import tvm
from tvm import relax

from firmwright.builder import Graph
from firmwright.ir.relax import static_shape

op = relax.op
SEVEN_BITS = (-64, 63)


@dataclass(frozen=True)
class AnalogForm:
    """A layer as HTVM writes it; ``shifted``: as firmwright reads it from ONNX.

    The converter divides by ``step``, or shifts by it.

    ``held`` is the clip before the layer, or None. Factors and offsets are drawn from ``factors``
    and ``offsets``, weights from ``weights`` (including both ends). ``by_row``: each row has a
    factor, instead of each channel.
    """

    outputs: int = 16
    kernel: tuple[int, int] = (3, 3)
    stride: int = 1
    padding: tuple[int, ...] = (1, 1, 1, 1)
    groups: int = 1
    held: tuple[int, int] | None = SEVEN_BITS
    weights: tuple[int, int] = (-1, 1)
    step: float = 4.0
    shifted: bool = False
    codes: tuple[int, int] = (-32, 31)
    factors: tuple[int, int] = (-50, 50)
    offsets: tuple[int, int] = (-900, 900)
    by_row: bool = False
    shift: int = 4
    clip: tuple[int, int] = (-128, 127)
    dtype: str = "int16"
    seed: int = 0

    def append(self, graph: Graph, x: relax.Var) -> relax.Var:
        name, random = f"layer_{self.seed}", np.random.default_rng(self.seed)

        def emit(expression: relax.Expr) -> relax.Var:
            emit.count += 1  # type: ignore[attr-defined]
            return graph.emit(expression, f"{name}_{emit.count}")  # type: ignore[attr-defined]

        def draw(ends: tuple[int, int], *shape: int, dtype: str = "int8") -> relax.Expr:
            numbers = random.integers(ends[0], ends[1] + 1, shape)
            numbers.flat[:2] = ends
            return relax.const(numbers.astype(dtype), dtype)

        emit.count = 0  # type: ignore[attr-defined]
        if self.held is not None:
            x = emit(op.clip(x, *self.held))
        depth = static_shape(x)[1] // self.groups
        weights = draw(self.weights, self.outputs, depth, *self.kernel)
        strides = [self.stride, self.stride]
        sums = emit(op.nn.conv2d(x, weights, strides, list(self.padding), groups=self.groups,
                                 out_dtype="int32"))  # fmt: skip
        codes = self.convert(emit, sums)
        rows = static_shape(sums)[2]
        each = (1, 1, rows, 1) if self.by_row else (1, self.outputs, 1, 1)
        factors = draw(self.factors, *each, dtype=self.dtype)
        offsets = draw(self.offsets, 1, self.outputs, 1, 1, dtype=self.dtype)
        numbers = emit(op.add(emit(op.multiply(codes, factors)), offsets))
        shifted = emit(op.right_shift(numbers, relax.const(self.shift, self.dtype)))
        return emit(op.astype(emit(op.clip(shifted, *self.clip)), "int8"))

    def convert(self, emit: Callable[[relax.Expr], relax.Var], sums: relax.Var) -> relax.Var:
        if self.shifted:
            quotient = emit(op.right_shift(sums, relax.const(int(self.step), "int32")))
            stored = emit(op.astype(emit(op.clip(quotient, *self.codes)), "int8"))
            return emit(op.astype(stored, self.dtype))
        real = emit(op.divide(emit(op.astype(sums, "float32")), relax.const(self.step)))
        quotient = emit(op.floor(real))
        return emit(op.astype(emit(op.clip(quotient, *self.codes)), self.dtype))


def make_network(shape: tuple[int, int, int], *forms: AnalogForm) -> tvm.IRModule:
    """Return a network of these layers in a chain, for an image (channels, rows, columns).

    A layer of the digital accelerator is between two of them.
    """
    graph = Graph()
    x = graph.input("x", (1, *shape))
    for index, form in enumerate(forms):
        if index:
            weights = np.random.default_rng(index).integers(
                -128, 128, (20, static_shape(x)[1], 3, 3)
            )
            x = graph.conv2d(x, f"digital_{index}", weights.astype("int8"), act=True, shift_bits=9)
        x = form.append(graph, x)
    return graph.output(x).module()
