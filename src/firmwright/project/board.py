"""The board's part of a project: start-up code, linker script, HAL, and sometimes a Makefile."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import jinja2

from firmwright.errors import Diagnostic, DiagnosticError
from firmwright.toolchain.boards import (
    MAKEFILE,
    TEMPLATE_SUFFIX,
    is_built_elsewhere,
    is_own_board,
    list_board_files,
)


def write_board(
    env: jinja2.Environment, board: str, variables: Mapping[str, Any], folder: Path
) -> None:
    """Write a board's files into its folder of a project: templates rendered, all else as it is.

    Raises DiagnosticError, with file and line, for a template with a mistake.
    """
    folder.mkdir(parents=True, exist_ok=True)
    for file in (f for f in list_board_files(board) if f.name != MAKEFILE):
        target = folder / file.name.removesuffix(TEMPLATE_SUFFIX)
        if file.name.endswith(TEMPLATE_SUFFIX):
            text = render_file(env, board, file.name, variables)
            target.write_text(text, encoding="utf-8", newline="\n")
        else:
            target.write_bytes(file.read_bytes())


def render_makefile(env: jinja2.Environment, board: str, variables: Mapping[str, Any]) -> str:
    """Return the project's Makefile: the board's own, where another build system compiles."""
    if is_built_elsewhere(board):
        return render_file(env, board, MAKEFILE, variables)
    return env.get_template(f"project/{MAKEFILE}").render(**variables)


def render_file(
    env: jinja2.Environment, board: str, name: str, variables: Mapping[str, Any]
) -> str:
    """Render a template of a board; a user's may extend one of firmwright's boards."""
    if not is_own_board(board):
        return env.get_template(f"boards/{board}/{name}").render(**variables)
    path = Path(board) / name
    try:
        return env.from_string(path.read_text(encoding="utf-8")).render(**variables)
    except jinja2.TemplateSyntaxError as error:
        mistake = Diagnostic(str(path), error.lineno, 1, f"{error.message}")
    except (jinja2.TemplateError, UnicodeDecodeError) as error:
        mistake = Diagnostic(str(path), 0, 0, f"this template cannot be filled in: {error}")
    raise DiagnosticError([mistake])
