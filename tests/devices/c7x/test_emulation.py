"""The emulated DMA and the call between the cores: their counts, and the errors they detect."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import tvm
from tvm import relax

from firmwright.emulator.execution import EXIT_TRAP, Execution
from firmwright.models.relax.importer import run_reference
from firmwright.project.network import Network
from firmwright.verify.protocol import decode_counts, decode_outputs
from tests.devices.tidl import networks as tidl
from tests.devices.tidl.test_regions import line
from tests.networks.firmware import SANITIZED, executed, lowered

from .graphs import network, numbers, samples

pytestmark = pytest.mark.needs("gcc")
op = relax.op

SHAPE = (1, 8, 64, 64)
BYTES = 4 * 8 * 64 * 64
BLOCKS = 8
SUM = network({SHAPE: (op.add, numbers(1, *SHAPE))})
"""Blocks of an input, a constant and the output."""
SOURCE = "network/network_region_000_add.c"


def ran(
    data: bytes, folder: Path, edit: Callable[[Path], None] = lambda _: None, target: str = "c7x"
) -> tuple[Network, Execution]:
    made = lowered(data, "relax", target=target)
    return made, executed(made, samples([SHAPE]), folder, SANITIZED, edit)


def replacing(file: str, pattern: str, by: str, count: int = 1) -> Callable[[Path], None]:
    """Return an edit of one generated file; the edit fails if it changes nothing."""

    def edit(sources: Path) -> None:
        text, found = re.subn(pattern, by, (sources / file).read_text(), count=count)
        assert found == count
        (sources / file).write_text(text)

    return edit


def test_transfers_and_calls_are_counted(tmp_path: Path) -> None:
    made, execution = ran(SUM, tmp_path)
    assert decode_counts(execution.console) == {
        "c7x_calls": 1 + 2,  # create, and a process for each of two samples
        "c7x_call_bytes": 2 * 2 * BYTES,
        "dma_transfers": 2 * 3 * BLOCKS,
        "dma_bytes": 2 * 3 * BYTES,
        "stream_vectors": 0,
        "stream_bytes": 0,
    }
    assert agree(made, execution)


def agree(made: Network, execution: Execution) -> bool:
    outputs = decode_outputs(execution.console, made.interface.outputs, 2, execution.exit_code)
    expected = run_reference(SUM, samples([SHAPE])).outputs
    return all((o[0] == e[0]).all() for o, e in zip(outputs, expected, strict=True))


@pytest.mark.parametrize(
    ("removed", "sentence"),
    [
        (r" +fw_dma_wait\(0\);\n", "nothing waited for the channel's last transfer (0)"),
        (r" {8}fw_dma_wait\(2\);\n", "nothing waited for the channel's last transfer (2)"),
        (r"\n {4}fw_dma_wait\(2\);", "nothing waited for the last transfer of a channel (2)"),
    ],
    ids=["input", "output", "last"],
)
def test_a_missing_wait_is_caught(removed: str, sentence: str, tmp_path: Path) -> None:
    _, execution = ran(SUM, tmp_path, replacing(SOURCE, removed, ""))
    assert execution.exit_code == EXIT_TRAP
    assert sentence in execution.console.decode()


def test_what_is_read_before_the_wait_is_nonsense(tmp_path: Path) -> None:
    arrival = r"((?: +fw_dma_wait\([01]\);\n){2})(.*?)( +if \(block < .*?\n {8}\}\n)(.*?)"
    late = replacing(SOURCE, f"(?s){arrival}( {{8}}fw_dma_wait\\(2\\);)", r"\2\4\1\3\5")
    made, execution = ran(SUM, tmp_path, late)
    assert execution.exit_code == 0
    assert not agree(made, execution)


@pytest.mark.parametrize(
    ("pattern", "by", "message"),
    [
        (r"fw_local\(0, ", "fw_local(16, ", "fw_local: the offset is no multiple of 64 (16)"),
        (r"fw_local\(0, \d+", "fw_local(0, 229440", "local memory ends before the bytes asked for"),
        (
            r"fw_dma_start\(0, ",
            "fw_dma_start(16, ",
            "fw_dma_start_block: there is no such channel (16)",
        ),
        (r"&local_0\[0\], ", "(void *)(uintptr_t)&input[1], ", "or its ends overlap (0)"),
        (r"fw_dma_start\(1, &local_1\[0\]", "fw_dma_start(1, &local_0[9]", "another transfer"),
    ],
    ids=["alignment", "size", "channel", "overlap", "race"],
)
def test_what_the_c7x_could_not_do_ends_the_program(
    pattern: str, by: str, message: str, tmp_path: Path
) -> None:
    _, execution = ran(SUM, tmp_path, replacing(SOURCE, pattern, by))
    assert execution.exit_code == EXIT_TRAP
    assert message in execution.console.decode()


@pytest.mark.parametrize(
    ("target", "calls", "call_bytes"),
    [
        # 4x8x8 floats in, 8x8x8 out, these again in through the Arm, and 4x4x4 out.
        ("tidl -tensor_bits=32, c", 2 * 2, 4 * 2 * (256 + 512 + 512 + 64)),
        ("tidl -tensor_bits=32, c7x", 1 + 2, 4 * 2 * (256 + 64)),
    ],
)
def test_each_region_of_tidl_is_a_call_from_the_arm_cores(
    target: str, calls: int, call_bytes: int, tmp_path: Path
) -> None:
    data = tvm.ir.save_json(tidl.network(line)).encode()
    made = lowered(data, "relax", target=target)
    given = [{"x": numbers(n, 1, 4, 8, 8)} for n in range(2)]
    execution = executed(made, given, tmp_path, SANITIZED)
    counts = decode_counts(execution.console)
    outputs = decode_outputs(execution.console, made.interface.outputs, 2, execution.exit_code)
    for ours, theirs in zip(outputs, run_reference(data, given).outputs, strict=True):
        np.testing.assert_array_equal(ours[0], theirs[0])
    assert (counts["c7x_calls"], counts["c7x_call_bytes"]) == (calls, call_bytes)


def test_a_network_without_regions_of_tidl_makes_no_call(tmp_path: Path) -> None:
    _, execution = ran(SUM, tmp_path, target="tidl -min_macs=1, c")
    assert decode_counts(execution.console) == {}
