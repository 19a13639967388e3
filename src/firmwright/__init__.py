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
    __path__.append(str(TOP))  # the folders of recipes, tasks, templates and toolchains

# The variable disables the telemetry of ONNX Runtime if it is set before the import of ONNX
# Runtime.
os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")

leave_slow_parts_out()

# Without this variable, TVM loads all its GPU backends, which is a third of its import time.
os.environ.setdefault("TVM_DEVICE_BACKEND_AUTOLOAD", "0")


def __getattr__(name: str) -> Any:
    """Import ``build`` at its first use, because most of the package does not need it."""
    if name == "build":
        from firmwright.api import build

        return build
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
