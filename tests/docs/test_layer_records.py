"""The page about the architecture names the records of a layer, which are at most ten."""

from __future__ import annotations

import re
from importlib import import_module
from pathlib import Path

PAGE = Path(__file__).parents[2] / "docs/explanation/architecture.md"
LIMIT = 10


def test_the_records_of_a_layer_exist() -> None:
    text = PAGE.read_text(encoding="utf-8")
    section = text.split("## The records of a layer")[1].split("\n## ")[0]
    rows = re.findall(r"^\| \d+ \| (.*?) \|", section, re.MULTILINE)
    assert 1 < len(rows) <= LIMIT
    for name in re.findall(r"`((?:\w+\.)+[A-Z]\w+)`", section):
        module, _, record = name.rpartition(".")
        assert hasattr(import_module(f"firmwright.{module}"), record), name
