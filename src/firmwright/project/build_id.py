"""Computes the build id of a project: 20 bytes that identify the firmware.

The id depends on the text of the whole project and on the compiler's version. Therefore two builds
of one recipe have equal ids, and the id is known before an image is linked.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from pathlib import Path

from firmwright.project.project_files import network_file
from firmwright.toolchain.project_folders import DEMO, NETWORK

BYTES = 20
"""The length of a build id in bytes. Linkers accept this length."""

UNKNOWN = b"firmwright build id!".hex()
"""A placeholder for the id until all files are written."""


def list_stating(prefix: str) -> list[str]:
    """Return the project's files that state the id: as a macro, in JSON, and as a note."""
    names = (network_file(prefix, name) for name in ("build_id.h", "interface.json"))
    return [*(f"{NETWORK}/{name}" for name in names), f"{DEMO}/main.c"]


def read_build_id(folder: Path, prefix: str) -> str:
    described = folder / NETWORK / network_file(prefix, "interface.json")
    return str(json.loads(described.read_bytes())["build_id"])


def format_bytes(build_id: str) -> str:
    return ", ".join(f"0x{byte:02x}" for byte in bytes.fromhex(build_id))


def state_build_id(folder: Path, stating: Iterable[str], compiler: str) -> str:
    """Compute the id of the project in ``folder``, and write the id into the stating files.

    ``stating`` are the paths of these files in the folder. ``compiler`` is the compiler's version,
    or '' if there is no compiler.
    """
    total = hashlib.sha256(compiler.encode())
    for path in sorted(p for p in folder.rglob("*") if p.is_file()):
        content = path.read_bytes()
        total.update(f"\0{path.relative_to(folder).as_posix()}\0{len(content)}\0".encode())
        total.update(content)
    build_id = total.hexdigest()[: 2 * BYTES]
    for name in stating:
        text = (folder / name).read_text(encoding="utf-8")
        text = text.replace(UNKNOWN, build_id).replace(
            format_bytes(UNKNOWN), format_bytes(build_id)
        )
        (folder / name).write_text(text, encoding="utf-8", newline="\n")
    return build_id
