"""Every command of the pages runs, in a repository like a reader's (`reader.py`).

`not_run.yaml` lists the commands that do not run, each with the reason.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from fnmatch import fnmatchcase
from pathlib import Path

import pytest
import yaml

from tests.warm import WarmShell

from . import shipping, tutorial
from .commands import PAGES, name_page, read_commands
from .reader import make_repository, open_shell

NOT_RUN = yaml.safe_load((Path(__file__).parent / "not_run.yaml").read_text(encoding="utf-8"))
PATTERNS = [pattern for patterns in NOT_RUN.values() for pattern in patterns]
FOLLOWED = (tutorial.PAGE, shipping.PAGE)
"""Separate tests compare the output of the commands on these pages."""

TELLING = ("doit info ", "firmwright diff ", "firmwright info ", "firmwright show ")
"""These commands exit with 1 to report that files differ, or that stages would run."""

COMMANDS = {page: read_commands(page) for page in PAGES if page not in FOLLOWED}


def is_run(command: str) -> bool:
    return not any(fnmatchcase(command, pattern) for pattern in PATTERNS)


RUN = {page: [c for c in commands if is_run(c)] for page, commands in COMMANDS.items()}


def test_the_table_has_only_commands_of_the_pages() -> None:
    shown = [command for commands in COMMANDS.values() for command in commands]
    assert [p for p in PATTERNS if not any(fnmatchcase(c, p) for c in shown)] == []


@pytest.fixture(scope="module")
def shell(tmp_path_factory: pytest.TempPathFactory) -> Iterator[WarmShell]:
    shell = open_shell(tmp_path_factory.mktemp("home"))
    yield shell
    shell.close()


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory, shell: WarmShell) -> Path:
    folder = tmp_path_factory.mktemp("reader") / "prepared"
    make_repository(folder, shell)
    return folder


@pytest.mark.needs("gcc", "git", "make", "openssl", "readelf")
@pytest.mark.parametrize("page", [page for page in RUN if RUN[page]], ids=name_page)
def test_the_commands_of_a_page_run(
    page: Path, prepared: Path, shell: WarmShell, tmp_path: Path
) -> None:
    folder = shutil.copytree(prepared, tmp_path / "repository", copy_function=shutil.copy2)
    for step in tutorial.STEP.finditer(page.read_text(encoding="utf-8")):
        if step["file"]:
            (folder / step["file"]).parent.mkdir(exist_ok=True)
            (folder / step["file"]).write_text(step["text"], encoding="utf-8")
    failed = [f"{c}\n{said}" for c in RUN[page] if (said := find_failure(shell, folder, c))]
    assert not failed, "\n".join(failed)


def find_failure(shell: WarmShell, folder: Path, command: str) -> str:
    """Run a command, with "…" for the recipe `my`; return the output if it failed, else ""."""
    code, printed = shell.run(command.replace("…", "my"), folder)
    return "" if 0 <= code <= command.startswith(TELLING) else f"{code}: {printed}"
