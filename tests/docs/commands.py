"""Finds the commands that the pages show."""

from __future__ import annotations

import re
from pathlib import Path

from tests.quality.test_repository import ROOT, tracked

PAGES = [path for path in tracked() if path.suffix == ".md" and "CHANGELOG" not in path.name]
SHOWN = re.compile(
    r"^```(?P<kind>[^\n]*)\n(?P<fenced>.*?)^```$"
    r"|^(?P<indented>(?: {4}[^\n]*\n)+)"
    r"|`(?P<inline>(?:cc|doit|firmwright|gdb|readelf|source) [^`\n]+)`",
    re.MULTILINE | re.DOTALL,
)
COMMENT = re.compile(r"\s+#.*$")


def read_commands(page: Path) -> list[str]:
    """Return the commands that a page shows, in order.

    These are the lines of indented blocks and ``sh`` blocks, the lines after ``$`` in ``console``
    blocks, and commands within a sentence.
    """
    commands: list[str] = []
    for shown in SHOWN.finditer(page.read_text(encoding="utf-8")):
        if shown["inline"]:
            commands.append(shown["inline"])
        elif shown["kind"] == "console":
            lines = shown["fenced"].splitlines()
            commands += [line.removeprefix("$ ") for line in lines if line.startswith("$ ")]
        elif shown["kind"] in (None, "sh"):
            text = shown["indented"] or shown["fenced"]
            commands += [COMMENT.sub("", line.strip()) for line in text.splitlines()]
    return list(dict.fromkeys(commands))


def name_page(page: Path) -> str:
    return str(page.relative_to(ROOT))
