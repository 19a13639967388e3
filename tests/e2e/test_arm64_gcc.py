"""The Arm toolchain of TI's users, in the folder that ARM64_GCC_PATH names."""

from __future__ import annotations

import os
from pathlib import Path

from tests.toolchain.folders import GCC_NAME, arm64_gcc_folder

from .conftest import Repository, ran

BUILD = ("recipe=digits.yaml", "platform=AM62A", "toolchain=arm64-gcc")


def test_its_firmware_runs_and_its_files_decide(repository: Repository, tmp_path: Path) -> None:
    folder = arm64_gcc_folder(tmp_path / "gcc-arm")
    failed = repository.doit("build", *BUILD)
    assert failed.returncode == 1
    assert "command line: toolchain: ARM64_GCC_PATH is not set" in failed.stderr + failed.stdout
    repository.environment = {**os.environ, "ARM64_GCC_PATH": str(folder)}
    repository.build(*BUILD)
    manifest = repository.manifest("build/digits/digits-am62a.tar.gz")
    assert manifest["run"]["differences"] == 0
    version = manifest["versions"]["arm64-gcc"]
    assert version.startswith(f"{GCC_NAME}-gcc ")
    assert ", sha256 " in version
    assert repository.build(*BUILD) == []
    linker = folder / "bin" / f"{GCC_NAME}-ld"
    linker.unlink()
    linker.write_text("another one\n")
    done = repository.doit("build", *BUILD)
    assert "objects" in ran(done.stdout)
    linker.unlink()
    half = repository.doit("build", *BUILD)
    assert half.returncode == 1
    assert f"has no file bin/{GCC_NAME}-ld" in half.stderr + half.stdout
