"""Tries the installed TVM, whatever its version: ``python -m tests.quality.canary``.

It reports the names that are gone, and whether a recipe builds. Each step runs in a separate
process, because another TVM may end it by a signal and without a message.
"""

from __future__ import annotations

import signal
import subprocess
import sys
import tempfile
from importlib.metadata import version
from pathlib import Path

from tests.quality.layers import ROOT

BUILD = f"""
import sys
from firmwright import cli, tvm_import
tvm_import.PACKAGES = ()  # no version is wrong here
sys.exit(cli.main(["build", {str(ROOT / "recipes/digits.yaml")!r}, f"outdir={{sys.argv[1]}}"]))
"""
SHOWN = 12
"""Lines of a failed step that are printed."""


def try_step(title: str, folder: Path, *command: str) -> bool:
    """Run Python with a command and report the result; return whether it succeeded.

    TVM writes the place of a crash to a log in ``folder``, the build root.
    """
    done = subprocess.run(
        [sys.executable, *command], cwd=ROOT, capture_output=True, text=True, check=False
    )
    print(f"{title}: {describe_end(done.returncode)}")
    if done.returncode:
        log = folder / ".libraries.log"
        texts = (done.stdout, done.stderr, log.read_text("utf-8") if log.exists() else "")
        lines = [line for text in texts for line in text.splitlines()]
        gone = [line for line in lines if line.startswith("gone: ")]
        for line in gone or lines[:SHOWN]:
            print(f"  {line}")
    return done.returncode == 0


def describe_end(code: int) -> str:
    """Return how a process ended, e.g. "ended by SIGSEGV" for the exit code -11."""
    if code < 0:
        return f"ended by {signal.Signals(-code).name}"
    return f"failed with exit code {code}" if code else "ok"


def main() -> int:
    """Print the versions and the result of each step; return 1 if one failed."""
    print(*(f"{name} {version(name)}" for name in ("apache-tvm", "apache-tvm-ffi")), sep=", ")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        results = [
            try_step("import TVM", folder, "-c", "import tvm"),
            try_step("look for the names", folder, "-m", "tests.quality.tvm_names"),
            try_step("build digits", folder, "-c", BUILD, name),
        ]
    return not all(results)


if __name__ == "__main__":
    sys.exit(main())
