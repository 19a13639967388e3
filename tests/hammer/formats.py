"""Files, answers of servers, and names are read, or rejected with a message.

``python -m tests.hammer.formats [--count 10000] [--seconds S] [--seed 0] [--first 0]``
"""

from __future__ import annotations

import random
import resource
import sys
import tempfile
import traceback
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from firmwright.errors import UserError
from tests.hammer.campaign import FindingError, OutOfTime, Watch, limit_time, run_campaign
from tests.hammer.child import try_in_child
from tests.hammer.format_table import Target, make_targets
from tests.hammer.kills import BuildFolder

SECONDS = 60
MEMORY = 2 << 30
"""Address space of a child in bytes, in addition to the space of this process."""
LONGEST_MESSAGE = 100_000
"""Maximum characters of a readable message."""


class FormatHammer:
    """Tries each case in a new folder; ``bundle`` is a bundle of one layer."""

    def __init__(self, folder: Path, bundle: Path) -> None:
        self.folder = folder
        self.targets = make_targets(folder, bundle)
        self.watch = Watch(folder)
        self.memory = measure_addresses() + MEMORY
        self.tried: Counter[str] = Counter()

    def try_case(self, draw: random.Random) -> str:
        target = draw.choice(self.targets)
        name, content = draw.choice(target.bases)
        content = target.mutate(content, draw)
        with tempfile.TemporaryDirectory(dir=self.folder) as place:
            path = Path(place, name)
            path.write_bytes(content)
            try:
                outcome = self.try_target(target, path, draw)
            except FindingError as finding:
                shown = f"{content[:2000]!r}"
                raise FindingError(f"{target.name}, {name}: {finding}\n{shown}") from None
        self.tried[target.name] += 1
        return outcome

    def try_target(self, target: Target, path: Path, draw: random.Random) -> str:
        if target.is_native:
            return try_in_child(lambda: self.read(target, path, draw), SECONDS, self.memory)
        try:
            with limit_addresses(self.memory), limit_time(SECONDS):
                return self.read(target, path, draw)
        except OutOfTime:
            raise FindingError(f"hangs: more than {SECONDS} s") from None
        except FindingError:
            raise
        except Exception:
            raise FindingError(traceback.format_exc()) from None

    def read(self, target: Target, path: Path, draw: random.Random) -> str:
        try:
            if target.goes_out:
                target.read(path, draw)
            else:
                with self.watch.during_case():
                    target.read(path, draw)
        except UserError as error:
            if not str(error).strip():
                raise FindingError("refused without a word") from None
            if len(str(error)) > LONGEST_MESSAGE:
                raise FindingError(f"a message of {len(str(error)):,} characters") from None
            return "refused"
        return "read"


@contextmanager
def limit_addresses(most: int) -> Iterator[None]:
    """Limit the address space of this process to a number of bytes."""
    before = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (most, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, before)


def measure_addresses() -> int:
    """Return the address space of this process in bytes."""
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    return pages * resource.getpagesize()


def main(arguments: list[str]) -> int:
    with tempfile.TemporaryDirectory() as name:
        builds, folder = Path(name, "builds"), Path(name, "cases")
        builds.mkdir()
        folder.mkdir()
        BuildFolder(builds)
        (bundle,) = builds.glob("build/tiny/*.tar.gz")
        hammer = FormatHammer(folder, bundle)
        code = run_campaign("tests.hammer.formats", hammer.try_case, arguments, 10_000)
        print(", ".join(f"{times:,} {name}" for name, times in sorted(hammer.tried.items())))
        return code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
