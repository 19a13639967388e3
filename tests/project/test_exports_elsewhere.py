"""Packages for build systems that are not here: what stands in for them builds and runs the rest.

Of Zephyr and ESP-IDF that are the CMake functions which a package calls, of Arduino one class.
"""

from __future__ import annotations

import json
import xml.etree.ElementTree as ET
import zipfile
from pathlib import Path

import pytest
import yaml

from tests.project.exported import export
from tests.project.test_exports import run
from tests.project.test_portable_c import run_on_avr

REGISTRY = Path("/usr/share/cargo/registry")
"""The crates of Debian's packages."""


@pytest.mark.needs("cargo", "cc")
@pytest.mark.parametrize("caller_arena", [False, True])
def test_cargo_builds_and_runs_the_crate(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caller_arena: bool
) -> None:
    if not list(REGISTRY.glob("cc-*")):
        pytest.skip("Debian's package librust-cc-dev is not installed")
    monkeypatch.setenv("CARGO_HOME", str(tmp_path / "cargo"))
    sources = ['source.crates-io.replace-with="debian"', f'source.debian.directory="{REGISTRY}"']
    words = [word for source in sources for word in ("--config", source)]
    package = export("rust", tmp_path, caller_arena=caller_arena)
    command = ("cargo", "run", "--offline", "--quiet", "--example", "check", *words)
    assert run(*command, folder=package) == "digits: right\n"


ZEPHYR = """\
function(zephyr_library_named name)
  add_library(${name} STATIC)
  target_link_libraries(app ${name} m)
  set(current ${name} PARENT_SCOPE)
endfunction()
function(zephyr_include_directories)
  include_directories(${ARGV})
  target_include_directories(app PRIVATE ${ARGV})
endfunction()
function(zephyr_library_sources)
  target_sources(${current} PRIVATE ${ARGV})
endfunction()
function(zephyr_library_compile_options)
  target_compile_options(${current} PRIVATE ${ARGV})
endfunction()
file(STRINGS ${CMAKE_CURRENT_SOURCE_DIR}/prj.conf lines)
foreach(line ${lines})
  string(REPLACE "=" ";" line ${line})
  set(${line})
endforeach()
enable_language(C)
add_executable(app)
foreach(module ${EXTRA_ZEPHYR_MODULES})
  add_subdirectory(${module}/zephyr module)
endforeach()
"""


@pytest.mark.needs("cmake", "gcc")
def test_zephyr_gets_a_module_and_its_sample_is_right(tmp_path: Path) -> None:
    package = export("zephyr", tmp_path)
    module = yaml.safe_load((package / "zephyr" / "module.yml").read_text())
    assert module["name"] == "digits"
    assert (package / module["build"]["cmake"] / "CMakeLists.txt").is_file()
    options = (package / module["build"]["kconfig"]).read_text().splitlines()
    assert options[0] == "config FIRMWRIGHT_DIGITS"
    assert "CONFIG_FIRMWRIGHT_DIGITS=y\n" in (package / "samples/check/prj.conf").read_text()
    (tmp_path / "ZephyrConfig.cmake").write_text(ZEPHYR)
    words = ("-S", package / "samples" / "check", "-B", "build", f"-DZephyr_DIR={tmp_path}")
    run("cmake", *words, folder=tmp_path)
    run("cmake", "--build", "build", "--parallel", 2, folder=tmp_path)
    assert run("build/app", folder=tmp_path) == "digits: right\n"


IDF = """\
function(idf_component_register)
  cmake_parse_arguments(PARSE_ARGV 0 at "" "" "SRCS;INCLUDE_DIRS;REQUIRES")
  get_filename_component(name ${CMAKE_CURRENT_SOURCE_DIR} NAME)
  add_library(${name} STATIC ${at_SRCS})
  target_include_directories(${name} PUBLIC ${at_INCLUDE_DIRS})
  target_link_libraries(${name} PUBLIC ${at_REQUIRES} m)
  set(COMPONENT_LIB ${name} PARENT_SCOPE)
endfunction()
macro(project name)
  _project(${name} C)
  add_subdirectory(../.. component)
  add_subdirectory(main)
  file(WRITE ${CMAKE_BINARY_DIR}/start.c
       "void app_main(void); int main(void) { app_main(); return 0; }")
  add_executable(app ${CMAKE_BINARY_DIR}/start.c)
  target_link_libraries(app main)
endmacro()
"""


@pytest.mark.needs("cmake", "gcc")
def test_esp_idf_gets_a_component_and_its_example_is_right(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = export("esp-idf", tmp_path)
    assert yaml.safe_load((package / "idf_component.yml").read_text())["version"] == "1.2.0"
    named = yaml.safe_load((package / "examples/check/main/idf_component.yml").read_text())
    path = named["dependencies"]["digits"]["path"]
    assert (package / "examples/check/main" / path).resolve() == package
    (tmp_path / "tools" / "cmake").mkdir(parents=True)
    (tmp_path / "tools" / "cmake" / "project.cmake").write_text(IDF)
    monkeypatch.setenv("IDF_PATH", str(tmp_path))
    run("cmake", "-S", package / "examples" / "check", "-B", "build", folder=tmp_path)
    run("cmake", "--build", "build", "--parallel", 2, folder=tmp_path)
    assert run("build/app", folder=tmp_path) == "digits: right\n"


ARDUINO = """\
#include <stdio.h>

static struct {
    void begin(long) {}
    void println(const char *text) { puts(text); }
} Serial;

#include "%s"

extern "C" int check(void)
{
    setup();
    loop();
    return 0;
}
"""


@pytest.mark.needs("avr-gcc", "simavr")
def test_the_arduino_sketch_is_right_on_avr(tmp_path: Path) -> None:
    package = export("arduino", tmp_path)
    lines = (package / "library.properties").read_text().splitlines()
    properties = dict(line.split("=", 1) for line in lines)
    assert (properties["name"], properties["version"]) == ("digits", "1.2.0")
    assert (package / "src" / properties["includes"]).is_file()
    (sketch,) = package.glob("examples/check/check.ino")
    program = tmp_path / "sketch.cpp"
    program.write_text(ARDUINO % sketch)
    sources = [*sorted((package / "src").glob("*.c")), program]
    assert "digits: right" in run_on_avr(sources, tmp_path, f"-I{package}/src")


@pytest.mark.needs("gcc")
def test_platformio_is_told_what_compiles_and_runs(tmp_path: Path) -> None:
    package = export("platformio", tmp_path)
    described = json.loads((package / "library.json").read_text())
    assert described["description"] == 'Reads digits: "0" & <9>'
    (example,) = described["examples"]
    base = package / example["base"]
    assert all((base / file).is_file() for file in example["files"])
    build = described["build"]
    sources = [*sorted((package / build["srcDir"]).glob("*.c")), base / "src" / "main.c"]
    flags = [*build["flags"], f"-I{package / build['includeDir']}"]
    run("gcc", *flags, *sources, "-lm", "-o", "check", folder=tmp_path)
    assert run("./check", folder=tmp_path) == "digits: right\n"


def test_the_cmsis_pack_lists_what_it_holds(tmp_path: Path) -> None:
    package = export("cmsis-pack", tmp_path)
    root = ET.parse(package / "firmwright.digits.pdsc").getroot()
    assert (root.findtext("vendor"), root.findtext("name")) == ("firmwright", "digits")
    assert root.findtext("description") == 'Reads digits: "0" & <9>'
    listed = {file.get("name", "") for file in root.iter("file")}
    assert {"src/", "src/digits.h", "src/digits_weights.c", "example/main.c"} <= listed
    assert all((package / name).exists() for name in listed)
    with zipfile.ZipFile(package / "firmwright.digits.1.2.0.pack") as archive:
        packed = {name: archive.read(name) for name in archive.namelist()}
    files = {path.relative_to(package).as_posix(): path for path in package.rglob("*.*")}
    assert packed == {n: p.read_bytes() for n, p in files.items() if not n.endswith(".pack")}
    layer = yaml.safe_load((package / "digits.clayer.yml").read_text())["layer"]
    assert layer["packs"] == [{"pack": "firmwright::digits@1.2.0", "path": "."}]
