"""Every command on a page is valid: its options, variables, names and recipes are known."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from functools import cache
from itertools import product
from pathlib import Path

import pytest

from firmwright.cli import is_recipe, make_parser
from firmwright.fleet.command import VARIABLES as FLEET_VARIABLES
from firmwright.pipeline.command_line import VARIABLES, make_catalog, rebase_paths
from firmwright.pipeline.recipe_arguments import find_layers
from firmwright.recipe.catalog import Catalog
from firmwright.recipe.load_recipe import load_recipe
from firmwright.recipe.overrides import is_key
from tests.quality.test_repository import ROOT

from .commands import PAGES, name_page, read_commands

DOIT_COMMANDS = frozenset(
    "build chip-check clean demo-run fleet forget help info list lock".split()
    + "reproduce run search tune".split()
)
RECIPE_COMMANDS = frozenset(
    "build clean explain export forget graph info list lock search tune watch".split()
)
READERS = (
    *(
        "acme",
        "acne",
        "door",
        "keywords",
        "model",
        "my",
        "my-board",
        "net",
        "policy",
        "product",
        "recipe",
    ),
    "window",
)
"""Recipes, platforms and policies of a reader, not of the repository; one is misspelled."""


def split_commands() -> Iterator[tuple[str, str]]:
    """Yield firmwright's commands in all pages, each with a page that shows it."""
    for page in PAGES:
        for command in read_commands(page):
            for part in re.split(r" (?:&&|\|) ", command):
                if part.startswith(("doit ", "firmwright ")):
                    yield part, name_page(page)


COMMANDS = dict(split_commands())


def test_commands_are_found() -> None:
    assert len(COMMANDS) > 50
    assert {"doit build recipe=recipes/digits.yaml", "firmwright doctor"} <= COMMANDS.keys()


@pytest.mark.parametrize("command", sorted(COMMANDS), ids=lambda c: f"{COMMANDS[c]}: {c}")
def test_the_command_is_known(
    command: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(ROOT)
    program, *words = [word for word in shlex.split(command) if "…" not in word]
    named = parse(words) if program == "firmwright" else parse_doit(words)
    recipes = [word.removeprefix("recipe=") for word in named if is_recipe(word)]
    variables = dict(word.split("=", 1) for word in words if re.match(r"[a-z_]+=", word))
    if words[0] == "fleet":
        assert all(each in FLEET_VARIABLES or is_key(each) for each in variables)
    else:
        assert all(each in VARIABLES or is_key(each) for each in variables)
    check_recipes(recipes, variables, tmp_path)


def parse(words: list[str]) -> list[str]:
    """Return the recipes of a command of firmwright; a command without arguments needs none."""
    takes_recipe = words[0] in RECIPE_COMMANDS
    if takes_recipe and not any(is_recipe(w) and not w.startswith("-") for w in words[1:]):
        words = [*words, "my.yaml"]
    try:
        options = make_parser().parse_args(words)
    except SystemExit as end:
        assert end.code == 0, words  # --help and --version also end the process
        return []
    return getattr(options, "recipes", [])


def parse_doit(words: list[str]) -> list[str]:
    """Return the values after ``recipe=``."""
    named = [word for word in words if not word.startswith("-") and "=" not in word]
    named = [word for word in named if not word.isdigit() and word != "/dev/null"]
    assert not named or named[0] in DOIT_COMMANDS
    return [word for word in words if word.startswith("recipe=")]


@cache
def read_catalog() -> Catalog:
    return make_catalog()


def check_recipes(recipes: list[str], variables: dict[str, str], scratch: Path) -> None:
    """Read each recipe with these variables; the first recipe replaces a reader's recipe."""
    overrides = {k: v for k, v in variables.items() if is_key(k)}
    readers = ("platform", "board")
    overrides = {
        k: v for k, v in overrides.items() if k not in readers or Path(v).stem not in READERS
    }
    platforms = overrides.pop("platform", "").split(",")
    of_each = [{**overrides, **({"platform": name} if name else {})} for name in platforms]
    # Overlays are files on the pages.
    for word in (part.partition(":")[0] for words in recipes for part in words.split(",")):
        is_readers = Path(word).stem in READERS
        for layers, each in product(find_layers("digits" if is_readers else word), of_each):
            load_recipe(layers, rebase_paths(each, layers.path), read_catalog(), scratch)
