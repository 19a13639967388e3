"""Runs TVM's Relax virtual machine on this computer."""

from __future__ import annotations

from functools import cache

import tvm
import tvm_ffi.libinfo
from tvm import relax


def make_virtual_machine(module: tvm.IRModule) -> relax.VirtualMachine:
    """Compile a module with LLVM for this computer. Raises the errors of TVM."""
    load_host_functions()
    return relax.VirtualMachine(tvm.compile(module, target="llvm"), tvm.cpu())


@cache
def load_host_functions() -> None:
    """Load TVM's functions for sorting and random numbers.

    TVM itself loads these functions only together with its backends.
    """
    tvm_ffi.libinfo.load_lib_ctypes(
        "tvm", "tvm_runtime_extra", "RTLD_LOCAL", tvm.libinfo.package_lib_paths()
    )
