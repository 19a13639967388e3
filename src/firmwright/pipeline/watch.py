"""Builds again whenever a file changes, in copies of a process that has imported all there is to.

Most of a small build is the start of Python and the import of TVM. The watching process itself
never builds: a copy does, and says what it imported and what it read. So nothing of one build is
left for the next, and a build here gives the bytes of any other.
"""

from __future__ import annotations

import gc
import json
import os
import signal
import sys
import sysconfig
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from importlib import import_module
from pathlib import Path

from doit import get_initial_workdir

from firmwright.toolchain.compilers import ANSWERS, Question

from . import snapshot
from .command_line import make_catalog
from .freshness import read_identity
from .task import CODE_FOLDERS, CODE_SUFFIXES, code_digest, find_deciding_packages

PAUSE, REST = 0.1, 0.01
"""Seconds between two looks at the files, and between two that have to be the same.

A look at a thousand files takes two milliseconds. Where Linux tells of a change, the next look
is at once.
"""

WAITING = "waiting for a change; ctrl-C ends"

STATEFUL = "firmwright.tasks.dodo"
"""The task file: it reads the command line while it is imported."""

PACKAGES = (sysconfig.get_path("purelib"), sysconfig.get_path("platlib"))
"""Folders that change when a package is installed or removed."""

Identities = Mapping[str, Sequence[int]]
"""What the file system keeps of each file; of one that is missing, nothing."""


@dataclass(frozen=True)
class Told:
    """What a build says of itself: what it imported, and what it depends on, if it knows.

    ``answers`` are what programs print, such as a compiler's version, each with the question.
    """

    modules: Sequence[str]
    paths: Sequence[str]
    answers: Sequence[tuple[Question, str]] = ()


def watch(
    build: Callable[[], int], list_paths: Callable[[], Iterable[str]], recipes: Sequence[str]
) -> int:
    """Build, and build again after each change of a file, until ctrl-C; return the exit code.

    ``list_paths`` is called behind the build, in its process; what all recipes depend on and the
    ``recipes`` are watched where no recipe could be read.
    """
    paths: Sequence[str] = [*recipes, *snapshot.list_always()]
    # A script's shell lets what it starts in the background ignore the signal.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        while True:
            begun = time.time_ns()
            told = build_in_copy(build, list_paths)
            paths = told.paths or paths
            before = identify(paths)
            import_all(told.modules)
            ANSWERS.update((tuple(question), answer) for question, answer in told.answers)
            read_own_files()
            print(WAITING, file=sys.stderr, flush=True)
            changed = list_changed_since(begun, before) or wait_for_change(before)
            print(f"changed: {', '.join(map(shorten, changed))}", file=sys.stderr, flush=True)
            if any(map(is_in_memory, changed)):
                start_again()
    except KeyboardInterrupt:
        return 0


def build_in_copy(build: Callable[[], int], list_paths: Callable[[], Iterable[str]]) -> Told:
    """Build in a copy of this process; return what it tells before it ends."""
    reading, writing = os.pipe()
    gc.freeze()  # a collection in the copy would copy all of these objects
    copy = os.fork()
    if not copy:
        os.close(reading)
        with os.fdopen(writing, "w", encoding="utf-8") as stream:
            json.dump(asdict(build_here(build, list_paths)), stream)
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(0)
    os.close(writing)
    try:
        with os.fdopen(reading, encoding="utf-8") as stream:
            told = stream.read()
    finally:  # ctrl-C is for both; the copy has something to say
        os.waitpid(copy, 0)
    return Told(**json.loads(told)) if told else Told((), ())


def build_here(build: Callable[[], int], list_paths: Callable[[], Iterable[str]]) -> Told:
    """Build in this process; a recipe that cannot be read ends it, with a message."""
    snapshot.BEGUN = time.time_ns()
    known = set(sys.modules)
    try:
        build()
        paths = sorted({*list_paths(), *snapshot.list_always()})
    except SystemExit:
        paths = []
    return Told(list_imported(known), paths, [*ANSWERS.items()])


def list_imported(known: Collection[str]) -> list[str]:
    """Return what was imported beside ``known``, but for the user's own and the task file's."""
    places = (snapshot.PACKAGE, sysconfig.get_path("stdlib"), *PACKAGES)
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
    find_deciding_packages()
    make_catalog()


def identify(paths: Iterable[str]) -> Identities:
    found = {}
    for path in paths:
        try:
            found[path] = read_identity(path)
        except OSError:
            found[path] = []
    return found


def list_changed_since(begun: int, now: Identities) -> list[str]:
    """Return the files that have changed since a time, in nanoseconds: a build has read some.

    Folders change by the build itself.
    """
    changed = [path for path, identity in now.items() if any(t >= begun for t in identity[1:3])]
    return [path for path in changed if not Path(path).is_dir()]


def wait_for_change(before: Identities) -> list[str]:
    """Return what is not as it was, as soon as something is not and has come to rest."""
    now = before
    with open_alarm(before) as sleep:
        while True:
            last, now = now, identify(before)
            if now == before:
                sleep(PAUSE)
            elif now == last:
                return [path for path in before if now[path] != before[path]]
            time.sleep(REST)


@contextmanager
def open_alarm(paths: Iterable[str]) -> Iterator[Callable[[float], object]]:
    """Give a sleep, of seconds, that ends early where something changes beside one of the paths.

    Not every file system tells, and only so many folders are told of: the files have the word.
    """
    if sys.platform != "linux":
        yield time.sleep
        return
    from inotify_simple import INotify, flags, masks

    changes = flags.MODIFY | flags.ATTRIB | flags.CREATE | flags.DELETE | masks.MOVE
    try:
        alarm = INotify()
    except OSError:  # the user has as many as the system grants
        yield time.sleep
        return
    with alarm:
        for folder in {p if os.path.isdir(p) else os.path.dirname(p) for p in paths}:  # noqa: PTH112, PTH120
            with suppress(OSError):  # it is missing, or one too many
                alarm.add_watch(folder, changes)
        yield lambda seconds: alarm.read(int(seconds * 1000))


def is_in_memory(path: str) -> bool:
    """Tell whether a path is of code that this process has: firmwright's, or a package's folder."""
    own = path.startswith(snapshot.PACKAGE) and Path(path).suffix in CODE_SUFFIXES
    return own or path in PACKAGES


def start_again() -> None:
    """Put a new process in the place of this one."""
    os.chdir(get_initial_workdir())
    os.execv(sys.executable, [sys.executable, "-m", "firmwright.cli", *sys.argv[1:]])


def shorten(path: str) -> str:
    """Return a path as seen from here, if it lies below."""
    absolute = Path(path).absolute()
    return str(absolute.relative_to(Path.cwd())) if absolute.is_relative_to(Path.cwd()) else path
