"""Wheels for an installation without a network: pip downloads them and checks their digests."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from importlib.metadata import Distribution, PackageNotFoundError, distributions
from pathlib import Path

import pytest

from firmwright.custom import installed_modules
from firmwright.errors import UserError
from firmwright.rebuild import wheels


@pytest.fixture(autouse=True)
def index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Make a folder of two wheels the only index of pip; one wheel needs the other."""
    folder = tmp_path / "index"
    folder.mkdir()
    write_wheel(folder, "needed_part", "2.0", "")
    write_wheel(folder, "tool", "1.0", "Requires-Dist: needed-part\n")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(folder))
    monkeypatch.setattr(wheels, "IS_CHECKOUT", False)
    monkeypatch.setattr(wheels, "pin_installed", lambda: ["needed-part==2.0", "tool==1.0"])
    return folder


def write_wheel(folder: Path, name: str, version: str, needs: str) -> None:
    info = f"{name}-{version}.dist-info"
    texts = {
        f"{name}.py": "",
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n{needs}",
        f"{info}/WHEEL": "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        f"{info}/RECORD": "",
    }
    with zipfile.ZipFile(folder / f"{name}-{version}-py3-none-any.whl", "w") as wheel:
        for path, text in texts.items():
            wheel.writestr(path, text)


def test_wheels_install_without_an_index(tmp_path: Path) -> None:
    folder, target = tmp_path / "wheels", tmp_path / "target"
    assert wheels.fill_wheels(folder, ["tool>=0.9"]) == 2
    names = [line.split()[0] for line in (folder / wheels.LIST).read_text().splitlines()]
    assert names == ["needed-part==2.0", "tool==1.0"]
    words = ("--no-index", "--require-hashes", "--find-links", folder, "--target", target)
    command = (sys.executable, "-m", "pip", "install", *words, "-r", folder / wheels.LIST)
    subprocess.run([*map(str, command)], check=True, capture_output=True)
    assert (target / "tool.py").is_file()
    assert (target / "needed_part.py").is_file()


def test_missing_and_changed_wheels_are_listed(tmp_path: Path) -> None:
    folder = tmp_path / "wheels"
    assert wheels.list_missing(folder, ["tool>=0.9"]) == ["tool==1.0"]
    wheels.fill_wheels(folder, ["tool"])
    assert wheels.list_missing(folder, ["tool>=0.9"]) == []
    (folder / "needed_part-2.0-py3-none-any.whl").write_bytes(b"changed")
    assert wheels.list_missing(folder, ["tool"]) == ["needed-part==2.0"]
    (folder / "needed_part-2.0-py3-none-any.whl").unlink()
    assert wheels.list_missing(folder, ["tool"]) == ["needed-part==2.0"]


@pytest.mark.parametrize(
    "tags",
    [
        "cp311-cp311-win_arm64",
        "cp27-none-any",
        "py3-none-macosx_11_0_ppc",
        "py3-none-musllinux_9_9_x86_64",
    ],
)
def test_a_wheel_for_another_platform_is_missing(tags: str, tmp_path: Path) -> None:
    wheels.fill_wheels(tmp_path, ["needed_part"])
    wheel = tmp_path / "needed_part-2.0-py3-none-any.whl"
    other = wheel.rename(tmp_path / f"needed_part-2.0-{tags}.whl")
    (missing,) = wheels.list_missing(tmp_path, ["needed_part"])
    assert missing == f"needed-part==2.0 ({other.name} is for another platform or Python)"
    wheel.write_bytes(other.read_bytes())
    assert not any(" is for " in text for text in wheels.list_missing(tmp_path, ["needed_part"]))


def test_the_wheels_of_this_environment_are_for_this_machine() -> None:
    for installed in distributions():
        lines = (installed.read_text("WHEEL") or "").splitlines()
        tags = [line.removeprefix("Tag: ") for line in lines if line.startswith("Tag: ")]
        assert not tags or any(map(wheels.fits_machine, tags)), installed.name


def test_a_failure_of_pip_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"^pip download failed: .*absent") as error:
        wheels.fill_wheels(tmp_path / "wheels", ["absent"])
    assert "\n" not in str(error.value)


def test_all_requirements_are_pinned() -> None:
    needed = wheels.list_requirements(["numpy", "firmwright"])
    assert any(text.startswith("apache-tvm==") for text in needed)
    assert not any("extra ==" in text for text in needed)
    assert any(text.startswith("numpy==") for text in needed)


def test_sources_that_are_not_installed_have_no_pins(monkeypatch: pytest.MonkeyPatch) -> None:
    def distribution(name: str) -> Distribution:
        raise PackageNotFoundError(name)

    monkeypatch.setattr(installed_modules, "distribution", distribution)
    assert wheels.pin_requirements() == []
