"""Lowered layers, compiled with the C model of the accelerator and called on this machine."""

from __future__ import annotations

import ctypes
import subprocess
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from firmwright.codegen.templates import make_environment, render
from firmwright.devices.soma_dory.accelerator_layer import AcceleratorLayer
from firmwright.devices.soma_dory.cost import Accelerator
from firmwright.devices.soma_dory.device_layout import device_storage
from firmwright.devices.soma_dory.lowering import lower_layer
from firmwright.ir.kernels import Cycles, LoweredRegion
from firmwright.ir.layer import Array, LayerKind
from firmwright.ir.regions import Region
from firmwright.toolchain import load_platform

from .device_arrays import from_device, in_memory

FLAGS = ["-std=c99", "-Wall", "-Wextra", "-Werror", "-O1", "-fPIC"]
SANITIZER = ["-fsanitize=undefined", "-fno-sanitize-recover=all"]
MODEL = ("posix/fw_soma.c", "posix/soma_limits.c", "posix/soma_model.c")
HEADERS = ("fw_soma.h", "posix/soma_model.h")
GUARD = 64
"""Bytes after the results that no code may change."""
HAL = """
#include <stdio.h>
#include <stdlib.h>
#include "fw_hal.h"

void fw_hal_write(const void *data, size_t bytes) { fwrite(data, 1, bytes, stderr); }
void fw_hal_exit(int32_t code) { exit(code); }
"""


@dataclass(frozen=True)
class Result:
    """The result of a layer, its bytes in memory, and the cycles that the C model counted."""

    output: Array
    stored: Array
    cycles: Cycles
    lowered: LoweredRegion


class CycleCount(ctypes.Structure):
    _fields_ = [("compute", ctypes.c_uint64), ("transfer", ctypes.c_uint64)]


class Model:
    """The C model with the parameters of one accelerator, compiled once."""

    def __init__(self, accelerator: Accelerator, folder: Path) -> None:
        self.accelerator, self.folder, self.built = accelerator, folder, 0
        folder.mkdir()
        diana = load_platform("diana")
        numbers = {**diana.accelerators["soma_dory"], **vars(accelerator)}
        variables = {"platform": replace(diana, accelerators={"soma_dory": numbers})}
        for name in (*HEADERS, *MODEL):
            text = render(make_environment(), f"soma_dory/{name}.j2", variables)
            (folder / Path(name).name).write_text(text)
        (folder / "fw_hal.h").write_text(
            render(make_environment(), "runtime/fw_hal.h.j2", variables)
        )
        (folder / "fw_hal.c").write_text(HAL)
        sources = [Path(name).name for name in MODEL]
        compiled(["gcc", *FLAGS, *SANITIZER, "-c", "fw_hal.c", *sources], folder)

    def run(self, layer: AcceleratorLayer, *inputs: Array, compiler: str = "gcc") -> Result:
        """Lower, compile, call; inputs and output are (N, C, H, W) or (N, C), int8."""
        lowered = lower_layer(a_region(layer), layer, self.accelerator)
        library = ctypes.CDLL(str(self.build(lowered, compiler)))
        shape: tuple[int, ...] = (layer.batch, layer.out_channels)
        if layer.kind is not LayerKind.DENSE:
            shape += (layer.out_height, layer.out_width)
        size = device_storage(shape).bytes
        memory = np.full(size + GUARD, 85, "int8")
        output = memory[:size]
        arrays = [in_memory(i) for i in inputs] + [*lowered.weights.values()] + [output]
        expected = (*lowered.kernel.inputs, *lowered.kernel.weights, *lowered.kernel.outputs)
        assert [a.nbytes for a in arrays] == [p.bytes for p in expected]
        library.layer(*(a.ctypes.data_as(ctypes.c_void_p) for a in arrays))
        library.fw_soma_read_cycles.restype = CycleCount
        counted = library.fw_soma_read_cycles()
        assert (memory[size:] == 85).all(), "bytes behind the results are not the layer's"
        return Result(from_device(output, shape), output,
                      Cycles(counted.compute, counted.transfer, 0), lowered)  # fmt: skip

    def build(self, lowered: LoweredRegion, compiler: str) -> Path:
        """Return a new library, because a library that is already loaded would be reused."""
        self.built += 1
        name = f"layer_{self.built}"
        kernel = lowered.kernel
        read = [f"const {p.c_type} *restrict {p.name}" for p in (*kernel.inputs, *kernel.weights)]
        signature = ", ".join([*read, f"{kernel.outputs[0].c_type} *restrict output"])
        lines = [*(f'#include "{h}"' for h in kernel.headers), f"void layer({signature});",
                 f"void layer({signature})", "{", kernel.body, "}", ""]  # fmt: skip
        (self.folder / f"{name}.c").write_text("\n".join(lines))
        objects = [f"{Path(n).stem}.o" for n in MODEL]
        compiled([compiler, *FLAGS, "-c", f"{name}.c"], self.folder)
        compiled(["gcc", *SANITIZER, "-shared", "-o", f"{name}.so", f"{name}.o", "fw_hal.o",
                  *objects], self.folder)  # fmt: skip
        return self.folder / f"{name}.so"


def compiled(command: list[str], folder: Path) -> None:
    ran = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr


def a_region(layer: AcceleratorLayer) -> Region:
    inputs = ("x", "x2") if layer.kind is LayerKind.ADD else ("x",)
    return Region("region_0", "soma_dory", "", layer.kind.value, (), (), inputs, ("y",),
                  layer.macs, False, ())  # fmt: skip
