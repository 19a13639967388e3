"""Writes tests/slow.txt from reports: ``python -m tests.quality.slow tests.xml [--fast fast.xml]``

The arguments are files of ``pytest --junitxml``, from a machine without other work. Lines of test
files that are in no argument stay. Without arguments, the command prints the share of fast cases in
each folder of tests.

``--fast`` is the report of ``nox -s fast -- --junitxml=fast.xml`` with the written list. The first
test of a fixture that several tests share needs the time of the fixture. If this test is slow, the
next test needs the time. So a file outside the compiler's folders is slow as a whole if its fast
tests need more than a tenth of a second on average.
"""

from __future__ import annotations

import sys
from argparse import ArgumentParser
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from math import ceil
from pathlib import Path
from xml.etree import ElementTree

import pytest

ROOT = Path(__file__).parents[2]
FILE = ROOT / "tests/slow.txt"

LIMIT = 0.1
"""Seconds, including fixtures: a test that needs less is never slow."""

COMPILER = ("devices", "lowering", "partition", "quantize", "targets", "transforms")
SHARE = 0.7
"""The share of fast tests in the folders of the compiler."""

Durations = Mapping[str, Mapping[str, float]]
"""The seconds of each case, by the file of the tests."""


def read_durations(report: Path) -> Iterator[tuple[str, str, float]]:
    """Yield each test's file, its name with parameters, and its seconds."""
    for case in ElementTree.parse(report).iter("testcase"):
        file = case.get("classname", "").replace(".", "/") + ".py"
        if (ROOT / file).is_file():
            yield file, case.get("name", ""), float(case.get("time", 0))


def group_durations(durations: Iterable[tuple[str, str, float]]) -> Durations:
    """Return the durations of each file. The longest of several durations of a case counts."""
    files: dict[str, dict[str, float]] = defaultdict(dict)
    for file, name, seconds in durations:
        files[file][name] = max(seconds, files[file].get(name, 0))
    return files


def find_limits(files: Durations) -> dict[str, float]:
    """Return the maximum seconds of a fast test, for each folder of tests."""
    folders: dict[str, list[float]] = defaultdict(list)
    for file, cases in files.items():
        folders[find_folder(file)] += cases.values()
    limits = dict.fromkeys(folders, LIMIT)
    for folder in folders.keys() & COMPILER:
        seconds = sorted(folders[folder])
        limits[folder] = max(LIMIT, seconds[ceil(len(seconds) * SHARE) - 1])
    return limits


def find_folder(file: str) -> str:
    """Return the folder in ``tests`` of a test file, whose path begins with ``tests/``."""
    return Path(file).parts[1]


def list_slow(files: Durations) -> list[str]:
    """Return the slow tests: a file or a function if all its tests are slow, or single cases."""
    limits = find_limits(files)
    return sorted(
        line
        for file, cases in files.items()
        for line in list_of_file(file, cases, limits[find_folder(file)])
    )


def list_heavy_files(fast: Durations) -> set[str]:
    """Return the files outside the compiler's folders whose fast tests need more than LIMIT."""
    return {
        file
        for file, cases in fast.items()
        if find_folder(file) not in COMPILER and sum(cases.values()) > LIMIT * len(cases)
    }


def list_of_file(file: str, cases: Mapping[str, float], limit: float) -> Iterator[str]:
    functions: dict[str, list[str]] = defaultdict(list)
    for case in cases:
        functions[case.partition("[")[0]].append(case)
    slow = {case for case, seconds in cases.items() if seconds > limit}
    if len(slow) == len(cases):
        yield file
        return
    for function, its_cases in functions.items():
        if slow.issuperset(its_cases):
            yield f"{file}::{function}"
        else:
            yield from (f"{file}::{case}" for case in its_cases if case in slow)


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
            folder = find_folder(item.path.relative_to(ROOT).as_posix())
            self.cases[folder] += 1
            self.fast[folder] += item.get_closest_marker("slow") is None


def print_shares() -> int:
    """Collect all tests, and print the share of fast cases in each folder."""
    counter = ShareCounter()
    # The project's options are for the terminal, which is off.
    addopts = "addopts=--import-mode=importlib --strict-markers"
    options = ("--collect-only", "-o", addopts, "-p", "no:terminal", "-p", "no:cacheprovider")
    code = pytest.main([*options, str(ROOT / "tests")], plugins=[counter])
    for folder, cases in sorted(counter.cases.items()):
        fast = counter.fast[folder]
        print(f"{folder:15} {fast:5,} of {cases:5,} are fast: {fast / cases:4.0%}")
    return int(code)


def main(arguments: list[str]) -> int:
    parser = ArgumentParser(prog="python -m tests.quality.slow", allow_abbrev=False)
    parser.add_argument("reports", nargs="*", type=Path)
    parser.add_argument("--fast", action="append", default=[], type=Path)
    given = parser.parse_args(arguments)
    if not (given.reports or given.fast):
        return print_shares()
    files = group_durations(each for report in given.reports for each in read_durations(report))
    fast = group_durations(each for report in given.fast for each in read_durations(report))
    if not (files or fast):
        print("no tests of this project are in these files", file=sys.stderr)
        return 2
    heavy = list_heavy_files(fast)
    lines = FILE.read_text(encoding="utf-8").splitlines() if FILE.exists() else []
    slow = (line for line in list_slow(files) if line.partition("::")[0] not in heavy)
    written = replace_lines(lines, [*slow, *heavy], files.keys() | heavy)
    FILE.write_text("".join(f"{line}\n" for line in written), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
