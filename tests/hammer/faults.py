"""Full disks, and several builds in one folder: at most an error message, then the same bundle.

``python -m tests.hammer.faults [--count 30] [--seconds S] [--seed 0] [--first 0]``

A full disk is a small file system in memory, in a separate name space (``unshare``).
"""

from __future__ import annotations

import random
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.hammer.campaign import FindingError, run_campaign
from tests.hammer.kills import COMMANDS, BuildFolder, wait_for_all

SMALLEST, LARGEST = 15, 26
"""Sizes of the disks: exponents of two, in bytes."""

ON_A_SMALL_DISK = """
mkdir -p build && mount -t tmpfs -o size=$1 tmpfs build && shift || exit 99
"$@"; code=$?
mount -o remount,size=1g build && "$@" && cp build/tiny/tiny-host.tar.gz ready.tar.gz || exit 98
exit $code
"""
"""Builds on the disk, and builds again when the disk is larger."""


class FaultHammer:
    """Builds a small recipe for this machine on full disks, and several times at once."""

    def __init__(self, builds: BuildFolder) -> None:
        self.builds = builds

    def try_case(self, draw: random.Random) -> str:
        return draw.choice((self.fill_disk, self.build_together))(draw)

    def fill_disk(self, draw: random.Random) -> str:
        """Build on a disk that becomes full at some moment, and build again with free space."""
        size = round(2 ** draw.uniform(SMALLEST, LARGEST))
        self.builds.forget()
        command = [sys.executable, "-m", *draw.choice(COMMANDS)]
        done = subprocess.run(
            ["unshare", "--map-root-user", "--mount", "sh", "-c", ON_A_SMALL_DISK, "sh", str(size),
             *command],
            cwd=self.builds.folder, capture_output=True, text=True, check=False,
        )  # fmt: skip
        printed = done.stdout + done.stderr
        if done.returncode > 1 or "Traceback" in printed:
            raise FindingError(f"a disk of {size:,} bytes: code {done.returncode}: {printed}")
        if (self.builds.folder / "ready.tar.gz").read_bytes() != self.builds.undisturbed:
            raise FindingError(f"a disk of {size:,} bytes: the bundle is another one")
        return "disk was full" if done.returncode else "disk was large enough"

    def build_together(self, draw: random.Random) -> str:
        """Start several builds in one folder at once."""
        self.builds.forget()
        chosen = [draw.choice(COMMANDS) for _ in range(draw.randint(2, 4))]
        for process in [self.builds.start(command) for command in chosen]:
            printed = wait_for_all(process)
            if process.returncode:
                raise FindingError(f"{chosen} at once: code {process.returncode}: {printed}")
        self.builds.compare(COMMANDS[0])
        return f"{len(chosen)} builds at once"


def main(arguments: list[str]) -> int:
    with tempfile.TemporaryDirectory() as folder:
        hammer = FaultHammer(BuildFolder(Path(folder)))
        return run_campaign("tests.hammer.faults", hammer.try_case, arguments, 30)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
