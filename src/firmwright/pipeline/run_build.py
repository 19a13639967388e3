"""Runs a build in a separate process and waits for its end."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from firmwright.child import run_python
from firmwright.cluster.lifeline import hold_lifeline
from firmwright.cluster.order import refuse_failure

BUILD_PROCESS = "firmwright.tasks.build_process"
"""The program that builds one bundle and prints the path of the bundle."""


def run_build(
    arguments: Sequence[str],
    folder: Path,
    environment: Mapping[str, str] = os.environ,
    umask: int = -1,
    wrapper: Sequence[str] = (),
) -> Path:
    """Build one bundle with the working directory ``folder``, and return the bundle's path.

    ``arguments`` are options of ``doit run`` and ``name=value`` arguments. The default ``umask`` is
    the umask of this process. ``wrapper`` is the start of a command line that runs the remaining
    arguments. The build ends with this process, even if this process is killed. Raises UserError
    with the errors of the build.
    """
    with hold_lifeline() as watched:
        done = run_python(
            *(BUILD_PROCESS, str(watched), "", *arguments), wrapper=wrapper,
            env=environment, cwd=folder, umask=umask, pass_fds=(watched,),
            stdin=subprocess.DEVNULL, capture_output=True, start_new_session=True,
            text=True, encoding="utf-8", errors="replace",
        )  # fmt: skip
    refuse_failure(done)
    return Path(done.stdout.splitlines()[-1])
