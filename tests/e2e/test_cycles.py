"""A network on the RTL of CV32E40P: cycles with their source in every file, and a budget."""

from __future__ import annotations

import json
import re

import pytest

from .conftest import Repository

pytest.importorskip(
    "pythondata_cpu_cv32e40p", reason="the RTL is not installed: pip install 'firmwright[rtl]'"
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
