"""Builds the simulator: Verilator translates the RTL to C++, and g++ compiles the C++.

A build needs 5 to 15 seconds of processor time. The user's cache stores the result under a digest
of all inputs.
"""

from __future__ import annotations

import hashlib
import os
import platform
import re
import subprocess
import tempfile
from collections.abc import Iterator
from functools import cache
from importlib.metadata import version
from importlib.resources import files
from importlib.util import find_spec
from pathlib import Path

from firmwright.emulator.native_library import find_folder
from firmwright.emulator.rtl.cores import RtlCore
from firmwright.errors import UserError, describe_exit
from firmwright.system import lock_file
from firmwright.toolchain.built_files import find_kept, keep

SOURCES = ("simulator.cpp", "machine.h", "obi.h")
"""The sources of every simulator. The file ``core.h`` is the file of its core."""

FLAGS = (
    *("--cc", "--exe", "--build", "-O3", "--prefix", "Vcore", "--noassert"),
    *("--x-assign", "fast", "--x-initial", "fast"),
    *("-Wno-fatal", "-Wno-lint", "-Wno-style", "-Wno-BLKANDNBLK", "-Wno-ENUMVALUE"),
    *("-MAKEFLAGS", "OPT_FAST=-O3 OPT_SLOW=-O0"),
)
"""The arguments of Verilator for every core, without files."""


VARIABLES = ("CPPFLAGS", "CXXFLAGS", "LDFLAGS", "LDLIBS")
"""Variables of the environment that Verilator's makefile adds to its flags."""


def prepare_simulator(core: RtlCore, parameters: tuple[str, ...]) -> tuple[Path, bool]:
    """Return the simulator, and whether this call built it.

    If several processes call this function at the same time, one process builds. Raises UserError
    if Verilator or g++ fails.
    """
    folder = find_folder()
    with (folder / f"{core.emulator}.lock").open("w") as lock:
        lock_file(lock)
        rtl = list_rtl(core)
        sources = read_sources(core)
        arguments = [*FLAGS, "--top-module", core.top, *(f"-G{given}" for given in parameters)]
        facts = [version(core.package), *arguments]
        stem = f"{core.emulator}-{compute_key(rtl, sources, facts)}"
        if kept := find_kept(folder, stem, ""):
            return kept, False
        with tempfile.TemporaryDirectory(dir=folder, prefix=f"{core.emulator}-") as work:
            for name, content in sources.items():
                Path(work, name).write_bytes(content)
            built = build_simulator(core, rtl, arguments, Path(work))
            return keep(built, folder, stem, ""), True


def read_sources(core: RtlCore) -> dict[str, bytes]:
    """Return the content of the simulator's sources by file name."""
    observed = [
        f'public_flat_rd -module "{module}" -var "{signal}"\n'
        for module, signals in core.observed.items()
        for signal in signals
    ]
    folder = files("firmwright.emulator.rtl")
    sources = {name: folder.joinpath(name).read_bytes() for name in SOURCES}
    sources["core.h"] = folder.joinpath(f"{core.emulator}.h").read_bytes()
    sources["observed.vlt"] = f"`verilator_config\n{''.join(observed)}".encode()
    return sources


def compute_key(rtl: list[Path], sources: dict[str, bytes], facts: list[str]) -> str:
    tools = [ask("verilator", "--version"), ask("g++", "--version"), platform.machine()]
    key = hashlib.sha256("\0".join([*tools, *facts]).encode())
    headers = sorted(
        Path(ask("verilator", "--getenv", "VERILATOR_ROOT")).glob("include/verilated*")
    )
    for content in (*sources.values(), *(path.read_bytes() for path in (*headers, *rtl))):
        key.update(hashlib.sha256(content).digest())
    return key.hexdigest()[:16]


def build_simulator(core: RtlCore, rtl: list[Path], arguments: list[str], work: Path) -> Path:
    includes = [f"-I{find_rtl(core) / name}" for name in core.includes]
    command = ["verilator", *arguments, *includes]
    command += ["--Mdir", str(work / "made"), "-o", "simulator", "-CFLAGS", f"-I{work}"]
    command += [str(work / "observed.vlt"), *map(str, rtl), str(work / "simulator.cpp")]
    environment = {name: text for name, text in os.environ.items() if name not in VARIABLES}
    done = subprocess.run(
        command, cwd=work, env=environment, capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        lines = [line for line in (done.stdout + done.stderr).splitlines() if "rror" in line]
        first = lines[0] if lines else "no message"
        raise UserError(
            f"Verilator {read_verilator_version()} cannot build the simulator of {core.package} "
            f"{version(core.package)}: {first}; use Verilator 5, and install the tested RTL: "
            f"python -m pip install {core.package}=={core.version}"
        )
    return work / "made/simulator"


def list_rtl(core: RtlCore) -> list[Path]:
    """Return the Verilog files of the core in the order of the compilation.

    Raises UserError if a file is missing.
    """
    folder = find_rtl(core)
    listed = [folder / core.listed] if core.listed else []
    rtl = [folder / name for name in core.files]
    for path in listed:
        rtl += [*read_list(core, path.read_text("utf-8"))] if path.is_file() else []
    for path in (*listed, *rtl):
        if not path.is_file():
            remedy = f"python -m pip install --force-reinstall {core.package}"
            raise UserError(f"{path}: no such file; install the package again: {remedy}")
    return rtl


def read_list(core: RtlCore, text: str) -> Iterator[Path]:
    """Yield the Verilog files of a list."""
    folder = find_rtl(core)
    for line in text.splitlines():
        for variable, value in core.variables.items():
            line = line.replace(f"${{{variable}}}", value)
        path = folder / line.strip()
        if path.suffix == ".sv" and path.name not in core.omitted:
            yield path
        if core.last and path.name == core.last:
            return


def find_rtl(core: RtlCore) -> Path:
    spec = find_spec(core.module)
    assert spec is not None and spec.origin is not None  # the caller checks the package
    return Path(spec.origin).parent / core.folder


def read_verilator_version() -> str:
    match = re.search(r"Verilator (\S+)", ask("verilator", "--version"))
    return match[1] if match else "unknown"


@cache
def ask(program: str, *arguments: str) -> str:
    """Return the output of a program. Raises UserError if the program fails."""
    command = [program, *arguments]
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, errors="replace", check=False
        )
    except OSError as error:
        problem = f"cannot be started: {error.strerror}"
    else:
        if done.returncode == 0:
            return done.stdout.strip()
        shown = next(iter(done.stderr.strip().splitlines()), "no message")
        problem = f"ended with {describe_exit(done.returncode)}: {shown}"
    raise UserError(
        f"`{' '.join(command)}` {problem}; install it again: apt-get install --reinstall {program}"
    )
