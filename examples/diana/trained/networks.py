"""Three float networks that were trained for DIANA, from their weights (diana-quantlib).

Each function builds one network in Relax, with batch normalizations folded into weights and biases.
The weights have the names and shapes of a PyTorch state dictionary, which does not contain strides.
The strides here result in the outputs that were recorded with the weights.
"""

from __future__ import annotations

from collections.abc import Mapping
from io import BytesIO
from typing import Any

import numpy as np
import numpy.typing as npt
import tvm
from PIL import Image
from tvm import relax

from firmwright.device import find_in_mirror

Array = npt.NDArray[Any]
EPSILON = 1e-5
"""The number that PyTorch's batch normalization adds to a variance."""
MOBILENET_STRIDES = (1, 2, 1, 2, 1, 2, 1, 1, 1, 1, 1, 2, 1)
PICTURES = "7927efa4d4a1df59e5fd2ed62331755cb5a84237053886aed9ece91a19c7be8b"


def resnet8() -> tvm.IRModule:
    """Return ResNet8 for pictures (1, 3, 32, 32) from -1 to 1: three blocks, 12 scores."""
    network = Network(
        "resnet8_weights.npz", "a428158409cba062f4a8845f770beed80ec9897b6770c879ac0512c8a749be2c"
    )
    x = network.input((1, 3, 32, 32))
    x = network.convolution(x, "net.0", "net.1", "stem", relu=True)
    for number, stride in ((3, 1), (4, 2), (5, 2)):
        block, name = f"net.{number}", f"block{number - 2}"
        first, second = (
            (f"{block}.res.{i}", f"{block}.res.{i + 1}", f"{name}_conv{i // 3 + 1}") for i in (0, 3)
        )
        y = network.convolution(x, *first, stride=stride, relu=True)
        y = network.convolution(y, *second)
        if stride != 1:
            skip = (f"{block}.skip.0", f"{block}.skip.1", f"{name}_skip")
            x = network.convolution(x, *skip, stride=stride)
        x = network.emit(relax.op.nn.relu(network.emit(relax.op.add(x, y))), name)
    return network.scores(x, "net.8")


def ds_cnn() -> tvm.IRModule:
    """Return DS-CNN for spoken words (1, 1, 10, 49): four separable convolutions, 12 scores."""
    network = Network(
        "dscnn_weights.npz", "26caa6c5c907d13ba27f5f529d3cd11146fafc8423a445a30851fac8139e1143"
    )
    x = network.input((1, 1, 10, 49))
    x = network.convolution(x, "net.0", "net.1", "stem", stride=2, padding=(5, 1), relu=True)
    x = network.separable(x, range(3, 27, 6), (1, 1, 1, 1))
    return network.scores(x, "net.30")


def mobilenetv1() -> tvm.IRModule:
    """Return MobileNetV1 0.25 for pictures (1, 3, 96, 96) from -1 to 1: 12 scores.

    The published pictures have 32 x 32 pixels. At this size, the network classifies few of them
    right.
    """
    network = Network(
        "mobilenetv1_weights.npz",
        "310197465099641c775fc7528c21592b6f930344af3a48ec8f0295f9bd98d3a8",
    )
    x = network.input((1, 3, 96, 96))
    x = network.convolution(x, "net.0", "net.1", "stem", stride=2, relu=True)
    x = network.separable(x, range(3, 81, 6), MOBILENET_STRIDES)
    return network.scores(x, "net.83")


def enlarged_pictures() -> Array:
    """Return the recorded pictures three times as wide and high, (160, 3, 96, 96)."""
    pictures = stored("image_classification_inputs.npz", PICTURES)["data"]
    channels = [Image.fromarray(c) for picture in pictures for c in picture]
    large = [np.asarray(c.resize((96, 96), Image.Resampling.BILINEAR)) for c in channels]
    return np.stack(large).reshape(len(pictures), 3, 96, 96)


def stored(name: str, sha256: str) -> Mapping[str, Array]:
    """Return the arrays of a file in a folder of FIRMWRIGHT_MIRROR."""
    data = find_in_mirror(name, sha256)
    if data is None:
        raise FileNotFoundError(f"no folder in FIRMWRIGHT_MIRROR holds {name} ({sha256})")
    with np.load(BytesIO(data)) as arrays:
        return dict(arrays)


class Network:
    """A float module under construction, and its weights."""

    def __init__(self, name: str, sha256: str) -> None:
        self.weights = stored(name, sha256)
        self.inputs: list[relax.Var] = []
        self.bindings: list[relax.VarBinding] = []

    def input(self, shape: tuple[int, ...]) -> relax.Var:
        self.inputs.append(relax.Var("data", relax.TensorType(shape, "float32")))
        return self.inputs[-1]

    def emit(self, value: relax.Expr, name: str = "lv") -> relax.Var:
        value = relax.BlockBuilder().normalize(value)
        self.bindings.append(relax.VarBinding(relax.Var(name, value.ty), value))
        return self.bindings[-1].var

    def convolution(
        self,
        x: relax.Var,
        layer: str,
        normalization: str,
        name: str,
        stride: int = 1,
        padding: tuple[int, int] | None = None,
        relu: bool = False,
    ) -> relax.Var:
        """Convolve and normalize; without ``padding``, a kernel of 3 is padded by 1."""
        weights = self.weights[f"{layer}.weight"].astype("float64")
        factor, shift, mean, variance = (
            self.weights[f"{normalization}.{part}"].astype("float64")
            for part in ("weight", "bias", "running_mean", "running_var")
        )
        factor = factor / np.sqrt(variance + EPSILON)
        folded = weights * factor[:, None, None, None]
        bias = (shift - mean * factor)[None, :, None, None]
        own = weights.shape[1] == 1 and name != "stem"
        pads = [n // 2 for n in weights.shape[2:]] if padding is None else list(padding)
        sums = self.emit(
            relax.op.nn.conv2d(
                x, constant(folded), strides=stride, padding=pads, groups=len(weights) if own else 1
            )
        )
        result = self.emit(relax.op.add(sums, constant(bias)), f"{name}_sum" if relu else name)
        return self.emit(relax.op.nn.relu(result), name) if relu else result

    def separable(self, x: relax.Var, layers: range, strides: tuple[int, ...]) -> relax.Var:
        """Convolve each channel, then across channels; the second layer's index is 3 higher."""
        for count, (number, stride) in enumerate(zip(layers, strides, strict=True), 1):
            for kind, first, step in (("dw", number, stride), ("pw", number + 3, 1)):
                names = (f"net.{first}", f"net.{first + 1}", f"{kind}{count}")
                x = self.convolution(x, *names, stride=step, relu=True)
        return x

    def scores(self, x: relax.Var, layer: str) -> tvm.IRModule:
        """Finish with each channel's mean and a matrix product."""
        mean = self.emit(relax.op.mean(x, [2, 3], keepdims=True), "mean")
        flat = self.emit(relax.op.reshape(mean, (1, int(x.ty.shape[1]))), "flat")
        weights = self.weights[f"{layer}.weight"].T
        sums = self.emit(relax.op.matmul(flat, constant(weights)))
        result = self.emit(relax.op.add(sums, constant(self.weights[f"{layer}.bias"])), "scores")
        builder = relax.BlockBuilder()
        with builder.function("main", self.inputs):
            for binding in self.bindings:
                builder.emit_normalized(binding)
            builder.emit_func_output(result)
        return builder.get()


def constant(array: Array) -> relax.Expr:
    return relax.const(np.ascontiguousarray(array, "float32"), "float32")
