"""A catalogue that does not change when firmwright gets a new platform."""

from __future__ import annotations

import pytest

from firmwright.recipe.catalog import Catalog, KnownDevice, KnownPlatform
from firmwright.targets.device_options import NumberRange


@pytest.fixture(scope="session")
def catalogue() -> Catalog:
    return Catalog(
        platforms={
            "host": KnownPlatform(("zig", "gcc", "clang"), ("native",)),
            "rv32-bare": KnownPlatform(("zig", "riscv64-unknown-elf-gcc"), ("unicorn", "qemu")),
            "cortex-m4-bare": KnownPlatform(
                ("zig", "arm-none-eabi-gcc"), ("unicorn", "qemu"), aliases=("M4",), host="host"
            ),
        },
        toolchains=("zig", "gcc", "clang", "riscv64-unknown-elf-gcc", "arm-none-eabi-gcc"),
        devices={
            "c": KnownDevice({"a": (), "mattr": ()}, is_fallback=True),
            "soma_dory": KnownDevice({"layout_transform": ("0", "1")}, is_fallback=False),
            "tidl": KnownDevice(
                {
                    "a": (),
                    "fast": ("0", "1"),
                    "factor": NumberRange(1, decimal=True, other_values=("-1",)),
                    "rounds": NumberRange(1, 6),
                },
                is_fallback=False,
            ),
        },
        emulators=("bench", "native", "qemu", "unicorn"),
    )
