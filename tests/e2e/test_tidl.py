"""Target ``tidl, c`` without TI's tools: what stands in for them runs, and says so."""

from __future__ import annotations

import json

from .conftest import Repository, ran

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
    assert "a stand-in for TIDL, without TI's tools" in built.stdout
    manifest = repository.manifest("build/digits/digits-host.tar.gz")
    assert manifest["run"]["differences"] == 0
    (region,) = manifest["stand_ins"]
    source = repository.folder / "build/digits/host/sources" / f"{region}.c"
    assert "A stand-in for TIDL" in source.read_text()
    told = repository.run("firmwright", "explain", "recipe=digits.yaml", "--json")
    operators = json.loads(told.stdout)["operators"]
    assert "tidl" in [o["device"] for o in operators]
    shown = repository.run("firmwright", "explain", "recipe=digits.yaml").stdout
    assert "tidl: TIDL takes all" in shown


def test_a_chips_network_is_built_for_the_host_beside_the_one_for_the_chip(
    repository: Repository,
) -> None:
    repository.write("digits.yaml", RECIPE.replace("platform: host", "platform: J7"))
    repository.build("recipe=digits.yaml", "compile_for_device=false")
    manifest = repository.manifest("build/digits/digits-j721e-host.tar.gz")
    assert (manifest["platform"], manifest["run"]["differences"]) == ("j721e-host", 0)
    assert manifest["run"]["emulator"].startswith("native")
    done = repository.doit("run", "recipe=digits.yaml", "sources:digits-j721e")
    assert ran(done.stdout) == ["partition", "kernels", "plan", "sources"]
    folder = repository.folder / "build/digits"
    assert {p.name for p in folder.glob("j721e*")} == {"j721e", "j721e-host"}


def test_a_region_of_little_work_stays_on_the_processor(repository: Repository) -> None:
    repository.write("digits.yaml", RECIPE.replace("tidl, c", "tidl -min_macs=1000000000, c"))
    told = repository.run("firmwright", "explain", "recipe=digits.yaml")
    assert "tidl: min_macs: its region has" in told.stdout
    assert "0.0 % of MACs on tidl" in told.stdout
