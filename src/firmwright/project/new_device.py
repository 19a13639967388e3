"""Creates a package with a custom device: class, rules, driver and test."""

from __future__ import annotations

import re
from pathlib import Path

from firmwright import __version__
from firmwright.codegen.names import KEYWORDS
from firmwright.codegen.templates import find_templates
from firmwright.errors import UserError
from firmwright.project.template_folders import render_folder
from firmwright.targets.load import target_names

NAME = re.compile(r"[a-z][a-z0-9_]*")


def write_new_device(name: str, folder: Path) -> list[Path]:
    """Write a package for the device ``name`` into a new folder; return the files.

    Raises UserError for an existing folder, and for a name that is not a C identifier in lower
    case. The names of installed devices and of firmwright's templates are rejected, too.
    """
    if name in target_names():
        raise UserError(f"the device '{name}' is installed already; choose another name")
    if not NAME.fullmatch(name) or name in KEYWORDS:
        raise UserError(
            f"'{name}' cannot name a device; use a C identifier in lower case, such as my_npu"
        )
    if find_templates(name):
        raise UserError(f"firmwright has templates with the name '{name}'; choose another name")
    distribution = f"firmwright-{name.replace('_', '-')}"
    package = folder / distribution
    if package.exists():
        raise UserError(f"{package} already exists; remove it, or choose another name")
    variables = {
        "name": name,
        "class": "".join(part.capitalize() for part in name.split("_")),
        "constant": name.upper(),
        "distribution": distribution,
        "version": __version__,
    }
    return render_folder("new_device", variables, package)
