"""Determines the regions that other cores run, and the templates of the calls between cores.

The templates of the calls to a core are in ``<core>/call``. The subfolders contain other templates:
``<board>`` is for a board. ``network`` is for a core that runs the whole network. ``regions`` is
for a core that runs some regions. ``processor`` is for the side that calls this core.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Cores:
    """The core of each device of a mix ('' for the processor), and the last device's core.

    A device that is not listed runs on the processor, or the processor starts it.
    """

    by_device: Mapping[str, str]
    last: str

    @property
    def runs_whole_network(self) -> bool:
        return self.last != ""

    def called_core(self, device: str) -> str:
        """Return the core that the processor calls for a device's regions, or '' for no call.

        A core that runs the network also runs the regions.
        """
        return "" if self.runs_whole_network else self.by_device.get(device, "")

    def template_folders(self, devices: Collection[str], board: str) -> list[str]:
        """Return the folders of templates for the calls, or [] if there are no calls."""
        if self.runs_whole_network:
            return list_folders(self.last, board, "network", "processor")
        called = {self.called_core(device) for device in devices} - {""}
        return [f for core in sorted(called) for f in list_folders(core, board, "regions")]


def list_folders(core: str, *parts: str) -> list[str]:
    return [f"{core}/call", *(f"{core}/call/{part}" for part in parts)]


PROCESSOR_ONLY = Cores({"c": ""}, "")
"""The cores of a network that calls no other core."""


def make_cores(mix: Mapping[str, str]) -> Cores:
    return Cores(mix, [*mix.values()][-1])
