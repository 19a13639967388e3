"""The numbers from which times on a platform are estimated: its ``timing``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from firmwright.errors import UserError


@dataclass(frozen=True)
class Throughput:
    """How fast a device works.

    ``macs_per_cycle`` and ``macs_per_cycle_16_bit`` are multiply-accumulates of 8 and of 16 bits
    that it achieves in a cycle of ``clock_mhz``, ``bytes_per_cycle`` what it reads and writes.
    """

    clock_mhz: float
    macs_per_cycle: float
    macs_per_cycle_16_bit: float
    bytes_per_cycle: float


@dataclass(frozen=True)
class Timing:
    """The engines by device, and the microseconds that a call from one core to another takes.

    ``unverified`` names the numbers that we assume.
    """

    call_us: int | float  # as the file has it: reports print whole numbers as such
    engines: Mapping[str, Throughput]
    unverified: tuple[str, ...]

    def find_throughput(self, device: str) -> Throughput:
        """Return how fast a device works; UserError where the platform does not say."""
        if device not in self.engines:
            raise UserError(f"timing: the platform states no engine for '{device}'")
        return self.engines[device]
