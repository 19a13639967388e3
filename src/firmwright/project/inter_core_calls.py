"""Calls between cores: which regions another core runs, and what carries a call."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Cores:
    """Where a mix runs: the core of each device, '' for the processor, and the last device's.

    A device that is not named runs on the processor, or is started by it.
    """

    by_device: Mapping[str, str]
    last: str

    @property
    def runs_whole_network(self) -> bool:
        """Tell whether all of the network runs on another core, and is called as a whole."""
        return self.last != ""

    def calls_device(self, device: str) -> bool:
        """Tell whether the processor runs the network, and calls another core for this device."""
        return not self.runs_whole_network and self.by_device.get(device, "") != ""

    def template_folders(self, devices: Collection[str], board: str) -> list[str]:
        """Return the folders of templates that carry the calls, none where there are none."""
        common = ["crossing", f"crossing/{board}"]
        if self.runs_whole_network:
            return [*common, "crossing/network", "crossing/arm"]
        called = any(self.calls_device(device) for device in devices)
        return [*common, "crossing/regions"] if called else []


PROCESSOR_ONLY = Cores({"c": ""}, "")
"""Of a network that calls no other core."""


def make_cores(mix: Mapping[str, str]) -> Cores:
    """Return the cores of a mix from its devices' cores, in its order."""
    return Cores(mix, [*mix.values()][-1])
