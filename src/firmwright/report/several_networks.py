"""Defines the records of a firmware of several networks: its run, and its bundle's manifest."""

from __future__ import annotations

from dataclasses import dataclass

from firmwright.report.manifest import BundledFile
from firmwright.verify.run_records import Agreement


@dataclass(frozen=True, slots=True)
class NetworksRun:
    """The run of all networks in order, ``turns`` times, with the agreement of each network."""

    emulator: str
    turns: int
    networks: dict[str, Agreement]


@dataclass(frozen=True)
class NetworkEntry:
    """A network: the path and the digest of its bundle inside this bundle, and its sources.

    ``model`` and ``recipe`` are digests. ``arena_bytes`` is the size of its working memory.
    """

    bundle: str
    sha256: str
    model: str
    recipe: str
    arena_bytes: int


@dataclass(frozen=True)
class NetworksManifest:
    """The file ``manifest.json`` of such a bundle; sizes are None without a linked firmware."""

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
