"""Reads command-line values for recipe keys, and raises errors at a recipe's key."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from doit import doit_cmd

from firmwright.documents.yaml_text import Pointer
from firmwright.errors import DiagnosticError, UserError
from firmwright.recipe.overrides import is_key, list_overrides
from firmwright.recipe.recipe import Recipe


def read_overrides() -> dict[str, str]:
    """Return the values of the command line for recipe keys.

    Short names come first, in the order of the schema.
    """
    given = doit_cmd._CMDLINE_VARS or {}
    ordered = dict.fromkeys([*(name for name in list_overrides() if name in given), *given])
    return {name: str(given[name]) for name in ordered if is_key(name)}


@contextmanager
def error_at_key(recipe: Recipe, pointer: Pointer) -> Iterator[None]:
    """Convert a UserError of the block to a DiagnosticError at a recipe's key."""
    try:
        yield
    except UserError as error:
        raise DiagnosticError([recipe.make_diagnostic(pointer, str(error))]) from None
