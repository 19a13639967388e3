"""Copies firmwright as a wheel installs it: all packages in one folder."""

from __future__ import annotations

import shutil
from pathlib import Path

from firmwright.folders import ON_TOP, PACKAGE, TOP


def copy_package(site: Path) -> Path:
    """Copy firmwright into ``site``, a folder for PYTHONPATH, and return the package's folder."""
    package = site / "firmwright"
    ignored = shutil.ignore_patterns("__pycache__")
    shutil.copytree(PACKAGE, package, ignore=ignored)
    for name in ON_TOP:
        shutil.copytree(TOP / name, package / name, ignore=ignored)
    return package
