"""Defines advice that speeds up a network, and the text of the advice with short names."""

from __future__ import annotations

from dataclasses import dataclass

LONGEST_NAME, ROOM = 40, 48
"""The maximum number of characters of a layer's name in a line of advice, and on a page."""


@dataclass(frozen=True, slots=True)
class Advice:
    """A change of the model or of the build, or the reason why no change helps.

    ``change`` is the sentence, such as ``strides [1, 2] → [1, 1]``. ``layers`` are the names of the
    changed layers, and ``device`` is their device after the change. ``moves`` is true if the layers
    run on another device before the change.

    ``saves`` is the estimated time that an inference saves, in ``unit``: "cycles" or "us"
    (microseconds). ``saves`` is None if no cost model covers the layers. In this case, ``costs`` is
    the estimated current time of the layers in ``unit``, or None. ``crossings`` is the number of
    the layers' tensors that pass between devices. ``stays`` is true for layers without a known
    improvement.
    """

    change: str
    layers: tuple[str, ...]
    device: str
    moves: bool
    saves: float | None
    unit: str
    stays: bool = False
    costs: float | None = None
    crossings: int = 0

    def __str__(self) -> str:
        """Return a text such as ``strides [1, 2] → [1, 1]: conv to npu, saves about 5 modeled
        cycles``."""
        first, *others = (shorten_name(name, LONGEST_NAME) for name in self.layers)
        named = f"{first} and {len(others)} more" if others else first
        where = f"{named} to {self.device}" if self.moves else f"{named} on {self.device}"
        return f"{self.change}: {where}, {self.gain}"

    @property
    def gain(self) -> str:
        if self.saves is None:
            return self.price if self.stays else self.unknown
        return f"saves about {self.format(self.saves)}"

    @property
    def unknown(self) -> str:
        if self.costs is None:
            return "saves an unknown amount (no cost model)"
        return f"{self.price} now; the saving is unknown (no cost model)"

    @property
    def price(self) -> str:
        crossings = f"{self.crossings} crossing{'s' if self.crossings > 1 else ''}"
        passed = f" and {crossings}" if self.crossings else ""
        if self.costs is None:
            return f"its cost is unknown (no cost model){passed}"
        return f"needs about {self.format(self.costs)}{passed}"

    def format(self, amount: float) -> str:
        """Return a text such as ``5 modeled cycles``. Only a cost model knows these cycles."""
        if self.unit == "cycles":
            return f"{amount:,.0f} modeled cycles"
        return f"{amount:,.1f} {self.unit}"


@dataclass(frozen=True, slots=True)
class AdviceRecord:
    """All advice on a network, the largest saving first (file ``advice/advice.json``)."""

    advice: tuple[Advice, ...]


def shorten_name(name: str, room: int = ROOM) -> str:
    """Return at most about ``room`` characters of a name.

    TFLite joins the names of fused operators with ";". The first name represents all names. The
    number of the other names follows. Names are paths, so a long name is cut at its beginning.
    """
    first, *others = name.split(";")
    if len(first) > room:
        end = first[1 - room :]
        first = f"…{end[max(end.find('/'), 0) :]}"
    return f"{first} +{len(others)}" if others else first
