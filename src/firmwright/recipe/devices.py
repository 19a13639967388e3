"""Custom devices: the key ``devices`` of a recipe."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path
from typing import Any

from firmwright.data.sources import module_file
from firmwright.documents.schema_check import Finding, quote
from firmwright.errors import UserError
from firmwright.recipe.catalog import KnownDevice
from firmwright.targets.custom import load_custom_target


def load_custom_devices(
    devices: Any, folder: Path, installed: Collection[str]
) -> tuple[dict[str, KnownDevice], list[Finding]]:
    """Import the devices of a recipe in ``folder``; return them by name, and the mistakes.

    Values of the wrong type and missing files are skipped: other checks report them.
    """
    found: dict[str, KnownDevice] = {}
    mistakes: list[Finding] = []
    for name, reference in devices.items() if isinstance(devices, dict) else ():
        pointer = ("devices", name)
        if not isinstance(reference, str) or ":" not in reference:
            continue
        if name in installed:
            message = f"the name {quote(name)} is that of an installed device; choose another"
            mistakes.append(Finding(pointer, message, key=True))
        elif module_file(reference, folder).is_file():
            try:
                target = load_custom_target(name, reference, folder)
            except UserError as error:
                mistakes.append(Finding(pointer, str(error)))
            else:
                found[name] = KnownDevice(target.options, target.is_fallback)
    return found, mistakes
