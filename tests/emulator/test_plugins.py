"""Emulators of other packages: found by their entry points, named in platforms, and run."""

from __future__ import annotations

from importlib.metadata import EntryPoint, EntryPoints

import pytest

from firmwright.emulator import ClockCycles, Emulator, Execution, load_emulator, run_firmware
from firmwright.emulator.execution import Run
from firmwright.errors import UserError
from firmwright.toolchain import emulator_names, load_platform

from .conftest import BuildFirmware


class Bench(Emulator):
    """A board that measures its cycles."""

    def run(self, run: Run, /) -> Execution:
        cycles = ClockCycles("measured on a bench", total=run.budget)
        return Execution("bench 1", 0, run.console_input, cycles=cycles)


BENCH = Bench()


def test_an_emulator_of_another_package(
    build: BuildFirmware, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(UserError, match="unknown emulator 'bench'"):
        load_emulator("bench")
    point = EntryPoint("bench", f"{__name__}:BENCH", emulator_names.GROUP)
    monkeypatch.setattr(emulator_names, "find_plugins", lambda _group: EntryPoints((point,)))
    monkeypatch.setattr(EntryPoint, "load", lambda _self: BENCH)
    platform = load_platform("rv32-bare")
    found = run_firmware(build("console.c", "rv32-bare"), platform, "bench", b"x", "counted", 7)
    assert found.cycles == ClockCycles("measured on a bench", 7)
    assert load_emulator("bench").find_version(platform) is None
    assert "bench" in emulator_names.emulator_names()
