"""Lists all stages in the order in which they run."""

from __future__ import annotations

from . import firmware_stages as firmware
from . import network_stages as network
from . import networks

PIPELINE = (*network.STAGES, *firmware.STAGES)
NETWORKS_PIPELINE = (
    networks.SOURCES, firmware.OBJECTS, firmware.FIRMWARE, networks.RUN, networks.EXPORTS,
    networks.BUNDLE,
)  # fmt: skip
"""The stages of a firmware with several networks, which run after each network's stages."""
