"""The exported packages of a network, from the recipe to a program of the user."""

from __future__ import annotations

import subprocess
import tarfile
from pathlib import Path

import pytest

from tests.e2e.conftest import new_repository, ran, repository_of_example

PLACES = ("digits-host", "build/digits/host")


@pytest.mark.needs("gcc")
@pytest.mark.parametrize("arena", ["static", "caller"])
def test_the_bundle_has_the_package_and_its_example_is_right(tmp_path: Path, arena: str) -> None:
    repository = new_repository(tmp_path)
    with (tmp_path / "digits.yaml").open("a") as recipe:
        recipe.write(f"arena: {arena}\ndemo: {{}}\n")
    words = ("--platform", "host", "--toolchain", "gcc", "--as", "cmake")
    done = repository.firmwright("export", "digits.yaml", *words)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "exports    cmake in build/digits/host/exports" in done.stdout
    with tarfile.open(tmp_path / "build/digits/digits-host.tar.gz") as archive:
        archive.extractall(tmp_path, filter="data")
    packed, made = (
        {path.relative_to(folder): path.read_bytes() for path in folder.rglob("*.*")}
        for folder in (
            tmp_path / "digits-host/exports/cmake",
            tmp_path / "build/digits/host/exports/cmake",
        )
    )
    assert packed == made
    sources = [f"digits-host/exports/cmake/{path}" for path in packed if path.suffix == ".c"]
    flags = ["-std=c99", "-Idigits-host/exports/cmake/src"]
    subprocess.run(["gcc", *flags, *sources, "-lm", "-o", "check"], cwd=tmp_path, check=True)
    assert subprocess.check_output([tmp_path / "check"]) == b"network: right\n"


def test_a_driver_of_a_board_is_rejected_before_any_stage_runs(tmp_path: Path) -> None:
    repository = repository_of_example("diana", tmp_path)
    words = ("export", "two_convs.yaml", "--target", "soma_dory, c", "--platform", "diana")
    done = repository.firmwright(*words, "--as", "cmake")
    assert done.returncode == 1
    assert "command line: export: the driver of soma_dory belongs to the board" in done.stderr
    assert not ran(done.stdout)
