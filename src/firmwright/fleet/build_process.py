"""A build of a fleet, as a program of its own: it ends with the worker that started it."""

from __future__ import annotations

import os
import signal
import sys
from threading import Thread

from firmwright.pipeline.command_line import run_tasks, set_variables
from firmwright.pipeline.networks import leave_out_members


def main(watched: int, log: str, words: list[str]) -> int:
    """Build what the words name and print the path of its bundle; return the exit code.

    ``watched`` is the end of a pipe whose other end the worker holds. What the build shows goes
    into the file ``log``, its mistakes to standard error.
    """
    Thread(target=end_with_worker, args=[watched], daemon=True).start()
    set_variables(words)
    from firmwright.tasks import dodo  # it reads the variables while it is imported

    failed = run_tasks(dodo, ["run", "--output-file", log, "build", *words])
    if not failed:
        (job,) = leave_out_members(dodo.get_jobs())
        print(job.bundle.resolve())
    return failed


def end_with_worker(watched: int) -> None:
    """Wait until the worker is gone, then end this build and all that it started."""
    os.read(watched, 1)
    os.killpg(0, signal.SIGKILL)


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]), sys.argv[2], sys.argv[3:]))
