"""A few random networks in each run of the tests, and more in the slow tests."""

from __future__ import annotations

import pytest

from .random_placement import find_fault


@pytest.mark.parametrize("seed", [4, 11, 19])
def test_no_choice_of_devices_costs_less(seed: int) -> None:
    assert find_fault(seed) == ""


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(20, 30))
def test_no_choice_of_devices_costs_less_in_more_networks(seed: int) -> None:
    assert find_fault(seed, runs=True) == ""
