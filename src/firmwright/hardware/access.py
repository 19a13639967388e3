"""The file that says how a board is reached (``run: {board: my-board.yaml}``)."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import msgspec

from firmwright.documents.document import load_document
from firmwright.toolchain.descriptions import read_schema

SCHEMA = "board_access.schema.json"


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
    """How a board is flashed and reset, and where its console is: ``serial`` or ``ssh``.

    ``settle`` are seconds from the reset until it listens, ``patience`` those without an answer
    after which it counts as silent.
    """

    description: str
    settle: float
    patience: float
    flash: tuple[str, ...] = ()
    reset: tuple[str, ...] = ()
    serial: SerialPort | None = None
    ssh: SshHost | None = None


def load_access(path: Path) -> BoardAccess:
    """Read the file; DiagnosticError with all mistakes in it."""
    document = load_document(path, read_schema(SCHEMA))
    return msgspec.convert(document.data, BoardAccess)
