"""The network as an image of its own in flash, and the loader of the firmware that calls it."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from firmwright.codegen.templates import TEMPLATE_SUFFIX
from firmwright.errors import UserError
from firmwright.ir.tensors import BatchLayout
from firmwright.project.files import network_file
from firmwright.project.interface import Port
from firmwright.toolchain import Build
from firmwright.toolchain.build import SLOT_SCRIPT
from firmwright.toolchain.layout import LOADER, NETWORK


@dataclass(frozen=True)
class NetworkSlot:
    """Where the network lies in flash, and what its image says: sizes in bytes.

    ``workspace`` is what the firmware gives any network, None for as much as this one needs.
    """

    address: int
    size: int
    version: str
    counter: int
    workspace: int | None


def refuse_place(slot: NetworkSlot, build: Build, needed: int) -> None:
    """Raise UserError where the platform has no such flash, or the network needs more memory."""
    platform, flash = build.platform, build.platform.memories.get("flash")
    if flash is None or not any("{script}" in flag for flag in build.settings.link_flags):
        raise UserError(f"the platform '{platform.name}' has no flash that a linker script places")
    end, last = slot.address + slot.size, flash.origin + flash.size
    if slot.address <= flash.origin or end > last:
        raise UserError(
            f"from {slot.address:#x} to {end:#x}: not within the flash of '{platform.name}' "
            f"({flash.origin:#x} to {last:#x}), or at its beginning, which is the firmware's"
        )
    if slot.workspace is not None and slot.workspace < needed:
        raise UserError(
            f"`workspace` is {slot.workspace:,} bytes, and the network needs {needed:,}"
        )


def place_slot_files(prefix: str) -> dict[str, str]:
    """Return the paths of the image's and the loader's files, by their templates."""
    named = {
        "image.c": f"{NETWORK}/{network_file(prefix, 'image.c')}",
        "slot.h": f"{NETWORK}/{network_file(prefix, 'slot.h')}",
        "slot.c": f"{LOADER}/{network_file(prefix, 'slot.c')}",
        "slot.ld": SLOT_SCRIPT,
    }
    return {f"slot/{name}{TEMPLATE_SUFFIX}": place for name, place in named.items()}


def slot_variables(slot: NetworkSlot | None, needed: int, interface: str) -> dict[str, Any]:
    """Return what the templates are rendered with; ``needed`` is the network's working memory."""
    if slot is None:
        return {"slot": None}
    known = [f"0x{byte:02x}" for byte in bytes.fromhex(interface)]
    return {
        "slot": {**asdict(slot), "workspace": slot.workspace or needed, "interface": known},
    }


def digest_interface(
    inputs: Sequence[Port],
    outputs: Sequence[Port],
    batch: BatchLayout | None,
    class_names: Sequence[str],
    architecture: str,
) -> str:
    """Return the SHA-256 of all that a firmware has to know of a network to use it.

    Names of inputs and outputs count where there are several, which could be taken for each other.
    """
    ports = [
        [
            {
                "name": port.member if len(listed) > 1 else None,
                "type": port.c_type,
                "dtype": port.tensor.dtype,
                "shape": port.tensor.shape,
                "scale": port.tensor.scale,
                "zero_point": port.tensor.zero_point,
                "storage": asdict(port.tensor.storage) if port.tensor.storage else None,
            }
            for port in listed
        ]
        for listed in (inputs, outputs)
    ]
    known = {
        "ports": ports,
        "batch": asdict(batch) if batch else None,
        "classes": list(class_names),
        "architecture": architecture,
    }
    text = json.dumps(known, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()
