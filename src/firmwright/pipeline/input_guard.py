"""Fails a build if a file that was checked changes before the build ends."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from doit.exceptions import TaskFailed
from doit.runner import Runner
from doit.task import Task

from firmwright.folders import PREFIXES

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
