"""The log of a board: the cycles of its passes, and the line of each fault."""

from __future__ import annotations

from pathlib import Path

import pytest

from firmwright.errors import UserError
from firmwright.hardware.cycle_log import CycleLog, MeasuredCycles
from firmwright.verify.protocol import decode_cycles

BUILD = "0123456789" * 4
PASS = f"""\
build: {BUILD}
y: 0 of 10 elements differ
conv: {{conv}} cycles
dense: 20 cycles
network: 120 cycles
allocated: 74 bytes, at most 74
"""


def read(text: str) -> list[MeasuredCycles]:
    return CycleLog(Path("log.txt"), BUILD, ["conv", "dense"], ["y"]).read(text)


def test_passes_and_lines_of_other_programs() -> None:
    log = f"boot 1.0\n{PASS.format(conv=90)}\0\x1b[0m noise\n{PASS.format(conv=97)}"
    assert read(log.replace("\n", "\r\n")) == [
        MeasuredCycles("conv", 93, 90, 97),
        MeasuredCycles("dense", 20, 20, 20),
        MeasuredCycles("network", 120, 120, 120),
    ]


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (BUILD, "f" * 40, "log.txt:1: the firmware has the build id f.*; expected 0123"),
        ("y: 0 of", "y: 3 of", "log.txt:2: 3 of 10 elements of 'y' are wrong"),
        ("conv: 90 cycles", "conv: this board has no cycle counter", "log.txt:3: this board has"),
        ("conv: 90 cycles", "conv: 90 ns", "log.txt:3: this demo prints nanoseconds"),
        ("conv: 90 cycles\n", "", "log.txt:4: the network ends; expected the cycles of conv"),
        ("network: 120", "network: 109", "log.txt:5: the network has 109 .* less than the 110"),
        ("network: 120 cycles\n", "", "log.txt:5: the pass ends; expected the cycles of netw"),
        ("dense: 20 cycles\nnetwork: 120 cycles\nallocated: 74 bytes, at most 74\n", "",
         "log.txt:3: the log ends within a pass; expected the cycles of dense, n"),
        ("dense: 20 cycles\n", PASS.format(conv=90), "log.txt:4: a pass begins within another"),
        ("dense:", "conv:", "log.txt:4: 'conv' is in the pass twice; expected the cycles of dense"),
        ("dense:", "pool:", "log.txt:4: the bundle has no layer 'pool'; expected the cycles of d"),
        ("y: 0 of 10 elements differ\n", "", "log.txt:4: the pass does not compare 'y'"),
        ("conv: 90 cycles\ndense: 20 cycles\n", "", "log.txt:3: .*; build with `demo: {profile: i"),
        ("conv: 90", f"conv: {'9' * 5000}", "log.txt:5: the network ends; expected the cycles"),
        (PASS.format(conv=90), "", "log.txt:1: the log has no complete pass"),
        (PASS.format(conv=90), "hello\n", "log.txt:1: the log has no complete pass, which begins"),
        (f"build: {BUILD}\n", "", "log.txt:2: 'conv' is outside of a pass; record the log from"),
    ],
)  # fmt: skip
def test_faults(old: str, new: str, message: str) -> None:
    log = PASS.format(conv=90)
    assert old in log
    with pytest.raises(UserError, match=message):
        read(log.replace(old, new))


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        (["0 0 120", "0 1 90"], "sample 0: the firmware did not write the cycles of layer 2"),
        (["0 0 100", "0 1 90", "0 2 20"], "the inference has 100 cycles, less than the 110"),
    ],
)
def test_faults_of_the_cycles_of_a_run(lines: list[str], message: str) -> None:
    console = "".join(f"@cycles {line}\n" for line in lines).encode()
    with pytest.raises(UserError, match=message):
        decode_cycles(console, 1, 2)


@pytest.mark.parametrize("line", ["0 90", "0 1 x", "0 1 90 4", ""])
def test_a_damaged_line_of_cycles_is_missing(line: str) -> None:
    console = f"@cycles 0 0 120\n@cycles {line}\n@cycles 0 2 20\n".encode()
    with pytest.raises(UserError, match="did not write the cycles of layer 1"):
        decode_cycles(console, 1, 2)


def test_the_cycles_of_all_samples_of_a_run() -> None:
    lines = ["0 0 120", "0 1 90", "0 2 20", "1 0 130", "1 1 95", "1 2 20"]
    console = "".join(f"@cycles {line}\n" for line in lines).encode()
    assert decode_cycles(console, 2, 2) == [250, 185, 40]
