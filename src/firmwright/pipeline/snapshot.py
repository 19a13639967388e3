"""Detects from file states that a build is up to date, before any recipe is read.

A build writes a snapshot when all stages are up to date. The snapshot contains the identities of
all files and folders that each recipe's build depends on. While these files are unchanged, the
build stays up to date for an equal command line. If a file differs, firmwright checks the contents
of all files of the recipes that depend on the file.
"""

from __future__ import annotations

import hashlib
import json
import os
import sys
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
from doit import doit_cmd, get_initial_workdir
from doit.task import Task

from firmwright.checked_file import read_checked, write_checked
from firmwright.errors import UserError
from firmwright.folders import FOLDERS

from .build_root import STATE_FILE, find_build_root
from .freshness import FileState, Identity, identify, is_settled, text_digest
from .profile import SHOWN
from .recipe_arguments import find_recipes, name_build
from .same_recipes import Loose, RecipeText, find_changed, is_same, read_loose

if TYPE_CHECKING:
    from .task import Title

FOLDER = ".snapshots"
"""The folder in the build root that contains one file per command line."""

PYTHON_PATH = [*sys.path]
"""The path of Python at the start, because imported packages of the stages extend the path."""


OF_SHELLS = frozenset({"_", "COLUMNS", "LINES", "OLDPWD", "SHLVL"})
"""Variables that a shell sets for each command according to the last command and the window."""


class UpToDate(msgspec.Struct, frozen=True):
    """A recipe whose build is up to date.

    The reporter recognizes the object as the title of a task. ``task`` is the name of the task that
    builds the recipe. ``title`` is the title of the build. ``bundle`` and ``manifest`` are the
    paths of the results.
    """

    task: str
    title: str
    bundle: str
    manifest: str

    def __call__(self, task: Task) -> str:
        return str(task.name)


def list_finished(titles: Iterable[Title]) -> list[UpToDate]:
    jobs = [title.job for title in titles if title.stage == "bundle" and title.job.origin is None]
    return [
        UpToDate(
            f"build:{name_build(job)}",
            job.title,
            str(job.bundle),
            str(job.folder("bundle") / "manifest.json"),
        )
        for job in jobs
    ]


class KnownRecipe(msgspec.Struct):
    """A recipe in a snapshot.

    ``recipe`` is the recipe's argument on the command line. ``builds`` are the recipe's builds, and
    ``names`` are the names in its tasks. ``paths`` are the positions of the recipe's files in the
    list of the snapshot. ``state`` is the digest of the identities of these files. ``texts`` are
    the files that may change if the recipe stays equal.
    """

    recipe: str
    builds: list[UpToDate]
    names: list[str]
    paths: list[int]
    state: str
    texts: list[RecipeText]


class Content(msgspec.Struct):
    """The content of a snapshot. ``common`` is the digest of the state that all recipes share."""

    common: str
    paths: list[str]
    files: dict[str, Loose]
    recipes: list[KnownRecipe]


@dataclass(frozen=True)
class Snapshot:
    """The recipes of a snapshot in order, the recipes to check again, and all paths."""

    recipes: Sequence[KnownRecipe] = ()
    changed: Sequence[KnownRecipe] = ()
    paths: Sequence[str] = ()

    def list_builds(self) -> list[UpToDate]:
        known = () if self.changed else self.recipes
        return [build for each in known for build in each.builds]


def make_tasks(builds: Sequence[UpToDate]) -> list[Task]:
    """Return the tasks of builds that are up to date, or [] without builds."""
    tasks = [make_finished_task(each) for each in builds]
    names = [task.name for task in tasks]
    return [Task("build", None, task_dep=names, has_subtask=True), *tasks] if tasks else []


def make_finished_task(build: UpToDate) -> Task:
    return Task(build.task, None, uptodate=[True], title=build, subtask_of="build")


def read_current(always: Mapping[str, str] | None = None) -> Snapshot:
    """Return the snapshot of the command line, or an empty snapshot if the circumstances differ."""
    try:
        return read_snapshot(find_snapshot(), collect_circumstances(), always)
    except UserError:  # later code reports the error
        return Snapshot()


def find_finished_bundle(always: Mapping[str, str] | None = None) -> str | None:
    """Return the bundle of a recipe whose build is up to date, or None.

    A recipe with several networks has several builds, so the stages are checked. ``always`` is the
    result of ``look_at_always``, or None if it is unknown.
    """
    builds = read_current(always).list_builds()
    return builds[0].bundle if len(builds) == 1 else None


def find_snapshot() -> Path:
    return find_build_root() / FOLDER / text_digest(json.dumps(list_decisive_arguments()))


def list_decisive_arguments() -> list[tuple[str, str]]:
    given = (doit_cmd._CMDLINE_VARS or {}).items()
    return sorted((name, text) for name, text in given if name not in SHOWN)


def collect_circumstances() -> str:
    """Return the values, except files, that affect a build, including sys.path and PATH."""
    stated = [
        sys.version,
        PYTHON_PATH,
        sorted(item for item in os.environ.items() if item[0] not in OF_SHELLS),
        [str(Path.cwd()), get_initial_workdir()],
        [str(layers) for layers in find_recipes()],
        list_decisive_arguments(),
    ]
    return json.dumps(stated)


def read_snapshot(
    path: Path, circumstances: str, always: Mapping[str, str] | None = None
) -> Snapshot:
    """Return the recipes of a snapshot.

    The result is empty if the snapshot is damaged or the circumstances differ.
    """
    content = read_checked(path)
    if content is None:
        return Snapshot()
    try:
        known = parse(content)
        state = make_lines(identify([str(find_build_root() / STATE_FILE)]))
        common = {**(look_at_always() if always is None else always), **state}
        if known.common != digest_common(circumstances, common, known.files):
            return Snapshot()
        identities = identify(known.paths)
        changed = find_changed(known.files, identities)
        lines = [*make_lines(identities).values()]
    except (ValueError, KeyError, TypeError, msgspec.MsgspecError):  # the format of another version
        return Snapshot()
    if not changed.isdisjoint(
        list_search_paths()
    ):  # Python or the shell may find a new module or program first
        return Snapshot(known.recipes, known.recipes, known.paths)
    differ = [each for each in known.recipes if not holds(each, lines, changed)]
    return Snapshot(known.recipes, differ, known.paths)


def parse(content: bytes) -> Content:
    """Return the content of a snapshot.

    Raises ValueError if the file has the format of another version.
    """
    return msgspec.convert(json.loads(content), Content)


def holds(known: KnownRecipe, lines: Sequence[str], changed: frozenset[str]) -> bool:
    """Return whether a recipe's files are unchanged, or their changes do not affect the recipe."""
    same = known.state == digest_lines([lines[position] for position in known.paths])
    return same and all(is_same(text, changed) for text in known.texts)


@dataclass(frozen=True)
class BuiltRecipe:
    """A recipe whose build is up to date.

    ``recipe``, ``builds``, ``names`` and ``texts`` are the fields of a KnownRecipe. ``written``
    maps the results of stages to their states at the ends of the stages. ``watched`` are all other
    files and folders that affect the results.
    """

    recipe: str
    builds: Sequence[UpToDate]
    names: Iterable[str]
    written: Mapping[str, FileState]
    watched: Iterable[str]
    texts: Sequence[RecipeText] = ()


@dataclass(frozen=True)
class KeptRecipe:
    """A recipe that the build does not affect, its entry in the old snapshot, and its files."""

    known: KnownRecipe
    paths: Sequence[str]


def read_kept(tasks: set[str]) -> list[KeptRecipe]:
    """Return the recipes of the old snapshot whose builds are the ``tasks``."""
    content = read_checked(find_snapshot()) if tasks else None
    if content is None:
        return []
    old = parse(content)
    return [
        KeptRecipe(each, [old.paths[position] for position in each.paths])
        for each in old.recipes
        if tasks >= {build.task for build in each.builds}
    ]


def write_snapshot(
    recipes: Sequence[BuiltRecipe], kept: Sequence[KeptRecipe] = (), order: Sequence[str] = ()
) -> None:
    """Record that recipes are up to date while their files and folders are unchanged.

    The function writes no snapshot if a result has changed since it was written, or if another file
    may have changed since this process began. ``order`` contains the names of all builds if there
    are ``kept`` recipes.
    """
    texts = [text for each in recipes for text in each.texts]
    texts += [text for old in kept for text in old.known.texts]
    files = read_loose(texts)
    written = {path: state for each in recipes for path, state in each.written.items()}
    watched = {path for each in recipes for path in each.watched}
    listed = sorted({*written, *files, *watched, *(path for k in kept for path in k.paths)})
    common = identify([*list_always(), str(find_build_root() / STATE_FILE)])
    identities = identify(listed)
    same = all(identities[path] == list(state[:4]) for path, state in written.items())
    begun = {**common, **identities}
    others = begun.keys() - written - {str(find_build_root() / STATE_FILE)}
    if not (same and all(is_settled(begun[path]) for path in others)):
        return
    positions = {path: position for position, path in enumerate(listed)}
    known = []
    for each in recipes:
        loose = {path for text in each.texts for path in text.paths}
        paths = sorted({*each.written, *each.watched} - loose)
        state = digest_lines(make_lines({path: identities[path] for path in paths}).values())
        names, at = sorted(each.names), [positions[path] for path in paths]
        known.append(KnownRecipe(each.recipe, [*each.builds], names, at, state, [*each.texts]))
    for old in kept:
        at = [positions[path] for path in old.paths]
        known.append(msgspec.structs.replace(old.known, paths=at))
    ranks = {task: rank for rank, task in enumerate(order)}
    known.sort(key=lambda each: ranks.get(each.builds[0].task, 0))
    digest = digest_common(collect_circumstances(), make_lines(common), files)
    content = Content(digest, listed, files, known)
    write_checked(find_snapshot(), json.dumps(msgspec.to_builtins(content)).encode())


def digest_common(circumstances: str, common: Mapping[str, str], files: Container[str]) -> str:
    """Return a digest of the circumstances and of the lines of paths that are not in ``files``."""
    lines = (line for path, line in common.items() if path not in files)
    return digest_lines([circumstances, *lines])


def make_lines(identities: Mapping[str, Identity]) -> dict[str, str]:
    """Map each path to a line with the path and its identity."""
    return {path: f"{path} {identity}\n" for path, identity in identities.items()}


def digest_lines(lines: Iterable[str]) -> str:
    return hashlib.sha256("".join(lines).encode("utf-8", "surrogateescape")).hexdigest()


def look_at_always() -> dict[str, str]:
    """Map each path of ``list_always`` to a line with its identity."""
    return make_lines(identify(list_always()))


def list_always() -> list[str]:
    """Return the paths that every build depends on: firmwright's files and the search paths."""
    return [
        *(path for folder in FOLDERS for path in list_job_files(str(folder))),
        *list_search_paths(),
    ]


def list_search_paths() -> list[str]:
    return [*PYTHON_PATH, *os.environ.get("PATH", "").split(os.pathsep)]


def list_job_files(folder: str) -> Iterator[str]:
    """Yield the files below one of firmwright's folders, except Python bytecode."""
    with os.scandir(folder) as entries:
        for entry in sorted(entries, key=lambda entry: entry.name):
            if not entry.is_dir():
                yield entry.path
            elif entry.name != "__pycache__":
                yield from list_job_files(entry.path)
