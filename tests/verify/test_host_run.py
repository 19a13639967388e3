"""The network runs on this machine, with the accelerators of the platform it was compiled for."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import tvm

from firmwright.builder import Graph
from firmwright.compile import compile_network
from firmwright.errors import UserError
from firmwright.models.relax import importer as relax
from firmwright.project.network import Network
from firmwright.recipe.target import parse_target
from firmwright.targets.load_devices import load_mix
from firmwright.toolchain import Platform, load_platform
from firmwright.verify.host_run import run_on_host


def wide_layer() -> bytes:
    """Return a pointwise convolution whose tensors need 256 KB together, without a tile."""
    weights = np.random.default_rng(0).integers(-50, 50, (16, 16, 1, 1), np.int8)
    graph = Graph()
    x = graph.input("x", (1, 16, 80, 112))
    module = graph.output(graph.conv2d(x, "wide", weights, shift_bits=6)).module()
    return str(tvm.ir.save_json(module)).encode()


def compiled(data: bytes, platform: Platform) -> Network:
    module, interface = relax.import_model(data, "wide", {})
    mix = load_mix(parse_target("soma_dory, c"), platform, "onnx")
    return compile_network(module, interface, mix)


def test_the_targets_own_accelerator_is_emulated(tmp_path: Path) -> None:
    diana = load_platform("diana")
    numbers = {**diana.accelerators["soma_dory"], "l1": 400_000}
    larger = replace(diana, accelerators={"soma_dory": numbers})
    data = wide_layer()
    x: npt.NDArray[Any] = np.random.default_rng(1).integers(-128, 128, (1, 16, 80, 112), np.int8)
    network = compiled(data, larger)
    found = run_on_host(network, larger, [{"x": x}], tmp_path / "a", tmp_path).outputs
    (expected,) = relax.run_reference(data, [{"x": x}]).outputs
    np.testing.assert_array_equal(found[0][0], expected[0])
    with pytest.raises(UserError, match=r"the result's end in L1 is [0-9]+; allowed: up to 256000"):
        run_on_host(network, diana, [{"x": x}], tmp_path / "b", tmp_path)
