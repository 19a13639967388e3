"""Runs commands in copies of a process that has already imported their modules.

An import of TVM takes a second, and the tests run hundreds of commands. ``python -m tests.warm``
reads one command as JSON per line, and prints the exit code of each command.
"""

from __future__ import annotations

import gc
import json
import os
import pkgutil
import re
import shlex
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import firmwright.stages
from firmwright.pipeline import freshness, snapshot

ROOT = Path(__file__).parents[1]
PROGRAMS = {"doit": "doit.__main__:main", "firmwright": "firmwright.__main__:main"}
IMPORTED = [
    "ai_edge_litert.interpreter",
    "jsonschema",
    "onnxruntime",
    "unicorn",
    *(
        name
        for _, name, _ in pkgutil.walk_packages(firmwright.stages.__path__, "firmwright.stages.")
    ),
    "firmwright.cli",
    "firmwright.devices.cpu.advice",
    "firmwright.devices.cpu.lowering",
    "firmwright.emulator.native",
    "firmwright.emulator.unicorn_emulator",
    "firmwright.pipeline.snapshot_files",
    "firmwright.tasks.pipeline",
    "firmwright.terminal.open_screen",
    "firmwright.terminal.reporter",
    *PROGRAMS.values(),
]
SYNTAX = re.compile(r"[&|;<>~*$]")
"""Characters that require bash."""

LIMIT = 500
"""Maximum seconds of a command."""


class WarmPython:
    """A process that has imported the modules; its copies run the commands."""

    def __init__(self) -> None:
        command, pipe = [sys.executable, "-m", __name__], subprocess.PIPE
        self.process = subprocess.Popen(
            command, cwd=ROOT, stdin=pipe, stdout=pipe, text=True, bufsize=1
        )

    def run(
        self, words: Sequence[str], folder: Path, environment: Mapping[str, str]
    ) -> subprocess.CompletedProcess[str]:
        """Run one of our programs in a folder, with empty input."""
        assert self.process.stdin and self.process.stdout
        with (
            tempfile.NamedTemporaryFile("r", encoding="utf-8") as output,
            tempfile.NamedTemporaryFile("r", encoding="utf-8") as errors,
        ):
            order = {"words": words, "folder": str(folder), "environment": dict(environment)}
            order |= {"output": output.name, "errors": errors.name}
            self.process.stdin.write(json.dumps(order) + "\n")
            code = int(self.process.stdout.readline())
            return subprocess.CompletedProcess(words, code, output.read(), errors.read())

    def close(self) -> None:
        self.process.communicate()


class WarmShell:
    """Runs lines of bash; a line with only one of our commands needs no new Python."""

    def __init__(self, environment: dict[str, str]) -> None:
        self.environment = environment
        self.python = WarmPython()

    def run(self, line: str, folder: Path) -> tuple[int, str]:
        """Run a line in a folder; return its exit code and its output on both streams."""
        words = shlex.split(line)
        if words[0] in PROGRAMS and not SYNTAX.search(line):
            done = self.python.run(words, folder, self.environment)
        else:
            done = subprocess.run(
                ["bash", "-ec", line], cwd=folder, env=self.environment, capture_output=True,
                text=True, timeout=LIMIT, check=False,
            )  # fmt: skip
        return done.returncode, done.stdout + done.stderr

    def close(self) -> None:
        self.python.close()


def serve() -> None:
    """Run commands until the input ends."""
    for name in IMPORTED:
        pkgutil.resolve_name(name)
    gc.freeze()  # a garbage collection in a copy would copy all of these objects
    for line in sys.stdin:
        child = os.fork()
        if not child:
            obey(json.loads(line))
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)


def obey(order: dict[str, Any]) -> None:
    """Run a command in this process and exit, without the teardown of the imported modules."""
    signal.alarm(LIMIT)
    os.environ.clear()
    os.environ.update(order["environment"])
    os.chdir(order["folder"])
    places = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    sys.path[:1] = [order["folder"], *filter(None, places)]
    # Both are values of the start of a process, and the copy has those of this module's start.
    freshness.BEGUN = time.time_ns()
    snapshot.PYTHON_PATH[:] = sys.path
    streams = (
        (os.devnull, os.O_RDONLY),
        (order["output"], os.O_WRONLY),
        (order["errors"], os.O_WRONLY),
    )
    for standard, place in enumerate(streams):
        os.dup2(os.open(*place), standard)
    code: Any = 1
    try:
        sys.argv = order["words"]
        code = pkgutil.resolve_name(PROGRAMS[sys.argv[0]])()
    except SystemExit as end:
        code = end.code
    except BaseException:
        traceback.print_exc()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code or 0)


if __name__ == "__main__":
    serve()
