"""Defines a job: a program for a worker, its output, and the events of its run.

Each fleet imports this module, so it does not import asyncio or dask.
"""

from __future__ import annotations

import hashlib
import os
import signal
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from subprocess import CompletedProcess
from types import MappingProxyType
from typing import Protocol

from firmwright.child import hold_lifeline, run_python
from firmwright.created_folders import claim_folder
from firmwright.errors import UserError

BUILD = "firmwright.tasks.programs:build"
"""The program that builds one bundle and prints the path of the bundle."""

POLL = 0.5
"""The interval in seconds at which new and lost workers are detected."""

LOG = "build.log"
"""The file in a job's folder that contains the output of the job's program."""

ReadOutput = Callable[[], str]
"""Returns the output of a job's program. Raises UserError with its errors if the program failed."""


class ClusterError(UserError):
    """Raised if jobs cannot continue, because the scheduler or all workers are gone."""


@dataclass
class Stop:
    """The reason why jobs must stop; empty while they may continue.

    ``code`` is the exit code of the command if a signal stops it, and 0 in other cases.
    """

    reason: str = ""
    code: int = 0


class Watcher(Protocol):
    """Receives the events of jobs."""

    def refuse(self, worker: str, reasons: Sequence[str]) -> None: ...

    def start(self, job: str, worker: str) -> None: ...

    def lose(self, job: str) -> None: ...


@dataclass(frozen=True)
class Order:
    """A job for a worker, which can read the same files. ``root`` is the current folder of the job.

    ``program`` is a function (``module:function``) with the arguments ``folder``, ``arguments`` and
    ``text``, which returns the exit code. A separate program gets the name of the function, the end
    of a lifeline, the folder and the arguments, and reads the text from its standard input.
    ``folder`` is '' if the job has no folder for its log. ``environment`` has variables that
    replace the worker's variables. Variables whose value is None are removed. Only separate
    programs have these variables. ``files`` maps the path of each file of the recipe, relative to
    ``root``, to its SHA-256.
    """

    name: str
    program: str
    files: Mapping[str, str]
    root: str
    folder: str
    arguments: tuple[str, ...]
    environment: Mapping[str, str | None]
    text: str = ""

    def list_variables(self) -> dict[str, str]:
        """Return the environment of the job on this worker."""
        variables = {**os.environ, **self.environment}
        return {name: value for name, value in variables.items() if value is not None}


def make_order(
    name: str,
    program: str,
    files: Iterable[Path],
    folder: Path,
    arguments: Iterable[str],
    text: str = "",
) -> Order:
    """Return the order of a job that reads a recipe. Paths start at the current folder."""
    return Order(
        name, program, {str(file): digest_file(file) for file in files},
        str(Path.cwd()), str(folder), tuple(arguments), {}, text,
    )  # fmt: skip


def digest_file(path: Path) -> str:
    """Return the SHA-256 of a file of a recipe, or '' if the file is missing."""
    try:
        return hashlib.sha256(path.read_bytes()).hexdigest()
    except OSError:
        return ""


def run_build(
    arguments: Sequence[str],
    root: Path,
    environment: Mapping[str, str | None] = MappingProxyType({}),
    umask: int = -1,
    wrapper: Sequence[str] = (),
) -> Path:
    """Build one bundle in a separate process, and return the bundle's path.

    ``arguments`` are options of ``doit run`` and ``name=value``. :class:`Order` and
    :func:`run_program` describe the other parameters. Raises UserError with the errors of the
    build.
    """
    order = Order("", BUILD, {}, str(root), "", tuple(arguments), environment)
    with hold_lifeline() as watched:
        return Path(run_program(order, watched, umask, wrapper).splitlines()[-1])


def run_program(order: Order, watched: int, umask: int = -1, wrapper: Sequence[str] = ()) -> str:
    """Return the output of a job's program. Raises UserError with the program's errors if the
    program fails.

    The program ends when the lifeline ``watched`` closes, even if this process is killed. The
    default ``umask`` is the umask of this process. ``wrapper`` is the start of a command line that
    runs the remaining arguments.
    """
    prepare_folder(order)
    module, _, function = order.program.partition(":")
    done = run_python(
        *(module, function, str(watched), order.folder, *order.arguments), wrapper=wrapper,
        cwd=order.root, env=order.list_variables(), umask=umask, pass_fds=(watched,),
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
    if not order.folder:
        return
    try:
        claim_folder(Path(order.root, order.folder))
    except OSError as error:
        raise UserError(f"{error.filename}: {error.strerror or error}") from None


def read_output(order: Order, done: CompletedProcess[str]) -> str:
    """Return the output of a program that has ended, and add its errors to the job's log.

    Raises UserError with the program's errors if the program failed.
    """
    log = Path(order.root, order.folder, LOG) if order.folder else None
    if log and done.stderr and log.parent.is_dir():
        with log.open("a", encoding="utf-8") as stream:
            stream.write(done.stderr)
    refuse_failure(done, f"; see {log}" if log else "")
    return done.stdout


def refuse_failure(done: CompletedProcess[str], hint: str) -> None:
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
