"""C sources of this package, compiled for the machine that we run on."""

from __future__ import annotations

import hashlib
import platform
import sys
import tempfile
from collections.abc import Mapping
from importlib.metadata import version
from pathlib import Path

from firmwright.toolchain.compilers import run_compiler
from firmwright.toolchain.kept import find_kept, keep


def build_library(name: str, sources: Mapping[str, bytes], scratch: Path) -> Path:
    """Compile sources, and their headers, by file name into ``scratch``; return the library.

    What is there already is not built again, unless it is damaged: the file name holds digests of
    all that went in, and of what came out. Several processes may share the folder.
    """
    key = hashlib.sha256("\0".join([version("ziglang"), sys.platform, platform.machine()]).encode())
    for source, content in sorted(sources.items()):
        key.update(f"\0{source}\0".encode() + content)
    stem = f"{name}-{key.hexdigest()[:16]}"
    if library := find_kept(scratch, stem, ".so"):
        return library
    scratch.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=scratch, prefix=f"{name}-") as folder:
        for source, content in sources.items():
            Path(folder, source).write_bytes(content)
        command = [sys.executable, "-m", "ziglang", "cc", "-std=c99", "-O2", "-g0", "-fPIC"]
        command += ["-shared", "-nostdlib", "-o", f"{name}.so"]
        command += sorted(source for source in sources if source.endswith(".c"))
        run_compiler(command, Path(folder), cache=Path(folder))
        return keep(Path(folder, f"{name}.so"), scratch, stem, ".so")
