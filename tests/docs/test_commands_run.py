"""Every command of the pages runs, in a repository as a reader has it (`reader.py`).

`not_run.yaml` has those that do not, each with the reason.
"""

from __future__ import annotations

import shutil
from fnmatch import fnmatchcase
from pathlib import Path

import pytest
import yaml

from tests.e2e.conftest import Repository

from . import shipping, tutorial
from .commands import PAGES, name_page, read_commands
from .reader import make_repository

NOT_RUN = yaml.safe_load((Path(__file__).parent / "not_run.yaml").read_text(encoding="utf-8"))
PATTERNS = [pattern for patterns in NOT_RUN.values() for pattern in patterns]
FOLLOWED = (tutorial.PAGE, shipping.PAGE)
"""Tests of their own compare what these pages' commands print."""

TELLING = ("doit info ", "firmwright diff ", "firmwright info ")
"""These end with 1 to tell that something differs, or would run."""

COMMANDS = {page: read_commands(page) for page in PAGES if page not in FOLLOWED}


def is_run(command: str) -> bool:
    return not any(fnmatchcase(command, pattern) for pattern in PATTERNS)


RUN = {page: [c for c in commands if is_run(c)] for page, commands in COMMANDS.items()}


def test_the_table_has_only_commands_of_the_pages() -> None:
    shown = [command for commands in COMMANDS.values() for command in commands]
    assert [p for p in PATTERNS if not any(fnmatchcase(c, p) for c in shown)] == []


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Repository:
    folder = tmp_path_factory.mktemp("reader")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("FIRMWRIGHT_CACHE", str(folder / "cache"))
        return make_repository(folder / "prepared")


@pytest.mark.needs("gcc", "git", "make", "openssl", "readelf")
@pytest.mark.parametrize("page", [page for page in RUN if RUN[page]], ids=name_page)
def test_the_commands_of_a_page_run(page: Path, prepared: Repository, tmp_path: Path) -> None:
    folder = shutil.copytree(prepared.folder, tmp_path / "repository", copy_function=shutil.copy2)
    repository = Repository(folder, prepared.environment)
    for step in tutorial.STEP.finditer(page.read_text(encoding="utf-8")):
        if step["file"]:
            repository.write(step["file"], step["text"])
    failed = [f"{c}\n{said}" for c in RUN[page] if (said := find_failure(repository, c))]
    assert not failed, "\n".join(failed)


def find_failure(repository: Repository, command: str) -> str:
    """Run a command, "…" being the recipe `my`; return what it said if it failed, else ""."""
    done = repository.run("bash", "-c", command.replace("…", "my"))
    good = done.returncode <= command.startswith(TELLING)
    return "" if good else f"{done.returncode}: {done.stdout}{done.stderr}"
