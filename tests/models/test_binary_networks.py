"""Networks of signs from QONNX: XOR and counts of bits, with the results of ONNX Runtime."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

from firmwright.emulator import run_firmware
from firmwright.models.onnx.importer import run_reference
from firmwright.project.network import Network
from firmwright.toolchain import Build, load_platform, load_toolchain
from firmwright.verify.protocol import decode_outputs, encode_samples
from tests.networks.firmware import link_network, lowered, run_generated
from tests.networks.onnx_models import graph, node, value

DOMAIN = "qonnx.custom_op.general"
CHANNELS, SIZE, CLASSES = 24, 6, 10
FORM = "portable_binary"


def make_network(
    padding: int = 1, activation: str = "BipolarQuant", transpose: dict[str, Any] | None = None
) -> bytes:
    """Return signs, a convolution, a batch normalization, signs, a product, and float results.

    ``transpose`` has the attributes of a Transpose before the product.
    """
    draw = np.random.default_rng(3)
    width = SIZE + 2 * padding - 2
    constants: dict[str, Any] = {
        "one": np.float32(1),
        "half": np.float32(0.5),
        "w": draw.normal(size=(CHANNELS, 8, 3, 3)).astype("float32"),
        "v": draw.normal(size=(CHANNELS * width * width, CLASSES)).astype("float32"),
        # Negative factors turn signs around.
        "gamma": draw.normal(size=CHANNELS).astype("float32"),
        "beta": draw.normal(0, 9, CHANNELS).astype("float32"),
        "mean": draw.normal(0, 9, CHANNELS).astype("float32"),
        "variance": draw.uniform(1, 9, CHANNELS).astype("float32"),
        "flat": np.array([1, -1]),
    }

    def sign(name: str, scale: str, result: str) -> Any:
        return node("BipolarQuant", [name, scale], [result], domain=DOMAIN)

    between = sign("n", "one", "a")
    if activation != "BipolarQuant":
        between = node(activation, ["n"], ["a"])
    moved = [] if transpose is None else [node("Transpose", ["a"], ["t"], **transpose)]
    nodes = [
        sign("x", "one", "s"),
        sign("w", "half", "ws"),
        node("Conv", ["s", "ws"], ["c"], pads=[padding] * 4),
        node("BatchNormalization", ["c", "gamma", "beta", "mean", "variance"], ["n"]),
        between,
        *moved,
        node("Reshape", ["t" if moved else "a", "flat"], ["f"]),
        sign("v", "half", "vs"),
        node("MatMul", ["f", "vs"], ["y"]),
    ]
    shapes = value("x", [1, 8, SIZE, SIZE]), value("y", [1, CLASSES])
    model = graph(nodes, [shapes[0]], [shapes[1]], constants, 13)
    model.opset_import.append(onnx.helper.make_opsetid(DOMAIN, 1))
    return bytes(model.SerializeToString())


def draw_samples(count: int) -> list[dict[str, Any]]:
    draw = np.random.default_rng(4)
    return [{"x": draw.normal(size=(1, 8, SIZE, SIZE)).astype("float32")} for _ in range(count)]


def list_forms(network: Network) -> list[str]:
    return [k.note or "" for k in network.kernels.kernels if FORM in (k.note or "")]


@pytest.mark.needs("gcc")
@pytest.mark.parametrize("padding", [0, 1])
def test_signs_are_multiplied_as_bits(padding: int, tmp_path: Path) -> None:
    data, samples = make_network(padding), draw_samples(3)
    network = lowered(data)
    assert len(list_forms(network)) == 2
    stored = [a.size for n, a in network.weights.items() if n.endswith("_weights")]
    inputs = CHANNELS * (4 + 2 * padding) ** 2
    assert stored == [CHANNELS * 3, CLASSES * -(-inputs // 32)]
    found = run_generated(data, samples, tmp_path)
    for outputs, expected in zip(found, run_reference(data, samples).outputs, strict=True):
        np.testing.assert_array_equal(outputs[0], expected[0])


@pytest.mark.needs("gcc")
@pytest.mark.parametrize("transpose", [{}, {"perm": [0, 2, 3, 1]}], ids=["reverse", "axes"])
def test_a_product_reads_transposed_signs(transpose: dict[str, Any], tmp_path: Path) -> None:
    data, samples = make_network(transpose=transpose), draw_samples(2)
    assert len(list_forms(lowered(data))) == 2
    found = run_generated(data, samples, tmp_path)
    for outputs, expected in zip(found, run_reference(data, samples).outputs, strict=True):
        np.testing.assert_array_equal(outputs[0], expected[0])


@pytest.mark.parametrize("platform_name", ["cortex-m4-bare", "rv32-bare"])
def test_a_network_of_signs_is_exact_on_small_cores(platform_name: str, tmp_path: Path) -> None:
    data, samples = make_network(), draw_samples(2)
    network, platform = lowered(data, platform=platform_name), load_platform(platform_name)
    assert len(list_forms(network)) == 2
    build = Build(load_toolchain(platform.toolchains[0]), platform)
    elf = link_network(network, build, tmp_path, tmp_path / "cache")
    given = encode_samples(network.interface.inputs, samples)
    ran = run_firmware(elf, platform, platform.emulators[0], given, "network_run", 10**10)
    found = decode_outputs(ran.console, network.interface.outputs, 2, ran.exit_code)
    for outputs, expected in zip(found, run_reference(data, samples).outputs, strict=True):
        np.testing.assert_array_equal(outputs[0], expected[0])


def test_other_inputs_are_not_packed_as_signs() -> None:
    """A product reads signs only if a sign is before it."""
    network = lowered(make_network(activation="Relu"))
    assert len(list_forms(network)) == 1
