"""Vela's results are equal in each run, and correct in each memory mode."""

import numpy as np
import pytest
from firmwright_ethos_u.compiler import compile_network
from firmwright_ethos_u.hardware import HARDWARE, MEMORY_MODES
from single import compare, convolution


def test_same_bytes() -> None:
    network, _ = convolution(np.random.default_rng(1), (12, 12, 20), 40, (3, 3))
    first, second = (compile_network(network, "ethos-u55-64", "shared_sram") for _ in range(2))
    assert first == second


@pytest.mark.parametrize("memory_mode", MEMORY_MODES)
@pytest.mark.parametrize("accelerator", ["ethos-u55-128", "ethos-u65-256"])
def test_memory_mode(accelerator: str, memory_mode: str) -> None:
    network, inputs = convolution(np.random.default_rng(1), (12, 12, 20), 40, (3, 3))
    compare(network, inputs, accelerator, memory_mode)


def test_names_of_accelerators() -> None:
    assert [*HARDWARE] == [
        *("ethos-u55-32", "ethos-u55-64", "ethos-u55-128", "ethos-u55-256"),
        *("ethos-u65-256", "ethos-u65-512"),
    ]
