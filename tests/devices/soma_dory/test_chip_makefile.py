"""The requirements of make for a build of the project with DIANA's SDK."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from firmwright.codegen.templates import make_environment
from firmwright.project.board import render_makefile
from firmwright.toolchain import Build, load_platform, load_toolchain, makefile_variables

CHIP = load_platform("diana-chip")


def make(folder: Path, *variables: str) -> subprocess.CompletedProcess[str]:
    if shutil.which("make") is None:
        pytest.skip("make is not installed")
    build = Build(load_toolchain("pulp-gcc"), CHIP, ())
    written = {**makefile_variables(build, ["demo/main.c", "network/network.c"]), "demo": False}
    text = render_makefile(make_environment(), CHIP.board, written)
    (folder / "Makefile").write_text(text)
    return subprocess.run(["make", *variables], cwd=folder, capture_output=True, text=True)


def test_make_names_what_is_missing_before_it_compiles(tmp_path: Path) -> None:
    sdk, hal = tmp_path / "sdk", tmp_path / "hal"
    for folder in (sdk / "install/rules", hal / "include", hal / "src"):
        folder.mkdir(parents=True)
    assert "No file /install/rules/pulp.mk: set PULP_SDK_HOME to" in make(tmp_path).stderr
    rules = sdk / "install/rules/pulp.mk"
    rules.write_text("all:\n\t@echo $(PULP_APP): $(notdir $(PULP_APP_SRCS)) $(PULP_CFLAGS)\n")
    (hal / "src/dory.c").touch()
    wanting = make(tmp_path, f"PULP_SDK_HOME={sdk}", f"DORY_HAL={hal}")
    assert f"No file {hal}/include/dory.h: set DORY_HAL to" in wanting.stderr
    (hal / "include/dory.h").touch()
    built = make(tmp_path, f"PULP_SDK_HOME={sdk}", f"DORY_HAL={hal}")
    assert built.stdout.startswith("firmware: main.c network.c dory.c -std=gnu99 ")
    assert f"-I{hal}/include" in built.stdout
