"""Tries packages of a network as their build systems do, if these are available here.

For Zephyr and ESP-IDF, these are the CMake functions that a package calls; for Arduino, one class.
Each function receives a package's folder, the network's name and an empty folder, and returns a
sentence about its test. An assertion fails if the sample's outputs are wrong.
"""

from __future__ import annotations

import json
import os
import subprocess
import xml.etree.ElementTree as ET
from collections.abc import Callable, Mapping
from pathlib import Path

REGISTRY = Path("/usr/share/cargo/registry")
"""The crates of Debian's packages."""
QEMU = ("qemu-system-arm", "-M", "virt", "-cpu", "cortex-a15", "-nic", "none", "-display", "none",
        "-semihosting-config", "enable=on,target=native", "-kernel")  # fmt: skip
ARM = ("-mcpu=cortex-a15", "-mfloat-abi=soft")
SEMIHOSTED = ("--specs=rdimon.specs", "-Wl,-Ttext-segment=0x40200000")

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

IDF = """\
function(idf_component_register)
  cmake_parse_arguments(PARSE_ARGV 0 at "" "" "SRCS;INCLUDE_DIRS;REQUIRES")
  get_filename_component(name ${CMAKE_CURRENT_SOURCE_DIR} NAME)
  add_library(${name} STATIC ${at_SRCS})
  target_include_directories(${name} PUBLIC ${at_INCLUDE_DIRS})
  get_property(others GLOBAL PROPERTY components)
  if(name STREQUAL main)
    list(APPEND at_REQUIRES ${others})
  endif()
  target_link_libraries(${name} PUBLIC ${at_REQUIRES} m)
  set_property(GLOBAL APPEND PROPERTY components ${name})
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


def run(*command: object, folder: Path, **variables: object) -> str:
    """Run a command in a folder; return its output."""
    environment = {**os.environ, **{name: str(value) for name, value in variables.items()}}
    words = [str(word) for word in command]
    ran = subprocess.run(
        words, cwd=folder, env=environment, stdout=-1, stderr=subprocess.STDOUT, text=True
    )
    assert ran.returncode == 0, ran.stdout
    return ran.stdout


def build_with_cmake(source: Path, folder: Path, *words: object, **variables: object) -> None:
    run("cmake", "-S", source, "-B", "build", *words, folder=folder, **variables)
    run("cmake", "--build", "build", "--parallel", 2, folder=folder)


def try_cmake(package: Path, name: str, folder: Path) -> str:
    build_with_cmake(package / "example", folder)
    assert run(f"build/check_{name}", folder=folder) == f"{name}: right\n"
    return "run on the host"


def try_zephyr(package: Path, name: str, folder: Path) -> str:
    (folder / "ZephyrConfig.cmake").write_text(ZEPHYR)
    build_with_cmake(package / "samples" / "check", folder, f"-DZephyr_DIR={folder}")
    assert run("build/app", folder=folder) == f"{name}: right\n"
    return "run on the host, with stand-ins for Zephyr's functions"


def try_esp_idf(package: Path, name: str, folder: Path) -> str:
    (folder / "tools" / "cmake").mkdir(parents=True)
    (folder / "tools" / "cmake" / "project.cmake").write_text(IDF)
    build_with_cmake(package / "examples" / "check", folder, IDF_PATH=folder)
    assert run("build/app", folder=folder) == f"{name}: right\n"
    return "run on the host, with stand-ins for ESP-IDF's functions"


def write_sketch(package: Path, folder: Path) -> Path:
    """Return the package's sketch as a program in C++."""
    (sketch,) = package.glob("examples/check/check.ino")
    program = folder / "sketch.cpp"
    program.write_text(ARDUINO % sketch)
    return program


def try_arduino(package: Path, name: str, folder: Path) -> str:
    program, main = write_sketch(package, folder), folder / "main.c"
    main.write_text("int check(void);\nint main(void) { return check(); }\n")
    include = f"-I{package / 'src'}"
    sources = [*sorted((package / "src").glob("*.c")), main]
    run("arm-none-eabi-gcc", "-Os", *ARM, include, "-c", *sources, folder=folder)
    compile_sketch = ("arm-none-eabi-g++", "-Os", "-std=gnu++11", "-fno-exceptions", *ARM, include)
    run(*compile_sketch, "-c", program, folder=folder)
    objects = sorted(folder.glob("*.o"))
    link = ("arm-none-eabi-gcc", *ARM, *SEMIHOSTED, *objects, "-lm", "-o", "sketch.elf")
    run(*link, folder=folder)
    assert run(*QEMU, "sketch.elf", folder=folder) == f"{name}: right\n"
    return "run on an Arm core in QEMU, with a stand-in for Arduino's Serial"


def try_platformio(package: Path, name: str, folder: Path) -> str:
    described = json.loads((package / "library.json").read_text())
    (example,) = described["examples"]
    base, build = package / example["base"], described["build"]
    sources = [*sorted((package / build["srcDir"]).glob("*.c")), base / "src" / "main.c"]
    flags = [*build["flags"], f"-I{package / build['includeDir']}"]
    run("gcc", *flags, *sources, "-lm", "-o", "check", folder=folder)
    assert run("./check", folder=folder) == f"{name}: right\n"
    return "run on the host, with the folders and flags of library.json"


def try_cmsis_pack(package: Path, name: str, folder: Path) -> str:
    root = ET.parse(package / f"firmwright.{name}.pdsc").getroot()
    files = [(file.get("category"), package / file.get("name", "")) for file in root.iter("file")]
    assert all(path.exists() for _, path in files)
    sources = [path for kind, path in files if kind in ("source", "sourceC")]
    include = [f"-I{path}" for kind, path in files if kind == "include"]
    run("gcc", "-std=c99", *include, *sources, "-lm", "-o", "check", folder=folder)
    assert run("./check", folder=folder) == f"{name}: right\n"
    return "run on the host, from the files that the pack lists"


def try_rust(package: Path, name: str, folder: Path) -> str:
    sources = ['source.crates-io.replace-with="debian"', f'source.debian.directory="{REGISTRY}"']
    words = [word for source in sources for word in ("--config", source)]
    command = ("cargo", "run", "--offline", "--quiet", "--example", "check", *words)
    scratch = {"CARGO_HOME": folder / "cargo", "CARGO_TARGET_DIR": folder / "target"}
    assert run(*command, folder=package, **scratch) == f"{name}: right\n"
    return "run on the host, by cargo"


TRIED: Mapping[str, Callable[[Path, str, Path], str]] = {
    "arduino": try_arduino,
    "cmake": try_cmake,
    "cmsis-pack": try_cmsis_pack,
    "esp-idf": try_esp_idf,
    "platformio": try_platformio,
    "rust": try_rust,
    "zephyr": try_zephyr,
}
