"""Starts a package with a custom device: its class, rules, driver and a test."""

from __future__ import annotations

import re
from keyword import kwlist
from pathlib import Path

from firmwright import __version__
from firmwright.codegen.names import KEYWORDS
from firmwright.codegen.templates import find_templates
from firmwright.errors import UserError
from firmwright.project.write import render_folder
from firmwright.targets.load_devices import target_names

NAME = re.compile(r"[a-z]([a-z0-9_]*[a-z0-9])?")
"""Matches a name whose distribution pip accepts: the name does not end with an underscore."""


def write_new_device(name: str, folder: Path) -> list[Path]:
    """Write a package for the device ``name`` into a new folder. Return the written files.

    Raises UserError if the folder exists. Raises UserError if the name is not a C identifier in
    lower case, or makes a keyword of Python. Also raises UserError if an installed device, a
    template or a header of firmwright has this name.
    """
    if name in target_names():
        raise UserError(f"the device '{name}' is already installed; choose another name")
    class_name = "".join(part.capitalize() for part in name.split("_"))
    if not NAME.fullmatch(name) or name in KEYWORDS or {class_name, name.upper()} & {*kwlist}:
        raise UserError(
            f"'{name}' cannot name a device; use a C identifier in lower case, such as my_npu"
        )
    if find_templates(name) or find_templates(f"runtime/fw_{name}.h.j2"):
        raise UserError(f"firmwright has templates with the name '{name}'; choose another name")
    distribution = f"firmwright-{name.replace('_', '-')}"
    package = folder / distribution
    if package.exists():
        raise UserError(f"{package} already exists; remove it, or choose another name")
    variables = {
        "name": name,
        "class": class_name,
        "constant": name.upper(),
        "distribution": distribution,
        "version": __version__,
    }
    return render_folder("new_device", variables, package)
