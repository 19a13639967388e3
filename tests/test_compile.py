"""A network is compiled in memory."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import tvm

from firmwright.builder import Graph, random_array
from firmwright.compile import compile_network
from firmwright.devices.cpu import CpuTarget
from firmwright.errors import UserError
from firmwright.ir.kernels import LoweredRegion
from firmwright.ir.regions import Region
from firmwright.ir.tensors import BatchLayout
from firmwright.models.relax.importer import import_model, run_reference
from firmwright.recipe.target import parse_target
from firmwright.targets import Context, Device
from firmwright.targets.load_devices import load_mix
from firmwright.toolchain import load_platform
from firmwright.verify.host_run import run_on_host

HOST = load_platform("host")


def two_layers() -> bytes:
    graph = Graph()
    x = graph.input("x", (1, 4, 6, 6))
    x = graph.conv2d(x, "conv", random_array((8, 4, 3, 3), seed=1), act=True, shift_bits=7)
    x = graph.dense(x, "scores", random_array((5, 288), seed=2), shift_bits=7)
    return str(tvm.ir.save_json(graph.output(x).module())).encode()


def test_samples_of_a_batch_are_computed_as_single_ones(tmp_path: Path) -> None:
    data = two_layers()
    module, interface = import_model(data, "test", {})
    network = compile_network(module, interface, load_mix(parse_target("c"), HOST, "onnx"), batch=3)
    assert network.batch == BatchLayout(3, (0,))
    assert [t.shape for t in network.interface.outputs] == [(3, 5)]
    generator = np.random.default_rng(1)
    samples = [{"x": generator.integers(-128, 128, (1, 4, 6, 6), "int8")} for _ in range(4)]
    found = run_on_host(network, HOST, samples, tmp_path / "run", tmp_path / "cache").outputs
    np.testing.assert_array_equal(found, run_reference(data, samples).outputs)


def test_layers_are_written_in_the_ways_that_are_given(tmp_path: Path) -> None:
    """One layer uses a form, the other one uses loops; both results equal the reference."""
    graph, weights = Graph(), random_array((8, 8), seed=3)
    x = graph.dense(graph.input("x", (1, 8)), "first", weights, shift_bits=6)
    x = graph.dense(x, "second", weights, shift_bits=6)
    data = str(tvm.ir.save_json(graph.output(x).module())).encode()
    module, interface = import_model(data, "test", {})
    (device,) = load_mix(parse_target("c"), HOST, "onnx")
    variants = {"region_000_matmul": "portable_dense separate", "region_001_matmul": "loops"}
    tuned = replace(device, context=replace(device.context, variants=variants))
    network = compile_network(module, interface, [tuned])
    notes = {k.region: k.note or "" for k in network.kernels.kernels}
    assert {*notes} == {*variants}
    assert notes["region_000_matmul"].startswith("Form portable_dense: ")
    assert "Form" not in notes["region_001_matmul"]
    samples = [{"x": np.random.default_rng(1).integers(-128, 128, (1, 8), "int8")}]
    found = run_on_host(network, HOST, samples, tmp_path / "run", tmp_path / "cache").outputs
    np.testing.assert_array_equal(found, run_reference(data, samples).outputs)


class RefusingTarget(CpuTarget):
    def lower(self, region: Region, _module: tvm.IRModule, _context: Context, /) -> LoweredRegion:
        raise UserError(f"{region.anchor} is refused")


def test_all_that_cannot_be_lowered_is_in_one_error() -> None:
    module, interface = import_model(two_layers(), "test", {})
    mix = [Device(RefusingTarget(), Context(HOST, "onnx", {}))]
    with pytest.raises(UserError) as raised:
        compile_network(module, interface, mix)
    assert str(raised.value).splitlines() == [
        "operators that cannot be compiled:",
        "  conv2d is refused",
        "  matmul is refused",
    ]
