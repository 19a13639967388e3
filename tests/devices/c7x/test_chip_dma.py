"""The chip's own C for local memory, transfers and streams, with stand-ins for TI's functions."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from tvm import relax

from firmwright.codegen.templates import make_environment, render
from firmwright.models.relax.importer import run_reference
from firmwright.toolchain import load_platform
from firmwright.verify.protocol import decode_counts, decode_outputs
from tests.networks.firmware import SANITIZED, executed, lowered

from .graphs import network, numbers, samples

HERE = Path(__file__).parent
SHAPE = (1, 8, 64, 65)
BLOCKS = 16
"""Blocks of an input, a constant and the output: each is moved by one transfer."""
SUM = network({SHAPE: (relax.op.add, numbers(1, *SHAPE))})
SDK_FLAGS = (f"-I{HERE / 'sdk'}", '-DFW_C7X_DMAUTILS="dmautils.h"', "-DSDK_FAILS=0")


@pytest.mark.needs("gcc")
@pytest.mark.parametrize(
    ("firmware_dma", "cflags", "transfers"),
    [
        pytest.param(True, (), 2 * 3 * BLOCKS, id="firmware"),
        pytest.param(True, SDK_FLAGS, 0, id="sdk"),
        pytest.param(False, (), 0, id="core"),
    ],
)
def test_an_elementwise_region_loads_its_blocks(
    firmware_dma: bool, cflags: tuple[str, ...], transfers: int, tmp_path: Path
) -> None:
    def use_chip_code(sources: Path) -> None:
        host = load_platform("host")
        numbers_of = {**host.accelerators["c7x"]}
        if firmware_dma:
            numbers_of["firmware_dma"] = True
        platform = replace(host, accelerators={"c7x": numbers_of})
        text = render(make_environment(), "c7x/cl7x/fw_c7x.c.j2", {"platform": platform})
        (emulation,) = sources.rglob("fw_c7x.c")
        emulation.write_text(text)
        shutil.copy(HERE / "firmware_dma.c", emulation.parent)

    made = lowered(SUM, "relax", target="c7x")
    ran = executed(made, samples([SHAPE]), tmp_path, (*SANITIZED, *cflags), use_chip_code)
    (found,) = zip(
        *decode_outputs(ran.console, made.interface.outputs, 2, ran.exit_code), strict=True
    )
    for ours, (theirs,) in zip(found, run_reference(SUM, samples([SHAPE])).outputs, strict=True):
        np.testing.assert_array_equal(ours, theirs)
    assert decode_counts(ran.console)["firmware_transfers"] == transfers
