"""A user's Python code is imported from the recipe's folder and then unloaded."""

from __future__ import annotations

import sys
from pathlib import Path

from firmwright.custom.code import load_custom_function

OBLIGING = """\
import sys
import types

class Obliging(types.ModuleType):
    def __getattr__(self, name):
        return self

sys.modules["obliging"] = Obliging("obliging")

def one():
    return 1
"""


def test_modules_that_have_every_attribute_are_let_be(tmp_path: Path) -> None:
    """torch contains such modules: `torch.ops` treats `__path__` as the name of a namespace."""
    (tmp_path / "own.py").write_text(OBLIGING)
    try:
        with load_custom_function("own:one", tmp_path) as one:
            assert one() == 1
        assert "own" not in sys.modules
    finally:
        sys.modules.pop("obliging", None)
