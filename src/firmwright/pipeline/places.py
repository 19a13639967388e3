"""Locations of a recipe's keys: on the command line or in the recipe's file."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from doit import get_var

from firmwright.documents.document import make_diagnostic_in
from firmwright.documents.yaml_text import Pointer
from firmwright.errors import Diagnostic, DiagnosticError, UserError
from firmwright.recipe import Recipe
from firmwright.recipe.overrides import find_override, list_overrides


def read_overrides() -> dict[str, str]:
    """Return the arguments of the command line that replace values of a recipe, by name."""
    given = {name: get_var(name) for name in list_overrides()}
    return {name: str(value) for name, value in given.items() if value is not None}


def locate_key(recipe: Recipe, pointer: Pointer, message: str) -> Diagnostic:
    """Return ``message`` at the argument that replaces a key, or else at the recipe's key."""
    override = find_override(pointer, read_overrides())
    if override is not None:
        return Diagnostic(override, 0, 0, message)
    return make_diagnostic_in(recipe.path, pointer, message)


@contextmanager
def error_at_key(recipe: Recipe, pointer: Pointer) -> Iterator[None]:
    """Raise a UserError of the block as a DiagnosticError at the recipe's key."""
    try:
        yield
    except UserError as error:
        raise DiagnosticError([locate_key(recipe, pointer, str(error))]) from None
