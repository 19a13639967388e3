"""Adds types to unicorn's engine, because its Python binding declares few types."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any, Protocol, cast

from unicorn.unicorn_const import UC_HOOK_BLOCK

# The package exports these names without a declaration. The library is internal.
from unicorn.unicorn_py3.unicorn import Uc, UcError, uclib

__all__ = ["Engine", "UcError", "add_native_block_hook", "open_engine", "unicorn_function"]

TRANSLATIONS = 128 << 20
"""Bytes for translated code. Unicorn's default is 1 GiB, which can exceed a memory limit."""

ReadDevice = Callable[[Any, int, int, Any], int]  # engine, offset, size in bytes, user data
WriteDevice = Callable[[Any, int, int, int, Any], None]  # engine, offset, size, value, user data


class Engine(Protocol):
    """The methods of :class:`unicorn.Uc` that firmwright uses. Addresses and sizes are in bytes."""

    _uch: Any  # the handle for the library's C functions

    def reg_read(self, register: int) -> int: ...
    def reg_write(self, register: int, value: int) -> None: ...
    def mem_read(self, address: int, size: int) -> bytearray: ...
    def mem_write(self, address: int, data: bytes) -> None: ...
    def mem_map(self, address: int, size: int, access: int = ...) -> None: ...
    def mem_protect(self, address: int, size: int, access: int) -> None: ...
    def mmio_map(
        self,
        address: int,
        size: int,
        read: ReadDevice | None,
        read_data: Any,
        write: WriteDevice | None,
        write_data: Any,
    ) -> None: ...
    def hook_add(
        self,
        kind: int,
        callback: Callable[..., Any],
        data: Any = ...,
        begin: int = ...,
        end: int = ...,
    ) -> int: ...
    def emu_start(self, begin: int, until: int) -> None: ...
    def emu_stop(self) -> None: ...
    def context_save(self) -> Any: ...
    def context_restore(self, context: Any) -> None: ...
    def ctl_set_tcg_buffer_size(self, size: int) -> None: ...


def open_engine(architecture: int, mode: int, cpu: int | None = None) -> Engine:
    engine = cast(Engine, Uc(architecture, mode, cpu))
    engine.ctl_set_tcg_buffer_size(TRANSLATIONS)
    return engine


def unicorn_function(name: str) -> ctypes.c_void_p:
    """Return a pointer to a C function of unicorn, such as ``uc_reg_read``."""
    return ctypes.cast(getattr(uclib, name), ctypes.c_void_p)


def add_native_block_hook(
    engine: Engine, function: ctypes.c_void_p, data: ctypes.Structure
) -> None:
    """Register a C function (a ``uc_cb_hookcode_t``) that unicorn calls with ``data`` for every
    block.

    The caller keeps references to the function and the data. The method ``hook_add`` of unicorn
    accepts only Python functions.
    """
    handle = ctypes.c_size_t()
    everywhere = (ctypes.c_uint64(1), ctypes.c_uint64(0))  # an empty range means every address
    status = uclib.uc_hook_add(
        engine._uch, ctypes.byref(handle), UC_HOOK_BLOCK, function, ctypes.byref(data), *everywhere
    )
    if status != 0:
        raise UcError(status)
