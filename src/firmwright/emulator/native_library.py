"""Compiles C sources of this package for the machine that runs firmwright."""

from __future__ import annotations

import hashlib
import os
import platform
import sys
import tempfile
from collections.abc import Mapping
from contextlib import suppress
from importlib.metadata import version
from multiprocessing.util import get_temp_dir
from pathlib import Path
from subprocess import CalledProcessError

from firmwright.child import make_command
from firmwright.errors import UserError, describe_exit
from firmwright.toolchain import load_toolchain
from firmwright.toolchain.built_files import find_kept, keep
from firmwright.toolchain.compilers import run_compiler
from firmwright.user_folders import find_cache_folder


def build_library(name: str, sources: Mapping[str, bytes]) -> Path:
    """Compile sources and their headers, by file name, and return the library.

    The file name has digests of all inputs and of the library. Only a damaged library is built
    again. Raises UserError if the compiler fails. Several processes may share the folder.
    """
    kept = find_folder()
    # The flags select zig's headers, because the machine's headers would be further inputs.
    flags = load_toolchain("zig").settings_for("native").flags
    decisive = [version("ziglang"), sys.platform, platform.machine(), *flags]
    key = hashlib.sha256("\0".join(decisive).encode())
    for source, content in sorted(sources.items()):
        key.update(f"\0{source}\0".encode() + content)
    stem = f"{name}-{key.hexdigest()[:16]}"
    if library := find_kept(kept, stem, ".so"):
        return library
    with tempfile.TemporaryDirectory(dir=kept, prefix=f"{name}-") as folder:
        for source, content in sources.items():
            Path(folder, source).write_bytes(content)
        command = make_command("ziglang", "cc", "-std=c99", "-O2", "-g0", "-fPIC")
        command += [*flags, "-shared", "-o", f"{name}.so"]
        command += sorted(source for source in sources if source.endswith(".c"))
        try:
            run_compiler(command, Path(folder), cache=Path(folder))
        except CalledProcessError as error:
            lines = [*filter(None, error.stdout.splitlines()), ""]
            ended = f"the compiler ended with {describe_exit(error.returncode)}"
            raise UserError(f"{name}: {ended}: {lines[0]}") from None
        return keep(Path(folder, f"{name}.so"), kept, stem, ".so")


def find_folder() -> Path:
    """Return the folder of the libraries in the user's cache.

    For security, the libraries are not in the build folder, which another person's repository may
    contain. If the cache is not writable, the folder is temporary and is deleted when this process
    ends.
    """
    folder = find_cache_folder()
    if folder is None:
        return Path(get_temp_dir())
    shared = folder / "native"
    with suppress(OSError):
        shared.mkdir(parents=True, exist_ok=True)
    return shared if os.access(shared, os.W_OK) else Path(get_temp_dir())
