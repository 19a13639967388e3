"""The recipe of the page about quantization builds graphs of Deeploy and QONNX."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

from tests.networks.onnx_models import graph, node, value

from .conftest import ROOT, Repository

PAGE = ROOT / "docs/howto/quantization.md"
QONNX = "qonnx.custom_op.general"


def make_deeploy() -> onnx.ModelProto:
    """Return a depthwise-separable block with a RequantShift after each convolution."""
    random = np.random.default_rng(0)
    shapes = {"conv": (4, 1, 3, 3), "depthwise": (4, 1, 3, 3), "pointwise": (8, 4, 1, 1)}
    factor = numpy_helper.from_array(np.array([2.0**16], "float32"))
    levels, signed = (numpy_helper.from_array(np.array([n], "float32")) for n in (256, 1))
    nodes: list[onnx.NodeProto] = []
    constants: dict[str, Any] = {}
    source = "x"
    for name, shape in shapes.items():
        constants |= {
            f"{name}_w": random.integers(-128, 128, shape).astype("float32"),
            f"{name}_mul": random.integers(50, 900, (1, shape[0], 1, 1)).astype("int32"),
            f"{name}_add": random.integers(-9999, 9999, (1, shape[0], 1, 1)).astype("int32"),
        }
        group = 4 if name == "depthwise" else 1
        nodes += [
            node("Conv", [source, f"{name}_w"], [name], group=group),
            node("RequantShift", [name, f"{name}_mul", f"{name}_add"], [f"{name}_q"], name,
                 div=factor, n_levels=levels, signed=signed),
        ]  # fmt: skip
        source = f"{name}_q"
    ports = [value("x", [1, 1, 8, 8])], [value("pointwise_q", [1, 8, 4, 4])]
    return graph(nodes, *ports, constants, 13)


def make_qonnx() -> onnx.ModelProto:
    """Return a convolution with weights of 4 bits and activations of 7 bits."""
    quantize: dict[str, Any] = {"domain": QONNX, "narrow": 0, "rounding_mode": "ROUND"}
    nodes = [
        node("Quant", ["x", "coarse", "zero", "eight"], ["a"], signed=1, **quantize),
        node("Quant", ["w", "fine", "zero", "four"], ["f"], signed=1, **quantize),
        node("Conv", ["a", "f"], ["c"]),
        node("Relu", ["c"], ["r"]),
        node("Quant", ["r", "coarse", "zero", "seven"], ["y"], signed=0, **quantize),
    ]
    numbers = {"zero": 0.0, "four": 4.0, "seven": 7.0, "eight": 8.0, "coarse": 0.0625, "fine": 0.25}
    constants = {name: np.array(number, "float32") for name, number in numbers.items()}
    weights = np.random.default_rng(0).normal(0, 1, (4, 3, 3, 3)).astype("float32")
    ports = [value("x", [1, 3, 6, 6])], [value("y", [1, 4, 4, 4])]
    model = graph(nodes, *ports, constants | {"w": weights}, 12)
    model.opset_import.append(onnx.helper.make_opsetid(QONNX, 1))
    return model


@pytest.mark.parametrize("make", [make_deeploy, make_qonnx])
def test_the_recipe_of_the_page_builds(
    make: Callable[[], onnx.ModelProto], repository: Repository
) -> None:
    (repository.folder / "network.onnx").write_bytes(make().SerializeToString())
    text = PAGE.read_text(encoding="utf-8")
    (recipe,) = re.findall(r"```yaml\n(model: network\.onnx\n.*?)```", text, re.DOTALL)
    repository.write("net.yaml", f"{recipe}toolchain: gcc\n")  # starts faster than zig
    repository.build("recipe=net.yaml")
    assert repository.manifest("build/net/net-host.tar.gz")["run"]["mismatches"] == 0
