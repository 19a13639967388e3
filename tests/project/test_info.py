"""A program can ask the network for its identity; without a call, the linker removes the code."""

from __future__ import annotations

import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from firmwright.project.build_id import list_stating, state_build_id
from firmwright.project.write import write_project
from firmwright.toolchain import Build, load_toolchain
from tests.project.exported import ANY, compile_digits

PROGRAM = """\
#include <stdio.h>
#include "kws.h"
#include "vww.h"

int main(void)
{
    const kws_network_info *one = kws_info();
    const vww_network_info *two = vww_info();

    printf("%s %s %s %s\\n", one->name, one->build_id, one->model_sha256, one->recipe_sha256);
    printf("%s %s %s %s\\n", two->name, two->build_id, two->model_sha256, two->recipe_sha256);
    return 0;
}
"""
SILENT = """\
#include "kws.h"

int main(void)
{
    return KWS_INPUTS != 1;
}
"""
WARNINGS = ("-Wall", "-Wextra", "-Wconversion", "-Wshadow", "-pedantic", "-Werror")


def write_network(folder: Path, prefix: str, recipe: str) -> str:
    """Write the digits network's project; return the expected output of its program."""
    network = replace(compile_digits(), name=f"{prefix}-1", c_prefix=prefix, recipe_sha256=recipe)
    write_project(network, Build(load_toolchain("gcc"), ANY), folder)
    build_id = state_build_id(folder, list_stating(prefix), "")
    return f"{prefix}-1 {build_id} {network.interface.sha256} {recipe}"


@pytest.mark.needs("gcc", "g++", "clang")
@pytest.mark.parametrize("c", ["gcc", "clang"])
@pytest.mark.parametrize("language", ["c", "c++"])
def test_each_network_of_a_program_tells_its_own(tmp_path: Path, c: str, language: str) -> None:
    digests = {"kws": "0123456789abcdef" * 4, "vww": ""}
    expected = [write_network(tmp_path / name, name, digests[name]) for name in digests]
    (tmp_path / "program.c").write_text(PROGRAM)
    folders = [f"-I{name}/network" for name in digests]
    objects = [f"{name}.o" for name in ("program", *digests)]
    for source, folder in (("kws", "kws"), ("vww", "vww")):
        command = [c, "-std=c99", *WARNINGS, *folders, "-c", f"{folder}/network/{source}_info.c"]
        subprocess.run([*command, "-o", f"{source}.o"], cwd=tmp_path, check=True)
    compiler = [c, "-std=c99"] if language == "c" else ["g++", "-std=c++17", "-xc++"]
    command = [*compiler, *WARNINGS, *folders, "-c", "program.c", "-o", "program.o"]
    subprocess.run(command, cwd=tmp_path, check=True)
    subprocess.run(["gcc", *objects, "-o", "program"], cwd=tmp_path, check=True)
    recorded = subprocess.run([tmp_path / "program"], capture_output=True, text=True, check=True)
    assert recorded.stdout.splitlines() == expected


@pytest.mark.needs("gcc")
def test_it_takes_no_ram_and_nothing_where_nobody_asks(tmp_path: Path) -> None:
    digest = "0123456789abcdef" * 4
    write_network(tmp_path, "kws", digest)
    flags = ["-std=c99", "-O2", "-fdata-sections", "-ffunction-sections", "-Inetwork"]
    found = {}
    for name, text in (
        ("silent", SILENT),
        ("asking", SILENT.replace("KWS_INPUTS", "*kws_info()->name")),
    ):
        (tmp_path / f"{name}.c").write_text(text)
        command = ["gcc", *flags, "-Wl,--gc-sections", f"{name}.c", "network/kws_info.c"]
        subprocess.run([*command, "-o", name], cwd=tmp_path, check=True)
        found[name] = digest.encode() in (tmp_path / name).read_bytes()
    assert found == {"silent": False, "asking": True}
    command = ["gcc", *flags, "-c", "network/kws_info.c", "-o", "info.o"]
    subprocess.run(command, cwd=tmp_path, check=True)
    listed = subprocess.run(["nm", "info.o"], cwd=tmp_path, capture_output=True, text=True)
    assert {line.split()[1] for line in listed.stdout.splitlines()} == {"T", "r"}
