"""The short run of tests.hammer.graphs: some random graphs."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.hammer.graphs import make_model, try_model


@pytest.mark.needs("gcc")
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("is_quantized", [False, True])
def test_random_graphs_compile_and_are_right(seed: int, is_quantized: bool, tmp_path: Path) -> None:
    assert try_model(make_model(seed, is_quantized), tmp_path)


@pytest.mark.needs("gcc")
def test_reversed_slice_of_joined_tensors_compiles(tmp_path: Path) -> None:
    """TVM cannot invert the stride of this graph's Slice, so its loops stay separate."""
    assert try_model(make_model(180808, False), tmp_path)
