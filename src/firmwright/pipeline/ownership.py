"""Checks that a job's folders and files do not belong to another recipe or to the user."""

from __future__ import annotations

import json
import os
import shlex
from collections.abc import Iterable, Sequence
from pathlib import Path, PurePath

from firmwright.created_folders import (
    MARKER,
    claim_folder,
    describe_foreign,
    list_foreign_entries,
    mark_all,
    read_owner,
)
from firmwright.documents.chain import Layers, read_chain
from firmwright.documents.whole_file import write_whole
from firmwright.errors import Diagnostic, DiagnosticError, UserError

from .build_root import find_build_root
from .job import Job


def refuse_taken_folder(job: Job) -> None:
    message = describe_other_owner(job) or describe_foreign_files(job)
    if message:
        raise DiagnosticError([Diagnostic(str(job.recipe.path), 1, 1, message)])


def describe_other_owner(job: Job) -> str:
    """Return a message about another recipe that was built into the job's folder, or ''."""
    path = job.recipe.path
    stated = read_owner(job.outdir)
    owner = job.outdir / (stated or "")
    if not stated or not owner.is_file() or owner.samefile(path):
        return ""
    built = f"{os.path.relpath(owner)}, whose build is in {job.outdir}"
    if job.outdir == find_build_root():
        return f"outdir={job.outdir}: has the results of {built}; choose another folder"
    if read_name(owner) != job.recipe.name:
        return ""
    return (
        f"name: '{job.recipe.name}' is also the name of {built}; "
        "change one `name:`, or build elsewhere with outdir="
    )


def describe_foreign_files(job: Job) -> str:
    """Return a message about files in the job's folder that no build wrote, or ''."""
    if job.outdir.is_symlink():
        return f"{job.outdir}: is a symbolic link; remove it, or build elsewhere with outdir="
    foreign = list_foreign_entries(job.outdir)
    if not foreign:
        return ""
    message = describe_foreign(job.outdir, foreign)
    return f"{message}, change the recipe's `name:`, or build elsewhere with outdir="


def read_name(recipe: Path) -> str:
    """Return the name of a recipe even if other parts of the recipe have errors."""
    try:
        return str(read_chain(Layers(recipe)).document.data.get("name", recipe.stem))
    except UserError:
        return ""


def claim_folders(job: Job, stage: Path) -> None:
    """Mark the job's folders above a stage's folder before any file is written.

    Raises UserError if one of the folders is a link, contains foreign files, or belongs to another
    recipe.
    """
    owner = job.origin or job
    recipe = Path(os.path.relpath(owner.recipe.path, owner.outdir))
    claim_folder(owner.outdir, recipe.as_posix())
    mark_all(owner.cache)
    between = [above for above in stage.parents if above.is_relative_to(job.outdir)]
    for above in between:
        if above.is_symlink():
            raise UserError(f"{above}: is a symbolic link; remove the link, and build again")
        if above != job.outdir and (above / MARKER).exists():
            raise UserError(
                f"{above}: is the build folder of another recipe; change the recipe's `name:`"
            )


def find_published_list(job: Job) -> Path:
    return job.outdir / f".{job.bundle_name}.published"


def read_published(job: Job) -> list[str]:
    """Return the names of the files that earlier builds published, beginning with the list file."""
    path = find_published_list(job)
    try:
        names = json.loads(path.read_bytes())
        return [name for name in names if PurePath(name).name == name] if path.name in names else []
    except (OSError, ValueError, TypeError, RecursionError):
        return []


def refuse_foreign_targets(job: Job, targets: Iterable[Path]) -> None:
    """Raise UserError if a file that no build wrote has the path of a published file."""
    published = read_published(job)
    for target in (find_published_list(job), *targets):
        if os.path.lexists(target) and target.name not in published:
            raise UserError(describe_foreign(target.parent, [target.name]))


def publish(job: Job, folder: Path, targets: Sequence[Path]) -> None:
    """Move results from a stage's folder to other locations, and remove results of old builds.

    All files are listed before the first move, because a killed build may have moved some files.
    """
    refuse_foreign_targets(job, targets)
    before, names = read_published(job), [target.name for target in targets]
    write_published(job, {*before, *names})
    note_replaced(job)
    for target in targets:
        (folder / target.name).replace(target)
    for stale in sorted({*before[1:]} - {*names}):
        (job.outdir / stale).unlink(missing_ok=True)
    write_published(job, names)


def note_replaced(job: Job) -> None:
    """Add a note if the bundle replaces a bundle with different overlays or values."""
    files = ":".join(map(os.path.relpath, job.recipe.layers.files))
    given = shlex.join([files, *(f"{key}={text}" for key, text in job.overrides.items())])
    path = find_build_root() / ".recipes" / f"{job.bundle_name}.given"
    if path.is_file() and job.bundle.exists() and (before := path.read_text("utf-8")) != given:
        job.note(f"{job.bundle}: replaces the bundle of `{before}`; use outdir= to keep both")
    path.parent.mkdir(exist_ok=True)
    write_whole(path, given.encode("utf-8", "surrogateescape"))


def write_published(job: Job, names: Iterable[str]) -> None:
    path = find_published_list(job)
    listed = [path.name, *sorted({*names} - {path.name})]
    write_whole(path, json.dumps(listed).encode())


def list_published(job: Job) -> list[Path]:
    """Return the files that earlier builds published, ending with the list file."""
    return [job.outdir / name for name in reversed(read_published(job))]
