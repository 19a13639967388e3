"""Detects from file states that a build has nothing to do, before any recipe is read.

A build writes a snapshot when all of its stages are up to date. The snapshot has the identities
of all files and folders on which this depends. While they are unchanged, the same command line
has the same answer. If one of them differs, every stage is checked by file content.
"""

from __future__ import annotations

import hashlib
import json
import os
import sys
from collections.abc import Container, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
from doit import doit_cmd, get_initial_workdir
from doit.task import Task

from firmwright.checked_file import read_checked, write_checked
from firmwright.errors import UserError
from firmwright.folders import FOLDERS

from .build_root import STATE_FILE, find_build_root
from .freshness import FileState, Identity, identify, is_settled, text_digest
from .platform_arguments import name_build
from .recipe_arguments import find_recipes
from .same_recipes import RecipeTexts
from .switches import DRY_RUN, WHY

if TYPE_CHECKING:
    from .task import Title

FOLDER = ".snapshots"
"""The folder in the build root, with one file per command line."""

PYTHON_PATH = [*sys.path]
"""The path of Python at the start: packages of the stages extend it when they are imported."""


@dataclass(frozen=True)
class UpToDate:
    """A recipe whose build has nothing to do. A reporter recognizes it as the title of a task.

    ``task`` is the name of the task that builds the recipe. ``title`` is the title of the build,
    and ``bundle`` is the path of the result.
    """

    task: str
    title: str
    bundle: str

    def __call__(self, task: Task) -> str:
        return str(task.name)


def list_finished(titles: Iterable[Title]) -> list[UpToDate]:
    """Return the recipes of the stages ``bundle``, which end a build."""
    jobs = [title.job for title in titles if title.stage == "bundle" and title.job.origin is None]
    return [UpToDate(f"build:{name_build(job)}", job.title, str(job.bundle)) for job in jobs]


def load_tasks() -> list[Task]:
    """Return the tasks of a build that has nothing to do; empty if the stages must be checked."""
    fresh = list_up_to_date()
    if not fresh:
        return []
    tasks = [
        Task(each.task, None, uptodate=[True], title=each, subtask_of="build") for each in fresh
    ]
    names = [task.name for task in tasks]
    return [Task("build", None, task_dep=names, has_subtask=True), *tasks]


def list_up_to_date(always: Mapping[str, Identity] | None = None) -> list[UpToDate]:
    """Return the recipes of a build that has nothing to do; empty if it may have."""
    try:
        return read_snapshot(find_snapshot(), collect_circumstances(), always)
    except UserError:  # the code that makes the jobs reports the error
        return []


def find_finished_bundle(always: Mapping[str, Identity] | None = None) -> str | None:
    """Return the bundle of one recipe's build that has nothing to do, otherwise None.

    A recipe of several networks has several builds, so its stages are checked. ``always`` has the
    identities of the paths of ``list_always``, if the caller knows them.
    """
    found = list_up_to_date(always)
    return found[0].bundle if len(found) == 1 else None


def find_snapshot() -> Path:
    return find_build_root() / FOLDER / text_digest(json.dumps(list_decisive_arguments()))


def list_decisive_arguments() -> list[tuple[str, str]]:
    """Return the arguments of the command line that decide a build, sorted."""
    given = (doit_cmd._CMDLINE_VARS or {}).items()
    return sorted((name, text) for name, text in given if name not in (WHY, DRY_RUN))


def collect_circumstances() -> str:
    """Return the deciding values except files. sys.path and PATH find packages and programs."""
    stated = [
        sys.version,
        PYTHON_PATH,
        sorted(os.environ.items()),
        [str(Path.cwd()), get_initial_workdir()],
        [str(layers) for layers in find_recipes()],
        list_decisive_arguments(),
    ]
    return json.dumps(stated)


def read_snapshot(
    path: Path, circumstances: str, always: Mapping[str, Identity] | None = None
) -> list[UpToDate]:
    """Return the recipes of a snapshot that still holds; empty if it does not or is damaged."""
    content = read_checked(path)
    if content is None:
        return []
    try:
        known = json.loads(content)
        texts = msgspec.convert(known["texts"], RecipeTexts)
        found = look_at(known["paths"], always)
        same = known["state"] == digest_state(circumstances, found, texts.places)
        holds = same and texts.hold(found)
        return [UpToDate(*each) for each in known["recipes"]] if holds else []
    except (ValueError, KeyError, TypeError, msgspec.MsgspecError):  # format of another version
        return []


def write_snapshot(
    written: Mapping[str, FileState],
    watched: Iterable[str],
    recipes: Iterable[UpToDate],
    texts: RecipeTexts | None = None,
) -> None:
    """Record that recipes are up to date while these files and folders are unchanged.

    ``written`` are the results of stages, with the states in which the stages left them. Write
    no snapshot if a result has changed since then, or if another file may have changed since
    this process began. The files of ``texts`` may change if their recipes stay equal.
    """
    texts = texts or RecipeTexts([], {})
    listed = sorted({*written, *watched, *texts.places})
    found = look_at(listed)
    same = all(found[path] == list(state[:4]) for path, state in written.items())
    others = found.keys() - written - {str(find_build_root() / STATE_FILE)}
    if not (same and all(is_settled(found[path]) for path in others)):
        return
    known: dict[str, Any] = {
        "state": digest_state(collect_circumstances(), found, texts.places),
        "paths": listed,
        "texts": msgspec.to_builtins(texts),
        "recipes": [[each.task, each.title, each.bundle] for each in recipes],
    }
    write_checked(find_snapshot(), json.dumps(known).encode())


def digest_state(circumstances: str, found: Mapping[str, Identity], places: Container[str]) -> str:
    """Return a digest of the circumstances and of the files that are not in ``places``."""
    total = hashlib.sha256(circumstances.encode("utf-8", "surrogateescape"))
    lines = "".join(
        [f"{path} {identity}\n" for path, identity in found.items() if path not in places]
    )
    total.update(lines.encode("utf-8", "surrogateescape"))
    return total.hexdigest()


def look_at(
    paths: Iterable[str], always: Mapping[str, Identity] | None = None
) -> dict[str, Identity]:
    """Return the identities of the files, of doit's state, and of the files of every build."""
    known = identify(list_always()) if always is None else always
    return {**known, **identify([str(find_build_root() / STATE_FILE), *paths])}


def list_always() -> list[str]:
    """Return the paths on which every build depends: our files, and search paths of programs."""
    return [
        *(path for folder in FOLDERS for path in list_own_files(str(folder))),
        *PYTHON_PATH,
        *os.environ.get("PATH", "").split(os.pathsep),
    ]


def list_own_files(folder: str) -> Iterator[str]:
    """Yield the files below one of firmwright's folders, except the bytecode of Python."""
    with os.scandir(folder) as entries:
        for entry in sorted(entries, key=lambda entry: entry.name):
            if not entry.is_dir():
                yield entry.path
            elif entry.name != "__pycache__":
                yield from list_own_files(entry.path)
