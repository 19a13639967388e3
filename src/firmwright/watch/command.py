"""Builds again after each change of a file, in forks of a process that has imported all modules.

Most of the time of a small build is the start of Python and the import of TVM. The watching process
never builds. A fork builds, and reports the modules that it imported and the files that it read.
Therefore no build inherits the state of an earlier build, and each result equals the result of a
separate build.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path

from doit import get_initial_workdir

from firmwright.child import make_command, make_environment
from firmwright.folders import PREFIXES
from firmwright.pipeline import freshness, snapshot
from firmwright.pipeline.code_digest import CODE_SUFFIXES
from firmwright.pipeline.freshness import Identity, identify
from firmwright.pipeline.warm import PACKAGES, learn, list_imported, read_fixed_files
from firmwright.system import CAN_FORK, FolderChanges
from firmwright.toolchain.compilers import ANSWERS
from firmwright.watch.warm_process import BuildResult, WarmProcess

PAUSE, REST = 0.1, 0.002
"""The seconds between two checks of the files, and between two checks that must agree.

A check of a thousand files needs about REST seconds. The next check is immediate if Linux reports a
change. A file that changes during the build causes another build.
"""

WAITING = "waiting for a change; ctrl-C ends"


def watch(
    build: Callable[[], int], list_paths: Callable[[], Iterable[str]], recipes: Sequence[str]
) -> int:
    """Build, and build again after each change of a file, until ctrl-C.

    The result is the exit code.

    ``list_paths`` is called after the build, in the process of the build. The ``recipes`` and the
    files of every build are watched if no recipe can be read.
    """
    if not CAN_FORK:
        message = "this system has no fork, which `watch` needs; run `firmwright build`"
        print(message, file=sys.stderr)
        return 2
    # A shell script makes its background processes ignore the signal, so this line sets the
    # handler.
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
                snapshot.find_snapshot().unlink(
                    missing_ok=True
                )  # the build does not check the snapshot
            begun = time.time_ns()
            result = copy.build()
            paths = result.paths or paths
            after = identify(paths)
            if result.modules:
                read_fixed_files()
            learn(result.modules, result.answers)
            print(WAITING, file=sys.stderr, flush=True)


def build_here(build: Callable[[], int], list_paths: Callable[[], Iterable[str]]) -> BuildResult:
    """Build in this process. The build ends with a message if a recipe cannot be read."""
    freshness.BEGUN = time.time_ns()
    known = set(sys.modules)
    try:
        build()
        paths = sorted({*list_paths(), *snapshot.list_always()})
    except SystemExit:
        paths = []
    return BuildResult(list_imported(known), paths, [*ANSWERS.items()])


def list_changed_since(
    begun: int, before: dict[str, Identity], after: dict[str, Identity]
) -> list[str]:
    """Return the files that changed while a build read the files.

    Folders are excluded, because the build itself changes folders. A file that is not in ``before``
    counts if it changed after ``begun``, the start of the build in nanoseconds.
    """
    changed = [
        path
        for path, identity in after.items()
        if (identity != before[path] if path in before else any(t >= begun for t in identity[1:3]))
    ]
    return [path for path in changed if not Path(path).is_dir()]


def wait_for_change(before: dict[str, Identity], alarm: FileWatcher) -> dict[str, Identity]:
    """Wait until files have changed and changes have stopped. Return the new identities."""
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
    is_code = path.startswith(PREFIXES) and Path(path).suffix in CODE_SUFFIXES
    return is_code or path in PACKAGES


def start_again() -> None:
    os.chdir(get_initial_workdir())
    command = make_command("firmwright.cli", *sys.argv[1:])
    os.execve(command[0], command, make_environment(os.environ))


def name_changed(changed: Sequence[str]) -> str:
    """Return the names of changed files, or of changed folders if no file has changed."""
    files = [path for path in changed if not Path(path).is_dir()]
    return ", ".join(dict.fromkeys(map(shorten, files or changed)))


def shorten(path: str) -> str:
    """Return a path relative to the current folder if the path is below this folder."""
    absolute = Path(path).absolute()
    return str(absolute.relative_to(Path.cwd())) if absolute.is_relative_to(Path.cwd()) else path


class FileWatcher(FolderChanges):
    """Sleeps until a change in the folders of files.

    After the sleep, only the files are compared.
    """

    def listen_beside(self, paths: Iterable[str]) -> None:
        """Make the next sleeps end after a change in these folders or these files' folders."""
        self.listen_in({p if os.path.isdir(p) else os.path.dirname(p) for p in paths})  # noqa: PTH112, PTH120
