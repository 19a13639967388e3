"""A file that a build has looked at stays as it is until the build ends, or the build fails.

Stages read the same files one after the other. If one changed in between, a bundle would name an
input that its firmware was not made from.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from doit.exceptions import TaskFailed
from doit.runner import Runner
from doit.task import Task

from firmwright.folders import PREFIXES

from .freshness import Identity, identify


class SteadyInputs:
    """What a runner of doit does besides: it fails a stage whose files the build knows otherwise.

    firmwright's own files are left out.
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
        """Take no result of a stage whose input has changed meanwhile."""
        super().process_task_result(node, failure or self.find_changed(node.task))  # type: ignore[misc]

    def find_changed(self, task: Task) -> TaskFailed | None:
        """Return what fails a task; None where its files are as they were, or are new here."""
        for path, identity in identify(list_watched(task)).items():
            if self.seen.setdefault(path, identity) != identity:
                return TaskFailed(f"{task.name}: {path} changed during this build; build again")
        return None


def list_watched(task: Task) -> Iterator[str]:
    """Yield the files that a stage reads; a user's own tasks may change theirs."""
    if hasattr(task.custom_title, "stage"):
        yield from (path for path in task.file_dep if not path.startswith(PREFIXES))


class SteadyRunner(SteadyInputs, Runner):  # type: ignore[misc]
    """doit's runner of stages one after the other."""
