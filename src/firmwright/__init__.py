"""firmwright turns one YAML recipe into one reproducible firmware bundle."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from firmwright.folders import IS_CHECKOUT, TOP
from firmwright.tvm_import import leave_slow_parts_out

if TYPE_CHECKING:
    from firmwright.api import build as build

__version__ = "0.1.0"

if IS_CHECKOUT:
    __path__.append(str(TOP))  # recipes, tasks, templates and toolchains are there

# ONNX Runtime reports its use to its maker unless this is set before it is loaded.
os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")

leave_slow_parts_out()

# TVM loads all its backends for graphics cards unless this is set, for a third of its import.
os.environ.setdefault("TVM_DEVICE_BACKEND_AUTOLOAD", "0")


def __getattr__(name: str) -> Any:
    """Import ``build`` when it is first used: most of the package does without."""
    if name == "build":
        from firmwright.api import build

        return build
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
