"""Static analyzers of C report no findings for a generated project.

The network is in a slot, so that the analyzers also read the loader.
"""

from __future__ import annotations

import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from firmwright.project.slot import NetworkSlot
from firmwright.project.write import write_project
from firmwright.toolchain import Build, load_toolchain
from tests.project.exported import ANY, compile_digits
from tests.project.test_portable_c import STRICT

INCLUDE = ("-Inetwork", "-Iboard")
PASSED_OVER = (
    "bugprone-easily-swappable-parameters",  # a kernel's inputs are pointers of one type
    "bugprone-implicit-widening-of-multiplication-result",  # no tensor has 2^31 elements
    "bugprone-narrowing-conversions",  # rounded floats remain after -Wconversion
    "bugprone-signed-char-misuse",  # int8_t is a number here
    "cert-str34-c",  # int8_t is a number here
)
"""Rules of clang-tidy that do not apply to this code, each with the reason."""

TIDY = ",".join(["-*", "bugprone-*", "cert-*", "clang-analyzer-*", "portability-*"])
CHECKERS = {
    "gcc": ("gcc", "-std=c99", "-O1", "-fanalyzer", *STRICT, *INCLUDE, "-c"),
    "cppcheck": (
        "cppcheck", "--std=c99", "--enable=warning,performance,portability", "--quiet",
        "--error-exitcode=1", *INCLUDE,
        # The headers require an arithmetic shift.
        "--suppress=shiftTooManyBitsSigned",
    ),
    "clang-tidy": (
        "clang-tidy", "--quiet", "--warnings-as-errors=*",
        f"--checks={','.join([TIDY, *(f'-{rule}' for rule in PASSED_OVER)])}",
    ),
}  # fmt: skip


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("analysis")
    slot = NetworkSlot(0x200000, 65536, "1.0.0", 1, None)
    network = replace(compile_digits(), caller_arena=True, slot=slot)
    write_project(network, Build(load_toolchain("gcc"), ANY), folder)
    return folder


def check(checker: str, project: Path, *sources: Path) -> subprocess.CompletedProcess[str]:
    words = [*CHECKERS[checker], *(str(path.relative_to(project)) for path in sources)]
    words += ["--", "-std=c99", *INCLUDE] if checker == "clang-tidy" else []
    return subprocess.run(words, cwd=project, capture_output=True, text=True)


@pytest.mark.needs("gcc", "cppcheck", "clang-tidy")
@pytest.mark.parametrize("checker", CHECKERS)
def test_a_generated_project_has_no_findings(project: Path, checker: str) -> None:
    folders = ("demo", "loader", "network")
    sources = sorted(path for folder in folders for path in (project / folder).glob("*.c"))
    assert len(sources) > 5
    done = check(checker, project, *sources)
    assert done.returncode == 0, done.stdout + done.stderr


WRONG = """\
#include <stddef.h>

int read_behind(const int *given);

int read_behind(const int *given)
{
    const int own[2] = {1, 2};

    return given == NULL ? given[0] : own[2];
}
"""


@pytest.mark.needs("gcc", "cppcheck", "clang-tidy")
@pytest.mark.parametrize("checker", CHECKERS)
def test_a_fault_is_found(project: Path, checker: str) -> None:
    """This shows that the test above can fail."""
    wrong = project / "wrong.c"
    wrong.write_text(WRONG)
    assert check(checker, project, wrong).returncode != 0
