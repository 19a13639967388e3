"""Calibration without samples: the ranges that a quantized model states for its own tensors."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import onnx

from firmwright.errors import UserError
from firmwright.quantize.calibration import Distribution
from firmwright.quantize.graph import float_tensors
from firmwright.quantize.ranges import Interval
from firmwright.quantize.shift_scales import SAME_SCALE_OPERATORS

SOFTMAX_RANGE = Interval(0.0, 1.0)


def infer_distributions(
    model: onnx.ModelProto, ranges: Mapping[str, Interval]
) -> dict[str, Distribution]:
    """Return limits, with empty histograms, for every float tensor of the restored network.

    A tensor that the model has no grid for takes that of what it is moved to or from. Raises
    UserError naming tensors of which nothing is known.
    """
    tensors = float_tensors(model)
    known = {name: ranges[name] for name in tensors if name in ranges}
    moves = [
        (n.input[0], n.output[0]) for n in model.graph.node if n.op_type in SAME_SCALE_OPERATORS
    ]
    for before, after in moves:
        if before in known:
            known.setdefault(after, known[before])
    for before, after in reversed(moves):
        if after in known:
            known.setdefault(before, known[after])
    for node in model.graph.node:
        if node.op_type == "Softmax":
            known.setdefault(node.output[0], SOFTMAX_RANGE)
    missing = sorted(set(tensors) - set(known))
    if missing:
        raise UserError(
            "quantize: calibration.method: model: the model states no range for "
            f"{', '.join(missing)}; give samples (`calibration: {{inputs: …}}`)"
        )
    return {name: to_distribution(interval) for name, interval in known.items()}


def to_distribution(interval: Interval) -> Distribution:
    edges = np.array([interval.low, interval.high])
    return Distribution(interval.low, interval.high, np.zeros(1, "int64"), edges)
