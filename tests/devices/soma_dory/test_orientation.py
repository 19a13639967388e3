"""Tall images are turned on their side if that saves more than it costs; results stay equal."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tvm
from tvm import relax

from firmwright.builder import Graph
from firmwright.devices.soma_dory.placing import layers_by_match, prepare_layers
from firmwright.ir.tensors import ModelInterface
from firmwright.models.relax.importer import import_model
from firmwright.partition.outline import partition_module
from firmwright.recipe.target import parse_target
from firmwright.targets import Context
from firmwright.targets.load_devices import load_mix
from firmwright.toolchain import load_platform

CONTEXT = Context(load_platform("diana"), "onnx", {})


def residual(
    size: tuple[int, int], depth: int = 5, kernel: tuple[int, int] = (3, 1), **options: Any
) -> tuple[tvm.IRModule, ModelInterface]:
    """Convolutions of all kinds, each added to the last one; the core also reads the first one."""
    graph, random = Graph(), np.random.default_rng(0)

    def numbers(*shape: int) -> np.ndarray[Any, Any]:
        return random.integers(-20, 20, shape).astype("int8")

    bias = np.arange(32, dtype="int32") * 100
    x = first = graph.conv2d(
        graph.input("x", (1, 3, *size)), "first", numbers(32, 3, *kernel), shift_bits=6, **options
    )
    for i in range(depth):
        y = graph.depthwise_conv2d(x, f"own_{i}", numbers(32, 1, 1, 3), bias, shift_bits=5)
        y = graph.conv2d(y, f"all_{i}", numbers(32, 32, *kernel), bias, shift_bits=7, act=True)
        x = graph.add(x, y, f"sum_{i}", shift_bits=1)
    pooled = graph.max_pool2d(first, "pooled", (2, 1))
    return import_model(tvm.ir.save_json(graph.output(x, pooled).module()).encode(), "test", {})


def sizes(module: tvm.IRModule) -> set[tuple[int, int]]:
    return {(n.out_height, n.out_width) for n in layers_by_match(module, CONTEXT).values()}


def run(module: tvm.IRModule, image: Any) -> list[Any]:
    machine = relax.VirtualMachine(tvm.compile(module, target="llvm"), tvm.cpu())
    return [np.array(t.numpy()) for t in machine["main"](tvm.runtime.tensor(image))]


def test_tall_images_are_laid_on_their_side() -> None:
    module, _ = residual((33, 3))
    turned = prepare_layers(module, CONTEXT)
    assert sizes(module) == {(33, 3)} and sizes(turned) == {(3, 33)}
    image = np.random.default_rng(1).integers(-128, 128, (1, 3, 33, 3)).astype("int8")
    for found, expected in zip(run(turned, image), run(module, image), strict=True):
        assert len(np.unique(expected)) > 20
        assert np.array_equal(found, expected)


@pytest.mark.parametrize(
    "network",
    [
        residual((32, 32)),  # turning saves nothing
        residual((3, 33)),  # it is already wide
        residual((33, 3), depth=0),  # the core's transposes cost more
    ],
)
def test_other_images_stay_upright(network: tuple[tvm.IRModule, ModelInterface]) -> None:
    module, _ = network
    assert sizes(prepare_layers(module, CONTEXT)) == sizes(module)


def test_a_turned_network_has_the_models_macs() -> None:
    module, interface = residual((33, 3))
    platform = load_platform("diana")
    taken, plain = (
        partition_module(module, interface, load_mix(parse_target(target), platform, "onnx"))[1]
        for target in ("soma_dory, c", "c")
    )
    assert [r.macs for r in taken.regions if r.macs] == [r.macs for r in plain.regions if r.macs]
    assert {r.device for r in taken.regions if r.macs} == {"soma_dory"}
