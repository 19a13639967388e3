"""tests/slow.txt has the format of tests.quality.slow, and names tests that exist."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.quality.slow import (
    FILE,
    ROOT,
    find_limits,
    group_durations,
    list_heavy_files,
    list_slow,
    read_durations,
    replace_lines,
)

REPORT = """<testsuites><testsuite>
<testcase classname="tests.quality.test_slow" name="test_one[a]" time="0.6"/>
<testcase classname="tests.quality.test_slow" name="test_one[b]" time="0.1"/>
<testcase classname="tests.quality.test_slow" name="test_two[a]" time="0.7"/>
<testcase classname="tests.quality.test_slow" name="test_two[b]" time="0.8"/>
<testcase classname="tests.quality.test_layers" name="test_three" time="9"/>
<testcase classname="tests.quality.test_gone" name="test_four" time="9"/>
</testsuite></testsuites>"""


def test_durations_decide(tmp_path: Path) -> None:
    report = tmp_path / "junit.xml"
    report.write_text(REPORT)
    assert list_slow(group_durations(read_durations(report))) == [
        "tests/quality/test_layers.py",
        "tests/quality/test_slow.py::test_one[a]",
        "tests/quality/test_slow.py::test_two",
    ]


@pytest.mark.parametrize(
    ("folder", "seconds", "limit"),
    [
        ("lowering", [0.05] * 10, 0.1),
        ("lowering", [0.2] * 7 + [0.3] * 3, 0.2),
        ("lowering", [0.2] * 6 + [0.3] * 4, 0.3),
        ("e2e", [0.2] * 10, 0.1),
    ],
)
def test_a_folder_has_a_limit(folder: str, seconds: list[float], limit: float) -> None:
    cases = {f"test_{number}": each for number, each in enumerate(seconds)}
    assert find_limits({f"tests/{folder}/test_a.py": cases}) == {folder: limit}


def test_a_file_whose_fast_tests_share_a_long_fixture_is_slow() -> None:
    """The test that needs the time of the fixture is another one in each list of slow tests."""
    durations = {"test_one": 3.0, "test_two": 0.01}
    fast = {"tests/e2e/test_a.py": durations, "tests/lowering/test_a.py": durations}
    assert list_heavy_files({**fast, "tests/e2e/test_b.py": {"test_one": 0.1}}) == {
        "tests/e2e/test_a.py"
    }


def test_lines_of_files_that_were_not_measured_stay() -> None:
    lines = ["tests/a.py", "tests/b.py::test_one[x]"]
    assert replace_lines(lines, ["tests/b.py::test_two"], {"tests/b.py"}) == [
        "tests/a.py",
        "tests/b.py::test_two",
    ]


def test_the_longest_of_several_durations_counts() -> None:
    """Several reports may contain one test."""
    durations = [("tests/a.py", "test_one", 2.0), ("tests/a.py", "test_one", 0.1)]
    assert group_durations(durations) == {"tests/a.py": {"test_one": 2.0}}


def test_slow_tests_exist() -> None:
    lines = FILE.read_text(encoding="utf-8").splitlines()
    assert lines == sorted(set(lines))
    for line in lines:
        file, _, name = line.partition("::")
        function = name.partition("[")[0]
        text = (ROOT / file).read_text(encoding="utf-8") if (ROOT / file).is_file() else ""
        if not re.search(rf"^def {function}\(" if function else ".", text, re.MULTILINE):
            pytest.fail(f"tests/slow.txt names {line}, which is gone: delete the line")
        if re.search(r"[\[-]/\w", name):
            pytest.fail(f"tests/slow.txt names {line}, a path of one machine: give the case an id")
