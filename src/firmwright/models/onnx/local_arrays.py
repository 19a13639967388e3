"""Declares local arrays of kernels in TIR."""

from __future__ import annotations

from typing import Any

from tvm.script.ir_builder import IRBuilder
from tvm.script.ir_builder import tirx as script


def make_local(name: str, *shape: int) -> Any:
    return script.buffer_proxy(IRBuilder.name(name, script.alloc_buffer(list(shape), "float32")))
