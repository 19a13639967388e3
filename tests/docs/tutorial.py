"""Follows a page of the docs, and writes the current output of its commands into it.

``python -m tests.docs.tutorial`` updates the tutorial. In a page, a ``console`` block contains
commands after ``$`` and their output. A block with a caption is the file of that name. A picture
whose description begins with ``$`` shows that command on a terminal.
"""

from __future__ import annotations

import os
import re
import sys
import tempfile
from pathlib import Path

import yaml

from firmwright.data.fetch import find_in_mirror
from firmwright.errors import UserError
from tests.e2e.conftest import ROOT, Repository
from tests.e2e.screenshots import draw

PAGE = ROOT / "docs" / "tutorial" / "index.md"
MODEL = yaml.safe_load((ROOT / "recipes" / "kws.yaml").read_text(encoding="utf-8"))["model"]
STEP = re.compile(
    r"```console\n(?P<console>.*?)```"
    r"|```\{code-block\} \w+\n:caption: (?P<file>\S+)\n(?P<text>.*?)```"
    r"|!\[\$ (?P<command>[^]]+)\]\((?P<picture>[^)]+)\)",
    re.DOTALL,
)


def follow(page: str, repository: Repository, pictures: Path) -> str:
    """Do every step in order; return the page with the output, and write its pictures."""

    def take(step: re.Match[str]) -> str:
        if step["file"]:
            repository.write(step["file"], step["text"])
        elif step["picture"]:
            draw(pictures / Path(step["picture"]).name, repository, step["command"].split())
        else:
            commands = [line for line in step["console"].splitlines() if line.startswith("$ ")]
            return "".join(["```console\n", *(run(repository, c) for c in commands), "```"])
        return step[0]

    return STEP.sub(take, page)


def run(repository: Repository, line: str) -> str:
    """Run one line of a shell; return it with its output, including errors."""
    done = repository.run("sh", "-c", f"exec 2>&1; {line.removeprefix('$ ')}")
    printed = [text.rstrip() for text in done.stdout.splitlines()]
    return "\n".join([line, *printed, ""])


def new_folder(folder: Path) -> Repository:
    """Return a folder with the tutorial's model, which a reader downloads."""
    model = find_in_mirror("", MODEL["sha256"])
    if model is None:
        raise UserError(f"no folder of FIRMWRIGHT_MIRROR holds the model {MODEL['sha256']}")
    (folder / "keywords.tflite").write_bytes(model)
    programs = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    return Repository(folder, {**os.environ, "PATH": programs, "COLUMNS": "80"})


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as scratch:
        page = PAGE.read_text(encoding="utf-8")
        text = follow(page, new_folder(Path(scratch)), ROOT / "docs" / "pictures")
        PAGE.write_text(text, encoding="utf-8")
