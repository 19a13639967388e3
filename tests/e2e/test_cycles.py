"""A network on the RTL of cores: cycles with their source in every file, and a budget."""

from __future__ import annotations

import json
import re

import pytest

from .conftest import Repository

for core in ("cv32e40p", "ibex", "picorv32"):
    pytest.importorskip(
        f"pythondata_cpu_{core}", reason="the RTL is not installed: pip install 'firmwright[rtl]'"
    )


@pytest.mark.needs("verilator", "g++", "make")
def test_cycles_of_the_rtl_name_their_source(copy_of_built: Repository) -> None:
    repository = copy_of_built
    text = (repository.folder / "digits.yaml").read_text()
    text = text.replace("samples: 3", "samples: 1, emulator: cv32e40p")
    repository.write("digits.yaml", f"{text}budget: {{cycles: 100}}\n")
    done = repository.doit("build", "recipe=digits.yaml")
    assert done.returncode == 1, done.stdout
    assert "cycles (in the RTL of CV32E40P, zero wait states)" in done.stdout + done.stderr
    run = json.loads((repository.folder / "build/digits/rv32-bare/run/run.json").read_text())
    assert run["mismatches"] == 0
    assert re.search(r"without an instruction: load_use \d+\.\d %, jump_register", done.stdout)
    assert run["cycles_source"] == "in the RTL of CV32E40P"
    assert run["cycles_total"] == run["instructions"] + sum(run["stalls"].values())
    assert run["cycles_total"] == sum(run["cycles_by_function"].values())
    assert 0 < sum(run["cycles_by_region"].values()) < run["cycles_total"]

    repository.write("digits.yaml", text)
    repository.build("recipe=digits.yaml")
    stats = (repository.folder / "build/digits/rv32-bare/stats/digits_stats.yaml").read_text()
    assert "Their cycles are in the RTL of CV32E40P." in stats
    timeline = repository.manifest("build/digits/digits-rv32-bare.tar.gz")["timeline"]
    assert timeline["unit"] == "cycles"
    assert timeline["source"] == "in the RTL of CV32E40P, zero wait states"
    assert timeline["total"] == run["cycles_total"]

    repository.build("recipe=digits.yaml", "platform=cv32e40p-bare")
    faster = json.loads((repository.folder / "build/digits/cv32e40p-bare/run/run.json").read_text())
    assert faster["mismatches"] == 0
    assert any("xcv_conv2d" in name for name in faster["cycles_by_function"])
    assert 2 * faster["cycles_total"] < run["cycles_total"]


@pytest.mark.needs("verilator", "g++", "make")
@pytest.mark.parametrize(("emulator", "core"), [("ibex", "Ibex"), ("picorv32", "PicoRV32")])
def test_other_cores_run_the_same_firmware(
    copy_of_built: Repository, emulator: str, core: str
) -> None:
    repository = copy_of_built
    built = repository.folder / "build/digits/rv32-bare"
    firmware = (built / "firmware/firmware.elf").read_bytes()
    counted = json.loads((built / "run/run.json").read_text())
    repository.build("recipe=digits.yaml", f"emulator={emulator}")
    assert (built / "firmware/firmware.elf").read_bytes() == firmware
    run = json.loads((built / "run/run.json").read_text())
    assert run["mismatches"] == 0
    assert run["cycles_source"] == f"in the RTL of {core}"
    assert run["instructions_by_region"] == counted["instructions_by_region"]
    assert run["cycles_by_region"].keys() == counted["instructions_by_region"].keys()
    assert run["cycles_total"] == run["instructions_total"] + sum(run["stalls"].values())
