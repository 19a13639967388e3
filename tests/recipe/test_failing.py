"""Every folder of tests/failing holds a recipe with mistakes and the messages it must give.

A case with a ``platform.yaml`` holds a platform with mistakes instead.
``overrides.txt``, where present, has one ``name=value`` of the command line a line.
``python -m pytest tests/recipe/test_failing.py --refresh`` writes the messages anew.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from firmwright.errors import DiagnosticError
from firmwright.recipe import Catalog, load_recipe
from firmwright.toolchain import load_platform

FAILING = Path(__file__).parents[1] / "failing"
CASES = sorted(folder.name for folder in FAILING.iterdir() if folder.is_dir())


def read_case(catalogue: Catalog) -> None:
    """Read what the current folder holds, a platform or a recipe."""
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
