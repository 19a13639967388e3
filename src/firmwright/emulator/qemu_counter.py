"""Counts a firmware's instructions in QEMU, by a plugin that is built on first use."""

from __future__ import annotations

import importlib.resources
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from firmwright.emulator.execution import Run
from firmwright.emulator.native_library import build_library


def load_plugin(qemu_version: str) -> Path:
    """Return ``qemu_counter.c``, compiled for this machine and the interface of this QEMU."""
    source = "qemu_counter.c"
    content = importlib.resources.files("firmwright.emulator").joinpath(source).read_bytes()
    interface = 1 if int(qemu_version.partition(".")[0]) < 9 else 2
    text = f"#define PLUGIN_VERSION {interface}\n".encode() + content
    return build_library("qemu_counter", {source: text})


@dataclass(frozen=True)
class QemuCounter:
    """The instructions of a run's counted function and parts, in files that QEMU's plugin writes.

    Each process of the program writes one, whose name begins with ``output``.
    """

    run: Run
    plugin: Path
    output: Path

    @property
    def arguments(self) -> tuple[str, ...]:
        """The arguments of QEMU."""
        address_of = self.run.firmware.symbols.address_of
        options = [
            str(self.plugin.resolve()),
            f"function={address_of(self.run.counted)}",
            *(f"part={address_of(name)}" for name in self.run.parts),
            f"output={self.output}",
        ]
        return ("-plugin", ",".join(option.replace(",", ",,") for option in options))

    def read_counts(self) -> tuple[dict[str, int], tuple[int, ...]]:
        """Return executed instructions by symbol and by part."""
        symbols: Counter[str] = Counter()
        parts = [0] * len(self.run.parts)
        files = self.output.parent.glob(f"{self.output.name}.*")
        for line in (line for file in files for line in file.read_text("ascii").splitlines()):
            kind, place, count = line.split()
            if kind == "block":
                symbols[self.run.firmware.symbols.name_at(int(place))] += int(count)
            else:
                parts[int(place)] += int(count)
        return dict(sorted(symbols.items())), tuple(parts)
