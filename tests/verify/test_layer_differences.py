"""The first layer that differs from the reference: intermediate results, matched by names."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from firmwright.ir.regions import Partition, Region
from firmwright.ir.tensors import Operator, Tensor
from firmwright.models import FORMATS
from firmwright.stages.first_layer import observe_layers
from firmwright.verify.layer_differences import compare_layers, find_first_layer
from firmwright.verify.protocol import decode_outputs
from tests.networks.firmware import executed, lowered
from tests.networks.onnx_models import graph, node, value
from tests.networks.tflite_models import ModelBuilder, Quantization
from tests.networks.torch_programs import exported


def layer(name: str, inputs: tuple[str, ...], source: str = "") -> Region:
    return Region(
        name, "c", "", "add", (source,) if source else (), (), inputs, (f"{name}_result",), 0,
        view=False, dequantized=(),
    )  # fmt: skip


def find(wrong: dict[str, float], kind: str = "int8") -> str:
    """Return the first layer that differs, and the layers before it that were not compared.

    A chain a → b → c has a side branch d → c and a layer u without a name between a and b.
    """
    regions = (
        layer("a", ("input_0",), "a"),
        layer("d", ("input_0",), "d"),
        layer("u", ("a_result",)),
        layer("b", ("u_result",), "b"),
        layer("c", ("b_result", "d_result"), "c"),
    )
    tensors = tuple(Tensor(f"{r.name}_result", (2, 3), kind) for r in regions)
    partition = Partition(("input_0",), ("c_result",), tensors, regions)
    right = np.array([[[1, 2, 3], [4, 5, 100]]], kind)
    found = {f"{r.name}_result": right + np.array(wrong.get(r.name, 0), kind) for r in regions}
    reference = [dict.fromkeys("abcd", right[0])]
    operators = [Operator(name, "Add", (name,)) for name in "abcd"]
    compared = compare_layers(partition, operators, found, reference)
    assert sorted(compared) == ["a_result", "b_result", "c_result", "d_result"]
    first = find_first_layer(partition, compared)
    if first is None:
        return ""
    return " ".join([first.region.name, *(f"after {each.name}" for each in first.unknown)])


@pytest.mark.parametrize(
    ("wrong", "first"),
    [
        ({}, ""),
        ({"c": 7}, "c"),
        ({"b": 7, "c": 7}, "b after u"),
        ({"a": 9, "b": 7, "c": 7}, "a"),
        ({"a": 9, "c": 7}, "c"),  # the difference of a does not reach c, because b is right
        ({"a": 1, "b": 7, "c": 7}, "b after u"),  # rounding before a wrong layer
        ({"a": 1, "b": 1, "c": 1}, "a"),
    ],
)
def test_the_first_layer_is_the_one_whose_difference_reaches_an_output(
    wrong: dict[str, float], first: str
) -> None:
    assert find(wrong) == first


def test_floats_may_differ_by_rounding() -> None:
    assert find({"a": 1e-3, "c": 1e-3}, "float32") == ""
    assert find({"a": 1e-3, "c": 1.0}, "float32") == "c"


GRID = Quantization(0.05)


def write_tflite() -> bytes:
    model = ModelBuilder()
    x = model.input((1, 4, 4, 3), "int8", GRID)
    middle = model.tensor((1, 4, 4, 3), "int8", Quantization(0.1, 3))
    y = model.output((1, 4, 4, 3), "int8", GRID)
    model.operator("ADD", [x, x], [middle], "AddOptions")
    model.operator("MUL", [middle, x], [y], "MulOptions")
    return model.build()


def write_onnx() -> bytes:
    weights = np.random.default_rng(0).normal(size=(5, 3, 3, 3)).astype("float32")
    nodes = [
        node("Conv", ["x", "w"], ["middle"], name="conv", pads=[1, 1, 1, 1]),
        node("MaxPool", ["middle"], ["y"], name="pool", kernel_shape=[2, 2]),
    ]
    outputs = [value("y", [1, 5, 3, 3])]
    model = graph(nodes, [value("x", [1, 3, 4, 4])], outputs, {"w": weights})
    return bytes(model.SerializeToString())


class Accumulating(torch.nn.Module):  # type: ignore[misc]
    """A convolution, and a state that adds its results."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = torch.nn.Conv2d(3, 5, 3, padding=1)
        self.pool = torch.nn.MaxPool2d(2)
        self.register_buffer("last", torch.ones(1, 5, 2, 2))

    def forward(self, x: Any) -> Any:
        self.last.add_(self.pool(torch.relu(self.conv(x))))
        return self.last * 2


class Softmax(torch.nn.Module):  # type: ignore[misc]
    """A last layer that torch decomposes."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = torch.nn.Linear(4, 4)

    def forward(self, x: Any) -> Any:
        return torch.softmax(self.linear(x), -1)


class Rows(torch.nn.Module):  # type: ignore[misc]
    """Linear layers of three axes, which torch decomposes into a product of two axes."""

    def __init__(self) -> None:
        super().__init__()
        self.first = torch.nn.Linear(4, 4)
        self.second = torch.nn.Linear(4, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.second(torch.relu(self.first(x)))


class Choice(torch.nn.Module):  # type: ignore[misc]
    """A condition."""

    def forward(self, x: Any) -> Any:
        return torch.cond(x.sum() > 0, lambda v: v * 2 + 1, lambda v: v * 3 - 1, (x,))


class Casts(torch.nn.Module):  # type: ignore[misc]
    """Casts, before which torch asserts types."""

    def forward(self, x: Any) -> Any:
        y = torch.relu(x.to(torch.int32).to(torch.float32) * 3)
        return y.to(torch.int32), y + 1


ROW = torch.zeros(1, 4)


def write_pt2() -> bytes:
    return exported(Accumulating(), torch.zeros(1, 3, 4, 4))


@pytest.mark.parametrize(
    ("kind", "write", "first"),
    [
        ("tflite", write_tflite, "t1"),
        ("onnx", write_onnx, "middle"),
        ("pt2", write_pt2, "relu"),
        ("pt2", lambda: exported(Softmax(), ROW), "addmm"),
        ("pt2", lambda: exported(Rows(), torch.zeros(1, 3, 4)), "addmm"),
        ("pt2", lambda: exported(Choice(), ROW), "where_self"),
        ("pt2", lambda: exported(Casts(), ROW), "relu"),
    ],
)
def test_every_layer_of_the_firmware_has_a_tensor_of_the_model(
    tmp_path: Path, kind: str, write: Callable[[], bytes], first: str
) -> None:
    data = write()
    network = observe_layers(lowered(data, kind))
    (given,) = network.interface.inputs
    values = np.random.default_rng(1).integers(-128, 128, (2, *given.shape))
    samples = [{given.name: each.astype(given.dtype)} for each in values]
    ran = executed(network, samples, tmp_path)
    outputs = decode_outputs(ran.console, network.interface.outputs, 2, ran.exit_code)
    columns = map(np.stack, zip(*outputs, strict=True))
    results = dict(zip(network.partition.outputs, columns, strict=False))  # states are last
    reader = FORMATS[kind].load_tensor_reader()
    assert reader is not None
    tensors = reader.read_tensors(data, samples)
    _, interface = FORMATS[kind].load().import_model(data, "m", {})

    def find_wrong() -> str:
        compared = compare_layers(network.partition, interface.operators, results, tensors)
        assert compared.keys() == results.keys()
        first = find_first_layer(network.partition, compared)
        return first.result.tensor if first else ""

    assert len(results) >= 2
    assert find_wrong() == ""
    for name in results:
        results[name] = results[name] + np.array(3, results[name].dtype)
    assert find_wrong() == first
