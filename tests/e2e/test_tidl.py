"""Targets ``tidl, c`` and ``tidl, c7x`` without TI's tools: stand-ins run and are reported."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from .conftest import ROOT, Repository, ran

RECIPE = """\
model: digits.onnx
platform: host
target: tidl, c
run: {inputs: inputs.npz, samples: 3}
"""


def test_a_stand_in_is_exact_and_is_named_everywhere(repository: Repository) -> None:
    repository.write("digits.yaml", RECIPE)
    built = repository.doit("build", "recipe=digits.yaml")
    assert built.returncode == 0, built.stdout + built.stderr
    assert "a stand-in for TIDL: the network's arithmetic in C, not TI's" in built.stdout
    manifest = repository.manifest("build/digits/digits-host.tar.gz")
    assert manifest["run"]["differences"] == 0
    (region,) = manifest["stand_ins"]
    network = repository.folder / "build/digits/host/sources/network"
    source = network / f"network_{region}.c"
    assert "A stand-in for TIDL" in source.read_text()
    printed = repository.firmwright("explain", "recipe=digits.yaml", "--json")
    operators = json.loads(printed.stdout)["operators"]
    assert "tidl" in [o["device"] for o in operators]
    shown = repository.firmwright("explain", "recipe=digits.yaml").stdout
    assert "tidl: TIDL runs all" in shown


def test_a_chips_network_is_built_for_the_host_beside_the_one_for_the_chip(
    repository: Repository,
) -> None:
    repository.write("digits.yaml", RECIPE.replace("platform: host", "platform: J7"))
    repository.build("recipe=digits.yaml", "compile_for_device=false")
    manifest = repository.manifest("build/digits/digits-j721e-host.tar.gz")
    assert (manifest["platform"], manifest["run"]["differences"]) == ("j721e-host", 0)
    assert manifest["run"]["emulator"].startswith("native")
    done = repository.doit("run", "recipe=digits.yaml", "sources:digits-j721e")
    assert ran(done.stdout) == ["partition", "stand_in", "kernels", "plan", "sources"]
    folder = repository.folder / "build/digits"
    assert {p.name for p in folder.glob("j721e*")} == {"j721e", "j721e-host"}


def test_a_region_of_little_work_stays_on_the_processor(repository: Repository) -> None:
    repository.write("digits.yaml", RECIPE.replace("tidl, c", "tidl -min_macs=1000000000, c"))
    printed = repository.firmwright("explain", "recipe=digits.yaml")
    assert "tidl: min_macs: its region has" in printed.stdout
    assert "0.0 % of MACs on tidl" in printed.stdout


def test_both_mappings_run_and_their_calls_are_compared(repository: Repository) -> None:
    mix = "tidl -deny_list:layer_type=depthwise_conv2d"
    recipe = RECIPE.replace("platform: host", "platform: am62a").replace("tidl", mix)
    repository.write("digits.yaml", f"{recipe}compare: {mix}, c7x\n")
    done = repository.doit("build", "recipe=digits.yaml", "compile_for_device=false")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "modelled, not measured" in done.stdout
    mapping = repository.manifest("build/digits/digits-am62a-host.tar.gz")["mapping"]
    assert (mapping["target"], mapping["other_target"]) == (f"{mix}, c", f"{mix}, c7x")
    assert mapping["origin"] == "modelled, not measured"
    arm, c7x = mapping["total"]["base"], mapping["total"]["other"]
    assert (arm["crossings"], c7x["crossings"]) == (
        4,
        2,
    )  # two regions; one network
    assert arm["calls_us"] == 2 * c7x["calls_us"] > 0
    # The count of the emulated mailbox includes one call that creates the network on the C7x.
    for folder, cost, created in (("", arm, 0), ("compared", c7x, 1)):
        path = repository.folder / "build/digits" / folder / "am62a-host/run/run.json"
        run = json.loads(path.read_text())
        assert run["differences"] == 0
        counted = run["counts"]
        assert 2 * (counted["c7x_calls"] - created) == cost["crossings"] * run["samples"]
        assert counted["c7x_call_bytes"] == cost["bytes"] * run["samples"]


def test_a_platform_that_does_not_state_a_devices_speed_is_told_so(repository: Repository) -> None:
    platform = (
        (ROOT / "toolchains/platforms/am62a.yaml").read_text().replace("    tidl: {", "    x: {")
    )
    repository.write("mine.yaml", platform.replace("name: am62a", "name: mine"))
    recipe = RECIPE.replace("platform: host", "platform: ./mine.yaml")
    repository.write("digits.yaml", f"{recipe}compare: tidl, c7x\n")
    done = repository.doit("build", "recipe=digits.yaml", "compile_for_device=false")
    assert done.returncode != 0
    assert "timing: the platform states no engine for 'tidl'" in done.stdout + done.stderr
    assert "Traceback" not in done.stdout + done.stderr


@pytest.mark.parametrize(
    ("recipe", "chip", "batch"),
    [("resnet8-j721s2", "j721s2", 1), ("mobilenet-am62a", "am62a", 4)],
)
def test_a_ready_recipe_agrees_with_its_reference_in_both_mappings(
    tmp_path: Path,
    mirror: Callable[[str], None],
    recipe: str,
    chip: str,
    batch: int,
) -> None:
    mirror(recipe)
    repository = Repository(tmp_path)
    repository.write("dodo.py", "from firmwright.tasks.dodo import *\n")
    path = ROOT / "recipes" / f"{recipe}.yaml"
    wanted = [f"batch={batch}"] if batch > 1 else []
    repository.build(f"recipe={path}", "compile_for_device=false", *wanted)
    total = repository.manifest(f"build/{recipe}/{recipe}-{chip}-host.tar.gz")["mapping"]["total"]
    assert (total["base"]["crossings"], total["other"]["crossings"]) == (2, 2)
    assert total["other"]["bytes"] <= total["base"]["bytes"]
    for folder in ("", "compared"):
        results = repository.folder / "build" / recipe / folder / f"{chip}-host/run"
        run = json.loads((results / "run.json").read_text())
        assert (run["batch"], run["mismatches"]) == (batch, 0)
