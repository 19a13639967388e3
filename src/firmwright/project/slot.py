"""Writes the network as a separate image in flash, and the loader that calls the network."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from firmwright.codegen.templates import TEMPLATE_SUFFIX
from firmwright.errors import UserError
from firmwright.ir.records import to_plain
from firmwright.ir.regions import RAM
from firmwright.project.interface import InterfaceTensor, NetworkInterface
from firmwright.project.project_files import network_file
from firmwright.toolchain import Build
from firmwright.toolchain.build import SLOT_SCRIPT
from firmwright.toolchain.project_folders import LOADER, NETWORK


@dataclass(frozen=True)
class NetworkSlot:
    """The network's position in flash, and the facts in the image. Sizes are in bytes.

    ``workspace`` is the memory that the firmware provides for any network. None means the memory
    that this network needs.
    """

    address: int
    size: int
    version: str
    counter: int
    workspace: int | None


def refuse_slot(slot: NetworkSlot, build: Build, needed: int) -> None:
    """Raise UserError if the slot is not in the platform's flash, or if memory is missing."""
    platform, flash = build.platform, build.platform.memories.get("flash")
    if flash is None or not any("{script}" in flag for flag in build.settings.link_flags):
        raise UserError(
            f"the platform '{platform.name}' has no flash that a linker script places; choose "
            "another platform"
        )
    end, last = slot.address + slot.size, flash.origin + flash.size
    if slot.address <= flash.origin or end > last:
        raise UserError(
            f"from {slot.address:#x} to {end:#x}: expected a part of the flash of "
            f"'{platform.name}' ({flash.origin:#x} to {last:#x}) after its beginning, which the "
            "firmware needs; move the slot"
        )
    if slot.workspace is not None and slot.workspace < needed:
        raise UserError(
            f"`workspace` is {slot.workspace:,} bytes, and the network needs {needed:,}; state "
            f"{needed} or more"
        )


def place_slot_files(prefix: str) -> dict[str, str]:
    named = {
        "image.c": f"{NETWORK}/{network_file(prefix, 'image.c')}",
        "slot.h": f"{NETWORK}/{network_file(prefix, 'slot.h')}",
        "slot.c": f"{LOADER}/{network_file(prefix, 'slot.c')}",
        "slot.ld": SLOT_SCRIPT,
    }
    return {f"slot/{name}{TEMPLATE_SUFFIX}": path for name, path in named.items()}


def slot_variables(
    slot: NetworkSlot | None, interface: NetworkInterface, architecture: str
) -> dict[str, Any]:
    if slot is None:
        return {"slot": None}
    digest = bytes.fromhex(digest_interface(interface, architecture))
    fields: dict[str, Any] = {"interface": [f"0x{byte:02x}" for byte in digest]}
    fields["workspace"] = slot.workspace or max(interface.arena_bytes[RAM], 1)
    return {"slot": {**asdict(slot), **fields}}


def digest_interface(interface: NetworkInterface, architecture: str) -> str:
    """Return the SHA-256 of all facts that a firmware needs to use a network.

    Names of inputs and outputs count if there are several, to prevent confusion.
    """
    known = {
        "inputs": list_known(interface.inputs),
        "outputs": list_known(interface.outputs),
        "batch": interface.batch,
        "classes": interface.class_names,
        "states": bool(interface.states),
        "architecture": architecture,
    }
    text = json.dumps(known, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


def list_known(tensors: Sequence[InterfaceTensor]) -> list[dict[str, Any]]:
    """Return the facts about inputs or outputs that a firmware contains."""
    unknown = {"name"} if len(tensors) > 1 else {"name", "member"}
    return [
        {key: value for key, value in to_plain(tensor).items() if key not in unknown}
        for tensor in tensors
    ]
