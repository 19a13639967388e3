"""The short run of tests.hammer.memory: each network of its list, with one seed."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tests.hammer.campaign import FindingError
from tests.hammer.memory import SANITIZERS, MemoryHammer, compile_and_run, write_program
from tests.hammer.networks import MADE, list_short
from tests.networks.firmware import lowered

pytestmark = pytest.mark.needs("clang")


@pytest.fixture(scope="module")
def hammer(tmp_path_factory: pytest.TempPathFactory) -> MemoryHammer:
    return MemoryHammer(tmp_path_factory.mktemp("memory"))


@pytest.mark.parametrize("name", list_short())
def test_hostile_inputs(hammer: MemoryHammer, name: str) -> None:
    """AddressSanitizer, UBSan and MemorySanitizer report no error, and the network is accepted."""
    assert hammer.check(name, 0) == "silent"


@pytest.mark.parametrize(
    ("sanitizer", "change", "report"),
    [
        ("address", ("malloc(32)", "malloc(31)"), "heap-buffer-overflow"),
        ("memory", ("if (network_run(", "if (0 && network_run("), "use-of-uninitialized-value"),
    ],
)
def test_a_fault_is_found(
    sanitizer: str, change: tuple[str, str], report: str, tmp_path: Path
) -> None:
    network = replace(lowered(MADE["float16"].load()), caller_arena=True)
    text = write_program(network)
    assert change[0] in text
    with pytest.raises(FindingError, match=report):
        compile_and_run(network, text.replace(*change), SANITIZERS[sanitizer], 0, tmp_path)


def test_the_short_run_has_sixty_networks() -> None:
    assert len(list_short()) >= 60
