"""The C of a network for any processor: with 16-bit int, and under strict warnings."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from firmwright.codegen.templates import make_environment, render
from firmwright.toolchain.compilers import run_compiler
from tests.project.exported import export

STRICT = ("-Wall", "-Wextra", "-Wconversion", "-Wshadow", "-Werror")
ZIG = [sys.executable, "-m", "ziglang", "cc"]
AVR = ("avr-gcc", "-mmcu=atmega2560", "-O2")

CONSOLE = """\
#include <avr/interrupt.h>
#include <avr/io.h>
#include <avr/sleep.h>
#include <stdio.h>

int check(void);

static int put(char c, FILE *stream)
{
    (void)stream;
    UDR0 = (uint8_t)c;
    return 0;
}

static FILE console = FDEV_SETUP_STREAM(put, NULL, _FDEV_SETUP_WRITE);

int main(void)
{
    UCSR0B = 1 << TXEN0;
    stdout = &console;
    check();
    cli();
    sleep_mode(); /* the emulator ends */
    return 0;
}
"""

FIXED_POINT = """\
#include <inttypes.h>
#include <stdio.h>

#include "any_bit_patterns.h"
#include "any_fixed_point.h"
#include "any_sixteen_bit_floats.h"
#include "any_wrapped_integers.h"

static uint32_t state = 1, sum = 0;

static int32_t draw(int32_t bits)
{
    state = state * 1664525u + 1013904223u;
    return wrapped_int32(state) >> (32 - bits);
}

static void add(int32_t value)
{
    sum = sum * 31u + (uint32_t)value;
}

int main(void)
{
    for (int32_t i = 0; i < 500; ++i) {
        const int32_t x = draw(32), small = draw(16), positive = 1 + (draw(32) & 0x3fffffff);
        const int32_t shift = i % 20, factor = 0x40000000 + (draw(30) & 0x3fffffff);

        add(fixed_product(x, factor));
        add(fixed_shift(x, shift));
        add(fixed_scale(draw(29), factor, shift));
        add(fixed_scale_any(draw(20), factor, shift % 8, shift));
        add(fixed_scale_once(draw(20), factor, shift));
        add(fixed_scale_once_wide(draw(20), factor, shift));
        add(fixed_scale_tied(draw(20), factor, shift, i & 1));
        add(fixed_scale_wide(draw(20), small, shift));
        add(fixed_float_place((float)small / 99.0f, 1007532220u, 1075040171u, 59190u, 151));
        add(fixed_float_steps((float)small / 99.0f, i, 1050000000u));
        add(fixed_square(draw(16)));
        add(fixed_average(draw(30), 1 + (i & 63)));
        add(fixed_average_wide(draw(30), 1 + (i & 63)));
        add(fixed_log2(positive));
        add(fixed_reciprocal(positive));
        add(fixed_between(small, draw(15), draw(15)));
        add(fixed_argument(small, draw(14), shift % 8));
        add(fixed_place(small, 9));
        add(fixed_logistic(draw(19), 0x8000 + (i & 0xff), 0x9000));
        add(fixed_tanh(draw(18), 0x8000 + (i & 0xff), 0x9000));
        add(fixed_share(positive));
        add(fixed_quotient(positive >> 15, factor, positive));
        add(float32_to_float16(float16_to_float32(wrapped_uint16(x))));
        add(float32_to_bfloat16((float)x / 3.0f));
        add(float32_to_float8_e4m3fn(float8_e5m2_to_float32((uint8_t)(x & 0xff)), i & 1));
        add(float32_to_float8_e5m2(float8_e4m3fn_to_float32((uint8_t)(x & 0xff)) / 3.0f, i & 1));
        add(float32_to_float8_e4m3fnuz(float8_e5m2fnuz_to_float32((uint8_t)(x & 0xff)), i & 1));
        add(float32_to_float8_e5m2fnuz(float8_e4m3fnuz_to_float32((uint8_t)(x & 0xff)), i & 1));
        add(float32_to_float8_e8m0fnu((float)x / 7.0f, 0x400000u, i & 1));
        add(float32_to_float4_e2m1fn(float8_e8m0fnu_to_float32((uint8_t)(120 + (x & 0xf)))));
        add(float32_to_float4_e2m1fn(float4_e2m1fn_to_float32((uint8_t)(x & 0xff)) / 3.0f));
    }
    printf("%08" PRIx32 "\\n", sum);
    return 0;
}
"""


def compile_c(command: tuple[str, ...], sources: list[Path], folder: Path, name: str) -> Path:
    words = [*command, *map(str, sources), "-o", str(folder / name)]
    done = subprocess.run(words, stdout=-1, stderr=subprocess.STDOUT, text=True)
    assert done.returncode == 0, done.stdout
    return folder / name


def run_on_avr(sources: list[Path], folder: Path, *flags: str) -> str:
    """Run a program in C or C++ on an emulated ATmega2560; return its output."""
    (folder / "console.c").write_text(CONSOLE)
    objects = [compile_c((*AVR, "-std=gnu99", "-c"), [folder / "console.c"], folder, "console.o")]
    for source in sources:
        name = f"{source.stem}.o"
        standard = ("-xc++", "-std=gnu++11") if source.suffix == ".cpp" else ("-std=c99",)
        command = (*AVR, *standard, *STRICT, "-Dmain=check", *flags, "-c")
        objects.append(compile_c(command, [source], folder, name))
    program = compile_c(AVR, objects, folder, "program.elf")
    ran = subprocess.run(
        ["simavr", "-m", "atmega2560", "-f", "16000000", program],
        stdout=-1, stderr=subprocess.STDOUT, text=True, timeout=120,
    )  # fmt: skip
    return ran.stdout


@pytest.mark.needs("avr-gcc", "simavr")
def test_a_network_is_exact_where_int_has_16_bits(tmp_path: Path) -> None:
    package = export("cmake", tmp_path)
    sources = [*sorted((package / "src").glob("*.c")), package / "example" / "main.c"]
    assert "digits: right" in run_on_avr(sources, tmp_path, f"-I{package}/src")


@pytest.mark.needs("gcc", "avr-gcc", "simavr")
def test_fixed_point_arithmetic_is_the_same_where_int_has_16_bits(tmp_path: Path) -> None:
    for header in ("bit_patterns", "fixed_point", "sixteen_bit_floats", "wrapped_integers"):
        text = render(make_environment(), f"network/{header}.h.j2", {"prefix": "any"})
        (tmp_path / f"any_{header}.h").write_text(text)
    source = tmp_path / "fixed.c"
    source.write_text(FIXED_POINT)
    command = ("gcc", "-std=c99", *STRICT, "-fsanitize=undefined", "-fno-sanitize-recover")
    program = compile_c(command, [source], tmp_path, "fixed")
    expected = subprocess.check_output([program], text=True).strip()
    assert expected in run_on_avr([source], tmp_path)


@pytest.mark.needs("gcc", "clang")
@pytest.mark.parametrize("compiler", [["gcc"], ["clang"], ZIG], ids=["gcc", "clang", "zig"])
def test_strict_warnings_find_nothing(tmp_path: Path, compiler: list[str]) -> None:
    package = export("cmake", tmp_path)
    flags = ["-std=c99", "-O1", "-pedantic", *STRICT, "-c", "-o", tmp_path / "unused.o"]
    for source in sorted((package / "src").glob("*.c")):
        run_compiler([*compiler, *map(str, flags), str(source)], tmp_path, tmp_path)


@pytest.mark.needs("gcc")
def test_a_build_places_the_arena(tmp_path: Path) -> None:
    source = export("cmake", tmp_path) / "src" / "digits.c"
    own = '-DDIGITS_ARENA=__attribute__((aligned(16),section(".fast")))'
    for flags, section in (((), ".bss.noinit"), ((own,), ".fast"), (("-D__APPLE__",), ".bss")):
        compiled = compile_c(("gcc", "-c", *flags), [source], tmp_path, "digits.o")
        table = subprocess.check_output(["objdump", "-t", compiled], text=True)
        (arena,) = (line for line in table.splitlines() if line.endswith(" arena"))
        assert section in arena.split()
