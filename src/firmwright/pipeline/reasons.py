"""Explains why stages run or would run, for ``why=1`` and ``dry_run=1``."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from doit.control import TaskControl
from doit.task import Task

from firmwright.created_folders import INDEX_FILE
from firmwright.shared_cache.entry import CacheError

from .freshness import UpToDateCheck
from .snapshot import UpToDate
from .stage_cache import find_cached
from .task import list_dependencies

KEPT, CACHED, RUN, MAYBE = "kept", "cache", "run", "then"
"""The origins of a stage's result. A stage with MAYBE runs if an earlier stage changes an input."""


@dataclass(frozen=True)
class PlannedStage:
    """A stage of a build, the origin of its result, and the reason why it would run."""

    build: str
    stage: str
    origin: str
    reason: str


def explain_run(task: Task) -> str:
    checks = [check for check, *_ in task.uptodate if isinstance(check, UpToDateCheck)]
    reasons = [str(check) for check in checks if check.reasons]
    if not reasons:
        reasons = [describe_change(path) for path in sorted(task.dep_changed or ())]
    if not reasons:
        missing = [path for path in task.targets if not Path(path).exists()]
        reasons = [f"{path} is missing" for path in missing[:1]]
    has_condition = any(callable(check) for check, *_ in task.uptodate)
    never = "it has not run with these values yet" if has_condition else "it runs in every build"
    if checks:  # values, results and existing inputs are unchanged
        never = "an input of the last run is missing, or doit has the option -a"
    return "; ".join(reasons) or never


def describe_change(path: str) -> str:
    file = Path(path)
    return f"the stage {file.parent.name} has a new result" if file.name == INDEX_FILE else (
        f"{path} has changed"
    )  # fmt: skip


def plan_build(tasks: list[Task], selected: Sequence[str], state: Any) -> Iterator[PlannedStage]:
    """Yield the stages of a build in order. ``state`` is doit's record of results."""
    control = TaskControl(tasks)
    control.process(list(selected))
    plan = DryRun(control.tasks, state)
    for name in order_tasks(control.tasks, control.selected_tasks):
        task = control.tasks[name]
        if isinstance(task.custom_title, UpToDate):
            yield PlannedStage(task.custom_title.title, "all stages", KEPT, "")
        elif task.actions and hasattr(task.custom_title, "stage"):
            yield plan.add(task)


@dataclass
class DryRun:
    """The stages that would run.

    ``running`` maps the tasks of these stages to positions. ``results`` maps these tasks to the
    digest of the index that each task writes, or '' if the digest is unknown.
    """

    tasks: Mapping[str, Task]
    state: Any
    running: dict[str, int] = field(default_factory=dict)
    results: dict[str, str] = field(default_factory=dict)

    def add(self, task: Task) -> PlannedStage:
        title = task.custom_title
        origin, reason = self.find_origin(task)
        if origin != KEPT:
            self.running[task.name] = len(self.running)
            digest = self.find_cached(task) if origin == RUN else ""
            self.results.update(dict.fromkeys(task.targets[:1], digest))
            origin = CACHED if digest else origin
        return PlannedStage(title.job.title, title.stage, origin, reason)

    def find_origin(self, task: Task) -> tuple[str, str]:
        """Return KEPT, RUN or MAYBE, and the reason."""
        if self.state.get_status(task, self.tasks).status != "up-to-date":
            return RUN, explain_run(task)
        before = sorted(self.running.keys() & task.task_dep, key=self.running.__getitem__)
        stages = dict.fromkeys(name.partition(":")[0] for name in before)
        return (MAYBE, f"after {', '.join(stages)}") if before else (KEPT, "")

    def find_cached(self, task: Task) -> str:
        """Return the digest of the index in the shared cache, or '' if the cache has an error."""
        job, name = task.custom_title.job, task.custom_title.stage
        checks = [check for check, *_ in task.uptodate if isinstance(check, UpToDateCheck)]
        if name not in job.stages or not checks:
            return ""
        stage = job.stages[name]
        files = list_dependencies(job, stage)
        try:
            return find_cached(job, stage, checks[0].configuration, files, self.results)
        except CacheError:
            return ""


def order_tasks(tasks: Mapping[str, Task], selected: Sequence[str]) -> list[str]:
    """Return the names of tasks and of all tasks that they need, in the order of execution.

    doit stores the inputs of a stage without an order, so the stages are in the pipeline's order.
    """
    names: dict[str, None] = {}
    positions = {name: position for position, name in enumerate(tasks)}

    def visit(name: str) -> None:
        if name not in names:
            needed = tasks[name].task_dep
            for before in (
                sorted(needed, key=positions.__getitem__) if tasks[name].actions else needed
            ):
                visit(before)
            names[name] = None

    for name in selected:
        visit(name)
    return list(names)


def format_plan(planned: Sequence[PlannedStage]) -> str:
    """Return a text with the stages of each build, with one line for all stages that do not run."""
    lines: list[str] = []
    builds: dict[str, list[PlannedStage]] = {}
    for each in planned:
        builds.setdefault(each.build, []).append(each)
    for build, stages in builds.items():
        kept = [each.stage for each in stages if each.origin == KEPT]
        lines += [build, *([f"  {KEPT:<5}  {', '.join(kept)}"] if kept else [])]
        others = [each for each in stages if each.origin != KEPT]
        lines += [f"  {each.origin:<5}  {each.stage:<11}  {each.reason}" for each in others]
    return "\n".join(lines)
