"""The requirements of an SDK's make, and the messages for its failures."""

from __future__ import annotations

from pathlib import Path

import pytest

from firmwright.errors import UserError
from firmwright.toolchain import Build, load_platform, load_toolchain
from firmwright.toolchain.boards import Sdk
from firmwright.toolchain.compilers import ToolError
from firmwright.toolchain.sdk import explain_not_built, find_sdk_folders, make_firmware

SDK = Sdk({"HOME_OF_SDK": ("rules.mk", "include/**/*.h")}, "build/*/firmware")


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "sdk"
    (folder / "include/hal").mkdir(parents=True)
    (folder / "rules.mk").touch()
    (folder / "include/hal/pulp.h").touch()
    monkeypatch.setenv("HOME_OF_SDK", str(folder))
    return folder


def make(rule: str, folder: Path) -> Path:
    (folder / "project").mkdir()
    (folder / "project/Makefile").write_text(f"all: ; @{rule}\n")
    return make_firmware(folder / "project", SDK, folder / "scratch", folder / "cache")


def test_the_files_that_a_build_reads_are_known(home: Path) -> None:
    (folder,) = find_sdk_folders(SDK).values()
    assert folder.files == ("include/hal/pulp.h", "rules.mk")
    (home / "rules.mk").unlink()
    with pytest.raises(UserError, match=r"HOME_OF_SDK=.*sdk has no file rules\.mk"):
        find_sdk_folders(SDK)


def test_only_a_board_with_a_makefile_lacks_an_sdk(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PULP_SDK_HOME", "/sdk")
    monkeypatch.delenv("DORY_HAL", raising=False)
    zig, pulp = load_toolchain("zig"), load_toolchain("pulp-gcc")
    assert explain_not_built(Build(zig, load_platform("diana"))) == ""
    reason = explain_not_built(Build(pulp, load_platform("diana-chip")))
    assert "PULP_SDK_HOME" not in reason
    assert reason.endswith("DORY_HAL is not set; set it to the folder with include/dory.h")


@pytest.mark.needs("make")
@pytest.mark.usefixtures("home")
def test_make_leaves_one_firmware(tmp_path: Path) -> None:
    made = make("mkdir -p build/chip; echo elf > build/chip/firmware", tmp_path)
    assert made.read_text() == "elf\n"
    assert not (tmp_path / "project/build").exists()


@pytest.mark.needs("make")
@pytest.mark.usefixtures("home")
def test_a_make_that_fails_or_leaves_nothing_is_told(tmp_path: Path) -> None:
    for name, rule in (("fails", "echo 'a.c:1: error: no'; exit 1"), ("empty", "true")):
        (tmp_path / name).mkdir()
        with pytest.raises(UserError) as caught:
            make(rule, tmp_path / name)
        if name == "fails":
            assert isinstance(caught.value, ToolError)
            log = tmp_path / "fails/cache/failed-make.txt"
            assert "the error in its output:\n  a.c:1: error: no\n" in str(caught.value)
            assert "a.c:1" in log.read_text() and str(log) in str(caught.value)
        else:
            assert "make wrote 0 files build/*/firmware; expected one" in str(caught.value)
