"""Starts Python programs that do not import from the current folder, and ends them in time.

``python -m`` and ``python -c`` put the current folder first on Python's path. The option ``-P``
requires Python 3.11. Therefore the first line of a program removes the folder from the path.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from doit import get_initial_workdir

from firmwright.system import KILL, fork

RUN_MODULE = (
    "import sys; sys.path[:] = filter(None, sys.path); del sys.argv[0]; "
    "from runpy import run_module; run_module(sys.argv[0], run_name='__main__', alter_sys=True)"
)
"""Runs the module that the first argument names. The current folder is '' on Python's path."""
PATH_VARIABLE = "PYTHONPATH"
INTERPRETER = sys.executable

_held: set[int] = set()
"""The pipe ends that this process holds. A forked process inherits copies of these ends."""


def make_command(module: str, *arguments: str) -> list[str]:
    """Return the command line that runs a module as ``python -m`` does."""
    return [INTERPRETER, "-c", RUN_MODULE, module, *arguments]


def make_environment(variables: Mapping[str, str]) -> dict[str, str]:
    """Return ``variables`` with absolute entries in PYTHONPATH, and without its empty entries.

    Relative entries refer to the folder of the command. The child has another current folder, which
    may belong to another user. There, relative entries would refer to different files.
    """
    start = Path(get_initial_workdir() or Path.cwd())
    entries = variables.get(PATH_VARIABLE, "").split(os.pathsep)
    path = os.pathsep.join(str(start / entry) for entry in entries if entry)
    others = {name: value for name, value in variables.items() if name != PATH_VARIABLE}
    return others | ({PATH_VARIABLE: path} if path else {})


def run_python(
    module: str,
    *arguments: str,
    wrapper: Sequence[str] = (),
    env: Mapping[str, str] | None = None,
    **settings: Any,
) -> subprocess.CompletedProcess[str]:
    """Run a Python module in a separate process and wait for its end.

    ``wrapper`` is the start of a command line that runs the remaining arguments. ``env`` has the
    variables of the process. The default is the environment of this process. ``settings`` are
    further arguments of :func:`subprocess.run`. The exit code is not checked.
    """
    command = [*wrapper, *make_command(module, *arguments)]
    variables = make_environment(os.environ if env is None else env)
    return subprocess.run(command, env=variables, check=False, **settings)


@contextmanager
def hold_lifeline() -> Iterator[int]:
    """Yield a pipe end for child processes (``pass_fds``), which end after the block.

    The processes also end if this process is killed.
    """
    watched, held = os.pipe()
    _held.add(held)
    try:
        yield watched
    finally:
        _held.remove(held)
        os.close(held)
        os.close(watched)


def follow_lifeline(watched: int) -> None:
    """End this process and its group as soon as no process holds the other end of the pipe.

    A separate process waits for this event, so that the group also ends if this process was killed.
    """
    for held in _held:
        os.close(held)
    _held.clear()
    if fork():
        return
    # Close all other pipes, because their readers (such as faketime) would wait for this process.
    os.closerange(0, watched)
    os.closerange(watched + 1, os.sysconf("SC_OPEN_MAX"))
    os.read(watched, 1)
    os.killpg(0, KILL)
