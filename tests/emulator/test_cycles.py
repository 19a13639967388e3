"""Cycle tables: the kinds of instructions, known numbers of cycles, and wait states."""

from __future__ import annotations

from dataclasses import replace

import pytest

from firmwright.documents.document import load_document
from firmwright.emulator import run_firmware
from firmwright.emulator.instruction_cycles import compute_cycles
from firmwright.toolchain import load_platform
from firmwright.toolchain.cycle_tables import (
    CYCLE_TABLES,
    CycleTable,
    InstructionCost,
    load_cycle_table,
    load_instruction_set,
)

from .conftest import BuildFirmware, RunFirmware

KINDS = {
    "4849": "load",             # ldr r0, [pc, #292]
    "5650": "load",             # ldrsb r0, [r2, r1]
    "6808": "load",             # ldr r0, [r1]
    "9801": "load",             # ldr r0, [sp, #4]
    "5488": "store",            # strb r0, [r1, r2]
    "8008": "store",            # strh r0, [r1]
    "b5f0": "store_multiple",   # push {r4-r7, lr}
    "bdf0": "return",           # pop {r4-r7, pc}
    "bc10": "load_multiple",    # pop {r4}
    "c90d": "load_multiple",    # ldm r1!, {r0, r2, r3}
    "4348": "multiply",         # muls r0, r1
    "1840": "other",            # adds r0, r0, r1
    "d0fe": "other",            # beq .
    "f000f800": "call",         # bl
    "e8bd83f0": "return",       # pop.w {r4-r9, pc}
    "e89103fc": "load_multiple",  # ldm.w r1, {r2-r9}
    "e92d43f0": "store_multiple",  # push.w {r4-r9, lr}
    "e9d10100": "load_two",     # ldrd r0, r1, [r1]
    "e8e10102": "store_two",    # strd r0, r1, [r1], #8
    "e8dff000": "table_branch",  # tbb [pc, r0]
    "f8510b04": "load_update",  # ldr r0, [r1], #4
    "f8d10040": "load",         # ldr.w r0, [r1, #64]
    "f8df0104": "load",         # ldr.w r0, [pc, #260]
    "f8c10040": "store",        # str.w r0, [r1, #64]
    "fb01f002": "multiply",     # mul r0, r1, r2
    "fb013002": "multiply_add",  # mla r0, r1, r2, r3
    "fb810102": "long_multiply",  # smull r0, r1, r1, r2
    "fbc10102": "long_multiply_add",  # smlal r0, r1, r1, r2
    "fb91f0f2": "divide",       # sdiv r0, r1, r2
    "fb21f002": "dsp",          # smuad r0, r1, r2
    "fa2ff081": "dsp",          # sxtb16 r0, r1
    "eb010002": "other",        # add.w r0, r1, r2
    "eb010042": "dsp",          # add.w r0, r1, r2, lsl #1
    "ed910a01": "float_load",   # vldr s0, [r1, #4]
    "ed810a01": "float_store",  # vstr s0, [r1, #4]
    "ecb10a08": "load_multiple",  # vldm r1!, {s0-s7}
    "ee010a81": "float_multiply_add",  # vmla.f32 s0, s3, s2
    "ee003a10": "other",  # vmov s0, r3
    "ee103a10": "other",  # vmov r3, s0
    "eea10a81": "float_multiply_add",  # vfma.f32 s0, s3, s2
    "ee810a81": "float_divide",  # vdiv.f32 s0, s3, s2
    "eeb10ae0": "float_divide",  # vsqrt.f32 s0, s1
    "ee310a81": "other",        # vadd.f32 s0, s3, s2
    "eeb40ae0": "other",        # vcmpe.f32 s0, s1
}  # fmt: skip
"""Instructions, the first halfword first, and their kinds."""


def encode(*instructions: str) -> bytes:
    """Return the code in memory: halfwords in little-endian order."""
    text = "".join(instructions)
    return b"".join(bytes.fromhex(text[i : i + 4])[::-1] for i in range(0, len(text), 4))


def test_each_instruction_has_its_kind() -> None:
    names = sorted({"other", *(pattern.kind for pattern in load_instruction_set("thumb").kinds)})
    numbers = {name: InstructionCost(number) for number, name in enumerate(names)}
    table = CycleTable("", "thumb", 0, numbers)
    found = {each: names[compute_cycles(table, encode(each))[0]] for each in KINDS}
    assert found == KINDS
    assert {*KINDS.values(), "system"} == {*names}


@pytest.mark.parametrize(
    ("instructions", "cycles"),
    [
        (("6808", "6849", "1840", "4770"), 1 + 2 + 1 + 1),  # the first load is pipelined
        (("f8510b04", "6808"), 2 + 2),                      # a changed base: not pipelined
        (("e89103fc",), 1 + 8),
        (("b5f0", "bdf0"), 1 + 5 + 3 + 5 - 2),              # the counter adds the jump's refill
        (("ecb10a08",), 1 + 8),
    ],
)  # fmt: skip
def test_the_table_of_cortex_m4(instructions: tuple[str, ...], cycles: int) -> None:
    code, total, place = encode(*instructions), 0, 0
    found = compute_cycles(load_cycle_table("cortex-m4"), code)
    for each in instructions:
        total += found[place]
        place += len(each) // 4
    assert total == cycles


@pytest.mark.parametrize(
    ("instructions", "stalls"),
    [
        (("6808", "1840"), 1),            # ldr r0, [r1]; adds r0, r0, r1
        (("6808", "1889"), 0),            # ldr r0, [r1]; adds r1, r1, r2
        (("6808", "6010"), 0),            # ldr r0, [r1]; str r0, [r2]
        (("6808", "6002"), 1),            # ldr r0, [r1]; str r2, [r0]
        (("6808", "b110"), 1),            # ldr r0, [r1]; cbz r0
        (("f8d1a000", "fb0a3002"), 1),    # ldr.w r10, [r1]; mla r0, r10, r2, r3
        (("f8d1a000", "fb02a003"), 0),    # ldr.w r10, [r1]; mla r0, r2, r3, r10
        (("e9d10a00", "eb000301"), 0),    # ldrd r0, r10, [r1]; add.w r3, r0, r1: only r10 is late
        (("e9d10a00", "eb0a0301"), 1),    # ldrd r0, r10, [r1]; add.w r3, r10, r1
        (("fb22a003", "fb22a103"), 0),    # two smlad with one accumulator
        (("fa2ff081", "fb20a003"), 1),    # sxtb16 r0, r1; smlad r0, r0, r3, r10
        (("fb021003", "4600"), 1),        # mla r0, r2, r3, r1; mov r0, r0
        (("f50150fe", "1c42"), 1),        # add.w r0, r1, #0x1fc0; adds r2, r0, #1
        (("f1010001", "1c42"), 0),        # add.w r0, r1, #1; adds r2, r0, #1
        (("ebb00f81", "f04f0201"), 0),    # cmp.w r0, r1, lsl #2; mov.w r2, #1
    ],
)  # fmt: skip
def test_a_cortex_m33_waits_for_a_result(instructions: tuple[str, ...], stalls: int) -> None:
    code = encode(*instructions, "bf00")
    both = compute_cycles(load_cycle_table("cortex-m33"), code)
    alone = compute_cycles(load_cycle_table("cortex-m33"), encode(instructions[0], "bf00"))
    assert both[0] - alone[0] == stalls


@pytest.mark.parametrize("name", CYCLE_TABLES.names())
def test_every_table_follows_the_schema(name: str) -> None:
    schema = CYCLE_TABLES.load_schema()
    load_document(CYCLE_TABLES.find_file(name), schema)
    known = {*schema["properties"]["kinds"]["propertyNames"]["enum"]}
    sets = map(load_instruction_set, schema["properties"]["instruction_set"]["enum"])
    assert known == {"other", *(pattern.kind for each in sets for pattern in each.kinds)}
    stated = load_cycle_table(name)
    kinds = load_instruction_set(stated.instruction_set).kinds
    assert {*stated.kinds} <= {"other", *(pattern.kind for pattern in kinds)}


@pytest.mark.parametrize(
    ("instructions", "cycles"),
    [
        ((0x0005A503, 0x00150513), (2, 1)),       # lw a0, 0(a1); addi a0, a0, 1
        ((0x0005A503, 0x00158593), (1, 1)),       # lw a0, 0(a1); addi a1, a1, 1
        ((0x4188, 0x0505), (2, 1)),               # c.lw a0, 0(a1); c.addi a0, 1
        ((0x4188, 0x85AA), (2, 1)),               # c.lw a0, 0(a1); c.mv a1, a0
        ((0x4188, 0xC588), (2, 1)),               # c.lw a0, 0(a1); c.sw a0, 8(a1)
        ((0x4188, 0x8D91), (1, 1)),               # c.lw a0, 0(a1); c.sub a1, a2
        ((0x02B51533, 0x02B50533), (5, 1)),       # mulh a0, a0, a1; mul a0, a0, a1
        ((0x02B54533, 0x8082), (19, 0)),          # div a0, a0, a1; c.jr ra
        ((0x0000A001, 0x000000EF), (0, 0)),       # c.j; jal
    ],
)  # fmt: skip
def test_the_table_of_cv32e40p(instructions: tuple[int, int], cycles: tuple[int, int]) -> None:
    sizes = [4 if each & 3 == 3 else 2 for each in instructions]
    code = b"".join(n.to_bytes(size, "little") for n, size in zip(instructions, sizes, strict=True))
    found = compute_cycles(load_cycle_table("cv32e40p"), code)
    assert (found[0], found[sizes[0] // 2]) == cycles


def test_known_number_of_cycles(build: BuildFirmware) -> None:
    platform = load_platform("cortex-m4-bare")
    elf = build("known_count.c", platform.name)

    def count(wait_states: int) -> int | None:
        flash = replace(platform.memories["flash"], wait_states=wait_states, fetch_bytes=16)
        slow = replace(platform, memories={**platform.memories, "flash": flash})
        cycles = run_firmware(elf, slow, "unicorn", b"", "counted", 10**6).cycles
        return None if cycles is None else cycles.total

    # Each of the 1,000 rounds takes 4 instructions, and its branch refills the pipeline.
    fast = count(0)
    assert fast == 2 * (1 + 1000 * 4 + 999 * 2 + 2 + 2)
    slow = count(3)
    assert slow is not None
    assert 0 < slow - fast <= 2 * 1000 * 2 * 3


CLOCKS = ["cortex-m0-bare", "cortex-m4-bare", "esp32c3", "esp32c6", "rp2040", "rv32-bare"]


@pytest.mark.parametrize("platform", CLOCKS)
def test_the_clock_counts_the_cycles_between_two_readings(
    build: BuildFirmware, run: RunFirmware, platform: str
) -> None:
    between, around = map(int, run(build("cycles.c", platform), platform).console.split())
    assert 0 < between < 60
    assert 100 <= around - between < 120


@pytest.mark.parametrize("toolchain", ["zig", "arm-none-eabi-gcc"])
def test_the_handler_of_systick_counts_its_overflows(
    build: BuildFirmware, run: RunFirmware, toolchain: str
) -> None:
    """SysTick has 24 bits."""
    execution = run(build("overflow.c", "rp2040", toolchain), "rp2040", budget=60_000_000)
    assert execution.cycles is not None
    assert execution.cycles.total > 2 << 24
    assert 0 < execution.cycles.total - int(execution.console) < 60
