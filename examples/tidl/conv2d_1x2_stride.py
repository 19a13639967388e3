"""A convolution of 3 x 3 with stride 1 x 2, which TIDL does not support, and its samples."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import tvm
from tvm import relax

SHAPE = (1, 8, 224, 224)
WEIGHTS = np.random.default_rng(1).normal(0, 0.1, (16, 8, 3, 3)).astype("float32")


def network() -> tvm.IRModule:
    """Return the convolution as a Relax module, float32, NCHW."""
    builder = relax.BlockBuilder()
    x = relax.Var("input", relax.TensorType(SHAPE, "float32"))
    with builder.function("main", [x]):
        with builder.dataflow():
            weights = relax.const(WEIGHTS)
            conv = relax.op.nn.conv2d(x, weights, strides=[1, 2], padding=[1, 1, 1, 1])
            result = builder.emit_output(conv, "conv")
        builder.emit_func_output(result)
    return builder.get()


def samples() -> npt.NDArray[Any]:
    """Return two samples along the first axis."""
    return np.random.default_rng(2).normal(0, 1, (2, *SHAPE)).astype("float32")
