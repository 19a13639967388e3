"""With any names of tensors and operators in a model, the C compiles and computes."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.networks.firmware import assert_exact, lowered
from tests.networks.onnx_models import graph, node, value
from tests.networks.tflite_models import ModelBuilder, Quantization

pytestmark = pytest.mark.needs("gcc")

NAMES = {
    "collide": ["a.b", "a_b", "a/b", "A_B"],
    "keywords": ["for", "int", "nullptr", "class", "and"],
    "macros": ["NULL", "INT32_MIN", "INFINITY", "M_PI", "errno", "stdin", "linux"],
    "ours": ["main", "network_run", "network_inputs", "inputs", "outputs", "arena", "sample"],
    "kernel's": [
        "input",
        "output",
        "input_0",
        "scratch_0",
        "weights",
        "bias",
        "scales",
        "lv",
        "gv",
    ],
    "types": ["uint8_t", "float", "bool", "NAN"],
    "unicode": ["é", "日本", "\N{GRINNING FACE}", "\u2028"],
    "long": ["x" * 5000, "x" * 4999 + "y"],
    "comment": ["a*/", "/*b", "//", "??/", "c\\", "\\"],
    "control": ["a\nb", "c\r", "\x00d", "\x07\x1b[31m", " "],
    "template": ["{{7*7}}", "{% raw %}", "%s%n", '"', "'", "$(ls)"],
    "numbers": ["0", "1", "-1", "1e5"],
}


@pytest.mark.parametrize("case", NAMES)
def test_any_names_of_inputs_nodes_and_outputs(case: str, tmp_path: Path) -> None:
    names = NAMES[case]
    nodes = [node("Relu", [n], [f"{n} out"], name=n) for n in names]
    model = graph(nodes, [value(n, [2]) for n in names], [value(f"{n} out", [2]) for n in names])
    assert_exact(model.SerializeToString(), tmp_path)


@pytest.mark.parametrize("name", ["main", "*/ int x;", "\\", "lv1", "x" * 5000])
def test_two_nodes_of_one_name_and_a_weight_of_the_same(name: str, tmp_path: Path) -> None:
    nodes = [node("Relu", ["x"], ["a"], name=name), node("Gemm", ["a", name], ["y"], name=name)]
    # Powers of two: products are exact, whether or not a processor fuses them with sums.
    weight = np.array([[1, 2], [4, 8]], "float32")
    model = graph(nodes, [value("x", [1, 2])], [value("y", [1, 2])], {name: weight})
    assert_exact(model.SerializeToString(), tmp_path)


def added(names: list[str | bytes | None]) -> bytes:
    builder = ModelBuilder()
    inputs = [builder.input((1, 4), "int8", Quantization(0.1, 3)) for _ in range(2)]
    total = builder.output((1, 4), "int8", Quantization(0.2, -1))
    builder.operator("ADD", inputs, [total], "AddOptions")
    for tensor, name in zip(builder.graph.tensors, names, strict=True):
        tensor.name = name
    return builder.build()


@pytest.mark.parametrize(
    "names",
    [
        ["same", "same", "same"],
        ["x", "y", "x"],
        [None, None, None],
        ["", "", ""],
        ["main", "NULL", "main"],
        [b"\xff", b"\xfe", "\0"],
        ["x" * 5000, "*/", "??/\\"],
    ],
)
def test_any_names_of_tflite_tensors(names: list[str | bytes | None], tmp_path: Path) -> None:
    assert_exact(added(names), tmp_path)


def test_tensors_without_a_good_name_are_numbered() -> None:
    interface = lowered(added(["x", None, "x"])).interface
    assert [t.name for t in interface.inputs] == ["x", "tensor_1"]
    assert [t.name for t in interface.outputs] == ["x_2"]
