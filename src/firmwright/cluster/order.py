"""Defines a job as a program: its inputs for a worker, and its output."""

from __future__ import annotations

import hashlib
import os
import signal
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from subprocess import CompletedProcess

from firmwright.child import run_python
from firmwright.created_folders import claim_folder
from firmwright.errors import UserError

LOG = "build.log"
"""The file in a job's folder that contains the output of the job's program."""

ReadOutput = Callable[[], str]
"""Returns the output of a job's program. Raises UserError with its errors if the program failed."""


@dataclass(frozen=True)
class Order:
    """A job for a worker, which can read the same files. ``root`` is the repository.

    ``program`` is a module. The module's ``main`` has the arguments ``folder``, ``arguments`` and
    ``text``, and returns the exit code. A separate program gets the end of a lifeline, the folder
    and the arguments, and reads the text from its standard input. ``environment`` has variables
    that replace the worker's variables. ``files`` maps the path of each file of the recipe,
    relative to ``root``, to its SHA-256.
    """

    name: str
    program: str
    files: Mapping[str, str]
    root: str
    folder: str
    arguments: tuple[str, ...]
    environment: Mapping[str, str]
    text: str = ""


def make_order(
    name: str,
    program: str,
    files: Iterable[Path],
    folder: Path,
    arguments: Iterable[str],
    environment: Mapping[str, str],
    text: str = "",
) -> Order:
    """Return the order of a job that reads a recipe. Paths start at the current folder."""
    return Order(
        name, program, {str(file): digest_file(file) for file in files},
        str(Path.cwd()), str(folder), tuple(arguments), environment, text,
    )  # fmt: skip


def digest_file(path: Path) -> str:
    """Return the SHA-256 of a file of a recipe, or '' if the file is missing."""
    try:
        return hashlib.sha256(path.read_bytes()).hexdigest()
    except OSError:
        return ""


def run_program(order: Order, watched: int) -> str:
    """Return the output of a job's program. Raises UserError with the program's errors if the
    program fails.

    The program ends when the lifeline ``watched`` closes.
    """
    prepare_folder(order)
    done = run_python(
        *(order.program, str(watched), order.folder, *order.arguments),
        cwd=order.root, env={**os.environ, **order.environment}, pass_fds=(watched,),
        input=order.text, capture_output=True, start_new_session=True,
        text=True, encoding="utf-8", errors="replace",
    )  # fmt: skip
    return read_output(order, done)


def prepare_folder(order: Order) -> None:
    """Create the folder of a job.

    Raises UserError if a file of the recipe has changed, or if the folder cannot be created.
    """
    for name, digest in order.files.items():
        if digest_file(Path(order.root, name)) != digest:
            message = (
                "differs from the file at the start of the command; start the command again, or "
                "make the same repository visible to the worker"
            )
            raise UserError(f"{Path(order.root, name)}: {message}")
    try:
        claim_folder(Path(order.root, order.folder))
    except OSError as error:
        raise UserError(f"{error.filename}: {error.strerror or error}") from None


def read_output(order: Order, done: CompletedProcess[str]) -> str:
    """Return the output of a program that has ended, and add its errors to the job's log.

    Raises UserError with the program's errors if the program failed.
    """
    folder = Path(order.root, order.folder)
    if done.stderr and folder.is_dir():
        with (folder / LOG).open("a", encoding="utf-8") as log:
            log.write(done.stderr)
    refuse_failure(done, f"; see {folder / LOG}")
    return done.stdout


def refuse_failure(done: CompletedProcess[str], hint: str = "") -> None:
    """Raise UserError with the errors of a failed build.

    The message ends with ``hint`` if the build printed no error.
    """
    if done.returncode < 0:
        name = signal.Signals(-done.returncode).name
        raise UserError(
            f"the build was ended by {name}: probably out of memory; run fewer builds at a time"
        )
    if done.returncode:
        cause = (
            ": a program did not start; memory may have run out" if done.returncode == 127 else ""
        )
        ended = f"the build ended with code {done.returncode}{cause}{hint}"
        raise UserError(done.stderr.strip() or ended)
