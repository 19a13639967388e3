"""Elementwise float graphs in one network, with small whole numbers, so every result is exact."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
import numpy.typing as npt
import tvm
from tvm import relax

Array = npt.NDArray[np.float32]
Formula = Callable[[relax.Expr, relax.Expr], relax.Expr]


def numbers(seed: int, *shape: int) -> Array:
    return np.random.default_rng(seed).integers(-4, 5, shape).astype("float32")


def network(outputs: Mapping[tuple[int, ...], tuple[Formula, Array]]) -> bytes:
    """Return a module that applies a formula to an input of each shape and a constant.

    The constants differ, so a region has one output.
    """
    builder = relax.BlockBuilder()
    inputs = [relax.Var(f"x{n}", relax.TensorType(s, "float32")) for n, s in enumerate(outputs)]
    with builder.function("main", inputs):
        with builder.dataflow():
            made = [
                builder.emit_output(builder.normalize(formula(x, relax.const(constant))))
                for x, (formula, constant) in zip(inputs, outputs.values(), strict=True)
            ]
        builder.emit_func_output(made)
    return str(tvm.ir.save_json(builder.get())).encode()


def samples(shapes: list[tuple[int, ...]], count: int = 2) -> list[dict[str, Array]]:
    return [
        {f"x{n}": numbers(100 * sample + n, *shape) for n, shape in enumerate(shapes)}
        for sample in range(count)
    ]
