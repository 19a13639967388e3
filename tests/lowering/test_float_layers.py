"""Regions of float networks are read as layers, and their results have the same bits everywhere."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from firmwright.emulator import run_firmware
from firmwright.models.onnx import importer
from firmwright.toolchain import (
    Build,
    load_platform,
    load_toolchain,
)
from firmwright.verify.protocol import decode_outputs, encode_samples
from tests.networks.firmware import SANITIZED, Sample, link_network, lowered, run_generated


class Builder:
    """Collects the nodes of a model of one float32 input (1, 3, 9, 8)."""

    def __init__(self) -> None:
        self.generator = np.random.default_rng(0)
        self.nodes: list[onnx.NodeProto] = []
        self.weights: list[onnx.TensorProto] = []

    def constant(self, *shape: int) -> str:
        name = f"c{len(self.weights)}"
        values = self.generator.standard_normal(shape).astype("float32")
        self.weights.append(numpy_helper.from_array(values, name))
        return name

    def limit(self, value: float) -> str:
        name = f"c{len(self.weights)}"
        self.weights.append(numpy_helper.from_array(np.array(value, "float32"), name))
        return name

    def add(self, operator: str, *inputs: str, result: str = "", **attributes: Any) -> str:
        name = result or f"n{len(self.nodes)}"
        self.nodes.append(helper.make_node(operator, inputs, [name], name, **attributes))
        return name

    def finish(self, shape: list[int]) -> bytes:
        """Return the model, whose result is named y."""
        read = helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 3, 9, 8])
        written = helper.make_tensor_value_info("y", TensorProto.FLOAT, shape)
        graph = helper.make_graph(self.nodes, "floats", [read], [written], self.weights)
        opset = helper.make_opsetid("", 17)
        data: bytes = helper.make_model(
            graph, opset_imports=[opset], ir_version=9
        ).SerializeToString()
        return data


def make_residual_network() -> bytes:
    """Return a network with each kind of layer; the channels of the input are first."""
    b = Builder()
    data = b.add("Relu", b.add("Conv", "x", b.constant(6, 3, 3, 2), b.constant(6), strides=[2, 1]))
    inner = b.add("Conv", data, b.constant(6, 1, 3, 3), pads=[1, 1, 1, 1], group=6)
    inner = b.add("Conv", inner, b.constant(6, 6, 1, 1), b.constant(6))
    data = b.add("Relu", b.add("Add", inner, data))
    inner = b.add("Conv", data, b.constant(6, 6, 3, 3), b.constant(6), pads=[2] * 4,
                  dilations=[2, 2])  # fmt: skip
    data = b.add("Clip", inner, b.limit(-1.0), b.limit(2.0))
    data = b.add("Flatten", data)
    b.add("Gemm", data, b.constant(6 * 4 * 7, 5), b.constant(5), result="y")
    return b.finish([1, 5])


LAYERS = 5


def draw_sample() -> Sample:
    return {"x": np.random.default_rng(1).standard_normal((1, 3, 9, 8), "float32")}


def test_each_layer_has_a_form() -> None:
    kernels = lowered(make_residual_network()).kernels.kernels
    forms = [k.note for k in kernels if (k.note or "").startswith("Form x64_float_")]
    assert len(forms) == LAYERS
    assert len(kernels) == LAYERS


@pytest.mark.needs("gcc")
def test_a_network_of_layers_agrees_with_the_reference(tmp_path: Path) -> None:
    data, sample = make_residual_network(), draw_sample()
    ((found,),) = run_generated(data, [sample], tmp_path, SANITIZED)
    ((wanted,),) = importer.run_reference(data, [sample]).outputs
    np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-5 * np.abs(wanted).max())


def test_a_network_has_the_same_bits_on_every_core(tmp_path: Path) -> None:
    """Vectors on this machine, a core with an FPU, and a core without float instructions."""
    data, sample = make_residual_network(), draw_sample()
    found = [
        run_on(data, sample, platform, tmp_path / platform).tobytes()
        for platform in ("host", "cortex-m4-bare", "rv32-bare")
    ]
    assert found[0] == found[1] == found[2]


def run_on(data: bytes, sample: Sample, platform_name: str, folder: Path) -> npt.NDArray[Any]:
    """Return the output of a model's firmware in the emulator of a platform."""
    platform = load_platform(platform_name)
    build = Build(load_toolchain("zig"), platform, ())
    network = lowered(data, platform=platform_name)
    elf = link_network(network, build, folder, folder / "cache")
    given = encode_samples(network.interface.inputs, [sample])
    emulator = platform.emulators[0]
    ran = run_firmware(elf, platform, emulator, given, "network_run", 10**10)
    ((output,),) = decode_outputs(ran.console, network.interface.outputs, 1, ran.exit_code)
    return output
