"""A build of a fleet, as a program of its own: it ends with the worker that started it."""

from __future__ import annotations

import sys

from firmwright.cluster.lifeline import follow_lifeline
from firmwright.cluster.order import LOG
from firmwright.pipeline.command_line import run_tasks, set_variables
from firmwright.pipeline.networks import leave_out_members


def main(watched: int, folder: str, words: list[str]) -> int:
    """Build what the words name and print the path of its bundle; return the exit code.

    ``watched`` is its end of the worker's lifeline. What the build shows goes into the log in
    ``folder``, its mistakes to standard error.
    """
    follow_lifeline(watched)
    set_variables(words)
    from firmwright.tasks import dodo  # it reads the variables while it is imported

    failed = run_tasks(dodo, ["run", "--output-file", f"{folder}/{LOG}", "build", *words])
    if not failed:
        (job,) = leave_out_members(dodo.get_jobs())
        print(job.bundle.resolve())
    return failed


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]), sys.argv[2], sys.argv[3:]))
