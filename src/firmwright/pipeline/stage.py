"""A stage as a doit task: a folder of results that is replaced as a whole."""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from doit.exceptions import TaskFailed

import firmwright
from firmwright import __version__
from firmwright.errors import UserError

from .freshness import InputWatch, Unchanged, file_digest
from .job import Job

PACKAGE = Path(firmwright.__file__).parent
TASKS = PACKAGE / "tasks"
"""In a checkout a link, which a search below the package does not follow."""

INDEX_FILE = "stage.json"
"""Lists a stage's files with their digests; what later stages depend on."""

CODE_SUFFIXES = frozenset({".c", ".json", ".py", ".yaml"})
"""Suffixes of the package's files that decide about results: rules are YAML, schemas JSON."""

NETWORK_STAGE = "network"
"""Among a stage's needs: whichever stage gives the network as it is compiled."""


@dataclass(frozen=True)
class Stage:
    """One step of the line of work; a recipe that asks nothing of it does without.

    ``run(job, folder)`` writes the results into an empty folder. ``needs`` names the stages
    whose results it reads (NETWORK: the one that gives the network; those that the recipe leaves
    out do not count), ``inputs`` the user's and the package's files. What it writes is decided by
    them, by ``options``, the slice of the recipe and platform, and by the code: all of
    firmwright's, for every hand-kept list of what a stage imports has been incomplete.
    ``publish`` names files that are moved out of the folder to places of their own.
    """

    name: str
    sentence: str
    needs: tuple[str, ...]
    options: Callable[[Job], Any]
    run: Callable[[Job, Path], None]
    inputs: Callable[[Job], Iterable[Path]] = lambda _: ()
    publish: Callable[[Job], list[Path]] = lambda _: []

    def make_tasks(self, jobs: Iterable[Job]) -> Iterator[dict[str, Any]]:
        """Yield the doit task of each job, below a group task of the stage's name."""
        yield {"basename": self.name, "name": None, "doc": self.sentence}
        for job in jobs:
            if job.has_stage(self.name) and job.makes_stage(self.name):
                yield self.make_task(job)

    def make_task(self, job: Job) -> dict[str, Any]:
        stages = dict.fromkeys(job.network_stage if n == NETWORK_STAGE else n for n in self.needs)
        needed = [job.folder(stage) / INDEX_FILE for stage in stages if job.has_stage(stage)]
        dependencies = [str(p) for p in (*needed, *self.inputs(job))]
        folder = job.folder(self.name)
        targets = [folder / INDEX_FILE, *self.publish(job)]
        return {
            "basename": self.name,
            "name": job.task_name(self.name).partition(":")[2],
            "doc": self.sentence,
            "actions": [(self.execute, [job, dependencies])],
            "file_dep": dependencies,
            "targets": [str(t) for t in targets],
            "uptodate": [Unchanged(self.digest_configuration(job), lambda: self.list_outputs(job))],
            "clean": [(remove_results, [[folder, partial_folder(folder), job.cache], targets])],
            "verbosity": 2,
        }

    def list_outputs(self, job: Job) -> list[Path]:
        return [*self.publish(job), *(p for p in job.folder(self.name).rglob("*") if p.is_file())]

    def digest_configuration(self, job: Job) -> str:
        """Return the digest of everything but files that decides about the results."""
        decisive = {
            "firmwright": __version__,
            "packages": find_deciding_packages(),
            "code": code_digest((PACKAGE, TASKS)),
            "options": self.options(job),
        }
        text = json.dumps(decisive, sort_keys=True, default=list)
        return hashlib.sha256(text.encode()).hexdigest()

    def execute(self, job: Job, dependencies: list[str]) -> bool | TaskFailed:
        """Run the stage beside the last good result, then put the new one in its place."""
        folder = job.folder(self.name)
        unfinished = partial_folder(folder)
        try:
            watched = InputWatch(dependencies)
            shutil.rmtree(unfinished, ignore_errors=True)
            unfinished.mkdir(parents=True)
            self.run(job, unfinished)
            watched.check()
            for target in self.publish(job):
                (unfinished / target.name).replace(target)
            write_index(unfinished)
            shutil.rmtree(folder, ignore_errors=True)
            unfinished.rename(folder)
        except UserError as error:
            return TaskFailed(str(error))
        except OSError as error:
            return TaskFailed(f"{error.filename or folder}: {error.strerror or error}")
        finally:
            shutil.rmtree(unfinished, ignore_errors=True)
        return True


def partial_folder(folder: Path) -> Path:
    return folder.with_name(f".{folder.name}.partial")


def write_index(folder: Path) -> None:
    paths = sorted(p for p in folder.rglob("*") if p.is_file())
    listed = {p.relative_to(folder).as_posix(): file_digest(p) for p in paths}
    (folder / INDEX_FILE).write_text(
        json.dumps({"files": listed}, indent=1) + "\n", encoding="utf-8"
    )


def remove_results(folders: list[Path], targets: list[Path]) -> None:
    for folder in folders:
        shutil.rmtree(folder, ignore_errors=True)
    for target in targets:
        target.unlink(missing_ok=True)
    for parent in sorted({f.parent for f in folders}, key=lambda p: len(p.parts), reverse=True):
        with suppress(OSError):  # something else is still in there
            parent.rmdir()


@cache
def find_deciding_packages() -> dict[str, str]:
    """Return the versions of all packages that decide about any stage's results."""
    from firmwright.recipe.lock import (
        CORE_PACKAGES,
        FORMAT_PACKAGES,
        PICTURE_PACKAGES,
        QUANTIZATION_PACKAGES,
        find_package_versions,
    )
    from firmwright.targets import load_target, target_names

    of_targets = (load_target(name).packages for name in target_names())
    groups = (
        CORE_PACKAGES,
        QUANTIZATION_PACKAGES,
        PICTURE_PACKAGES,
        *FORMAT_PACKAGES.values(),
        *of_targets,
    )
    return find_package_versions({name for group in groups for name in group})


@cache
def code_digest(places: tuple[Path, ...]) -> str:
    """Digest the code in folders, so that changing any of it runs every stage again."""
    total = hashlib.sha256()
    for place in places:
        for source in sorted(p for p in place.rglob("*") if p.suffix in CODE_SUFFIXES):
            total.update(source.relative_to(place).as_posix().encode() + b"\0")
            total.update(source.read_bytes())
    return total.hexdigest()
