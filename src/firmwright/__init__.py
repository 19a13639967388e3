"""firmwright turns one YAML recipe into one reproducible firmware bundle."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from firmwright.folders import IS_CHECKOUT, TOP
from firmwright.tvm_import import leave_slow_parts_out

if TYPE_CHECKING:
    from firmwright.bundle.bundle import Bundle

__version__ = "0.1.0"

if IS_CHECKOUT:
    __path__.append(str(TOP))  # the folders of recipes, tasks, templates and toolchains

# The variable disables the telemetry of ONNX Runtime if it is set before the import of ONNX
# Runtime.
os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")

leave_slow_parts_out()

# Without this variable, TVM loads all its GPU backends, which is a third of its import time.
os.environ.setdefault("TVM_DEVICE_BACKEND_AUTOLOAD", "0")


def build(recipe: str | Path, **variables: object) -> Bundle:
    """Build a recipe, check its bundle, and return the bundle.

    ``recipe`` is a path, relative to the current folder. ``variables`` are the variables of the
    command line (``platform="host"``, ``samples=3``, ``outdir="build/host"``). A build on the
    command line writes equal bytes. Unchanged stages do not run again. Raises UserError with the
    message that the command line prints.
    """
    # Imported late, because most of the package does not need the modules.
    from firmwright.bundle.bundle import read_bundle
    from firmwright.cluster.order import run_build

    # The build changes the current folder and signal handlers, so it runs in a separate process.
    arguments = [f"{name}={value}" for name, value in variables.items()]
    return read_bundle(run_build([f"recipe={recipe}", *arguments], Path.cwd()))
