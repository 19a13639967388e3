"""Corrects operators that ONNX's reference evaluator computes incorrectly.

Other modules import this module only inside functions, because the import of the evaluator needs
0.2 s.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
from onnx.reference import ReferenceEvaluator
from onnx.reference.op_run import OpRun

Array = npt.NDArray[Any]


class LRN(OpRun):
    """An LRN that adds the neighbors of each channel.

    ONNX 1.23 adds the neighbors only for as many channels as the batch has images.
    """

    def _run(self, x: Array, *, alpha: float, beta: float, bias: float, size: int) -> tuple[Array]:
        before, after = (size - 1) // 2, size // 2 + 1
        sums = [
            np.square(x[:, max(0, channel - before) : channel + after]).sum(1)
            for channel in range(x.shape[1])
        ]
        scaled = x / (bias + float(alpha) / size * np.stack(sums, 1)) ** beta
        return (scaled.astype(x.dtype),)


def make_evaluator(model: onnx.ModelProto) -> ReferenceEvaluator:
    return ReferenceEvaluator(model, new_ops=[LRN])
