"""The networks of MLPerf Tiny in Deeploy's dialect, with random weights: integers in float tensors.

The shapes are those of DeeployTest/Tests/Models/MLPerf in github.com/pulp-platform/Deeploy.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
from numpy.lib.stride_tricks import sliding_window_view

from tests.networks.onnx_models import graph, node, value

Array = npt.NDArray[Any]


@dataclass
class Network:
    """Collects nodes, and computes the integers of each tensor for one sample with numpy.

    ``shifts`` makes all tensors int8, and the factor of each RequantShift 1.
    """

    shape: tuple[int, ...]
    shifts: bool = False
    random: np.random.Generator = field(default_factory=lambda: np.random.default_rng(41))
    nodes: list[onnx.NodeProto] = field(default_factory=list)
    constants: dict[str, Array] = field(default_factory=dict)
    arrays: dict[str, Array] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.arrays["input"] = self.random.integers(0, 256, self.shape) - 128 * self.shifts

    def add(self, kind: str, inputs: list[str], array: Array, **attributes: Any) -> str:
        name = f"t{len(self.nodes)}"
        self.nodes.append(node(kind, inputs, [name], f"{kind}_{len(self.nodes)}", **attributes))
        self.arrays[name] = array
        return name

    def constant(self, array: Array) -> str:
        name = f"c{len(self.constants)}"
        self.constants[name] = array if array.dtype == "int64" else array.astype("float32")
        return name

    def conv(
        self, source: str, channels: int, kernel: tuple[int, int], stride: int = 1, group: int = 1
    ) -> str:
        """Add a convolution; a kernel of 3 x 3 pads by 1, other kernels do not."""
        given = self.arrays[source]
        weights = self.random.integers(-128, 128, (channels, given.shape[1] // group, *kernel))
        pad = int(kernel == (3, 3))
        padded = np.pad(given, ((0, 0), (0, 0), (pad, pad), (pad, pad)))
        windows = sliding_window_view(padded, kernel, (2, 3))[0, :, ::stride, ::stride]
        if group == 1:
            result = np.einsum("cyxij,ocij->oyx", windows, weights, optimize=True)
        else:
            result = np.einsum("cyxij,cij->cyx", windows, weights[:, 0])
        names = [source, self.constant(weights.astype("int32"))]
        return self.add(
            "Conv", names, result[None], auto_pad="NOTSET", dilations=[1, 1], group=group,
            kernel_shape=kernel, pads=[pad] * 4, strides=[stride] * 2,
        )  # fmt: skip

    def dense(self, source: str, width: int) -> str:
        given = self.arrays[source]
        weights = self.random.integers(-128, 128, (width, given.shape[1]))
        bias = self.random.integers(-1000, 1000, width)
        names = [source, *(self.constant(a.astype("int32")) for a in (weights, bias))]
        result = given @ weights.T + bias
        return self.add("Gemm", names, result, alpha=1.0, beta=1.0, transA=0, transB=1)

    def requantize(self, source: str, signed: bool = False, per_channel: bool = True) -> str:
        """Add a RequantShift to 8 bits, whose factors spread the results over their range."""
        given = self.arrays[source]
        shape = (given.shape[1], *[1] * (given.ndim - 2)) if per_channel else ()
        spread = given.std() / 50 + 1
        shift = int(np.log2(spread)) if self.shifts else 16
        factors = 2**shift / spread * self.random.uniform(0.7, 1.4, shape)
        mul = np.ones(shape) if self.shifts else np.ceil(factors)
        add = np.asarray(self.random.integers(-16, 17, shape) << shift)
        half = 1 << shift >> 1
        wide = (given * mul.astype("int64") + add + half) >> shift
        low = -128 if signed or self.shifts else 0
        names = [source, self.constant(mul.astype("int32")), self.constant(add.astype("int32"))]
        divisor, levels, sign = (
            onnx.numpy_helper.from_array(np.array(number, "float32"))
            for number in (2**shift, [256], [low < 0])
        )
        return self.add(
            "RequantShift", names, np.clip(wide, low, low + 255), domain="PACTOps",
            div=divisor, n_levels_out=levels, signed=sign,
        )  # fmt: skip

    def total(self, first: str, second: str) -> str:
        return self.add("Add", [first, second], self.arrays[first] + self.arrays[second])

    def classify(self, source: str, classes: int) -> str:
        """Add the maximum of each channel, and a dense layer."""
        given = self.arrays[source]
        window = given.shape[2:]
        pooled = self.add(
            "MaxPool", [source], given.max((2, 3), keepdims=True), kernel_shape=window,
            strides=window, pads=[0] * 4,
        )  # fmt: skip
        flat = self.arrays[pooled].reshape(1, -1)
        flat_name = self.add("Reshape", [pooled, self.constant(np.array([1, -1]))], flat)
        return self.requantize(self.dense(flat_name, classes), True, False)

    def finish(self, result: str) -> tuple[bytes, Array, Array]:
        """Return the model, a sample, and the result for this sample."""
        expected = self.arrays[result]
        ports = [value("input", self.shape)], [value(result, expected.shape)]
        model = graph(self.nodes, *ports, self.constants, 10)
        model.opset_import.append(onnx.helper.make_opsetid("PACTOps", 1))
        return model.SerializeToString(), self.arrays["input"], expected


def anomaly_detection(shifts: bool = False) -> tuple[bytes, Array, Array]:
    network = Network((1, 640), shifts)
    last = "input"
    for width in (128, 128, 128, 128, 8, 128, 128, 128, 128):
        last = network.requantize(network.dense(last, width))
    return network.finish(network.requantize(network.dense(last, 640), True, False))


def separable(network: Network, source: str, channels: int, stride: int) -> str:
    width = network.arrays[source].shape[1]
    deep = network.requantize(network.conv(source, width, (3, 3), stride, width))
    return network.requantize(network.conv(deep, channels, (1, 1)))


def keyword_spotting(shifts: bool = False) -> tuple[bytes, Array, Array]:
    network = Network((1, 1, 49, 13), shifts)
    last = network.requantize(network.conv("input", 64, (10, 4), 2))
    for _ in range(4):
        last = separable(network, last, 64, 1)
    return network.finish(network.classify(last, 12))


def visual_wake_words(shifts: bool = False) -> tuple[bytes, Array, Array]:
    network = Network((1, 3, 96, 96), shifts)
    last = network.requantize(network.conv("input", 8, (3, 3), 2))
    for channels, stride in (
        (16, 1), (32, 2), (32, 1), (64, 2), (64, 1), (128, 2), *[(128, 1)] * 5, (256, 2), (256, 1)
    ):  # fmt: skip
        last = separable(network, last, channels, stride)
    return network.finish(network.classify(last, 2))


def image_classification(shifts: bool = False) -> tuple[bytes, Array, Array]:
    network = Network((1, 3, 32, 32), shifts)
    last = network.requantize(network.conv("input", 16, (3, 3)))
    for channels, stride in ((16, 1), (32, 2), (64, 2)):
        deep = network.requantize(network.conv(last, channels, (3, 3), stride))
        deep = network.requantize(network.conv(deep, channels, (3, 3)), True)
        if stride == 1:
            past = network.requantize(last, True, False)
        else:
            past = network.requantize(network.conv(last, channels, (1, 1), stride), True)
        last = network.requantize(network.total(past, deep), False, False)
    return network.finish(network.classify(last, 10))


NETWORKS: dict[str, Callable[[bool], tuple[bytes, Array, Array]]] = {
    "AnomalyDetection": anomaly_detection,
    "ImageClassification": image_classification,
    "KeywordSpotting": keyword_spotting,
    "VisualWakeWords": visual_wake_words,
}
