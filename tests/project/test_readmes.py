"""A new user follows only the README of a package, and writes a program."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from firmwright.codegen.c_literals import format_c_values
from tests.project.exported import export, make_exported
from tests.project.packages import ARDUINO, ZEPHYR, build_with_cmake, run
from tests.project.test_portable_c import run_on_avr

PROGRAM = """\
%s
static const int8_t image[DIGITS_INPUT_IMAGE_ELEMENTS] = {%s};

/* Returns the digit with the highest score, or what the network says instead. */
static int read_digit(void)
{
    int8_t scores[DIGITS_OUTPUT_SCORES_ELEMENTS];
    const digits_inputs inputs = {image};
    digits_outputs outputs = {scores};
    int best = 0;
    const int32_t status = digits_run(&inputs, &outputs);

    for (int i = 1; i < (int)DIGITS_OUTPUT_SCORES_ELEMENTS; i++) {
        best = scores[i] > scores[best] ? i : best;
    }
    return status == 0 ? best : (int)status;
}
"""
MAIN = """
#include <stdio.h>

int main(void)
{
    printf("digit %d\\n", read_digit());
    return 0;
}
"""
SKETCH = """
void setup()
{
    char said[] = "digit 0";

    said[6] = (char)(said[6] + read_digit());
    Serial.begin(115200);
    Serial.println(said);
}

void loop() {}
"""


def read_lines(package: Path) -> list[str]:
    """Return the lines of code in a README, without comments."""
    text = (package / "README.md").read_text()
    return [re.sub(r"\s{2,}#.*", "", line) for line in re.findall(r"^    (.+)$", text, re.M)]


def write_program(folder: Path, include: str) -> tuple[str, int]:
    """Return the program's text, and the digit that the reference finds in its picture."""
    sample = make_exported(folder).networks[0].sample
    image = format_c_values(np.asarray(sample["input_0"]))
    return PROGRAM % (include, image), int(np.argmax(sample["output_0"]))


@pytest.mark.needs("cmake", "gcc")
@pytest.mark.parametrize("installed", [False, True])
def test_a_project_of_one_s_own_takes_the_cmake_package(tmp_path: Path, installed: bool) -> None:
    package = export("cmake", tmp_path)
    text, digit = write_program(tmp_path / "sample", '#include "digits.h"')
    subdirectory, package_line, link = read_lines(package)
    words = []
    if installed:
        run("cmake", "-S", package, "-B", "other", folder=tmp_path)
        run("cmake", "--build", "other", folder=tmp_path)
        run("cmake", "--install", "other", "--prefix", tmp_path / "prefix", folder=tmp_path)
        words.append(f"-DCMAKE_PREFIX_PATH={tmp_path}/prefix")
    start = "cmake_minimum_required(VERSION 3.15)\nproject(mine C)\nadd_executable(app app.c)\n"
    taken = package_line if installed else subdirectory
    (tmp_path / "CMakeLists.txt").write_text(f"{start}{taken}\n{link}\n")
    (tmp_path / "app.c").write_text(text + MAIN)
    build_with_cmake(tmp_path, tmp_path, *words)
    assert run("build/app", folder=tmp_path) == f"digit {digit}\n"


@pytest.mark.needs("cmake", "gcc")
def test_an_application_of_one_s_own_takes_the_zephyr_module(tmp_path: Path) -> None:
    package = export("zephyr", tmp_path / "modules")
    text, digit = write_program(tmp_path / "sample", '#include "digits.h"')
    (line,) = read_lines(package)
    option = re.search(r"CONFIG_\w+=y", (package / "README.md").read_text())
    assert option
    app = tmp_path / "app"
    (app / "src").mkdir(parents=True)
    (app / "prj.conf").write_text(f"{option[0]}\n")
    (app / "src" / "main.c").write_text(text + MAIN)
    found = line.replace("/path/to/digits", str(package))
    sources = "target_sources(app PRIVATE src/main.c)\n"
    start = "cmake_minimum_required(VERSION 3.20)\n"
    zephyr = "find_package(Zephyr REQUIRED)\nproject(mine C)\n"
    (app / "CMakeLists.txt").write_text(f"{start}{found}\n{zephyr}{sources}")
    (tmp_path / "ZephyrConfig.cmake").write_text(ZEPHYR)
    build_with_cmake(app, tmp_path, f"-DZephyr_DIR={tmp_path}")
    assert run("build/app", folder=tmp_path) == f"digit {digit}\n"


@pytest.mark.needs("avr-gcc", "simavr")
def test_a_sketch_of_one_s_own_takes_the_arduino_library(tmp_path: Path) -> None:
    package = export("arduino", tmp_path)
    (include,) = read_lines(package)
    text, digit = write_program(tmp_path / "sample", include)
    sketch = tmp_path / "mine.ino"
    sketch.write_text(text + SKETCH)
    (tmp_path / "mine.cpp").write_text(ARDUINO % sketch)
    sources = [*sorted((package / "src").glob("*.c")), tmp_path / "mine.cpp"]
    assert f"digit {digit}" in run_on_avr(sources, tmp_path, f"-I{package}/src")
