"""Calls between cores: which regions another core runs, and what carries a call.

The templates of the calls to a core lie in ``<core>/call``, with more in folders below: of a board
(``<board>``), of a core that runs the whole network (``network``, and ``processor`` for the side
that calls it), and of a core that runs some regions (``regions``).
"""

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

    def called_core(self, device: str) -> str:
        """Return the core that the processor calls for a device's regions, '' where it calls none.

        Where another core runs the network, that core runs the regions too.
        """
        return "" if self.runs_whole_network else self.by_device.get(device, "")

    def template_folders(self, devices: Collection[str], board: str) -> list[str]:
        """Return the folders of templates that carry the calls, none where there are none."""
        if self.runs_whole_network:
            return list_folders(self.last, board, "network", "processor")
        called = {self.called_core(device) for device in devices} - {""}
        return [f for core in sorted(called) for f in list_folders(core, board, "regions")]


def list_folders(core: str, *parts: str) -> list[str]:
    return [f"{core}/call", *(f"{core}/call/{part}" for part in parts)]


PROCESSOR_ONLY = Cores({"c": ""}, "")
"""Of a network that calls no other core."""


def make_cores(mix: Mapping[str, str]) -> Cores:
    """Return the cores of a mix from its devices' cores, in its order."""
    return Cores(mix, [*mix.values()][-1])
