"""What the user adds to the compiler: strategies of their own, and the libraries they call."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from firmwright.targets import Device

from .jobs import Job


def extension_files(job: Job) -> list[Path]:
    """Return the user's files that strategies come from."""
    from firmwright.models.python_source import source_files

    modules = [reference.partition(":")[0] for reference in job.recipe.extensions]
    folder = job.recipe.path.parent
    return sorted({file for module in modules for file in source_files(module, folder)})


@contextmanager
def extended_mix(job: Job) -> Iterator[tuple[Device, ...]]:
    """Give the devices of the mix with the user's strategies, whose code is loaded in the block."""
    from firmwright.lowering.extensions import extended

    with extended(job.mix, job.recipe.extensions, job.recipe.path) as mix:
        yield mix
