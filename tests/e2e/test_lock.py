"""The lock next to a recipe: its content, and the message of a build with other inputs."""

from __future__ import annotations

import hashlib
import json
import shutil
from importlib.resources import files
from pathlib import Path
from typing import Any

import jsonschema
import numpy as np
import pytest

from .conftest import DIGITS, Repository
from .test_user_errors import fail

RECIPE = DIGITS.replace("inputs: inputs.npz", "inputs: {image: {python: 'scans:some'}}")
RECIPE += "files: [inputs.npz]\n"
SCANS = """\
from pathlib import Path
import numpy as np

def some():
    return np.load(Path(__file__).with_name("inputs.npz"))["image"][:3]
"""


@pytest.fixture(scope="module")
def locked(built: Repository, tmp_path_factory: pytest.TempPathFactory) -> Repository:
    """A built repository with a lock, for tests that only read."""
    folder = tmp_path_factory.mktemp("locked") / "r"
    shutil.copytree(built.folder, folder, copy_function=shutil.copy2)
    repository = Repository(folder)
    repository.write("digits.yaml", RECIPE)
    repository.write("scans.py", SCANS)
    lock(repository)
    assert repository.build("recipe=digits.yaml") == ["locked-files", "samples", "bundle"]
    return repository


@pytest.fixture
def changed(locked: Repository, tmp_path: Path) -> Repository:
    shutil.copytree(locked.folder, tmp_path / "copy", copy_function=shutil.copy2)
    return Repository(tmp_path / "copy")


def lock(repository: Repository, *words: str) -> str:
    done = repository.firmwright("lock", "digits.yaml", *words)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def content(repository: Repository) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((repository.folder / "digits.lock").read_text())
    return found


def test_lock_has_the_digests_of_files_and_samples(locked: Repository) -> None:
    found = content(locked)
    schema = json.loads(files("firmwright.recipe").joinpath("lock.schema.json").read_text())
    jsonschema.validate(found, schema)
    assert found["files"] == {
        name: hashlib.sha256((locked.folder / name).read_bytes()).hexdigest()
        for name in ("digits.onnx", "inputs.npz", "scans.py")
    }
    assert len(found["samples"]["run"]) == len(set(found["samples"]["run"])) == 3
    assert set(found["versions"]) == {
        *("apache-tvm", "apache-tvm-ffi", "firmwright", "jinja2", "markupsafe", "ml-dtypes"),
        *("msgspec", "numpy", "onnx", "onnxruntime", "perfetto", "protobuf", "pyelftools"),
        *("pyyaml", "unicorn", "zig"),
    }
    assert set(found["programs"]) == {"zig"}
    manifest = locked.manifest("build/digits/digits-rv32-bare.tar.gz")
    assert manifest["inputs"] == {key: found[key] for key in ("files", "samples", "programs")}
    assert manifest["versions"] == found["versions"]


def test_nothing_is_written_beside_the_recipe_but_by_the_command(built: Repository) -> None:
    assert not (built.folder / "digits.lock").exists()
    done = built.firmwright("lock", "--check", "digits.yaml")
    assert done.returncode == 1
    assert "digits.lock: no such file; `firmwright lock digits.yaml` writes it" in done.stderr
    assert not (built.folder / "digits.lock").exists()


def test_nothing_runs_again_under_a_lock(changed: Repository) -> None:
    assert changed.build("recipe=digits.yaml") == []
    assert "digits.lock: is as it was" in lock(changed)
    assert lock(changed, "--check")


def test_changed_file_stops_the_build_before_it_starts(changed: Repository) -> None:
    changed.write("scans.py", SCANS + "# a comment\n")
    done = changed.doit("build", "recipe=digits.yaml")
    assert done.returncode == 1
    (_, line) = done.stdout.splitlines()
    assert line.startswith("✗ locked-files compare the files ")
    assert done.stderr.splitlines()[:4] == [
        "digits.yaml: runs custom Python: scans:some",
        "locked-files:digits-rv32-bare: digits.lock: the inputs of the build differ from the lock:",
        "  scans.py has changed",
        "if that is intended, `firmwright lock digits.yaml` writes the lock again",
    ]
    assert "digits.lock: written" in lock(changed)
    assert changed.build("recipe=digits.yaml")[-1] == "bundle"


def test_changed_samples_of_an_unchanged_function_leave_no_bundle(
    changed: Repository, tmp_path: Path
) -> None:
    """A function may read files outside the recipe's folder; the reference used the old samples."""
    outside = tmp_path / "outside.npz"
    shutil.copyfile(changed.folder / "inputs.npz", outside)
    scans = SCANS.replace('Path(__file__).with_name("inputs.npz")', f"{str(outside)!r}")
    changed.write("scans.py", scans)
    lock(changed)
    arrays = np.load(outside)["image"].copy()
    arrays[1] += 1
    np.savez(outside, image=arrays)
    changed.doit("forget", "run:digits-rv32-bare", "recipe=digits.yaml")
    text = fail(changed, "recipe=digits.yaml")
    assert "run:digits-rv32-bare: the firmware's outputs differ from the reference" in text
    assert "sample 1, output 'scores'" in text


def test_fewer_samples_of_a_run_will_do_and_more_will_not(changed: Repository) -> None:
    changed.build("recipe=digits.yaml", "samples=2")
    edited = content(changed)
    del edited["samples"]["run"][2]
    changed.write("digits.lock", json.dumps(edited))
    assert "run: 3 samples; 2 are locked" in fail(changed, "recipe=digits.yaml")


def test_files_that_come_and_go(changed: Repository) -> None:
    changed.write("digits.yaml", DIGITS)
    text = fail(changed, "recipe=digits.yaml")
    assert "  scans.py is locked, but no longer read\n" in text


def test_another_version_of_a_tool(changed: Repository) -> None:
    edited = content(changed)
    known = edited["versions"]["onnx"]
    edited["versions"]["onnx"] = "1.0"
    changed.write("digits.lock", json.dumps(edited))
    assert f"  onnx is {known}; the lock has 1.0\n" in fail(changed, "recipe=digits.yaml")


@pytest.mark.needs("gcc")
def test_lock_keeps_other_toolchains(changed: Repository) -> None:
    words = ("toolchain=gcc", "platform=host")
    text = fail(changed, "recipe=digits.yaml", *words)
    assert "`firmwright lock digits.yaml platform=host toolchain=gcc` writes the lock again" in text
    lock(changed, *words)
    assert {"gcc", "zig"} < set(content(changed)["versions"])
    assert changed.build("recipe=digits.yaml") == ["locked-files", "bundle"]


@pytest.mark.needs("qemu-system-riscv32")
def test_the_emulator_is_locked_and_others_stand_beside_it(changed: Repository) -> None:
    edited = content(changed)
    known = edited["versions"]["unicorn"]
    edited["versions"]["unicorn"] = "1.0"
    changed.write("digits.lock", json.dumps(edited))
    assert f"  unicorn is {known}; the lock has 1.0\n" in fail(changed, "recipe=digits.yaml")
    assert "  qemu (" in fail(changed, "recipe=digits.yaml", "emulator=qemu")
    lock(changed, "emulator=qemu")
    assert {"qemu", "unicorn"} < set(content(changed)["versions"])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("<<<<<<< ours\n", "digits.lock: not a lock: JSON is malformed"),
        ('{"files": {"\udcff": ""}}', "digits.lock: not a lock: "),
        ("{}", "digits.lock: not a lock: Object missing required field `lock_version`"),
        (
            '{"lock_version": 1, "files": {}, "samples": {}, "versions": {}}',
            "digits.lock: has version 1; expected 2",
        ),
    ],
)
def test_damaged_lock_is_told_and_replaced(changed: Repository, text: str, message: str) -> None:
    good = content(changed)
    (changed.folder / "digits.lock").write_bytes(text.encode("utf-8", "surrogateescape"))
    assert message in fail(changed, "recipe=digits.yaml")
    lock(changed)
    assert content(changed) == good
