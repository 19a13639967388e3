"""Every form of the table computes random layers exactly, on its core and under sanitizers."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from itertools import count, islice
from pathlib import Path

import numpy as np
import pytest

from firmwright.devices.cpu.all_forms import FORMS
from firmwright.devices.cpu.forms.form import CORES, Form, choose
from firmwright.devices.cpu.forms.requantize import make_requantization
from firmwright.emulator import load_emulator, run_firmware
from firmwright.errors import UserError
from firmwright.ir.layer import LayerKind, LayerRounding
from firmwright.project.network import Network
from firmwright.toolchain import (
    Build,
    find_compiler,
    load_platform,
    load_toolchain,
)
from firmwright.toolchain.project_folders import list_sources
from firmwright.verify.protocol import decode_outputs, encode_samples
from tests.devices.cpu.float_layers import FLOAT_KINDS
from tests.devices.cpu.layers import (
    AnyLayer,
    draw,
    evaluate,
    make_layer,
    make_network,
)
from tests.devices.cpu.shapes import Shape
from tests.networks.firmware import SANITIZED, join_sources, link_network
from tests.toolchain.folders import arm64_gcc_folder

COUNT = int(os.environ.get("FIRMWRIGHT_FORM_LAYERS", "3"))
"""Layers per form in a test; set the variable to more after a change of forms."""

COUNT_OF_TILES = COUNT * 3 // 4
"""Layers with other tiles than the default tile of a form."""

PLATFORMS = {
    "xcvsimd": "cv32e40p-bare",
    "rv32m": "rv32-bare",
    "armv7e-m-dsp": "cortex-m4-bare",
    "armv8.1-m-mve": "cortex-m55-bare",
    "neon": "aarch64-linux",
    "dotprod": "aarch64-dotprod-linux",
    "i8mm": "aarch64-i8mm-linux",
}
"""Emulated platforms by feature; the other forms run on this machine."""

PLAIN_CORES = ("cortex-m0", "rv32ic")
"""Platforms without features, one for separate functions per layer and one for shared functions."""


def find_platform(form: Form, shared: bool) -> str:
    if not form.features and form.kind in FLOAT_KINDS and not shared:
        return "cortex-m4-bare"  # it has an FPU
    if not form.features:
        return str(Path(__file__).parent / "platforms" / f"{PLAIN_CORES[shared]}.yaml")
    return next((PLATFORMS[f] for f in sorted(form.features) if f in PLATFORMS), "host")


def test_forms_without_a_core_are_known() -> None:
    """A form runs on every core if the first word of its name is not a core."""
    words = {form.name.partition("_")[0] for form in FORMS}
    assert words - CORES.keys() == {
        *("portable", "float", "add", "multiply", "line", "sigmoid", "softmax", "fixed", "resize")
    }
    assert words >= CORES.keys()


def draw_layers(form: Form, seed: int) -> tuple[list[AnyLayer], list[Form]]:
    """Return random layers that the form supports, and their forms; the last have other tiles."""
    generator = np.random.default_rng(seed)

    def is_taken(layer: AnyLayer) -> bool:
        return choose(layer, form.features, (form,)).form is not None

    drawn = filter(is_taken, (draw(form.kind, generator, is_taken, form.bits) for _ in count()))
    layers, forms = list(islice(drawn, COUNT)), [form] * COUNT
    if form.tiles:
        several = (layer for layer in drawn if len(form.list_tiles(layer)) > 1)
        for number, layer in enumerate(islice(several, COUNT_OF_TILES)):
            others = form.list_tiles(layer)[1:]
            layers.append(layer)
            forms.append(form.with_tile(others[number % len(others)]))
    return layers, forms


def run_layers(
    network: Network,
    layers: Sequence[AnyLayer],
    folder: Path,
    cache: Path,
    platform_name: str,
    toolchain: str,
    cflags: tuple[str, ...],
) -> None:
    """Build and run a network of layers; compare each with numpy.

    ``cache`` is the folder of the compiler's cache.
    """
    platform = load_platform(platform_name)
    build = Build(load_toolchain(toolchain), platform, cflags)
    try:
        find_compiler(build.toolchain, platform.architecture)
    except UserError as error:
        pytest.skip(str(error))
    if unusable := load_emulator(platform.emulators[0]).explain_unusable(platform):
        pytest.skip(unusable)
    # An emulator looks up network_run, which a compiler may inline into a joined main.
    list_files = join_sources if platform.architecture == "native" else list_sources
    elf = link_network(network, build, folder, cache, list_files=list_files)
    generator = np.random.default_rng(1)
    sample = {}
    for port in network.interface.inputs:
        if port.dtype == "float32":
            sample[port.name] = generator.standard_normal(port.shape, "float32")
            continue
        limits = np.iinfo(port.dtype)
        sample[port.name] = generator.integers(limits.min, limits.max + 1, port.shape, port.dtype)
        sample[port.name].reshape(-1)[: port.elements // 3] = limits.min
    for number, layer in enumerate(layers):
        if layer.kind is LayerKind.BINARY:
            drawn = sample[f"input_{number}"]
            drawn[...] = np.where(drawn % 2, 1, -1)
    given = encode_samples(network.interface.inputs, [sample])
    ran = run_firmware(elf, platform, platform.emulators[0], given, "network_run", 10**10)
    (found,) = decode_outputs(ran.console, network.interface.outputs, 1, ran.exit_code)
    for number, (layer, result) in enumerate(zip(layers, found, strict=True)):
        read = network.partition.regions[number].inputs
        expected = evaluate(layer, [sample[name] for name in read])
        written, behind = np.split(result, [expected.size])
        np.testing.assert_array_equal(
            written.reshape(expected.shape), expected, f"layer {number}: {describe(layer)}"
        )
        assert not behind.any(), f"layer {number} writes behind its output: {describe(layer)}"


def describe(layer: AnyLayer) -> str:
    """Return a layer's numbers without its arrays."""
    return ", ".join(
        f"{name}={value}"
        for name, value in vars(layer).items()
        if name not in ("weights", "bias", "scaling", "results")
    )


@pytest.mark.parametrize("form", FORMS, ids=lambda form: form.name)
@pytest.mark.parametrize("shared", [False, True], ids=["own", "shared"])
def test_a_form_is_exact_on_its_core(
    form: Form, shared: bool, tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first compiler gets a separate function per layer, the second one shared functions."""
    platform = find_platform(form, shared)
    toolchains = load_platform(platform).toolchains
    toolchain = toolchains[min(int(shared), len(toolchains) - 1)]
    if toolchain == "arm64-gcc":
        monkeypatch.setenv("ARM64_GCC_PATH", str(arm64_gcc_folder(tmp_path / "gcc")))
    layers, forms = draw_layers(form, seed=int(shared))
    network = make_network(layers, forms, shared)
    run_layers(network, layers, tmp_path, cache, platform, toolchain, ())


@pytest.mark.needs("gcc")
@pytest.mark.parametrize("form", FORMS, ids=lambda form: form.name)
def test_a_form_is_defined_behavior(form: Form, tmp_path: Path, cache: Path) -> None:
    """Functions are shared: layers of one variant have one text, which is compiled once."""
    layers, forms = draw_layers(form, seed=2)
    network = make_network(layers, forms, shared=True)
    run_layers(network, layers, tmp_path, cache, "host", "gcc", SANITIZED)


CONDITIONED = {(form.kind, form.conditions): form for form in reversed(FORMS)}
"""A form per kind of layer and conditions, because equal ones are tested with equal layers."""


@pytest.mark.parametrize("form", CONDITIONED.values(), ids=lambda form: form.name)
def test_layers_that_break_a_condition_are_drawn(form: Form) -> None:
    """Each condition must reject a drawn layer, or no test would show that it is needed."""
    generator = np.random.default_rng(0)
    kept = list(form.conditions)
    for _ in range(1200):
        layer = draw(form.kind, generator)
        kept = [condition for condition in kept if condition.holds(layer)]
        if not kept:
            return
    pytest.fail(f"no layer breaks: {[condition.sentence for condition in kept]}")


def test_a_layer_may_have_one_result_alone() -> None:
    """If zero is stored as the largest integer, a ReLU leaves only one possible result."""
    generator = np.random.default_rng(0)
    layer = make_layer(LayerKind.DENSE, Shape(3, 5), generator, LayerRounding.FLOAT)
    numbers = make_requantization(replace(layer, low=layer.high))
    assert not numbers.offsets.any()
    assert numbers.multipliers.all()
