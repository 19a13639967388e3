"""Emulators of other packages: found by their entry points, named in platforms, and run."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from importlib.metadata import EntryPoint, EntryPoints
from pathlib import Path

import pytest

from firmwright import plugins
from firmwright.emulator import ClockCycles, Emulator, Execution, load_emulator, run_firmware
from firmwright.emulator.execution import Run
from firmwright.errors import UserError
from firmwright.pipeline.tool_stamps import emulator_tool
from firmwright.toolchain import Platform, emulator_names, load_platform

from .conftest import BuildFirmware


class Bench(Emulator):
    """A board that measures its cycles."""

    counts = False

    def counts_instructions(self, _platform: Platform, /) -> bool:
        return self.counts

    def run(self, run: Run, /) -> Execution:
        cycles = ClockCycles("measured on a bench", total=run.budget)
        return Execution("bench 1", 0, run.console_input, cycles=cycles)


@pytest.fixture
def bench(monkeypatch: pytest.MonkeyPatch) -> Bench:
    """An installed emulator."""
    with pytest.raises(UserError, match="unknown emulator 'bench'"):
        load_emulator("bench")
    installed = Bench()
    point = EntryPoint("bench", f"{__name__}:Bench", emulator_names.GROUP)
    monkeypatch.setattr(emulator_names, "find_plugins", lambda _group: EntryPoints((point,)))
    monkeypatch.setattr(EntryPoint, "load", lambda _self: installed)
    return installed


@pytest.mark.usefixtures("bench")
def test_an_emulator_of_another_package(build: BuildFirmware) -> None:
    platform = load_platform("rv32-bare")
    found = run_firmware(build("console.c", "rv32-bare"), platform, "bench", b"x", "counted", 7)
    assert found.cycles == ClockCycles("measured on a bench", 7)
    assert load_emulator("bench").find_version(platform) is None
    assert "bench" in emulator_names.emulator_names()


def test_an_emulator_that_does_not_count_each_part_is_reported(
    bench: Bench, build: BuildFirmware
) -> None:
    elf, platform = build("console.c", "rv32-bare"), load_platform("rv32-bare")

    def run() -> Execution:
        return run_firmware(elf, platform, "bench", b"", "counted", 7, ("one", "two"))

    assert run().cycles == ClockCycles("measured on a bench", 7)
    bench.counts = True
    with pytest.raises(UserError, match="'bench' returned the cycles of 0 of 2 parts; its `by_p"):
        run()


PACKAGE = """\
from firmwright.emulator import Emulator, Execution

class Meter(Emulator):
    def run(self, run, /):
        return Execution("meter", 0, b"", instructions={count})

METER = Meter()
"""
POINT = f"[{emulator_names.GROUP}]\nmeter = acme_meter.board:METER\n"


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder of sys.path with the package ``acme_meter``, which has an emulator."""
    for name, text in {
        "acme_meter/__init__.py": "",
        "acme_meter/board.py": PACKAGE.format(count=1),
        "acme_meter-1.0.dist-info/METADATA": "Name: acme-meter\nVersion: 1.0\n",
        "acme_meter-1.0.dist-info/RECORD": "acme_meter/board.py,,\n",
        "acme_meter-1.0.dist-info/entry_points.txt": POINT,
    }.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    monkeypatch.syspath_prepend(str(tmp_path))
    forget_plugins()
    yield tmp_path
    monkeypatch.undo()
    forget_plugins()
    for name in ("acme_meter", "acme_meter.board"):
        sys.modules.pop(name, None)


def forget_plugins() -> None:
    plugins.find_plugins.cache_clear()
    plugins.read_plugins.cache_clear()


def test_every_file_and_the_version_of_its_package_decide(site: Path) -> None:
    tool = emulator_tool("meter", load_platform("rv32-bare"))
    assert tool.locked_as == "meter"  # a lock has this digest
    stamps = [tool.stamp()]
    assert str(site / "acme_meter/board.py") in tool.list_watched()
    (site / "acme_meter/board.py").write_text(PACKAGE.format(count=2))
    stamps.append(tool.stamp())
    metadata = site / "acme_meter-1.0.dist-info/METADATA"
    metadata.write_text(metadata.read_text().replace("Version: 1.0", "Version: 1.1"))
    stamps.append(tool.stamp())
    assert len({*stamps}) == 3, stamps
