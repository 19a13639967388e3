"""The word ``platform=`` of a command line: the platforms that each recipe is built for."""

from __future__ import annotations

from typing import TYPE_CHECKING

from doit import get_var

from firmwright.errors import UserError

if TYPE_CHECKING:
    from .job import Job


def read_platforms() -> list[str]:
    """Return what stands between the commas of the word, nothing without it.

    Raises UserError where nothing stands there, or the same twice.
    """
    word = get_var("platform")
    if word is None:
        return []
    names = [name.strip() for name in word.split(",")]
    if "" in names:
        raise UserError(f"platform={word}: a name is missing beside a comma")
    for name in names:
        if names.count(name) > 1:
            raise UserError(f"platform={word}: '{name}' is there twice")
    return names


def name_build(job: Job) -> str:
    """Return the name of the task that builds a job: its recipe's, or each platform's of several.

    It is part of ``build:digits`` and ``build:digits-rv32-bare``.
    """
    return job.bundle_name if len(read_platforms()) > 1 else job.recipe.name
