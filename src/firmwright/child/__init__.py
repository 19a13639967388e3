"""Starts Python programs that do not import from the current folder.

``python -m`` and ``python -c`` put the current folder first on Python's path. The option ``-P``
requires Python 3.11. A script puts its folder there instead. Therefore this folder contains only
``start.py``, which removes the folder from the path.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from doit import get_initial_workdir

START = str(Path(__file__).resolve().with_name("start.py"))
PATH_VARIABLE = "PYTHONPATH"
INTERPRETER = sys.executable


def make_command(module: str, *arguments: str) -> list[str]:
    """Return the command line that runs a module as ``python -m`` does."""
    return [INTERPRETER, START, module, *arguments]


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
