"""A catalogue that does not change when firmwright learns a new platform."""

from __future__ import annotations

import pytest

from firmwright.recipe import Catalog, KnownDevice
from firmwright.targets.device_options import NumberRange


@pytest.fixture(scope="session")
def catalogue() -> Catalog:
    return Catalog(
        platforms=("host", "rv32-bare", "cortex-m4-bare"),
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
        platform_toolchains={
            "host": ("zig", "gcc", "clang"),
            "rv32-bare": ("zig", "riscv64-unknown-elf-gcc"),
            "cortex-m4-bare": ("zig", "arm-none-eabi-gcc"),
        },
        platform_emulators={
            "host": ("native",),
            "rv32-bare": ("unicorn", "qemu"),
            "cortex-m4-bare": ("unicorn", "qemu"),
        },
        platform_aliases={"M4": "cortex-m4-bare"},
        platform_hosts={"cortex-m4-bare": "host"},
    )
