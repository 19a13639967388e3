"""The wheel has an SBOM, and is the same wherever it is built."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator

from .conftest import ROOT

pytest.importorskip("setuptools.command.bdist_wheel", reason="needs setuptools 70.1")

COMMAND = "import sys; from wheel_sbom import build_wheel; build_wheel(sys.argv[1])"
SOURCES = ("src", "recipes", "templates", "toolchains", "tasks")


def build(folder: Path, umask: int, zone: str) -> Path:
    """Build the wheel of a copy of the repository; return its path."""
    ignored = shutil.ignore_patterns("__pycache__", "*.egg-info")
    for name in SOURCES:
        shutil.copytree(ROOT / name, folder / name, symlinks=True, ignore=ignored)
    for name in ("pyproject.toml", "wheel_sbom.py", "README.md", "LICENSE"):
        (folder / name).write_bytes((ROOT / name).read_bytes())
    environment = {**os.environ, "TZ": zone}
    environment.pop("SOURCE_DATE_EPOCH", None)
    command = [sys.executable, "-c", COMMAND, str(folder / "dist")]
    done = subprocess.run(
        command, cwd=folder, env=environment, umask=umask, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    (wheel,) = (folder / "dist").iterdir()
    return wheel


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(tmp_path_factory.mktemp("first") / "r", 0o022, "UTC")


def test_two_builds_give_the_same_bytes(wheel: Path, tmp_path: Path) -> None:
    other = build(tmp_path / "ä copy", 0o077, "Pacific/Kiritimati")
    assert other.name == wheel.name
    assert other.read_bytes() == wheel.read_bytes()


def test_the_wheel_has_an_sbom_of_what_it_requires(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        (name,) = (n for n in archive.namelist() if ".dist-info/sboms/" in n)
        content = archive.read(name).decode()
        (metadata,) = (n for n in archive.namelist() if n.endswith(".dist-info/METADATA"))
        stated = archive.read(metadata).decode().splitlines()
    assert JsonStrictValidator(SchemaVersion.V1_7).validate_str(content) is None
    parts = {part["name"]: part for part in json.loads(content)["components"]}
    assert parts["apache-tvm"]["versionRange"] == "vers:pypi/0.27.0.post1"
    assert parts["msgspec"]["versionRange"] == "vers:pypi/>=0.20"
    required = [line for line in stated if line.startswith("Requires-Dist: ")]
    assert len(parts) == sum("extra ==" not in line for line in required)


def test_the_wheel_has_the_files_of_the_checkout(wheel: Path) -> None:
    """So firmware is the same from a wheel and from an editable installation."""
    with zipfile.ZipFile(wheel) as archive:
        packed = {n: archive.read(n) for n in archive.namelist() if n.startswith("firmwright/")}
    here = {
        Path(folder, name).relative_to(ROOT / "src").as_posix(): Path(folder, name).read_bytes()
        for folder, _, names in os.walk(ROOT / "src" / "firmwright", followlinks=True)
        for name in names
        if "__pycache__" not in folder and "build" not in Path(folder).parts
    }
    assert {*packed} == {*here}
    assert packed == here
