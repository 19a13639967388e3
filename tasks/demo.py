"""demo: an application that shows one inference, built by the C project's Makefile."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from .jobs import Job
from .stage import Stage


def options(job: Job) -> Any:
    canonical = job.recipe.canonical()
    return {key: canonical[key] for key in ("name", "c_prefix", "demo")}


def inputs(_job: Job) -> list[Path]:
    """Return the templates that the application is rendered from."""
    from importlib.resources import files

    folder = Path(str(files("firmwright.templates")))
    return [*sorted((folder / "demo").glob("*.j2")), folder / "application" / "console.j2"]


def run(job: Job, folder: Path) -> None:
    """Write the application's C files, its data those of the run's first sample."""
    from firmwright.codegen.demo import write_demo
    from firmwright.models import ModelInterface
    from firmwright.partition import Partition
    from firmwright.records import read_arrays, read_record

    assert job.recipe.demo is not None
    write_demo(
        job.recipe.name,
        job.recipe.c_prefix,
        job.recipe.demo,
        read_record(job.folder("partition") / "interface.json", ModelInterface),
        read_record(job.folder("partition") / "partition.json", Partition),
        read_arrays(job.folder("run") / "sample.npz"),
        folder,
    )


STAGE = Stage(
    name="demo",
    sentence="write the demo application",
    needs=("partition", "run"),
    code=("codegen", "records.py"),
    options=options,
    inputs=inputs,
    run=run,
)
