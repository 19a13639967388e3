"""A network in the caller's arena: no static state, several instances, errors for bad arenas."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import numpy as np
import pytest

from firmwright.codegen.c_literals import format_c_values
from firmwright.project.export_packages import Package
from tests.project.exported import make_exported

STRICT = ("-std=c99", "-O2", "-Wall", "-Wextra", "-Wconversion", "-Wshadow", "-Werror")

INSTANCES = """\
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "digits.h"

#define RUNS 200

static const int8_t expected[] = {{ {expected} }};
static const int8_t image[] = {{ {image} }};
static uint8_t arenas[2][DIGITS_WORKSPACE_SIZE]
    __attribute__((aligned(DIGITS_WORKSPACE_ALIGNMENT)));

/* Runs an instance in the arena that it is given; returns it if a result is wrong. */
static void *use(void *arena)
{{
    digits_context context;
    void *wrong = digits_init(&context, arena, DIGITS_WORKSPACE_SIZE) == 0 ? NULL : arena;

    for (int i = 0; i < RUNS; i++) {{
        int8_t scores[sizeof expected];
        const digits_inputs inputs = {{ image }};
        digits_outputs outputs = {{ scores }};
        if (digits_run(&context, &inputs, &outputs) != 0) {{
            wrong = arena;
        }}
        if (memcmp(scores, expected, sizeof scores) != 0) {{
            wrong = arena;
        }}
    }}
    return wrong;
}}

int main(void)
{{
    pthread_t other;
    void *wrong = NULL;
    pthread_create(&other, NULL, use, arenas[{second}]);
    const void *mine = use(arenas[0]);
    pthread_join(other, &wrong);
    printf("%s\\n", mine || wrong ? "wrong" : "right");
    return 0;
}}
"""

MISTAKES = """\
#include <stdio.h>

#include "digits.h"

int main(void)
{
    static uint8_t arena[2 * DIGITS_WORKSPACE_SIZE] __attribute__((aligned(64)));
    static const int8_t image[DIGITS_INPUT_IMAGE_ELEMENTS];
    int8_t scores[DIGITS_OUTPUT_SCORES_ELEMENTS];
    const digits_inputs inputs = { image };
    digits_outputs outputs = { scores };
    digits_context cleared = { 0 };
    digits_context context = { arena, 12345u };

#define TELL(call) printf("%d ", (int)(call))
    TELL(digits_run(&cleared, &inputs, &outputs));
    TELL(digits_run(&context, &inputs, &outputs));
    TELL(digits_init(NULL, arena, sizeof arena));
    TELL(digits_init(&context, NULL, sizeof arena));
    TELL(digits_init(&context, arena, DIGITS_WORKSPACE_SIZE - 1));
    TELL(digits_init(&context, arena + 8, DIGITS_WORKSPACE_SIZE));
    TELL(digits_run(&context, &inputs, &outputs));
    TELL(digits_init(&context, arena + DIGITS_WORKSPACE_ALIGNMENT, DIGITS_WORKSPACE_SIZE));
    TELL(digits_run(NULL, &inputs, &outputs));
    TELL(digits_run(&context, NULL, &outputs));
    TELL(digits_run(&context, &inputs, NULL));
    TELL(digits_run(&context, &inputs, &outputs));
    return 0;
}
"""


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Package:
    return make_exported(tmp_path_factory.mktemp("digits"), caller_arena=True)


def compile_and_run(package: Package, text: str, folder: Path, *flags: str) -> str:
    """Return the output of a program that uses the network."""
    program = folder / "program.c"
    program.write_text(text)
    sources = [program, *sorted(package.sources.glob("*.c"))]
    command = ["gcc", *STRICT, *flags, f"-I{package.sources}", *map(str, sources), "-lm"]
    subprocess.run([*command, "-pthread", "-o", folder / "a.out"], check=True)
    ran = subprocess.run([folder / "a.out"], capture_output=True, text=True, timeout=120)
    return ran.stdout + ran.stderr


def write_instances(package: Package, second: int) -> str:
    """Return a program of two instances, the second in the arena of this number."""
    sample = package.networks[0].sample
    expected = format_c_values(np.asarray(sample["output_0"]))
    image = format_c_values(np.asarray(sample["input_0"]))
    return INSTANCES.format(expected=expected, image=image, second=second)


@pytest.mark.needs("gcc")
def test_two_instances_in_two_threads_are_exact(package: Package, tmp_path: Path) -> None:
    text = write_instances(package, second=1)
    assert compile_and_run(package, text, tmp_path, "-fsanitize=thread") == "right\n"


@pytest.mark.needs("gcc")
def test_a_shared_arena_is_found_by_the_sanitizer(package: Package, tmp_path: Path) -> None:
    """This shows that the test above can fail."""
    text = write_instances(package, second=0)
    assert "data race" in compile_and_run(package, text, tmp_path, "-fsanitize=thread")


@pytest.mark.needs("gcc")
def test_mistakes_with_arena_and_context_are_told(package: Package, tmp_path: Path) -> None:
    found = compile_and_run(package, MISTAKES, tmp_path, "-fsanitize=address,undefined")
    assert found.split() == "-4 -4 -1 -1 -2 -3 -4 0 -1 -1 -1 0".split()


@pytest.mark.needs("gcc")
@pytest.mark.parametrize("caller_arena", [False, True])
def test_only_a_static_arena_is_state(tmp_path: Path, caller_arena: bool) -> None:
    package = make_exported(tmp_path, caller_arena=caller_arena)
    sources = sorted(package.sources.glob("*.c"))
    subprocess.run(["gcc", "-c", *STRICT, *sources], cwd=tmp_path, check=True)
    objects = sorted(tmp_path.glob("*.o"))
    listed = subprocess.run(["nm", *objects], capture_output=True, text=True, check=True).stdout
    state = set(re.findall(r"^[0-9a-f]+ [bBdDsScC] (\w+)$", listed, re.MULTILINE))
    assert state == (set() if caller_arena else {"arena"})
