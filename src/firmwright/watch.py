"""Builds again after each change of a file, in forks of a process that has imported all modules.

Most of the time of a small build is the start of Python and the import of TVM. The watching process
never builds. A fork builds, and reports the modules that it imported and the files that it read.
Therefore no build inherits the state of an earlier build, and each result equals the result of a
separate build. The fork starts and copies its memory before a build is requested.
"""

from __future__ import annotations

import gc
import json
import os
import signal
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path

from doit import get_initial_workdir

from firmwright.child import make_command, make_environment
from firmwright.folders import PREFIXES
from firmwright.pipeline import freshness, snapshot
from firmwright.pipeline.code_digest import CODE_SUFFIXES
from firmwright.pipeline.freshness import Identity, identify
from firmwright.pipeline.warm import PACKAGES, learn, list_imported, read_fixed_files
from firmwright.process import tell_end
from firmwright.system import CAN_FORK, FolderChanges, accept_signals, fork, hold_signals
from firmwright.toolchain.compilers import ANSWERS, Question

PAUSE, REST = 0.1, 0.002
"""The seconds between two checks of the files, and between two checks that must agree.

A check of a thousand files needs about REST seconds. The next check is immediate if Linux reports a
change. A file that changes during the build causes another build.
"""

WAITING = "waiting for a change; ctrl-C ends"
DIED = "the build's process ended before the build was done; the next change builds again"


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
        with FolderChanges() as alarm:
            build_until_code_changes(partial(build_here, build, list_paths), recipes, alarm)
        start_again()
    return 0


def build_until_code_changes(
    build: Callable[[], BuildResult], recipes: Sequence[str], alarm: FolderChanges
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


def wait_for_change(before: dict[str, Identity], alarm: FolderChanges) -> dict[str, Identity]:
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


@dataclass(frozen=True)
class BuildResult:
    """The report of a build: the modules that it imported, and the paths on which it depends.

    ``paths`` is empty if the paths are unknown. ``answers`` has the outputs of programs, such as a
    compiler's version, and the question for each output.
    """

    modules: Sequence[str]
    paths: Sequence[str]
    answers: Sequence[tuple[Question, str]] = ()


class WarmProcess:
    """The connection to a fork, which builds on request.

    The fork ends after its build, or without a message when this process ends or at ctrl-C.
    """

    def __init__(self, build: Callable[[], BuildResult]) -> None:
        request, self.request = os.pipe()
        self.report, report = os.pipe()
        gc.freeze()  # without this, a garbage collection in the fork would copy all objects
        with hold_signals():
            self.process = fork()
            if not self.process:
                os.close(self.request)
                os.close(self.report)
                live_as_copy(request, report, build)
        os.close(request)
        os.close(report)

    def __enter__(self) -> WarmProcess:
        return self

    def __exit__(self, *_: object) -> None:
        """End the fork and wait for its end.

        At ctrl-C, which both processes receive, the fork may print an error.
        """
        os.close(self.request)
        os.close(self.report)
        os.waitpid(self.process, 0)

    def build(self) -> BuildResult:
        """Request the build, and return the report. Prints a message if the fork dies."""
        with suppress(BrokenPipeError):
            os.write(self.request, b"!")
        with os.fdopen(self.report, encoding="utf-8", closefd=False) as stream:
            text = stream.read()
        if text:
            return BuildResult(**json.loads(text))
        print(DIED, file=sys.stderr)
        return BuildResult((), ())


def live_as_copy(request: int, report: int, build: Callable[[], BuildResult]) -> None:
    try:
        accept_signals()
        touch_memory()
        if os.read(request, 1):
            with os.fdopen(report, "w", encoding="utf-8") as stream:
                json.dump(asdict(build()), stream)
                sys.stdout.flush()
                sys.stderr.flush()
    except (KeyboardInterrupt, SystemExit):
        pass
    except Exception as error:
        tell_end(error)
    finally:
        os._exit(0)


def touch_memory() -> None:
    """Write each object's reference count now, because the first write copies the object's page."""
    gc.unfreeze()
    gc.get_objects()
    gc.freeze()
