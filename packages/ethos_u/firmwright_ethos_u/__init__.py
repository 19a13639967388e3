"""Defines the device `ethos_u`: Arm's Ethos-U with Vela as its compiler.

Every build imports this module, so the module imports neither TVM nor numpy.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from firmwright.device import Target, UserError
from firmwright_ethos_u.hardware import HARDWARE, MEMORY_MODES
from firmwright_ethos_u.vela import check_vela

HEADER = "ethosu_driver.h"
"""The header of Arm's driver. The C code for chips includes the header."""

DRIVER = "https://gitlab.arm.com/artificial-intelligence/ethos-u/ethos-u-core-driver"

if TYPE_CHECKING:
    import tvm

    from firmwright.device import Context, LoweredRegion, Placement, Region


class EthosU(Target):
    """The accelerator for int8 layers that Vela compiles."""

    name = "ethos_u"
    reason = "Vela compiles the layers of its region"
    packages = ("ethos-u-vela",)
    operators = (
        *("conv2d", "matmul", "add", "subtract", "multiply", "avg_pool2d", "max_pool2d", "mean"),
        *("softmax", "sigmoid", "tanh", "relu", "leakyrelu", "clip", "abs", "minimum", "maximum"),
        *("image.resize2d", "take", "concat", "pad", "reshape", "permute_dims", "strided_slice"),
    )

    @property
    def options(self) -> Mapping[str, tuple[str, ...]]:
        return {"accelerator": tuple(HARDWARE), "memory": tuple(MEMORY_MODES)}

    def place(self, module: tvm.IRModule, context: Context, /) -> Placement:
        """Return the regions of layers that break no rule.

        Raises UserError if the required version of Vela is not installed.
        """
        check_vela()
        from firmwright_ethos_u.placement import place_layers

        return place_layers(module, context)

    def lower(self, region: Region, module: tvm.IRModule, context: Context, /) -> LoweredRegion:
        """Compile a region with Vela.

        Raises UserError if the required version of Vela is not installed.
        """
        check_vela()
        from firmwright_ethos_u.regions import lower_region

        return lower_region(region, module, context)

    def extend_project(
        self, project: Path, _variables: Mapping[str, Any], _context: Context, /
    ) -> None:
        """Raise UserError if the project calls Arm's driver, but no library contains the driver."""
        code = project / "board" / "fw_ethos_u.c"
        calls = code.is_file() and HEADER in code.read_text(encoding="utf-8")
        if calls and not (project / "network" / HEADER).is_file():
            raise UserError(
                f"ethos_u: no library of the recipe contains {HEADER}; clone Arm's "
                f"ethos-u-core-driver ({DRIVER}) and name its archive and headers under "
                "`libraries`, or choose the platform corstone300-u55-128-qemu, which simulates "
                "the accelerator"
            )


ETHOS_U = EthosU()
