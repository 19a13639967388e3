"""Runs commands in copies of a process that has imported what they import.

An import of TVM takes a second, and the pages have a hundred commands. The lines of
``python -m tests.docs.warm``'s input are commands as JSON; it prints the exit code of each.
"""

from __future__ import annotations

import gc
import json
import os
import pkgutil
import re
import shlex
import subprocess
import sys
import tempfile
import traceback
from pathlib import Path
from typing import Any

import firmwright.steps
from tests.e2e.conftest import ROOT, Repository

PROGRAMS = {"doit": "doit.__main__:main", "firmwright": "firmwright.cli:main"}
IMPORTED = [
    "ai_edge_litert.interpreter",
    "onnxruntime",
    "unicorn",
    *(name for _, name, _ in pkgutil.walk_packages(firmwright.steps.__path__, "firmwright.steps.")),
    *PROGRAMS.values(),
]
SYNTAX = re.compile(r"[&|;<>~*$]")
"""What bash has to read."""


class WarmShell:
    """Runs lines of bash. A line that is a command of ours alone needs no new Python."""

    def __init__(self, environment: dict[str, str]) -> None:
        self.environment = environment
        command, pipe = [sys.executable, "-m", __name__], subprocess.PIPE
        self.process = subprocess.Popen(
            command, cwd=ROOT, env=environment, stdin=pipe, stdout=pipe, text=True, bufsize=1
        )

    def run(self, line: str, folder: Path) -> tuple[int, str]:
        """Run a line in a folder; return its exit code and all that it prints."""
        words = shlex.split(line)
        if words[0] in PROGRAMS and not SYNTAX.search(line):
            return self.run_copy(words, folder)
        done = Repository(folder, self.environment).run("bash", "-ec", line)
        return done.returncode, done.stdout + done.stderr

    def run_copy(self, words: list[str], folder: Path) -> tuple[int, str]:
        assert self.process.stdin and self.process.stdout
        with tempfile.NamedTemporaryFile("r", encoding="utf-8") as output:
            order = {"words": words, "folder": str(folder), "output": output.name}
            self.process.stdin.write(json.dumps(order) + "\n")
            code = int(self.process.stdout.readline())
            return code, output.read()

    def close(self) -> None:
        self.process.communicate()


def serve() -> None:
    """Take commands until there are no more."""
    for name in IMPORTED:
        pkgutil.resolve_name(name)
    gc.freeze()  # a collection in a copy would copy all of these objects
    for line in sys.stdin:
        child = os.fork()
        if not child:
            obey(json.loads(line))
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)


def obey(order: dict[str, Any]) -> None:
    """Run a command in this process and end it, without taking down what was imported."""
    os.chdir(order["folder"])
    places = (os.devnull, os.O_RDONLY), (order["output"], os.O_WRONLY)
    nothing, output = (os.open(*place) for place in places)
    for ours, standard in ((nothing, 0), (output, 1), (output, 2)):
        os.dup2(ours, standard)
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
