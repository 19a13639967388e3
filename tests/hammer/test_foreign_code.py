"""Commands run no code that is only in the folder of a recipe, in a bundle or in a revision."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.hammer.foreign_code import COMMANDS, WAYS, Traps

SHORT = ("build -n 2", "API", "tune", "watch", "fleet", "rebuild", "diff of revisions", "list",
         "info", "explain", "init", "inspect", "completion")  # fmt: skip
"""Commands that together start every kind of process; the full campaign runs the others."""


@pytest.fixture(scope="module")
def traps(tmp_path_factory: pytest.TempPathFactory) -> Traps:
    return Traps(tmp_path_factory.mktemp("traps"))


@pytest.mark.parametrize("way", WAYS)
def test_each_way_runs_code_elsewhere(traps: Traps, way: str, tmp_path: Path) -> None:
    trap = traps.new(tmp_path.name, way)
    trap.run(*WAYS[way].control)
    assert trap.mark.exists()


@pytest.mark.parametrize("command", SHORT)
def test_no_command_runs_foreign_code(traps: Traps, command: str) -> None:
    traps.try_command(COMMANDS[command])
