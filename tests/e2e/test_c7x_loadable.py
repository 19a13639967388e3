"""The files that a chip's C7x loads, built with tools that record their calls instead of TI's."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.devices.tidl.fake_tools import fake_tools
from tests.toolchain.folders import arm64_gcc_folder, calls, fake_cgt7x_folder

from .conftest import Repository, new_repository, ran

TOOLS = ("arm64-gcc", "cl7x")
RECIPE = """\
model: digits.onnx
platform: am62a
target: tidl, c7x
toolchain: arm64-gcc
run: {inputs: inputs.npz, samples: 1}
"""


@pytest.fixture(scope="module")
def built_without(tmp_path_factory: pytest.TempPathFactory) -> Repository:
    """A repository with a chip's network, built without TI's tools; for tests that only read."""
    folder = tmp_path_factory.mktemp("chips")
    gcc = arm64_gcc_folder(folder / "gcc-arm")  # zig needs a minute to build its C library
    repository = new_repository(folder / "repository")
    repository.environment = {**os.environ, "ARM64_GCC_PATH": str(gcc)}
    repository.write("digits.yaml", RECIPE)
    done = repository.doit("build", "recipe=digits.yaml")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "CGT7X_ROOT is not set: no loadable for the chip was built" in done.stdout
    return repository


@pytest.fixture
def chips(built_without: Repository, tmp_path: Path) -> Repository:
    folder = tmp_path / "copy"
    shutil.copytree(built_without.folder, folder, copy_function=shutil.copy2)
    return Repository(folder, dict(built_without.environment))


def test_the_loadable_is_one_stage_more_and_part_of_the_bundle(
    chips: Repository, tmp_path: Path
) -> None:
    assert "cl7x" not in chips.manifest("build/digits/digits-am62a.tar.gz")["versions"]
    cgt = fake_cgt7x_folder(tmp_path / "ti-cgt-c7000")
    chips.environment["CGT7X_ROOT"] = str(cgt)
    assert chips.build("recipe=digits.yaml") == ["loadable", "bundle"]
    loadable = chips.folder / "build/digits/am62a/loadable/c7x_deploy_tvm.out"
    manifest = chips.manifest("build/digits/digits-am62a.tar.gz")
    assert manifest["versions"]["cl7x"].startswith("cl7x 4.1.0, sha256 ")
    packed = {file["path"] for file in manifest["files"]}
    place = "artifacts/digits_AM62A_target_tidl_c7x/tempDir/c7x_deploy_tvm"
    assert {f"{place}.out", f"{place}.map", "src/c7x/Makefile"} <= packed
    assert not any(name.endswith((".obj", ".s")) for name in packed)
    assert chips.build("recipe=digits.yaml") == []
    locked = chips.firmwright("lock", "digits.yaml")
    assert locked.returncode == 0, locked.stdout + locked.stderr
    versions = json.loads((chips.folder / "digits.lock").read_text())["versions"]
    assert {k: versions[k] for k in TOOLS} == {k: manifest["versions"][k] for k in TOOLS}
    check_make(chips, cgt, loadable, tmp_path)


def test_no_stand_in_gets_into_a_loadable_beside_tis_tools(
    chips: Repository, tmp_path: Path
) -> None:
    chips.environment["CGT7X_ROOT"] = str(fake_cgt7x_folder(tmp_path / "ti-cgt-c7000"))
    chips.environment["TIDL_TOOLS_PATH"] = str(fake_tools(tmp_path / "tools"))
    done = chips.doit("build", "recipe=digits.yaml")
    assert ran(done.stdout) == ["artifacts", "bundle"]
    assert "no loadable for the chip was built, because C would replace" in done.stdout


def check_make(chips: Repository, cgt: Path, loadable: Path, folder: Path) -> None:
    """The project's Makefile builds the same loadable with the same calls."""
    make = shutil.which("make")
    if make is None:
        pytest.skip("make is not installed")
    by_stage = calls(cgt)
    (cgt / ".calls").unlink()
    shutil.copytree(chips.folder / "build/digits/am62a/sources", folder / "by hand")
    command = [make, "-C", str(folder / "by hand" / "c7x")]
    subprocess.run(command, env=chips.environment, check=True, capture_output=True)
    shorter = [[word.replace("../../.loadable.partial/results/", "") for word in c["arguments"]]
               for c in by_stage if "--compiler_revision" not in c["arguments"]]  # fmt: skip
    assert sorted(c["arguments"] for c in calls(cgt)) == sorted(shorter)
    assert (folder / "by hand/c7x/c7x_deploy_tvm.out").read_bytes() == loadable.read_bytes()


def archive(folder: Path, name: str, compiler: str, number: int) -> Path:
    """Make an archive of one function with a compiler of this machine."""
    (folder / "more.c").write_text(f"int more(void) {{ return {number}; }}\n")
    subprocess.run([compiler, "-c", "more.c", "-o", "more.o"], cwd=folder, check=True)
    (folder / name).unlink(missing_ok=True)
    subprocess.run(["ar", "rcs", name, "more.o"], cwd=folder, check=True)
    return folder / name


def test_more_libraries_are_linked_and_watched(chips: Repository, tmp_path: Path) -> None:
    cgt = fake_cgt7x_folder(tmp_path / "ti-cgt-c7000")
    library = archive(chips.folder, "mine.lib", "gcc", 1)
    archive(chips.folder, "arm.a", "aarch64-linux-gnu-gcc", 1)
    words = {"CGT7X_ROOT": str(cgt), "CGT7X_EXT_LIBS": "-l mine.lib -l arm.a"}
    chips.environment |= words
    done = chips.doit("run", "recipe=digits.yaml", "loadable:digits-am62a")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "CGT7X_EXT_LIBS: not linked here: arm.a(more.o) is for" in done.stdout
    link = [call["arguments"] for call in calls(cgt)][-2]
    words_of_libraries = ["-l", str(library.resolve()), "-l", "rts7504_le.lib", "link.cmd"]
    assert link[-len(words_of_libraries) - 1].endswith(".obj")
    assert link[-len(words_of_libraries) :] == words_of_libraries
    archive(chips.folder, "mine.lib", "gcc", 2)
    again = chips.doit("run", "recipe=digits.yaml", "loadable:digits-am62a")
    assert ran(again.stdout) == ["loadable"]


def test_tools_that_are_half_installed_stop_the_build(chips: Repository, tmp_path: Path) -> None:
    cgt = fake_cgt7x_folder(tmp_path / "ti-cgt-c7000")
    (cgt / "bin" / "strip7x").unlink()
    chips.environment["CGT7X_ROOT"] = str(cgt)
    half = chips.doit("run", "recipe=digits.yaml", "loadable:digits-am62a")
    assert half.returncode == 1
    assert f"CGT7X_ROOT={cgt} has no file bin/strip7x" in half.stdout + half.stderr
