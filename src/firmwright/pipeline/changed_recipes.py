"""Loads only the changed recipes of a command, because the other builds are up to date."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from types import ModuleType

from doit.task import Task

from .job import Job
from .recipe_arguments import choose, name_build
from .snapshot import Snapshot, make_finished_task


def load_changed(
    known: Snapshot, task_file: ModuleType, load: Callable[[], list[Task]]
) -> list[Task]:
    """Return the tasks of the changed recipes, and one task for each other build.

    The result is empty if all recipes changed, or if a changed recipe may affect another recipe. In
    this case, every recipe must be loaded. ``task_file`` makes the jobs, and ``load`` makes the
    tasks.
    """
    if len(known.changed) == len(known.recipes):
        return []
    with choose(task_file, (each.recipe for each in known.changed)):
        tasks = load() if are_separate(known, task_file.get_jobs()) else []
    builds = {build.task: build for each in known.recipes for build in each.builds}
    for group in [task for task in tasks if task.name == "build"]:
        tasks += [make_finished_task(builds[n]) for n in builds if n not in group.task_dep]
        group.task_dep[:] = builds
    return tasks


def are_separate(known: Snapshot, jobs: Iterable[Job]) -> bool:
    """Return whether changed recipes have unchanged builds and do not affect other recipes.

    A recipe affects another recipe with an equal name. A recipe also affects another recipe that
    reads a file in the first recipe's build folder.
    """
    every = [each for job in jobs for each in job.all_jobs]
    builds = {build.task for each in known.changed for build in each.builds}
    changed = {each.recipe for each in known.changed}
    others = [each for each in known.recipes if each.recipe not in changed]
    taken = {name for each in others for name in each.names}
    names = {name for job in every for name in (job.recipe.name, job.bundle_name)}
    folders = {f"{job.outdir}/" for job in every}
    written = tuple(folders | {f"{os.path.abspath(folder)}/" for folder in folders})  # noqa: PTH100
    read = {known.paths[position] for each in others for position in each.paths}
    tidy = (os.path.normpath(path) if ".." in path else path for path in read)
    return (
        builds == {f"build:{name_build(job)}" for job in jobs}
        and names.isdisjoint(taken)
        and not any(path.startswith(written) for path in tidy)
    )
