"""Reads the argument ``platform=`` of a command line, which names the platforms to build."""

from __future__ import annotations

from typing import TYPE_CHECKING

from doit import get_var

from firmwright.errors import UserError

if TYPE_CHECKING:
    from .job import Job


def read_platforms() -> list[str]:
    """Return the platforms of the comma-separated argument; empty without the argument.

    Raises UserError if a name is empty or occurs twice.
    """
    argument = get_var("platform")
    if argument is None:
        return []
    names = [name.strip() for name in argument.split(",")]
    if "" in names:
        raise UserError(
            f"platform={argument}: a name is missing next to a comma; add it, or remove the comma"
        )
    for name in names:
        if names.count(name) > 1:
            raise UserError(f"platform={argument}: '{name}' is listed twice")
    return names


def name_build(job: Job) -> str:
    """Return the name of a job's build: the recipe, and the platform if there are several.

    The name is part of ``build:digits`` and ``build:digits-rv32-bare``.
    """
    return job.bundle_name if len(read_platforms()) > 1 else job.recipe.name
