"""Runs the command ``firmwright show``, which prints a resolved recipe without a build."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from typing import Any

from firmwright.documents.chain import Layers, read_chain
from firmwright.documents.stated_values import parse_key
from firmwright.documents.yaml_text import format_pointer, list_leaves
from firmwright.errors import UserError, did_you_mean
from firmwright.ir.records import format_record
from firmwright.recipe.load_recipe import load_recipe
from firmwright.recipe.networks_file import load_networks, names_networks
from firmwright.recipe.overrides import complete_key, is_key, list_keys
from firmwright.recipe.value_origins import (
    Origins,
    format_difference,
    format_history,
    format_recipe,
    read_origins,
)
from firmwright.report.outcomes import ResolvedRecipe

from .command_line import (
    check_variables,
    list_overrides_by_platform,
    make_catalog,
    rebase_paths,
    set_variables,
)
from .recipe_arguments import enter_repository, find_layers, find_recipes

SAME, DIFFERS, WRONG = 0, 1, 2
"""Exit codes: success or equal recipes, different recipes, and an error."""


def add_command(commands: Any) -> None:
    sentence = "print the resolved recipe: each value with the file and line that wrote it"
    codes = "exit code: 0, 1 if the recipe differs from the recipe of --against, 2 for an error"
    show = commands.add_parser("show", help=sentence, description=sentence, epilog=codes)
    show.add_argument(
        "arguments", nargs="+", metavar="RECIPE", help="a recipe, RECIPE:OVERLAY, or name=value"
    )
    forms = show.add_mutually_exclusive_group()
    forms.add_argument("--json", action="store_true", help="print JSON: values and origins")
    forms.add_argument("--key", help="print one value and all values that it replaced")
    forms.add_argument("--against", metavar="RECIPE", help="print the differences from this recipe")


def run_command(options: argparse.Namespace) -> int:
    given = [name if "=" in name else f"recipe={name}" for name in options.arguments]
    enter_repository()
    set_variables(given)
    try:
        check_variables()
        recipes = find_recipes()
        if len(recipes) != 1:
            raise UserError(f"show supports one recipe, found {len(recipes)}; name one recipe")
        shown = resolve(recipes[0])
        if options.against is not None:
            return print_difference(shown, find_layers(options.against))
        print(format_as(shown, options))
    except UserError as error:
        print(error, file=sys.stderr)
        return WRONG
    return SAME


def resolve(layers: Layers) -> Origins:
    """Return a recipe with the values of the command line.

    Raises UserError if the recipe has errors.
    """
    overrides, *others = list_overrides_by_platform()
    if others:
        raise UserError("show prints a recipe for one platform; name one with platform=")
    catalog = make_catalog()
    if names_networks(layers):
        load_networks(layers, catalog)
        return read_origins(layers, read_chain(layers).document.data)
    recipe = load_recipe(layers, rebase_paths(overrides, layers.path), catalog)
    return read_origins(recipe.layers, recipe.data)


def format_as(shown: Origins, options: argparse.Namespace) -> str:
    """Return the text that the options request.

    Raises UserError if the recipe does not have the requested key.
    """
    if options.json:
        origins = {format_pointer(p): shown.find(p) for p, _ in list_leaves(shown.data)}
        record = ResolvedRecipe(dict(shown.data), origins)
        return format_record(record, "resolved_recipe.schema.json").rstrip()
    if options.key is None:
        return format_recipe(shown)
    try:
        pointer = parse_key(complete_key(options.key))
    except ValueError as error:
        raise UserError(f"--key: {error}") from None
    history = format_history(shown, pointer)
    if not history and is_key(options.key):
        raise UserError(
            f"--key {options.key}: the recipe does not set this key, which has no default"
        )
    if not history:
        hint = did_you_mean(options.key, list_keys())
        raise UserError(f"--key {options.key}: the recipe has no such value{hint}")
    return history


def print_difference(shown: Origins, others: Sequence[Layers]) -> int:
    if len(others) != 1:
        raise UserError(f"--against supports one recipe, found {len(others)}; name one recipe")
    lines = format_difference(shown, resolve(others[0]))
    print("\n".join(lines) or "the same")
    return DIFFERS if lines else SAME
