"""Networks of one layer in DIANA's format, in which each part can be replaced."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import tvm
from tvm import relax

from firmwright.builder import Graph
from firmwright.transforms import canonicalize

Array = npt.NDArray[Any]


def ones(*shape: int, dtype: str = "int8") -> Array:
    return np.ones(shape, dtype)


@dataclass(frozen=True)
class Form:
    """The parts of a layer; None omits a part, a shape makes it an input of the network.

    ``kind`` is conv2d, dense or add; weights are OIHW, or (inputs, outputs). The rules are those
    of the accelerator of ``platform``.
    """

    kind: str = "conv2d"
    x: tuple[int, ...] = (1, 16, 8, 8)
    other: tuple[int, ...] = (1, 16, 8, 8)
    dtype: str = "int8"
    weights: Array | tuple[int, ...] = field(default_factory=lambda: ones(16, 16, 3, 3))
    strides: tuple[int, int] = (1, 1)
    padding: tuple[int, ...] = (1, 1, 1, 1)
    dilation: tuple[int, int] = (1, 1)
    groups: int = 1
    layouts: tuple[str, str] = ("NCHW", "OIHW")
    sums: str = "int32"
    bias: Array | tuple[int, ...] | None = field(
        default_factory=lambda: ones(16, 1, 1, dtype="int32")
    )
    shift: int | Array | tuple[int, ...] | None = 7
    clip: tuple[float, float] | None = (-128, 127)
    result: str = "int8"
    last_clip: tuple[float, float] | None = None
    platform: str = "diana"

    def module(self) -> tvm.IRModule:
        """Return the network as the input of the partition stage."""
        graph = Graph()
        operands = iter(f"given{i}" for i in range(9))

        def emit(expression: relax.Expr) -> relax.Var:
            return graph.emit(expression, f"step_{next(steps)}")

        def operand(value: int | Array | tuple[int, ...], dtype: str) -> relax.Expr:
            if isinstance(value, tuple):
                return graph.input(next(operands), value, dtype)
            array = np.asarray(value, None if isinstance(value, np.ndarray) else dtype)
            return relax.const(array, str(array.dtype))

        steps = iter(range(20))
        x = graph.input("x", self.x, self.dtype)
        if self.kind == "conv2d":
            result = emit(
                relax.op.nn.conv2d(
                    x, operand(self.weights, "int8"), list(self.strides), list(self.padding),
                    list(self.dilation), self.groups, *self.layouts, out_dtype=self.sums,
                )
            )  # fmt: skip
        elif self.kind == "dense":
            result = emit(relax.op.matmul(x, operand(self.weights, "int8"), out_dtype=self.sums))
        else:
            other = graph.input("other", self.other, self.dtype)
            wide = [emit(relax.op.astype(tensor, "int32")) for tensor in (x, other)]
            result = emit(relax.op.add(*wide))
        if self.bias is not None and self.kind != "add":
            result = emit(relax.op.add(result, operand(self.bias, "int32")))
        if self.shift is not None:
            result = emit(relax.op.right_shift(result, operand(self.shift, self.sums)))
        if self.clip is not None:
            result = emit(relax.op.clip(result, *self.clip))
        result = emit(relax.op.astype(result, self.result))
        if self.last_clip is not None:
            result = emit(relax.op.clip(result, *self.last_clip))
        return canonicalize(graph.output(result).module())


def dense(**parts: Any) -> Form:
    given: dict[str, Any] = {"x": (1, 64), "weights": ones(64, 16)}
    return Form(**{"kind": "dense", "bias": ones(16, dtype="int32"), **given, **parts})


def add(**parts: Any) -> Form:
    return Form(**{"kind": "add", **parts})


def depthwise(**parts: Any) -> Form:
    return Form(**{"weights": ones(16, 1, 3, 3), "groups": 16, **parts})
