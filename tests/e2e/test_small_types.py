"""A network with 8-bit and 4-bit types at its interface: samples, firmware, reference, header."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt
import onnx
from onnx import TensorProto

from tests.e2e.conftest import Repository, new_repository
from tests.networks.onnx_models import graph, node, value

RECIPE = """\
model: small.onnx
platform: rv32-bare
target: c
run: {inputs: inputs.npz, samples: 4}
"""


def write_network(folder: Path) -> None:
    """Save a network whose weights, inputs and outputs have such types."""
    random = np.random.default_rng(0)
    constants: dict[str, npt.NDArray[Any] | np.generic] = {
        "w": random.normal(0, 1, (16, 4)).astype(ml_dtypes.float8_e4m3fn),
        "v": np.float32(0.125),
        "s": np.float32(0.5),
    }
    nodes = [
        node("DequantizeLinear", ["q", "s"], ["a"]),
        node("Cast", ["p"], ["b"], to=TensorProto.FLOAT),
        node("Mul", ["a", "b"], ["x"]),
        node("DequantizeLinear", ["w", "v"], ["f"]),
        node("MatMul", ["x", "f"], ["h"]),
        node("QuantizeLinear", ["h", "s"], ["y"], output_dtype=TensorProto.INT4),
        node("Cast", ["h"], ["z"], to=TensorProto.FLOAT8E5M2),
    ]
    inputs = [value("q", [2, 16], TensorProto.INT4), value("p", [2, 16], TensorProto.FLOAT4E2M1)]
    outputs = [value("y", [2, 4], TensorProto.INT4), value("z", [2, 4], TensorProto.FLOAT8E5M2)]
    onnx.save(graph(nodes, inputs, outputs, constants, opset=23), folder / "small.onnx")


def save_samples(folder: Path, largest: int) -> None:
    random = np.random.default_rng(1)
    integers = random.integers(-8, 8, (4, 2, 16)).astype("int8")
    integers.flat[0] = largest
    floats = random.normal(0, 2, (4, 2, 16)).astype(ml_dtypes.float4_e2m1fn)
    np.savez(folder / "inputs.npz", q=integers, p=floats)


def test_firmware_carries_them_in_bytes(tmp_path: Path) -> None:
    repository = new_repository(tmp_path)
    write_network(repository.folder)
    save_samples(repository.folder, 9)
    repository.write("small.yaml", RECIPE)
    refused = repository.doit("build", "recipe=small.yaml")
    assert refused.returncode != 0
    assert "the input 'q' is int4, of -8 to 7; found -8 to 9" in refused.stdout + refused.stderr

    save_samples(repository.folder, 7)
    repository.build("recipe=small.yaml")
    run = repository.manifest("build/small/small-rv32-bare.tar.gz")["run"]
    assert run["mismatches"] == 0
    assert "reference evaluator" in run["reference"]
    check_interface(repository)


def check_interface(repository: Repository) -> None:
    network = repository.folder / "build/small/rv32-bare/sources/network"
    interface = json.loads((network / "network_interface.json").read_text())
    ports = [*interface["inputs"], *interface["outputs"]]
    assert [(p["name"], p["dtype"], p["c_type"], p["bytes"]) for p in ports] == [
        ("q", "int4", "int8_t", 32),
        ("p", "float4_e2m1fn", "uint8_t", 32),
        ("y", "int4", "int8_t", 8),
        ("z", "float8_e5m2", "uint8_t", 8),
    ]
    assert [p["scale"] for p in ports] == [0.5, None, 0.5, None]
    header = (network / "network.h").read_text()
    assert "/* p: float4_e2m1fn 2x16 */" in header
    assert "return -8;" in header  # the smallest integer that network_quantize_q returns
