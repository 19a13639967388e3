"""Marks slow tests, skips tests without their programs, and fails a skipped test in CI."""

from __future__ import annotations

import os
import shutil
import signal
from collections.abc import Generator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

TESTS = Path(__file__).parent
SLOW = frozenset((TESTS / "slow.txt").read_text(encoding="utf-8").splitlines())
"""Files, functions and cases that are slow; ``tests/quality/slow.py`` lists them."""

# Two runs of CI try the same examples; `--hypothesis-profile=default` draws new ones. The time
# of an example depends on the other programs of the machine, so no test fails for it.
settings.register_profile(
    "same", derandomize=True, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("same")


def pytest_configure() -> None:
    """Reset two signals, and add the photographs of scikit-learn's package to FIRMWRIGHT_MIRROR."""
    # Under `nohup pytest &`, the programs that tests start would also ignore these signals.
    signal.signal(signal.SIGHUP, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    package = find_spec("sklearn")
    if package and package.origin:
        pictures = Path(package.origin).parent / "datasets" / "images"
        folders = [os.environ.get("FIRMWRIGHT_MIRROR", ""), str(pictures)]
        os.environ["FIRMWRIGHT_MIRROR"] = os.pathsep.join(filter(None, folders))


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--refresh", action="store_true", help="write what tests/failing expects anew")
    parser.addoption(
        "--no-skips",
        action="store_true",
        help="count a skipped test as failed: for CI, which has every optional tool and model",
    )


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the tests that were measured as slow."""
    for item in items:
        file, _, name = item.nodeid.partition("::")
        if not SLOW.isdisjoint((file, f"{file}::{name.partition('[')[0]}", item.nodeid)):
            item.add_marker(pytest.mark.slow)


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skip a test that ``needs`` programs that are not installed."""
    # A command in an earlier test of this process may have set SIGPIPE to its default.
    signal.signal(signal.SIGPIPE, signal.SIG_IGN)
    for marker in item.iter_markers("needs"):
        for program in marker.args:
            if shutil.which(program) is None:
                pytest.skip(f"{program} is not installed")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, Any]:
    report = yield
    if report.skipped and item.config.getoption("--no-skips"):
        report.outcome = "failed"
        report.longrepr = f"skipped, but --no-skips was given: {report.longrepr}"
    return report
