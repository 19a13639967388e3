"""Finds the folders of firmwright's files: one folder in a wheel, several in a checkout.

Recipes, tasks, templates and toolchains are at the top of a checkout. In a wheel these folders are
inside the package. Python imports the folders as ``firmwright.tasks`` and similar names. Therefore
the search path of the package also contains the top folder of the checkout.
"""

from __future__ import annotations

import os
from pathlib import Path

ON_TOP = ("recipes", "tasks", "templates", "toolchains")
"""The packages that are at the top of a checkout."""

PACKAGE = Path(__file__).parent
IS_CHECKOUT = not (PACKAGE / "tasks").is_dir()
TOP = PACKAGE.parents[1] if IS_CHECKOUT else PACKAGE
"""The folder that contains the packages of ``ON_TOP``."""

FOLDERS = (PACKAGE, *(TOP / name for name in ON_TOP if IS_CHECKOUT))
"""The folders that together contain every file of firmwright once."""

PREFIXES = tuple(f"{folder}{os.sep}" for folder in FOLDERS if folder.name != "recipes")
"""The first parts of the paths of firmwright's files.

Recipes of the checkout count as user files.
"""
