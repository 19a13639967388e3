"""Which recipe a build folder belongs to: two of one name must not replace each other's results."""

from __future__ import annotations

import os
from pathlib import Path

import yaml

from firmwright.documents.whole_file import write_whole
from firmwright.errors import Diagnostic, DiagnosticError

from .job import Job

OWNER_FILE = ".recipe"
"""In a recipe's build folder: the path of the recipe, as seen from that folder."""


def refuse_taken_folder(job: Job) -> None:
    """Raise DiagnosticError if another recipe of the same name was built into the job's folder."""
    try:
        owner = job.outdir / (job.outdir / OWNER_FILE).read_text("utf-8")
    except OSError:
        return
    path = job.recipe.path
    if not owner.is_file() or owner.samefile(path) or read_name(owner) != job.recipe.name:
        return
    message = (
        f"name: '{job.recipe.name}' is also the name of {os.path.relpath(owner)}, whose build is "
        f"in {job.outdir}; give one of them another `name:`, or build elsewhere with outdir="
    )
    raise DiagnosticError([Diagnostic(str(path), 1, 1, message)])


def read_name(recipe: Path) -> str:
    """Return the name of a recipe, which may have mistakes elsewhere."""
    try:
        data = yaml.safe_load(recipe.read_text("utf-8"))
    except (OSError, ValueError, yaml.YAMLError):
        return ""
    return str(data.get("name", recipe.stem)) if isinstance(data, dict) else ""


def claim_folder(job: Job) -> None:
    """Note in the build folder which recipe it is of; the rest of it says so to nobody."""
    path = Path(os.path.relpath(job.recipe.path, job.outdir))
    write_whole(job.outdir / OWNER_FILE, path.as_posix().encode())


def release_folder(folder: Path) -> None:
    """Remove the note from a build folder in which nothing else is left."""
    if [path.name for path in folder.glob("*")] == [OWNER_FILE]:
        (folder / OWNER_FILE).unlink()
