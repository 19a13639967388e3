"""Builds the simulator: Verilator translates the RTL to C++, and g++ compiles the C++.

A build needs about 15 seconds of CPU time. The user's cache stores the result under a digest of all
inputs.
"""

from __future__ import annotations

import hashlib
import os
import platform
import re
import subprocess
import tempfile
from functools import cache
from importlib.resources import files
from importlib.util import find_spec
from pathlib import Path

from firmwright.emulator.native_library import find_folder
from firmwright.errors import UserError, describe_exit
from firmwright.system import lock_file
from firmwright.toolchain.built_files import find_kept, keep

PACKAGE, TESTED_VERSION = "pythondata-cpu-cv32e40p", "1.0.1.post1909"
"""The package with the RTL, and the version that firmwright's tests use."""

SOURCES = ("simulator.cpp", "observed.vlt")
TOP = "cv32e40p_top"

FLAGS = (
    *("--cc", "--exe", "--build", "-O3", "--top-module", TOP, "--noassert"),
    *("--x-assign", "fast", "--x-initial", "fast"),
    *("-Wno-fatal", "-Wno-lint", "-Wno-style", "-Wno-BLKANDNBLK"),
    *("-MAKEFLAGS", "OPT_FAST=-O3 OPT_SLOW=-O0"),
)
"""The arguments of Verilator, without files and without the parameters of the core."""


VARIABLES = ("CPPFLAGS", "CXXFLAGS", "LDFLAGS", "LDLIBS")
"""Variables of the environment that Verilator's makefile adds to its flags."""


def prepare_simulator(parameters: tuple[str, ...]) -> tuple[Path, bool]:
    """Return the simulator, and whether this call built it.

    If several processes call this function at the same time, one process builds. Raises UserError
    if Verilator or g++ fails.
    """
    folder = find_folder()
    with (folder / "cv32e40p.lock").open("w") as lock:
        lock_file(lock)
        rtl = list_rtl()
        stem = f"cv32e40p-{compute_key(rtl, parameters)}"
        if kept := find_kept(folder, stem, ""):
            return kept, False
        with tempfile.TemporaryDirectory(dir=folder, prefix="cv32e40p-") as work:
            built = build_simulator(rtl, parameters, Path(work))
            return keep(built, folder, stem, ""), True


def compute_key(rtl: list[Path], parameters: tuple[str, ...]) -> str:
    facts = [ask("verilator", "--version"), ask("g++", "--version"), platform.machine()]
    facts += [*FLAGS, *parameters]
    key = hashlib.sha256("\0".join(facts).encode())
    headers = sorted(
        Path(ask("verilator", "--getenv", "VERILATOR_ROOT")).glob("include/verilated*")
    )
    contents = [read_source(name) for name in SOURCES]
    contents += [path.read_bytes() for path in (*headers, *rtl)]
    for content in contents:
        key.update(hashlib.sha256(content).digest())
    return key.hexdigest()[:16]


def build_simulator(rtl: list[Path], parameters: tuple[str, ...], work: Path) -> Path:
    for name in SOURCES:
        (work / name).write_bytes(read_source(name))
    includes = sorted(
        {f"-I{path.parent}" for path in rtl if path.suffix == ".svh"}
        | {f"-I{find_rtl() / name}" for name in ("rtl/include", "bhv", "bhv/include")}
    )
    given = [f"-G{parameter}" for parameter in parameters]
    command = [
        "verilator",
        *FLAGS,
        *given,
        *includes,
        "--Mdir",
        str(work / "made"),
        "-o",
        "simulator",
    ]
    command += [str(work / "observed.vlt"), *map(str, rtl), str(work / "simulator.cpp")]
    environment = {name: text for name, text in os.environ.items() if name not in VARIABLES}
    done = subprocess.run(
        command, cwd=work, env=environment, capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        lines = [line for line in (done.stdout + done.stderr).splitlines() if "rror" in line]
        first = lines[0] if lines else "no message"
        raise UserError(
            f"Verilator cannot build the simulator of CV32E40P: {first}; use Verilator 5 and the "
            "package versions of the extra 'rtl'"
        )
    return work / "made/simulator"


def list_rtl() -> list[Path]:
    """Return the SystemVerilog files in the package's list, in the order of the list.

    Raises UserError if a file is missing.
    """
    folder = find_rtl()
    manifest = folder / "cv32e40p_manifest.flist"
    lines = manifest.read_text("utf-8").splitlines() if manifest.is_file() else []
    names = [line.strip().removeprefix("${DESIGN_RTL_DIR}/") for line in lines]
    named = [folder / "rtl" / name for name in names if name.endswith(".sv")]
    rtl = [path for path in named if not re.search("tb_wrapper|tracer", path.name)]
    for path in (manifest, *rtl):
        if not path.is_file():
            remedy = f"python -m pip install --force-reinstall {PACKAGE}"
            raise UserError(f"{path}: no such file; install the package again: {remedy}")
    return rtl


def find_rtl() -> Path:
    spec = find_spec("pythondata_cpu_cv32e40p")
    assert spec is not None and spec.origin is not None  # the caller checks the package
    return Path(spec.origin).parent / "system_verilog"


def read_source(name: str) -> bytes:
    return files("firmwright.emulator.cv32e40p").joinpath(name).read_bytes()


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
