"""Each kind of advice is followed, and saves the stated cycles, modelled or counted."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np
import pytest
import tvm
from onnx import TensorProto, helper
from tvm import relax

from firmwright.builder import Graph, random_array
from firmwright.compile import compile_network, partition_network, prepare_module
from firmwright.data.samples import random_samples
from firmwright.emulator import run_firmware
from firmwright.ir.tensors import ModelInterface
from firmwright.models.onnx import importer as onnx
from firmwright.models.relax.importer import import_model
from firmwright.models.relax.python_call import portable_json
from firmwright.recipe.target import parse_target
from firmwright.report.advice import Advice
from firmwright.report.advising import advise
from firmwright.report.estimates import estimate_layers
from firmwright.targets import find_rewrites
from firmwright.targets.load_devices import load_mix
from firmwright.toolchain import (
    Build,
    load_platform,
    load_toolchain,
)
from firmwright.verify.protocol import encode_samples
from tests.networks.firmware import link_network
from tests.networks.onnx_models import graph, node, value

PLATFORMS = Path(__file__).parents[2] / "toolchains" / "platforms"


@dataclass(frozen=True)
class Measured:
    """The advice for a model, and the cost of each operator."""

    advice: dict[str, Advice]
    cost: dict[str, float]

    def saves(self, change: str, layer: str) -> float:
        """Return the stated saving of a change of one layer."""
        advice = self.advice[change]
        assert advice.layers == (layer,)
        assert advice.saves is not None
        return advice.saves


Measure = Callable[[tvm.IRModule, ModelInterface, str, str], Measured]


pytestmark = pytest.mark.needs("arm-none-eabi-gcc")


@pytest.fixture(scope="module")
def measure(tmp_path_factory: pytest.TempPathFactory) -> Measure:
    """Compile a network, run it in the emulator, and add its counts to the modelled cycles."""
    kept = tmp_path_factory.mktemp("cache")

    def run(
        module: tvm.IRModule, interface: ModelInterface, platform_name: str, target: str
    ) -> Measured:
        platform = load_platform(platform_name)
        mix = load_mix(parse_target(target), platform, "onnx")
        prepared = prepare_module(module, find_rewrites(mix))
        regions, _, partition = partition_network(prepared, interface, mix)
        network = compile_network(module, interface, mix)
        # Costs are for zig. GCC contains its library for Arm; zig would compile a library first.
        toolchain = "arm-none-eabi-gcc" if "cortex" in platform.architecture else "zig"
        build = Build(load_toolchain(toolchain), platform)
        elf = link_network(network, build, tmp_path_factory.mktemp("build"), kept)
        sample = dict(random_samples(network.interface.inputs, 1, 0)[0])
        given = encode_samples(network.interface.inputs, [sample])
        kernels = {kernel.region: kernel for kernel in network.kernels.kernels}
        called = network.plan.name_functions(network.kernels, "network")
        parts = tuple(called.values())
        ran = run_firmware(elf, platform, "unicorn", given, "network_run", 10**10, parts)
        counted = dict(zip(called, ran.by_part, strict=True))
        cost: dict[str, float] = {}
        for region in network.partition.regions:
            if region.sources and not region.view:
                modelled = kernels[region.name].cycles
                spent = counted[region.name]
                spent += modelled.total if modelled else 0
                cost[region.sources[0]] = cost.get(region.sources[0], 0) + spent
        found = advise(partition, regions, mix, platform.timing)
        return Measured({advice.change: advice for advice in found}, cost)

    return run


def make_layers(follows_advice: bool) -> tuple[tvm.IRModule, ModelInterface]:
    """Return layers that DIANA's accelerator rejects or uses partly, or improved layers."""
    made = Graph()
    x = made.input("x", (1, 16, 16, 16))
    weights = random_array((16, 16, 3, 3), seed=1)
    strided = made.conv2d(
        x, "strided", weights, shift_bits=7, strides=(1, 1 if follows_advice else 2)
    )
    if follows_advice:
        strided = made.emit(
            relax.op.strided_slice(strided, [3], [0], [16], [2]), "every second column"
        )
    side = 7 if follows_advice else 9
    large = made.conv2d(x, "large", random_array((4, 16, side, side), seed=2), shift_bits=9)
    large = made.dense(large, "scores", random_array((10, 1024), seed=5), shift_bits=9)
    channels = 16 if follows_advice else 17
    wide = made.conv2d(x, "wide", random_array((channels, 16, 3, 3), seed=3), shift_bits=7)
    pad = 1 if follows_advice else 5
    padded = made.conv2d(x, "padded", random_array((16, 16, 3, 3), seed=6), padding=(pad, pad))
    if follows_advice:
        rows = made.input("rows", (1, 16, 8, 8))
    else:
        rows = made.input("rows", (1, 8, 8, 16))
        rows = made.emit(relax.op.permute_dims(rows, [0, 3, 1, 2]), "turned")
    rows = made.conv2d(rows, "plain", random_array((16, 16, 3, 3), seed=7), shift_bits=7)
    joined = made.emit(relax.op.concat([x, x], 1), "joined")
    results = [
        rows,
        joined,
        strided,
        large,
        wide,
        padded,
        add_clipped(made, x, 127 if follows_advice else 100),
    ]
    if follows_advice:
        image = made.input("image", (1, 4, 8, 8))
        results.append(made.conv2d(image, "float", random_array((8, 4, 3, 3), seed=4)))
    else:
        image = made.input("image", (1, 4, 8, 8), "float32")
        kernel = relax.const(np.ones((8, 4, 3, 3), "float32"))
        results.append(made.emit(relax.op.nn.conv2d(image, kernel, padding=1), "float"))
    return import_model(portable_json(made.output(*results).module()), "layers", {})


def add_clipped(made: Graph, x: relax.Var, limit: int) -> relax.Var:
    """Return the sum of a tensor with itself; values above a limit are clipped."""
    first, second = (made.emit(relax.op.astype(x, "int32"), name) for name in ("one", "two"))
    total = made.emit(relax.op.add(first, second), "sum")
    shifted = made.emit(relax.op.right_shift(total, relax.const(1, "int32")), "shifted")
    clipped = made.emit(relax.op.clip(shifted, -128, limit), "clipped")
    return made.emit(relax.op.astype(clipped, "int8"), "stored")


@pytest.fixture(scope="module")
def before(measure: Measure) -> Measured:
    return measure(*make_layers(False), "diana", "soma_dory, c")


@pytest.fixture(scope="module")
def after(measure: Measure) -> Measured:
    return measure(*make_layers(True), "diana", "soma_dory, c")


@pytest.mark.parametrize(
    ("change", "layer", "tolerance"),
    [
        ("strides [1, 2] → [1, 1]", "strided", 0.1),
        ("kernel height 9 → 7; kernel width 9 → 7", "large", 0.25),
        (
            "padding above 5 → 1; padding below 5 → 1; padding on the left 5 → 1; "
            "padding on the right 5 → 1",
            "padded",
            0.25,
        ),
        ("quantize: float32 → {scheme: pow2, arithmetic: shift}", "float", 0.1),
        ("crop output channels 17 → 16", "wide", 0.01),
        ("clip [-128, 100] → [-128, 127]", "one", 0.1),
        (
            "pass the input to the network in the order that the next layer reads",
            "turned",
            0.25,
        ),
    ],
)
def test_the_accelerator_takes_what_was_changed_and_saves_the_cycles(
    before: Measured, after: Measured, change: str, layer: str, tolerance: float
) -> None:
    saved = before.cost[layer] - after.cost.get(layer, 0)
    assert before.saves(change, layer) == pytest.approx(saved, rel=tolerance)
    assert change not in after.advice


@pytest.mark.parametrize("size", [4, 8])
def test_no_advice_costs_cycles(size: int) -> None:
    """In a small layer, starting the accelerator costs more cycles than the layer."""
    made = Graph()
    x = made.input("x", (1, 2, size, size))
    strided = made.conv2d(x, "strided", random_array((2, 2, 3, 3), seed=1), strides=(1, 2))
    network = made.output(strided, add_clipped(made, x, 100))
    module, interface = import_model(portable_json(network.module()), "small", {})
    mix = load_mix(parse_target("soma_dory, c"), load_platform("diana"), "onnx")
    prepared = prepare_module(module, find_rewrites(mix))
    regions, _, partition = partition_network(prepared, interface, mix)
    advice = {layer: a for a in advise(partition, regions, mix, None) for layer in a.layers}
    assert all(a.saves is None or a.saves > 0 for a in advice.values())
    assert advice["one"].stays == (size == 4)
    assert ("would need more time" in advice["one"].change) == (size == 4)
    assert not advice["strided"].stays


def test_what_nothing_known_helps_is_told_with_what_it_takes(before: Measured) -> None:
    advice = before.advice["no substitute is known for concat, which soma_dory does not have"]
    assert (advice.layers, advice.device, advice.stays) == (("joined",), "c", True)
    assert advice.costs == pytest.approx(before.cost["joined"], rel=0.25)
    assert advice.saves is None


def test_every_layer_that_fell_back_has_a_line(before: Measured) -> None:
    named = {layer for advice in before.advice.values() for layer in advice.layers}
    assert {"strided", "large", "padded", "one", "float", "turned", "joined"} <= named


@pytest.mark.parametrize(
    ("platform", "target", "change"),
    [
        ("diana", "soma_dory, c", "crop output channels 32 → 16"),
        ("rv32-bare", "c -specialize=speed", "half as many output channels"),
    ],
    ids=["accelerator", "processor"],
)
def test_a_bottleneck_computes_fewer_channels(
    measure: Measure, platform: str, target: str, change: str
) -> None:
    def convolve(channels: int) -> Measured:
        made = Graph()
        x = made.input("x", (1, 16, 16, 16))
        conv = made.conv2d(x, "conv", random_array((channels, 16, 3, 3), seed=1), shift_bits=7)
        last = made.conv2d(conv, "last", random_array((4, channels, 1, 1), seed=2), shift_bits=7)
        network = import_model(portable_json(made.output(last).module()), "conv", {})
        return measure(*network, platform, target)

    before, after = convolve(32), convolve(16)
    saved = before.cost["conv"] - after.cost["conv"]
    assert before.saves(change, "conv") == pytest.approx(saved, rel=0.25)
    recorded = {
        layer for advice in before.advice.values() for layer in advice.layers if advice.saves
    }
    assert recorded == {"conv"}


def make_convolution(is_quantized: bool) -> tuple[tvm.IRModule, ModelInterface]:
    """Return one convolution of 12 x 12 x 8, on floats or on integers."""
    generator = np.random.default_rng(0)
    weights = generator.integers(-99, 99, (8, 8, 3, 3), "int8")
    conv = node("Conv", ["x", "w"], ["y"], name="conv", pads=[1, 1, 1, 1])
    if not is_quantized:
        image, result = value("x", [1, 8, 12, 12]), value("y", [1, 8, 12, 12])
        floats = weights.astype("float32") / 99
        return onnx.import_model(
            graph([conv], [image], [result], {"w": floats}).SerializeToString(), "conv", {}
        )
    kinds = TensorProto.INT8
    nodes = [
        node("DequantizeLinear", ["in", "s", "z"], ["x"]),
        node("DequantizeLinear", ["stored", "s", "z"], ["w"]),
        conv,
        node("QuantizeLinear", ["y", "t", "z"], ["out"]),
    ]
    model = graph(
        nodes,
        [value("in", [1, 8, 12, 12], kinds)],
        [value("out", [1, 8, 12, 12], kinds)],
        {"stored": weights, "s": np.float32(0.01), "t": np.float32(0.2), "z": np.int8(0)},
    )
    return onnx.import_model(model.SerializeToString(), "conv", {})


@pytest.fixture(scope="module")
def convolve(
    measure: Measure, tmp_path_factory: pytest.TempPathFactory
) -> Callable[[str, bool], Measured]:
    """Measure the convolution on rv32-bare, or on a Cortex-M4 that states no features."""
    bare = (PLATFORMS / "cortex-m4-bare.yaml").read_text("utf-8")
    plain = tmp_path_factory.mktemp("platform") / "plain.yaml"
    plain.write_text(
        bare.replace("features: [armv7e-m-dsp]", "").replace("name: cortex-m4-bare", "name: plain")
    )
    builds = {
        "rv32": ("rv32-bare", "c"),
        "rv32 for speed": ("rv32-bare", "c -specialize=speed"),
        "plain": (str(plain), "c"),
        "M4": ("cortex-m4-bare", "c"),
    }
    return cache(
        lambda build, is_quantized: measure(*make_convolution(is_quantized), *builds[build])
    )


@pytest.mark.parametrize(
    ("change", "start", "end", "tolerance"),
    [
        ("quantize: float32 → int8", ("rv32", False), ("rv32", True), 0.1),
        ("target: c -specialize=speed", ("rv32", True), ("rv32 for speed", True), 0.25),
        ("build for cortex-m4f with armv7e-m-dsp", ("plain", True), ("M4", True), 0.5),
    ],
)
def test_the_processor_executes_fewer_instructions(
    convolve: Callable[[str, bool], Measured],
    change: str,
    start: tuple[str, bool],
    end: tuple[str, bool],
    tolerance: float,
) -> None:
    """The stated instructions per multiply-accumulate are for large layers; this layer is small."""
    old, new = convolve(*start), convolve(*end)
    (layer,) = old.advice[change].layers
    assert old.saves(change, layer) == pytest.approx(
        sum(old.cost.values()) - sum(new.cost.values()), rel=tolerance
    )
    assert change not in new.advice


def advise_tidl(bits: str) -> tuple[Sequence[Advice], float]:
    """Return the advice for a quantized convolution on AM62A, and its estimated microseconds.

    Its results and weights have ``bits``.
    """
    integers = f"int{bits}"
    kind = helper.np_dtype_to_tensor_dtype(np.dtype(integers))
    grids = {"scale": np.array(0.5, "float32"), "zero": np.array(0, integers)}
    made = graph(
        [
            node("DequantizeLinear", ["x", "scale", "zero"], ["real"]),
            node("DequantizeLinear", ["w", "scale", "zero"], ["weights"]),
            node("Conv", ["real", "weights"], ["sums"], name="conv"),
            node("QuantizeLinear", ["sums", "scale", "zero"], ["y"]),
        ],
        [value("x", [1, 8, 32, 32], kind)],
        [value("y", [1, 8, 30, 30], kind)],
        {"w": np.ones((8, 8, 3, 3), integers), **grids},
    )
    module, interface = onnx.import_model(made.SerializeToString(), "conv", {})
    platform = load_platform("am62a")
    mix = load_mix(parse_target("tidl, c"), platform, "onnx")
    regions, _, partition = partition_network(
        prepare_module(module, find_rewrites(mix)), interface, mix
    )
    network = compile_network(module, interface, mix)
    assert platform.timing
    cores = {device.name: device.target.core for device in mix}
    layers = estimate_layers(network.partition, network.kernels, platform.timing, cores, "run")
    spent = sum(layer.cost.work_us for layer in layers if layer.sources)
    return advise(partition, regions, mix, platform.timing), spent


def test_tidl_takes_fewer_bits_and_saves_the_microseconds() -> None:
    (advice,), before = advise_tidl("16")
    (remark,), after = advise_tidl("8")
    change = "quantize: bits 16 → 8; quantize: bits of weights 16 → 8"
    assert str(advice).startswith(f"{change}: conv to tidl, saves about ")
    assert advice.saves == pytest.approx(before - after, rel=0.1)
    assert remark.stays
    assert remark.costs == pytest.approx(after, rel=0.1)
