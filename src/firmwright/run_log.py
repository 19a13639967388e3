"""Shows the programs that a command starts, and copies the lines of a build to a file."""

from __future__ import annotations

import os
import shlex
import sys
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, TextIO

from firmwright import __version__, progress
from firmwright.errors import UserError, explain_failure, to_printable

FIRST_LINE = f"# log of firmwright {__version__}\n"
MARK = "# log of firmwright "
"""The beginning of each log. A file with another beginning is not replaced."""


@dataclass(frozen=True)
class Request:
    """The options of a command: print programs, print tracebacks of faults, write a file."""

    verbose: bool = False
    debug: bool = False
    file: Path | None = None


class _State:
    """The options of this process and its copies, and the open file."""

    request = Request()
    stream: TextIO | None = None


def begin(request: Request) -> None:
    """Follow the options from now on; the same options continue the open file.

    Raises UserError for a file that cannot be written, and for a file that is not a log.
    """
    if request == _State.request:
        return
    if _State.stream is not None:
        _State.stream.close()
    _State.request, _State.stream = request, None
    if request.file is not None:
        _State.stream = open_log(request.file)
    if request.verbose or request.file is not None:
        watch_programs()


def open_log(path: Path) -> TextIO:
    """Return a new log. Processes write whole lines to its end."""
    with explain_failure(f"log={path}: cannot be written", "choose another file"):
        if path.is_file() and path.stat().st_size:
            with path.open("rb") as file:
                if not file.read(len(MARK)).startswith(MARK.encode()):
                    raise UserError(f"log={path}: exists and is not a log; choose another file")
            path.unlink()
        stream = path.open("a", encoding="utf-8", errors="backslashreplace", buffering=1)
        stream.write(FIRST_LINE)
    return stream


def note(text: str) -> None:
    """Add lines to the log, if there is one."""
    if _State.stream is not None:
        _State.stream.write(f"{to_printable(text)}\n")


def show(text: str) -> None:
    """Print lines if the user asked for them, and add them to the log."""
    if _State.request.verbose:
        sys.stderr.write(f"{to_printable(text)}\n")
    note(text)


def shows_faults() -> bool:
    """Return whether the terminal shows the traceback of a fault."""
    return _State.request.debug


def is_open() -> bool:
    """Return whether a log is written."""
    return _State.stream is not None


@cache
def watch_programs() -> None:
    """Show each program that this process or a copy of it starts."""

    def look(event: str, arguments: tuple[Any, ...]) -> None:
        if event == "subprocess.Popen":
            _, command, folder, _ = arguments
            show(format_program(command, folder))

    sys.addaudithook(look)


def format_program(command: Any, folder: Any) -> str:
    """Return a line for a shell, such as ``objects:net-host$ cd /x && gcc -c net.c``."""
    listed = [command] if isinstance(command, str | bytes | os.PathLike) else command
    line = shlex.join(os.fsdecode(argument) for argument in listed)
    where = os.fsdecode(folder or ".")
    change = "" if where == "." else f"cd {shlex.quote(where)} && "
    return f"{progress.get_task() or 'firmwright'}$ {change}{line}"
