"""Reads the file that describes the connection to a board (``run: {board: my-board.yaml}``)."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec

from firmwright.documents.document import load_document
from firmwright.documents.schema_check import read_schema
from firmwright.errors import DiagnosticError

SCHEMA = "board_access.schema.json"
PLACEHOLDER = re.compile(r"\{(\w+)\}")


@dataclass(frozen=True)
class SerialPort:
    port: str
    baud: int


@dataclass(frozen=True)
class SshHost:
    host: str
    options: tuple[str, ...] = ()


@dataclass(frozen=True)
class BoardAccess:
    """The commands that flash and reset a board, and its console: ``serial`` or ``ssh``.

    ``settle`` is the time in seconds from the reset until the board accepts data. A board counts as
    silent after ``patience`` seconds without an answer.
    """

    description: str
    settle: float
    patience: float
    flash: tuple[str, ...] = ()
    reset: tuple[str, ...] = ()
    serial: SerialPort | None = None
    ssh: SshHost | None = None


def load_access(path: Path) -> BoardAccess:
    """Return the content of the file. Raises DiagnosticError with all errors of the file."""
    return msgspec.convert(load_document(path, read_schema("toolchains", SCHEMA)).data, BoardAccess)


def check_access(path: Path, images: Sequence[str]) -> None:
    """Raise DiagnosticError if the file has errors or unknown names of images.

    ``images`` are the names of the images that the build makes.
    """
    document = load_document(path, read_schema("toolchains", SCHEMA))
    diagnostics = [
        document.make_diagnostic((key, index), explain_unknown(name, images))
        for key in ("flash", "reset")
        for index, argument in enumerate(document.data.get(key, ()))
        for name in PLACEHOLDER.findall(argument)
        if name not in images
    ]
    if diagnostics:
        raise DiagnosticError(diagnostics)


def explain_unknown(name: str, images: Sequence[str]) -> str:
    listed = ", ".join(f"{{{image}}}" for image in images)
    return (
        f"'{{{name}}}' stands for no image of this firmware; there are: {listed}; braces for the "
        f"command itself get spaces: {{ {name} }}"
    )


def list_images(bare_metal: bool, slot: bool) -> list[str]:
    """Return the placeholders for images that the arguments of a command may contain."""
    kinds = ["elf", "bin", "hex"] if bare_metal else ["elf"]
    return [*kinds, *(f"network_{kind}" for kind in kinds if slot)]
