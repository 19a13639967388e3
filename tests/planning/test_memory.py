"""The content that counts against a platform's memory."""

from __future__ import annotations

from dataclasses import replace

import pytest

from firmwright.errors import UserError
from firmwright.ir.kernels import Kernel, Kernels, Parameter
from firmwright.ir.regions import Partition
from firmwright.ir.tensors import ModelInterface
from firmwright.planning import MemoryUse, Plan, Program, check_memory, memory_uses
from firmwright.planning.arena import Buffer
from firmwright.planning.schedule import Schedule
from firmwright.toolchain import load_platform

RV32, DIANA = load_platform("rv32-bare"), load_platform("diana")


def program(weights: int) -> Program:
    """Return a program with an arena of 100,000 bytes and one region that has weights."""
    constants = (Parameter("w", "int8", weights, "conv_weights"),)
    kernel = Kernel("conv", (), constants, (), (), "", (), 0, ())
    return Program(
        plan=Plan(Schedule((), ()), 100_000, 100_000, (), {}, ()),
        partition=Partition((), (), (), ()),
        kernels=Kernels((kernel,)),
        interface=ModelInterface("relax", "", (), (), ()),
    )


def test_weights_and_code_count_only_where_they_live_in_ram() -> None:
    needs = 100_000 + RV32.stack
    assert memory_uses(program(50_000), RV32) == [
        MemoryUse("ram", needs, RV32.memories["ram"].size)
    ]
    bare = replace(RV32, memories={})
    assert memory_uses(program(1), bare) == [MemoryUse("32-bit indices", needs, 2**31 - 1)]
    together = 150_000 + DIANA.stack + DIANA.code
    assert memory_uses(program(50_000), DIANA)[0].needs == together


def test_weights_that_leave_no_room_are_named() -> None:
    room = DIANA.memories["ram"].size - DIANA.stack - DIANA.code - 100_000
    check_memory(program(room), DIANA)
    with pytest.raises(UserError) as caught:
        check_memory(program(room + 1), DIANA)
    assert "it needs 512,001 bytes of RAM (100,000 arena, " in str(caught.value)
    assert f"{room + 1:,} bytes  weights of conv" in str(caught.value)


def test_what_lies_in_another_memory_does_not_count_among_the_largest_in_ram() -> None:
    full = program(DIANA.memories["ram"].size)
    buffers = (Buffer("in_ram", 100_000, 0, 0), Buffer("in_near", 100_000, 0, 0, "near"))
    with pytest.raises(UserError) as caught:
        check_memory(replace(full, plan=replace(full.plan, buffers=buffers)), DIANA)
    assert "working memory in_ram" in str(caught.value)
    assert "in_near" not in str(caught.value)
