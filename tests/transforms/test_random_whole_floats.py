"""A few random graphs of whole numbers in float32 in each run of the tests."""

from __future__ import annotations

from pathlib import Path

import pytest

from .random_whole_floats import find_fault


@pytest.mark.needs("gcc")
@pytest.mark.parametrize("seed", [20000, 20007])
def test_the_c_equals_numpy(seed: int, tmp_path: Path) -> None:
    assert find_fault(seed, tmp_path) == ""
