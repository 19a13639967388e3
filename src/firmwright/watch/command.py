"""Builds again after each change of a file, in forks of a process that has imported all modules.

Most of the time of a small build is the start of Python and the import of TVM. The watching
process never builds. A fork builds, and reports the modules that it imported and the files that it
read. So no state of one build remains for the next, and each result equals a separate build.
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
"""Seconds between two checks of the files, and between two checks that must agree.

A check of a thousand files needs as much time as REST. If Linux reports a change, the next check is
immediate. A file that changes later, during the build, causes another build.
"""

WAITING = "waiting for a change; ctrl-C ends"

STATEFUL = "firmwright.tasks.dodo"
"""The module of the task file, which reads the command line during its import."""

PACKAGES = (sysconfig.get_path("purelib"), sysconfig.get_path("platlib"))
"""Folders that change when a package is installed or removed."""


def watch(
    build: Callable[[], int], list_paths: Callable[[], Iterable[str]], recipes: Sequence[str]
) -> int:
    """Build, and build again after each change of a file, until ctrl-C; return the exit code.

    ``list_paths`` is called after the build, in the same process. If no recipe could be read, the
    ``recipes`` and the files of every build are watched.
    """
    # Set the handler, because background processes of a shell script ignore the signal.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    with suppress(KeyboardInterrupt):
        with FileWatcher() as alarm:
            build_until_code_changes(partial(build_here, build, list_paths), recipes, alarm)
        start_again()
    return 0


def build_until_code_changes(
    build: Callable[[], BuildResult], recipes: Sequence[str], alarm: FileWatcher
) -> None:
    """Build after each change of a file, until the code of this process has changed."""
    paths: Sequence[str] = [*recipes, *snapshot.list_always()]
    begun, before, after = 0, dict[str, Identity](), dict[str, Identity]()
    while True:
        with WarmProcess(build) as copy:
            if after:
                changed = list_changed_since(begun, before, after)
                before = after if changed else wait_for_change(after, alarm)
                changed = changed or [path for path in after if before[path] != after[path]]
                print(f"changed: {name_changed(changed)}", file=sys.stderr, flush=True)
                if any(map(is_in_memory, changed)):
                    return
                snapshot.find_snapshot().unlink(missing_ok=True)  # the build need not check it
            begun = time.time_ns()
            result = copy.build()
            paths = result.paths or paths
            after = identify(paths)
            if result.modules:
                import_all(result.modules)
                read_own_files()
            ANSWERS.update((tuple(question), answer) for question, answer in result.answers)
            print(WAITING, file=sys.stderr, flush=True)


def build_here(build: Callable[[], int], list_paths: Callable[[], Iterable[str]]) -> BuildResult:
    """Build in this process. A recipe that cannot be read ends the build with a message."""
    freshness.BEGUN = time.time_ns()
    known = set(sys.modules)
    try:
        build()
        paths = sorted({*list_paths(), *snapshot.list_always()})
    except SystemExit:
        paths = []
    return BuildResult(list_imported(known), paths, [*ANSWERS.items()])


def list_imported(known: Collection[str]) -> list[str]:
    """Return the imported modules except ``known``, the user's modules and the task file."""
    prefixes = (*PREFIXES, sysconfig.get_path("stdlib"), *PACKAGES)
    found = []
    for name, module in [each for each in sys.modules.items() if each[0] not in known]:
        file = getattr(module, "__file__", None) or ""
        if file.startswith(prefixes) and not name.startswith((STATEFUL, "__")):
            found.append(name)
    return found


def import_all(names: Iterable[str]) -> None:
    """Import modules. Some fail, because their package imports them in a special way."""
    for name in names:
        with suppress(ImportError):
            import_module(name)


def read_own_files() -> None:
    """Read the files that no build changes. A change of them restarts this process."""
    code_digest(CODE_FOLDERS)
    list(make_catalog().platforms.values())
    for package in find_deciding_packages():
        with suppress(PackageNotFoundError):
            read_license(package)
    learn_records()


def learn_records() -> None:
    """Let msgspec prepare the classes of records that a build has read, once for all forks."""
    for artifact in vars(artifacts).values():
        if isinstance(artifact, Artifact) and artifact.kind.partition(":")[0] in sys.modules:
            kind = resolve_name(artifact.kind)
            if is_dataclass(kind):
                msgspec.json.Decoder(kind)


def list_changed_since(
    begun: int, before: dict[str, Identity], after: dict[str, Identity]
) -> list[str]:
    """Return the files that changed while a build read them, without folders.

    Folders are left out, because the build itself changes them. A file that is not in
    ``before`` counts if it changed after ``begun``, the start of the build in nanoseconds.
    """
    changed = [
        path
        for path, identity in after.items()
        if (identity != before[path] if path in before else any(t >= begun for t in identity[1:3]))
    ]
    return [path for path in changed if not Path(path).is_dir()]


def wait_for_change(before: dict[str, Identity], alarm: FileWatcher) -> dict[str, Identity]:
    """Wait until files have changed and changes have stopped; return the new identities."""
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
    """Return whether this process has loaded a path: firmwright's code, or a package's folder."""
    own = path.startswith(PREFIXES) and Path(path).suffix in CODE_SUFFIXES
    return own or path in PACKAGES


def start_again() -> None:
    """Replace this process with a new process."""
    os.chdir(get_initial_workdir())
    command = make_command("firmwright.cli", *sys.argv[1:])
    os.execve(command[0], command, make_environment(os.environ))


def name_changed(changed: Sequence[str]) -> str:
    """Return the names of changed files, or of changed folders if no file has changed."""
    files = [path for path in changed if not Path(path).is_dir()]
    return ", ".join(dict.fromkeys(map(shorten, files or changed)))


def shorten(path: str) -> str:
    """Return a path relative to the current folder, if it is below this folder."""
    absolute = Path(path).absolute()
    return str(absolute.relative_to(Path.cwd())) if absolute.is_relative_to(Path.cwd()) else path


class FileWatcher:
    """Sleeps until a change in the folders of files, or for a time if changes are not reported.

    Not every file system reports changes, and the number of watched folders is limited. So only
    the files themselves decide. One object serves all waits, because its close needs up to 20 ms.
    """

    def __init__(self) -> None:
        self.inotify: INotify | None = None
        if sys.platform == "linux":
            from inotify_simple import INotify

            with suppress(OSError):  # the system limits the number of objects per user
                self.inotify = INotify()

    def __enter__(self) -> FileWatcher:
        return self

    def __exit__(self, *_: object) -> None:
        if self.inotify:
            self.inotify.close()

    def listen_beside(self, paths: Iterable[str]) -> None:
        """End the next sleeps at a change in these folders, or in the folders of these files."""
        if not self.inotify:
            return
        from inotify_simple import flags, masks

        changes = flags.MODIFY | flags.ATTRIB | flags.CREATE | flags.DELETE | masks.MOVE
        for folder in {p if os.path.isdir(p) else os.path.dirname(p) for p in paths}:  # noqa: PTH112, PTH120
            with suppress(OSError):  # the folder is missing, or the limit is reached
                self.inotify.add_watch(folder, changes)

    def sleep(self, seconds: float) -> None:
        if self.inotify:
            self.inotify.read(int(seconds * 1000))
        else:
            time.sleep(seconds)
