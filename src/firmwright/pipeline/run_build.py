"""A build in a process of its own, which this process waits for."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from firmwright.child import run_python
from firmwright.cluster.order import refuse_failure

BUILD_PROCESS = "firmwright.tasks.build_process"
"""The program that builds one bundle and prints its path."""


def run_build(
    words: Sequence[str],
    folder: Path,
    environment: Mapping[str, str] = os.environ,
    umask: int = -1,
    wrapper: Sequence[str] = (),
) -> Path:
    """Build one bundle as if the command were given in ``folder``, and return its path.

    ``words`` are options of ``doit run`` and ``name=value``. ``umask`` is this process's unless it
    is stated; ``wrapper`` is the beginning of a command line that runs the rest of it. Raises
    UserError with the errors of the build.
    """
    done = run_python(
        *(BUILD_PROCESS, "", "", *words), wrapper=wrapper,
        env=environment, cwd=folder, umask=umask,
        stdin=subprocess.DEVNULL, capture_output=True,
        text=True, encoding="utf-8", errors="replace",
    )  # fmt: skip
    refuse_failure(done)
    return Path(done.stdout.splitlines()[-1])
