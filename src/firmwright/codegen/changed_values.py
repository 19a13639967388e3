"""Loads of arrays that change, told apart for TVM's printer.

It keeps what it compares for a maximum or minimum in a variable, and takes that variable again
wherever the same text stands later in the block, also behind a store to what the text loads.
"""

from __future__ import annotations

import re
from itertools import count

import tvm
from tvm import tirx
from tvm_ffi import structural_map, structural_walk

LOAD_MARKER = "LOAD_"


def mark_changed_loads(body: tirx.Stmt) -> tirx.Stmt:
    """Put each load of an array that the body writes in a call of a name of its own."""
    written = set()
    structural_walk(body, (tirx.BufferStore, lambda store: written.add(store.buffer)))
    addressed = find_addressed(body)
    numbers = count()

    def mark(load: tvm.ir.TensorLoad) -> tirx.Expr:
        if load.source not in written or any(load.same_as(other) for other in addressed):
            return load
        return tirx.call_pure_extern(str(load.ty.dtype), f"{LOAD_MARKER}{next(numbers)}", load)

    return structural_map(body, (tvm.ir.TensorLoad, mark))


def find_addressed(body: tirx.Stmt) -> list[tvm.ir.TensorLoad]:
    """Return the loads that only stand for the address of an element."""
    found: list[tvm.ir.TensorLoad] = []

    def collect(call: tvm.ir.Call) -> None:
        if isinstance(call.op, tvm.ir.Op) and str(call.op.name).endswith("address_of"):
            found.extend(a for a in call.args if isinstance(a, tvm.ir.TensorLoad))

    structural_walk(body, (tvm.ir.Call, collect))
    return found


def unmark_loads(text: str) -> str:
    """Leave of each marked call in a printed body what it is called with."""
    while call := re.search(rf"\b{LOAD_MARKER}\d+\(", text):
        end = find_closing(text, call.end())
        text = text[: call.start()] + text[call.end() : end] + text[end + 1 :]
    return text


def find_closing(text: str, start: int) -> int:
    """Return where the parenthesis is closed that was opened in front of ``start``."""
    depth = 1
    for place in range(start, len(text)):
        depth += {"(": 1, ")": -1}.get(text[place], 0)
        if not depth:
            return place
    raise ValueError("a parenthesis is not closed")
