"""Packages are read by the tools of their build systems: ``python -m nox -s packages``.

CI skips this file, because the tools of ESP-IDF and PlatformIO need about twenty packages. The
tools only pack and check the description of a package; other tests compile its content.
"""

from __future__ import annotations

import subprocess
import tarfile
from pathlib import Path

import pytest

from tests.project.exported import export

Names = set[str]


def pack_for_esp_idf(package: Path, folder: Path) -> Names:
    """Return the content of the archive for the component registry."""
    command = ["compote", "component", "pack", "--project-dir", str(package), "--name", "digits"]
    subprocess.run([*command, "--dest-dir", str(folder)], cwd=folder, check=True)
    return list_files(folder / "digits_1.2.0.tgz")


def pack_for_platformio(package: Path, folder: Path) -> Names:
    """Return the content of the archive for PlatformIO's registry."""
    subprocess.run(["pio", "pkg", "pack", str(package), "-o", str(folder)], check=True)
    return list_files(folder / "digits-1.2.0.tar.gz")


def list_files(archive: Path) -> Names:
    with tarfile.open(archive) as packed:
        return {str(Path(entry.name)) for entry in packed if entry.isfile()}


TOOLS = {
    "esp-idf": (pack_for_esp_idf, "idf_component.yml"),
    "platformio": (pack_for_platformio, "library.json"),
}


@pytest.fixture(autouse=True)
def no_settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep the user's settings away from the tools, and turn off their telemetry."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("PLATFORMIO_CORE_DIR", str(tmp_path / "core"))
    monkeypatch.setenv("PLATFORMIO_SETTING_ENABLE_TELEMETRY", "no")


@pytest.mark.parametrize("name", TOOLS)
def test_its_own_tool_packs_the_package_whole(tmp_path: Path, name: str) -> None:
    package, packed = export(name, tmp_path), tmp_path / "packed"
    packed.mkdir()
    files = {p.relative_to(package).as_posix() for p in package.rglob("*") if p.is_file()}
    pack, _ = TOOLS[name]
    assert pack(package, packed) == files


def test_platformio_knows_all_settings_of_the_example(tmp_path: Path) -> None:
    example = export("platformio", tmp_path) / "examples" / "check"
    command = ["pio", "project", "config", "--lint", "-d", str(example)]
    assert "free from linting errors" in subprocess.check_output(command, text=True)
    with (example / "platformio.ini").open("a") as settings:
        settings.write("bordd = uno\n")
    assert "unknown configuration option `bordd`" in subprocess.check_output(command, text=True)


@pytest.mark.parametrize("name", TOOLS)
def test_its_own_tool_refuses_what_is_wrong(tmp_path: Path, name: str) -> None:
    """This shows that the test above can fail."""
    package, packed = export(name, tmp_path), tmp_path / "packed"
    packed.mkdir()
    pack, described = TOOLS[name]
    text = (package / described).read_text()
    assert text.count("1.2.0") == 1
    (package / described).write_text(text.replace("1.2.0", "newest"))
    with pytest.raises(subprocess.CalledProcessError):
        pack(package, packed)
