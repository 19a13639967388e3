"""Writes tests/slow.txt from measured durations: ``python -m tests.quality.slow junit.xml ...``

The arguments are the files of ``pytest --junitxml``, from a machine without other work. Lines of
test files that are in no argument stay. Without arguments, the command prints the share of fast
cases in each folder of tests.
"""

from __future__ import annotations

import sys
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from pathlib import Path
from xml.etree import ElementTree

import pytest

ROOT = Path(__file__).parents[2]
FILE = ROOT / "tests/slow.txt"

LIMIT = 1.0
"""Maximum seconds of a test that is not slow, including its fixtures."""


def read_durations(report: Path) -> Iterator[tuple[str, str, float]]:
    """Yield each test's file, its name with parameters, and its seconds."""
    for case in ElementTree.parse(report).iter("testcase"):
        file = case.get("classname", "").replace(".", "/") + ".py"
        if (ROOT / file).is_file():
            yield file, case.get("name", ""), float(case.get("time", 0))


def list_slow(durations: Iterable[tuple[str, str, float]]) -> list[str]:
    """Return the slow tests: a file or a function if all its tests are slow, or single cases."""
    files: dict[str, dict[str, dict[str, float]]] = defaultdict(lambda: defaultdict(dict))
    for file, name, seconds in durations:
        cases = files[file][name.partition("[")[0]]
        cases[name] = max(seconds, cases.get(name, 0))
    return sorted(
        line for file, functions in files.items() for line in list_of_file(file, functions)
    )


def list_of_file(file: str, functions: Mapping[str, Mapping[str, float]]) -> Iterator[str]:
    slow = {name: {c for c, s in cases.items() if s > LIMIT} for name, cases in functions.items()}
    if all(slow[name] == cases.keys() for name, cases in functions.items()):
        yield file
        return
    for name, cases in slow.items():
        is_whole = cases == functions[name].keys()
        yield from [f"{file}::{name}"] if is_whole else (f"{file}::{case}" for case in cases)


def replace_lines(
    lines: Iterable[str], slow: Iterable[str], measured: Collection[str]
) -> list[str]:
    """Return the lines with the lines of the measured files replaced."""
    kept = (line for line in lines if line.partition("::")[0] not in measured)
    return sorted({*kept, *slow})


class ShareCounter:
    """A plugin of pytest that counts the collected cases and the fast cases of each folder."""

    def __init__(self) -> None:
        self.cases: Counter[str] = Counter()
        self.fast: Counter[str] = Counter()

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        for item in session.items:
            folder = item.path.relative_to(ROOT / "tests").parts[0]
            self.cases[folder] += 1
            self.fast[folder] += item.get_closest_marker("slow") is None


def print_shares() -> int:
    """Collect all tests, and print the share of fast cases in each folder."""
    counter = ShareCounter()
    options = ("--collect-only", "-p", "no:terminal", "-p", "no:cacheprovider")
    code = pytest.main([*options, str(ROOT / "tests")], plugins=[counter])
    for folder, cases in sorted(counter.cases.items()):
        fast = counter.fast[folder]
        print(f"{folder:15} {fast:5,} of {cases:5,} are fast: {fast / cases:4.0%}")
    return int(code)


def main(arguments: list[str]) -> int:
    if not arguments:
        return print_shares()
    durations = [each for name in arguments for each in read_durations(Path(name))]
    if not durations:
        print("no tests of this project are in these files", file=sys.stderr)
        return 2
    lines = FILE.read_text(encoding="utf-8").splitlines() if FILE.exists() else []
    measured = {file for file, _, _ in durations}
    written = replace_lines(lines, list_slow(durations), measured)
    FILE.write_text("".join(f"{line}\n" for line in written), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
