"""The wheel has an SBOM and equal bytes wherever it is built, also if built from the sdist."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator

from tests.package_copy import copy_package

from .conftest import ROOT

pytest.importorskip("setuptools.command.bdist_wheel", reason="needs setuptools 70.1")

SOURCES = ("src", "recipes", "templates", "toolchains", "tasks")
FILES = (
    "pyproject.toml", "MANIFEST.in", "build_backend.py", "README.md", "LICENSE", "dodo.py",
    "constraints.txt",
)  # fmt: skip


def build(kind: str, folder: Path, umask: int = 0o022, zone: str = "UTC") -> Path:
    """Build a "wheel" or an "sdist" from the sources in a folder, as pip does; return its path."""
    command = f"import build_backend; build_backend.build_{kind}('dist')"
    environment = {**os.environ, "TZ": zone}
    environment.pop("SOURCE_DATE_EPOCH", None)
    done = subprocess.run(
        [sys.executable, "-c", command],
        cwd=folder, env=environment, umask=umask, capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    (built,) = (folder / "dist").glob("*.whl" if kind == "wheel" else "*.tar.gz")
    return built


def copy_sources(folder: Path) -> Path:
    ignored = shutil.ignore_patterns("__pycache__", "*.egg-info")
    for name in SOURCES:
        shutil.copytree(ROOT / name, folder / name, ignore=ignored)
    for name in FILES:
        (folder / name).write_bytes((ROOT / name).read_bytes())
    return folder


@pytest.fixture(scope="module")
def sources(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return copy_sources(tmp_path_factory.mktemp("first") / "r")


@pytest.fixture(scope="module")
def wheel(sources: Path) -> Path:
    return build("wheel", sources)


@pytest.fixture(scope="module")
def unpacked(sources: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder in the sdist."""
    folder = tmp_path_factory.mktemp("sdist")
    with tarfile.open(build("sdist", sources)) as archive:
        archive.extractall(folder)
    (inside,) = folder.iterdir()
    return inside


def test_two_builds_give_the_same_bytes(wheel: Path, tmp_path: Path) -> None:
    other = build("wheel", copy_sources(tmp_path / "ä copy"), 0o077, "Pacific/Kiritimati")
    assert other.name == wheel.name
    assert other.read_bytes() == wheel.read_bytes()


def test_the_sdist_gives_the_wheel_of_the_checkout(unpacked: Path, wheel: Path) -> None:
    other = build("wheel", unpacked)
    assert other.name == wheel.name
    assert other.read_bytes() == wheel.read_bytes()


def test_the_sdist_has_what_the_first_line_of_the_readme_uses(unpacked: Path) -> None:
    names = {path.name for path in unpacked.iterdir()}
    assert {"constraints.txt", "dodo.py", "recipes"} <= names
    assert "tests" not in names


def test_an_editable_installation_is_one_path(sources: Path, tmp_path: Path) -> None:
    """Type checkers and editors support a path file, but not an import hook."""
    command = f"import build_backend; build_backend.build_editable({str(tmp_path)!r})"
    subprocess.run([sys.executable, "-c", command], cwd=sources, check=True, capture_output=True)
    (editable,) = tmp_path.glob("*.whl")
    with zipfile.ZipFile(editable) as archive:
        installed = [name for name in archive.namelist() if ".dist-info/" not in name]
        assert len(installed) == 1 and installed[0].endswith(".pth")
        assert archive.read(installed[0]).decode() == f"{sources / 'src'}\n"


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


def test_the_wheel_has_the_files_of_the_checkout(wheel: Path, tmp_path: Path) -> None:
    """Firmware from a wheel therefore equals firmware from an editable installation."""
    with zipfile.ZipFile(wheel) as archive:
        packed = {n: archive.read(n) for n in archive.namelist() if n.startswith("firmwright/")}
    copy_package(tmp_path)
    here = {
        path.relative_to(tmp_path).as_posix(): path.read_bytes()
        for path in tmp_path.rglob("*")
        if path.is_file()
    }
    assert {*packed} == {*here}
    assert packed == here
