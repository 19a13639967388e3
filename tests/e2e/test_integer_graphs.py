"""The recipes of the pages build graphs of QONNX and Deeploy."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import onnx
import pytest

from tests.networks.deeploy_models import keyword_spotting
from tests.networks.onnx_models import graph, node, value

from .conftest import ROOT, Repository

QONNX = "qonnx.custom_op.general"


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


def make_deeploy() -> onnx.ModelProto:
    return onnx.load_model_from_string(keyword_spotting(shifts=True)[0])


@pytest.mark.parametrize(
    ("page", "make"),
    [
        ("howto/quantization.md", make_qonnx),
        ("howto/deeploy.md", make_deeploy),
    ],
)
def test_the_recipe_of_the_page_builds(
    page: str, make: Callable[[], onnx.ModelProto], repository: Repository
) -> None:
    (repository.folder / "network.onnx").write_bytes(make().SerializeToString())
    text = (ROOT / "docs" / page).read_text(encoding="utf-8")
    (recipe,) = re.findall(r"```yaml\n(model: network\.onnx\nplatform.*?)```", text, re.DOTALL)
    repository.write("net.yaml", f"{recipe}toolchain: gcc\n")  # starts faster than zig
    repository.build("recipe=net.yaml")
    assert repository.manifest("build/net/net-host.tar.gz")["run"]["mismatches"] == 0
