"""Defines the records of a firmware of several networks: its run, and its bundle's manifest."""

from __future__ import annotations

from dataclasses import dataclass

from firmwright.report.manifest import BundledFile
from firmwright.verify.run_records import Agreement


@dataclass(frozen=True, slots=True)
class NetworksRun:
    """How the networks ran in turn, ``turns`` times, and how each agrees with its reference."""

    emulator: str
    turns: int
    networks: dict[str, Agreement]


@dataclass(frozen=True)
class NetworkEntry:
    """A network: its own bundle within this one, with that one's digest, and what it is of.

    ``model`` and ``recipe`` are digests. ``arena_bytes`` are those that it works in.
    """

    bundle: str
    sha256: str
    model: str
    recipe: str
    arena_bytes: int


@dataclass(frozen=True)
class NetworksManifest:
    """The file ``manifest.json`` of such a bundle; sizes are None if nothing was linked."""

    kind: str
    firmwright: str
    name: str
    description: str | None
    build_id: str
    platform: str
    concurrent: bool
    flash_bytes: int | None
    ram_bytes: int | None
    networks: dict[str, NetworkEntry]
    run: NetworksRun | None
    files: tuple[BundledFile, ...]
