"""Commands in environments with a fault exit with the right code and print one line of cause.

``python -m tests.hammer.environments [PART OF A FAULT'S NAME …]``

After each case, a build without the fault must make the bundle of a build that never had a fault.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from tests.hammer.campaign import FindingError, list_processes
from tests.hammer.kills import COMMANDS, LONGEST, BuildFolder

BUILD = ("build", "tiny.yaml")
EMULATED = (*BUILD, "platform=rv32-bare", "toolchain=zig")
LIST = ("list", "tiny.yaml")
INFO = ("info", "tiny.yaml")
PLATFORMS = ("platforms",)
FLEET = ("fleet", "recipe=tiny.yaml", "platform=host", "workers=1")

DONE, FAILED, STOPPED = 0, 1, 2
ANY = (DONE, FAILED)
"""Exit codes for a limit that a machine may or may not reach."""


@dataclass(frozen=True)
class Fault:
    """A shell script that runs the command ``"$@"`` in an environment with a fault.

    ``codes`` are the allowed exit codes. ``line`` is a pattern of the one line on standard error.
    A command that succeeds may print no line, unless ``noted``.
    """

    name: str
    script: str
    codes: tuple[int, ...] = (FAILED,)
    line: str = ""
    commands: tuple[tuple[str, ...], ...] = (BUILD,)
    noted: bool = False


ALL = (BUILD, LIST, PLATFORMS)
SMALL_DISK = 'mount -t tmpfs -o size={size} tmpfs "{folder}" || exit 99; "$@"'
CLOSED, FULL = "standard output is closed", "standard output: No space left on device"
NO_TMPDIR = "TMPDIR=/dev/null/missing: not a writable folder"
NO_LOCKS = "this file system has no locks"
MEMORY = "memory|allocate|map segment|exit code|SIG"
FILES = "open files"
DISK = "No space left|disk|full"

SHORT = (
    Fault("1 GiB of memory", 'ulimit -v 1048576; "$@"', (DONE,), commands=(EMULATED,)),
    Fault("no locks", 'LD_PRELOAD=$PWD/nolocks.so "$@"', (DONE,), NO_LOCKS, noted=True),
    Fault("closed output", '"$@" >&-', (FAILED,), CLOSED, (BUILD, PLATFORMS)),
    Fault("full output", '"$@" >/dev/full', (FAILED,), FULL, (LIST,)),
    Fault("no TMPDIR", 'TMPDIR=/dev/null/missing "$@"', (FAILED,), NO_TMPDIR),
)
LONG = (
    Fault("1 GiB of memory", 'ulimit -v 1048576; "$@"', (DONE,)),
    Fault("closed output", '"$@" >&-', (FAILED,), CLOSED, (LIST,)),
    Fault("full output", '"$@" >/dev/full', (FAILED,), FULL, (BUILD, PLATFORMS)),
    Fault("no TMPDIR", 'TMPDIR=/dev/null/missing "$@"', (FAILED,), NO_TMPDIR, (LIST,)),
    Fault("closed errors", '"$@" 2>&-', (DONE,), commands=ALL),
    Fault("full errors", '"$@" 2>/dev/full', (DONE,), commands=ALL),
    Fault("closed input", '"$@" <&-', (DONE,), commands=ALL),
    Fault("all closed", '"$@" <&- >&- 2>&-', commands=ALL),
    Fault("no HOME", 'unset HOME; "$@"', (DONE,), commands=ALL),
    Fault("a missing HOME", 'HOME=$PWD/missing/home "$@"', (DONE,), commands=ALL),
    Fault("HOME is a file", 'HOME=/dev/null "$@"', (DONE,)),
    Fault("a bad cache folder", 'XDG_CACHE_HOME=/dev/null/x "$@"', (DONE,)),
    Fault("a relative cache folder", 'XDG_CACHE_HOME=x "$@"', (DONE,)),
    Fault("0.5 GiB of memory", 'ulimit -v 524288; "$@"', ANY, MEMORY, (BUILD, LIST)),
    Fault("0.7 GiB of memory", 'ulimit -v 734003; "$@"', ANY, MEMORY, (BUILD, LIST)),
    Fault("0.9 GiB of memory", 'ulimit -v 943718; "$@"', ANY, MEMORY),
    Fault("16 open files", 'ulimit -n 16; "$@"', ANY, FILES, (BUILD, LIST)),
    Fault("24 open files", 'ulimit -n 24; "$@"', ANY, FILES),
    Fault("12 open files", 'ulimit -n 12; "$@"', ANY, FILES, (BUILD, LIST)),
    Fault("small files", 'ulimit -f 8; "$@"', ANY, "File too large|SIGXFSZ|full|have at most"),
    Fault("little processor time", 'ulimit -S -t 2; "$@"', (152, DONE), "SIGXCPU"),
    Fault("a small stack", 'ulimit -s 256; "$@"', ANY, "."),
    Fault("no locks", 'LD_PRELOAD=$PWD/nolocks.so "$@"', (DONE,), NO_LOCKS, (FLEET,)),
    Fault("24 open files", 'ulimit -n 24; "$@"', (STOPPED,), FILES, (FLEET,)),
    Fault("0.5 GiB of memory", 'ulimit -v 524288; "$@"', (STOPPED, *ANY), ".", (FLEET,)),
    Fault("a read-only folder", "mkdir -p build; mount -t tmpfs -o ro tmpfs build && " '"$@"',
          (FAILED,), "cannot write to the build folder build", (BUILD, LIST)),
    Fault("a full cache", "mkdir -p cache; export FIRMWRIGHT_CACHE=$PWD/cache; "
          + SMALL_DISK.format(size="4k", folder="cache"), (DONE,), "."),
    Fault("a read-only cache", 'mkdir -p cache; mount -t tmpfs -o ro tmpfs cache && '
          'FIRMWRIGHT_CACHE=$PWD/cache "$@"', (DONE,), "."),
    Fault("a full TMPDIR", "mkdir -p tmp; export TMPDIR=$PWD/tmp; "
          + SMALL_DISK.format(size="4k", folder="tmp"), ANY, "tmp|space"),
    Fault("a full HOME", "mkdir -p home; export HOME=$PWD/home; "
          + SMALL_DISK.format(size="4k", folder="home"), ANY, "."),
    *(
        Fault(f"a disk of {size} KiB", "mkdir -p build; "
              + SMALL_DISK.format(size=f"{size}k", folder="build"), ANY, DISK)
        for size in (8, 16, 64, 256, 512, 1024, 2048)
    ),
    *(
        Fault(f"another user's {folder}", f"mkdir -p {folder}; chown 12345 {folder}; "
              f"chmod 700 {folder}; {settings}{{without}}", codes, line)
        for folder, settings, codes, line in (
            ("build", "", (FAILED,), "cannot write to the build folder build"),
            ("cache", "export FIRMWRIGHT_CACHE=$PWD/cache; ", (DONE,), "."),
            ("home", "export HOME=$PWD/home; ", (FAILED,), "config.yaml: Permission denied"),
            ("tmp", "export TMPDIR=$PWD/tmp; ", (FAILED,), "TMPDIR="),
        )
    ),
)  # fmt: skip
DETAILS = re.compile(" |command and whole output: ")
"""The lines of a compiler that follow the line of cause."""

AS_ROOT = () if os.getuid() == 0 else ("--map-root-user",)
WITHOUT_RIGHTS = 'setpriv --bounding-set -dac_override,-dac_read_search -- "$@"'
"""Runs a command as root, without the right to access other users' files."""

NO_LOCKS_SOURCE = """\
#include <errno.h>
int flock(int file, int operation) { (void)file; (void)operation; errno = ENOLCK; return -1; }
"""


@dataclass(frozen=True)
class Case:
    fault: Fault
    command: tuple[str, ...]


def list_cases(faults: tuple[Fault, ...]) -> list[Case]:
    return [Case(fault, command) for fault in faults for command in fault.commands]


class EnvironmentHammer:
    """Runs the commands of a table in environments with faults, in one build folder."""

    def __init__(self, builds: BuildFolder) -> None:
        self.builds = builds
        source = builds.folder / "nolocks.c"
        source.write_text(NO_LOCKS_SOURCE)
        library = builds.folder / "nolocks.so"
        subprocess.run(["cc", "-shared", "-fPIC", "-o", library, source], check=True)

    def try_case(self, case: Case) -> str:
        """Run a command with a fault, and build without it; FindingError for any damage."""
        if case.command in (BUILD, EMULATED, FLEET):
            self.builds.forget()
        code, printed = self.run(case)
        judge(case, code, printed)
        self.builds.compare(COMMANDS[0])
        return f"code {code}: {printed.strip()}"

    def run(self, case: Case) -> tuple[int, str]:
        """Return the exit code of a case and the text on standard error."""
        folder = self.builds.folder
        script = case.fault.script.replace("{without}", WITHOUT_RIGHTS)
        program = [sys.executable, "-m", "firmwright", *case.command]
        process = subprocess.Popen(
            ["unshare", *AS_ROOT, "--mount", "bash", "-c", script, "bash", *program],
            cwd=folder, start_new_session=True, stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, errors="replace",
        )  # fmt: skip
        try:
            _, printed = process.communicate(timeout=LONGEST)
        except subprocess.TimeoutExpired:
            raise FindingError(f"{case}: no end after {LONGEST} s") from None
        finally:
            left = list_processes(process.pid)
            for number in left:
                os.kill(number, 9)
            for name in ("build", "cache", "home", "tmp"):
                if (folder / name).exists():
                    os.chown(folder / name, os.getuid(), os.getgid())
        if left:
            raise FindingError(f"{case}: {len(left)} processes are left")
        return process.returncode, printed


def judge(case: Case, code: int, message: str) -> None:
    """Raise FindingError for a wrong exit code, a traceback, or not exactly one line of cause.

    Indented lines, such as the lines of a compiler, may follow that line.
    """
    fault = case.fault
    lines = [line for line in message.splitlines() if line.strip() and not DETAILS.match(line)]
    shown = f"{fault.name}, {' '.join(case.command)}: code {code}: {message}"
    if code not in fault.codes or "Traceback" in message or "fault of firmwright" in message:
        raise FindingError(shown)
    in_report = case.command == FLEET and code == FAILED  # a fleet prints failed jobs as results
    expected = fault.line and (code or fault.noted) and not in_report
    if expected and not (len(lines) == 1 and re.search(fault.line, message)):
        raise FindingError(shown)
    if not fault.line and lines:
        raise FindingError(shown)


def main(words: list[str]) -> int:
    """Try all faults, or faults whose names contain one of the words; 1 if one is a finding."""
    cases = [case for case in list_cases((*SHORT, *LONG)) if is_asked(case, words)]
    began, findings = time.monotonic(), 0
    with tempfile.TemporaryDirectory() as folder:
        hammer = EnvironmentHammer(BuildFolder(Path(folder)))
        for case in cases:
            try:
                message = hammer.try_case(case)
            except FindingError as finding:
                findings += 1
                message = f"FINDING: {finding}"
            print(f"{case.fault.name}, {case.command[0]}: {message}", flush=True)
    print(f"{len(cases)} cases in {time.monotonic() - began:.0f} s, {findings} findings")
    return int(findings > 0)


def is_asked(case: Case, words: list[str]) -> bool:
    return not words or any(word in case.fault.name for word in words)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
