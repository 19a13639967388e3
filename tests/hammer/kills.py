"""Builds that are killed at any moment leave no files, and the next build makes the same bundle.

``python -m tests.hammer.kills [--count 40] [--seconds S] [--seed 0] [--first 0]``
"""

from __future__ import annotations

import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from tests.hammer.campaign import FindingError, list_processes, run_campaign
from tests.hammer.foreign_code import write_model

RECIPE = """\
model: tiny.onnx
target: c
platform: host
toolchain: {toolchain}
run: {{samples: 3}}
"""
COMMANDS = (
    ("firmwright.cli", "build", "tiny.yaml"),
    ("firmwright.cli", "build", "tiny.yaml", "-n", "2"),
    ("doit", "-n", "1", "build", "recipe=tiny.yaml"),
    ("doit", "build", "recipe=tiny.yaml"),
)
KILLS = 5
"""Kills per case."""

LONGEST = 600
"""Maximum seconds of a build, and of the processes that a killed build started."""


class BuildFolder:
    """A repository of a recipe with one layer, and the bundle of an undisturbed build."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        toolchain = "gcc" if shutil.which("gcc") else "zig"  # the fastest toolchain here
        write_model(folder / "tiny.onnx")
        (folder / "tiny.yaml").write_text(RECIPE.format(toolchain=toolchain))
        (folder / "dodo.py").write_text("from firmwright.tasks.dodo import *\n")
        began = time.monotonic()
        self.undisturbed = self.finish(COMMANDS[0])
        self.seconds = time.monotonic() - began

    def forget(self) -> None:
        shutil.rmtree(self.folder / "build", ignore_errors=True)

    def start(self, command: tuple[str, ...]) -> subprocess.Popen[str]:
        """Start a build as the leader of a session that contains all its processes."""
        return subprocess.Popen(
            [sys.executable, "-m", *command], cwd=self.folder, start_new_session=True,
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        )  # fmt: skip

    def finish(self, command: tuple[str, ...]) -> bytes:
        """Build to the end and return the bundle; FindingError if the build fails."""
        process = self.start(command)
        printed = wait_for_all(process)
        if process.returncode:
            raise FindingError(f"{command}: code {process.returncode}: {printed}")
        left = [str(path) for path in self.folder.rglob("*.partial")]
        if left:
            raise FindingError(f"left behind: {', '.join(left)}")
        return (self.folder / "build/tiny/tiny-host.tar.gz").read_bytes()

    def compare(self, command: tuple[str, ...]) -> None:
        """Build to the end; FindingError if the bundle differs from the undisturbed build."""
        if self.finish(command) != self.undisturbed:
            raise FindingError("the bundle is another one")


def wait_for_all(process: subprocess.Popen[str]) -> str:
    """Wait for a build and all its processes; return the output."""
    try:
        printed, _ = process.communicate(timeout=LONGEST)  # the pipe is open while one of them runs
    except subprocess.TimeoutExpired:
        left = list_processes(process.pid)
        for number in left:
            os.kill(number, signal.SIGKILL)
        raise FindingError(f"still there after {LONGEST} s: {left}") from None
    return printed


class KillHammer:
    """Kills builds; each build continues where the last one was killed."""

    def __init__(self, builds: BuildFolder, kills: int) -> None:
        self.builds = builds
        self.kills = kills

    def try_case(self, draw: random.Random) -> str:
        """Delete the results, kill some builds, and build to the end."""
        self.builds.forget()
        for _ in range(self.kills):
            while not self.kill_build(draw):
                self.builds.forget()
        self.builds.compare(draw.choice(COMMANDS))
        return f"times {self.kills} kills and then the same bundle"

    def kill_build(self, draw: random.Random) -> bool:
        """Kill a build at some moment; False if it ended before."""
        process = self.builds.start(draw.choice(COMMANDS))
        time.sleep(draw.uniform(0, self.builds.seconds))
        whom, number = draw.choice(("all", "main", "last")), draw.choice(SIGNALS)
        killed = kill(process, whom, number)
        printed = wait_for_all(process)
        # Python itself reports ctrl-C during its start.
        if "Traceback" in printed and "KeyboardInterrupt" not in printed:
            raise FindingError(f"{number.name} to {whom}: {printed}")
        return killed


SIGNALS = (signal.SIGKILL, signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


def kill(process: subprocess.Popen[str], whom: str, number: signal.Signals) -> bool:
    """Signal all processes of a build, the first or the last one; False if there is none."""
    running = list_processes(process.pid)
    chosen = {"all": running, "main": running[:1], "last": running[-1:]}[whom]
    for each in chosen:
        try:
            os.kill(each, number)
        except ProcessLookupError:
            return False
    return bool(chosen)


def main(arguments: list[str]) -> int:
    with tempfile.TemporaryDirectory() as folder:
        hammer = KillHammer(BuildFolder(Path(folder)), KILLS)
        return run_campaign("tests.hammer.kills", hammer.try_case, arguments, 40)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
