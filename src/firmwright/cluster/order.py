"""A job as a program: what a worker needs to run it, and what it says of itself."""

from __future__ import annotations

import hashlib
import os
import signal
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from subprocess import CompletedProcess

from firmwright.child import run_python
from firmwright.created_folders import claim_folder
from firmwright.errors import UserError

LOG = "build.log"
"""In the folder of a job: what its program showed."""


@dataclass(frozen=True)
class Order:
    """A job for a worker, which sees the same files: ``root`` is the repository.

    ``program`` is a module. It gets the job's ``folder`` and ``words``, and reads ``text`` from its
    standard input. ``environment`` has variables that take the place of the worker's own.
    ``files`` has the SHA-256 of each file that makes the recipe, by its path from ``root``.
    """

    name: str
    program: str
    files: Mapping[str, str]
    root: str
    folder: str
    words: tuple[str, ...]
    environment: Mapping[str, str]
    text: str = ""


def make_order(
    name: str,
    program: str,
    files: Iterable[Path],
    folder: Path,
    words: Iterable[str],
    environment: Mapping[str, str],
    text: str = "",
) -> Order:
    """Return the order of a job that reads a recipe; paths are as seen from here, the root."""
    return Order(
        name, program, {str(file): digest_file(file) for file in files},
        str(Path.cwd()), str(folder), tuple(words), environment, text,
    )  # fmt: skip


def digest_file(path: Path) -> str:
    """Return the SHA-256 of a file of a recipe, empty if it is missing."""
    try:
        return hashlib.sha256(path.read_bytes()).hexdigest()
    except OSError:
        return ""


def run_program(order: Order, watched: int) -> str:
    """Return what the program of a job prints; UserError with its mistakes if it fails.

    Its standard error is added to the job's log. The program's first arguments are ``watched``, the
    end of a lifeline with which it ends, and the folder of the job.
    """
    for name, digest in order.files.items():
        if digest_file(Path(order.root, name)) != digest:
            message = "the worker sees another file; it needs the repository as it is here"
            raise UserError(f"{Path(order.root, name)}: {message}")
    folder = Path(order.root, order.folder)
    try:
        claim_folder(folder)
    except OSError as error:
        raise UserError(f"{error.filename}: {error.strerror or error}") from None
    done = run_python(
        *(order.program, str(watched), order.folder, *order.words),
        cwd=order.root, env={**os.environ, **order.environment}, pass_fds=(watched,),
        input=order.text, capture_output=True, start_new_session=True,
        text=True, encoding="utf-8", errors="replace",
    )  # fmt: skip
    if done.stderr:
        with (folder / LOG).open("a", encoding="utf-8") as log:
            log.write(done.stderr)
    refuse_failure(done, f"; see {folder / LOG}")
    return done.stdout


def refuse_failure(done: CompletedProcess[str], hint: str = "") -> None:
    """Raise UserError with the errors of a build that failed.

    ``hint`` ends the message if the build printed none.
    """
    if done.returncode < 0:
        name = signal.Signals(-done.returncode).name
        raise UserError(f"the build was ended by {name}: memory may have run out")
    if done.returncode:
        ended = f"the build ended with code {done.returncode}{hint}"
        raise UserError(done.stderr.strip() or ended)
