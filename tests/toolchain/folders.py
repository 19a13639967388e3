"""Folders of tools that an environment variable names, for the tests."""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest

GCC_NAME = "aarch64-none-linux-gnu"

# The tool records its arguments, and builds a library for this machine from the sources, which can
# be loaded and run. It translates TI's assembly to GNU's.
CL7X = r"""#!{python}
import json, os, re, subprocess, sys
from pathlib import Path

arguments = sys.argv[1:]
root = Path(__file__).resolve().parents[1]
call = {{"program": Path(__file__).name, "arguments": arguments, "folder": os.getcwd(),
        "environment": sorted(os.environ)}}
with (root / ".calls").open("a") as calls:
    calls.write(json.dumps(call) + "\n")
if arguments == ["--compiler_revision"]:
    print("{version}")
elif Path(__file__).name == "cl7x" and "-z" in arguments:
    objects = [word for word in arguments if word.endswith((".obj", ".a"))]
    output = arguments[arguments.index("-o") + 1]
    message = f">> Linked today\n\nOUTPUT FILE NAME:   <{{output}}>\n\nMEMORY\n"
    Path(arguments[arguments.index("-m") + 1]).write_text(message)
    firmware = str(root / "firmware.c")
    command = ["gcc", "-shared", "-fPIC", "-Wl,-z,defs", "-o", output, *objects, firmware, "-lm"]
    subprocess.run(command, check=True)
elif Path(__file__).name == "cl7x":
    output = next(word for word in arguments if word.startswith("--output_file=")).split("=")[1]
    source = Path(arguments[-1])
    if source.suffix == ".asm":
        text = re.sub(r'\.sect .*', '.section .rodata', source.read_text().replace(";", "#"))
        source = Path(output).with_suffix(".s")
        source.write_text(text)
    folders = [word for word in arguments if word.startswith("-I")]
    flags = ["-std=c11", "-O1", "-fPIC", "-Wall", "-Wextra", "-Werror", *folders]
    subprocess.run(["gcc", *flags, "-c", "-o", output, source], check=True)
"""

# Functions of the C7x's firmware that a module calls.
FIRMWARE = """\
static _Alignas(64) unsigned char l2[1 << 19];
void *g_l2_mem_addr = l2;
unsigned g_l2_mem_size = sizeof l2;
int tvm_dsp_dma_copy(int queue, void *to, const void *from, int bytes, int bypass_cache)
{
    return -1;
}
int tvm_dsp_dma_wait(int queue, int in_flight) { return 0; }
"""

RTS = tuple(f"rts{silicon}_le.lib" for silicon in (7100, 7120, 7504, 7524))


def arm64_gcc_folder(folder: Path) -> Path:
    """Make a folder like Arm's toolchain from Debian's cross compiler; skip if it is missing."""
    (folder / "bin").mkdir(parents=True)
    for tool in ("gcc", "as", "ld"):
        program = shutil.which(f"aarch64-linux-gnu-{tool}")
        if program is None:
            pytest.skip(f"aarch64-linux-gnu-{tool} is not installed")
        (folder / "bin" / f"{GCC_NAME}-{tool}").symlink_to(program)
    return folder


def fake_cgt7x_folder(folder: Path, version: str = "4.1.0.LTS") -> Path:
    """Make a folder like TI's, whose tools record their calls; see ``calls``."""
    if shutil.which("gcc") is None:
        pytest.skip("gcc is not installed")
    for part in ("bin", "lib", "include"):
        (folder / part).mkdir(parents=True)
    for tool in ("cl7x", "strip7x"):
        program = folder / "bin" / tool
        program.write_text(CL7X.format(python=sys.executable, version=version))
        program.chmod(0o755)
    (folder / "firmware.c").write_text(FIRMWARE)
    for library in RTS:
        (folder / "lib" / library).touch()
    return folder


def calls(folder: Path) -> list[dict[str, Any]]:
    """Return the recorded calls of the tools of a fake folder, in order."""
    return [json.loads(line) for line in (folder / ".calls").read_text().splitlines()]
