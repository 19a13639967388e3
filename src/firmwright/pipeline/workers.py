"""The processes of a build end together, whichever of them is killed.

doit gives each stage to a worker, waits for the worker's answer without end, and a worker waits
for the next stage just so. One that was killed would leave the other, which holds the build
folder's lock.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
from collections.abc import Sequence
from multiprocessing.process import BaseProcess
from threading import Thread
from types import FrameType
from typing import Any

from doit import cmd_run
from doit.runner import MRunner

from firmwright.errors import describe_exit

from .input_guard import SteadyInputs, SteadyRunner


class WatchedRunner(SteadyInputs, MRunner):  # type: ignore[misc]
    """doit's runner of stages side by side, in which no process outlives another."""

    has_workers = False

    def run_tasks(self, task_dispatcher: Any) -> None:
        try:
            super().run_tasks(task_dispatcher)
        except BaseException:
            for worker in multiprocessing.active_children():
                worker.terminate()  # Python waits for them at its end
            raise
        finally:
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)

    def select_task(self, node: Any, tasks: Any) -> bool:
        """Have processes do what has actions; a group of stages needs none, and no record.

        What the first stages need is imported here, for all processes that are forked then.
        """
        selected: bool = super().select_task(node, tasks)
        if selected and not node.task.actions:
            node.run_status = "successful"
            return False
        if selected and not self.has_workers:
            from .task import Title  # late: a build with nothing to do makes no stages

            if isinstance(node.task.custom_title, Title):
                node.task.custom_title.import_stages()
        return selected

    def _run_start_processes(self, job_q: Any, result_q: Any) -> list[BaseProcess]:
        workers: list[BaseProcess] = super()._run_start_processes(job_q, result_q)
        self.has_workers = True

        def look(_signal: int = 0, _frame: FrameType | None = None) -> None:
            if sys.exc_info()[0] is None:  # else doit is ending them
                refuse_dead(workers)

        signal.signal(signal.SIGCHLD, look)
        look()
        return workers

    def execute_task_subprocess(self, job_q: Any, result_q: Any, reporter_class: Any) -> None:
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        Thread(target=end_with_parent, daemon=True).start()
        super().execute_task_subprocess(job_q, result_q, reporter_class)


def refuse_dead(workers: Sequence[BaseProcess]) -> None:
    """End the build, with a message, if a worker did not end by itself."""
    for worker in workers:
        code = worker.exitcode
        if code:
            hint = ": memory may have run out" if code == -signal.SIGKILL else ""
            ended = f"{describe_exit(code)}{hint}"
            sys.exit(f"a process of the build ended with {ended}; finished stages are kept")


def end_with_parent() -> None:
    """Wait until the main process is gone, then end this one."""
    parent = multiprocessing.parent_process()
    assert parent is not None  # a worker has one
    parent.join()
    os.kill(os.getpid(), signal.SIGKILL)


def use_own_runners() -> None:
    """Have doit run stages in these ways, one after the other or side by side."""
    cmd_run.Runner, cmd_run.MRunner = SteadyRunner, WatchedRunner
