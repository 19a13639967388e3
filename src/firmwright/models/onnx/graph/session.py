"""Opens sessions of ONNX Runtime."""

from __future__ import annotations

from typing import TYPE_CHECKING

import onnx

if TYPE_CHECKING:
    import onnxruntime


def open_session(model: onnx.ModelProto) -> onnxruntime.InferenceSession:
    """Return a session that computes node by node on one thread, without log messages."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.intra_op_num_threads = 1
    options.log_severity_level = 4
    data = model.SerializeToString(deterministic=True)
    return onnxruntime.InferenceSession(data, options, providers=["CPUExecutionProvider"])
