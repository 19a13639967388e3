"""Makes the jobs of a recipe with several networks.

Each network has a job, and the firmware has a job.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from operator import attrgetter
from pathlib import Path

from msgspec import structs

from firmwright.documents.chain import Layers
from firmwright.documents.stated_values import COMMAND_LINE
from firmwright.errors import Diagnostic, DiagnosticError
from firmwright.recipe.catalog import Catalog
from firmwright.recipe.load_recipe import load_recipe, make_layers
from firmwright.recipe.networks_file import Networks, load_networks, select_exports
from firmwright.recipe.recipe import Recipe
from firmwright.toolchain.descriptions import is_custom_file

from .job import Job, Stage

ALIKE = {
    "toolchain": "build.toolchain.name",
    "cflags": "recipe.cflags",
    "compile_for_device": "recipe.compile_for_device",
    "run.emulator": "recipe.run.emulator",
    "run.board": "board_access",
}
"""Keys whose values must be equal in all recipes of one firmware.

The values of this mapping are the attributes of a job.
"""

DETERMINED_KEYS = ("name", "description", "c_prefix", "arena")
"""Keys that the file of several networks states or determines."""

MakeJob = Callable[[Recipe], Job]


def make_network_jobs(
    layers: Layers,
    rebase_overrides: Callable[[Layers], Mapping[str, str]],
    catalogue: Catalog,
    cache: Path,
    make_job: MakeJob,
    pipeline: tuple[Stage, ...],
) -> list[Job]:
    """Return the jobs of all networks that a recipe names, followed by the firmware's job.

    ``rebase_overrides`` returns the overrides of the command line, in which paths are relative to a
    recipe. ``pipeline`` contains the stages of the firmware. Raises DiagnosticError with the errors
    of all recipes.
    """
    overrides = rebase_overrides(layers)
    reject_determined_keys(overrides)
    exports = select_exports(overrides)
    networks = load_networks(make_layers(layers, exports), catalogue)
    diagnostics: list[Diagnostic] = []
    members: list[Job] = []
    for prefix, file in networks.recipes.items():
        stated = {**networks.list_overrides(file), **rebase_overrides(file)}
        stated = {key: text for key, text in stated.items() if key not in exports}
        try:
            recipe = load_recipe(file, stated, catalogue, cache)
            members.append(share_memory(make_job(networks.make_member(prefix, recipe))))
        except DiagnosticError as error:
            diagnostics.extend(error.diagnostics)
    if diagnostics:
        raise DiagnosticError(diagnostics)
    refuse_differences(members)
    asked = replace(
        networks,
        platform=overrides.get("platform", networks.platform),
        toolchain=overrides.get("toolchain", networks.toolchain),
    )
    return [*members, join_jobs(asked, members, make_job, pipeline)]


def reject_determined_keys(overrides: Mapping[str, str]) -> None:
    """Raise DiagnosticError if overrides contain keys that are valid only in the networks' file."""
    message = "the file of several networks states this key; values go to the networks' recipes"
    names = [name for name in overrides if name.split(".")[0] in DETERMINED_KEYS]
    if names:
        raise DiagnosticError(Diagnostic(COMMAND_LINE, 0, 0, f"{n}: {message}") for n in names)


def share_memory(job: Job) -> Job:
    """Return the job of a network that shares memory, without memory costs.

    All networks of a firmware share the flash and one arena in RAM. Raises DiagnosticError if the
    recipe requests other memories.
    """
    if job.recipe.memory:
        message = "several networks of a firmware share its memory; remove `memory`"
        raise DiagnosticError([job.recipe.make_diagnostic(("memory",), message)])
    memories = {name: replace(m, cost=None) for name, m in job.platform.memories.items()}
    return replace(job, platform=replace(job.platform, memories=memories))


def leave_out_members(jobs: Iterable[Job]) -> list[Job]:
    """Return the jobs except members, because a member is built with the firmware."""
    every = list(jobs)
    members = [member for job in every for member in job.members]
    return [job for job in every if job not in members]


def refuse_differences(members: list[Job]) -> None:
    """Raise DiagnosticError if recipes cannot be built as one firmware."""
    first = members[0]
    diagnostics: list[Diagnostic] = []
    for job in members:
        if job.recipe.slot:
            message = "its network is a separate image; remove `slot`, or build this recipe alone"
            diagnostics.append(job.recipe.make_diagnostic(("slot",), message))
        for key, attribute in ALIKE.items():
            ours, theirs = (attrgetter(attribute)(each) for each in (first, job))
            if ours != theirs:
                message = f"{format_value(theirs)}, but {format_value(ours)} in {first.recipe.path}"
                advice = "all networks of one firmware need the same value"
                pointer = tuple(key.split("."))
                diagnostics.append(job.recipe.make_diagnostic(pointer, f"{message}; {advice}"))
    if diagnostics:
        raise DiagnosticError(diagnostics)


def format_value(value: tuple[str, ...] | str | bool | None) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if value is None:
        return "nothing"
    return value if isinstance(value, str) else f"[{', '.join(value)}]"


def join_jobs(
    networks: Networks, members: list[Job], make_job: MakeJob, pipeline: tuple[Stage, ...]
) -> Job:
    """Return the firmware's job, whose recipe contains the required values of the members."""
    first, board = members[0].recipe, members[0].board_access
    recipe = Recipe(
        path=networks.path,
        layers=networks.layers,
        chain=networks.files,
        name=networks.name,
        model=first.model,
        inputs={},
        platform=networks.platform if is_custom_file(networks.platform) else first.platform,
        target=first.target[-1:],
        rounding=first.rounding,
        toolchain=networks.toolchain or first.toolchain,
        c_prefix=networks.c_prefix,
        cflags=first.cflags,
        batch=None,
        run=structs.replace(
            first.run, board=board and os.path.relpath(board, networks.path.parent)
        ),
        compile_for_device=first.compile_for_device,
        libraries=tuple(library for job in members for library in job.recipe.libraries),
        description=networks.description,
        export=networks.export,
    )
    job = make_job(recipe)
    return replace(
        job,
        pipeline=pipeline,
        platform=members[0].platform,
        build=members[0].build,
        members=tuple(members),
        concurrent=networks.concurrent,
    )
