"""Every piece of advice on 30 random networks is followed: devices accept it, and it saves time."""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from random import Random

import numpy as np
import pytest
from tvm import relax

from firmwright.builder import Graph, random_array
from firmwright.compile import partition_network, prepare_module
from firmwright.ir.regions import Partition, Region
from firmwright.models.relax.importer import import_model
from firmwright.models.relax.python_call import portable_json
from firmwright.recipe.target import parse_target
from firmwright.report.advice import Advice
from firmwright.report.advising import AssignedNetwork, advise
from firmwright.targets import find_rewrites
from firmwright.targets.load_devices import load_mix
from firmwright.toolchain import load_platform, platform_names

SIDES = ("above", "on the left", "below", "on the right")
TARGETS = (("diana", "soma_dory, c"), ("rv32-bare", "c"), ("cortex-m4-bare", "c"))
OF_BUILDS = ("build for ", "target: ")
"""The first words of advice that changes the build and not the model."""


@dataclass(frozen=True)
class Convolution:
    """A convolution of a 12 x 12 image: the values that advice changes."""

    channels: int
    kernel: tuple[int, int]
    strides: tuple[int, int]
    padding: tuple[int, int, int, int]
    limit: int
    is_float: bool


@dataclass(frozen=True)
class Judged:
    """The advice on a network by layers, each layer's device, and the modelled cost."""

    advice: Mapping[str, Sequence[Advice]]
    devices: Mapping[str, str]
    costs: Mapping[str, float]


def choose(random: Random) -> Convolution:
    return Convolution(
        random.choice((8, 16, 17, 24, 40)),
        (random.choice((1, 3, 5, 9)), random.choice((1, 3, 7, 9))),
        random.choice(((1, 1), (2, 2), (1, 2), (3, 3))),
        (random.randrange(6), random.randrange(6), random.randrange(6), random.randrange(6)),
        random.choice((127, 100)),
        random.random() < 0.25,
    )


def judge(layers: Mapping[str, Convolution], platform: str, target: str) -> Judged:
    made = Graph()
    x = made.input("x", (1, 16, 12, 12))
    image = made.input("image", (1, 16, 12, 12), "float32")
    results = [
        ADD[target](made, image if each.is_float else x, name, each)
        for name, each in layers.items()
    ]
    module, interface = import_model(portable_json(made.output(*results).module()), "n", {})
    mix = load_mix(parse_target(target), load_platform(platform), "onnx")
    prepared = prepare_module(module, find_rewrites(mix))
    regions, _, partition = partition_network(prepared, interface, mix)
    found = advise(partition, regions, mix, None)
    costs = AssignedNetwork(partition, regions, mix, None).costs
    return Judged(
        {name: [a for a in found if name in a.layers] for name in layers},
        {name: list_regions(partition, name)[0].device for name in layers},
        {name: sum(costs[r.name] or 0 for r in list_regions(partition, name)) for name in layers},
    )


def add_shifted(made: Graph, x: relax.Var, name: str, layer: Convolution) -> relax.Var:
    """Add a layer whose sums are shifted, as DIANA's accelerator computes."""
    if layer.is_float:
        return add_float(made, x, name, layer)
    weights = relax.const(random_array((layer.channels, 16, *layer.kernel), seed=1))
    sums = relax.op.nn.conv2d(
        x, weights, strides=[*layer.strides], padding=[*layer.padding], out_dtype="int32"
    )
    shifted = relax.op.right_shift(made.emit(sums, name), relax.const(9, "int32"))
    clipped = relax.op.clip(made.emit(shifted, f"{name} shifted"), -128, layer.limit)
    return made.emit(relax.op.astype(made.emit(clipped, f"{name} clipped"), "int8"), f"{name} out")


def add_scaled(made: Graph, x: relax.Var, name: str, layer: Convolution) -> relax.Var:
    """Add a layer whose tensors have scales, as converters write."""
    if layer.is_float:
        return add_float(made, x, name, layer)
    zero, scale = relax.const(0, "int8"), relax.const(0.125, "float32")
    weights = relax.const(random_array((layer.channels, 16, *layer.kernel), seed=1))
    inputs = {f"{name} in": x, f"{name} weights": weights}
    floats = [made.emit(relax.op.dequantize(t, scale, zero), n) for n, t in inputs.items()]
    sums = relax.op.nn.conv2d(*floats, strides=[*layer.strides], padding=[*layer.padding])
    quantized = relax.op.quantize(made.emit(sums, name), relax.const(16.0, "float32"), zero)
    return made.emit(quantized, f"{name} out")


def add_float(made: Graph, x: relax.Var, name: str, layer: Convolution) -> relax.Var:
    weights = relax.const(np.ones((layer.channels, 16, *layer.kernel), "float32"))
    options = {"strides": [*layer.strides], "padding": [*layer.padding]}
    return made.emit(relax.op.nn.conv2d(x, weights, **options), name)


ADD = {"soma_dory, c": add_shifted, "c": add_scaled, "c -specialize=speed": add_scaled}


def list_regions(partition: Partition, name: str) -> list[Region]:
    return [region for region in partition.regions if name in region.sources]


def follow(layer: Convolution, change: str) -> Convolution:
    """Return the layer after a change. Raises AssertionError if the text has another form."""
    if change.startswith("quantize"):
        return replace(layer, is_float=False)
    if change == "half as many output channels":
        return replace(layer, channels=layer.channels // 2)
    found = re.fullmatch(r"(\D+?) (?:(\d+)|(\[.*\])) → (.+)", change)
    assert found, change
    quantity, wanted = found[1], ast.literal_eval(found[4])
    if quantity == "crop output channels":
        return replace(layer, channels=wanted)
    if quantity == "strides":
        return replace(layer, strides=tuple(wanted))
    if quantity == "clip":
        return replace(layer, limit=wanted[1])
    if quantity in ("kernel height", "kernel width"):
        is_width = quantity == "kernel width"
        kernel = (layer.kernel[0], wanted) if is_width else (wanted, layer.kernel[1])
        return replace(layer, kernel=kernel)
    pairs = zip(SIDES, layer.padding, strict=True)
    above, left, below, right = (wanted if f"padding {s}" == quantity else p for s, p in pairs)
    assert quantity in [f"padding {side}" for side in SIDES], change
    return replace(layer, padding=(above, left, below, right))


def follow_build(change: str, platform: str, target: str) -> tuple[str, str]:
    """Return the platform and the target of a build after a change of the build."""
    if change.startswith("target: "):
        return platform, change.removeprefix("target: ")
    core = change.removeprefix("build for ").partition(" ")[0]
    return next(n for n in platform_names() if load_platform(n).architecture == core), target


@pytest.mark.parametrize("seed", range(30))
def test_followed_advice_is_accepted_and_saves_time(seed: int) -> None:
    random = Random(seed)
    layers = {f"layer {number}": choose(random) for number in range(2)}
    platform, target = TARGETS[seed % len(TARGETS)]
    before = judge(layers, platform, target)
    usable = [(n, a) for n, found in before.advice.items() for a in found if not a.stays]
    for name, advice in usable:
        if advice.change.startswith(OF_BUILDS):
            built = judge(layers, *follow_build(advice.change, platform, target))
            assert built.costs[name] <= before.costs[name], advice
    of_layers = {n: a for n, a in reversed(usable) if not a.change.startswith(OF_BUILDS)}
    changed = {n: reduce(follow, a.change.split("; "), layers[n]) for n, a in of_layers.items()}
    after = judge({**layers, **changed}, platform, target) if changed else before
    for name, advice in of_layers.items():
        assert after.devices[name] == advice.device, (advice, layers[name])
        assert advice.saves is not None
        assert after.costs[name] < before.costs[name], (advice, layers[name])
        assert advice.change not in {each.change for each in after.advice[name]}
