"""Builds recipes and records the keys, platform fields and variables that each stage reads.

``python -m tests.hammer.keys RECIPE…`` prints the undeclared reads of each stage.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence, Set
from contextlib import contextmanager
from dataclasses import fields, is_dataclass
from functools import wraps
from pathlib import Path
from typing import Any, get_args, get_type_hints

from doit.cmd_base import ModuleTaskLoader
from doit.doit_cmd import DoitMain

from firmwright.pipeline import task
from firmwright.pipeline.command_line import set_variables
from firmwright.pipeline.declaration import ALL
from firmwright.pipeline.job import Job, Stage
from firmwright.pipeline.stage_options import MIX, NETWORK, NO_KEYS, OF_PLATFORMS
from firmwright.recipe.recipe import Recipe
from firmwright.targets.load_devices import load_target, target_names
from firmwright.toolchain import Platform, load_toolchain, toolchain_names


def list_records(annotation: Any, prefix: str = "") -> Iterator[tuple[type, str]]:
    """Yield each record in an annotation with the prefix of its keys."""
    for part in get_args(annotation):
        yield from list_records(part, prefix)
    if is_dataclass(annotation) or hasattr(annotation, "__struct_fields__"):
        yield annotation, prefix
        for name in list_names(annotation, prefix):
            yield from list_records(get_type_hints(annotation)[name], f"{prefix}{name}.")


def list_names(record: type, prefix: str) -> Set[str]:
    """Return the names of the keys that a record has."""
    return get_type_hints(record).keys() - (() if prefix else NO_KEYS)


def find_records() -> dict[type, str]:
    """Return the records of a recipe that have one place in it, each with the prefix of its keys.

    Reads of the other records, such as the sources of samples, count as reads of the whole block.
    """
    places: dict[type, set[str]] = {}
    for record, prefix in list_records(Recipe):
        places.setdefault(record, set()).add(prefix)
    return {record: prefix for record, (prefix, *others) in places.items() if not others}


DERIVED: Mapping[str, Sequence[str]] = {
    "canonical": ALL,
    "sha256": ALL,
    "data": ALL,
    "network_sha256": NETWORK,
}
"""Attributes that a recipe computes from its keys."""

OF_JOBS: Mapping[str, Sequence[str]] = {"mix": MIX, "cores": ("target", "devices")}
"""Attributes that a job computes once from keys; a stage may find them computed."""

OF_FILES = ("name", "c_prefix", "description", "export")
"""Keys in the fact ``file`` of a firmware with several networks."""

BUILD = "the fact `build`"
BOOKKEEPING = (
    *("folder", "name_stage", "is_of_origin", "is_shared", "is_portable", "stages", "makes_stage"),
    *("network_stage", "lowered_stage", "cache", "device_files", "all_jobs", "comparison_job"),
    *("has_firmware", "is_run", "can_emulate", "counts_instructions", "emulator"),
    *("task_name", "bundle_name"),
)
"""Attributes of a job for the paths of results and the list of stages. They change the result files
that a stage depends on."""

SYSTEM_VARIABLES = frozenset(
    {
        *("HOME", "PATH", "TMPDIR", "TEMP", "TMP", "LD_LIBRARY_PATH", "PYTHONHOME", "PYTHONPATH"),
        *("XDG_CACHE_HOME", "FIRMWRIGHT_CACHE", "FIRMWRIGHT_MIRROR", "FIRMWRIGHT_THREADS"),
        *("FIRMWRIGHT_NO_USER_CODE", "COLUMNS", "LINES", "TERM", "NO_COLOR", "FORCE_COLOR"),
    }
)
"""Variables of programs, caches and the terminal; the files of tools count instead."""


PASSING = ("emulator/native_process.py",)
"""The modules that copy the whole environment for a child process."""


class Recorder:
    """Records the reads of the stage that runs, except while it is paused."""

    def __init__(self) -> None:
        self.reads: set[tuple[str, str]] | None = None
        self.needs: Sequence[str] = ()
        self.undeclared: set[str] = set()

    def add(self, kind: str, *names: str) -> None:
        if self.reads is not None:
            self.reads.update((kind, name) for name in names)

    @contextmanager
    def pause(self) -> Iterator[None]:
        reads, self.reads = self.reads, None
        try:
            yield
        finally:
            self.reads = reads

    def record(self, job: Job, stage: Stage, run: Callable[[], None]) -> None:
        """Run a stage, and record the reads that it does not declare."""
        self.reads, self.needs = set(), stage.needs
        try:
            run()
        finally:
            found, self.reads = self.reads, None
            # The stages that declare a variable run again, and a bundle reads the results of all
            # stages.
            others = job.stages.values() if stage.reads_all else ()
            known = {("variable", name) for each in others for name in list_variables(each)}
            missing = [read for read in found - known if not covers(stage, *read)]
            self.undeclared.update(f"{stage.name}: {kind} {name}" for kind, name in missing)


EXCEPTIONS: Mapping[str, Collection[str]] = {"accuracy": OF_PLATFORMS}
"""Keys by stages that read them without a dependency: accuracy is computed on this machine, and its
C contains the digest of all keys as text."""


def list_variables(stage: Stage) -> set[str]:
    """Return the variables that a stage declares, directly or through its facts."""
    found = {*stage.variables}
    if "archives" in stage.facts:
        found |= {load_target(name).libraries_variable for name in target_names()}
    if "build" in stage.facts:
        found |= {load_toolchain(name).variable for name in toolchain_names()}
    return found


def list_keys(stage: Stage) -> Sequence[str]:
    """Return the keys that a stage declares for the job and for the members of the job."""
    of_members = list_keys(stage.of_members) if stage.of_members else ()
    return (*stage.keys, *of_members, *(OF_FILES if "file" in stage.facts else ()))


def covers(stage: Stage, kind: str, name: str) -> bool:
    """Return whether a stage declares a read; for a key, a declared part of it is sufficient."""
    if kind == "key" and name in EXCEPTIONS.get(stage.name, ()):
        return True
    if kind == "key":
        return any(
            each == "*" or f"{name}.".startswith(f"{each}.") or each.startswith(f"{name}.")
            for each in list_keys(stage)
        )
    if kind == "field":
        return stage.platform == ALL or name in stage.platform
    if kind == "variable":
        return name in list_variables(stage)
    return name == BUILD and "build" in stage.facts


RECORDER = Recorder()


def spy(kind: type, note: Callable[[Any, str], None]) -> None:
    """Let a class call ``note`` with the object and the attribute's name at each read."""
    original = kind.__getattribute__

    def read(self: Any, name: str) -> Any:
        if RECORDER.reads is not None:
            note(self, name)
        return original(self, name)  # type: ignore[call-arg]

    kind.__getattribute__ = read  # type: ignore[method-assign, assignment]


def spy_on_records() -> None:
    """Record the reads of recipes, platforms, jobs, toolchains and the environment."""
    for record, prefix in find_records().items():
        names = list_names(record, prefix)

        def note(_: Any, name: str, prefix: str = prefix, names: Any = names) -> None:
            if name in names:
                RECORDER.add("key", f"{prefix}{name}")
            elif name in DERIVED and not prefix:
                RECORDER.add("key", *DERIVED[name])

        spy(record, note)
    platform_fields = {field.name for field in fields(Platform)}
    spy(Platform, lambda _, name: RECORDER.add("field", *platform_fields.intersection([name])))
    spy(Job, note_job)
    pause_in_bookkeeping()
    environment = type(os.environ)
    lookup = environment.__getitem__

    def get_variable(self: Any, name: str) -> Any:
        caller = sys._getframe(1)
        while caller.f_code.co_filename.startswith("<frozen"):
            caller = caller.f_back or sys._getframe()
        file = caller.f_code.co_filename
        if name not in SYSTEM_VARIABLES and "firmwright" in file and not file.endswith(PASSING):
            RECORDER.add("variable", name)
        return lookup(self, name)

    environment.__getitem__ = get_variable  # type: ignore[method-assign]


def note_job(_: Any, name: str) -> None:
    if name in OF_JOBS:
        RECORDER.add("key", *OF_JOBS[name])
    if name in ("build", "build_settings", "compiler"):
        RECORDER.add("fact", BUILD)


def pause_in_bookkeeping() -> None:
    """Pause the records while a job finds its stages and the paths of results."""

    def pausing(function: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(function)
        def call(*given: Any) -> Any:
            with RECORDER.pause():
                return function(*given)

        return call

    Recipe.list_files = pausing(Recipe.list_files)  # type: ignore[method-assign]
    for name in ("sha256", "network_sha256"):
        setattr(Recipe, name, property(pausing(vars(Recipe)[name].fget)))
    task.collect_options = pausing(task.collect_options)  # type: ignore[attr-defined]
    for name in BOOKKEEPING:
        member = vars(Job)[name]
        if isinstance(member, property):
            setattr(Job, name, property(pausing(member.fget)))  # type: ignore[arg-type]
        elif hasattr(member, "func"):
            member.func = pausing(member.func)
        else:
            setattr(Job, name, pausing(member))
    has_stage = Job.has_stage

    def ask(self: Job, stage: str) -> bool:
        self._applying.clear()  # so that every question reads the keys
        if stage not in RECORDER.needs:  # the keys by which it applies
            return has_stage(self, stage)
        with RECORDER.pause():
            return has_stage(self, stage)

    Job.has_stage = ask  # type: ignore[method-assign]


def build(recipe: str, outdir: Path) -> list[str]:
    """Build a recipe in this process; return the undeclared reads, sorted."""
    words = [f"recipe={recipe}", f"outdir={outdir}"]
    set_variables(words)
    run_watched = task.run_watched

    def run(job: Job, stage: Stage, folder: Path, watched: Any) -> None:
        RECORDER.record(job, stage, lambda: run_watched(job, stage, folder, watched))

    task.run_watched = run
    from firmwright.tasks import dodo  # it reads the variables at its import

    spy_on_records()
    code = DoitMain(ModuleTaskLoader(vars(dodo))).run(["run", "-n", "0", "build", *words])
    if code:
        raise SystemExit(f"{recipe} does not build")
    return sorted(RECORDER.undeclared)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("recipe")
    parser.add_argument("outdir", type=Path)
    given = parser.parse_args()
    found = build(given.recipe, given.outdir)
    print(f"{given.recipe}: {len(found)} undeclared", *found, sep="\n  ")
    return bool(found)


if __name__ == "__main__":
    sys.exit(main())
