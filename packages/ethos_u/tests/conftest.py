"""Counts a skipped test as failed if CI_NO_SKIPS is set."""

from __future__ import annotations

import os
from collections.abc import Generator
from typing import Any

import pytest


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, Any]:
    report = yield
    if report.skipped and os.environ.get("CI_NO_SKIPS"):
        report.outcome = "failed"
        report.longrepr = f"skipped, but CI_NO_SKIPS is set: {report.longrepr}"
    return report
