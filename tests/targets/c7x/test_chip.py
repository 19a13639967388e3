"""The C for the chip itself runs here: its streams by the stand-in's engines, its DMA by a driver.

The driver stands in for TI's, whose SDK is not here.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest

from firmwright.codegen.templates import make_environment, render
from firmwright.models.relax.importer import run_reference
from firmwright.targets.c7x import strips
from firmwright.targets.c7x.cost import Core
from firmwright.targets.c7x.forms import make_forms
from firmwright.targets.cpu.forms.form import choose
from firmwright.toolchain import Build, Platform, load_toolchain
from firmwright.verify.protocol import decode_outputs
from tests.networks.firmware import SANITIZED, executed, lowered

from .graphs import network, numbers, samples
from .test_forms import assert_layers, draw_layers, make_layers_network, make_platform
from .test_streams import FORMULA, SHAPES

pytestmark = pytest.mark.needs("gcc")

FIRMWARE = """\
_Alignas(64) static unsigned char l2[1 << 18];
void *g_l2_mem_addr = l2;
unsigned g_l2_mem_size = sizeof l2;
void fw_dma_report(void);
void fw_dma_report(void) {}
void fw_stream_report(void);
void fw_stream_report(void) {}
"""
"""What lends the memory, and the counts that only an emulation has."""

DRIVER = ('-DFW_C7X_DMAUTILS="dmautils.h"', "-DSDK_FAILS=0")


def use_the_chips(sources: Path, platform: Platform) -> None:
    """Put the chip's file in the place of the emulation's."""
    text = render(make_environment(), "c7x/cl7x/fw_c7x.c.j2", {"platform": platform})
    (emulation,) = sources.rglob("fw_c7x.c")
    emulation.write_text(text)
    emulation.with_name("firmware.c").write_text(FIRMWARE)
    shutil.copy(Path(__file__).parent / "sdk/dmautils.h", emulation.parent)


@pytest.mark.parametrize(
    ("vector", "cflags"),
    [(32, ()), (64, DRIVER), (64, (DRIVER[0], "-DSDK_FAILS=1"))],
    ids=["core", "driver", "no channel"],
)
def test_blocks_and_streams(vector: int, cflags: tuple[str, ...], tmp_path: Path) -> None:
    data = network({s: (FORMULA, numbers(1, *c)) for s, c in SHAPES.items()})
    made, platform = lowered(data, "relax", target="c7x"), make_platform(vector)
    build = Build(load_toolchain("gcc"), platform)
    given = samples(list(SHAPES))
    ran = executed(
        made, given, tmp_path, (*SANITIZED, *cflags), lambda s: use_the_chips(s, platform), build
    )
    found = decode_outputs(ran.console, made.interface.outputs, 2, ran.exit_code)
    for ours, theirs in zip(found, run_reference(data, given).outputs, strict=True):
        for array, expected in zip(ours, theirs, strict=True):
            np.testing.assert_array_equal(array, expected)


def test_strips_of_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(strips, "STRIP_BYTES", 256)
    forms, platform = make_forms(Core(32, 3500)), make_platform(32)
    layers = draw_layers(forms, seed=5)
    made = make_layers_network(layers, [choose(layer, (), forms).form for layer in layers])
    build = Build(load_toolchain("gcc"), platform)
    assert_layers(
        made, layers, build, tmp_path, (*SANITIZED, *DRIVER), lambda s: use_the_chips(s, platform)
    )
