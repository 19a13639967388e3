"""Ends all processes of a build together if one process is killed.

doit passes each stage to a worker and waits for the result without a time limit. Workers also wait
for the next stage without a time limit. If one process were killed, the other processes would stay
and hold the lock of the build folder.
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
from firmwright.system import KILL

from .input_guard import SteadyInputs, SteadyRunner


class WatchedRunner(SteadyInputs, MRunner):  # type: ignore[misc]
    """A doit runner of parallel stages whose processes all end together."""

    has_workers = False

    def run_tasks(self, task_dispatcher: Any) -> None:
        try:
            super().run_tasks(task_dispatcher)
        except BaseException:
            for worker in multiprocessing.active_children():
                worker.terminate()  # Python waits for the workers when it exits
            raise
        finally:
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)

    def select_task(self, node: Any, tasks: Any) -> bool:
        """Start processes only for tasks with actions, because a group of stages needs no process.

        This method imports the modules of the first stages before all processes are forked.
        """
        selected: bool = super().select_task(node, tasks)
        if selected and not node.task.actions:
            node.run_status = "successful"
            return False
        if selected and not self.has_workers:
            from .task import Title  # a late import, because an up-to-date build creates no stages

            if isinstance(node.task.custom_title, Title):
                node.task.custom_title.import_stages()
        return selected

    def _run_start_processes(self, job_q: Any, result_q: Any) -> list[BaseProcess]:
        workers: list[BaseProcess] = super()._run_start_processes(job_q, result_q)
        self.has_workers = True

        def look(_signal: int = 0, _frame: FrameType | None = None) -> None:
            if sys.exc_info()[0] is None:  # in an exception, doit ends the workers
                refuse_dead(workers)

        signal.signal(signal.SIGCHLD, look)
        look()
        return workers

    def execute_task_subprocess(self, job_q: Any, result_q: Any, reporter_class: Any) -> None:
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        Thread(target=end_with_parent, daemon=True).start()
        super().execute_task_subprocess(job_q, result_q, reporter_class)


def refuse_dead(workers: Sequence[BaseProcess]) -> None:
    """End the build with a message if a worker ended with an error code."""
    for worker in workers:
        code = worker.exitcode
        if code:
            hint = ": probably out of memory" if code == -KILL else ""
            ended = f"{describe_exit(code)}{hint}"
            sys.exit(f"a process of the build ended with {ended}; finished stages are kept")


def end_with_parent() -> None:
    """Wait for the end of the main process, then end this process."""
    parent = multiprocessing.parent_process()
    assert parent is not None  # a worker always has a parent
    parent.join()
    os.kill(os.getpid(), KILL)


def install_runners() -> None:
    """Replace doit's runners for sequential and parallel stages with these runners."""
    cmd_run.Runner, cmd_run.MRunner = SteadyRunner, WatchedRunner
