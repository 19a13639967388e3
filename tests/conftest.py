"""What all tests share: on CI nothing may be skipped."""

from __future__ import annotations

import shutil
from collections.abc import Generator
from typing import Any

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--refresh", action="store_true", help="write what tests/failing expects anew")
    parser.addoption(
        "--no-skips",
        action="store_true",
        help="count a skipped test as failed: for CI, which has every optional tool and model",
    )


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skip a test that ``needs`` programs which are not installed."""
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
