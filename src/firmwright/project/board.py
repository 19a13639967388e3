"""Writes a board's files: start-up code, linker script, HAL and an optional Makefile."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import jinja2

from firmwright.codegen.names import c_identifier
from firmwright.codegen.templates import confine
from firmwright.errors import Diagnostic, DiagnosticError, UserError
from firmwright.ir.regions import RAM
from firmwright.planning.plan import Plan
from firmwright.toolchain import Platform
from firmwright.toolchain.boards import (
    MAKEFILE,
    TEMPLATE_SUFFIX,
    is_built_elsewhere,
    is_custom_board,
    list_board_files,
)
from firmwright.toolchain.platforms import Memory


def write_board(
    env: jinja2.Environment, board: str, variables: Mapping[str, Any], folder: Path
) -> None:
    """Render a board's templates into a project's folder, and copy the other files.

    Raises DiagnosticError, with file and line, if a template has an error.
    """
    folder.mkdir(parents=True, exist_ok=True)
    for file in (f for f in list_board_files(board) if f.name != MAKEFILE):
        target = folder / file.name.removesuffix(TEMPLATE_SUFFIX)
        if file.name.endswith(TEMPLATE_SUFFIX):
            text = render_file(env, board, file.name, variables)
            target.write_text(text, encoding="utf-8", newline="\n")
        else:
            target.write_bytes(file.read_bytes())
    check_memories_used(board, variables, folder)


def list_further_memories(plan: Plan, prefix: str, platform: Platform) -> dict[str, Any]:
    """Return the memories of separate constants, and of arenas that no accelerator uses.

    A program for this machine uses the plan but does not copy constants.
    """
    memories, known = sorted(set(plan.constants.values())), platform.memories
    accelerators = platform.accelerators.values()
    theirs = {name for numbers in accelerators for name in numbers.get("memories", ())}
    return {
        "constant_memories": memories,
        "copied_memories": [m for m in memories if m in known and is_filled(m, known[m])],
        "arena_memories": [m for m in plan.other_arenas if m in known and m not in theirs],
        "constants_name": lambda m: f"{prefix}_constants_{c_identifier(m)}".upper(),
    }


def is_filled(name: str, memory: Memory) -> bool:
    """Return whether the start-up code fills a memory. The memory of ``.data`` does not count."""
    return name != RAM and not memory.read_only


def check_memories_used(board: str, variables: Mapping[str, Any], folder: Path) -> None:
    """Raise UserError if a custom board's files omit a memory of the network.

    The linker would place the data of this memory in another memory, or the start-up code would not
    copy the data.
    """
    scripts, code = (
        [f for f in folder.iterdir() if (f.suffix == ".ld") == s] for s in (True, False)
    )
    further = variables["platform"].memories.keys() - {RAM}
    needed = [
        *((scripts, m, f".bss.noinit.{m}") for m in variables["arena_memories"]),
        *((scripts, m, f".constants.{m}") for m in variables["constant_memories"] if m in further),
        *((code, m, f"fw_constants_{m}_load") for m in variables["copied_memories"]),
    ]
    for files, memory, symbol in needed:
        if not any(symbol in f.read_text(encoding="utf-8", errors="replace") for f in files):
            what = "linker script" if files is scripts else "start-up code"
            raise UserError(
                f"a part of the network is in '{memory}', but the {what} of the board '{board}' "
                f"has no {symbol}. Add it as docs/howto/memory.md describes, or choose another "
                "memory by the recipe's key `memory`"
            )


def render_makefile(env: jinja2.Environment, board: str, variables: Mapping[str, Any]) -> str:
    """Return the project's Makefile. A board for another build system has a separate Makefile."""
    if is_built_elsewhere(board):
        return render_file(env, board, MAKEFILE, variables)
    return env.get_template(f"project/{MAKEFILE}").render(**variables)


def render_file(
    env: jinja2.Environment, board: str, name: str, variables: Mapping[str, Any]
) -> str:
    """Return a rendered template of a board. Custom templates may extend built-in boards."""
    if not is_custom_board(board):
        return env.get_template(f"boards/{board}/{name}").render(**variables)
    path = Path(board) / name
    try:
        return confine(env).from_string(path.read_text(encoding="utf-8")).render(**variables)
    except jinja2.TemplateSyntaxError as error:
        mistake = Diagnostic(str(path), error.lineno, 1, f"{error.message}")
    except (jinja2.TemplateError, UnicodeDecodeError) as error:
        mistake = Diagnostic(
            str(path), 0, 0, f"this template cannot be filled in: {error}; correct the template"
        )
    raise DiagnosticError([mistake])
