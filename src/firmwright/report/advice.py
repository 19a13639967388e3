"""What would let a network run faster, as it is told."""

from __future__ import annotations

from dataclasses import dataclass

LONGEST_NAME = 40
"""Characters of a layer's name in a line of advice."""


@dataclass(frozen=True)
class Advice:
    """A change of the model or of the build.

    ``layers`` name what it is about, ``device`` where they then run. ``saves`` is about how much
    less an inference takes, in ``unit``: "cycles" or "us"; None where no cost model tells.
    """

    change: str
    layers: tuple[str, ...]
    device: str
    moves: bool
    saves: float | None
    unit: str

    def __str__(self) -> str:
        """Return e.g. ``strides [1, 2] → [1, 1]: conv to npu, saves about 5 cycles``."""
        first, *others = (name[:LONGEST_NAME] for name in self.layers)
        named = f"{first} and {len(others)} more" if others else first
        where = f"{named} to {self.device}" if self.moves else f"{named} on {self.device}"
        return f"{self.change}: {where}, {self.gain}"

    @property
    def gain(self) -> str:
        """What it saves, in words."""
        if self.saves is None:
            return "saves what no cost model tells"
        digits = 0 if self.unit == "cycles" else 1
        return f"saves about {self.saves:,.{digits}f} {self.unit}"
