"""Collects the files and folders that a snapshot watches to detect every relevant change."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path, PurePath

from doit.globals import Globals
from doit.task import Task

from firmwright.data.patterns import WILDCARDS
from firmwright.folders import PREFIXES
from firmwright.recipe.custom_code import find_custom_code
from firmwright.recipe.user_files import find_references
from firmwright.targets.load_devices import find_targets
from firmwright.toolchain.emulator_names import BUILT_IN

from .build_inputs import list_tools, user_files
from .freshness import FileState
from .job import Job
from .recipe_arguments import name_build
from .same_recipes import make_text
from .snapshot import BuiltRecipe, UpToDate, list_finished, read_kept, write_snapshot
from .tool_stamps import find_named_files


def keep_snapshot(tasks: Mapping[str, Task], fresh: Sequence[Task], ran: Sequence[Task]) -> None:
    """Write a snapshot of a build if all stages that the build needs are now up to date.

    ``tasks`` maps names to all tasks. The tasks in ``fresh`` were already up to date. The tasks in
    ``ran`` have run, in this order.
    """
    done = {task.name: task for task in (*fresh, *ran)}
    if {*done} != {name for name in list_needed(tasks, "build") if tasks[name].actions}:
        return
    finished = {name: tasks[name].custom_title for name in tasks["build"].task_dep}
    kept = read_kept({name for name, title in finished.items() if isinstance(title, UpToDate)})
    results = {name: Globals.dep_manager.get_values(name).get("outputs", {}) for name in done}
    jobs = list({id(job): job for job in (t.custom_title.job for t in done.values())}.values())
    builds = list_finished(task.custom_title for task in done.values())
    builds += [each for old in kept for each in old.known.builds]
    built = [each for name in finished for each in builds if each.task == name]
    if (
        len(built) != len(finished)
        or not all(results[task.name] for task in ran)  # tasks without results run every time
        or not all(map(can_be_watched, jobs))
    ):
        return
    owners = {id(member): job for job in jobs for member in job.members}
    parts: dict[str, list[Task]] = {}
    for task in done.values():
        job = task.custom_title.job.origin or task.custom_title.job
        parts.setdefault(str(owners.get(id(job), job).recipe.layers), []).append(task)
    recipes = [describe(*part, results, built) for part in parts.items()]
    write_snapshot(recipes, kept, [*finished])


def describe(
    recipe: str,
    tasks: Sequence[Task],
    results: Mapping[str, Mapping[str, FileState]],
    built: Iterable[UpToDate],
) -> BuiltRecipe:
    """Return the files that affect the tasks of a recipe. ``results`` maps tasks to files."""
    jobs = list({id(job): job for job in (task.custom_title.job for task in tasks)}.values())
    watched = {path for task in tasks for path in task.file_dep}
    watched.update(str(path) for job in jobs for path in list_job_files(job))
    # A lock contains digests of the recipe's text. So a change of a comment also affects its tasks.
    locked = {file for job in jobs if job.lock_files for file in job.recipe.source_files}
    layers = {repr(job.recipe.layers): job.recipe.layers for job in jobs}
    files = {repr(job.recipe.layers): job.recipe.source_files for job in jobs}
    free = [key for key in layers if locked.isdisjoint(files[key])]
    names = {f"build:{name_build(job)}" for job in jobs}
    return BuiltRecipe(
        recipe,
        [each for each in built if each.task in names],
        {name for job in jobs for name in (job.recipe.name, job.bundle_name)},
        {path: state for task in tasks for path, state in results[task.name].items()},
        [path for path in watched if not path.startswith(PREFIXES)],
        [make_text(layers[key], files[key]) for key in free],
    )


def list_needed(tasks: Mapping[str, Task], name: str) -> set[str]:
    """Return the names of a task and of all tasks that the task needs."""
    names = {name}
    waiting = [name]
    while waiting:
        new = {*tasks[waiting.pop()].task_dep} - names
        names |= new
        waiting += new
    return names


def can_be_watched(job: Job) -> bool:
    """Return whether only files and folders with known names affect the result.

    Custom Python code, and devices and emulators of other packages, may read any file. C compilers
    search folders for headers. A pattern may match a file that is created later.
    """
    named = (ref.value for ref in find_references(job.recipe.data))
    paths = (value if isinstance(value, str) else value.get("path") or "" for value in named)
    return not (
        any(code.python for code in find_custom_code(job.recipe.layers))
        or job.recipe.list_files("libraries")
        or any(point.module.partition(".")[0] != "firmwright" for point in find_targets())
        or (job.can_emulate and job.emulator not in BUILT_IN)
        or any(c in str(PurePath(path).parent) for path in paths for c in WILDCARDS)
    )


def list_job_files(job: Job) -> Iterator[Path]:
    """Yield the paths that affect a job in addition to the files of the stages.

    The paths include the folders of the files, because a new file, such as the first lock, may
    affect the job.
    """
    listed = [
        job.recipe.path,
        *job.recipe.bases,
        *user_files(job),
        *job.description_files.values(),
        *job.platform_files,
        *job.device_files,
        *find_named_files(job.build),
    ]
    yield from listed
    yield from {path.parent for path in listed}
    yield from (Path(path) for tool in list_tools(job) for path in tool.list_watched())
