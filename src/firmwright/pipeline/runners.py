"""Defines doit's runners: a stage fails if its files change during the build.

All processes of a build end together if one process is killed. The main process of doit waits for
the result of a worker without a time limit. Workers also wait for the next stage without a time
limit. If one process were killed, the other processes would stay and hold the lock of the build
folder.
"""

from __future__ import annotations

import multiprocessing
import signal
import sys
from collections.abc import Iterator, Mapping, Sequence
from multiprocessing.process import BaseProcess
from types import FrameType
from typing import Any

from doit import cmd_run
from doit.exceptions import TaskFailed
from doit.runner import MRunner, Runner
from doit.task import Task

from firmwright.errors import describe_exit
from firmwright.folders import PREFIXES
from firmwright.forked import end_with
from firmwright.system import KILL

from .freshness import Identity, identify


class SteadyInputs:
    """A doit runner that fails a stage if the stage's files have changed since the build read them.

    Several stages read one file at different times. If the file changed between two reads, a bundle
    would name an input that differs from the firmware's input. The files of firmwright are not
    checked.
    """

    def __init__(self, *given: Any, **named: Any) -> None:
        super().__init__(*given, **named)
        self.seen: dict[str, Identity] = {}

    def select_task(self, node: Any, tasks: Mapping[str, Task]) -> bool:
        selected: bool = super().select_task(node, tasks)  # type: ignore[misc]
        changed = self.find_changed(node.task)
        if selected and changed:
            self._handle_task_error(node, changed)  # type: ignore[attr-defined]
            return False
        return selected

    def process_task_result(self, node: Any, failure: Any) -> None:
        super().process_task_result(node, failure or self.find_changed(node.task))  # type: ignore[misc]

    def find_changed(self, task: Task) -> TaskFailed | None:
        """Return the failure of a task, or None if its files are unchanged or not yet known."""
        for path, identity in identify(list_watched(task)).items():
            if self.seen.setdefault(path, identity) != identity:
                return TaskFailed(f"{task.name}: {path} changed during this build; build again")
        return None


def list_watched(task: Task) -> Iterator[str]:
    """Yield the files that a stage reads.

    A user's tasks are skipped, because they may change their files.
    """
    if hasattr(task.custom_title, "stage"):
        yield from (path for path in task.file_dep if not path.startswith(PREFIXES))


class SteadyRunner(SteadyInputs, Runner):  # type: ignore[misc]
    """The runner of doit that runs stages one after the other and checks their inputs."""


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
        parent = multiprocessing.parent_process()
        assert parent is not None and parent.pid is not None  # a worker always has a parent
        end_with(parent.pid)
        super().execute_task_subprocess(job_q, result_q, reporter_class)


def refuse_dead(workers: Sequence[BaseProcess]) -> None:
    """End the build with a message if a worker ended with an error code."""
    for worker in workers:
        code = worker.exitcode
        if code:
            hint = ": probably out of memory" if code == -KILL else ""
            ended = f"{describe_exit(code)}{hint}"
            sys.exit(f"a process of the build ended with {ended}; finished stages are kept")


def install_runners() -> None:
    """Replace doit's runners for sequential and parallel stages with these runners."""
    cmd_run.Runner, cmd_run.MRunner = SteadyRunner, WatchedRunner
