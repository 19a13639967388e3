"""The default variant of a layer needs about as few cycles as the layer's best variant."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest

from firmwright.ir.layer import LayerKind
from firmwright.targets import Context
from firmwright.toolchain import load_platform
from tests.devices.cpu.form_cycles import draw_real_layers, measure_variants

COUNT = int(os.environ.get("FIRMWRIGHT_MEASURED_LAYERS", "4"))
"""Layers per kind and core; set the variable to 50 after a change of forms."""

LARGE = 32 * 2**20
"""Bytes of the RAM, because a firmware contains all variants of all layers."""

BEHIND = 1.03
"""The maximum cycles of the default variant as a multiple of the best variant's cycles."""

FEW_CYCLES = 5_000
"""Layers with fewer cycles are not compared."""


@pytest.mark.parametrize(
    ("platform", "kind"),
    [
        ("cortex-m4-bare", LayerKind.DEPTHWISE_CONV2D),
        ("cortex-m4-bare", LayerKind.CONV2D),
        ("rv32-bare", LayerKind.DENSE),
    ],
)
def test_a_default_variant_is_at_most_3_percent_behind_the_best(
    platform: str, kind: LayerKind, tmp_path: Path, cache: Path
) -> None:
    """The cycles are by the table of the core."""
    described = load_platform(platform)
    memories = {**described.memories, "ram": replace(described.memories["ram"], size=LARGE)}
    context = Context(replace(described, memories=memories), "tflite", {"specialize": "auto"})
    layers = draw_real_layers(kind, COUNT, seed=0)
    for layer, cycles in zip(
        layers, measure_variants(layers, context, tmp_path, cache), strict=True
    ):
        default, best = next(iter(cycles.values())), min(cycles.values())
        assert default <= BEHIND * best or default < FEW_CYCLES, (layer, cycles)
