"""Proves the stack of the run functions, and compares it with the platform's stack."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from firmwright.codegen.templates import make_environment, render
from firmwright.errors import UserError
from firmwright.pipeline.artifacts import FIRMWARE, OBJECTS
from firmwright.pipeline.job import Job
from firmwright.pipeline.key_errors import error_at_key
from firmwright.project.files import network_file
from firmwright.toolchain import find_compiler
from firmwright.toolchain.layout import FREESTANDING, NETWORK
from firmwright.toolchain.object_files import find_pointed_functions
from firmwright.toolchain.stack_depth import StackDepth, prove_stack

TEMPLATE = "network/stack.h.j2"


def prove_stacks(job: Job, folder: Path, archives: Sequence[Path]) -> dict[str, StackDepth]:
    """Return the stack of each network's run function, by the network's prefix.

    The function also writes a header for each proven stack into ``folder``, which contains the
    linked firmware. ``archives`` are the archives in this firmware. Raises DiagnosticError if the
    platform's stack is too small.
    """
    elf = folder / ("network.elf" if job.recipe.slot else FIRMWARE.file)
    pointers = find_pointed_functions([*list_objects(job), *archives])
    found = {}
    for each in job.members or (job,):
        prefix = each.recipe.c_prefix
        depth = prove_stack(elf, job.platform.architecture, f"{prefix}_run", pointers)
        found[prefix] = depth
        if depth.bytes is None:
            job.note(f"the stack of {prefix}_run is not known: {depth.unknown}")
            continue
        with error_at_key(job.recipe, ("platform",)):
            check_stack(job, prefix, depth.bytes)
        write_header(job, folder, prefix, depth.bytes, elf.name)
    return found


def list_objects(job: Job) -> list[Path]:
    """Return the objects whose function pointers a network can use."""
    objects = sorted(OBJECTS.read(job).rglob("*.o")) if job.has_stage("objects") else []
    return [path for path in objects if path.parent.name in (NETWORK, FREESTANDING)]


def check_stack(job: Job, prefix: str, needed: int) -> None:
    """Raise UserError if a network needs more stack than the platform has."""
    if needed > job.platform.stack:
        raise UserError(
            f"{prefix}_run needs {needed:,} bytes of stack, and '{job.platform.name}' has "
            f"{job.platform.stack:,}; state `stack: {needed}` or more in the platform file"
        )


def write_header(job: Job, folder: Path, prefix: str, needed: int, elf: str) -> None:
    """Write the header with the macro of a network's stack."""
    compiler = find_compiler(job.build.toolchain, job.platform.architecture)
    variables = {
        "prefix": prefix,
        "bytes": needed,
        "elf": elf,
        "compiler": compiler.version,
    }
    text = render(make_environment(), TEMPLATE, variables)
    header = folder / network_file(prefix, "stack.h")
    header.write_text(text, encoding="utf-8", newline="\n")
