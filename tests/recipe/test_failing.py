"""Every folder of tests/failing contains a recipe with errors, and the expected messages.

A case with a ``platform.yaml`` contains a platform with errors instead. ``overrides.txt`` is
optional and contains one ``name=value`` of the command line per line. ``python -m pytest
tests/recipe/test_failing.py --refresh`` updates the messages.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from firmwright.errors import DiagnosticError
from firmwright.recipe.catalog import Catalog
from firmwright.recipe.load_recipe import load_recipe
from firmwright.toolchain import load_platform

FAILING = Path(__file__).parents[1] / "failing"
CASES = sorted(folder.name for folder in FAILING.iterdir() if folder.is_dir())


def read_case(catalogue: Catalog) -> None:
    """Read the platform or the recipe in the current folder."""
    if Path("platform.yaml").exists():
        load_platform("platform.yaml")
        return
    overrides = Path("overrides.txt")
    lines = overrides.read_text("utf-8").splitlines() if overrides.exists() else []
    load_recipe(Path("recipe.yaml"), dict(line.split("=", 1) for line in lines), catalogue)


@pytest.mark.parametrize("case", CASES)
def test_messages(
    case: str,
    catalogue: Catalog,
    monkeypatch: pytest.MonkeyPatch,
    request: pytest.FixtureRequest,
) -> None:
    monkeypatch.chdir(FAILING / case)
    with pytest.raises(DiagnosticError) as raised:
        read_case(catalogue)
    if request.config.getoption("--refresh"):
        Path("expected.txt").write_text(f"{raised.value}\n", "utf-8")
    assert str(raised.value) + "\n" == Path("expected.txt").read_text("utf-8")
