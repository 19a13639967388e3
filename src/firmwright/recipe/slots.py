"""Rejects recipe keys that do not work with a network in a separate image (``slot``)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from firmwright.documents.schema_check import Finding
from firmwright.documents.yaml_text import Pointer

IN_ONE_IMAGE: Mapping[Pointer, str] = {
    ("hooks",): "the network calls functions of the firmware, which is another image",
    ("selftest",): "golden samples belong to one network, but the slot can have another network",
    ("demo",): "the demo application contains the network",
    ("export",): "packages contain the network",
    ("libraries",): "the RAM of your functions has no address that both images know",
    ("postprocess", "detection"): "the firmware finds boxes with numbers of one network",
}
"""Keys that do not work with a slot, each with the reason."""


def find_slot_errors(data: Mapping[str, Any]) -> Iterator[Finding]:
    """Yield keys that do not work with a slot. Values of the wrong type are skipped."""
    if not isinstance(data.get("slot"), Mapping):
        return
    if data.get("arena") != "caller":
        message = "a network in a slot needs the RAM of the caller; add `arena: caller`"
        yield Finding(("slot",), message)
    for pointer, reason in IN_ONE_IMAGE.items():
        value: Any = data
        for key in pointer:
            value = value.get(key) if isinstance(value, Mapping) else None
        if value:
            yield Finding(
                pointer, f"cannot be combined with `slot`: {reason}; remove one of the keys"
            )
