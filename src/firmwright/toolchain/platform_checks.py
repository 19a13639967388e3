"""Finds errors of a valid platform file: unknown names, and keys that contradict each other."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

from firmwright.documents.quantities import parse_size
from firmwright.documents.schema_check import Finding
from firmwright.documents.yaml_text import Pointer
from firmwright.errors import DiagnosticError, UserError, did_you_mean, suggest_known
from firmwright.toolchain.boards import board_names, has_board_file, load_board
from firmwright.toolchain.cycle_tables import load_cycle_table, load_instruction_set
from firmwright.toolchain.descriptions import is_custom_file, resolve_description
from firmwright.toolchain.emulator_names import emulator_names, is_emulator
from firmwright.toolchain.families import find_family, find_features
from firmwright.toolchain.toolchains import TOOLCHAINS, Toolchain, load_toolchain

LINKER_SCRIPT = "link.ld"

OF_PROGRAMS = ("native", "qemu-user")
"""Emulators that run programs of an operating system.

Other emulators have a machine's memories.
"""

IN_UNICORN = ("unicorn", "cv32e40p", "ibex", "picorv32")
"""Emulators that run the firmware in unicorn.

The other emulators then run the firmware on the RTL of their cores.
"""

WIDE_FAMILIES = ("rv64", "linux", "native")
"""Families of architectures whose addresses have more than 32 bits."""

ADDRESS_LIMIT = 1 << 32
WORD, UNICORN_PAGE = 4, 0x1000
"""The alignments of a memory's address in bytes, on any board and in unicorn."""

Data = Mapping[str, Any]


def find_platform_errors(data: Data, folder: Path) -> Iterator[Finding]:
    """Yield the errors of a platform's file in a folder, at the keys that contain them."""
    toolchains: dict[Pointer, Toolchain] = {}
    for pointer, name in _list_toolchains(data):
        try:
            toolchains[pointer] = load_toolchain(resolve_description(name, folder))
        except DiagnosticError:
            if not is_custom_file(name) or (folder / name).is_file():
                raise  # the errors are in the toolchain's file
            yield Finding(pointer, f"no such file: '{folder / name}'; a path starts at this file")
        except UserError:
            hint = suggest_known(name, TOOLCHAINS.names())
            yield Finding(pointer, f"unknown toolchain '{name}'{hint}")
    compilers = {p: t for p, t in toolchains.items() if p[0] == "toolchains"}
    yield from _find_architecture_errors(data["architecture"], compilers)
    yield from _find_board_errors(data, folder, [*compilers.values()])
    yield from _find_unknown_features(data)
    yield from _find_cycle_table_errors(data, folder)
    yield from _find_unknown_memories(data)
    yield from _find_unknown_devices(data)
    yield from _find_overlaps(data.get("memories", {}))
    yield from _find_access_errors(data.get("memories", {}))
    yield from _find_address_errors(data)
    yield from _find_emulator_errors(data)


def _list_toolchains(data: Data) -> list[tuple[Pointer, str]]:
    listed: list[tuple[Pointer, str]] = [
        (("toolchains", index), name) for index, name in enumerate(data["toolchains"])
    ]
    return listed + [(("modules", device), name) for device, name in data["modules"].items()]


def _find_architecture_errors(
    architecture: str, toolchains: Mapping[Pointer, Toolchain]
) -> Iterator[Finding]:
    """Yield an architecture without a toolchain, or the toolchains that do not support it."""
    strangers = {p: t for p, t in toolchains.items() if not t.knows(architecture)}
    if toolchains and len(strangers) == len(toolchains):
        known = {name for toolchain in toolchains.values() for name in toolchain.architectures}
        hint = suggest_known(architecture, known)
        yield Finding(("architecture",), f"unknown architecture '{architecture}'{hint}")
        return
    for pointer, toolchain in strangers.items():
        hint = suggest_known(architecture, toolchain.architectures)
        message = f"the toolchain '{toolchain.name}' does not build for '{architecture}'{hint}"
        yield Finding(pointer, message)


def _find_board_errors(
    data: Data, folder: Path, toolchains: Sequence[Toolchain]
) -> Iterator[Finding]:
    """Yield a board that does not exist or does not fit the architecture, linker or emulator."""
    architecture = data["architecture"]
    name = resolve_description(data["board"], folder)
    try:
        board = load_board(name)
    except DiagnosticError:
        raise
    except UserError as error:
        yield Finding(("board",), str(error))
        return
    family = find_family(architecture)
    if family and family not in board.families:
        fitting = [n for n in board_names() if family in load_board(n).families]
        yield Finding(
            ("board",),
            f"the board '{data['board']}' supports {' and '.join(board.families)}, but the "
            f"architecture '{architecture}' is {family}; boards that support it: "
            f"{', '.join(fitting) or 'none'}",
        )
    linked = [t for t in toolchains if t.knows(architecture) and t.uses_script(architecture)]
    if linked and not has_board_file(name, LINKER_SCRIPT):
        message = f"the board '{data['board']}' has no {LINKER_SCRIPT}"
        yield Finding(
            ("board",),
            f"{message}, which the toolchain '{linked[0].name}' needs; add it to the board",
        )
    if "memories" in data and parse_size(data["stack"]) < board.least_stack:
        message = f"the board '{data['board']}' needs at least {board.least_stack:,} bytes"
        yield Finding(("stack",), f"{data['stack']} is too little; {message}")
    flash = data.get("memories", {}).get("flash", {})
    if board.data_window and "data_origin" not in flash:
        message = f"the board '{data['board']}' reads data at other addresses than instructions"
        yield Finding(("memories", "flash"), f"{message}; add `data_origin`")
    if "data_origin" in flash and not board.data_window:
        message = f"the board '{data['board']}' reads data at the addresses of instructions"
        yield Finding(("memories", "flash", "data_origin"), f"{message}; remove this key")
    for name in () if board.machine else _list_in_unicorn(data):
        message = (
            f"the board '{data['board']}' names no `machine` for {name}; add it to its "
            f"board.yaml, or remove {name} from `emulators`"
        )
        yield Finding(("emulators", data["emulators"].index(name)), message)


def _list_in_unicorn(data: Data) -> list[str]:
    return [name for name in data["emulators"] if name in IN_UNICORN]


def _find_unknown_features(data: Data) -> Iterator[Finding]:
    possible = find_features(data["architecture"])
    for index, feature in enumerate(data["features"]):
        if possible is not None and feature not in possible:
            message = f"the architecture '{data['architecture']}' has no '{feature}'"
            can_have = f"it can have: {', '.join(possible)}" if possible else "it has no features"
            yield Finding(("features", index), f"{message}; {can_have}")


def _find_cycle_table_errors(data: Data, folder: Path) -> Iterator[Finding]:
    """Yield a cycle table that does not exist, or that is for another core."""
    if "cycles" not in data:
        return
    name = resolve_description(data["cycles"], folder)
    if is_custom_file(name) and not Path(name).is_file():
        yield Finding(("cycles",), f"no such file: '{name}'; a path starts at this file")
        return
    try:
        table = load_cycle_table(name)
    except DiagnosticError:
        raise
    except UserError as error:
        yield Finding(("cycles",), str(error))
        return
    architecture = data["architecture"]
    family = find_family(architecture)
    fits = family in (None, load_instruction_set(table.instruction_set).family)
    if not fits or (table.architectures and architecture not in table.architectures):
        message = f"the table '{data['cycles']}' is for {table.core}, not for '{architecture}'"
        yield Finding(("cycles",), f"{message}; use a table for its core, or remove the key")


def _find_unknown_memories(data: Data) -> Iterator[Finding]:
    """Yield memories of accelerators that are ``flash`` or that the platform does not have."""
    known = {name: None for name in data.get("memories", {}) if name != "flash"}
    for device, numbers in data.get("accelerators", {}).items():
        reached = numbers.get("memories", ()) if isinstance(numbers, dict) else ()
        for index, name in enumerate(reached):
            if known and name not in known:
                message = f"no memory '{name}' for the data of a device{did_you_mean(name, known)}"
                yield Finding(("accelerators", device, "memories", index), message)


def _find_unknown_devices(data: Data) -> Iterator[Finding]:
    """Yield the missing devices that other devices wait for."""
    known = data.get("accelerators", {})
    for device, numbers in known.items():
        others = {name: None for name in known if name != device}
        awaited = numbers.get("waits_for", ()) if isinstance(numbers, dict) else ()
        for index, name in enumerate(awaited):
            if name not in others:
                message = f"no other device '{name}' for '{device}' to wait for"
                hint = did_you_mean(name, others)
                yield Finding(("accelerators", device, "waits_for", index), f"{message}{hint}")


def _find_overlaps(memories: Data) -> Iterator[Finding]:
    ordered = sorted(memories.items(), key=lambda item: int(item[1]["origin"]))
    for (lower, first), (upper, second) in pairwise(ordered):
        end = first["origin"] + parse_size(first["size"])
        if second["origin"] < end:
            message = f"begins at {second['origin']:#010x}, before '{lower}' ends at {end:#010x}"
            yield Finding(("memories", upper), f"{message}; memories must not overlap")


def _find_access_errors(memories: Data) -> Iterator[Finding]:
    """Yield a read-only RAM, and a flash or RAM without a cost if another memory has a cost."""
    if memories.get("ram", {}).get("read_only"):
        yield Finding(
            ("memories", "ram", "read_only"), "the program writes to `ram`; remove the key"
        )
    stated = [name for name, memory in memories.items() if "cost" in memory]
    for name in ("flash", "ram"):
        if stated and name in memories and name not in stated:
            message = f"the key `cost` is missing, which '{stated[0]}' has; state it for all "
            message += "memories, or remove it"
            yield Finding(("memories", name), message)


def _find_address_errors(data: Data) -> Iterator[Finding]:
    """Yield memories at addresses that the core cannot access or that are not aligned."""
    family = find_family(data["architecture"])
    for name, memory in data.get("memories", {}).items():
        origin, pointer = int(memory["origin"]), ("memories", name)
        end = origin + parse_size(memory["size"])
        if end > ADDRESS_LIMIT and family not in (None, *WIDE_FAMILIES):
            message = (
                f"ends at {end:#x}; addresses of '{data['architecture']}' have 32 bits; "
                "correct `origin` or `size`"
            )
            yield Finding(pointer, message)
        if origin % WORD:
            yield Finding(
                (*pointer, "origin"), f"expected a multiple of {WORD} bytes, found {origin:#x}"
            )
        elif origin % UNICORN_PAGE and (names := _list_in_unicorn(data)):
            needing = " and ".join(names)
            message = (
                f"{origin:#x} is not a multiple of {UNICORN_PAGE:,} bytes, which {needing} "
                f"need{'s' if len(names) == 1 else ''}"
            )
            yield Finding((*pointer, "origin"), f"{message}; move it, or remove {needing}")


def _find_emulator_errors(data: Data) -> Iterator[Finding]:
    """Yield unknown emulators, emulators for other platforms, and QEMU without the key ``qemu``."""
    for index, name in enumerate(data["emulators"]):
        message = ""
        if not is_emulator(name):
            hint = suggest_known(name, emulator_names())
            yield Finding(("emulators", index), f"unknown emulator '{name}'{hint}")
        elif name in OF_PROGRAMS and "memories" in data:
            message = "runs programs of an operating system, not firmware in `memories`; remove it"
        elif name not in OF_PROGRAMS and "memories" not in data:
            message = (
                "runs firmware in `memories`, which this platform does not state; remove the "
                "emulator"
            )
        elif name.startswith("qemu") and "qemu" not in data:
            message = "needs the key 'qemu' with its machine; add the key"
        if message:
            yield Finding(("emulators", index), f"the emulator '{name}' {message}")
