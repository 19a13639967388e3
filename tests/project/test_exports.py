"""Packages of the network for other build systems, as far as each can be tried here."""

from __future__ import annotations

import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from firmwright.project.export_packages import write_export
from firmwright.recipe.schema import load_schema
from tests.project.exported import export, make_exported
from tests.project.packages import ARM, QEMU, SEMIHOSTED, run

NAMES: list[str] = load_schema()["$defs"]["build-system"]["enum"]


@pytest.fixture(scope="module")
def packages(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with the package of each build system."""
    folder = tmp_path_factory.mktemp("exports")
    network = make_exported(folder / "project")
    for name in NAMES:
        write_export(name, network, folder / name)
    return folder


@pytest.mark.parametrize("name", NAMES)
def test_a_package_is_whole_and_always_the_same(packages: Path, tmp_path: Path, name: str) -> None:
    again = export(name, tmp_path)
    files = sorted(path.relative_to(again) for path in again.rglob("*") if path.is_file())
    assert {path.name for path in files} > {"README.md", "digits.h", "digits_weights.c"}
    for path in files:
        assert (again / path).read_bytes() == (packages / name / path).read_bytes()
    text = (again / "README.md").read_text()
    assert len(text.splitlines()) <= 20
    assert all("{" not in str(path) for path in files)


CHECK = "build/check_digits"


@pytest.mark.needs("cmake", "gcc")
@pytest.mark.parametrize("source", ["add_subdirectory", "FetchContent", "find_package"])
def test_cmake_takes_the_network_in_three_ways(packages: Path, tmp_path: Path, source: str) -> None:
    package, words = packages / "cmake", [f"-DDIGITS_FROM={source}"]
    if source == "find_package":
        run("cmake", "-S", package, "-B", "alone", folder=tmp_path)
        run("cmake", "--build", "alone", "--parallel", 2, folder=tmp_path)
        run("cmake", "--install", "alone", "--prefix", tmp_path / "prefix", folder=tmp_path)
        words += [f"-DCMAKE_PREFIX_PATH={tmp_path}/prefix"]
    run("cmake", "-S", package / "example", "-B", "build", *words, folder=tmp_path)
    run("cmake", "--build", "build", "--parallel", 2, folder=tmp_path)
    assert run(CHECK, folder=tmp_path) == "digits: right\n"


@pytest.mark.needs("cmake")
def test_two_networks_of_one_prefix_are_refused(packages: Path, tmp_path: Path) -> None:
    text = "cmake_minimum_required(VERSION 3.15)\nproject(two C)\n"
    for name in ("one", "two"):
        text += f"add_subdirectory({packages}/cmake {name})\n"
    (tmp_path / "CMakeLists.txt").write_text(text)
    ran = subprocess.run(["cmake", "."], cwd=tmp_path, capture_output=True, text=True)
    assert ran.returncode != 0
    assert "two networks are named digits" in ran.stderr


TOOLCHAIN = """\
set(CMAKE_SYSTEM_NAME Generic)
set(CMAKE_SYSTEM_PROCESSOR arm)
set(CMAKE_C_COMPILER arm-none-eabi-gcc)
set(CMAKE_C_FLAGS_INIT "%s")
set(CMAKE_EXE_LINKER_FLAGS_INIT "%s")
"""


@pytest.mark.needs("cmake", "arm-none-eabi-gcc", "qemu-system-arm")
def test_cmake_builds_the_network_for_another_processor(packages: Path, tmp_path: Path) -> None:
    (tmp_path / "arm.cmake").write_text(TOOLCHAIN % (" ".join(ARM), " ".join(SEMIHOSTED)))
    words = ["-S", packages / "cmake" / "example", "-B", "build"]
    run("cmake", *words, f"-DCMAKE_TOOLCHAIN_FILE={tmp_path}/arm.cmake", folder=tmp_path)
    run("cmake", "--build", "build", "--parallel", 2, folder=tmp_path)
    assert run(*QEMU, CHECK, folder=tmp_path) == "digits: right\n"
    # Start-up code does not copy a table of addresses if a small chip's linker script has no table.
    (library,) = tmp_path.rglob("libdigits.a")
    assert "GOT" not in run("arm-none-eabi-objdump", "-r", library, folder=tmp_path)


@pytest.mark.needs("cmake", "gcc")
def test_cmake_optimizes_by_default(packages: Path, tmp_path: Path) -> None:
    command = ("cmake", "-S", packages / "cmake", "-DCMAKE_EXPORT_COMPILE_COMMANDS=ON")
    for options, optimized in (
        ((), True),
        (("-DCMAKE_BUILD_TYPE=Debug",), False),
        (("-DCMAKE_C_FLAGS=-Os",), False),
    ):
        folder = tmp_path / str(len(list(tmp_path.iterdir())))
        run(*command, "-B", folder, *options, folder=tmp_path)
        assert (" -O2 " in (folder / "compile_commands.json").read_text()) == optimized, options


@pytest.mark.needs("gcc")
def test_the_example_tells_a_wrong_result(tmp_path: Path) -> None:
    assert run_example(export("cmake", tmp_path, wrong=True)) == (1, b"digits: WRONG\n")


def test_a_package_contains_the_drivers(tmp_path: Path) -> None:
    drivers = {"fw_npu.c": "/* the driver */\n"}
    network = replace(make_exported(tmp_path / "project"), drivers=drivers)
    write_export("cmake", network, tmp_path / "package")
    assert (tmp_path / "package" / "src" / "fw_npu.c").read_text() == drivers["fw_npu.c"]
    assert "src/fw_npu.c" in (tmp_path / "package" / "CMakeLists.txt").read_text()


@pytest.mark.needs("gcc")
def test_the_example_passes_an_arena(tmp_path: Path) -> None:
    assert run_example(export("cmake", tmp_path, caller_arena=True)) == (0, b"digits: right\n")


def run_example(package: Path) -> tuple[int, bytes]:
    """Return the exit code of a package's example, and its output."""
    sources = [*sorted((package / "src").glob("*.c")), package / "example" / "main.c"]
    run("gcc", "-std=c99", "-I", package / "src", *sources, "-lm", "-o", "check", folder=package)
    ran = subprocess.run([package / "check"], stdout=-1)
    return ran.returncode, ran.stdout
