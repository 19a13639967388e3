"""Builds again whenever a file changes, in copies of a process that has imported all there is to.

Most of a small build is the start of Python and the import of TVM. The watching process itself
never builds: a copy does, and says what it imported and what it read. So nothing of one build is
left for the next, and a build here gives the bytes of any other.
"""

from __future__ import annotations

import os
import signal
import sys
import sysconfig
import time
from collections.abc import Callable, Collection, Iterable, Sequence
from contextlib import suppress
from dataclasses import is_dataclass
from functools import partial
from importlib import import_module
from importlib.metadata import PackageNotFoundError
from pathlib import Path
from pkgutil import resolve_name
from typing import TYPE_CHECKING

import msgspec
from doit import get_initial_workdir

from firmwright.bundle.components import read_license
from firmwright.child import make_command, make_environment
from firmwright.folders import PREFIXES
from firmwright.pipeline import artifacts, freshness, snapshot
from firmwright.pipeline.artifact import Artifact
from firmwright.pipeline.code_digest import CODE_FOLDERS, CODE_SUFFIXES, code_digest
from firmwright.pipeline.command_line import make_catalog
from firmwright.pipeline.freshness import Identity, identify
from firmwright.pipeline.task import find_deciding_packages
from firmwright.toolchain.compilers import ANSWERS
from firmwright.watch.warm_process import BuildResult, WarmProcess

if TYPE_CHECKING:
    from inotify_simple import INotify


PAUSE, REST = 0.1, 0.002
"""Seconds between two looks at the files, and between two that have to be the same.

A look at a thousand files takes as long as that rest. Where Linux tells of a change, the next look
is at once. What changes later, during the build, is built again.
"""

WAITING = "waiting for a change; ctrl-C ends"

STATEFUL = "firmwright.tasks.dodo"
"""The task file: it reads the command line while it is imported."""

PACKAGES = (sysconfig.get_path("purelib"), sysconfig.get_path("platlib"))
"""Folders that change when a package is installed or removed."""


def watch(
    build: Callable[[], int], list_paths: Callable[[], Iterable[str]], recipes: Sequence[str]
) -> int:
    """Build, and build again after each change of a file, until ctrl-C; return the exit code.

    ``list_paths`` is called behind the build, in its process; what all recipes depend on and the
    ``recipes`` are watched where no recipe could be read.
    """
    # A script's shell lets what it starts in the background ignore the signal.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    with suppress(KeyboardInterrupt):
        with FileWatcher() as alarm:
            build_until_code_changes(partial(build_here, build, list_paths), recipes, alarm)
        start_again()
    return 0


def build_until_code_changes(
    build: Callable[[], BuildResult], recipes: Sequence[str], alarm: FileWatcher
) -> None:
    """Build, and build again after each change of a file, until this process has old code."""
    paths: Sequence[str] = [*recipes, *snapshot.list_always()]
    begun, before, after = 0, dict[str, Identity](), dict[str, Identity]()
    while True:
        with WarmProcess(build) as copy:
            if after:
                changed = list_changed_since(begun, before, after)
                before = after if changed else wait_for_change(after, alarm)
                changed = changed or list_changed(after, before)
                print(f"changed: {name_changed(changed)}", file=sys.stderr, flush=True)
                if any(map(is_in_memory, changed)):
                    return
                snapshot.find_snapshot().unlink(missing_ok=True)  # no build has to look at it
            begun = time.time_ns()
            told = copy.build()
            paths = told.paths or paths
            after = identify(paths)
            if told.modules:
                import_all(told.modules)
                read_own_files()
            ANSWERS.update((tuple(question), answer) for question, answer in told.answers)
            print(WAITING, file=sys.stderr, flush=True)


def build_here(build: Callable[[], int], list_paths: Callable[[], Iterable[str]]) -> BuildResult:
    """Build in this process; a recipe that cannot be read ends it, with a message."""
    freshness.BEGUN = time.time_ns()
    known = set(sys.modules)
    try:
        build()
        paths = sorted({*list_paths(), *snapshot.list_always()})
    except SystemExit:
        paths = []
    return BuildResult(list_imported(known), paths, [*ANSWERS.items()])


def list_imported(known: Collection[str]) -> list[str]:
    """Return what was imported beside ``known``, but for the user's own and the task file's."""
    places = (*PREFIXES, sysconfig.get_path("stdlib"), *PACKAGES)
    found = []
    for name, module in [each for each in sys.modules.items() if each[0] not in known]:
        file = getattr(module, "__file__", None) or ""
        if file.startswith(places) and not name.startswith((STATEFUL, "__")):
            found.append(name)
    return found


def import_all(names: Iterable[str]) -> None:
    """Import modules; some are parts of others, which import them in a way of their own."""
    for name in names:
        with suppress(ImportError):
            import_module(name)


def read_own_files() -> None:
    """Read what no build changes: a change of it starts this process again."""
    code_digest(CODE_FOLDERS)
    list(make_catalog().platforms.values())
    for package in find_deciding_packages():
        with suppress(PackageNotFoundError):
            read_license(package)
    learn_records()


def learn_records() -> None:
    """Let msgspec look at the classes of records that a build has read, once for all copies."""
    for artifact in vars(artifacts).values():
        if isinstance(artifact, Artifact) and artifact.kind.partition(":")[0] in sys.modules:
            kind = resolve_name(artifact.kind)
            if is_dataclass(kind):
                msgspec.json.Decoder(kind)


def list_changed_since(
    begun: int, before: dict[str, Identity], after: dict[str, Identity]
) -> list[str]:
    """Return the files that have changed while a build read them, and only they: it makes folders.

    What was not looked at ``before`` has changed if it did so since the build began, a time in
    nanoseconds.
    """
    changed = [
        path
        for path, identity in after.items()
        if (identity != before[path] if path in before else any(t >= begun for t in identity[1:3]))
    ]
    return [path for path in changed if not Path(path).is_dir()]


def list_changed(before: dict[str, Identity], after: dict[str, Identity]) -> list[str]:
    return [path for path in before if after[path] != before[path]]


def wait_for_change(before: dict[str, Identity], alarm: FileWatcher) -> dict[str, Identity]:
    """Return what is not all as it was, as soon as it is not and has come to rest."""
    alarm.listen_beside(before)
    now = before
    while True:
        last, now = now, identify(before)
        if now == last != before:
            return now
        time.sleep(REST)
        if now == before:
            alarm.sleep(PAUSE)


def is_in_memory(path: str) -> bool:
    """Return whether a path is code of this process: firmwright's, or a package's folder."""
    own = path.startswith(PREFIXES) and Path(path).suffix in CODE_SUFFIXES
    return own or path in PACKAGES


def start_again() -> None:
    """Put a new process in the place of this one."""
    os.chdir(get_initial_workdir())
    command = make_command("firmwright.cli", *sys.argv[1:])
    os.execve(command[0], command, make_environment(os.environ))


def name_changed(changed: Sequence[str]) -> str:
    """Return the names of changed files, of folders only where no file has changed."""
    files = [path for path in changed if not Path(path).is_dir()]
    return ", ".join(dict.fromkeys(map(shorten, files or changed)))


def shorten(path: str) -> str:
    """Return a path as seen from here, if it lies below."""
    absolute = Path(path).absolute()
    return str(absolute.relative_to(Path.cwd())) if absolute.is_relative_to(Path.cwd()) else path


class FileWatcher:
    """Sleeps until something changes in the folders of files, or for a time where none tells.

    Not every file system tells, and only so many folders are told of: the files have the word.
    One alarm serves all waits: to close it takes the system up to 20 ms.
    """

    def __init__(self) -> None:
        self.inotify: INotify | None = None
        if sys.platform == "linux":
            from inotify_simple import INotify

            with suppress(OSError):  # the user has as many as the system grants
                self.inotify = INotify()

    def __enter__(self) -> FileWatcher:
        return self

    def __exit__(self, *_: object) -> None:
        if self.inotify:
            self.inotify.close()

    def listen_beside(self, paths: Iterable[str]) -> None:
        """Have the next sleeps end at a change in these folders, or in those of these files."""
        if not self.inotify:
            return
        from inotify_simple import flags, masks

        changes = flags.MODIFY | flags.ATTRIB | flags.CREATE | flags.DELETE | masks.MOVE
        for folder in {p if os.path.isdir(p) else os.path.dirname(p) for p in paths}:  # noqa: PTH112, PTH120
            with suppress(OSError):  # it is missing, or one too many
                self.inotify.add_watch(folder, changes)

    def sleep(self, seconds: float) -> None:
        if self.inotify:
            self.inotify.read(int(seconds * 1000))
        else:
            time.sleep(seconds)
