"""Small float networks with fixed weights, and options for their quantization."""

from __future__ import annotations

from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt
import onnx
from onnx import TensorProto, helper, numpy_helper

from firmwright.ir.tensors import Tensor
from firmwright.models.onnx.export import NEWER_TYPES_OPSET, PER_CHANNEL_OPSET
from firmwright.quantize.float_graph import prepare
from firmwright.recipe.quantize_keys import QuantizeOptions

Array = npt.NDArray[Any]
INPUT = Tensor("x", (1, 3, 8, 8), "float32")


def options(**changes: Any) -> QuantizeOptions:
    data: dict[str, Any] = {
        "scheme": "affine",
        "arithmetic": "onnx",
        "activations": "int8",
        "weights": "int8",
        "per_channel": True,
        "symmetric": False,
        "equalize": False,
        "compensate_rounding": False,
        "bias_correction": False,
        "io": "float32",
        "calibration": {"inputs": "x.npy", "method": "minmax", "percentile": 99.99},
        "layers": [],
        "keep_float": {"layers": [], "operators": []},
    }
    calibration = {**data["calibration"], **changes.pop("calibration", {})}
    keep_float = {**data["keep_float"], **changes.pop("keep_float", {})}
    changed = {**data, **changes, "calibration": calibration, "keep_float": keep_float}
    return msgspec.convert(changed, QuantizeOptions)


def graph_of(nodes: list[onnx.NodeProto], constants: dict[str, Array], width: int) -> bytes:
    """Return a model from ``x`` (1x3x8x8) to ``y`` (1 x width)."""
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, INPUT.shape)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, width])],
        [numpy_helper.from_array(a, n) for n, a in constants.items()],
    )
    opsets = [helper.make_opsetid("", 17)]
    data: bytes = helper.make_model(graph, opset_imports=opsets, ir_version=8).SerializeToString()
    return data


def residual_network(seed: int = 0) -> bytes:
    """Convolutions (one depthwise), batch normalization, ReLU, ReLU6, a sum, a pool, a product."""
    make = np.random.default_rng(seed)

    def weight(*shape: int) -> Array:
        fan_in = int(np.prod(shape[1:]))
        return np.asarray((make.normal(0, 1, shape) / np.sqrt(fan_in)), "float32")

    constants = {
        "stem_w": weight(8, 3, 3, 3), "stem_b": weight(8, 4),
        "dw_w": weight(8, 1, 3, 3), "dw_b": weight(8, 4),
        "pw_w": weight(8, 8, 1, 1),
        "scale": make.uniform(0.5, 1.5, 8).astype("float32"), "shift": weight(8, 4)[:, 0],
        "mean": weight(8, 4)[:, 0], "variance": make.uniform(0.5, 2, 8).astype("float32"),
        "low": np.array(0, "float32"), "high": np.array(6, "float32"),
        "dense_w": weight(5, 8), "dense_b": weight(5, 4)[:, 0],
    }  # fmt: skip
    for name in ("stem_b", "dw_b"):
        constants[name] = constants[name][:, 0]
    node, statistics = helper.make_node, ("scale", "shift", "mean", "variance")
    nodes = [
        node("Conv", ["x", "stem_w", "stem_b"], ["stem_sum"], "stem", pads=[1, 1, 1, 1]),
        node("Relu", ["stem_sum"], ["stem_out"], "stem_relu"),
        node("Conv", ["stem_out", "dw_w", "dw_b"], ["dw_sum"], "dw", pads=[1] * 4, group=8),
        node("Clip", ["dw_sum", "low", "high"], ["dw_out"], "dw_clip"),
        node("Conv", ["dw_out", "pw_w"], ["pw_sum"], "pw"),
        node("BatchNormalization", ["pw_sum", *statistics], ["pw_out"], "bn"),
        node("Add", ["pw_out", "stem_out"], ["joined"], "join"),
        node("AveragePool", ["joined"], ["pooled"], "pool", kernel_shape=[8, 8]),
        node("Flatten", ["pooled"], ["flat"], "flatten"),
        node("Gemm", ["flat", "dense_w", "dense_b"], ["y"], "dense", transB=1),
    ]  # fmt: skip
    return graph_of(nodes, constants, 5)


def samples(count: int, seed: int = 1) -> list[dict[str, Array]]:
    make = np.random.default_rng(seed)
    return [{"x": make.normal(0, 1, INPUT.shape).astype("float32")} for _ in range(count)]


def ready(data: bytes, newer_types: bool = False) -> onnx.ModelProto:
    return prepare(data, [INPUT], NEWER_TYPES_OPSET if newer_types else PER_CHANNEL_OPSET)
