"""Starts Python programs that import nothing from the current folder.

``python -m`` and ``python -c`` put the current folder first on Python's path, and the option ``-P``
exists only from Python 3.11. A script puts its folder there instead: ``start.py`` is alone in this
folder, and removes it.
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


def make_command(module: str, *arguments: str) -> list[str]:
    """Return the command line that runs a module as ``python -m`` does."""
    return [sys.executable, START, module, *arguments]


def make_environment(variables: Mapping[str, str]) -> dict[str, str]:
    """Return ``variables`` with absolute entries in PYTHONPATH; empty entries are left out.

    Relative entries start in the folder of the command. In the child's current folder, which can
    belong to somebody else, they would name other files.
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
    """Run a module of Python in a process of its own, to its end.

    ``wrapper`` is the beginning of a command line that runs the rest of it. ``env`` has the
    variables of the process, by default those of this process. ``settings`` are further arguments
    of :func:`subprocess.run`; the exit code is not checked.
    """
    command = [*wrapper, *make_command(module, *arguments)]
    variables = make_environment(os.environ if env is None else env)
    return subprocess.run(command, env=variables, check=False, **settings)
