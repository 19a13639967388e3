"""Time TFLite networks with one input on this machine next to LiteRT with XNNPACK.

    python -m tests.benchmarks.host [--rounds 101] [--without-amx] FILE.tflite …

Both engines use one thread on one pinned core, in turn and in a random order. Before that, the
results must equal LiteRT's reference kernels on 20 random inputs. `--without-amx` makes
XNNPACK use its kernels for AVX-512 on machines with AMX.
"""

from __future__ import annotations

import argparse
import ctypes
import datetime
import struct
import subprocess
import sys
import tempfile
from pathlib import Path

from ai_edge_litert.interpreter import OpResolverType

from tests.benchmarks.kernels import (
    Generated,
    Reference,
    check,
    make_library,
    measure,
    name_processor,
    time_row,
)

RECIPE = "name: {name}\nmodel: {model}\nplatform: host\n"


ARCH_PRCTL, REQUEST_FEATURE = 158, 0x1023
"""The number of Linux's system call on x86-64, and the argument that requests AMX."""


def reject_amx() -> None:
    """Make the system call that requests AMX fail in this process.

    Raises OSError if the kernel does not accept the filter.
    """
    load, equal, result = 0x20, 0x15, 0x06
    statements = (
        (load, 0, 0, 0), (equal, 0, 3, ARCH_PRCTL),
        (load, 0, 0, 16), (equal, 0, 1, REQUEST_FEATURE),
        (result, 0, 0, 0x50001), (result, 0, 0, 0x7FFF0000),  # EPERM, or the call is allowed
    )  # fmt: skip
    code = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *s) for s in statements))
    header = struct.pack("HxxxxxxP", len(statements), ctypes.addressof(code))
    prctl = ctypes.CDLL(None, use_errno=True).prctl
    # PR_SET_NO_NEW_PRIVS, and PR_SET_SECCOMP with a filter
    if prctl(38, 1, 0, 0, 0) or prctl(22, 2, header, 0, 0):
        raise OSError(ctypes.get_errno(), "the filter of system calls was rejected")


def build_host(model: Path, folder: Path) -> Path:
    """Build a network for this machine; return the folder with its stages."""
    recipe = folder / f"{model.stem}.yaml"
    recipe.write_text(RECIPE.format(name=model.stem, model=model.resolve()))
    command = [sys.executable, "-m", "firmwright", "build", recipe.name, "--samples", "1"]
    subprocess.run(command, cwd=folder, check=True, stdout=subprocess.DEVNULL)
    return folder / "build" / model.stem


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("models", nargs="+", type=Path)
    parser.add_argument("--rounds", type=int, default=101)
    parser.add_argument("--without-amx", action="store_true")
    options = parser.parse_args()
    if options.without_amx:
        reject_amx()
    today = datetime.datetime.now(datetime.UTC).date()
    print(f"{today}, {name_processor()}, {options.rounds} rounds.\n")
    print("| network | firmwright, µs: least (median) | LiteRT + XNNPACK | ratio | half of all |\n"
          "|---|---|---|---|---|")  # fmt: skip
    for model in options.models:
        with tempfile.TemporaryDirectory() as temporary:
            outdir = build_host(model, Path(temporary))
            details = Reference(model, OpResolverType.BUILTIN_REF)
            shapes = details.input["shape"], details.output["shape"]
            dtype = details.input["dtype"].__name__
            ours = Generated(make_library(outdir, "zig"), shapes, dtype)
            check(ours, model)
            theirs = Reference(model, OpResolverType.AUTO)
            theirs.set_input(ours.input)
            print(time_row(model.stem, measure(ours, theirs, options.rounds)), flush=True)


if __name__ == "__main__":
    main()
