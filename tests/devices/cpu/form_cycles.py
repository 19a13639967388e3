"""Draws layers of the sizes of real networks, and measures the cycles of their variants."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from firmwright.devices.cpu.forms.form import FormChoice
from firmwright.devices.cpu.variants import list_variants
from firmwright.emulator import run_firmware
from firmwright.ir.byte_layers import AnyLayer
from firmwright.ir.layer import Layer, LayerKind
from firmwright.targets import Context
from firmwright.toolchain import Build, load_toolchain
from firmwright.verify.protocol import encode_samples
from tests.devices.cpu.layers import make_layer, make_network
from tests.devices.cpu.shapes import DENSE, DEPTHWISE, Shape
from tests.networks.firmware import link_network

MOST_PRODUCTS = 300_000
"""The maximum multiply-accumulates of a drawn layer."""

CHANNELS = (1, 3, 8, 12, 16, 24, 32, 48, 64, 96, 128)
LENGTHS = (1, 2, 3, 4, 6, 8, 12, 16, 24)
KERNELS = ((1, 1), (1, 1), (3, 3), (3, 3), (5, 5), (1, 3), (4, 1))
SPREADS = (20, 36, 50)
"""Standard deviations of the weights of a layer."""

DEPTHWISE_KERNELS = ((3, 3), (3, 3), (5, 5), (7, 7), (1, 5), (4, 1))


def draw_real_shape(kind: LayerKind, generator: np.random.Generator) -> Shape:
    """Return the geometry of a layer of a small network, padded as TFLite's SAME or VALID."""

    def pick(*choices: int) -> int:
        return int(generator.choice(choices))

    if kind in DENSE:
        return Shape(pick(*CHANNELS, 10, 100, 256, 640, 1000), pick(2, 4, 10, *CHANNELS))
    kernels = DEPTHWISE_KERNELS if kind in DEPTHWISE else KERNELS
    while True:
        channels, out_channels = pick(*CHANNELS), pick(2, 4, 10, *CHANNELS)
        inner = channels
        if kind in DEPTHWISE:
            inner, out_channels = 1, channels
        kernel, stride = kernels[pick(*range(len(kernels)))], pick(1, 1, 2)
        size = (pick(*LENGTHS), pick(*LENGTHS))
        padding = pad_same(size, kernel, stride) if pick(0, 1, 1) else (0, 0, 0, 0)
        strides = (stride, stride)
        shape = Shape(channels, out_channels, *size, kernel, strides, padding=padding)
        products = int(np.prod([*shape.output, *kernel, inner, out_channels]))
        if min(shape.output) >= 1 and 1_000 <= products <= MOST_PRODUCTS:
            return shape


def pad_same(
    size: tuple[int, int], kernel: tuple[int, int], stride: int
) -> tuple[int, int, int, int]:
    """Return TFLite's padding SAME: top, left, bottom, right."""
    totals = [
        max((-(-length // stride) - 1) * stride + taps - length, 0)
        for length, taps in zip(size, kernel, strict=True)
    ]
    top, left = (total // 2 for total in totals)
    return top, left, totals[0] - top, totals[1] - left


def draw_real_layers(kind: LayerKind, count: int, seed: int) -> list[Layer]:
    """Return layers with normally distributed weights, as after training."""
    generator = np.random.default_rng(seed)
    layers = []
    for _ in range(count):
        shape = draw_real_shape(kind, generator)
        layer = make_layer(kind, shape, generator, relu=bool(generator.random() < 0.5))
        drawn = generator.normal(0, generator.choice(SPREADS), layer.weights.shape)
        layers.append(replace(layer, weights=drawn.round().astype("int64").clip(-127, 127)))
    return layers


def measure_variants(
    layers: Sequence[AnyLayer], context: Context, folder: Path, cache: Path
) -> list[dict[str, int]]:
    """Return the cycles of each variant of each layer, by the platform's table."""
    named = [dict(list_variants(layer, context)) for layer in layers]
    tried = [(number, name) for number, names in enumerate(named) for name in names]
    cycles = measure([(layers[n], named[n][name]) for n, name in tried], context, folder, cache)
    found: list[dict[str, int]] = [{} for _ in layers]
    for (number, name), counted in zip(tried, cycles, strict=True):
        found[number][name] = counted
    return found


def measure(
    choices: Sequence[tuple[AnyLayer, FormChoice]], context: Context, folder: Path, cache: Path
) -> list[int]:
    """Return the cycles of each choice for a layer; one firmware has all of them."""
    layers = [layer for layer, _ in choices]
    forms = [choice.form for _, choice in choices if choice.form]
    shared = [choice.shared for _, choice in choices]
    network = make_network(layers, forms, shared)
    platform = context.platform
    build = Build(load_toolchain(platform.toolchains[0]), platform)
    elf = link_network(network, build, folder, cache)
    generator = np.random.default_rng(0)
    sample = {
        p.name: generator.integers(
            np.iinfo(p.dtype).min, np.iinfo(p.dtype).max + 1, p.shape, p.dtype
        )
        for p in network.interface.inputs
    }
    given = encode_samples(network.interface.inputs, [sample])
    names = network.plan.name_functions(network.kernels, "network")
    ran = run_firmware(
        elf, platform, platform.emulators[0], given, "network_run", 10**11, tuple(names.values())
    )
    assert ran.cycles is not None
    by_region = dict(zip(names, ran.cycles.by_part, strict=True))
    return [by_region[region.name] for region in network.partition.regions]
