"""Maps accelerators and memory modes to Vela's names."""

from __future__ import annotations

from dataclasses import dataclass

MEMORY_MODES = {
    "sram_only": "Sram_Only",
    "shared_sram": "Shared_Sram",
    "dedicated_sram": "Dedicated_Sram",
}
"""Maps this package's names of memory modes to the names in Vela's configuration file."""


@dataclass(frozen=True)
class Hardware:
    """The configuration of an accelerator for Vela."""

    family: str
    macs: int
    cores: int
    system: str


U55 = ("EthosU55", 1, "Ethos_U55_High_End_Embedded")
U65 = ("EthosU65", 1, "Ethos_U65_High_End")
HARDWARE = {
    f"ethos-u{name}-{macs}": Hardware(family, macs, 2 if macs == 512 else cores, system)
    for name, (family, cores, system), sizes in (
        ("55", U55, (32, 64, 128, 256)),
        ("65", U65, (256, 512)),
    )
    for macs in sizes
}
"""Maps Vela's names of configurations to the supported accelerators."""

DEFAULT_ACCELERATOR, DEFAULT_MEMORY_MODE = "ethos-u55-128", "shared_sram"
