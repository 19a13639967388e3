"""Creates a custom board as a copy of a built-in board, with notes on the parts to change."""

from __future__ import annotations

import re
import textwrap
from pathlib import Path

from jinja2 import meta

from firmwright.codegen.c_literals import LINE_LENGTH
from firmwright.codegen.templates import make_environment, read_template, wrap_comment
from firmwright.errors import UserError, suggest_known
from firmwright.toolchain import Platform, load_platform, platform_names
from firmwright.toolchain.boards import (
    DESCRIPTION,
    TEMPLATE_SUFFIX,
    list_board_files,
    load_board,
)
from firmwright.toolchain.families import find_family, find_features, load_families
from firmwright.toolchain.platforms import PLATFORMS

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
BOARDS = "boards"
"""The folder, next to the platform files, that contains the folders of boards."""

FILE_REMARKS = {
    "startup.c": "Change: add the interrupts of your chip after the core's interrupts in the "
    "vector table, and switch on the hardware that your memories need before C runs.",
    "startup.S": "Change: switch on the hardware that your memories need before C runs.",
    "link.ld": "Flash and RAM have the sizes of the platform file. Change: add your custom "
    "sections; keep the fw_ names, which the start-up code uses.",
    "fw_hal.c": "Change: the registers of the UART that is your console; clocks and pins in "
    "fw_hal_init; fw_hal_exit, if the run ends without a debugger or emulator.",
}
"""Maps the name of a board's file in the project to a note on the parts to change."""

PLATFORM_REMARKS = {
    "architecture": "The core, which the toolchains below have to support. The family {family} has "
    "{architectures}.",
    "features": "Extensions that kernels may use; this architecture can have: {features}.",
    "clock": "The clock frequency of your board, for the times in reports.",
    "cycles": "The cycle table of the core. Remove the line if the core has no table.",
    "memories": "The memories of your chip, from its reference manual.",
    "stack": "The part of the RAM for the stack; the network uses the rest.",
    "toolchains": "The first toolchain is the default; an entry can be the path of a custom "
    "toolchain file.",
    "emulators": "{emulation} With [] the firmware is built and not run.",
}
"""Maps the keys of a platform file to notes on the parts to change."""

COPIED = "copied_memories"
"""The memories to which the start-up code copies constants.

A new board copies no constants, because its code is plain C.
"""

_BLOCK = re.compile(r"{% block (\w+) %}\n(.*?){% endblock %}\n", re.S)
_EXTENDS = re.compile(r'{% extends "(.+?)" %}\n')
_INCLUDE = re.compile(r'{% include "(.+?)" %}\n')
_REMARK = re.compile(r"{#.*?#}\n", re.S)


def write_new_board(name: str, like: str, folder: Path, force: bool = False) -> list[Path]:
    """Write the platform ``<name>.yaml`` and the board's folder. Return the written files.

    ``like`` names the built-in platform from which both are copied. Raises UserError if the name is
    invalid or exists, or if the platform is unknown. No file is overwritten, except with ``force``.
    """
    if not NAME.fullmatch(name):
        raise UserError(f"'{name}' is not a name for a board; use letters, digits and . _ -")
    if like not in platform_names():
        raise UserError(f"--like: unknown platform '{like}'{suggest_known(like, platform_names())}")
    if name in platform_names():
        raise UserError(f"a platform '{name}' comes with firmwright; choose another name")
    platform, board = folder / f"{name}.yaml", folder / BOARDS / name
    for path in (platform, board):
        if path.exists() and not force:
            hint = "remove it, choose another name, or overwrite it with --force"
            raise UserError(f"{path} already exists; {hint}")
    files = {board / file: text for file, text in make_board(name, load_platform(like).board)}
    files[platform] = make_platform(name, like)
    board.mkdir(parents=True, exist_ok=True)
    for path, text in files.items():
        path.write_text(text, encoding="utf-8", newline="\n")
    return [*files]


def make_board(name: str, like: str) -> list[tuple[str, str]]:
    """Return the names and contents of a board's files. The templates extend no other templates."""
    made = [(DESCRIPTION, make_description(name, like))]
    for file in list_board_files(like):
        text = flatten_template(f"boards/{like}/{file.name}")
        plain = file.name.removesuffix(TEMPLATE_SUFFIX)
        if list_variables(text) == {COPIED}:
            text = make_environment().from_string(text).render({COPIED: ()})
        remark = FILE_REMARKS.get(plain)
        if remark:
            text = f"/*\n * {wrap_comment(f'Part of the board {name}. {remark}')}\n */\n{text}"
        made.append((plain if "{{" not in text and "{%" not in text else file.name, text))
    return made


def list_variables(template: str) -> set[str]:
    return meta.find_undeclared_variables(make_environment().parse(template))


def make_description(name: str, like: str) -> str:
    families = ", ".join(load_board(like).families)
    text = (
        f"# This folder has start-up code, linker script and HAL, copied from {like}.\n"
        f"description: The board {name}.\n"
        f"families: [{families}]    # the cores that this code is for\n"
    )
    if load_board(like).least_stack:
        text += f"least_stack: {load_board(like).least_stack}    # bytes, as link.ld.j2 checks\n"
    if load_board(like).vectors:
        text += f"vectors: {load_board(like).vectors}    # bytes before the vector table in flash\n"
    if load_board(like).data_window:
        text += "data_window: true    # flash has other addresses for data than for instructions\n"
    if load_board(like).machine:
        text += (
            "# The machine that unicorn imitates. Remove it once fw_hal.c drives another UART.\n"
            f"machine: {load_board(like).machine}\n"
        )
    return text


def make_platform(name: str, like: str) -> str:
    """Return the file of a platform: a built-in platform with another board and notes."""
    ready = load_platform(like)
    family = find_family(ready.architecture) or ""
    values = {
        "family": family,
        "architectures": ", ".join(load_families().get(family, (ready.architecture,))),
        "features": ", ".join(find_features(ready.architecture) or ()) or "none",
        "emulation": describe_emulation(ready),
    }
    stated = {
        "name": name,
        "description": f"The board {name}.",
        "board": f"./{BOARDS}/{name}",
    }
    lines = [
        f"# A custom platform, copied from {like}. Recipes name it: `platform: {name}.yaml`.",
        f"# Change the values with a note, and the files of {stated['board']} as their notes say.",
    ]
    text = PLATFORMS.read_text(like)
    for line in text[text.index("name:") :].splitlines():
        key = line.partition(":")[0]
        if key in PLATFORM_REMARKS:
            remark = PLATFORM_REMARKS[key].format(**values)
            lines += textwrap.wrap(remark, LINE_LENGTH, initial_indent="# ", subsequent_indent="# ")
        if key != "aliases":
            lines.append(f"{key}: {stated[key]}" if key in stated else line)
    return "\n".join(lines) + "\n"


def describe_emulation(ready: Platform) -> str:
    """Return a sentence about the emulators that run a copy of a platform at other addresses."""
    if not ready.is_bare_metal:
        return "The emulators run the program of any such system."
    if "unicorn" in ready.emulators:
        return "unicorn runs it at any address, QEMU only at the addresses of its machine."
    others = [
        name
        for name in platform_names()
        if "unicorn" in (other := load_platform(name)).emulators
        and other.architecture == ready.architecture
    ]
    remedy = f"; a copy of {' or '.join(others)} runs at any address" if others else ""
    if not ready.emulators:
        return f"No emulator runs {ready.name}{remedy}."
    return f"QEMU runs it only at the addresses of its machine{remedy}."


def flatten_template(name: str) -> str:
    """Return a template without blocks, which contains the text of parents and included files."""
    return _BLOCK.sub(r"\2", _write_out(name))


def _write_out(name: str) -> str:
    text = _REMARK.sub("", read_template(name))
    text = _INCLUDE.sub(lambda match: _write_out(match[1]), text)
    parent = _EXTENDS.match(text)
    if parent is None:
        return text
    blocks = dict(_BLOCK.findall(text))
    return _BLOCK.sub(
        lambda block: (
            f"{{% block {block[1]} %}}\n{blocks.get(block[1], block[2])}{{% endblock %}}\n"
        ),
        _write_out(parent[1]),
    )
