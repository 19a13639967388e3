"""Finds the built-in emulators and the plug-ins of the group ``firmwright.emulators``."""

from __future__ import annotations

from pkgutil import resolve_name
from typing import Any

from firmwright.plugins import find_plugins, load_plugin

GROUP = "firmwright.emulators"
"""The entry-point group of the emulators in other packages."""

BUILT_IN = {
    "cv32e40p": "firmwright.emulator.rtl.plugin:CV32E40P",
    "ibex": "firmwright.emulator.rtl.plugin:IBEX",
    "native": "firmwright.emulator.built_in:NATIVE",
    "picorv32": "firmwright.emulator.rtl.plugin:PICORV32",
    "qemu": "firmwright.emulator.built_in:QEMU",
    "qemu-user": "firmwright.emulator.built_in:QEMU_USER",
    "unicorn": "firmwright.emulator.built_in:UNICORN",
}
"""The emulators of this package.

These emulators need no entry point, so a copy of the source also contains them.
"""


def emulator_names() -> tuple[str, ...]:
    return tuple(sorted({*BUILT_IN, *find_plugins(GROUP).names}))


def is_emulator(name: str) -> bool:
    return name in BUILT_IN or name in find_plugins(GROUP).names


def resolve_emulator(name: str) -> Any:
    """Import an emulator.

    Raises KeyError if the name is unknown, and UserError if a package is incomplete.
    """
    if name in BUILT_IN:
        return resolve_name(BUILT_IN[name])
    return load_plugin(find_plugins(GROUP)[name])
