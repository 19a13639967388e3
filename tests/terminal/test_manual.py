"""The manual page has every command and option, and no text is a command of roff."""

from __future__ import annotations

import re
import shutil
import subprocess

import pytest

from firmwright.cli import main, make_parser
from firmwright.terminal.arguments import list_commands
from firmwright.terminal.completion import list_candidates
from firmwright.terminal.help_pages import PAGES
from firmwright.terminal.manual import escape
from tests.quality.test_repository import ROOT


@pytest.fixture
def page(capsys: pytest.CaptureFixture[str]) -> str:
    assert main(["man"]) == 0
    return capsys.readouterr().out


def test_each_command_and_option_is_in_the_page(page: str) -> None:
    for name, command in list_commands(make_parser()):
        assert re.search(rf"^\.SS {re.escape(escape(name))}( \w+)?$", page, re.M), name
        for word in {*list_candidates(command)} - {"--help"}:
            assert escape(word) in page, (name, word)
    assert "%(" not in page


def test_each_help_names_a_page_of_the_repository() -> None:
    commands = dict(list_commands(make_parser()))
    for name, command in list(commands.items()):
        commands |= {f"{name} {kind}": inner for kind, inner in list_commands(command)}
    assert PAGES.keys() <= commands.keys()
    for name, command in commands.items():
        found = re.search(r"page: (\S+) in the repository", " ".join(command.format_help().split()))
        assert found and (ROOT / found[1]).is_file(), name


def test_lines_are_texts_or_known_commands_of_roff(page: str) -> None:
    requests = {line.split()[0] for line in page.splitlines() if line.startswith((".", "'"))}
    assert requests == {".TH", ".SH", ".SS", ".B", ".I", ".PP", ".TP"}
    assert escape(".SH a\\b -c") == "\\&.SH a\\eb \\-c"


def test_groff_prints_the_page_without_a_warning(page: str) -> None:
    groff = shutil.which("groff")
    if groff is None:
        pytest.skip("groff is not installed")
    command = [groff, "-man", "-Tutf8", "-ww"]
    done = subprocess.run(command, input=page, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
