"""Runs a firmware in QEMU, which is a second emulator for one ELF file, if QEMU is installed."""

from __future__ import annotations

import importlib.resources
import re
import shutil
import subprocess
import tempfile
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

from firmwright.emulator.execution import EXIT_TRAP, Execution, Run, time_limit
from firmwright.emulator.native import run_program
from firmwright.emulator.native_library import build_library
from firmwright.emulator.native_process import run_process
from firmwright.errors import UserError, describe_exit
from firmwright.toolchain import Platform, Qemu

DEBIAN_PACKAGES = {
    "qemu-aarch64": "qemu-user",
    "qemu-riscv64": "qemu-user",
    "qemu-system-arm": "qemu-system-arm",
    "qemu-system-riscv32": "qemu-system-misc",
}
FAULT_BITS = {
    0: "fetch that the memory protection rejects",
    1: "access that the memory protection rejects",
    8: "fetch from an address without memory",
    9: "access to an address without memory",
    10: "earlier access to an address without memory",
    12: "stack outside the memory",
    16: "undefined instruction",
    17: "jump to an address without the Thumb bit",
    19: "instruction of a coprocessor that is off or missing",
    20: "stack overflow",
    24: "unaligned access",
    25: "division by zero",
}
"""The bits of the Configurable Fault Status Register of Arm's Armv7-M and Armv8-M manuals."""
_TRAP = re.compile(rb"@trap cause=(0x[0-9a-f]+) pc=(0x[0-9a-f]+) address=(0x[0-9a-f]+)")


def run_in_qemu(run: Run) -> Execution:
    """Run the firmware in QEMU, and count instructions if QEMU has plugins."""
    qemu, program = find_qemu(run.platform)
    version = read_qemu_version(program)
    command = [program, *qemu.arguments, "-kernel", str(run.firmware.path.resolve())]
    for other in run.firmware.beside:
        command += ["-device", f"loader,file={other.resolve()}"]
    command += ["-display", "none", "-monitor", "none", "-serial", "stdio"]

    def run_machine(options: Sequence[str]) -> Execution:
        return _run_machine(run, [*command, *options], f"qemu {version}")

    return _count(run, program, version, run_machine)


def _run_machine(run: Run, command: Sequence[str], emulator: str) -> Execution:
    limit = time_limit(run.budget)
    try:
        process = run_process(command, run.console_input, limit, stderr=subprocess.PIPE)
    except subprocess.TimeoutExpired as error:
        raise UserError(
            f"{run.firmware.path}: the firmware did not exit within {limit} seconds; check custom "
            "code for an endless loop or for a read of more console input"
        ) from error
    _refuse_traps(run, process)
    return Execution(emulator, process.returncode, process.stdout)


def run_in_qemu_user(run: Run) -> Execution:
    """Run a Linux program in QEMU. The kernel of this machine executes its system calls.

    Instructions are counted if QEMU has plugins and the program has symbols. Programs of zig have
    no symbols, because zig's linker strips the symbols together with the data that differs between
    runs.
    """
    qemu, program = find_qemu(run.platform)
    version = read_qemu_version(program)

    def run_linux(options: Sequence[str]) -> Execution:
        return run_program(run, (program, *qemu.arguments, *options), f"qemu-user {version}")

    return _count(run, program, version, run_linux)


def _count(
    run: Run, program: str, version: str, execute: Callable[[Sequence[str]], Execution]
) -> Execution:
    """Run with QEMU's options for instruction counts if possible, or without options."""
    if not run.firmware.symbols.functions or not takes_plugins(program):
        return execute(())
    with tempfile.TemporaryDirectory() as folder:
        counter = QemuCounter(run, load_plugin(version), Path(folder, "counts"))
        execution = execute(counter.arguments)
        by_symbol, by_part = counter.read_counts()
    instructions = sum(by_symbol.values())
    return replace(execution, instructions=instructions, by_symbol=by_symbol, by_part=by_part)


@cache
def takes_plugins(program: str) -> bool:
    shown = subprocess.run([program, "--help"], capture_output=True, text=True, check=True)
    return "-plugin" in shown.stdout


def find_qemu(platform: Platform) -> tuple[Qemu, str]:
    """Return the platform's `qemu` entry and the path of the program.

    Raises UserError if the entry or the program is missing.
    """
    qemu = platform.qemu
    if qemu is None:
        raise UserError(
            f"platform {platform.name}: the key `qemu` with its machine is missing; add it"
        )
    program = shutil.which(qemu.program)
    if program is None:
        raise UserError(explain_missing_qemu(qemu, platform))
    return qemu, program


def explain_missing_qemu(qemu: Qemu, platform: Platform) -> str:
    package = DEBIAN_PACKAGES.get(qemu.program, "qemu-system")
    known = "unicorn" in platform.emulators
    instead = " (the emulator 'unicorn' needs no installation)" if known else ""
    return f"{qemu.program} is not installed; it is in the Debian package {package}{instead}"


def _refuse_traps(run: Run, process: subprocess.CompletedProcess[bytes]) -> None:
    path = run.firmware.path
    trap = _TRAP.search(process.stdout)
    if process.returncode == EXIT_TRAP and trap:
        cause, pc, address = (int(number, 16) for number in trap.groups())
        raise UserError(
            f"{path}: processor exception, cause {cause:#x}{name_faults(run.platform, cause)}, "
            f"address {address:#010x}; at {run.firmware.symbols.describe_address(pc)}"
        )
    # QEMU itself failed. Code 1 without a message is the firmware's exit code.
    if process.returncode < 0 or (process.returncode == 1 and process.stderr):
        message, *_ = (
            process.stderr.decode("utf-8", "replace").strip().split("\n\n")
        )  # excludes the dump of registers
        raise UserError(
            f"{path}: QEMU failed with {describe_exit(process.returncode)}: {message}\n"
            f"{advise_on_memories(run.platform)}"
        )


def name_faults(platform: Platform, cause: int) -> str:
    """Return the names of the causes in parentheses after a space, or '' without known causes."""
    if platform.architecture.startswith("cortex-m"):
        named = [name for bit, name in FAULT_BITS.items() if cause >> bit & 1]
    else:
        from firmwright.emulator.qemu_virt_rv32 import CAUSES

        named = [CAUSES[cause]] if cause in CAUSES else []
    return f" ({', '.join(named)})" if named else ""


def advise_on_memories(platform: Platform) -> str:
    """Return advice on the platform's memories, because QEMU's machines have fixed memories."""
    placed = [f"{name} at {memory.origin:#010x}" for name, memory in platform.memories.items()]
    other = (
        "; the emulator 'unicorn' supports any address" if "unicorn" in platform.emulators else ""
    )
    return f"the platform has {', '.join(placed)}: QEMU's machine needs memory there{other}"


def read_qemu_version(program: str) -> str:
    shown = subprocess.run([program, "--version"], capture_output=True, text=True, check=True)
    match = re.search(r"version (\S+)", shown.stdout)
    return match[1] if match else "unknown"


def load_plugin(qemu_version: str) -> Path:
    source = "qemu_counter.c"
    content = importlib.resources.files("firmwright.emulator").joinpath(source).read_bytes()
    interface = 1 if int(qemu_version.partition(".")[0]) < 9 else 2
    text = f"#define PLUGIN_VERSION {interface}\n".encode() + content
    return build_library("qemu_counter", {source: text})


@dataclass(frozen=True)
class QemuCounter:
    """The instructions of the counted function and its parts, from the files of QEMU's plugin.

    Each process of the program writes one file, whose name begins with ``output``.
    """

    run: Run
    plugin: Path
    output: Path

    @property
    def arguments(self) -> tuple[str, ...]:
        address_of = self.run.firmware.symbols.address_of
        options = [
            str(self.plugin.resolve()),
            f"function={address_of(self.run.counted)}",
            *(f"part={address_of(name)}" for name in self.run.parts),
            f"output={self.output}",
        ]
        return ("-plugin", ",".join(option.replace(",", ",,") for option in options))

    def read_counts(self) -> tuple[dict[str, int], tuple[int, ...]]:
        symbols: Counter[str] = Counter()
        parts = [0] * len(self.run.parts)
        files = self.output.parent.glob(f"{self.output.name}.*")
        for line in (line for file in files for line in file.read_text("ascii").splitlines()):
            kind, key, count = line.split()
            if kind == "block":
                symbols[self.run.firmware.symbols.name_at(int(key))] += int(count)
            else:
                parts[int(key)] += int(count)
        return dict(sorted(symbols.items())), tuple(parts)
