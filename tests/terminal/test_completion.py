"""Completion is tested in bash itself, with the words that it would complete."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from firmwright.cli import make_parser
from firmwright.terminal.completion import render_completion

PROGRAM = """
source ./completion
while read -r line; do
    read -ra COMP_WORDS <<<"${line%|}"
    [[ $line == *' |' ]] && COMP_WORDS+=("")
    COMP_CWORD=$((${#COMP_WORDS[@]} - 1)) COMPREPLY=()
    _firmwright
    printf '%s|' "${COMPREPLY[@]}"
    echo
done
"""

LINES = {
    "firmwright expl": "explain |",
    "firmwright completion b": "bash |",
    "firmwright new b": "board |",
    "firmwright build recipes/no": "|",
    "firmwright build mi": "mine.yaml |",
    "firmwright build yo": "yolo |",
    "firmwright build yolo --jo": "--jobs |",
    "firmwright build yolo --platform cortex-m4": "cortex-m4-bare |",
    "firmwright build yolo platf": "platform=|",
    "doit build recipe = yo": "yolo |",
    "doit build platform = rv32": "rv32-bare |",
    "doit build target = soma": "soma_dory,c |",
    "doit build emulator = uni": "unicorn |",
    "doit build platform=rv32": "platform=rv32-bare |",
    "doit build recipe=m": "recipe=mine.yaml |",
    "doit build outdir = re": "recipes/|",
    "doit inf": "info |",
    "doit build compile_for_device = |": "true |false |",
}
"""The typed words as bash splits them (``|`` is an empty word), and the offered words.

``|`` ends each word. zsh splits the line with name=value in one word.
"""


def test_bash_completes_commands_recipes_and_names(tmp_path: Path) -> None:
    (tmp_path / "mine.yaml").touch()
    (tmp_path / "recipes").mkdir()
    (tmp_path / "recipes/yolo.yaml").touch()
    (tmp_path / "completion").write_text(render_completion("bash", make_parser()))
    done = subprocess.run(
        ["bash", "--norc", "-c", PROGRAM],
        input="".join(f"{line}\n" for line in LINES),
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    )
    assert dict(zip(LINES, done.stdout.splitlines(), strict=True)) == LINES
    assert done.stderr == ""


FISH_LINES = {
    "firmwright expl": ["explain"],
    "firmwright new b": ["board"],
    "firmwright build mi": ["mine.yaml"],
    "firmwright build yo": ["yolo"],
    "firmwright build yolo --jo": ["--jobs"],
    "firmwright build yolo --platform cortex-m4": ["cortex-m4-bare"],
    "doit inf": ["info"],
    "doit build platform=rv32": ["platform=rv32-bare"],
}


@pytest.mark.needs("fish")
def test_fish_completes_commands_recipes_and_names(tmp_path: Path) -> None:
    (tmp_path / "mine.yaml").touch()
    (tmp_path / "recipes").mkdir()
    (tmp_path / "recipes/yolo.yaml").touch()
    (tmp_path / "completion").write_text(render_completion("fish", make_parser()))
    for line, offered in FISH_LINES.items():
        command = ["fish", "--no-config", "-c", f"source completion; complete -C '{line}'"]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True)
        assert [each.split("\t")[0] for each in done.stdout.splitlines()] == offered, line


def test_zsh_gets_the_same_through_its_emulation() -> None:
    script = render_completion("zsh", make_parser())
    assert "autoload -Uz compinit bashcompinit && compinit && bashcompinit" in script
    assert script.endswith(render_completion("bash", make_parser()).partition("bashrc")[2][-600:])
