"""Recipes in layers, from the files to the bundle: freshness, locks, reasons and origins."""

from __future__ import annotations

import json
import sys
from hashlib import sha256
from pathlib import Path
from shutil import copyfile

import pytest

from .conftest import Repository, copy_of
from .test_user_errors import fail

BASE = "target: c\nrun: {inputs: ../inputs.npz, samples: 3}\n"
RECIPE = "recipe=digits.yaml"
BUNDLE = "build/digits/digits-rv32-bare.tar.gz"


@pytest.fixture
def layered(built: Repository, tmp_path: Path) -> Repository:
    """A copy of a built repository whose recipe is split into two files with the same meaning."""
    repository = copy_of(built, tmp_path)
    (repository.folder / "parts").mkdir()
    repository.write("parts/base.yaml", BASE)
    repository.write("digits.yaml", "extends: parts/base.yaml\nmodel: digits.onnx\n")
    return repository


def digest(repository: Repository, bundle: str = BUNDLE) -> str:
    return sha256((repository.folder / bundle).read_bytes()).hexdigest()


def test_the_split_of_a_recipe_changes_nothing_and_edits_of_a_base_are_seen(
    layered: Repository,
) -> None:
    before = digest(layered)
    assert layered.build(RECIPE) == []
    assert layered.build(RECIPE) == []
    layered.write("parts/base.yaml", f"# A comment.\n{BASE}")
    assert layered.build(RECIPE) == []
    assert digest(layered) == before
    layered.write("parts/base.yaml", BASE.replace("samples: 3", "samples: 2"))
    assert layered.build(RECIPE) == ["samples", "reference", "run", "stats", "bundle"]
    layered.build(RECIPE, "outdir=clean")
    assert digest(layered) == digest(layered, "clean/digits-rv32-bare.tar.gz") != before


def test_a_shown_recipe_gives_the_same_bundle(layered: Repository) -> None:
    words = ("run.samples=2", 'cflags+=["-DLOG"]')
    layered.build(RECIPE, *words)
    shown = layered.firmwright("show", "digits.yaml", *words)
    assert "samples: 2" in shown.stdout
    assert "# command line" in shown.stdout
    layered.write("shown.yaml", shown.stdout)
    layered.build("recipe=shown.yaml", "outdir=shown")
    assert digest(layered, "shown/digits-rv32-bare.tar.gz") == digest(layered)


def test_a_build_says_that_it_replaces_the_bundle_of_other_values(layered: Repository) -> None:
    layered.write("small.yaml", "run: {samples: 1}\n")
    layered.build(RECIPE, "run.seed=1")
    done = layered.doit("build", "recipe=digits:small")
    assert f"{BUNDLE}: replaces the bundle of `digits.yaml run.seed=1`" in done.stdout
    said = fail(layered, "recipe=digits:small,digits")
    assert "digits.yaml:small.yaml and digits.yaml are both named 'digits'" in said


def test_a_dry_run_tells_what_would_run_and_runs_nothing(layered: Repository) -> None:
    before = digest(layered)
    done = layered.doit("build", RECIPE, "run.samples=19", "dry_run=1")
    assert done.stdout.splitlines() == [
        "digits on rv32-bare",
        "  kept   model, partition, kernels, advice, plan, sources, objects, firmware",
        "  run    samples      run.samples: 3 → 19",
        "  run    reference    run.samples: 3 → 19",
        "  run    run          run.samples: 3 → 19",
        "  then   stats        after run",
        "  run    bundle       run.samples: 3 → 19",
    ]
    assert digest(layered) == before
    done = layered.doit("build", RECIPE, "run.samples=19", "verbose=1", "log=x.log")
    assert "  reference: run.samples: 3 → 19\n" in done.stdout
    assert "the stage run has a new result" in done.stdout
    log = (layered.folder / "x.log").read_text()
    assert log.startswith("# log of firmwright ")
    programs = [line for line in log.splitlines() if "-rv32-bare$ " in line]
    assert programs == done.stderr.splitlines()
    assert [line for line in log.splitlines()[1:] if line not in programs] == (
        done.stdout.splitlines()
    )
    done = layered.doit("build", RECIPE, "run.samples=19", "dry_run=1")
    title, kept = done.stdout.splitlines()
    assert (title, kept.split()[0]) == ("digits on rv32-bare", "kept")


def test_a_dry_run_checks_the_recipes_that_read_a_changed_file(layered: Repository) -> None:
    other = "extends: digits.yaml\nname: other\nrun: {samples: 1}\n"
    both = "recipe=digits.yaml,other.yaml"
    layered.write("other.yaml", other)
    for _ in range(2):  # the second build finds no new file
        layered.build(both)
    layered.write("other.yaml", other.replace("1", "2"))
    assert layered.doit("build", both, "dry_run=1").stdout.splitlines() == [
        "digits on rv32-bare",
        "  kept   all stages",
        "other on rv32-bare",
        "  kept   model, partition, kernels, advice, plan, sources, objects, firmware",
        "  run    samples      run.samples: 1 → 2",
        "  run    reference    run.samples: 1 → 2",
        "  run    run          run.samples: 1 → 2",
        "  then   stats        after run",
        "  run    bundle       run.samples: 1 → 2",
    ]
    done = layered.doit("build", both)
    assert "digits on rv32-bare\n  outputs  " in done.stdout
    assert "2 of 2 built" in done.stdout
    plan = layered.doit("build", both, "dry_run=1").stdout.splitlines()
    assert plan[1::2] == ["  kept   all stages"] * 2  # the build also knows the other recipe
    layered.write("other.yaml", other.replace("name: other", "name: another"))
    lines = layered.doit("build", both, "dry_run=1").stdout.splitlines()
    assert lines[1].startswith("  kept   model, samples, ")  # a new name can be of another recipe
    assert lines[2:4] == ["another on rv32-bare", "  run    model        it has not run yet"]


def test_two_commands_of_one_process_have_their_recipes_and_no_lock(layered: Repository) -> None:
    layered.write("other.yaml", "extends: digits.yaml\nname: other\n")
    commands = [["list", "digits.yaml"], ["list", "other.yaml", "--outdir", "elsewhere"]]
    code = f"from firmwright.cli import main\nfor each in {commands}: main(each)"
    done = layered.run(sys.executable, "-c", code)
    assert [line.strip() for line in done.stdout.splitlines() if line.startswith("build:")] == [
        "build:digits",
        "build:other",
    ], done.stderr
    assert "waiting" not in done.stderr


def test_a_lock_has_the_bases_and_the_values_of_the_command_line(layered: Repository) -> None:
    def lock(*words: str, recipe: str = "digits.yaml") -> str:
        done = layered.firmwright("lock", recipe, *words)
        assert done.returncode == 0, done.stdout + done.stderr
        return (layered.folder / "digits.lock").read_text()

    locked = json.loads(lock("run.seed=7"))
    assert locked["bases"].keys() == {"parts/base.yaml"}
    assert locked["values"] == {"run.seed": 7}
    assert layered.doit("build", RECIPE, "run.seed=7").returncode == 0
    assert "run.seed is 0; the lock has 7" in fail(layered, RECIPE)
    assert "budget.flash is not in the lock" in fail(
        layered, RECIPE, "run.seed=7", "budget.flash=4 MiB"
    )
    layered.write("board.yaml", "run: {seed: 0}\n")
    assert "board.yaml" in json.loads(lock(recipe="digits.yaml:board.yaml"))["bases"]
    layered.write("small.yaml", "run: {samples: 1}\n")
    layered.write("model.yaml", "model: other.onnx\n")
    copyfile(layered.folder / "digits.onnx", layered.folder / "other.onnx")
    done = layered.firmwright("lock", "digits.yaml:model.yaml", "digits.yaml:small.yaml")
    assert "read different files, which one lock cannot have" in done.stderr
    overlays = ("digits.yaml:board.yaml", "digits.yaml:small.yaml")
    done = layered.firmwright("lock", *overlays)
    assert {"board.yaml", "small.yaml"} < json.loads(lock())["bases"].keys(), done.stderr
    first = lock()
    layered.write("parts/base.yaml", f"{BASE}# Changed.\n")
    assert "parts/base.yaml, which the recipe builds on, has changed" in fail(layered, RECIPE)
    before = lock("--update", "extends")
    assert list_changed_lines(first, before) == ["parts/base.yaml"]
    inputs = layered.folder / "inputs.npz"
    (layered.folder / "more.npz").write_bytes(inputs.read_bytes())
    model = layered.folder / "digits.onnx"
    model.write_bytes(model.read_bytes() + b"\x7a\x00")  # an empty field that no stage reads
    after = lock("--update", "model")
    assert list_changed_lines(before, after) == ["digits.onnx"]


def list_changed_lines(before: str, after: str) -> list[str]:
    """Return the names in the lines that differ between two locks."""
    lines = zip(before.splitlines(), after.splitlines(), strict=True)
    return [new.split('"')[1] for old, new in lines if old != new]


def test_a_rebuild_needs_no_base(layered: Repository, tmp_path: Path) -> None:
    layered.build(RECIPE, "run.samples=2")
    bundle = tmp_path / "digits-rv32-bare.tar.gz"
    bundle.write_bytes((layered.folder / BUNDLE).read_bytes())
    (layered.folder / "parts/base.yaml").unlink()
    done = layered.firmwright("rebuild", str(bundle), "--files", ".")
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("form", ["text", "mermaid", "svg"])
def test_the_stages_can_be_drawn(layered: Repository, form: str) -> None:
    shown = layered.firmwright("graph", "digits.yaml", "--format", form).stdout
    expected = {"text": "run        <- model", "mermaid": "  model --> partition\n", "svg": "<svg "}
    assert expected[form] in shown
    assert "firmware" in shown
