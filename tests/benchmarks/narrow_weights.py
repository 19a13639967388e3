"""Tabulate instructions and bytes of layers whose weights have 8, 4, 2 and 1 bits, by core.

    python -m tests.benchmarks.narrow_weights [PLATFORM …]

A cell has the instructions of one run, and the bytes of the layer's constants. Each firmware is one
layer, whose results are compared with numpy. The last column is the form of 4 bits.
"""

from __future__ import annotations

import argparse
import tempfile
from dataclasses import replace
from pathlib import Path

import numpy as np

from firmwright.devices.cpu.all_forms import FORMS
from firmwright.devices.cpu.forms.form import choose
from firmwright.emulator import run_firmware
from firmwright.ir.layer import Layer, LayerKind
from firmwright.toolchain import Build, Platform, load_platform, load_toolchain
from firmwright.verify.protocol import decode_outputs, encode_samples
from tests.devices.cpu.layers import evaluate, make_layer, make_network
from tests.devices.cpu.shapes import Shape
from tests.networks.firmware import link_network

PLATFORMS = (
    "rv32-bare", "cortex-m0-bare", "cortex-m4-bare", "cortex-m55-bare", "aarch64-linux",
    "aarch64-dotprod-linux", "aarch64-i8mm-linux",
)  # fmt: skip
WIDTHS = (8, 4, 2, 1)
SHAPES = {
    LayerKind.DENSE: Shape(640, 128),
    LayerKind.CONV2D: Shape(32, 32, 8, 8, (3, 3), padding=(1, 1, 1, 1)),
    LayerKind.DEPTHWISE_CONV2D: Shape(64, 64, 16, 16, (3, 3), padding=(1, 1, 1, 1)),
}


def narrow(layer: Layer, bits: int) -> Layer:
    """Return a layer with signed weights of ``bits`` bits. Weights of one bit are -1 and 1."""
    if bits == 8:
        return layer
    weights = layer.weights % (1 << bits) - (1 << bits - 1)
    return replace(layer, weights=2 * weights + 1 if bits == 1 else weights)


def measure(layer: Layer, platform: Platform, folder: Path) -> tuple[int | None, int, str]:
    """Run a layer; return its instructions, the bytes of its constants, and its form.

    Raises AssertionError if a result differs from numpy.
    """
    form = choose(layer, platform.features, FORMS).form
    assert form is not None
    network = make_network([layer], [form], shared=False)
    build = Build(load_toolchain(platform.toolchains[0]), platform)
    elf = link_network(network, build, folder / "build", folder / "cache")
    (port,) = network.interface.inputs
    sample = {port.name: np.random.default_rng(0).integers(-128, 128, port.shape, port.dtype)}
    given = encode_samples(network.interface.inputs, [sample])
    ran = run_firmware(elf, platform, platform.emulators[0], given, "network_run", 10**10)
    ((found,),) = decode_outputs(ran.console, network.interface.outputs, 1, ran.exit_code)
    expected = evaluate(layer, [sample[port.name]])
    np.testing.assert_array_equal(found[: expected.size], expected.reshape(-1))
    return ran.instructions, sum(a.nbytes for a in network.weights.values()), form.name


def format_count(count: int | None) -> str:
    """Return a number of instructions. Some emulators count none."""
    return "-" if count is None else f"{count:,}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("platforms", metavar="PLATFORM", nargs="*", default=PLATFORMS)
    print(f"| platform | layer | {' | '.join(f'{bits} bits' for bits in WIDTHS)} | form |")
    print(f"|---|---|{'---|' * len(WIDTHS)}---|")
    with tempfile.TemporaryDirectory() as made:
        for name in parser.parse_args().platforms:
            platform = load_platform(name)
            for kind, shape in SHAPES.items():
                layer = make_layer(kind, shape, np.random.default_rng(0))
                measured = [
                    measure(narrow(layer, b), platform, Path(made, name, kind.value))
                    for b in WIDTHS
                ]
                cells = [f"{format_count(count)} / {size:,}" for count, size, _ in measured]
                print(
                    f"| {name} | {kind.value} | {' | '.join(cells)} | {measured[1][2]} |",
                    flush=True,
                )


if __name__ == "__main__":
    main()
