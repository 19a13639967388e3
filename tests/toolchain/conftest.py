"""Fixtures of the tests of platforms and toolchains."""

from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def compiler_cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A compiler cache for the whole run, because the run-time library needs seconds to build."""
    return tmp_path_factory.mktemp("compiler-cache")
