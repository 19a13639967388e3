"""Weights of 4 and 2 bits in ONNX files and programs of torchao: packed in flash, right results."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from firmwright.ir.small_types import find_limits
from firmwright.models import FORMATS
from tests.networks.firmware import lowered, run_generated
from tests.networks.onnx_models import graph, node, value

CHANNELS, DEPTH = 32, 64


def draw(kind: str, *shape: int) -> Any:
    limits = find_limits(kind)
    drawn = np.random.default_rng(1).integers(int(limits.min), int(limits.max) + 1, shape)
    return drawn.astype(kind)


def make_onnx(operator: str, kind: str) -> bytes:
    """Return an operator whose weights have one scale per channel."""
    scales = {"s": np.random.default_rng(2).random(CHANNELS).astype("float32")}
    if operator == "MatMul":
        constants, axis, data = scales | {"w": draw(kind, DEPTH, CHANNELS)}, 1, [3, DEPTH]
    elif operator == "Gemm":
        constants, axis, data = scales | {"w": draw(kind, CHANNELS, DEPTH)}, 0, [3, DEPTH]
    else:
        constants, axis, data = scales | {"w": draw(kind, CHANNELS, 8, 3, 3)}, 0, [1, 8, 5, 5]
    options: dict[str, Any] = {"transB": 1} if operator == "Gemm" else {}
    nodes = [
        node("DequantizeLinear", ["w", "s"], ["f"], axis=axis),
        node(operator, ["x", "f"], ["y"], **options),
    ]
    outputs = [value("y", [*"abcd"][: len(data)])]
    return bytes(graph(nodes, [value("x", data)], outputs, constants, 25).SerializeToString())


def make_program(block: int, low: int, high: int) -> bytes:
    """Return a linear layer as IntxWeightOnlyConfig of torchao writes it."""
    torch = pytest.importorskip("torch", reason="torch is not installed: pip install torch")
    from firmwright.models.pytorch.quantization import define_torchao
    from tests.networks.torch_programs import Call, exported

    define_torchao()
    dequantize = torch.ops.torchao.dequantize_affine
    generator = torch.Generator().manual_seed(1)
    shape = (CHANNELS, DEPTH)
    weights = torch.randint(low, high + 1, shape, generator=generator, dtype=torch.int8)
    scales = torch.rand(CHANNELS, DEPTH // block, generator=generator)
    stored = torch.nn.ParameterList(
        torch.nn.Parameter(tensor, requires_grad=False) for tensor in (weights, scales)
    )

    def multiply(x: Any, kept: Any) -> Any:
        limits = torch.int8, low, high
        return torch.nn.functional.linear(
            x, dequantize(kept[0], (1, block), kept[1], None, *limits)
        )

    return exported(Call(multiply, stored), torch.zeros(3, DEPTH))


CASES: dict[str, tuple[str, Any, int]] = {
    "MatMul of int4": ("onnx", lambda: make_onnx("MatMul", "int4"), 4),
    "Gemm of uint4": ("onnx", lambda: make_onnx("Gemm", "uint4"), 4),
    "Conv of int4": ("onnx", lambda: make_onnx("Conv", "int4"), 4),
    "MatMul of int2": ("onnx", lambda: make_onnx("MatMul", "int2"), 2),
    "int4 per channel": ("pt2", lambda: make_program(DEPTH, -8, 7), 4),
    "int4 in groups": ("pt2", lambda: make_program(16, -8, 7), 4),
    "int2 per channel": ("pt2", lambda: make_program(DEPTH, -2, 1), 2),
}


@pytest.mark.needs("gcc")
@pytest.mark.parametrize("case", CASES)
def test_weights_stay_packed(case: str, tmp_path: Path) -> None:
    kind, make, bits = CASES[case]
    data = make()
    network = lowered(data, kind)
    count = CHANNELS * (72 if "Conv" in case else DEPTH)
    assert [a.nbytes for n, a in network.weights.items() if n.endswith("_weights")] == [
        count * bits // 8
    ]
    (port,) = network.interface.inputs
    given = [{"x": np.random.default_rng(3).normal(size=port.shape).astype("float32")}]
    expected = FORMATS[kind].load_reference().run_reference(data, given).outputs
    found = run_generated(data, given, tmp_path, format_name=kind)
    np.testing.assert_allclose(found[0][0], expected[0][0], 1e-5, 1e-4)
