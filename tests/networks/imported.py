"""Evaluates an imported ONNX model on this machine, without generated C."""

from __future__ import annotations

from typing import Any

import numpy as np
import tvm

from firmwright.ir.virtual_machine import make_virtual_machine
from firmwright.models.onnx.importer import import_model

Array = np.ndarray[Any, Any]


def run_imported(data: bytes, *samples: Array) -> list[Array]:
    """Return the outputs of the imported module for one sample of its inputs."""
    module, _ = import_model(data, "m.onnx", {})
    found = make_virtual_machine(module)["main"](*map(tvm.runtime.tensor, samples))
    return [a.numpy() for a in (found if hasattr(found, "__len__") else [found])]
