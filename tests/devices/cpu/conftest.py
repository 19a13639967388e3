"""Fixtures of the tests of forms."""

from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder for compiler caches; zig needs most of a minute for its C library on aarch64."""
    return tmp_path_factory.mktemp("cache")
