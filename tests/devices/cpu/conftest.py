"""What the tests of forms share."""

from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder for what compilers keep: zig takes most of a minute for C's library on aarch64."""
    return tmp_path_factory.mktemp("cache")
