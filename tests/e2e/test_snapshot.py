"""An up-to-date build checks only the times of files, and reads the recipe after any change."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from firmwright.pipeline.freshness import text_digest

from .conftest import Repository, ran

pytestmark = pytest.mark.fresh

RECIPE = "recipe=digits.yaml"
PROBE = """
import sys
from doit.doit_cmd import DoitMain
code = DoitMain().run(sys.argv[1:])
print("asked", "firmwright.pipeline.task" in sys.modules)
sys.exit(code)
"""


def build(repository: Repository) -> tuple[bool, list[str]]:
    """Build; return whether stages were checked, and the stages that ran."""
    done = repository.run(sys.executable, "-c", PROBE, "build", RECIPE)
    assert done.returncode == 0, done.stderr
    return "asked True" in done.stdout, ran(done.stdout)


@pytest.fixture
def settled(copy_of_built: Repository) -> Repository:
    """A copy of a built repository whose last build has written a snapshot."""
    copy_of_built.build(RECIPE)  # this build reads the new files of the copy once
    assert build(copy_of_built) == (True, [])
    return copy_of_built


def test_what_is_shown_is_the_same(copy_of_built: Repository) -> None:
    copy_of_built.build(RECIPE)
    outputs = [
        copy_of_built.run(sys.executable, "-c", PROBE, "build", RECIPE).stdout for _ in range(3)
    ]
    assert outputs[0].replace("asked True", "asked False") == outputs[1] == outputs[2]
    assert "up to date  build/digits/digits-rv32-bare.tar.gz" in outputs[1]


def damage(path: Path) -> None:
    """Change the content of a file, but keep its size and time."""
    status = path.stat()
    path.write_bytes(bytes(b ^ 1 for b in path.read_bytes()))
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))


def comment(folder: Path) -> None:
    (folder / "digits.yaml").write_text("# why\n" + (folder / "digits.yaml").read_text())


def describe(folder: Path) -> None:
    text = (folder / "digits.yaml").read_text()
    (folder / "digits.yaml").write_text(text + "description: digits\n")


def damage_snapshot(folder: Path) -> None:
    (path,) = (folder / "build/.snapshots").iterdir()
    path.write_text(path.read_text().replace("digits on", "others on"))


def write_other_snapshot(folder: Path) -> None:
    """Write a snapshot as another version may have written it."""
    (path,) = (folder / "build/.snapshots").iterdir()
    text = json.dumps({"state": "0", "files": []})
    path.write_text(f"{text_digest(text)}\n{text}")


def add_task(folder: Path) -> None:
    text = "def task_own():\n    return {'actions': []}\n"
    (folder / "dodo.py").write_text((folder / "dodo.py").read_text() + text)


@pytest.mark.parametrize(
    ("change", "stages"),
    [
        (describe, ["bundle"]),
        (lambda folder: (folder / "new").touch(), []),
        (lambda folder: damage(folder / "build/digits/rv32-bare/plan/plan.json"), ["plan"]),
        (lambda folder: (folder / "build/digits/digits-rv32-bare.tar.gz").unlink(), ["bundle"]),
        (damage_snapshot, []),
        (write_other_snapshot, []),
        (add_task, []),
    ],
    ids=["recipe", "new file", "result", "bundle", "snapshot", "another version", "task file"],
)
def test_change_is_looked_at(
    settled: Repository, change: Callable[[Path], None], stages: list[str]
) -> None:
    change(settled.folder)
    assert build(settled) == (True, stages)


def test_a_comment_in_the_recipe_is_not_a_change(settled: Repository) -> None:
    comment(settled.folder)
    assert build(settled) == (False, [])


def test_what_is_forgotten_runs_again(settled: Repository) -> None:
    assert settled.doit("forget", RECIPE, "plan:digits-rv32-bare").returncode == 0
    assert build(settled) == (True, ["plan"])


def test_another_environment_is_looked_at(settled: Repository, tmp_path: Path) -> None:
    settled.environment["PATH"] = f"{tmp_path}{os.pathsep}{os.environ['PATH']}"
    assert build(settled) == (True, [])
    assert build(settled) == (False, [])


def test_other_commands_have_all_tasks(settled: Repository) -> None:
    assert "model:digits" in settled.doit("list", "--all", RECIPE).stdout
    assert ran(settled.doit("-a", "build", RECIPE).stdout)[0] == "model"
