"""The call from the Arm cores to the C7x: two processes, and all their possible errors."""

from __future__ import annotations

import os
import re
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest
from tvm import relax

from firmwright.codegen.templates import make_environment, render
from firmwright.emulator.execution import EXIT_TRAP
from firmwright.project.project_files import file_name, list_templates
from firmwright.toolchain import Build, load_platform, load_toolchain
from firmwright.verify.protocol import encode_samples
from tests.networks.firmware import executed, link_network, lowered

from .graphs import network, numbers, samples

CALL = "c7x/call"
TEMPLATES = (*list_templates(CALL), *list_templates(f"{CALL}/posix"), "runtime/fw_hal.h.j2",
             "boards/posix/fw_hal.c.j2")  # fmt: skip
GONE, TIMEOUT, OTHER_PROTOCOL, OTHER_NETWORK, OTHER_BUILD, NO_MEMORY = -3, -4, -6, -7, -8, -9

# Command 1 adds 1 to each of 100 bytes. The other commands are failures of a C7x.
PROGRAM = r"""
#define _GNU_SOURCE
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
#include "fw_c7x_call.h"
#include "fw_hal.h"

#ifndef MODULE
#define MODULE {"network", "build", 256}
#endif
const fw_c7x_identity fw_c7x_module = MODULE;
static int calls; /* of this process */

int32_t fw_c7x_serve(uint32_t command, uint8_t *memory)
{
    calls++;
    switch (command) {
    case 1:
        for (int i = 0; i < 100; i++) {
            memory[128 + i] = (uint8_t)(memory[i] + 1);
        }
        return 0;
    case 2:
        for (;;) {
            (void)pause();
        }
    case 3:
        (void)kill(getpid(), SIGKILL);
        return 0;
    case 4:
        fw_hal_exit(FW_EXIT_TRAP);
    default:
        return -1;
    }
}

static int32_t call(uint32_t command, uint8_t first)
{
    static const fw_c7x_identity caller = {"network", "build", 256};
    uint8_t given[100], got[100];
    const fw_c7x_input input = {given, sizeof given};
    const fw_c7x_output output = {got, sizeof got};
    const fw_c7x_message message = {command, 1, &input, 1, &output};
    for (int i = 0; i < 100; i++) {
        given[i] = (uint8_t)(first + i);
    }
    int32_t status = fw_c7x_call(&caller, &message);
    for (int i = 0; i < 100 && status == 0 && command == 1; i++) {
        status = got[i] == (uint8_t)(first + i + 1) ? 0 : 99;
    }
    printf("%d ", (int)status);
    return status;
}

int main(int argc, char **argv)
{
    for (int i = 1; i < argc; i++) {
        (void)call((uint32_t)atoi(argv[i]), (uint8_t)(10 * i));
    }
    fw_c7x_stop();
    printf("%d\n", calls);
    return 0;
}
"""


def compile_program(
    folder: Path,
    flags: tuple[str, ...] = (),
    compiler: str = "gcc",
    edit: Callable[[str, str], str] = lambda text, _: text,
) -> Path:
    """Compile both sides with the program above; ``edit`` changes a file's text by its name."""
    variables = {"network": SimpleNamespace(devices=("tidl",))}
    files = {file_name(t): render(make_environment(), t, variables) for t in TEMPLATES}
    for name, text in {**files, "program.c": PROGRAM}.items():
        (folder / name).write_text(edit(text, name))
    sources = sorted(path.name for path in folder.glob("*.c"))
    wanted = ("-std=c99", "-O1", "-Wall", "-Wextra", "-Werror", "-DFW_C7X_TIMEOUT_MS=500u")
    command = [compiler, *wanted, *flags, "-o", "program", *sources]
    subprocess.run(command, cwd=folder, check=True)
    return folder / "program"


def run_program(program: Path, *commands: int) -> tuple[int, list[int]]:
    """Return the exit code, the status of each call, and the calls that the Arm side served."""
    words = [str(program), *map(str, commands)]
    ran = subprocess.run(words, capture_output=True, text=True, check=False, timeout=60)
    return ran.returncode, [int(word) for word in ran.stdout.split()]


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return compile_program(tmp_path_factory.mktemp("call"))


@pytest.mark.needs("gcc")
def test_the_other_process_serves_the_calls(program: Path) -> None:
    assert run_program(program, 1, 1, 1) == (0, [0, 0, 0, 0])


@pytest.mark.needs("gcc")
@pytest.mark.parametrize(
    ("command", "status"), [(2, TIMEOUT), (3, GONE), (5, -1)], ids=["hangs", "killed", "refuses"]
)
def test_what_the_c7x_does_wrong_is_a_status(program: Path, command: int, status: int) -> None:
    after = 0 if status == -1 else status  # a lost connection stays lost
    assert run_program(program, 1, command, 1) == (0, [0, status, after, 0])


@pytest.mark.needs("gcc")
def test_a_fault_of_the_emulated_c7x_ends_both(program: Path) -> None:
    assert run_program(program, 1, 4, 1)[0] == EXIT_TRAP


@pytest.mark.needs("gcc")
@pytest.mark.parametrize(
    ("module", "status"),
    [
        ('{"other", "build", 256}', OTHER_NETWORK),
        ('{"network", "other", 256}', OTHER_BUILD),
        ('{"network", "build", 512}', NO_MEMORY),
    ],
)
def test_a_module_that_is_not_the_programs_is_refused(
    module: str, status: int, tmp_path: Path
) -> None:
    program = compile_program(tmp_path, (f"-DMODULE={module}",))
    assert run_program(program, 1, 1) == (0, [status, status, 0])


@pytest.mark.needs("gcc")
def test_another_version_of_the_protocol_is_refused(tmp_path: Path) -> None:
    def edit(text: str, name: str) -> str:
        newer = name == "fw_c7x_service.c"
        return text.replace("FW_C7X_VERSION", "2u") if newer else text

    program = compile_program(tmp_path, edit=edit)
    assert run_program(program, 1) == (0, [OTHER_PROTOCOL, 0])


@pytest.mark.needs("gcc")
@pytest.mark.parametrize("side", ["fw_c7x_call.c", "fw_c7x_service.c"])
@pytest.mark.parametrize("step", ["write_back", "invalidate"])
def test_without_any_one_step_of_cache_maintenance_results_are_wrong(
    side: str, step: str, tmp_path: Path
) -> None:
    def edit(text: str, name: str) -> str:
        if name != side:
            return text
        edited, found = re.subn(rf"fw_transport_{step}\(.*\);", ";", text)
        assert found == 1
        return edited

    program = compile_program(tmp_path, edit=edit)
    assert run_program(program, 1, 1) == (0, [99, 99, 0])


@pytest.mark.needs("aarch64-linux-gnu-gcc", "qemu-aarch64")
def test_both_processes_run_in_qemu(tmp_path: Path) -> None:
    program = compile_program(tmp_path, ("-static",), "aarch64-linux-gnu-gcc")
    launcher = tmp_path / "launcher"
    launcher.write_text(f'#!/bin/sh\nexec qemu-aarch64 {program} "$@"\n')
    launcher.chmod(0o755)
    assert run_program(launcher, 1, 3, 1) == (0, [0, GONE, GONE, 0])


SHAPE = (1, 8, 16, 16)
SUM = network({SHAPE: (relax.op.add, numbers(1, *SHAPE))})


@pytest.mark.needs("gcc")
def test_a_network_whose_c7x_is_killed_in_the_middle_says_so(tmp_path: Path) -> None:
    made = lowered(SUM, "relax", target="c7x")
    build = Build(load_toolchain("gcc"), load_platform("host"))
    elf = link_network(made, build, tmp_path, tmp_path / "cache")
    given = encode_samples(made.interface.inputs, samples([SHAPE]))
    half = 4 + (len(given) - 4) // 2
    with subprocess.Popen([elf], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as arm:
        assert arm.stdin is not None
        arm.stdin.write(given[:half])
        arm.stdin.flush()
        children = Path(f"/proc/{arm.pid}/task/{arm.pid}/children")
        while not (found := children.read_text().split()):
            assert arm.poll() is None
        os.kill(int(found[0]), signal.SIGKILL)
        console = arm.communicate(given[half:], timeout=60)[0].decode()
    assert arm.returncode == 1
    assert console.splitlines()[-2:] == ["@status 3", "@fault the C7x's side has ended"]


@pytest.mark.needs("gcc")
def test_a_module_of_another_network_stops_the_program(tmp_path: Path) -> None:
    def edit(sources: Path) -> None:
        module = sources / "network/network_c7x_module.c"
        text = module.read_text()
        digest = made.interface.sha256[:16]
        assert digest in text
        module.write_text(text.replace(digest, "0" * 16))

    made = lowered(SUM, "relax", target="c7x")
    execution = executed(made, samples([SHAPE]), tmp_path, edit=edit)
    assert execution.exit_code == 1
    assert b"@fault the C7x's module was built for another network\n" in execution.console
