"""Calls between cores: the devices that have a core of their own, and what carries a call."""

from __future__ import annotations

from collections.abc import Collection, Mapping

CORES: Mapping[str, str] = {"c7x": "c7x", "tidl": "c7x"}
"""The core of each device that does not run on the processor."""


def crossing_folders(devices: Collection[str], last: str, board: str) -> list[str]:
    """Return the folders of templates that carry the calls of a mix whose ``last`` device is this.

    If that has a core of its own, the whole network runs there and is called. Else each region of
    ``devices`` that have one is.
    """
    common = ["crossing", f"crossing/{board}"]
    if last in CORES:
        return [*common, "crossing/network", "crossing/arm"]
    called = any(is_called(device, last) for device in devices)
    return [*common, "crossing/regions"] if called else []


def is_called(device: str, last: str) -> bool:
    """Tell whether the processor runs the network, and a device's regions run elsewhere."""
    return last not in CORES and device in CORES
