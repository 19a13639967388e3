"""Draws the pictures of the terminal in docs/pictures: ``python -m tests.e2e.screenshots``.

They show the output of the real commands on a terminal of 80 columns. All stages get one time, so
that equal builds result in equal pictures.
"""

from __future__ import annotations

import io
import re
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

from rich._export_format import CONSOLE_SVG_FORMAT
from rich.console import Console
from rich.text import Text

from firmwright.terminal.live_screen import SPINNER

from .conftest import DIGITS, ROOT, Repository, new_repository

PICTURES = ROOT / "docs" / "pictures"
COLUMNS = 80
BUILD = ("doit", "build", "recipe=digits.yaml")
MODULES = {"firmwright": "firmwright.cli"}
"""The module of a command whose module has another name."""
ERASED = re.compile(r".*\x1b\[2K")
TIME = re.compile(r"(\d+ min )?\d+(\.\d)? s(?=\x1b\[0m$)")
TIME_SHOWN = "0.5 s"
FONT = re.compile(r"@font-face \{\{.*?\}\}\s*", re.DOTALL)
"""The part of rich's SVG template that would fetch a font from elsewhere."""


def take_pictures(folder: Path, repository: Repository) -> None:
    """Write the pictures of a build, of a build that is up to date, and of an error."""
    folder.mkdir(parents=True, exist_ok=True)
    draw(folder / "build.svg", repository, BUILD)
    draw(folder / "up-to-date.svg", repository, BUILD)
    repository.write("digits.yaml", DIGITS + "cflags: [-O9z]\n")
    draw(folder / "failure.svg", repository, BUILD)


def draw(path: Path, repository: Repository, command: Sequence[str]) -> None:
    """Run the command, and draw the lines that stay on the terminal."""
    console = Console(
        file=io.StringIO(), record=True, width=COLUMNS, force_terminal=True, highlight=False
    )
    console.print(Text(f"$ {' '.join(command)}", "bold"))
    program, *arguments = command
    module = MODULES.get(program, program)
    for line in read_lines(repository.run_in_terminal(COLUMNS, module, *arguments)):
        console.print(Text.from_ansi(line), soft_wrap=True)
    form = FONT.sub("", CONSOLE_SVG_FORMAT)
    svg = console.export_svg(title="firmwright", code_format=form, unique_id=path.stem)
    path.write_text(svg, encoding="utf-8")


def read_lines(written: str) -> Iterator[str]:
    """Yield the lines that stay on the terminal, with their colors."""
    for line in written.replace("\r\n", "\n").splitlines():
        line = re.sub(r"\x1b\[\?25[hl]", "", ERASED.sub("", line))
        if line.strip() and not any(sign in line for sign in SPINNER):
            yield TIME.sub(lambda found: TIME_SHOWN.rjust(len(found[0])), line)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as scratch:
        take_pictures(PICTURES, new_repository(Path(scratch) / "repository"))
